/** The provider over a scripted native side: what is sent, and what is made of the answer. */
import { createRequire } from "node:module";
import { AIMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import type { AIMessageJson, ProviderReply } from "../index.js";
import coreModule from "../src/js/core.cjs";
import { ALONE, FAILURE, nativeSide, REPLY, setup, started, thread, USAGE } from "./facade-native-side.js";

const require = createRequire(import.meta.url);

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
      check() {
        return '{"ok":null}';
      }
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
      "prewarm",
      "models",
      "health",
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
