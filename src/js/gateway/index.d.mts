/** `deep-factor-providers/gateway` for `import`. */
export * from "./index.cjs";
