/** Scripted providers: what a script says is what a provider gives, in every face, with the addon and without it. */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { generateText, streamText, tool } from "ai";
import {
  createFallbackProvider,
  type InvokeUpdate,
  type ProviderEvent,
  replayRun,
  runAgent,
} from "deep-factor-providers";
import { cli } from "deep-factor-providers/ai-sdk";
import { createGateway } from "deep-factor-providers/gateway";
import { ChatCli } from "deep-factor-providers/langchain";
import {
  type CassetteOptions,
  createCassetteProvider,
  createScriptedProvider,
  type Script,
  type ScriptedProviderOptions,
} from "deep-factor-providers/testing";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import errorCodes from "../../src/js/native.cjs";
import { adviceOf, codes } from "../../src/js/testing/codes.cjs";
import { removeFolder } from "../support/folders.mjs";
import { startSdk } from "../support/telemetry.mjs";

/** A provider's options that make each call go over the addon. */
const NATIVE = { maxConcurrency: 64 };
const PATHS = [
  ["without the addon", {}],
  ["over the addon", NATIVE],
] as const;

const ADD = {
  name: "add",
  description: "adds",
  schema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
};

function scripted(script: Script, options?: ScriptedProviderOptions) {
  const provider = createScriptedProvider(script, options);
  onTestFinished(() => provider.close());
  return provider;
}

/** The events of a call, without what is another one's in each run. */
async function eventsOf(events: AsyncIterable<ProviderEvent>) {
  const all: unknown[] = [];
  for await (const event of events) {
    if (event.type === "start") all.push({ ...event, runId: "run" });
    else if (event.type === "done") all.push({ ...event, reply: { ...event.reply, run: undefined } });
    else all.push(event);
  }
  return all;
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    (value) => expect.unreachable(`it succeeded: ${JSON.stringify(value)}`),
    (error) => error,
  );

afterEach(() => vi.useRealTimers());

describe.each(PATHS)("a plain call, %s", (_, options) => {
  it("gives a message, updates and events of the reply", async () => {
    const usage = { inputTokens: 7, outputTokens: 3 };
    const reply = { deltas: ["Hel", "lo"], reasoning: "hm", toolCalls: [{ name: "add", args: { a: 1, b: 2 } }], usage };
    const provider = scripted([reply, reply, reply], { ...options, model: "m" });
    const bound = provider.bindTools([ADD]);

    const message = await bound.invoke([{ role: "user", content: [{ type: "text", text: "Hi" }] }]);
    expect(message).toBeInstanceOf(AIMessage);
    expect(message.content).toBe("Hello");
    expect(message.tool_calls).toEqual([{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);
    expect(message.usage_metadata).toEqual({ input_tokens: 7, output_tokens: 3, total_tokens: 10 });
    expect(message.response_metadata).toMatchObject({ provider: "scripted", model: "m", stop_reason: "tool_calls" });
    expect(message.additional_kwargs.reasoning_content).toBe("hm");

    const updates: InvokeUpdate[] = [];
    await bound.invokeWithUpdates(["Hi"], (update) => void updates.push(update));
    expect(updates.map(({ type }) => type)).toEqual(["assistant_message", "tool_call", "usage", "final"]);

    expect(await eventsOf(bound.stream(["Hi"]))).toEqual([
      { type: "start", runId: "run", provider: "scripted", attempt: 1, queuedMs: 0 },
      { type: "session", model: "m" },
      { type: "thinking_delta", text: "hm" },
      { type: "text_delta", text: "Hel" },
      { type: "text_delta", text: "lo" },
      { type: "message", content: "Hello" },
      { type: "tool_call", toolCall: { name: "add", args: { a: 1, b: 2 }, id: "call_3" } },
      { type: "usage", usage: { ...usage, totalTokens: 10 }, rawStopReason: "tool_calls" },
      {
        type: "done",
        reply: {
          content: "Hello",
          messages: [{ content: "Hello" }],
          toolCalls: [{ name: "add", args: { a: 1, b: 2 }, id: "call_3" }],
          invalidToolCalls: [],
          thinking: "hm",
          reasoning: [{ type: "reasoning.text", text: "hm" }],
          usage: { ...usage, totalTokens: 10 },
          model: "m",
          stopReason: "tool_calls",
          run: undefined,
        },
      },
    ]);
    expect(provider.requests[0]).toEqual({ messages: [{ type: "human", content: "Hi" }], tools: [ADD], options: {} });
  });

  it("asks a function with the thread as the model would see it", async () => {
    const provider = scripted((request, index) => `${index}: ${request.messages.at(-1)?.content}`, options);
    const thread = [
      { role: "system" as const, content: "Be brief" },
      new AIMessage({ content: "", tool_calls: [{ name: "add", args: { a: 1 }, id: "c" }] }),
      new ToolMessage({ content: "no", tool_call_id: "c", status: "error" }),
    ];
    expect(await failure(provider.invoke([" "]))).toMatchObject({ code: "EMPTY_PROMPT", attempts: 0 });
    expect((await provider.invoke(["a"])).content).toBe("0: a");
    expect((await provider.invoke(thread)).content).toBe("1: no");
    expect(provider.requests[1]?.messages).toEqual([
      { type: "system", content: "Be brief" },
      { type: "ai", content: "", tool_calls: [{ name: "add", args: { a: 1 }, id: "c" }] },
      { type: "tool", content: "no", tool_call_id: "c", is_error: true },
    ]);
  });

  it("fails as it is told: a code, fields, an error, its function's throw, its end", async () => {
    const provider = scripted(
      [
        { error: "RATE_LIMITED" },
        { text: "half", error: { code: "CONNECTION_LOST", message: "gone", httpStatus: 502, retryAfterMs: 5 } },
        () => expect.unreachable("asked"),
        {},
      ],
      options,
    );
    const ask = () => failure(provider.invoke(["Hi"]));
    expect(await ask()).toMatchObject({ code: "RATE_LIMITED", category: "rate_limit", shouldRetry: true, attempts: 1 });
    expect(await ask()).toMatchObject({
      ...{ code: "CONNECTION_LOST", message: "gone", httpStatus: 502, retryAfterMs: 5, shouldFallback: true },
      partial: { text: "half", events: 2 },
      provider: "scripted",
    });
    const thrown = await ask();
    expect(thrown).toMatchObject({ code: "CALLBACK_FAILED", shouldFallback: false });
    expect(thrown.message).toMatch(/^the script failed on request 3: .*asked/s);
    expect(await ask()).toMatchObject({ code: "EMPTY_RESPONSE", shouldRetry: true });
    const out = await ask();
    expect(out).toMatchObject({ code: "INVALID_REQUEST", shouldRetry: false, shouldFallback: false });
    expect(out.message).toBe(
      'the script has run out: it has 4 replies, and this is request 5, whose last message is human: "Hi"',
    );
  });

  it("keeps the limit of time, an abort and its own end, and waits for nothing behind them", async () => {
    const provider = scripted(() => ({ deltas: ["half", { text: "whole", delayMs: 60_000 }] }), options);
    const late = await failure(provider.invoke(["Hi"], { timeout: 500 }));
    expect(late).toMatchObject({ code: "TIMEOUT", partial: { text: "half" } });
    const reason = new Error("enough");
    const controller = new AbortController();
    const seen: string[] = [];
    const streamed = (async () => {
      for await (const event of provider.stream(["Hi"], { signal: controller.signal })) {
        seen.push(event.type);
        if (event.type === "text_delta") controller.abort(reason);
      }
    })();
    expect(await failure(streamed)).toBe(reason);
    expect(seen).toEqual(["start", "session", "text_delta"]);
    const open = failure(provider.invoke(["Hi"]));
    await vi.waitFor(() => expect(provider.requests).toHaveLength(3));
    await provider.close();
    expect((await open).code).toBe("CLOSED");
    expect((await failure(provider.invoke(["Hi"]))).code).toBe("CLOSED");
  });

  it("leaves a function that does not look at its signal, and a consumer that breaks off", async () => {
    const provider = scripted(() => new Promise<string>(() => {}), options);
    expect(await failure(provider.invoke(["Hi"], { timeout: 20 }))).toMatchObject({ code: "TIMEOUT" });
    const pieces = scripted(() => ({ deltas: ["a", { text: "b", delayMs: 60_000 }] }), options);
    for await (const event of pieces.stream(["Hi"])) if (event.type === "text_delta") break;
    await pieces.close({ drain: true });
  });

  it("is not held up by fake timers", async () => {
    vi.useFakeTimers();
    const provider = scripted([{ text: "late", delayMs: 5 }, () => new Promise<string>(() => {})], options);
    expect((await provider.invoke(["Hi"])).content).toBe("late");
    expect(await failure(provider.invoke(["Hi"], { timeout: 20 }))).toMatchObject({ code: "TIMEOUT" });
  });
});

it("tells the same of a script with the addon and without it", async () => {
  const script: Script = () => ({
    text: " two  words ",
    reasoning: "so",
    toolCalls: [
      { name: "x", id: "c" },
      { name: "x", id: "c" },
    ],
  });
  const thread = [new AIMessage({ content: "", tool_calls: [{ name: "x", args: {}, id: "c_2" }] }), "on"];
  const [plain, native] = await Promise.all(
    PATHS.map(([, options]) => eventsOf(scripted(script, options).stream(thread))),
  );
  expect(native).toEqual(plain);
  const behind = [...thread, new ToolMessage({ content: "r", tool_call_id: "c_2" })];
  const [silent, silentNative] = await Promise.all(
    PATHS.map(([, options]) => eventsOf(scripted([{}], options).stream(behind))),
  );
  expect(silentNative).toEqual(silent);
  expect(silent?.some((event) => (event as ProviderEvent).type === "warning")).toBe(true);
});

it("knows the codes of errors and what they advise as the addon does", () => {
  const { codes: all, categories } = JSON.parse(errorCodes.errorCodes());
  const retry = new Map(
    categories.map((one: { category: string; shouldRetry: boolean }) => [one.category, one.shouldRetry]),
  );
  expect(codes().sort()).toEqual(all.map(({ code }: { code: string }) => code).sort());
  for (const { code, category, shouldFallback } of all) {
    expect(adviceOf(code)).toEqual({ code, category, shouldRetry: retry.get(category), shouldFallback });
  }
});

describe("what the addon decides for every provider", () => {
  it("asks once more for a reply that does not fit its schema", async () => {
    const provider = scripted(["no JSON", '{"sum":3}']);
    const message = await provider.invoke(["1 + 2?"], { outputSchema: z.object({ sum: z.number() }) });
    expect(message.response_metadata.structured_output).toEqual({ sum: 3 });
    expect(provider.requests.map(({ messages }) => messages.length)).toEqual([1, 3]);
    expect(provider.requests[0]?.options.outputSchema).toMatchObject({ type: "object", required: ["sum"] });
    const never = scripted(["no", "no"]);
    expect(await failure(never.invoke(["?"], { outputSchema: z.object({}) }))).toMatchObject({
      code: "OUTPUT_INVALID",
    });
  });

  it("tries again, counts a budget, and hands on a call's choices", async () => {
    const again = scripted([{ error: "OVERLOADED" }, "now"], { retry: { maxAttempts: 2, baseDelayMs: 1 } });
    expect((await again.invoke(["Hi"])).content).toBe("now");
    const poor = scripted(() => "x", { budget: { requests: 1, per: "day" } });
    await poor.invoke(["Hi"]);
    expect(await failure(poor.invoke(["Hi"]))).toMatchObject({ code: "BUDGET_EXCEEDED" });
    const chosen = scripted(() => ({ toolCalls: [{ name: "add" }] })).bindTools([ADD]);
    await chosen.invoke(["Hi"], { model: "big", maxOutputTokens: 9, temperature: 0.5, toolChoice: { name: "add" } });
    expect(chosen.requests[0]?.options).toEqual({
      ...{ model: "big", maxOutputTokens: 9, temperature: 0.5, toolChoice: { name: "add" } },
    });
    expect(() => scripted(["x"], { budget: { requests: -1 } as never })).toThrow(/budget/);
  });

  it("tells a logger, telemetry and a run log of its calls", async () => {
    const { both, spans } = startSdk();
    const records: string[] = [];
    const provider = scripted(["Hello"], { logger: ({ message }) => void records.push(message), telemetry: both });
    const folder = mkdtempSync(join(tmpdir(), "dfp-scripted-"));
    onTestFinished(() => removeFolder(folder));
    const record = join(folder, "run.jsonl");
    await provider.invoke(["Hi"], { record });
    expect(records).toContain("started");
    expect(spans().map(({ name }) => name)).toEqual(["chat scripted"]);
    expect((await replayRun(record).reply).content).toBe("Hello");
  });

  it("is an agent's model: its calls are run, and its errors end the run", async () => {
    const provider = scripted([
      { text: "I add.", toolCalls: [{ name: "add", args: { a: 1, b: 2 } }] },
      (request) => `It is ${request.messages.at(-1)?.content}.`,
    ]);
    const tools = [{ ...ADD, execute: ({ a, b }: Record<string, unknown>) => String(Number(a) + Number(b)) }];
    const run = runAgent({ provider, systemPrompt: "Add.", prompt: "1 + 2?", tools });
    const deltas: string[] = [];
    for await (const event of run) if (event.type === "text_delta") deltas.push(event.text);
    expect(await run.result).toMatchObject({ status: "completed", output: "It is 3.", steps: 2 });
    expect(deltas).toEqual(["I add.", "It is 3."]);
    expect(provider.requests[1]?.messages.map(({ type }) => type)).toEqual(["system", "human", "ai", "tool"]);
    const failing = runAgent({ provider: scripted([{ error: "USAGE_LIMIT" }]), prompt: "?", tools: [] });
    expect(await failing.result).toMatchObject({ status: "failed", error: { code: "USAGE_LIMIT" } });
    const controller = new AbortController();
    const hanging = scripted(() => new Promise<string>(() => {}));
    const cancelled = runAgent({ provider: hanging, prompt: "?", tools: [], signal: controller.signal });
    await vi.waitFor(() => expect(hanging.requests).toHaveLength(1));
    controller.abort();
    expect((await cancelled.result).status).toBe("cancelled");
  });
});

describe("a scripted provider in the faces", () => {
  it("a fallback: the next is asked, and says why", async () => {
    const provider = createFallbackProvider([
      scripted([{ error: "OVERLOADED" }, { text: "half", error: "CONNECTION_LOST" }], { id: "first" }),
      scripted(() => "second", { id: "second" }),
    ]);
    onTestFinished(() => provider.close());
    const message = await provider.invoke(["Hi"]);
    expect(message.content).toBe("second");
    expect(message.response_metadata.fallback).toMatchObject({ index: 1, skipped: [{ code: "OVERLOADED" }] });
    expect(await failure(eventsOf(provider.stream(["Hi"])))).toMatchObject({ code: "CONNECTION_LOST" });
  });

  it("LangChain's: a call, structured output, a stream", async () => {
    const provider = scripted(["Hello", '{"a":1}', { deltas: ["x", "y"] }]);
    const model = new ChatCli({ provider });
    expect((await model.invoke("Hi")).content).toBe("Hello");
    expect(await model.withStructuredOutput(z.object({ a: z.number() })).invoke("?")).toEqual({ a: 1 });
    const pieces: unknown[] = [];
    for await (const chunk of await model.stream("Hi")) pieces.push(chunk.content);
    expect(pieces.filter((piece) => piece !== "")).toEqual(["x", "y"]);
  });

  it("the AI SDK's: a tool's loop, a stream", async () => {
    const provider = scripted([{ toolCalls: [{ name: "add", args: { a: 1, b: 2 } }] }, "3", { deltas: ["x", "y"] }]);
    const add = tool({ inputSchema: z.object({ a: z.number(), b: z.number() }), execute: ({ a, b }) => a + b });
    const { stepCountIs } = await import("ai");
    const model = cli(provider)("m");
    expect((await generateText({ model, prompt: "1 + 2?", tools: { add }, stopWhen: stepCountIs(3) })).text).toBe("3");
    const pieces: string[] = [];
    for await (const piece of streamText({ model, prompt: "Hi" }).textStream) pieces.push(piece);
    expect(pieces).toEqual(["x", "y"]);
    expect(provider.requests[0]?.options.model).toBe("m");
  });

  it("the gateway's", async () => {
    const token = "0123456789abcdef";
    const provider = scripted(["Hello", { error: "RATE_LIMITED" }]);
    const gateway = await createGateway({ port: 0, token, providers: { test: provider }, logger: () => {} });
    onTestFinished(() => gateway.close());
    const ask = () =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "test:x", messages: [{ role: "user", content: "Hi" }] }),
      });
    const answered = await (await ask()).json();
    expect(answered).toMatchObject({ choices: [{ message: { content: "Hello" } }] });
    expect((await ask()).status).toBe(429);
  });
});

describe("what it costs", () => {
  it("a plain call loads no addon, and nothing keeps a process alive or what was closed", async () => {
    const program = `
      import { createScriptedProvider } from "deep-factor-providers/testing";
      import { createRequire } from "node:module";
      const provider = createScriptedProvider([{ text: "hi", toolCalls: [{ name: "a" }] }, { error: "OVERLOADED" }, "x"]);
      await provider.invoke(["a"]);
      await provider.invoke(["b"]).catch(() => {});
      for await (const _ of provider.stream(["c"]));
      if (!(await provider.health()).installed) throw new Error("it is not there");
      const files = Object.keys(createRequire(process.cwd() + "/x.js").cache);
      console.log(JSON.stringify(files.filter((file) => /\\.node$|native\\.cjs$|core\\.cjs$/.test(file) && !file.includes("@langchain"))));
      provider.invoke(["d"], { outputSchema: { type: "object" } }).catch((error) => console.log(error.code));
      let script = () => "x";
      const held = new WeakRef(script);
      let closed = createScriptedProvider(script, { maxConcurrency: 2 });
      await closed.invoke(["e"]);
      await closed.close();
      closed = script = undefined;
      for (let round = 0; round < 50 && held.deref(); round += 1) {
        await new Promise(setImmediate);
        gc();
      }
      console.log(held.deref() === undefined);
      createScriptedProvider(() => new Promise(() => {}), { maxConcurrency: 2 });`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--expose-gc", "--input-type=module", "-e", program],
      {
        timeout: 30_000,
      },
    );
    expect(stdout.trim().split("\n").sort()).toEqual(["INVALID_REQUEST", "[]", "true"]);
  });

  it("works in a worker, which may end at any time", async () => {
    const program = `
      const { parentPort } = require("node:worker_threads");
      const { createScriptedProvider } = require("deep-factor-providers/testing");
      const provider = createScriptedProvider(["one", '{"a":1}', () => new Promise(() => {})]);
      (async () => {
        const plain = await provider.invoke(["a"]);
        const native = await provider.invoke(["b"], { outputSchema: { type: "object" } });
        parentPort.postMessage([plain.content, native.content]);
        await provider.invoke(["c"], { outputSchema: { type: "object" } });
      })();`;
    const worker = new Worker(program, { eval: true });
    expect(await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject))).toEqual([
      ...["one", '{"a":1}'],
    ]);
    await worker.terminate();
  });
});

it("says what is wrong with a script or an option", () => {
  const wrong = (script: unknown, options?: object) => () => createScriptedProvider(script as Script, options);
  expect(wrong("text")).toThrow("the script must be an array of replies, or a function");
  expect(wrong([{ txt: "x" }])).toThrow('reply 1 of the script has no field "txt": there are text, toolCalls');
  expect(wrong(["a", { delayMs: -1 }])).toThrow(
    '"delayMs" of reply 2 of the script must be a number of milliseconds, got -1',
  );
  expect(wrong([{ error: "NO_SUCH" }])).toThrow(/"error" of reply 1 of the script must have one of the codes/);
  expect(wrong([], { cliPath: "x" })).toThrow('unknown option "cliPath": there are id, model');
  expect(wrong([], { timeout: "1s" })).toThrow("timeout must be a whole number of ms");
  expect(wrong([], { retry: { maxAttempts: "x" } })).toThrow(/retry/);
});

/** Cassettes: what is recorded of a provider is what is played, and what is not on one is told with what differs. */
describe("a cassette", () => {
  const ADD = { name: "add", description: "adds", schema: { type: "object", properties: {} } };

  let file = "";
  beforeEach(() => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-cassette-"));
    onTestFinished(() => removeFolder(folder));
    file = join(folder, "tape.jsonl");
  });
  afterEach(() => vi.unstubAllEnvs());

  const failure = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.unreachable("it succeeded"),
      (error) => error,
    );

  /** Records what `calls` asks of a script. */
  async function record(
    script: Script,
    calls: (provider: ReturnType<typeof createCassetteProvider>) => Promise<unknown>,
  ) {
    const inner = createScriptedProvider(script, { id: "inner" });
    const provider = createCassetteProvider(file, { mode: "record", provider: inner });
    await calls(provider);
    await provider.close();
    return inner;
  }

  const replay = (options?: CassetteOptions) => createCassetteProvider(file, { mode: "replay", ...options });
  const lines = () =>
    readFileSync(file, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line.replace(/"ms":\d+/, '"ms":0')));

  async function collect(events: AsyncIterable<ProviderEvent>) {
    const all: unknown[] = [];
    for await (const event of events) {
      if (event.type === "start") continue;
      all.push(event.type === "done" ? { ...event, reply: { ...event.reply, run: undefined } } : event);
    }
    return all;
  }

  it("plays what it has recorded, of a file that reads like code", async () => {
    const call = { name: "add", args: { a: 1 }, id: "toolu_01XYZ" };
    const thread = (id: string) => [
      "1 + 2?",
      new AIMessage({ content: "", tool_calls: [{ ...call, id }] }),
      new ToolMessage({ content: "3", tool_call_id: id }),
    ];
    const script: Script = [
      { text: "I add.", toolCalls: [call] },
      { text: "3", usage: { inputTokens: 5, outputTokens: 1 } },
      { text: "half", error: { code: "RATE_LIMITED", message: "slow down", retryAfterMs: 900 } },
    ];
    let recorded: unknown[] = [];
    await record(script, async (provider) => {
      const bound = provider.bindTools([ADD]);
      expect((await bound.invoke(["1 + 2?"])).tool_calls).toEqual([call]);
      recorded = await collect(bound.stream(thread("toolu_01XYZ")));
      await failure(provider.bindTools([]).invoke(["again"]));
    });
    expect(lines()).toEqual([
      { cassette: 1, provider: "inner" },
      { call: 1 },
      { tool: ADD },
      { message: { type: "human", content: "1 + 2?" } },
      { ms: 0, event: { type: "session", model: "scripted" } },
      { ms: 0, event: { type: "text_delta", text: "I add." } },
      { ms: 0, event: { type: "message", content: "I add." } },
      { ms: 0, event: { type: "tool_call", toolCall: { ...call, id: "call_1" } } },
      {
        ...{ ms: 0 },
        event: { type: "usage", usage: expect.objectContaining({ estimated: true }), rawStopReason: "tool_calls" },
      },
      { ms: 0, done: { model: "scripted", stopReason: "tool_calls" } },
      { call: 2, after: 1, tools: 1 },
      { message: { type: "ai", content: "", tool_calls: [{ ...call, id: "call_1" }] } },
      { message: { type: "tool", content: "3", tool_call_id: "call_1" } },
      { ms: 0, event: { type: "session", model: "scripted" } },
      { ms: 0, event: { type: "text_delta", text: "3" } },
      { ms: 0, event: { type: "message", content: "3" } },
      {
        ...{ ms: 0 },
        event: {
          ...{ type: "usage", rawStopReason: "stop" },
          usage: { inputTokens: 5, outputTokens: 1, totalTokens: 6 },
        },
      },
      { ms: 0, done: { model: "scripted", stopReason: "stop" } },
      { call: 3 },
      { message: { type: "human", content: "again" } },
      { ms: 0, event: { type: "session", model: "scripted" } },
      { ms: 0, event: { type: "text_delta", text: "half" } },
      {
        ...{ ms: 0 },
        error: {
          ...{ code: "RATE_LIMITED", message: "slow down", retryAfterMs: 900 },
          ...{ shouldRetry: true, shouldFallback: false, partial: { text: "half", events: 2 } },
        },
      },
    ]);

    const provider = createCassetteProvider(pathToFileURL(file));
    expect(provider.id).toBe("inner");
    const bound = provider.bindTools([ADD]);
    const first = await bound.invoke(["1 + 2?"]);
    expect(first.tool_calls).toEqual([{ ...call, id: "call_1" }]);
    expect(await collect(bound.stream(thread("call_1")))).toEqual(recorded);
    expect(await failure(provider.bindTools([]).invoke(["again"]))).toMatchObject({
      ...{ code: "RATE_LIMITED", message: "slow down", retryAfterMs: 900, partial: { text: "half" } },
    });
    await provider.close();
    expect(readdirSync(join(file, ".."))).toEqual(["tape.jsonl"]);
  });

  it("is an agent's model, to record and to play, structured output and all", async () => {
    const script: Script = [{ toolCalls: [{ name: "add", args: {} }] }, "no JSON", '{"sum":3}'];
    const run = (provider: ReturnType<typeof createCassetteProvider>) =>
      runAgent({
        ...{ provider, prompt: "1 + 2?", outputSchema: z.object({ sum: z.number() }) },
        tools: [{ ...ADD, execute: () => "3" }],
      }).result;
    await record(script, async (provider) => expect((await run(provider)).structured).toEqual({ sum: 3 }));
    const provider = replay();
    expect(await run(provider)).toMatchObject({ status: "completed", structured: { sum: 3 } });
    await provider.close();
  });

  it("records a call that was aborted, which waits for its abort again", async () => {
    const controller = () => new AbortController();
    const abort = async (provider: ReturnType<typeof createCassetteProvider>, ending = controller()) => {
      const seen: string[] = [];
      const reading = (async () => {
        for await (const event of provider.stream(["Hi"], { signal: ending.signal })) {
          seen.push(event.type);
          if (event.type === "text_delta") ending.abort(new Error("enough"));
        }
      })();
      expect((await failure(reading)).message).toBe("enough");
      return seen;
    };
    const script: Script = () => ({ deltas: ["a", { text: "b", delayMs: 60_000 }] });
    let seen: string[] = [];
    await record(script, async (provider) => {
      seen = await abort(provider);
    });
    expect(lines().at(-1)).toEqual({ ms: 0, aborted: true });
    const provider = replay();
    expect(await abort(provider)).toEqual(seen);
    await provider.close();
  });

  describe("strictly", () => {
    const two = (provider: ReturnType<typeof createCassetteProvider>) =>
      Promise.all([provider.invoke(["The first question is long enough"]), provider.invoke(["Another"])]);

    it("tells the nearest call, what differs, and what was not played", async () => {
      await record((request) => `To ${request.messages[0]?.content}`, two);
      const provider = replay();
      const error = await failure(provider.bindTools([ADD]).invoke(["The first question is long"], { temperature: 0 }));
      expect(error).toMatchObject({ code: "INVALID_REQUEST", shouldRetry: false, shouldFallback: false });
      expect(error.message).toBe(
        `request 1, whose last message is human: "The first question is long", is not on the cassette ${file}; ` +
          'the nearest is call 1: messages[0].content: "…on is long enough" on the tape, "…on is long" now; ' +
          'tools[0]: nothing on the tape, {"name":"add","description":"adds","schema":{"type":"object"… now; ' +
          "options.temperature: nothing on the tape, 0 now",
      );
      const plain = provider.bindTools([]);
      expect((await plain.invoke(["Another"])).content).toBe("To Another");
      expect((await failure(plain.invoke(["Another"]))).message).toMatch(
        /is not on the cassette .* once more: call 2 had it, and was played/,
      );
      const left = await failure(provider.close());
      expect(left).toMatchObject({ code: "INVALID_REQUEST" });
      expect(left.message).toMatch(
        /^1 of the 2 calls of .*tape\.jsonl were not made, the first is call 1, whose last message is human: "The first/,
      );
      await provider.close();
    });

    it("plays conversations in any order, and one only in its own", async () => {
      await record(
        (request) => `To ${request.messages.at(-1)?.content}`,
        async (provider) => {
          await provider.invoke(["a"]);
          await provider.invoke(["b"]);
          await provider.invoke(["a", new AIMessage("To a"), "a2"]);
          await provider.invoke(["a"]);
        },
      );
      const provider = replay();
      const later = ["a", new AIMessage("To a"), "a2"];
      expect((await failure(provider.invoke(later))).message).toMatch(
        /is not on the cassette .* at this place: it is call 3, which comes behind call 1/,
      );
      for (const thread of [["b"], ["a"], ["a"], later]) {
        expect((await provider.invoke(thread)).content).toBe(`To ${thread.at(-1)}`);
      }
      await provider.close();
    });

    it("lets vary what `match` names", async () => {
      await record(["x", "y"], async (provider) => {
        await provider.invoke(["It is 2026-01-01 in /home/a"]);
        await provider.invoke(["n=1"]);
      });
      const patterns = replay({ match: [/\d{4}-\d\d-\d\d/, "/home/a", "/home/b", /n=\d/g] });
      expect((await patterns.invoke(["It is 2027-12-31 in /home/b"])).content).toBe("x");
      expect((await patterns.invoke(["n=2"])).content).toBe("y");
      await patterns.close();
      const own = replay({ match: ({ messages }) => messages.length });
      expect((await own.invoke(["else"])).content).toBe("x");
      await own.close().catch(() => {});
    });
  });

  it("plays moments as far ahead as they were", async () => {
    const resetsAt = Date.now() + 3_600_400;
    await record([{ error: { code: "USAGE_LIMIT", resetsAt } }], (provider) => failure(provider.invoke(["Hi"])));
    expect(lines().at(-1)).toMatchObject({ error: { code: "USAGE_LIMIT", resetsAt: "+3600000" } });
    vi.useFakeTimers({ now: resetsAt + 86_400_000, toFake: ["Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const provider = replay();
    const error = await failure(provider.invoke(["Hi"]));
    expect(error.resetsAt).toEqual(new Date(resetsAt + 86_400_000 + 3_600_000));
    await provider.close();
  });

  it("keeps secrets out and pictures beside, and knows both again", async () => {
    const secret = `sk-ant-api03-${"a1B2".repeat(20)}`;
    const image = Buffer.from("not really a picture".repeat(20)).toString("base64");
    const content = [
      { type: "text", text: `My key is ${secret}` },
      { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
    ];
    await record([`Yours is ${secret}`], (provider) => provider.invoke([{ role: "user", content }]));
    const text = readFileSync(file, "utf8");
    expect(text).not.toContain(secret.slice(0, 30));
    expect(text).not.toContain(image.slice(0, 30));
    const [asset = ""] = readdirSync(file.replace(".jsonl", ".assets"));
    expect(asset).toMatch(/^[0-9a-f]{16}\.png$/);
    expect(text).toContain(`asset:${asset}`);
    expect(readFileSync(join(file.replace(".jsonl", ".assets"), asset)).toString("base64")).toBe(image);
    const provider = replay();
    expect((await provider.invoke([{ role: "user", content }])).content).toMatch(/^Yours is \[redacted/);
    await provider.close();
  });

  it("records where RECORD=1 says so, and adds in auto what is not there", async () => {
    expect(() => createCassetteProvider(file)).toThrow(/there is no cassette .*tape\.jsonl: run it once with RECORD=1/);
    vi.stubEnv("RECORD", "1");
    const made = vi.fn(() => createScriptedProvider(["one"]));
    const recording = createCassetteProvider(file, { provider: made });
    await recording.invoke(["1"]);
    await recording.close();
    vi.stubEnv("RECORD", "");
    const auto = createCassetteProvider(file, { mode: "auto", provider: () => createScriptedProvider(["two"]) });
    expect((await auto.invoke(["1"])).content).toBe("one");
    expect((await auto.invoke(["2"])).content).toBe("two");
    await auto.close();
    const provider = createCassetteProvider(file, { provider: made });
    expect((await Promise.all([provider.invoke(["2"]), provider.invoke(["1"])])).map(({ content }) => content)).toEqual(
      [...["two", "one"]],
    );
    await provider.close();
    expect(made).toHaveBeenCalledTimes(1);
  });

  it("says what is wrong with a file, and in which line", () => {
    const head = '{"cassette":1,"provider":"x"}\n';
    for (const [text, reason] of [
      ["", "1: the file is empty"],
      ["[]", "1: the line is no object"],
      ['{"a":1}', '1: the file is no cassette: its first line must be {"cassette":1,…}'],
      ['{"cassette":9,"provider":"x"}', "1: it is of format 9, and this package knows formats up to 1"],
      ['{"cassette":1,"provider":"../x"}', '1: "provider" must be a provider\'s id'],
      [`${head}{"message":{}}`, '2: a line outside of a call: there must be {"call": number} before it'],
      [`${head}{"call":2}`, '2: "call" must be 1: calls are counted from 1'],
      [`${head}{"call":1,"after":1}`, '2: "after" must be the number of an earlier call'],
      [`${head}{"call":1,"after":"__proto__"}`, '2: "after" must be the number of an earlier call'],
      [`${head}{"call":1}\n{"event":{"type":"toString"}}`, '3: there is no event of the type "toString"'],
      [`${head}{"call":1}\n{"event":{"type":"message"}}`, '3: the event\'s "content" must be a string'],
      [
        `${head}{"call":1}\n{"event":{"type":"tool_call","toolCall":{"name":"x"}}}`,
        '"toolCall" must be { name, args, id }',
      ],
      [`${head}{"call":1}\n{"error":{"code":"NO"}}`, '3: there is no error of the code "NO"'],
      [`${head}{"call":1}\n{"x":1}`, "3: the line is none that a call has"],
      [`${head}{"call":1}\n{"call":2}`, "3: call 1 has no end before the next one"],
      [`${head}{"call":1}\n`, "3: call 1 has no end: the file is cut short"],
      [`${head}{"call":1}\n{"mess`, "and it is the last: the file may be cut short"],
    ]) {
      writeFileSync(file, String(text));
      expect(() => replay(), text).toThrow(`the cassette can't be played: ${file}:`);
      expect(() => replay(), text).toThrow(reason);
    }
    expect(() => createCassetteProvider("")).toThrow("file must be a path or a file: URL");
    expect(() => replay({ mode: "play" as never })).toThrow("mode must be one of replay, record, auto");
    expect(() => replay({ match: [1] as never })).toThrow("match must be an array of regular expressions");
    expect(() => createCassetteProvider(file, { mode: "record" })).toThrow(
      "provider must be a provider, or a function",
    );
  });
});
