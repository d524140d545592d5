/** Scripted providers: what a script says is what a provider gives, in every face, with the addon and without it. */
import { execFile } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
import { createScriptedProvider, type Script, type ScriptedProviderOptions } from "deep-factor-providers/testing";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
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
