/** Several providers as one: what is told of a call while it goes on. */
import { AIMessage } from "@langchain/core/messages";
import { createFallbackProvider, type InvokeUpdate, type ModelAdapter } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { answering, caught, cli, collect, dying, dyingLate, hi, lost, plain, thread } from "./members.js";

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

  it("moves on where all that an adapter of the caller's told is the error that it throws", async () => {
    const own: ModelAdapter = {
      invoke: () => Promise.reject(new Error("not asked so")),
      async invokeWithUpdates(_, onUpdate) {
        onUpdate({ type: "error", error: "claude: command not found" });
        throw new Error("claude: command not found");
      },
    };
    const updates: InvokeUpdate[] = [];
    const provider = createFallbackProvider([own, cli("b", answering)]);
    const message = await provider.invokeWithUpdates(thread, (update) => void updates.push(update));
    expect(updates.map(({ type }) => type)).toEqual(["assistant_message", "usage", "final"]);
    expect(message.response_metadata.fallback).toMatchObject({
      index: 1,
      skipped: [{ provider: "adapter", code: "UNKNOWN", message: "claude: command not found" }],
    });
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
