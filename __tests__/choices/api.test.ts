/** What a call of an API and an agent choose for themselves, and choices that can't be had: refused by name before anything starts, or left out, and told. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  type AgentEvent,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createFallbackProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createOpenAiCompatibleProvider,
  createOpenCodeCliProvider,
  type LogRecord,
  type ProviderEvent,
  runAgent,
} from "deep-factor-providers";
import { createClaudeCliProvider as createPlain } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { failureOf, withApi } from "../api/setup.js";
import { OWN_CLI } from "../support/clis.mjs";
import { createFakes } from "../support/fake.mjs";
import { createProvider, sampleOf, withClaude } from "../support/harness.mjs";

describe("a call of an API", () => {
  const ADD = { name: "add", description: "Adds", schema: { type: "object", properties: { a: { type: "number" } } } };
  const SUB = { ...ADD, name: "sub.tract" };

  /** The fields of a request beside those of every request. */
  function fields(body: Record<string, unknown>) {
    const { messages: _, stream: __, stream_options: ___, tools: ____, ...rest } = body;
    return rest;
  }

  it("sends what a call chooses over what the provider chooses", async () => {
    const { api, provider } = await withApi({
      script: () => ({ text: "ok" }),
      options: { temperature: 1, stop: "OWN", maxTokens: 9, reasoningEffort: "high", extraBody: { top_k: 1 } },
    });
    await provider.invoke(["one"]);
    await provider.invoke(["two"], {
      model: "-other/model",
      reasoning: { effort: "minimal" },
      maxOutputTokens: 5,
      stop: ["A", "B"],
      temperature: 0,
    });
    await provider.invoke(["three"], { stop: [], temperature: 0.5, onUnsupported: "error" });
    expect(api.requests.map(({ body }) => fields(body))).toEqual([
      { model: "scripted", temperature: 1, stop: "OWN", max_tokens: 9, reasoning_effort: "high", top_k: 1 },
      {
        model: "-other/model",
        temperature: 0,
        stop: ["A", "B"],
        max_tokens: 5,
        reasoning_effort: "minimal",
        top_k: 1,
      },
      { model: "scripted", temperature: 0.5, max_tokens: 9, reasoning_effort: "high", top_k: 1 },
    ]);
  });

  it("has one limit of tokens, by the name that the server wants", async () => {
    const { api, provider } = await withApi({
      script: () => ({ text: "ok" }),
      options: { maxTokensField: "max_completion_tokens", maxOutputTokens: 9, reasoning: { effort: "low" } },
    });
    await provider.invoke(["one"]);
    await provider.invoke(["two"], { maxOutputTokens: 5 });
    expect(api.requests.map(({ body }) => fields(body))).toEqual([
      { model: "scripted", max_completion_tokens: 9, reasoning_effort: "low" },
      { model: "scripted", max_completion_tokens: 5, reasoning_effort: "low" },
    ]);
  });

  it("lets a call win over extraBody", async () => {
    const { api, provider } = await withApi({
      script: () => ({ text: "ok" }),
      options: { extraBody: { max_completion_tokens: 9, temperature: 2 } },
    });
    await provider.invoke(["one"], { maxOutputTokens: 5, temperature: 0 });
    expect(fields(api.requests[0]?.body)).toEqual({ model: "scripted", max_tokens: 5, temperature: 0 });
  });

  it("says which tools are to be called, in the API's words", async () => {
    const call = (name: string) => ({ calls: [{ id: "c1", name, args: { a: 1 } }] });
    const { api, provider } = await withApi({
      script: [
        call("add"),
        // As it was declared: an API takes no dots.
        ({ body }) => call(body.tools[1].function.name),
        { text: "no" },
        { text: "maybe" },
      ],
      options: { toolChoice: "required" },
      mayRunOut: true,
    });
    const model = provider.bindTools([ADD, SUB]);
    const any = await model.invoke(["one"], { toolChoice: "any" });
    await model.invoke(["two"], { toolChoice: { name: "sub.tract" } });
    const none = await model.invoke(["three"], { toolChoice: "none" });
    await model.invoke(["four"], { toolChoice: "auto" });
    expect(any).toBeInstanceOf(AIMessage);
    expect(any.tool_calls?.map(({ name }) => name)).toEqual(["add"]);
    expect(none.content).toBe("no");
    const choices = api.requests.map(({ body }) => body.tool_choice);
    const wire = api.requests[1]?.body.tools[1].function.name;
    expect(choices).toEqual(["required", { type: "function", function: { name: wire } }, "none", "auto"]);
  });

  it("hands on what a server says that refuses one", async () => {
    const message = "Unsupported parameter: 'temperature' is not supported with this model.";
    const { provider } = await withApi({ script: [{ error: { status: 400, message } }], options: { retry: false } });
    const error = await failureOf(provider.invoke([new HumanMessage("Hi")], { temperature: 0.3 }));
    expect(error).toMatchObject({ code: "INVALID_REQUEST", category: "validation" });
    expect(error.message).toContain("'temperature' is not supported");
  });

  it("refuses two names for one thing", () => {
    for (const [options, names] of [
      [{ maxTokens: 1, maxOutputTokens: 1 }, ["maxTokens", "maxOutputTokens"]],
      [{ reasoningEffort: "low", reasoning: { effort: "low" } }, ["reasoningEffort", "reasoning.effort"]],
    ] as const) {
      const create = () => createOpenAiCompatibleProvider({ baseURL: "http://127.0.0.1:9", model: "m", ...options });
      expect(create).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
      for (const name of names) expect(create).toThrow(`"${name}"`);
    }
  });
});

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

// In every run, live sessions of claude.test.ts have the same choices.
describe.each(sampleOf(["print", "live"] as const))("an agent over claude, %s", { timeout: 120_000 }, (engine) => {
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

const NOWHERE = { cliPath: "/nowhere/at-all" };
const step = { name: "step", description: "Takes a step", schema: { type: "object" } };

/** A CLI that answers at once, as codex would. */
function answering() {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const lines = [
    { type: "thread.started", thread_id: "t" },
    { type: "item.completed", item: { id: "i", type: "agent_message", text: "ok" } },
    { type: "turn.completed", usage: { input_tokens: 1, output_tokens: 1 } },
  ];
  const print = lines.map((line) => `printf '%s\\n' '${JSON.stringify(line)}'`).join("; ");
  return fakes.shell("codex", `cat >/dev/null; ${print}`);
}

const ILL_TYPED: [object, string][] = [
  [{ model: 5 }, 'option "model" must be a string that does not begin with "-"; given: 5'],
  [{ model: "--x" }, 'option "model" must be a string that does not begin with "-"; given: "--x"'],
  [{ temperature: 2.5 }, 'option "temperature" must be a number from 0 to 2; given: 2.5'],
  [{ temperature: Number.NaN }, 'option "temperature" must be a number from 0 to 2; given: NaN'],
  [{ maxOutputTokens: 1.5 }, 'option "maxOutputTokens" must be a whole number from 1 to 9007199254740992; given: 1.5'],
  [{ stop: [""] }, 'option "stop" must be an array of strings that are not empty; given: an array [a string]'],
  [{ reasoning: { effort: "a b" } }, 'option "reasoning.effort" must be a word of letters, digits, "-" and "_"'],
  [
    { reasoning: { effort: "lots" } },
    'option "reasoning.effort" must be one of "low", "medium", "high", "xhigh", "max"',
  ],
  [{ reasoning: { efort: "low" } }, 'unknown option "reasoning.efort": did you mean "reasoning.effort"?'],
  [{ onUnsupported: "ignore" }, 'option "onUnsupported" must be one of "error", "warn"; given: "ignore"'],
];

describe("a choice that is none", () => {
  it.each(ILL_TYPED)("is refused by its name: %j", async (choice, message) => {
    const model = createClaudeCliProvider(NOWHERE);
    const invalid = { code: "INVALID_OPTION", attempts: 0, message: expect.stringContaining(message) };
    await expect(model.invoke(["go"], choice)).rejects.toMatchObject(invalid);
    await expect(model.invokeWithUpdates(["go"], () => {}, choice)).rejects.toMatchObject(invalid);
    await expect(model.stream(["go"], choice).next()).rejects.toMatchObject(invalid);
    await expect(createPlain(NOWHERE).invoke(["go"], choice)).rejects.toMatchObject(invalid);
    expect(() => createClaudeCliProvider({ ...NOWHERE, ...choice })).toThrow(message);
  });

  it.each([
    [
      { toolChoice: "required" },
      'option "toolChoice" must be one of "auto", "none", "any", or an object { name } of a bound tool',
    ],
    [{ toolChoice: { name: "step", more: 1 } }, 'option "toolChoice" must be one of "auto", "none", "any"'],
    [{ toolChoice: { name: "other" } }, 'option "toolChoice.name" must be a tool that is bound (step); given: "other"'],
  ])("is refused by its name: %j", async (choice, message) => {
    const model = createClaudeCliProvider(NOWHERE).bindTools([step]);
    const call = model.invoke(["go"], choice as never);
    await expect(call).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringContaining(message) });
  });

  it("is a tool where there are none", async () => {
    for (const provider of [createClaudeCliProvider(NOWHERE), (await withApi()).provider]) {
      await expect(provider.invoke(["go"], { toolChoice: "any" })).rejects.toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringContaining('option "toolChoice" is "any", and no tools are bound'),
      });
    }
  });

  it("is a model that a CLI of one's own does not list, or is never told", async () => {
    const listed = { ...OWN_CLI, models: [{ modelId: "a", name: "A" }], defaultModel: "a" };
    await expect(
      createCliProvider({ ...listed, modelArgs: ["-m"] }, NOWHERE).invoke(["go"], { model: "b" }),
    ).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringContaining("the config's models (a)") });
    await expect(createCliProvider(OWN_CLI, NOWHERE).invoke(["go"], { model: "b" })).rejects.toMatchObject({
      code: "UNSUPPORTED_OPTION",
      message: expect.stringContaining('option "model" is not supported by mine'),
    });
  });
});

describe("a choice that can't be had", () => {
  it("is refused with the provider's name, its engine, and those that can", async () => {
    const codex = createCodexCliProvider({ ...NOWHERE, engine: "live" });
    const call = codex.invoke(["go"], { temperature: 0, onUnsupported: "error" });
    await expect(call).rejects.toMatchObject({
      code: "UNSUPPORTED_OPTION",
      message: expect.stringMatching(
        /^option "temperature" is not supported by codex's live engine; those that can: .*an OpenAI-compatible API\. Leave it out/,
      ),
    });
  });

  it("is refused when the provider is created, if it is the provider's", () => {
    const refused = expect.objectContaining({ code: "UNSUPPORTED_OPTION", provider: "glm" });
    expect(() => createGlmCliProvider({ reasoning: { effort: "low" } })).toThrow(refused);
    expect(() => createGlmCliProvider({ temperature: 0, onUnsupported: "error" })).toThrow(refused);
    createGlmCliProvider({ temperature: 0 });
    createGlmCliProvider({ reasoning: { effort: "low" }, onUnsupported: "warn" });
  });

  it("is left out where it is a hint, and told in an event and a record", async () => {
    const records: LogRecord[] = [];
    const codex = createCodexCliProvider({
      cliPath: answering(),
      engine: "print",
      temperature: 0,
      logger: (record) => records.push(record),
    });
    const events: ProviderEvent[] = [];
    for await (const event of codex.stream(["go"], { stop: ["END"] })) events.push(event);
    const warnings = events.flatMap((event) => (event.type === "warning" ? [event] : []));
    expect(warnings.map(({ code, message }) => [code, message])).toEqual([
      [
        "UNSUPPORTED_OPTION",
        expect.stringMatching(/^option "stop" is not supported by codex's print engine; .*: it was left out$/),
      ],
      ["UNSUPPORTED_OPTION", expect.stringMatching(/^option "temperature" is not supported .*: it was left out$/)],
    ]);
    const told = records.filter(({ level }) => level === "warn");
    expect(told.map(({ fields }) => fields.code)).toEqual(["UNSUPPORTED_OPTION", "UNSUPPORTED_OPTION"]);
    // The call says how it is.
    const strict = codex.invoke(["go"], { onUnsupported: "error" });
    await expect(strict).rejects.toMatchObject({ code: "UNSUPPORTED_OPTION" });
  });

  it("is one that only some options allow", async () => {
    const gemini = createGeminiCliProvider({ ...NOWHERE, cwd: "/" });
    const call = gemini.invoke(["go"], { temperature: 0, onUnsupported: "error" });
    await expect(call).rejects.toMatchObject({
      code: "UNSUPPORTED_OPTION",
      message: expect.stringContaining(
        'option "temperature" is not supported by gemini with `cwd`; those that can: gemini, ',
      ),
    });
  });

  it("is the next provider's to have", async () => {
    const { api, provider } = await withApi({ script: [{ text: "from the API" }] });
    const fallback = createFallbackProvider([createOpenCodeCliProvider(NOWHERE), provider]);
    const message = await fallback.invoke(["go"], { stop: ["END"], temperature: 0, onUnsupported: "error" });
    expect(message.content).toBe("from the API");
    expect(api.requests[0]?.body).toMatchObject({ stop: ["END"], temperature: 0 });
    expect(message.response_metadata.fallback).toMatchObject({
      skipped: [{ provider: "opencode", code: "UNSUPPORTED_OPTION", message: expect.any(String) }],
    });
  });
});
