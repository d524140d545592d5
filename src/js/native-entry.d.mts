/** `deep-factor-providers/native` for `import`. */
export * from "./native-entry.cjs";
