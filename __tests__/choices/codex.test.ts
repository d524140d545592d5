// @change
/** What a call of codex chooses for itself, as it reaches the API, in print form and in a live conversation. */
import { type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createCodexCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { LIVE_CODEX, OLDEST_LIVE_CODEX } from "../support/clis.mjs";
import { sampleOf, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";

// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const asked = (body: any) => [body.model, body.reasoning?.effort];

const step = { name: "step", description: "Takes a step", schema: { type: "object" } };

// The oldest is installed with `--all` alone.
const RUNS = sampleOf(
  [
    [LIVE_CODEX, "live"],
    [LIVE_CODEX, "print"],
    [OLDEST_LIVE_CODEX, "live"],
  ] as const,
  2,
);

describe.skipIf(!HERE).each(RUNS)("codex %s, %s", { timeout: 300_000 }, (version, engine) => {
  it("sends what a call chooses, and what the provider chooses where it does not", async () => {
    const { api, options } = await withCli("codex", { version, script: () => ({ text: "ok" }) });
    const model = createCodexCliProvider({ ...options, engine, model: "gpt-5.5", reasoning: { effort: "high" } });
    onTestFinished(() => model.close());
    const calls = [
      [{}, ["gpt-5.5", "high"]],
      [{ model: "my-own-model", reasoning: { effort: "low" } }, ["my-own-model", "low"]],
      [{ reasoning: { effort: "medium" } }, ["gpt-5.5", "medium"]],
      [{}, ["gpt-5.5", "high"]],
    ] as const;
    // In print form, each is a start that knows nothing of the others.
    const made = sampleOf(calls, engine === "live" ? 4 : 2);
    for (const [choices] of made) await model.invoke(["go"], choices);
    expect(api.requests.map(({ body }) => asked(body))).toEqual(made.map(([, expected]) => expected));
  });
});

describe.skipIf(!HERE)("a live conversation of codex", { timeout: 300_000 }, () => {
  it("takes on another effort and another form of answer where it is, and gives them up again", async () => {
    const { api, options } = await withCli("codex", { version: LIVE_CODEX, script: () => ({ text: '{"n":1}' }) });
    const provider = createCodexCliProvider({ ...options, engine: "live", model: "gpt-5.5" });
    onTestFinished(() => provider.close());
    const properties = { n: { type: "number" } };
    const outputSchema = { type: "object", properties, required: ["n"], additionalProperties: false };
    const thread: BaseMessage[] = [];
    const continued = [];
    for (const choices of [
      {},
      { reasoning: { effort: "high" } },
      { outputSchema },
      { reasoning: { effort: "low" } },
      {},
    ]) {
      thread.push(new HumanMessage("go"));
      const { run, message } = await ask(provider.bindTools([step]), thread, choices);
      continued.push(run?.continued);
      thread.push(message);
    }
    expect(continued).toEqual([false, true, true, true, true]);
    const bodies = api.requests.map(({ body }) => body);
    expect(bodies.map(({ reasoning, text }) => [reasoning.effort, text?.format?.type])).toEqual([
      ["medium", undefined],
      ["high", undefined],
      ["medium", "json_schema"],
      ["low", undefined],
      ["medium", undefined],
    ]);
    expect(new Set(bodies.map(({ prompt_cache_key: key }) => key)).size).toBe(1);
    for (const [n, { input, tools }] of bodies.slice(1).entries()) {
      const before = bodies[n];
      expect([JSON.stringify(input.slice(0, before?.input.length)), tools]).toEqual([
        JSON.stringify(before?.input),
        before?.tools,
      ]);
    }
  });

  it("is resumed under its id where its turn is to go on with another effort, or none is known", async () => {
    const { api, options } = await withCli("codex", {
      version: LIVE_CODEX,
      script: [
        { output: [{ text: "Wait." }, { call: "step", id: "a", args: {} }] },
        { text: "done" },
        { text: "again" },
      ],
    });
    // Nobody knows the effort that this model has by itself.
    const provider = createCodexCliProvider({ ...options, engine: "live", model: "mine" });
    onTestFinished(() => provider.close());
    const model = provider.bindTools([step]);
    const first = await ask(model, [new HumanMessage("go")], { reasoning: { effort: "low" } });
    const thread = [new HumanMessage("go"), first.message, new ToolMessage({ tool_call_id: "a", content: "1" })];
    const second = await ask(model, thread, { reasoning: { effort: "high" } });
    const third = await ask(model, [...thread, second.message, new HumanMessage("and?")]);
    expect([second, third].map(({ run }) => run?.session)).toEqual(["restored", "restored"]);
    expect(api.requests.map(({ body }) => asked(body))).toEqual([
      ["mine", "low"],
      ["mine", "high"],
      ["mine", undefined],
    ]);
    expect(new Set(api.requests.map(({ body }) => body.prompt_cache_key)).size).toBe(1);
    const kinds = api.requests[1]?.body.input.map(({ type }: { type: string }) => type);
    expect(kinds).toEqual(expect.arrayContaining(["function_call", "function_call_output"]));
  });
});
