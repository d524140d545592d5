// @ts-check
import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";

/**
 * What is slow and guards a release: whole suites of CLIs that change seldom here, other majors of the frameworks, what is built
 * on a framework's model (langchain/calls, langchain/agents and ai-sdk/generate ask it in every run), bundlers, and conformance.
 */
const RELEASE = [
  "agent/crash",
  "agent/scenarios-gemini",
  "agent/scenarios-qwen",
  "ai-sdk/newest",
  "ai-sdk/openai-agents",
  "ai-sdk/types",
  "ai-sdk/use-chat",
  "bridge/conformance",
  "bundlers",
  "cli/chat-clis",
  "cli/screens",
  "clis/frameworks",
  "clis/real-gemini",
  "clis/real-opencode",
  "clis/real-qwen",
  "codex/live-schema",
  "examples/fleet",
  "examples/fleet-crash",
  "examples/temporal",
  "langchain/core-0.3",
  "langchain/graphs",
  "langchain/middleware",
  "langchain/sizes",
  "langchain/standard/calls",
  "langchain/standard/tools",
  "langchain/structured-clis",
  "langchain/tool-choice",
  "opencode/live-images",
  "qwen/auto",
  "qwen/print-newest",
  "telemetry/clis",
  "tooling/ci-record",
].map((name) => `__tests__/${name}.test.ts`);

/**
 * What takes longest, the longest first: one of these that is begun last keeps a worker busy while the others have nothing left.
 * Vitest would go by what its last run measured, and in a clean clone, which has measured nothing, by the size of a file.
 */
const LONG = [
  "forgery",
  "agent/run",
  "agent/scenarios",
  "live/behaviours",
  "clis/real-codex",
  "claude/live",
  "claude/print",
  "claude/errors",
  "examples/programs",
  "claude/live-sessions",
  "claude-code/end",
  "logins",
  "quota",
  "docs",
  "health",
  "clis/media",
  "structured/clis",
  "choices/claude",
  "claude/prewarm",
  "langchain/calls",
  "claude/live-history",
  "tooling/claude",
  "cli",
].map((name) => `/__tests__/${name}.test.ts`);

/** The long files in their order, then the others in Vitest's. */
class LongFirst extends BaseSequencer {
  /** @override @type {import("vitest/node").TestSequencer["sort"]} */
  async sort(files) {
    /** @param {{ moduleId: string }} file */
    const place = ({ moduleId }) => {
      const index = LONG.findIndex((name) => moduleId.endsWith(name));
      return index === -1 ? LONG.length : index;
    };
    return (await super.sort(files)).sort((a, b) => place(a) - place(b));
  }
}

export default defineConfig({
  test: {
    include: ["__tests__/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...(process.env.TEST_ALL ? [] : RELEASE)],
    // Half of a test's time is waiting, for processes and for limits of time: with fewer workers, cores are idle.
    // A number: of a percentage, Vitest takes the cores at most.
    maxWorkers: 2 * availableParallelism(),
    sequence: { sequencer: LongFirst },
    // Real CLIs on a loaded machine: a limit for what hangs, not a measure of speed.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
