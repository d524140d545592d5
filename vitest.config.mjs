// @ts-check
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["__tests__/**/*.test.ts"],
    // Real CLIs on a loaded machine: a limit for what hangs, not a measure of speed.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
