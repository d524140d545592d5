/**
 * The provider over a scripted native side: what is sent, what is made of the answer, and who is told what when a caller
 * turns away. The same over the real addon is in the tests of the CLIs.
 */
import { createRequire } from "node:module";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AIMessageJson, CliProvider, InvokeUpdate, ProviderEvent, ProviderReply } from "../index.js";
import coreModule from "../src/js/core.cjs";

const require = createRequire(import.meta.url);

/** One run: batches of events, then a result. Where `hangs`, the run goes on until it is cancelled. */
interface Script {
  batches?: object[][];
  result?: object;
  hangs?: boolean;
}

function nativeSide(...scripts: Script[]) {
  const log: unknown[] = [];
  class NativeRun {
    #batches: object[][];
    #result: object;
    #over: Promise<void>;
    #end = () => {};
    constructor({ batches = [], result = { ok: REPLY }, hangs = false }: Script) {
      this.#batches = [...batches];
      this.#result = result;
      this.#over = hangs ? new Promise((resolve) => (this.#end = resolve)) : Promise.resolve();
    }
    async next() {
      const batch = this.#batches.shift();
      if (batch) return JSON.stringify(batch);
      await this.#over;
      return null;
    }
    async result() {
      await this.#over;
      // A run ends some time after it was told to; whoever doesn't wait for it settles before this is logged.
      await new Promise((resolve) => setImmediate(resolve));
      log.push("ended");
      return JSON.stringify(this.#result);
    }
    cancel() {
      log.push("cancel");
      this.#batches = [];
      this.#result = { cancelled: true };
      this.#end();
    }
  }
  const native = {
    attach: () => 7,
    killAll: (owner: number) => log.push(["killAll", owner]),
    checkOptions: (_kind: string, json: string) =>
      json.includes("bad") ? JSON.stringify({ err: { ...FAILURE, code: "INVALID_OPTION" } }) : '{"ok":{}}',
    NativeProvider: class {
      constructor(...given: unknown[]) {
        log.push(["provider", ...given]);
      }
      start(messages: string, tools: string, call: string) {
        log.push(["start", JSON.parse(messages), JSON.parse(tools), JSON.parse(call)]);
        return new NativeRun(scripts.shift() ?? {});
      }
      async close() {
        log.push("close");
      }
    },
    messagesToXml: (json: string) => `xml:${json}`,
    messagesToPrompt: (json: string) => `text:${json}`,
    parseToolCalls: (text: string) => text,
    escapeXml: (text: string) => `escaped:${text}`,
    stripAnsi: (text: string) => `stripped:${text}`,
    execFile: async (...given: string[]) =>
      JSON.stringify(given[0] === "fail" ? { err: FAILURE } : { ok: given.join(" ") }),
  };
  return { native: native as never, log };
}

// Each scripted native side is one more to attach to, with an exit hook of its own.
let hooks: NodeJS.ExitListener[] = [];
beforeEach(() => {
  hooks = process.listeners("exit");
});
afterEach(() => {
  for (const hook of process.listeners("exit")) if (!hooks.includes(hook)) process.removeListener("exit", hook);
});

const USAGE = { inputTokens: 5, outputTokens: 2, totalTokens: 7 };
const REPLY: ProviderReply = {
  content: "hi",
  messages: [{ content: "hi" }],
  toolCalls: [],
  invalidToolCalls: [],
  usage: USAGE,
};
const FAILURE = {
  category: "server",
  code: "CRASHED",
  message: "the CLI died",
  provider: "claude",
  shouldRetry: true,
  shouldFallback: true,
  attempts: 1,
  reasons: [],
};

function setup(...scripts: Script[]) {
  const { native, log } = nativeSide(...scripts);
  const core = coreModule.createCore({ native, AIMessage: AIMessage as never, toJsonSchema: null });
  const provider = core.createClaudeCliProvider({ model: "opus" }) as unknown as CliProvider;
  log.length = 0;
  return { core, provider, log };
}

const thread = [new HumanMessage("hello")];
const started = (tools: object[], call: object) => ["start", [{ type: "human", content: "hello" }], tools, call];
const ALONE = { events: false, partial: false };

describe("invoke", () => {
  it("makes an AIMessage that keeps everything through JSON", async () => {
    const reply: ProviderReply = {
      ...REPLY,
      toolCalls: [{ id: "c1", name: "calc", args: { b: 1, a: 2 } }],
      invalidToolCalls: [{ id: null, name: "calc", args: "{", error: "cut short" }],
      usage: { ...USAGE, cacheReadTokens: 3, reasoningTokens: 1 },
      messageId: "msg_1",
      model: "opus-x",
      sessionId: "s1",
      stopReason: "end_turn",
      permissionMode: "default",
      cliVersion: "2.1.197",
      costUsd: 0.5,
      durationMs: 12,
      numTurns: 1,
      diagnostics: ["noise"],
    };
    const { provider, log } = setup({ result: { ok: reply } });
    const message = await provider.invoke(thread);
    expect(message).toBeInstanceOf(AIMessage);
    const kwargs = {
      id: "msg_1",
      content: "hi",
      tool_calls: [{ name: "calc", args: reply.toolCalls[0]?.args, id: "c1" }],
      invalid_tool_calls: [{ type: "invalid_tool_call", name: "calc", args: "{", error: "cut short" }],
      usage_metadata: {
        input_tokens: 5,
        output_tokens: 2,
        total_tokens: 7,
        input_token_details: { cache_read: 3 },
        output_token_details: { reasoning: 1 },
      },
      response_metadata: {
        provider: "claude",
        model: "opus-x",
        model_name: "opus-x",
        session_id: "s1",
        stop_reason: "end_turn",
        permission_mode: "default",
        cost: 0.5,
        cost_usd: 0.5,
        duration_ms: 12,
        num_turns: 1,
        diagnostics: ["noise"],
        cli_version: "2.1.197",
      },
      additional_kwargs: {},
    };
    expect(JSON.parse(JSON.stringify(message)).kwargs).toEqual(kwargs);
    expect(message.tool_calls).toEqual(kwargs.tool_calls);
    expect(Object.keys(message.tool_calls?.[0]?.args ?? {})).toEqual(["b", "a"]);
    expect(log).toEqual([started([], ALONE), "ended"]);
  });

  it("leaves out what is not known, and marks what is estimated", async () => {
    const { provider } = setup({ result: { ok: { ...REPLY, usage: { ...USAGE, estimated: true } } } });
    const message = await provider.invoke(thread);
    expect(message.response_metadata).toEqual({ provider: "claude", usage_estimated: true });
    expect(message.usage_metadata).toEqual({ input_tokens: 5, output_tokens: 2, total_tokens: 7 });
    expect([
      message.tool_calls,
      message.invalid_tool_calls,
      "id" in JSON.parse(JSON.stringify(message)).kwargs,
    ]).toEqual([[], [], false]);
  });

  it("makes the AIMessage of whichever build it was given, or plain JSON", async () => {
    const cjs = require("@langchain/core/messages").AIMessage;
    const { native } = nativeSide();
    const parts = { native, toJsonSchema: null };
    expect(cjs).not.toBe(AIMessage);
    const message = await coreModule
      .createCore({ ...parts, AIMessage: cjs })
      .createClaudeCliProvider()
      .invoke(thread);
    expect(Object.getPrototypeOf(message)).toBe(cjs.prototype);
    const json = await coreModule
      .createCore<AIMessageJson>({ ...parts, AIMessage: null })
      .createClaudeCliProvider()
      .invoke(thread);
    expect(json).toEqual({
      type: "ai",
      content: "hi",
      tool_calls: [],
      invalid_tool_calls: [],
      usage_metadata: { input_tokens: 5, output_tokens: 2, total_tokens: 7 },
      response_metadata: { provider: "claude" },
      additional_kwargs: {},
    });
  });

  it("rejects with the native side's error, and starts nothing for input it can't read", async () => {
    const { provider, core, log } = setup({ result: { err: FAILURE } }, { result: { cancelled: true } });
    await expect(provider.invoke(thread)).rejects.toMatchObject(FAILURE);
    await expect(provider.invoke(thread)).rejects.toBeInstanceOf(core.ProviderError);
    log.length = 0;
    await expect(provider.invoke("hello" as never)).rejects.toMatchObject({ code: "INVALID_MESSAGES" });
    await expect(provider.invoke(thread, { timeout: -1 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(provider.invokeWithUpdates(thread, null as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(provider.stream([null as never]).next()).rejects.toMatchObject({ code: "INVALID_MESSAGES" });
    expect(log).toEqual([]);
  });

  it("reports a native side that broke as INTERNAL, with its cause", async () => {
    const { native } = nativeSide();
    const cause = new Error("panicked");
    (native as { NativeProvider: unknown }).NativeProvider = class {
      start() {
        return { result: () => Promise.reject(cause), cancel() {} };
      }
    };
    const provider = coreModule.createCore({ native, AIMessage: null, toJsonSchema: null }).createClaudeCliProvider();
    await expect(provider.invoke(thread)).rejects.toMatchObject({
      code: "INTERNAL",
      category: "unknown",
      shouldFallback: true,
      cause,
    });
  });
});

describe("bindTools", () => {
  const a = { name: "a", description: "", schema: { type: "object" } };
  const b = { ...a, name: "b" };

  it("gives adapters that never change, while the original remembers the last tools", async () => {
    const { provider, log } = setup();
    const one = provider.bindTools([a]);
    const two = one.bindTools([b]);
    for (const it of [one, two, provider]) await it.invoke(thread);
    provider.bindTools([b]);
    for (const it of [one, provider]) await it.invoke(thread);
    expect(log.filter((entry) => entry !== "ended")).toEqual(
      [[a], [b], [a], [a], [b]].map((tools) => started(tools, ALONE)),
    );
  });

  it("binds what the tools were, and gives everything the original has", async () => {
    const { provider, log } = setup();
    const list = [{ ...a }];
    const bound = provider.bindTools(list);
    list.push(b);
    Object.assign(list[0] as object, { name: "changed" });
    await bound.invoke(thread);
    expect(log[0]).toEqual(started([a], ALONE));
    const members = (it: object) => Reflect.ownKeys(it);
    expect(members(bound)).toEqual(members(provider));
    expect(members(provider)).toEqual([
      "id",
      "invoke",
      "invokeWithUpdates",
      "stream",
      "bindTools",
      "close",
      Symbol.asyncDispose,
    ]);
  });

  it("a refused list leaves what was bound", async () => {
    const { provider, log } = setup();
    provider.bindTools([a]);
    expect(() => provider.bindTools([a, a])).toThrow(expect.objectContaining({ code: "INVALID_TOOL" }));
    const { invoke } = provider;
    await invoke(thread);
    expect(log[0]).toEqual(started([a], ALONE));
  });
});

const EVENTS: object[][] = [
  [{ type: "start", runId: "r", provider: "claude", attempt: 1, queuedMs: 0 }],
  [
    { type: "text_delta", text: "let me" },
    { type: "message", content: " let me look\n" },
    { type: "tool_call", toolCall: { id: "t0", name: "Read", args: { path: "x" } } },
    { type: "message", content: "  " },
  ],
  [
    { type: "message", content: "hi" },
    { type: "usage", usage: { ...USAGE, reasoningTokens: 1 }, rawStopReason: "end_turn" },
    { type: "done", reply: { ...REPLY, stopReason: "end_turn" } },
  ],
];

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

  it("shows no tool call as text: such a message waits for its clean form, in its place", async () => {
    const text = 'I look.\n```json\n{"tool_calls":[{"name":"a","args":{}}]}\n```';
    const call = { id: "call_0", name: "a", args: {} };
    const reply = {
      ...REPLY,
      content: "I look.",
      messages: [{ content: "first" }, { content: "I look." }],
      toolCalls: [call],
    };
    const expected = [
      { type: "assistant_message", content: "first" },
      { type: "assistant_message", content: "I look." },
      { type: "tool_call", toolCall: call },
    ];
    const messages = [
      { type: "message", content: "first" },
      { type: "message", content: text },
    ];
    const done = { type: "done", reply };
    const final = { type: "final", content: "I look.", usage: USAGE };
    expect(await updatesOf([...messages, { type: "tool_call", toolCall: call }, done])).toEqual([...expected, final]);
    expect(await updatesOf([...messages, done])).toEqual([...expected, final]);
    const silent = { ...reply, content: "", messages: [{ content: "" }] };
    expect(
      await updatesOf([
        { type: "message", content: text },
        { type: "done", reply: silent },
      ]),
    ).toEqual([
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
    expect(log).toEqual([started([], { events: true, partial: false }), "ended"]);
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
    expect(log).toEqual([started([], { events: true, partial: true, timeout: 5 }), "ended"]);
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

describe("the rest", () => {
  it("options are checked at once; one exit hook serves all, and close is passed on", async () => {
    const before = process.listenerCount("exit");
    const { native, log } = nativeSide();
    const core = coreModule.createCore({ native, AIMessage: null, toJsonSchema: null });
    coreModule.createCore({ native, AIMessage: null, toJsonSchema: null });
    expect(process.listenerCount("exit")).toBe(before + 1);
    (process.listeners("exit").at(-1) as () => void)();
    expect(() => core.createClaudeCliProvider({ model: "bad" })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION" }),
    );
    {
      await using provider = core.createClaudeCliProvider({ env: { A: undefined } });
      expect(provider.id).toBe("claude");
    }
    expect(log).toEqual([["killAll", 7], ["provider", "claude", '{"env":{"A":null}}', 7], "close"]);
  });

  it("isModelAdapter is SPEC-01's, and never throws", () => {
    const { core, provider } = setup();
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const trap = {
      get invoke() {
        throw new Error("no");
      },
    };
    const invoke = () => {};
    const values = [
      provider,
      { invoke },
      Object.create({ invoke }),
      { invoke, _generate: undefined },
      { invoke: 1 },
      Object.assign(() => {}, { invoke }),
      null,
      undefined,
      "s",
      42,
      trap,
      proxy,
    ];
    expect(values.map(core.isModelAdapter)).toEqual([true, true, true, ...Array(9).fill(false)]);
  });

  it("the pure functions pass on, and name a parameter that is wrong", async () => {
    const { core } = setup();
    expect(core.messagesToXml(thread)).toBe('xml:[{"type":"human","content":"hello"}]');
    expect(core.messagesToPrompt(["a"])).toBe('text:[{"type":"human","content":"a"}]');
    expect(core.escapeXml("<")).toBe("escaped:<");
    expect(core.stripAnsi("x")).toBe("stripped:x");
    const [call] = core.parseToolCalls('[{"id":"1","name":"n","args":{"b":1,"a":2,"__proto__":{"x":1}}}]');
    expect(JSON.stringify(call)).toBe('{"name":"n","args":{"b":1,"a":2,"__proto__":{"x":1}},"id":"1"}');
    expect(({} as { x?: 1 }).x).toBeUndefined();
    expect(await core.execFileAsync("ls", ["-l"], { timeout: 5 })).toBe('ls ["-l"] {"timeout":5}');
    await expect(core.execFileAsync("fail")).rejects.toMatchObject(FAILURE);
    const invalid = (message: string) =>
      expect.objectContaining({ name: "ProviderError", code: "INVALID_OPTION", message });
    for (const name of ["escapeXml", "stripAnsi", "parseToolCalls"] as const) {
      expect(() => core[name](undefined)).toThrow(invalid("text must be a string, got undefined"));
    }
    await expect(core.execFileAsync(1)).rejects.toEqual(invalid("file must be a string, got 1"));
    await expect(core.execFileAsync("ls", "-l")).rejects.toEqual(invalid('args must be an array, got the string "-l"'));
    await expect(core.execFileAsync("ls", ["-l", 1])).rejects.toEqual(invalid("args[1] must be a string, got 1"));
  });
});
