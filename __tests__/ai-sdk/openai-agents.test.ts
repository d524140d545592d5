// @release
/** The same models in the OpenAI Agents SDK, through `aisdk()` of its extensions: an agent with a tool that hands over to another one. */
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { LIVE, requireFrom } from "../support/ai-sdk.mjs";

const EXTENSIONS = "@openai/agents-extensions";

describe.each(LIVE)("$name", ({ start }) => {
  it.each([
    ["run", false],
    ["streamed", true],
  ])("an agent calls a tool, then hands over to another agent: %s", async (_, stream) => {
    const load = await requireFrom(EXTENSIONS);
    const { Agent, Runner, tool } = load("@openai/agents");
    const { aisdk } = load(`${EXTENSIONS}/ai-sdk`);
    const { model, api, heard } = await start([
      { calls: [{ id: "call_1", name: "weather", args: { city: "Oslo" } }] },
      { calls: [{ id: "call_2", name: "transfer_to_Poet", args: {} }] },
      { text: "Snow on Oslo falls." },
    ]);
    const runs: unknown[] = [];
    const weather = tool({
      name: "weather",
      description: "The weather in a city",
      parameters: z.object({ city: z.string() }),
      execute: (args: unknown) => {
        runs.push(args);
        return "snow";
      },
    });
    const poet = new Agent({ name: "Poet", instructions: "Write a haiku.", model: aisdk(model()) });
    const clerk = new Agent({
      name: "Clerk",
      instructions: "Find out, then hand over to the poet.",
      model: aisdk(model()),
      tools: [weather],
      handoffs: [poet],
    });
    const runner = new Runner({ tracingDisabled: true });
    const result = await runner.run(clerk, "The weather in Oslo, as a poem", { stream });
    if (stream) await result.completed;
    expect(result.finalOutput).toBe("Snow on Oslo falls.");
    expect(result.lastAgent.name).toBe("Poet");
    expect(runs).toEqual([{ city: "Oslo" }]);
    expect(heard(1)).toContain("snow");
    expect(heard(2)).toContain("Write a haiku.");
    expect(api.requests).toHaveLength(3);
    const usage = result.rawResponses.map((response: { usage: { inputTokens: number } }) => response.usage.inputTokens);
    expect(usage.every((tokens: number) => tokens > 0)).toBe(true);
  });
});
