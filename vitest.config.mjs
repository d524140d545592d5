// @ts-check
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["__tests__/**/*.test.ts"],
    // Much of a test is waiting for processes: one core fewer than there are, the default, is left idle by half.
    maxWorkers: "100%",
    // Real CLIs on a loaded machine: a limit for what hangs, not a measure of speed.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
