/** What an agent chooses for all of its calls, and what it is told of choices that can't be had. */
import { type AgentEvent, createGlmCliProvider, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { withApi } from "../api/setup.js";
import { createProvider, withClaude } from "../support/harness.mjs";

const look = { name: "look", execute: () => "fine" };
const CHOICES = {
  model: "claude-opus-4-8",
  reasoning: { effort: "low" },
  maxOutputTokens: 1234,
  stop: ["END"],
} as const;

async function eventsOf(run: AsyncIterable<AgentEvent>) {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

describe.each(["print", "live"] as const)("an agent over claude, %s", { timeout: 120_000 }, (engine) => {
  it("makes all of its calls with what it chooses", async () => {
    const { api, options } = await withClaude({ engine, script: () => ({ text: "done" }) });
    const result = await runAgent({ provider: createProvider(options), prompt: "go", ...CHOICES }).result;
    expect([result.status, result.output]).toEqual(["completed", "done"]);
    const [request] = api.requests;
    expect(request?.body).toMatchObject({
      model: "claude-opus-4-8",
      max_tokens: 1234,
      stop_sequences: ["END"],
      output_config: { effort: "low" },
    });
  });
});

it("is asked for by an agent in each turn of an API", async () => {
  const { api, provider } = await withApi({
    script: [{ calls: [{ id: "c", name: "look", args: {} }] }, { text: "done" }],
  });
  const run = runAgent({ provider, prompt: "go", tools: [look], model: "other", temperature: 0.5 });
  expect((await run.result).output).toBe("done");
  expect(api.requests.map(({ body }) => [body.model, body.temperature])).toEqual([
    ["other", 0.5],
    ["other", 0.5],
  ]);
});

it("fails where an agent asks for what its provider can't have, and is told of what was left out", async () => {
  const provider = createGlmCliProvider({ cliPath: process.execPath });
  const refused = await runAgent({ provider, prompt: "go", reasoning: { effort: "low" } }).result;
  expect(refused).toMatchObject({ status: "failed", error: { code: "UNSUPPORTED_OPTION" } });
  const invalid = await runAgent({ provider, prompt: "go", temperature: 7 }).result;
  expect(invalid).toMatchObject({ status: "failed", error: { code: "INVALID_OPTION" } });
  const warned = await eventsOf(runAgent({ provider, prompt: "go", temperature: 0 }));
  const codes = warned.flatMap((event) => (event.type === "warning" ? [event.code] : []));
  expect(codes).toContain("UNSUPPORTED_OPTION");
  // @ts-expect-error an agent that had to call a tool each time would never end
  expect(() => runAgent({ provider, prompt: "go", toolChoice: "any" })).toThrow('unknown option "toolChoice"');
});
