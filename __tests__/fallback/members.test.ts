/** Several providers as one: what their members have in common: tools, breakers, their end. */
import { AIMessage } from "@langchain/core/messages";
import { createClaudeCliProvider, createFallbackProvider, type FallbackProvider } from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { caught, collect, failure, hi, lost, plain, result, spoken, thread, toldBy } from "./members.js";

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
    const claude = createClaudeCliProvider({ cliPath: fake.path, textToolCalls: "lenient" });
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
      [[plain("a", hi)], { breaker: { resetMs: -1 } }, 'option "breaker.resetMs" must be a whole number of ms from 1'],
      [[plain("a", hi)], { retries: 1 }, 'unknown option "retries"; allowed: fallbackOnRateLimit, breaker'],
    ] as never[][]) {
      expect(() => createFallbackProvider(adapters as never, options)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(message as never) }),
      );
    }
  });
});
