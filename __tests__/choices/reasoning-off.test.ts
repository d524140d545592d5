// @change
/** `reasoning: "off"`, as it reaches the API of each CLI, and what is told of models that reason all the same. */
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import type { InvokeOptions } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { withApi } from "../api/setup.js";
import { HERE } from "../clis/real.js";
import { ALL, createProvider, RUNS, sampleOf, shareOf, withClaude, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";

const CALLS: InvokeOptions[] = [
  {},
  { reasoning: "off" },
  { reasoning: { effort: "low" } },
  { reasoning: "off", maxOutputTokens: 77 },
  {},
];
const OFF = { reasoning: "off" } as const;

// Of the pairs, one runs what a live process does in place, and one what is said at each start.
describe.each(shareOf(RUNS, 1, 2))("claude %s, %s", { timeout: 120_000 }, (which, engine) => {
  it("does not think where it is told so, and thinks again", async () => {
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    // What the user's variables say holds where a call says nothing.
    const env = { ...options.env, MAX_THINKING_TOKENS: "5000" };
    const provider = createProvider({ ...options, env, model: "claude-opus-4-8" });
    const thread: BaseMessage[] = [];
    const pids = new Set<number>();
    for (const [turn, choices] of CALLS.entries()) {
      thread.push(new HumanMessage(`turn ${turn}`));
      const { pid, message, warnings } = await ask(provider, thread, choices);
      expect(warnings).toEqual([]);
      pids.add(pid);
      thread.push(message);
    }
    const thinking = api.requests.map(({ body }) => body.thinking.type);
    expect(thinking).toEqual(["adaptive", "disabled", "adaptive", "disabled", "adaptive"]);
    expect(pids.size).toBe(engine === "live" ? 1 : CALLS.length);
  });
});

describe.each(shareOf(RUNS, 0, 2))("claude %s, %s", { timeout: 120_000 }, (which, engine) => {
  const thought = { type: "thinking", thinking: "Hm.", signature: "S=" };
  const script = () => ({ content: [thought, { type: "text", text: "ok" }] });

  it("is a provider's option as well, and tells where the model thinks all the same", async () => {
    const { api, options } = await withClaude({ which, engine, script });
    const provider = createProvider({ ...options, model: "claude-opus-4-8", ...OFF });
    expect((await ask(provider, ["one"])).warnings).toEqual(["UNSUPPORTED_OPTION"]);
    expect(api.requests.map(({ body }) => body.thinking.type)).toEqual(["disabled"]);
  });

  // In print form, each call is a start: codex, below, has both of its calls in every run.
  it.runIf(ALL || !HERE)("is a provider's option as well, over which a call's effort wins", async () => {
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    const provider = createProvider({ ...options, model: "claude-opus-4-8", ...OFF });
    await provider.invoke(["one"]);
    await provider.invoke(["two"], { reasoning: { effort: "low" } });
    expect(api.requests.map(({ body }) => [body.thinking.type, body.output_config.effort])).toEqual([
      ["disabled", expect.any(String)],
      ["adaptive", "low"],
    ]);
  });

  // The same of a model that is known to think, once its models are listed; what an API does is below.
  it.runIf(ALL)("tells of a model that thinks all the same", async () => {
    const { options } = await withClaude({ which, engine, script });
    const model = which === "newest" ? "claude-sonnet-5-5" : "claude-sonnet-5";
    const provider = createProvider({ ...options, model });
    expect((await ask(provider, ["one"], OFF)).warnings).toEqual(["UNSUPPORTED_OPTION"]);
    expect((await ask(provider, ["one"])).warnings).toEqual([]);
  });
});

const SCHEMA = { type: "object", properties: { a: { type: "integer", minimum: 3 } }, required: ["a"] };

describe("claude, live", { timeout: 120_000 }, () => {
  it("is told once, before the answer of a model that always thinks, and of one by a variable that has no efforts", async () => {
    const script = (_: unknown, n: number) => ({ text: n === 0 ? "no object" : '{"a":5}' });
    const { api, options } = await withClaude({ engine: "live", script });
    // The variable chooses where a call does not.
    const env = { ...options.env, ANTHROPIC_MODEL: "claude-haiku-4-5", MAX_THINKING_TOKENS: "5000" };
    const provider = createProvider({ ...options, env, model: undefined });
    const told: string[] = [];
    // The second goes on in the process of the first, which was asked once more for an answer that fits the schema.
    const [go, answer] = [new HumanMessage("go"), new AIMessage('{"a":5}')];
    const always = { model: "claude-sonnet-5-5", outputSchema: SCHEMA };
    const calls: [BaseMessage[], InvokeOptions][] = [
      [[go], { ...OFF, ...always }],
      [[go, answer, go], always],
      [[go], { reasoning: { effort: "low" } }],
      // This one has a budget, which is the variable's again where nothing is said.
      [[go, answer, go], OFF],
      [[go, answer, go, answer, go], {}],
    ];
    for (const [thread, choices] of calls) {
      for await (const event of provider.stream(thread, choices)) {
        if (event.type === "warning") told.push(event.message);
        if (event.type === "text_delta" || event.type === "message") told.push("…");
      }
    }
    expect(told.filter((message, n) => message !== told[n - 1])).toEqual([
      '`reasoning: "off"` has no effect: claude\'s model claude-sonnet-5-5 always thinks',
      "…",
      "`reasoning.effort` has no effect: claude's model claude-haiku-4-5 has no efforts",
      "…",
    ]);
    expect(told.filter((message) => message !== "…")).toHaveLength(2);
    const asked = api.requests.map(({ body: { thinking, output_config } }) => [
      thinking.type,
      output_config?.effort ?? thinking.budget_tokens,
    ]);
    expect(asked).toEqual([
      ["adaptive", "medium"],
      ["adaptive", "medium"],
      ["adaptive", "medium"],
      ["enabled", 5000],
      ["disabled", undefined],
      ["enabled", 5000],
    ]);
  });
});

const BOTH = ["newest", "oldest"] as const;

describe.each(shareOf(BOTH, 0, 2))("claude %s, live, of no model by name", { timeout: 120_000 }, (which) => {
  // Of a model that has no efforts, it is told above.
  it.runIf(ALL)("is told of the model that a variable of the user's chooses", async () => {
    const { options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const told = [
      ["claude-haiku-4-5", { reasoning: { effort: "low" } }, ["UNSUPPORTED_OPTION"]],
      ["claude-opus-4-8", OFF, []],
    ] as const;
    for (const [model, choices, warnings] of told) {
      const provider = createProvider({
        ...options,
        model: undefined,
        env: { ...options.env, ANTHROPIC_MODEL: model },
      });
      expect((await ask(provider, ["one"], choices)).warnings).toEqual(warnings);
    }
  });
});

describe.each(shareOf(BOTH, 1, 2))("claude %s, live, with a variable of the user's", { timeout: 120_000 }, (which) => {
  // The newest one's is above.
  it.runIf(ALL)("gives a model with a budget that of the user's variable back", async () => {
    const { api, options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const env = { ...options.env, MAX_THINKING_TOKENS: "5000" };
    const provider = createProvider({ ...options, env, model: "claude-haiku-4-5" });
    const thread: BaseMessage[] = [];
    for (const choices of [{}, OFF, {}]) {
      thread.push(new HumanMessage("go"));
      thread.push((await ask(provider, thread, choices)).message);
    }
    expect(api.requests.map(({ body }) => [body.thinking.type, body.thinking.budget_tokens])).toEqual([
      ["enabled", 5000],
      ["disabled", undefined],
      ["enabled", 5000],
    ]);
  });
});

// Above, the second answer fits.
it.runIf(ALL)("a schema that the answer does not fit is asked for again, and an ignored option told once", async () => {
  const { options } = await withClaude({ engine: "live", script: () => ({ text: "no object" }) });
  const provider = createProvider({ ...options, model: "claude-sonnet-5-5" });
  const told: string[] = [];
  const asked = async () => {
    for await (const event of provider.stream(["go"], { ...OFF, outputSchema: SCHEMA }))
      if (event.type === "warning") told.push(event.message);
  };
  await expect(asked()).rejects.toMatchObject({ code: "OUTPUT_INVALID" });
  expect(told.filter((message) => message.includes("always thinks"))).toHaveLength(1);
});

/** opencode is in `efforts.test.ts`. */
describe.skipIf(!HERE)("other CLIs", { timeout: 300_000 }, () => {
  const script = () => ({ text: "ok" });

  it.each(["print", "live"])(
    "codex %s: the effort none, also as a provider's option, over which a call's effort wins",
    async (engine) => {
      const { api, create } = await withCli("codex", { script });
      const provider = create({ engine, model: "gpt-5.5", ...(engine === "live" && OFF) });
      await provider.invoke(["one"], engine === "live" ? {} : OFF);
      if (engine === "live") await provider.invoke(["two"], { reasoning: { effort: "low" } });
      expect(api.requests.map(({ body }) => body.reasoning.effort)).toEqual(
        ["none", "low"].slice(0, engine === "live" ? 2 : 1),
      );
    },
  );

  const MODELS = [
    ["gemini-3-flash-preview", { thinkingLevel: "MINIMAL" }],
    ["gemini-2.5-flash", { thinkingBudget: 0 }],
    ["gemini-3-pro-preview", { thinkingLevel: "LOW" }],
  ] as const;

  // Each model is a process of its own, and src/provider/gemini has tests of what is said of which; one of 2.5 is in `efforts.test.ts`.
  it.each(
    sampleOf([
      ["warm", sampleOf(MODELS)],
      ["print", sampleOf(MODELS)],
    ] as const),
  )("gemini %s: no budget for thoughts, or the lowest level, never both", async (engine, models) => {
    const { api, create } = await withCli("gemini", { script });
    const provider = create({ engine, model: "gemini-2.5-flash" });
    for (const [model] of models) await provider.invoke(["one"], { ...OFF, model });
    expect(api.requests.map(({ body }) => body.generationConfig.thinkingConfig)).toEqual(
      models.map(([, thinking]) => ({ includeThoughts: true, ...thinking })),
    );
  });

  it("grok: the effort none, of a model of the user's own", async () => {
    const { api, create } = await withCli("grok", { script });
    await create({ engine: "print" }).invoke(["one"], OFF);
    expect(api.requests.map(({ body }) => body.reasoning_effort)).toEqual(["none"]);
  });

  // That it hands an effort over is in copilot/live.test.ts.
  it.runIf(ALL)("copilot: the effort none, which it does not hand to an API of the user's own", async () => {
    const { api, create } = await withCli("copilot", { script });
    const { warnings } = await ask(create({ engine: "live" }) as never, ["hi"], OFF);
    expect([api.requests.map(({ body }) => body.reasoning_effort), warnings]).toEqual([[undefined], []]);
  });
});

it("an API: the effort none, and a model that reasons all the same is told", async () => {
  const { api, provider } = await withApi({
    script: [{ text: "ok" }, { reasoning: "Hm.", text: "ok" }, { text: "ok" }],
  });
  const told: unknown[] = [];
  for (const choices of [OFF, OFF, {}]) told.push((await ask(provider as never, ["go"], choices)).warnings);
  expect(api.requests.map(({ body }) => body.reasoning_effort)).toEqual(["none", "none", undefined]);
  expect(told).toEqual([[], ["UNSUPPORTED_OPTION"], []]);
});
