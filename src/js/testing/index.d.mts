/** `deep-factor-providers/testing` for `import`. */
export * from "./index.cjs";
