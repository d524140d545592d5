// @ts-check
/** The agent's scenarios as tests of backends: each comes out to the letter as it says, or as the backend says that it differs. */
import { describe, expect, it } from "vitest";
import { play, SCENARIOS } from "./agent-scenarios.mjs";

/** @param {import("./agent-scenarios.mjs").Backend[]} backends */
export function testScenarios(backends) {
  describe.each(backends)("$name", (backend) => {
    it("differs in scenarios that there are", () => {
      const names = SCENARIOS.map(({ name }) => name);
      expect(Object.keys(backend.differs ?? {}).filter((name) => !names.includes(name))).toEqual([]);
    });
    it.each(SCENARIOS)("$name", async (scenario) => {
      const { transcript, notes, result, events } = await play(scenario, backend);
      expect(transcript).toBe(backend.differs?.[scenario.name]?.transcript ?? scenario.transcript);
      if (scenario.notes) expect(notes).toEqual(scenario.notes);
      expect(events.at(-1)?.runId).toBe(result.runId);
    });
  });
}
