/**
 * What a chat model says of itself, and what LangChain does with that: names, profile, caches, serialisation, callbacks, options; and what it
 * makes of a run's events.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { InMemoryCache } from "@langchain/core/caches";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { load } from "@langchain/core/load";
import { AIMessage, HumanMessage, trimMessages } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  createClaudeCliProvider,
  createFallbackProvider,
  ProviderError,
  type ProviderEvent,
  type ProviderReply,
} from "deep-factor-providers";
import * as chatModels from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { chatApi } from "../support/chat-models.mjs";

const { ChatClaudeCli, ChatCli, ChatCodexCli, ChatGeminiCli, ChatOpenCodeCli, ChatQwenCli } = chatModels;
const require = createRequire(import.meta.url);
const commonJs: typeof chatModels = require("deep-factor-providers/langchain");
const KEY = "sk-ant-not-a-key-0123456789";

it("counts tokens without a network, as trimMessages asks it to", async () => {
  const asked: unknown[] = [];
  vi.stubGlobal("fetch", async (url: unknown) => {
    asked.push(url);
    throw new Error("there is no network");
  });
  onTestFinished(() => void vi.unstubAllGlobals());
  const model = new ChatClaudeCli();
  const blocks = [
    { type: "text", text: "four" },
    { type: "image_url", image_url: "data:," },
  ] as never;
  expect([await model.getNumTokens("a".repeat(41)), await model.getNumTokens(blocks)]).toEqual([11, 1]);
  const thread = [new HumanMessage("a".repeat(4000)), new AIMessage("old"), new HumanMessage("new")];
  const kept = await trimMessages(thread, { maxTokens: 100, tokenCounter: model, strategy: "last" });
  expect(kept.map(({ content }) => content)).toEqual(["old", "new"]);
  expect(asked).toEqual([]);
});

describe("a model's names", () => {
  it.each([
    ["ChatClaudeCli", "claude", "anthropic", ChatClaudeCli, "sonnet"],
    ["ChatCodexCli", "codex", "openai", ChatCodexCli, "gpt-5.5"],
    ["ChatGeminiCli", "gemini", "google_genai", ChatGeminiCli, "gemini-2.5-flash"],
    ["ChatQwenCli", "qwen", "qwen", ChatQwenCli, "qwen3-coder"],
    ["ChatOpenCodeCli", "opencode", "openai", ChatOpenCodeCli, "openai/gpt-5.5"],
  ] as const)("%s", (name, id, vendor, Model, model) => {
    const chat = new Model({ model: model as never });
    expect(chat.getName()).toBe(name);
    expect(chat.provider.id).toBe(id);
    expect(chat._llmType()).toBe(`${id}-cli`);
    expect(chat.lc_id).toEqual(["deep-factor-providers", "langchain", name]);
    expect(chat.getLsParams({} as never)).toEqual({
      ls_provider: vendor,
      ls_model_name: model,
      ls_model_type: "chat",
      ls_temperature: undefined,
      ls_max_tokens: undefined,
      ls_stop: undefined,
    });
    expect(chat.profile).toMatchObject({ toolCalling: true, structuredOutput: true });
  });

  it("the sizes of a profile are the model's, or the caller's; what is not known is not there", () => {
    const sizes = ({ profile: { maxInputTokens, maxOutputTokens } }: { profile: chatModels.ChatCliProfile }) => [
      maxInputTokens,
      maxOutputTokens,
    ];
    const claude = (fields?: object) => sizes(new ChatClaudeCli(fields));
    expect({
      dated: claude({ model: "claude-haiku-4-5-20251001" }),
      "with a context": claude({ model: "claude-sonnet-4-5[1m]" }),
      "an alias with a context": claude({ model: "sonnet[1m]" }),
      "an alias": claude({ model: "opus" }),
      "its own choice": claude(),
      unheard: claude({ model: "constructor" }),
      given: claude({ model: "claude-sonnet-5", profile: { maxInputTokens: 5 } }),
      codex: sizes(new ChatCodexCli({ model: "gpt-5.5" })),
      gemini: sizes(new ChatGeminiCli({ model: "gemini-2.5-pro" })),
      qwen: sizes(new ChatQwenCli({ model: "qwen3-coder-plus" })),
      opencode: sizes(new ChatOpenCodeCli({ model: "mock/m1" })),
    }).toEqual({
      dated: [200_000, 32_000],
      "with a context": [1_000_000, 32_000],
      "an alias with a context": [1_000_000, undefined],
      "an alias": [undefined, undefined],
      "its own choice": [undefined, undefined],
      unheard: [undefined, undefined],
      given: [5, 64_000],
      codex: [258_400, undefined],
      gemini: [1_048_576, 65_536],
      qwen: [1_000_000, 32_768],
      opencode: [undefined, undefined],
    });
  });

  it("which model an alias means is known from its first answer on, of that model alone", async () => {
    const answering = (name: string) => ({ content: "Fine.", response_metadata: { model: name } });
    const provider = {
      id: "claude",
      invoke: async (_: unknown, { model = "claude-sonnet-5" }: { model?: string }) => answering(model),
      stream: () => {},
      bindTools: () => provider,
    };
    const model = new ChatCli({ provider: provider as never });
    const seen = [model.profile.maxInputTokens];
    for (const options of [{ model: "claude-haiku-4-5" }, {}, { model: "claude-haiku-4-5" }]) {
      await model.invoke("hi", options);
      seen.push(model.profile.maxInputTokens);
    }
    expect(seen).toEqual([undefined, undefined, 1_000_000, 1_000_000]);
  });

  it("price tables find the model's name", async () => {
    const model = new ChatClaudeCli({ model: "claude-sonnet-4-5[1m]" });
    expect(model.getLsParams({} as never).ls_model_name).toBe("claude-sonnet-4-5");
  });
});

describe("one class, whichever way the package was loaded", () => {
  it("instanceof holds between the builds, and for each build's BaseChatModel", () => {
    const { BaseChatModel: CommonJsBase } = require("@langchain/core/language_models/chat_models");
    const [esm, cjs] = [new ChatClaudeCli(), new commonJs.ChatClaudeCli()];
    for (const model of [esm, cjs]) {
      for (const build of [chatModels, commonJs]) {
        expect([model instanceof build.ChatCli, model instanceof build.ChatClaudeCli]).toEqual([true, true]);
        expect(model instanceof build.ChatCodexCli).toBe(false);
      }
    }
    expect([esm instanceof BaseChatModel, cjs instanceof CommonJsBase]).toEqual([true, true]);
    expect(Object.keys(commonJs).sort()).toEqual(Object.keys(chatModels).sort());
    class Mine extends ChatClaudeCli {}
    expect([esm instanceof Mine, new Mine() instanceof ChatClaudeCli, new Mine() instanceof commonJs.ChatCli]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it("isModelAdapter tells it from an adapter", async () => {
    const { isModelAdapter } = await import("deep-factor-providers");
    expect(isModelAdapter(new ChatClaudeCli())).toBe(false);
  });
});

describe("serialisation", () => {
  const fields = {
    model: "sonnet",
    timeout: 5000,
    env: { ANTHROPIC_API_KEY: KEY },
    extraArgs: ["--settings", KEY],
    tags: ["a"],
    callbacks: [{ handleLLMStart() {} }],
    maxRetries: 1,
  };

  it("has no secret in it, and makes the same model again", async () => {
    const model = new ChatClaudeCli(fields);
    const json = JSON.stringify(model);
    expect(JSON.parse(json)).toEqual({
      lc: 1,
      type: "constructor",
      id: ["deep-factor-providers", "langchain", "ChatClaudeCli"],
      kwargs: { model: "sonnet", timeout: 5000, tags: ["a"], max_retries: 1 },
    });
    const again = await load<InstanceType<typeof ChatClaudeCli>>(json, {
      optionalImportsMap: { "deep-factor-providers/langchain": chatModels },
    });
    expect(again).toBeInstanceOf(ChatClaudeCli);
    expect(JSON.stringify(again)).toBe(json);
  });

  it("of a provider that the caller has made says that it can't be", () => {
    const model = new ChatCli({ provider: createClaudeCliProvider({ env: { ANTHROPIC_API_KEY: KEY } }) });
    expect(JSON.parse(JSON.stringify(model))).toMatchObject({ lc: 1, type: "not_implemented" });
  });

  it("neither does a trace, nor the key of a cache", async () => {
    const model = new ChatClaudeCli(fields);
    const seen = [model._getSerializedCacheKeyParametersForCall({} as never), JSON.stringify(model.invocationParams())];
    expect(seen.join("\n")).not.toContain(KEY);
    expect(JSON.stringify(model.lc_kwargs)).not.toContain(KEY);
  });
});

describe("a cache", () => {
  it("answers the second time, and not for another model", async () => {
    const { api, model, provider } = await chatApi([{ text: "one" }, { text: "two" }, { text: "three" }]);
    const cache = new InMemoryCache();
    const cached = new ChatCli({ provider, cache });
    const first = await cached.invoke([new HumanMessage("hi")]);
    const second = await cached.invoke([new HumanMessage("hi")], { signal: new AbortController().signal });
    expect([first.content, second.content]).toEqual(["one", "one"]);
    expect(api.requests).toHaveLength(1);
    expect((await model.invoke("hi")).content).toBe("two");
    // Another provider object may be another account or another server.
    const other = await chatApi([{ text: "other" }]);
    expect((await new ChatCli({ provider: other.provider, cache }).invoke([new HumanMessage("hi")])).content).toBe(
      "other",
    );
    const withTools = cached.bindTools([{ name: "add", schema: { type: "object" } }]);
    expect((await withTools.invoke([new HumanMessage("hi")])).content).toBe("three");
  });

  it("tells models by their options, secret ones too", () => {
    const keyOf = (fields: object) => new ChatClaudeCli(fields)._getSerializedCacheKeyParametersForCall({} as never);
    const keys = [
      {},
      { model: "opus" },
      { env: { A: "1" } },
      { env: { A: "2" } },
      { systemPrompt: "x" },
      { temperature: 0 },
    ];
    expect(new Set(keys.map(keyOf)).size).toBe(keys.length);
    expect(keyOf({ model: "opus" })).toBe(keyOf({ model: "opus" }));
  });
});

describe("callbacks", () => {
  it("hear of the start, of every piece and of the end", async () => {
    const { model } = await chatApi([{ chunks: ["a", "b"] }, { chunks: ["a", "b"] }]);
    for (const streaming of [true, false]) {
      const heard: unknown[] = [];
      const handler = {
        awaitHandlers: true,
        handleChatModelStart: (_: unknown, [[message]]: [[HumanMessage]]) => void heard.push(message.content),
        handleLLMNewToken: (token: string) => void (token && heard.push(token)),
        handleLLMEnd: ({ llmOutput }: { llmOutput?: object }) => void heard.push(Object.keys(llmOutput ?? {})),
      };
      const config = { callbacks: [handler as never] };
      const pieces = streaming ? await model.stream("hi", config) : [await model.invoke("hi", config)];
      for await (const _ of pieces);
      expect(heard).toEqual(["hi", ...(streaming ? ["a", "b"] : []), ["tokenUsage"]]);
    }
  });

  it("with streaming: true, invoke tells them the pieces, too", async () => {
    const { model } = await chatApi([{ chunks: ["a", "b"] }], { streaming: true });
    const tokens: string[] = [];
    const reply = await model.invoke("hi", {
      callbacks: [{ handleLLMNewToken: (token: string) => void tokens.push(token) }],
    });
    expect(tokens.filter(Boolean)).toEqual(["a", "b"]);
    expect(reply).toMatchObject({ content: "ab", response_metadata: { model_name: "scripted" } });
  });
});

describe("options", () => {
  const refused = (make: () => unknown) => {
    try {
      make();
    } catch (error) {
      if (error instanceof ProviderError) return `${error.code}: ${error.message}`;
      throw error;
    }
    throw new Error("it was not refused");
  };

  it.each([
    [
      "one that the provider does not have",
      () => new ChatClaudeCli({ modle: "x" } as never),
      /^INVALID_OPTION: .*modle/,
    ],
    ["a key, which a CLI has itself", () => new ChatClaudeCli({ apiKey: "x" } as never), /^INVALID_OPTION: .*apiKey/],
    [
      "one of the given provider",
      () => new ChatCli({ provider: createClaudeCliProvider(), model: "x" } as never),
      /no option "model"/,
    ],
    ["no provider", () => new ChatCli({} as never), /^INVALID_OPTION: provider must be a provider of this package/],
    [
      "an adapter that can only invoke",
      () => new ChatCli({ provider: { invoke() {} } } as never),
      /createFallbackProvider/,
    ],
    ["maxRetries and retry", () => new ChatClaudeCli({ maxRetries: 1, retry: false }), /give one of them/],
    [
      "no number of retries",
      () => new ChatClaudeCli({ maxRetries: -1 }),
      /maxRetries must be a whole number from 0 to 99, got -1/,
    ],
    [
      "thread documents",
      () => new ChatClaudeCli({ threadDocuments: "pass" } as never),
      /a user's text is always a text/,
    ],
    [
      "no temperature",
      () => new ChatClaudeCli({ temperature: "hot" } as never),
      /temperature must be a number, got the string "hot"/,
    ],
    [
      "no text to stop at",
      () => new ChatClaudeCli({ stop: [1] } as never),
      /stop must be a string or an array of strings/,
    ],
    ["no profile", () => new ChatClaudeCli({ profile: 1 } as never), /profile must be an object/],
    ["no object", () => new ChatClaudeCli("sonnet" as never), /must be an object, got the string "sonnet"/],
    [
      "a server's tool",
      () => new ChatClaudeCli().bindTools([{ type: "web_search_20250305", name: "web_search" }]),
      /^INVALID_TOOL: tools\[0\] \("web_search"\) is of type/,
    ],
    ["a tool without a name", () => new ChatClaudeCli().bindTools([{ description: "x" }]), /^INVALID_TOOL: /],
  ])("refuses %s", (_, make, reason) => {
    expect(refused(make)).toMatch(reason);
  });

  it.each([
    ["a choice of tools", { tool_choice: { type: "grammar" } }, /tool_choice must be/],
    ["JSON without a schema", { response_format: { type: "json_object" } }, /response_format must be/],
  ])("refuses %s at the call", async (_, options, reason) => {
    const { model } = await chatApi([]);
    await expect(model.invoke("hi", options as never)).rejects.toThrow(reason);
  });

  it("takes a fallback of several as one provider, and says who answered", async () => {
    const down = await chatApi([
      { error: { status: 503, message: "down" } },
      { error: { status: 503, message: "down" } },
    ]);
    const up = await chatApi([{ text: "up" }, { chunks: ["u", "p"] }]);
    const model = new ChatCli({ provider: createFallbackProvider([down.provider, up.provider]) });
    const reply = await model.invoke("hi");
    expect(reply).toMatchObject({ content: "up", response_metadata: { fallback: { index: 1 } } });
    let whole: Awaited<ReturnType<typeof model.invoke>> | undefined;
    for await (const chunk of await model.stream("hi")) whole = whole === undefined ? chunk : whole.concat(chunk);
    expect(whole).toMatchObject({ content: "up", response_metadata: { fallback: { index: 1 } } });
  });
});

describe("a fallback's member that is an adapter of the caller's own", () => {
  it("answers, and its message is left as it was", async () => {
    const answer = new AIMessage({
      content: "mine",
      id: "my-1",
      tool_calls: [{ id: "call_a", name: "add", args: {} }],
    });
    const before = JSON.stringify(answer);
    const model = new ChatCli({ provider: createFallbackProvider([{ invoke: async () => answer }]) });
    const reply = await model.invoke("hi");
    expect(reply).toMatchObject({ content: "mine", tool_calls: [{ name: "add", type: "tool_call" }] });
    expect(reply).not.toBe(answer);
    expect(answer.tool_calls).toEqual([{ id: "call_a", name: "add", args: {} }]);
    let whole: Awaited<ReturnType<typeof model.invoke>> | undefined;
    for await (const chunk of await model.stream("hi")) whole = whole === undefined ? chunk : whole.concat(chunk);
    expect(whole).toMatchObject({ content: "mine", tool_calls: [{ name: "add" }] });
    expect(JSON.parse(before).kwargs.content).toBe(answer.content);
  });
});

describe("strict", () => {
  const add = tool(() => "", { name: "add", description: "adds", schema: z.object({ a: z.number() }) });
  const wrong = { calls: [{ id: "call_a", name: "add", args: { a: "one" } }] };

  it("refuses a call whose arguments do not fit; without it the tool is the one to say so", async () => {
    const { model } = await chatApi([wrong, wrong, wrong]);
    const strict = model.bindTools([add], { strict: true });
    const failed = {
      code: "MALFORMED_RESPONSE",
      message: expect.stringContaining('the call "add" do not fit its schema'),
    };
    await expect(strict.invoke("hi")).rejects.toMatchObject(failed);
    await expect(
      (async () => {
        for await (const _ of await strict.stream("hi"));
      })(),
    ).rejects.toMatchObject(failed);
    expect((await model.bindTools([add]).invoke("hi")).tool_calls).toMatchObject([{ args: { a: "one" } }]);
  });
});

describe("what the model thought", () => {
  const thoughtful = { reasoning: "Let me see", text: "hello" };

  it("comes in pieces beside the text, never in it", async () => {
    const { model } = await chatApi([thoughtful]);
    let whole: Awaited<ReturnType<typeof model.invoke>> | undefined;
    for await (const chunk of await model.stream("hi")) whole = whole === undefined ? chunk : whole.concat(chunk);
    expect(whole).toMatchObject({ content: "hello", additional_kwargs: { reasoning_content: "Let me see" } });
  });

  it("is a block of its own in the events of a stream", async () => {
    const call = { calls: [{ id: "call_a", name: "add", args: {} }] };
    const { model } = await chatApi([{ ...thoughtful, ...call }]);
    const blocks: unknown[] = [];
    const withTools = model.bindTools([{ name: "add", schema: { type: "object" } }]);
    const { tools } = (withTools as unknown as { config: { tools: object[] } }).config;
    for await (const event of model.streamEvents("hi", { tools })) {
      if (event.event === "content-block-finish") blocks.push(event.content);
    }
    expect(blocks).toMatchObject([
      { type: "reasoning", reasoning: "Let me see" },
      { type: "text", text: "hello" },
      { type: "tool_call", name: "add" },
    ]);
  });
});

describe("a call that can't be read", () => {
  it("is no call: it stands in invalid_tool_calls, or in the metadata of a stream", async () => {
    const broken = { calls: [{ id: "call_a", name: "add", args: '{"a":' }] };
    const { model } = await chatApi([broken, broken]);
    const withTools = model.bindTools([{ name: "add", schema: { type: "object" } }]);
    const reply = await withTools.invoke("hi");
    expect(reply).toMatchObject({ tool_calls: [], invalid_tool_calls: [{ name: "add", args: '{"a":' }] });
    let whole: Awaited<ReturnType<typeof withTools.invoke>> | undefined;
    for await (const chunk of await withTools.stream("hi")) whole = whole === undefined ? chunk : whole.concat(chunk);
    expect(whole).toMatchObject({
      tool_calls: [],
      response_metadata: { invalid_tool_calls: [{ name: "add", args: '{"a":' }] },
    });
  });

  it.each(['{"a":', '{"a":"b', '{"a":"b\\\\', '{"a":[1,', '{"a":1}}', "[1]"])(
    "is none in a stream: %s",
    async (args) => {
      const { model } = await chatApi([{ calls: [{ id: "call_a", name: "add", args }] }]);
      const withTools = model.bindTools([{ name: "add", schema: { type: "object" } }]);
      let whole: Awaited<ReturnType<typeof withTools.invoke>> | undefined;
      for await (const chunk of await withTools.stream("hi")) whole = whole === undefined ? chunk : whole.concat(chunk);
      expect(whole).toMatchObject({
        tool_calls: [],
        response_metadata: { invalid_tool_calls: [{ name: "add", args }] },
      });
    },
  );
});

// What the table of capabilities in docs/reference/providers.md says of one of a CLI's engines.
describe("a profile says what a CLI can do", () => {
  const lines = readFileSync(new URL("../../docs/reference/providers.md", import.meta.url), "utf8").split("\n");
  const cellsOf = (line: string) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
  /** Whether a provider has what the row says, natively or emulated, in any engine. */
  function has(row: string, provider: string): boolean {
    const [, native = "", emulated = ""] = cellsOf(lines.find((line) => line.startsWith(`| ${row}`)) ?? "");
    const names = [native, emulated].flatMap((cell) => cell.split(", "));
    return emulated.startsWith("all") || names.some((name) => name.split(" ")[0] === provider);
  }

  it.each([
    ["claude", new ChatClaudeCli()],
    ["codex", new ChatCodexCli()],
    ["gemini", new ChatGeminiCli()],
    ["qwen", new ChatQwenCli()],
    ["opencode", new ChatOpenCodeCli()],
  ])("%s", (provider, { profile }) => {
    expect([has("images |", "gemini"), has("images |", "glm")]).toEqual([true, false]);
    expect({
      imageInputs: profile.imageInputs ?? false,
      pdfInputs: profile.pdfInputs ?? false,
      imageToolMessage: profile.imageToolMessage ?? false,
      reasoningOutput: profile.reasoningOutput ?? false,
      toolChoice: profile.toolChoice,
      structuredOutput: profile.structuredOutput,
    }).toEqual({
      imageInputs: has("images |", provider),
      pdfInputs: has("documents (PDF)", provider),
      imageToolMessage: has("images in tool results", provider),
      reasoningOutput: has("reasoning in the answer", provider),
      toolChoice: has("tool choice", provider),
      structuredOutput: has("structured output", provider),
    });
  });
});

// Where no real CLI can be made to do it: several messages, and a response that broke off.
describe("from a run's events to chunks", () => {
  const REPLY: ProviderReply = {
    content: "two",
    messages: [],
    toolCalls: [],
    invalidToolCalls: [],
    usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3 },
  };
  const start: ProviderEvent = { type: "start", runId: "run-1", provider: "p", attempt: 1, queuedMs: 0 };
  const delta = (text: string): ProviderEvent => ({ type: "text_delta", text });
  const message = (content: string): ProviderEvent => ({ type: "message", content });
  const done: ProviderEvent = { type: "done", reply: REPLY };

  async function stream(...events: ProviderEvent[]) {
    const provider = {
      id: "p",
      invoke: () => Promise.reject(new Error("it is streamed")),
      async *stream() {
        yield* events;
      },
      bindTools: () => provider,
    };
    const model = new ChatCli({ provider: provider as never });
    let text = "";
    for await (const chunk of await model.stream("hi")) text += chunk.text;
    return text;
  }

  it("several messages are paragraphs of one answer, whether they come in pieces or whole", async () => {
    expect(
      await stream(start, delta("o"), delta("ne"), message("one"), message("and"), delta("two"), message("two"), done),
    ).toBe("one\n\nand\n\ntwo");
  });

  it("calls between messages change nothing of the text", async () => {
    const call: ProviderEvent = { type: "tool_call", toolCall: { id: "a", name: "look", args: {} } };
    expect(await stream(start, delta("one"), message("one"), call, delta(" two"), message(" two"), done)).toBe(
      "one\n\n two",
    );
  });

  it("pieces of a response that broke off can't be taken back: the stream fails", async () => {
    await expect(stream(start, delta("tw"), delta("two"), message("two"), done)).rejects.toMatchObject({
      code: "CONNECTION_LOST",
      shouldRetry: true,
      partial: { text: "two" },
    });
  });

  it("arguments that come in pieces are pieces of a call, once", async () => {
    const piece = (id: string, delta: string): ProviderEvent => ({
      type: "tool_call_delta",
      toolCallId: id,
      name: "look",
      delta,
    });
    const call = (id: string, n: number) => ({ id, name: "look", args: { n } });
    const events: ProviderEvent[] = [
      start,
      delta("one"),
      piece("a", '{"n"'),
      piece("b", '{"n":2'),
      piece("a", ":1}"),
      piece("b", "}"),
      message("one"),
      ...[call("a", 1), call("b", 2), call("c", 3)].map((toolCall) => ({ type: "tool_call" as const, toolCall })),
      { type: "done", reply: { ...REPLY, content: "one", toolCalls: [call("a", 1), call("b", 2), call("c", 3)] } },
    ];
    const provider = { id: "p", invoke: () => {}, stream: () => toAsync(events), bindTools: () => provider };
    const model = new ChatCli({ provider: provider as never });
    const chunks = [];
    for await (const chunk of await model.stream("hi")) chunks.push(chunk);
    const pieces = chunks.flatMap(({ tool_call_chunks }) => tool_call_chunks ?? []);
    expect(pieces.map(({ index, id, args }) => [index, id, args])).toEqual([
      [1, "a", '{"n"'],
      [2, "b", '{"n":2'],
      [1, undefined, ":1}"],
      [2, undefined, "}"],
      [3, "c", '{"n":3}'],
    ]);
    const whole = chunks.reduce((joined, chunk) => joined.concat(chunk));
    expect(whole.tool_calls?.map(({ id, args }) => ({ id, args }))).toEqual([
      { id: "a", args: { n: 1 } },
      { id: "b", args: { n: 2 } },
      { id: "c", args: { n: 3 } },
    ]);
  });

  it("pieces of a call that never came can't be taken back: the stream fails", async () => {
    const piece: ProviderEvent = { type: "tool_call_delta", toolCallId: "a", name: "look", delta: "{" };
    await expect(stream(start, piece, delta("two"), message("two"), done)).rejects.toMatchObject({
      code: "CONNECTION_LOST",
    });
  });
});

async function* toAsync<T>(all: T[]) {
  yield* all;
}
