/** Updates, events and cancelling over a scripted native side: who is told what, and when, if a caller turns away. */
import { describe, expect, it, vi } from "vitest";
import type { CliProvider, InvokeUpdate, ProviderEvent } from "../index.js";
import { EVENTS, FAILURE, REPLY, setup, started, thread, USAGE } from "./facade-native-side.js";

describe("invokeWithUpdates", () => {
  const updatesOf = async (...batches: object[][]) => {
    const { provider } = setup({ batches });
    const updates: InvokeUpdate[] = [];
    await provider.invokeWithUpdates(thread, (update) => void updates.push(update));
    return updates;
  };

  it("tells whole messages, calls, usage and the end, in order", async () => {
    expect(await updatesOf(...EVENTS)).toEqual([
      { type: "assistant_message", content: "let me look" },
      { type: "tool_call", toolCall: { name: "Read", id: "t0", args: { path: "x" } } },
      { type: "assistant_message", content: "hi" },
      { type: "usage", usage: USAGE, rawStopReason: "end_turn" },
      { type: "final", content: "hi", usage: USAGE, rawStopReason: "end_turn" },
    ]);
  });

  it("hands on messages and calls in the order of the events", async () => {
    const call = { id: "call_0", name: "a", args: {} };
    const reply = {
      ...REPLY,
      content: "I look.",
      messages: [{ content: "first" }, { content: "I look." }],
      toolCalls: [call],
    };
    const events = [
      { type: "message", content: "first" },
      { type: "message", content: "I look.\n" },
      { type: "tool_call", toolCall: call },
      { type: "done", reply },
    ];
    const expected = [
      { type: "assistant_message", content: "first" },
      { type: "assistant_message", content: "I look." },
      { type: "tool_call", toolCall: call },
      { type: "final", content: "I look.", usage: USAGE },
    ];
    expect(await updatesOf(events)).toEqual(expected);
    // A call that only the reply knows is not lost.
    expect(await updatesOf(events.filter(({ type }) => type !== "tool_call"))).toEqual(expected);
    const silent = { ...reply, content: "", messages: [] };
    expect(await updatesOf([{ type: "done", reply: silent }])).toEqual([
      { type: "tool_call", toolCall: call },
      { type: "final", usage: USAGE },
    ]);
  });

  it("tells the answer even if no message event brought it", async () => {
    expect(await updatesOf([{ type: "done", reply: REPLY }])).toEqual([
      { type: "assistant_message", content: "hi" },
      { type: "final", content: "hi", usage: USAGE },
    ]);
  });

  it("waits for each update to be taken, and settles after the last", async () => {
    const { provider, log } = setup({ batches: EVENTS });
    const order: string[] = [];
    const message = await provider.invokeWithUpdates(thread, async ({ type }) => {
      order.push(`${type}…`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(type);
    });
    expect(order).toEqual(
      ["assistant_message", "tool_call", "assistant_message", "usage", "final"].flatMap((type) => [`${type}…`, type]),
    );
    expect(message.content).toBe("hi");
    expect(log).toEqual([started([], { events: true, partial: false, documents: true }), "ended"]);
  });

  it.each(["throws", "rejects"])("a listener that %s ends the run and is what the call rejects with", async (how) => {
    const { provider, log } = setup({ batches: EVENTS, hangs: true });
    const error = new Error("the caller's own");
    const onUpdate = vi.fn(() => {
      if (how === "throws") throw error;
      return Promise.reject(error);
    });
    await expect(provider.invokeWithUpdates(thread, onUpdate)).rejects.toBe(error);
    expect(onUpdate).toHaveBeenCalledOnce();
    expect(log.slice(1)).toEqual(expect.arrayContaining(["cancel", "ended"]));
    expect(log.at(-1)).toBe("ended");
  });
});

describe("stream", () => {
  it("yields every event, starting when asked for the first", async () => {
    const { provider, log } = setup({ batches: EVENTS });
    const stream = provider.stream(thread, { timeout: 5 });
    expect(log).toEqual([]);
    const events: ProviderEvent[] = [];
    for await (const event of stream) events.push(event);
    expect(events).toEqual(EVENTS.flat());
    expect(log).toEqual([started([], { events: true, partial: true, timeout: 5, documents: true }), "ended"]);
  });

  it("throws what the run failed with, after what it brought", async () => {
    const { provider } = setup({ batches: EVENTS.slice(0, 1), result: { err: FAILURE } });
    const stream = provider.stream(thread);
    expect(await stream.next()).toEqual({ done: false, value: EVENTS[0]?.[0] });
    await expect(stream.next()).rejects.toMatchObject(FAILURE);
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  it("break cancels and waits for the end", async () => {
    const { provider, log } = setup({ batches: EVENTS, hangs: true });
    for await (const { type } of provider.stream(thread)) if (type === "text_delta") break;
    expect(log.at(-1)).toBe("ended");
    expect(log).toContain("cancel");
  });

  it("return() while an event is awaited cancels at once, and both settle", async () => {
    const { provider, log } = setup({ batches: EVENTS.slice(0, 1), hangs: true });
    const stream = provider.stream(thread);
    await stream.next();
    const pending = stream.next();
    expect(await stream.return()).toEqual({ done: true, value: undefined });
    expect(await pending).toEqual({ done: true, value: undefined });
    expect(log.at(-1)).toBe("ended");
  });

  it("return() before the first event starts nothing", async () => {
    const { provider, log } = setup();
    const stream = provider.stream(thread);
    await stream[Symbol.asyncDispose]();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    expect(log).toEqual([]);
  });
});

describe("AbortSignal", () => {
  const ways: [string, (provider: CliProvider, signal: AbortSignal) => Promise<unknown>][] = [
    ["invoke", (provider, signal) => provider.invoke(thread, { signal })],
    ["invokeWithUpdates", (provider, signal) => provider.invokeWithUpdates(thread, () => {}, { signal })],
    [
      "stream",
      async (provider, signal) => {
        for await (const _ of provider.stream(thread, { signal }));
      },
    ],
  ];

  function watched() {
    const controller = new AbortController();
    const add = vi.spyOn(controller.signal, "addEventListener");
    const remove = vi.spyOn(controller.signal, "removeEventListener");
    return { controller, signal: controller.signal, add, remove };
  }

  it.each(ways)("%s: aborted before, nothing starts", async (_, call) => {
    const { provider, log } = setup();
    const { controller, signal, add } = watched();
    controller.abort(new Error("too late"));
    await expect(call(provider, signal)).rejects.toBe(signal.reason);
    expect([log, add.mock.calls]).toEqual([[], []]);
  });

  it.each(ways)("%s: aborted meanwhile, the run ends before the call rejects with the reason", async (_, call) => {
    const { provider, log } = setup({ hangs: true });
    const { controller, signal, add, remove } = watched();
    const result = call(provider, signal);
    controller.abort();
    await expect(result).rejects.toBe(signal.reason);
    expect(signal.reason).toMatchObject({ name: "AbortError" });
    expect(log.slice(1)).toEqual(["cancel", "ended"]);
    expect(add.mock.calls).toEqual([["abort", expect.any(Function), { once: true }]]);
    expect(remove).toHaveBeenCalledWith("abort", add.mock.calls[0]?.[1]);
    expect(signal.onabort).toBeNull();
  });

  it.each(ways)("%s: aborted afterwards, nothing happens, and no listener is left", async (_, call) => {
    const { provider, log } = setup({ batches: EVENTS }, { result: { err: FAILURE } });
    const { controller, signal, add, remove } = watched();
    await call(provider, signal);
    await expect(call(provider, signal)).rejects.toMatchObject(FAILURE);
    controller.abort();
    expect(log).not.toContain("cancel");
    expect(add).toHaveBeenCalledTimes(2);
    expect(remove.mock.calls.map(([, listener]) => listener)).toEqual(add.mock.calls.map(([, listener]) => listener));
  });

  it("no event follows an abort", async () => {
    const { provider } = setup({ batches: [EVENTS.flat()], hangs: true });
    const { controller, signal } = watched();
    const seen: string[] = [];
    const call = provider.invokeWithUpdates(
      thread,
      ({ type }) => {
        seen.push(type);
        controller.abort("enough");
      },
      { signal },
    );
    await expect(call).rejects.toBe("enough");
    expect(seen).toEqual(["assistant_message"]);
  });
});
