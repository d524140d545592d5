// @ts-check
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["__tests__/**/*.test.ts"],
    // Half of a test's time is waiting, for processes and for limits of time: one worker for each core leaves half of it idle.
    maxWorkers: "200%",
    // Real CLIs on a loaded machine: a limit for what hangs, not a measure of speed.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
