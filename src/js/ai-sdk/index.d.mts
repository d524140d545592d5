/** `deep-factor-providers/ai-sdk` for `import`. */
export * from "./index.cjs";
