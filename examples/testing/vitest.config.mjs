// @ts-check
import { defineConfig } from "vitest/config";

export default defineConfig({
  // Vitest remembers its runs where the repository's own do.
  cacheDir: "../../node_modules/.vite",
  // A recording waits for a real CLI, which on a loaded machine takes longer than Vitest's own five seconds.
  test: { include: ["*.test.mjs"], testTimeout: 120_000 },
});
