// @ts-check
import { defineConfig } from "vitest/config";

// Vitest remembers its runs where the repository's own do.
export default defineConfig({ cacheDir: "../../node_modules/.vite", test: { include: ["*.test.mjs"] } });
