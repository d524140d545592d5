// @ts-check
import { configDefaults, defineConfig } from "vitest/config";

/** What is slow and guards a release: whole suites of CLIs that change seldom here, and other majors of the frameworks. */
const RELEASE = [
  "agent/scenarios-gemini",
  "agent/scenarios-qwen",
  "ai-sdk/newest",
  "ai-sdk/use-chat",
  "clis/frameworks",
  "clis/real-opencode",
  "clis/real-qwen",
  "langchain/core-0.3",
  "langchain/sizes",
].map((name) => `__tests__/${name}.test.ts`);

export default defineConfig({
  test: {
    include: ["__tests__/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...(process.env.TEST_ALL ? [] : RELEASE)],
    // Half of a test's time is waiting, for processes and for limits of time: one worker for each core leaves half of it idle.
    maxWorkers: "200%",
    // Real CLIs on a loaded machine: a limit for what hangs, not a measure of speed.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
