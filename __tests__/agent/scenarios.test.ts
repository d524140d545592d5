/** The same scenarios over every engine of claude: their transcripts are equal to the letter. */
import { describe, expect, it } from "vitest";
import { CLAUDES } from "../support/agent-claude.mjs";
import { play, SCENARIOS } from "../support/agent-scenarios.mjs";

describe.each(CLAUDES)("$name", (backend) => {
  it.each(SCENARIOS)("$name", async (scenario) => {
    const { transcript, notes, result, events } = await play(scenario, backend);
    expect(transcript).toBe(scenario.transcript);
    if (scenario.notes) expect(notes).toEqual(scenario.notes);
    expect(events.at(-1)?.runId).toBe(result.runId);
  });
});
