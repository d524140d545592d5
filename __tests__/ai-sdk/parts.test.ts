/** How a provider's events become the AI SDK's parts, and its prompts a provider's messages: what no CLI can be made to say at will. */
import type { ProviderEvent, ProviderReply } from "deep-factor-providers";
import { type CliCallOptions, type CliStreamPart, cli } from "deep-factor-providers/ai-sdk";
import { describe, expect, it } from "vitest";

const REPLY: ProviderReply = {
  content: "",
  messages: [],
  toolCalls: [],
  invalidToolCalls: [],
  usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
};
const ADD = { type: "function" as const, name: "add", inputSchema: { type: "object" } };
const ASK: CliCallOptions = { prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] };

/** A model over a provider that tells these events, and what that provider was asked. */
function modelOf(...events: (ProviderEvent | { type: "done"; reply: object })[]) {
  const asked: { tools?: unknown; messages?: unknown; options?: object }[] = [];
  const bound = (tools: unknown) => ({
    id: "scripted",
    bindTools: bound,
    async *stream(messages: unknown, options: object) {
      asked.push({ tools, messages, options });
      yield* events as ProviderEvent[];
    },
  });
  return { model: cli(bound(undefined) as never)("m1"), asked };
}

async function partsOf(stream: ReadableStream<CliStreamPart>) {
  const parts: CliStreamPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts.map((part) => (part.type === "response-metadata" ? { ...part, timestamp: "now" } : part));
}

/** The parts of a stream, and the content of the same told whole. */
async function bothOf(events: Parameters<typeof modelOf>, call: Partial<CliCallOptions> = {}) {
  const { stream } = await modelOf(...events).model.doStream({ ...ASK, ...call });
  const { content, finishReason } = await modelOf(...events).model.doGenerate({ ...ASK, ...call });
  return { parts: await partsOf(stream), content, finishReason };
}

describe("parts", () => {
  it("arguments go out as the model writes them, and the call when it is one", async () => {
    const toolCall = { id: "c1", name: "add", args: { a: 1 } };
    const piece = (delta: string): ProviderEvent => ({ type: "tool_call_delta", toolCallId: "c1", name: "add", delta });
    const { parts } = await bothOf([
      { type: "text_delta", text: "Wait." },
      piece('{"a"'),
      piece(":1}"),
      { type: "message", content: "Wait." },
      { type: "tool_call", toolCall },
      { type: "done", reply: { ...REPLY, content: "Wait.", toolCalls: [toolCall] } },
    ]);
    expect(parts.map(({ type, ...part }) => ("delta" in part ? [type, part.delta] : type))).toEqual([
      "stream-start",
      "response-metadata",
      "text-start",
      ["text-delta", "Wait."],
      "text-end",
      "tool-input-start",
      ["tool-input-delta", '{"a"'],
      ["tool-input-delta", ":1}"],
      "tool-input-end",
      "tool-call",
      "finish",
    ]);
  });

  it("each message is a block of its own, told in pieces or whole", async () => {
    const reply = { ...REPLY, content: "Two.", messages: [{ content: "One." }, { content: "Two." }], model: "m1-2026" };
    const { parts, content } = await bothOf([
      { type: "session", model: "m1-2026" },
      { type: "thinking_delta", text: "Hm." },
      { type: "text_delta", messageId: "a", text: "On" },
      { type: "text_delta", messageId: "a", text: "e." },
      { type: "message", id: "a", content: "One." },
      { type: "message", content: "\nTwo.\n" },
      { type: "done", reply },
    ]);
    expect(parts).toEqual([
      { type: "stream-start", warnings: [] },
      { type: "response-metadata", timestamp: "now", modelId: "m1-2026" },
      { type: "reasoning-start", id: "reasoning-1" },
      { type: "reasoning-delta", id: "reasoning-1", delta: "Hm." },
      { type: "reasoning-end", id: "reasoning-1" },
      { type: "text-start", id: "text-2" },
      { type: "text-delta", id: "text-2", delta: "On" },
      { type: "text-delta", id: "text-2", delta: "e." },
      { type: "text-end", id: "text-2" },
      { type: "text-start", id: "text-3" },
      { type: "text-delta", id: "text-3", delta: "Two." },
      { type: "text-end", id: "text-3" },
      {
        type: "finish",
        finishReason: { unified: "stop", raw: undefined },
        usage: {
          inputTokens: { total: 10, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 5, text: undefined, reasoning: undefined },
          raw: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
        },
        providerMetadata: { deepFactor: { provider: "scripted", model: "m1-2026" } },
      },
    ]);
    expect(content).toEqual([
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "One." },
      { type: "text", text: "Two." },
    ]);
  });

  it("calls that the CLI has run by itself are its own; the others go out with the reply", async () => {
    const own = { id: "c1", name: "Bash", args: { command: "ls" } };
    const ours = { id: "c2", name: "add", args: { a: 1 } };
    const { content, finishReason } = await bothOf([
      { type: "tool_call", toolCall: own },
      { type: "tool_call", toolCall: ours },
      { type: "tool_result", toolCallId: "c1", content: "a.txt", isError: false },
      { type: "message", content: "Now." },
      { type: "done", reply: { ...REPLY, content: "Now.", toolCalls: [ours], stopReason: "tool_use" } },
    ]);
    expect(content).toEqual([
      {
        type: "tool-call",
        toolCallId: "c1",
        toolName: "Bash",
        dynamic: true,
        input: '{"command":"ls"}',
        providerExecuted: true,
      },
      { type: "tool-result", toolCallId: "c1", toolName: "Bash", dynamic: true, result: "a.txt" },
      { type: "text", text: "Now." },
      { type: "tool-call", toolCallId: "c2", toolName: "add", input: '{"a":1}' },
    ]);
    expect(finishReason).toEqual({ unified: "tool-calls", raw: "tool_use" });
  });

  it("a call that can't be read is told only where nobody can run it as it is", async () => {
    const invalidToolCalls = [
      { id: "c1", name: "add", args: '{"a": 1', error: "cut" },
      { id: "c2", name: "add", args: '{"a": 1}', error: "without its mark" },
      { id: "c3", name: "rm", args: "{", error: "cut" },
      { id: null, name: null, args: "{", error: "cut" },
    ];
    const { content, finishReason } = await bothOf([{ type: "done", reply: { ...REPLY, invalidToolCalls } }], {
      tools: [ADD],
    });
    expect(content).toEqual([{ type: "tool-call", toolCallId: "c1", toolName: "add", input: '{"a": 1' }]);
    expect(finishReason.unified).toBe("tool-calls");
  });

  it("what else is said to be JSON is the value that was checked, or the answer without its fence", async () => {
    const json: Partial<CliCallOptions> = { responseFormat: { type: "json", schema: { type: "object" } } };
    const events = [
      { type: "text_delta", text: "Here: " },
      { type: "message", content: 'Here: {"a":1}' },
    ] as ProviderEvent[];
    const checked = { ...REPLY, content: 'Here: {"a":1}', structured: { a: 1 } };
    expect((await bothOf([...events, { type: "done", reply: checked }], json)).content).toEqual([
      { type: "text", text: '{"a":1}' },
    ]);
    const fenced = { ...REPLY, content: '```json\n{"a":1}\n```' };
    expect((await bothOf([...events, { type: "done", reply: fenced }], json)).content).toEqual([
      { type: "text", text: '{"a":1}' },
    ]);
  });

  it("sealed reasoning goes with the message, and comes back with it", async () => {
    const reasoning = [{ type: "reasoning.encrypted", data: "sealed" }];
    const call = { id: "c1", name: "add", args: {} };
    const metadata = { deepFactor: { reasoningDetails: reasoning, provider: "scripted", model: "m1" } };
    const replies = [
      { reply: { ...REPLY, content: "Yes.", reasoning, model: "m1" }, first: { type: "text", text: "Yes." } },
      {
        reply: { ...REPLY, toolCalls: [call], reasoning, model: "m1" },
        first: { type: "tool-call", toolCallId: "c1", toolName: "add", input: "{}" },
      },
      { reply: { ...REPLY, reasoning, model: "m1" }, first: { type: "reasoning", text: "" } },
    ];
    for (const { reply, first } of replies) {
      const { content } = await bothOf([{ type: "done", reply }]);
      expect(content).toEqual([{ ...first, providerMetadata: metadata }]);
    }
    const { model, asked } = modelOf({ type: "done", reply: REPLY });
    const part = { type: "text", text: "Yes.", providerOptions: metadata };
    await model.doGenerate({ prompt: [{ role: "assistant", content: [part] }] });
    expect(asked[0]?.messages).toEqual([
      {
        role: "assistant",
        content: "Yes.",
        additional_kwargs: { reasoning_details: reasoning },
        response_metadata: { provider: "scripted", model: "m1", run: undefined },
      },
    ]);
  });

  it("a provider's warnings are the call's", async () => {
    const { model } = modelOf(
      { type: "warning", code: "FLAG_DROPPED", message: "left out" },
      { type: "done", reply: REPLY },
    );
    expect((await model.doGenerate(ASK)).warnings).toEqual([{ type: "other", message: "FLAG_DROPPED: left out" }]);
  });
});

describe("prompts", () => {
  it("of each kind of message, and each form of a tool's result", async () => {
    const { model, asked } = modelOf({ type: "done", reply: REPLY });
    const result = (output: object) => ({ type: "tool-result", toolCallId: "c1", toolName: "add", output });
    await model.doGenerate({
      prompt: [
        { role: "system", content: "Be kind." },
        {
          role: "user",
          content: [
            { type: "text", text: "Hi" },
            { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://a.example/b.png") } },
            { type: "file", mediaType: "text/plain", data: { type: "text", text: "notes" } },
          ],
        },
        {
          role: "assistant",
          content: [
            { type: "reasoning", text: "Hm." },
            { type: "text", text: "Let me." },
            { type: "tool-call", toolCallId: "c0", toolName: "Bash", input: {}, providerExecuted: true },
            { type: "tool-result", toolCallId: "c0", toolName: "Bash", output: { type: "text", value: "x" } },
            { type: "tool-call", toolCallId: "c1", toolName: "add", input: { a: 1 } },
          ],
        },
        {
          role: "tool",
          content: [
            result({ type: "text", value: "two" }),
            result({ type: "json", value: { sum: 2 } }),
            result({ type: "error-text", value: "no" }),
            result({ type: "error-json", value: { code: 1 } }),
            result({ type: "execution-denied", reason: "not today" }),
            result({ type: "execution-denied" }),
            result({ type: "content", value: [{ type: "text", text: "see" }] }),
            { type: "tool-approval-response", approvalId: "a1", approved: true },
          ],
        },
      ],
    });
    const tool = { role: "tool", tool_call_id: "c1" };
    expect(asked[0]?.messages).toEqual([
      { role: "system", content: "Be kind." },
      {
        role: "user",
        content: [
          { type: "text", text: "Hi" },
          { type: "file", mediaType: "image/png", data: "https://a.example/b.png" },
          { type: "file", mediaType: "text/plain", text: "notes" },
        ],
      },
      {
        role: "assistant",
        content: "Let me.",
        tool_calls: [{ id: "c1", name: "add", args: { a: 1 } }],
      },
      { ...tool, content: "two" },
      { ...tool, content: '{"sum":2}' },
      { ...tool, content: "no", status: "error" },
      { ...tool, content: '{"code":1}', status: "error" },
      { ...tool, content: "not today", status: "error" },
      { ...tool, content: "The execution of this tool was denied.", status: "error" },
      { ...tool, content: [{ type: "text", text: "see" }] },
    ]);
  });

  it("settings are the provider's options of the call", async () => {
    const { model, asked } = modelOf({ type: "done", reply: REPLY });
    const { signal } = new AbortController();
    const { warnings } = await model.doGenerate({
      ...ASK,
      tools: [{ ...ADD, description: "Adds" }],
      toolChoice: { type: "tool", toolName: "add" },
      maxOutputTokens: 100,
      temperature: 0,
      stopSequences: ["END"],
      reasoning: "high",
      responseFormat: { type: "json", schema: { type: "object" }, name: "sum", description: "A sum" },
      abortSignal: signal,
      headers: { "user-agent": "ai/6" },
      providerOptions: { deepFactor: { timeout: 5, onUnsupported: "error" }, anthropic: { thinking: {} } },
    });
    expect(warnings).toEqual([]);
    expect(asked[0]?.tools).toEqual([{ name: "add", description: "Adds", inputSchema: { type: "object" } }]);
    expect({ ...asked[0]?.options }).toMatchObject({
      signal,
      model: "m1",
      timeout: 5,
      onUnsupported: "error",
      toolChoice: { name: "add" },
      maxOutputTokens: 100,
      temperature: 0,
      stop: ["END"],
      reasoning: { effort: "high" },
      outputSchema: { type: "object", title: "sum", description: "A sum" },
    });
  });

  it("JSON without a schema is asked for in words, and said to be", async () => {
    const { model, asked } = modelOf({ type: "done", reply: REPLY });
    const { warnings } = await model.doGenerate({ ...ASK, responseFormat: { type: "json" } });
    expect(warnings).toEqual([expect.objectContaining({ type: "compatibility", feature: "responseFormat" })]);
    expect(asked[0]?.messages).toEqual([
      { role: "system", content: expect.stringContaining("JSON") },
      { role: "user", content: "Hi" },
    ]);
  });
});
