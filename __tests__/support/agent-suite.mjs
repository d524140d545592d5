// @ts-check
/** The agent's scenarios as tests of backends: each comes out to the letter as it says, or as the backend says that it differs. */
import { describe, expect, it } from "vitest";
import { play, SCENARIOS } from "./agent-scenarios.mjs";
import { ALL } from "./harness.mjs";

/** What depends on the CLI, and on how its calls come. The rest is the agent's own, whoever calls. @type {readonly string[]} */
const OF_THE_CLI = [
  "an answer without tools",
  "parallel calls, one of which fails",
  "arguments that do not fit the schema",
  "an unknown tool",
  "an abort while a tool runs",
  "the limit of time",
];

/**
 * @param {readonly import("./agent-scenarios.mjs").Backend[]} backends
 * @param {{ sample?: boolean | readonly string[] }} [options] `sample`: where not everything is run, only what depends on the CLI, or
 *   the scenarios of these names
 */
export function testScenarios(backends, { sample = false } = {}) {
  const names = sample === true ? OF_THE_CLI : sample;
  const chosen = SCENARIOS.filter(({ name }) => ALL || !names || names.includes(name));
  describe.each(backends)("$name", (backend) => {
    it("differs in scenarios that there are", () => {
      const known = SCENARIOS.map(({ name }) => name);
      expect(Object.keys(backend.differs ?? {}).filter((name) => !known.includes(name))).toEqual([]);
    });
    it.each(chosen)("$name", async (scenario) => {
      const { transcript, notes, result, events } = await play(scenario, backend);
      expect(transcript).toBe(backend.differs?.[scenario.name]?.transcript ?? scenario.transcript);
      if (scenario.notes) expect(notes).toEqual(scenario.notes);
      expect(events.at(-1)?.runId).toBe(result.runId);
    });
  });
}
