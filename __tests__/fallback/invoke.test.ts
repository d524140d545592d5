/** Several providers as one: who is asked when, and what the caller gets in the end. */
import { AIMessage } from "@langchain/core/messages";
import { createFallbackProvider, ProviderError, type ProviderErrorCode } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { caught, failure, GUIDANCE, hi, lost, plain, thread, toldBy } from "./members.js";

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

  it.each([...GUIDANCE])("%s: as its category says", async (code, { category, shouldFallback }) => {
    const error = failure(code as ProviderErrorCode, "why");
    const provider = createFallbackProvider([plain("a", error), plain("b", hi)]);
    if (shouldFallback || category === "rate_limit") expect(toldBy(await provider.invoke(thread)).index).toBe(1);
    else expect(await caught(provider.invoke(thread))).toBe(error);
  });

  it("stops at a rate limit where it is told to", async () => {
    const error = failure("RATE_LIMITED", "slow down", { attempts: 3 });
    const members = () => [plain("a", error), plain("b", hi)] as const;
    const [a, b] = members();
    expect(await caught(createFallbackProvider([a, b], { fallbackOnRateLimit: false }).invoke(thread))).toBe(error);
    expect(b.calls).toEqual([]);
    const message = await createFallbackProvider(members()).invoke(thread);
    expect(toldBy(message)).toEqual({
      provider: "b",
      index: 1,
      skipped: [{ provider: "a", code: "RATE_LIMITED", message: "slow down" }],
    });
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
