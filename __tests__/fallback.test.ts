/** Several providers as one: who is asked when, what is told of it, and what the caller gets in the end. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  createClaudeCliProvider,
  createFallbackProvider,
  type FallbackMetadata,
  type FallbackProvider,
  type InvokeUpdate,
  type ModelAdapter,
  ProviderError,
  type ProviderErrorCode,
  type ProviderErrorInit,
  type ProviderEvent,
} from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import nativeSide from "../src/js/native.cjs";
import { createFakes } from "./support/fake.mjs";

const GUIDANCE = new Map<string, { category: string; shouldRetry: boolean; shouldFallback: boolean }>(
  JSON.parse(nativeSide.errorCodes()).codes.map(({ code, category }: { code: string; category: string }) => [
    code,
    JSON.parse(nativeSide.errorCodes()).categories.find((it: { category: string }) => it.category === category),
  ]),
);

/** An error as a provider throws it. */
function failure(code: ProviderErrorCode, message: string, more: Partial<ProviderErrorInit> = {}): ProviderError {
  const guidance = GUIDANCE.get(code) as never as ProviderErrorInit;
  return new ProviderError({ ...guidance, code, message, provider: "x", attempts: 1, ...more });
}

const thread = [new HumanMessage("hello")];

/** An adapter that can only `invoke`; each call takes the next of what it is given, the last stays. */
function plain(id: string, ...answers: (Error | ((...args: unknown[]) => unknown))[]) {
  const calls: unknown[][] = [];
  const adapter = {
    id,
    calls,
    async invoke(...args: unknown[]) {
      calls.push(args);
      const next = answers.length > 1 ? answers.shift() : answers[0];
      if (next instanceof Error) throw next;
      return typeof next === "function" ? next(...args) : next;
    },
  };
  return adapter as typeof adapter & ModelAdapter;
}

/** A message of its own for each call. */
const hi = () => new AIMessage("hi");
const lost = () => failure("CONNECTION_LOST", "the connection broke");

/** What the answer says of who gave it. */
const toldBy = (message: AIMessage) => message.response_metadata.fallback as FallbackMetadata;

const caught = async (call: Promise<unknown>): Promise<ProviderError> =>
  await call.then(
    () => Promise.reject(new Error("it did not fail")),
    (error) => error,
  );

async function collect(events: AsyncIterable<ProviderEvent>) {
  const collected: ProviderEvent[] = [];
  const error = await (async () => {
    for await (const event of events) collected.push(event);
  })().catch((error: unknown) => error);
  return { events: collected, error };
}

describe("invoke", () => {
  it("asks the first, and says that it answered", async () => {
    const [a, b] = [plain("a", hi), plain("b", hi)];
    const options = { timeout: 5 };
    const message = await createFallbackProvider([a, b]).invoke(thread, options);
    expect(message).toBeInstanceOf(AIMessage);
    expect(message.content).toBe("hi");
    expect(message.response_metadata.fallback).toEqual({ provider: "a", index: 0, skipped: [] });
    expect(JSON.parse(JSON.stringify(message)).kwargs.response_metadata.fallback.provider).toBe("a");
    expect(a.calls).toEqual([[thread, options]]);
    expect(b.calls).toEqual([]);
  });

  it("moves on where the error says so, and tells why", async () => {
    const members = [
      plain("a", failure("USAGE_LIMIT", "weekly limit reached")),
      plain("", new TypeError("fetch failed")),
      plain("c", hi),
    ];
    const message = await createFallbackProvider(members).invoke(thread);
    expect(message.response_metadata.fallback).toEqual({
      provider: "c",
      index: 2,
      skipped: [
        { provider: "a", code: "USAGE_LIMIT", message: "weekly limit reached" },
        { provider: "adapter", code: "UNKNOWN", message: "fetch failed" },
      ],
    });
  });

  it.each([...GUIDANCE])("%s: as its category says", async (code, { shouldFallback }) => {
    const error = failure(code as ProviderErrorCode, "why");
    const provider = createFallbackProvider([plain("a", error), plain("b", hi)]);
    if (shouldFallback) expect(toldBy(await provider.invoke(thread)).index).toBe(1);
    else expect(await caught(provider.invoke(thread))).toBe(error);
  });

  it("gives one error that lists all, when all have failed", async () => {
    const resetsAt = new Date(1_900_000_000_000);
    const reasons = [
      { attempt: 1, code: "CONNECTION_LOST", message: "first" },
      { attempt: 2, code: "CONNECTION_LOST", message: "second" },
    ] as const;
    const errors = [
      failure("USAGE_LIMIT", "weekly limit reached", { resetsAt }),
      failure("CONNECTION_LOST", "second", { attempts: 2, reasons, retryAfterMs: 700 }),
    ];
    const other = new RangeError("odd");
    const provider = createFallbackProvider([
      ...errors.map((it, index) => plain("ab"[index] ?? "", it)),
      plain("c", other),
    ]);
    const error = await caught(provider.invoke(thread));
    expect(error).toBeInstanceOf(ProviderError);
    expect({ ...error }).toEqual({
      category: "unknown",
      code: "UNKNOWN",
      provider: "fallback",
      shouldRetry: false,
      shouldFallback: true,
      retryAfterMs: 700,
      resetsAt,
      attempts: 4,
      reasons: [
        { provider: "a", attempt: 1, code: "USAGE_LIMIT", message: "weekly limit reached" },
        { provider: "b", ...reasons[0] },
        { provider: "b", ...reasons[1] },
        { provider: "c", attempt: 1, code: "UNKNOWN", message: "odd" },
      ],
    });
    expect(error.message).toBe("no provider could answer (3): a: weekly limit reached; b: second; c: odd");
    const cause = error.cause as AggregateError;
    expect(cause).toBeInstanceOf(AggregateError);
    expect(cause.errors.slice(0, 2)).toEqual(errors);
    expect(cause.errors[2].cause).toBe(other);
    expect(JSON.parse(JSON.stringify(error))).toMatchObject({
      cause: {
        name: "AggregateError",
        errors: [{ name: "ProviderError" }, {}, { name: "ProviderError", message: "odd" }],
      },
    });
  });

  it("keeps the category all share, and fits long reasons into one message", async () => {
    const long = failure("SERVER_ERROR", `boom ${"x".repeat(900)}`);
    const members = Array.from({ length: 9 }, (_, index) => plain(`provider-${index}`, long));
    const error = await caught(createFallbackProvider(members).invoke(thread));
    expect(error).toMatchObject({ category: "server", code: "SERVER_ERROR", shouldRetry: true });
    expect(error.message.length).toBeLessThanOrEqual(480);
    for (const { id } of members) expect(error.message).toContain(`${id}: boom`);
  });

  it("lists those before one that is no case for another", async () => {
    const provider = createFallbackProvider([plain("a", lost()), plain("b", failure("INVALID_API_KEY", "bad key"))]);
    expect(await caught(provider.invoke(thread))).toMatchObject({
      category: "authentication",
      code: "INVALID_API_KEY",
      shouldFallback: false,
      message: "b failed for good: a: the connection broke; b: bad key",
      reasons: [{ provider: "a" }, { provider: "b" }],
    });
  });

  it("gives a lone member's own error", async () => {
    const error = lost();
    expect(await caught(createFallbackProvider([plain("a", error)]).invoke(thread))).toBe(error);
  });
});

describe("an abort", () => {
  it("never moves on: before, during, and from inside an adapter", async () => {
    const b = plain("b", hi);
    const reason = new Error("enough");
    const hanging = createFallbackProvider([plain("a", () => new Promise(() => {})), b]);
    const controller = new AbortController();
    const call = hanging.invoke(thread, { signal: controller.signal });
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
    await expect(hanging.invoke(thread, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const own = new DOMException("stopped", "AbortError");
    await expect(createFallbackProvider([plain("a", own), b]).invoke(thread)).rejects.toBe(own);
    expect(b.calls).toEqual([]);
  });

  it("is what a failure at the same time comes to", async () => {
    const controller = new AbortController();
    const a = plain("a", () => {
      controller.abort("why");
      throw lost();
    });
    const b = plain("b", hi);
    await expect(createFallbackProvider([a, b]).invoke(thread, { signal: controller.signal })).rejects.toBe("why");
    expect(b.calls).toEqual([]);
  });
});

/** A fake CLI that speaks claude's stream-json. */
function cli(id: string, ...behaviours: object[]) {
  const fakes = createFakes();
  onTestFinished(fakes.cleanup);
  return createClaudeCliProvider({ cliPath: fakes.cli(id, behaviours).path, retry: false });
}
const line = (value: object) => `${JSON.stringify(value)}\n`;
const spoken = (text: string) => line({ type: "assistant", message: { id: "m1", content: [{ type: "text", text }] } });
const result = (more: object) =>
  line({ type: "result", subtype: "success", num_turns: 1, usage: { input_tokens: 3, output_tokens: 2 }, ...more });
const answering = { stdout: spoken("from the CLI") + result({ is_error: false, result: "from the CLI" }) };
const dying = { stdout: result({ is_error: true, api_error_status: 500, result: "API Error: 500 boom" }), code: 1 };
const dyingLate = { ...dying, stdout: spoken("Half an answer") + dying.stdout };

describe("invokeWithUpdates", () => {
  it("gives the updates of the one that answers, and nothing of the one that failed before any output", async () => {
    const updates: InvokeUpdate[] = [];
    const provider = createFallbackProvider([cli("a", dying), cli("b", answering)]);
    const message = await provider.invokeWithUpdates(thread, (update) => void updates.push(update));
    const usage = { inputTokens: 3, outputTokens: 2, totalTokens: 5 };
    expect(updates).toEqual([
      { type: "assistant_message", content: "from the CLI" },
      { type: "usage", usage },
      { type: "final", content: "from the CLI", usage },
    ]);
    expect(message.response_metadata).toMatchObject({
      provider: "claude",
      fallback: { provider: "claude", index: 1, skipped: [{ provider: "claude", code: "SERVER_ERROR" }] },
    });
  });

  it("does not move on once an update was given", async () => {
    const b = plain("b", hi);
    const updates: InvokeUpdate[] = [];
    const provider = createFallbackProvider([cli("a", dyingLate), b]);
    const error = await caught(provider.invokeWithUpdates(thread, (update) => void updates.push(update)));
    expect(error).toMatchObject({ code: "SERVER_ERROR", provider: "claude" });
    expect(updates).toEqual([{ type: "assistant_message", content: "Half an answer" }]);
    expect(b.calls).toEqual([]);
  });

  it("makes updates of a plain adapter's answer", async () => {
    const answer = new AIMessage({
      content: [{ type: "text", text: " let me " }],
      tool_calls: [{ id: "c1", name: "add", args: { a: 1 } }],
      response_metadata: { finish_reason: "tool_calls" },
    });
    Object.assign(answer, { usage_metadata: { input_tokens: 4, output_tokens: 2, total_tokens: 6 } });
    const updates: InvokeUpdate[] = [];
    await createFallbackProvider([plain("a", () => answer)]).invokeWithUpdates(
      thread,
      (update) => void updates.push(update),
    );
    const figures = { usage: { inputTokens: 4, outputTokens: 2, totalTokens: 6 }, rawStopReason: "tool_calls" };
    expect(updates).toEqual([
      { type: "assistant_message", content: "let me" },
      { type: "tool_call", toolCall: { name: "add", args: { a: 1 }, id: "c1" } },
      { type: "usage", ...figures },
      { type: "final", content: "let me", ...figures },
    ]);
  });

  it("rejects with the very error that onUpdate throws, and asks nobody else", async () => {
    const reason = new Error("no more");
    const b = plain("b", hi);
    for (const first of [cli("a", answering), plain("a", hi)]) {
      const call = createFallbackProvider([first, b]).invokeWithUpdates(thread, () => Promise.reject(reason));
      await expect(call).rejects.toBe(reason);
    }
    expect(b.calls).toEqual([]);
  });

  it("gives updates one at a time, whatever the member does", async () => {
    const hasty = {
      ...plain("a", hi),
      async invokeWithUpdates(_: unknown, onUpdate: (update: InvokeUpdate) => void) {
        for (const content of ["1", "2"]) onUpdate({ type: "assistant_message", content });
        return new AIMessage("2");
      },
    };
    const log: string[] = [];
    await createFallbackProvider([hasty]).invokeWithUpdates(thread, async (update) => {
      log.push(`begin ${(update as { content?: string }).content}`);
      await new Promise((resolve) => setImmediate(resolve));
      log.push("end");
    });
    expect(log).toEqual(["begin 1", "end", "begin 2", "end"]);
    const refusing = createFallbackProvider([hasty]).invokeWithUpdates(thread, () => Promise.reject("no"));
    await expect(refusing).rejects.toBe("no");
  });

  it("wants a function", async () => {
    const call = createFallbackProvider([plain("a", hi)]).invokeWithUpdates(thread, "x" as never);
    await expect(call).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/^onUpdate must/),
    });
  });
});

describe("stream", () => {
  it("tells who was passed over, then the events of the next, and in the end who answered", async () => {
    const { events, error } = await collect(
      createFallbackProvider([cli("a", dying), cli("b", answering)]).stream(thread),
    );
    expect(error).toBeUndefined();
    expect(events.map(({ type }) => type).filter((type) => type !== "other")).toEqual([
      "start",
      "usage",
      "fallback",
      "start",
      "text_delta",
      "message",
      "usage",
      "done",
    ]);
    expect(events).toContainEqual({
      type: "fallback",
      provider: "claude",
      index: 0,
      code: "SERVER_ERROR",
      message: expect.stringMatching(/^API Error: 500 boom/),
    });
    expect(events.at(-1)).toMatchObject({
      type: "done",
      reply: {
        content: "from the CLI",
        fallback: { provider: "claude", index: 1, skipped: [{ code: "SERVER_ERROR" }] },
      },
    });
  });

  it("does not move on once output was given", async () => {
    const b = plain("b", hi);
    const { events, error } = await collect(createFallbackProvider([cli("a", dyingLate), b]).stream(thread));
    expect(events).toContainEqual({ type: "message", id: "m1", content: "Half an answer" });
    expect(error).toMatchObject({ code: "SERVER_ERROR" });
    expect(b.calls).toEqual([]);
  });

  it("makes events of a plain adapter's answer", async () => {
    const { events } = await collect(createFallbackProvider([plain("a", lost()), plain("b", hi)]).stream(thread));
    const usage = { inputTokens: 2, outputTokens: 1, totalTokens: 3, estimated: true };
    const start = { type: "start", runId: expect.any(String), attempt: 1, queuedMs: 0 };
    expect(events).toEqual([
      { ...start, provider: "a" },
      { type: "fallback", provider: "a", index: 0, code: "CONNECTION_LOST", message: "the connection broke" },
      { ...start, provider: "b" },
      { type: "message", content: "hi" },
      { type: "usage", usage },
      {
        type: "done",
        reply: {
          content: "hi",
          messages: [{ content: "hi" }],
          toolCalls: [],
          invalidToolCalls: [],
          usage,
          fallback: {
            provider: "b",
            index: 1,
            skipped: [{ provider: "a", code: "CONNECTION_LOST", message: "the connection broke" }],
          },
        },
      },
    ]);
  });

  it("is left at once, even in the middle of waiting, and its process is gone", async () => {
    const provider = cli("a", { hang: true });
    for (const member of [provider, plain("b", () => new Promise(() => {}))]) {
      const events = createFallbackProvider([member]).stream(thread);
      expect((await events.next()).value).toMatchObject({ type: "start" });
      const next = events.next();
      await events.return();
      expect(await next).toEqual({ value: undefined, done: true });
    }
    await provider.close();
  });

  it("throws what all have failed of", async () => {
    const { events, error } = await collect(
      createFallbackProvider([plain("a", lost()), plain("b", lost())]).stream(thread),
    );
    expect(events.map(({ type }) => type)).toEqual(["start", "fallback", "start"]);
    expect(error).toMatchObject({ code: "CONNECTION_LOST", category: "network", attempts: 2 });
  });
});

describe("bindTools", () => {
  it("binds on every member that can, and shares the breakers with the original", async () => {
    const bound: unknown[] = [];
    const a = plain("a", lost());
    const tooled = {
      ...a,
      bindTools(tools: unknown[]) {
        bound.push(tools);
        return plain("a, with tools", lost());
      },
    };
    const b = plain("b", hi);
    const provider = createFallbackProvider([tooled as never, b], { breaker: { failureThreshold: 2 } });
    const tools = [{ name: "t", schema: { type: "object" } }];
    const adapter = provider.bindTools(tools);
    expect(adapter).not.toBe(provider);
    expect(bound).toEqual([tools]);
    const skipped = [
      toldBy(await adapter.invoke(thread)).skipped[0],
      toldBy(await provider.invoke(thread)).skipped[0],
      toldBy(await adapter.invoke(thread)).skipped[0],
    ];
    expect(skipped.map((it) => [it?.provider, it?.message.slice(0, 9)])).toEqual([
      ["a", "the conne"],
      ["a", "the conne"],
      ["a", "not asked"],
    ]);
  });

  it("offers the tools to the real adapters", async () => {
    const call = { tool_calls: [{ name: "add", args: { a: 1 }, id: "c1" }] };
    const text = `\`\`\`json\n${JSON.stringify(call)}\n\`\`\``;
    const fakes = createFakes();
    onTestFinished(fakes.cleanup);
    const fake = fakes.cli("claude", { stdout: spoken(text) + result({ is_error: false, result: text }) });
    const claude = createClaudeCliProvider({ cliPath: fake.path });
    const adapter = createFallbackProvider([plain("a", lost()), claude]).bindTools([{ name: "add" }]);
    expect((await adapter.invoke(thread)).tool_calls).toEqual(call.tool_calls);
    expect(fake.calls()[0]?.stdin).toContain('"add"');
  });
});

describe("the breaker", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 }));
  afterEach(() => void vi.useRealTimers());

  const skippedBy = async (provider: FallbackProvider) => toldBy(await provider.invoke(thread)).skipped;

  it("passes a member over after five failures in a row, and asks it again half a minute later", async () => {
    const a = plain("a", lost(), lost(), lost(), lost(), lost(), hi);
    const provider = createFallbackProvider([a, plain("b", hi)]);
    for (let n = 0; n < 6; n++) await provider.invoke(thread);
    expect(a.calls).toHaveLength(5);
    vi.advanceTimersByTime(29_999);
    expect(await skippedBy(provider)).toEqual([
      {
        provider: "a",
        code: "CONNECTION_LOST",
        message: `not asked before ${new Date(1_800_000_030_000).toISOString()}, after it kept failing: the connection broke`,
      },
    ]);
    vi.advanceTimersByTime(1);
    expect(await skippedBy(provider)).toEqual([]);
    expect(a.calls).toHaveLength(6);
  });

  it("lets one call through to see, and the others go elsewhere meanwhile", async () => {
    let answer: (message: AIMessage) => void = () => {};
    const a = plain("a", lost(), () => new Promise((resolve) => (answer = resolve)));
    const provider = createFallbackProvider([a, plain("b", hi)], { breaker: { failureThreshold: 1, resetMs: 1_000 } });
    await provider.invoke(thread);
    vi.advanceTimersByTime(1_000);
    const probe = provider.invoke(thread);
    expect(await skippedBy(provider)).toHaveLength(1);
    answer(new AIMessage("back"));
    expect((await probe).content).toBe("back");
    const again = provider.invoke(thread);
    answer(new AIMessage("still here"));
    expect(toldBy(await again).index).toBe(0);
  });

  it("leaves a member whose quota is used up alone until it resets", async () => {
    const resetsAt = new Date(1_800_000_000_000 + 3_600_000);
    const a = plain("a", failure("USAGE_LIMIT", "weekly limit", { resetsAt }), hi);
    const provider = createFallbackProvider([a, plain("b", hi)]);
    expect(await skippedBy(provider)).toHaveLength(1);
    vi.advanceTimersByTime(3_599_999);
    expect(await skippedBy(provider)).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(await skippedBy(provider)).toEqual([]);
  });

  it("says when to come back, if all are passed over", async () => {
    const provider = createFallbackProvider([plain("a", lost()), plain("b", lost())], {
      breaker: { failureThreshold: 1, resetMs: 5_000 },
    });
    await caught(provider.invoke(thread));
    vi.advanceTimersByTime(1_000);
    expect(await caught(provider.invoke(thread))).toMatchObject({
      code: "CONNECTION_LOST",
      category: "network",
      attempts: 0,
      retryAfterMs: 4_000,
      reasons: [
        { provider: "a", attempt: 0 },
        { provider: "b", attempt: 0 },
      ],
    });
    expect((await collect(provider.stream(thread))).error).toMatchObject({ attempts: 0 });
  });

  it("does not count what is no fault of the member, and can be switched off", async () => {
    const refusing = plain("a", failure("REFUSAL", "no"));
    const provider = createFallbackProvider([refusing, plain("b", hi)], { breaker: { failureThreshold: 1 } });
    for (let n = 0; n < 3; n++) await caught(provider.invoke(thread));
    expect(refusing.calls).toHaveLength(3);
    const failing = plain("a", lost());
    const without = createFallbackProvider([failing, plain("b", hi)], { breaker: false });
    for (let n = 0; n < 9; n++) await without.invoke(thread);
    expect(failing.calls).toHaveLength(9);
  });

  it("lets the next call be the one that sees, when a stream was left before it told anything", async () => {
    const a = plain("a", lost(), () => new Promise(() => {}), hi);
    const provider = createFallbackProvider([a, plain("b", hi)], { breaker: { failureThreshold: 1 } });
    await provider.invoke(thread);
    vi.advanceTimersByTime(30_000);
    const events = provider.stream(thread);
    await events.next();
    void events.next();
    await events.return();
    expect(await skippedBy(provider)).toEqual([]);
  });
});

describe("the provider", () => {
  it("closes its members, and takes no more calls", async () => {
    const log: string[] = [];
    const closing = { ...plain("a", hi), close: async () => void log.push("a") };
    const disposing = { ...plain("b", hi), [Symbol.asyncDispose]: async () => void log.push("b") };
    const provider = createFallbackProvider([closing, disposing, plain("c", hi)]);
    const bound = provider.bindTools([]);
    await provider.close();
    await provider[Symbol.asyncDispose]();
    expect(log).toEqual(["a", "b", "a", "b"]);
    expect(await caught(bound.invoke(thread))).toMatchObject({ code: "CLOSED" });
    expect((await collect(provider.stream(thread))).error).toMatchObject({ code: "CLOSED" });
  });

  it("can be a member itself", async () => {
    const inner = createFallbackProvider([plain("a", lost()), plain("b", lost())]);
    const message = await createFallbackProvider([inner, plain("c", hi)]).invoke(thread);
    expect(message.response_metadata.fallback).toMatchObject({
      provider: "c",
      skipped: [{ provider: "fallback", code: "CONNECTION_LOST" }],
    });
  });

  it("gives AIMessage-shaped JSON without LangChain", async () => {
    const adapter = {
      invoke: async () => ({ type: "ai", content: "hi", response_metadata: { provider: "p" } }) as never,
    };
    const message = await native.createFallbackProvider([adapter]).invoke(["hello"]);
    expect(message.response_metadata).toEqual({
      provider: "p",
      fallback: { provider: "adapter", index: 0, skipped: [] },
    });
  });

  it("refuses what it can't be made of, by name", () => {
    for (const [adapters, options, message] of [
      [[], undefined, "adapters must be an array of at least one model adapter, got an empty one"],
      ["x", undefined, 'adapters must be an array of at least one model adapter, got the string "x"'],
      [[plain("a", hi), {}], undefined, "adapters[1] must have an invoke function, got an object"],
      [[plain("a", hi)], { breaker: true }, 'option "breaker" must be false, or an object'],
      [[plain("a", hi)], { breaker: { resetMs: -1 } }, 'option "breaker.resetMs" must be a whole number from 1'],
      [[plain("a", hi)], { retries: 1 }, 'unknown option "retries"; allowed: breaker'],
    ] as never[][]) {
      expect(() => createFallbackProvider(adapters as never, options)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(message as never) }),
      );
    }
  });
});
