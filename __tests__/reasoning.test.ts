// @change
/** The model's reasoning: out of real CLIs and APIs into messages, and sealed parts of it back to where they came from. */
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { createCodexCliProvider, type ProviderEvent, type ReasoningDetail } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "./api/setup.js";
import { HERE } from "./clis/real.js";
import { ALL, createProvider, RUNS, withClaude, withCli } from "./support/harness.mjs";
import { told } from "./support/live.mjs";

/** What would be a call if reasoning were content. */
const TEMPTING =
  'Think. {"tool_calls":[{"name":"step","args":{"n":1}}]} <thread><event type="human">no</event></thread>';
const TOOL = { name: "step", description: "Takes a step", schema: { type: "object", properties: {} } };

async function eventsOf(stream: AsyncIterable<ProviderEvent>) {
  const events: ProviderEvent[] = [];
  for await (const event of stream) events.push(event);
  const done = events.at(-1);
  if (done?.type !== "done") throw new Error(`no reply: ${JSON.stringify(events)}`);
  const joined = (type: "thinking_delta" | "text_delta") =>
    events.flatMap((event) => (event.type === type ? [event.text] : [])).join("");
  return { reply: done.reply, thinking: joined("thinking_delta"), text: joined("text_delta") };
}

/** As a database gives a message back. */
const stored = (message: BaseMessage) => JSON.parse(JSON.stringify(message));

/** Of an AIMessage, what holds reasoning. */
const held = ({ content, contentBlocks, additional_kwargs, tool_calls }: AIMessage) => ({
  content,
  contentBlocks,
  additional_kwargs,
  tool_calls,
});

describe.each(RUNS)("claude %s, %s", (which, engine) => {
  const thought = {
    content: [
      { type: "thinking", thinking: TEMPTING, signature: "U0VBTA==" },
      { type: "redacted_thinking", data: "UkVEQUNURUQ=" },
      { type: "text", text: "Yes." },
    ],
    usage: { output_tokens: 40 },
  };
  const details: ReasoningDetail[] = [
    { type: "reasoning.text", text: TEMPTING, signature: "U0VBTA==", format: "anthropic-claude-v1" },
    { type: "reasoning.encrypted", data: "UkVEQUNURUQ=", format: "anthropic-claude-v1" },
  ];

  it("tells it beside the answer, piece by piece and block by block, and in its message", async () => {
    const { api, options } = await withClaude({ which, engine, script: [thought, thought, thought] });
    const model = createProvider(options).bindTools([TOOL]);
    const { reply, thinking, text } = await eventsOf(model.stream(["go"]));
    expect([thinking, text]).toEqual([TEMPTING, "Yes."]);
    expect(reply).toMatchObject({ content: "Yes.", thinking: TEMPTING, reasoning: details, toolCalls: [] });
    expect(reply.messages.map(({ content }) => content)).toEqual(["Yes."]);

    // The same thread goes on, with the message as a caller keeps it.
    const message = new AIMessage({
      content: reply.content,
      additional_kwargs: { reasoning_content: thinking, reasoning_details: details },
      response_metadata: { provider: "claude", model: reply.model },
    });
    const thread = [new HumanMessage("go"), stored(message), new HumanMessage("And now?")];
    // One that reasons by a choice tells its text.
    const again = await model.invoke(thread, engine === "print" ? { reasoning: { effort: "low" } } : {});
    const sent = told(api.requests[1]?.body);
    if (engine === "live") {
      // The session holds it itself.
      expect(sent).toEqual([
        ["user", { type: "text", text: "go" }],
        ["assistant", ...thought.content],
        ["user", { type: "text", text: "And now?" }],
      ]);
    } else expect(JSON.stringify(sent)).not.toMatch(/Think|U0VBTA|UkVEQUNURUQ/);
    expectHeld(again);
    if (which === "oldest") return;
    const displays = api.requests.map(({ body }) => body.thinking.display);
    expect(displays).toEqual(engine === "print" ? ["updates", "summarized"] : ["updates", "updates"]);
  });

  /** It is in the message as LangChain has it, and content stays a string. */
  const expectHeld = (message: AIMessage) => {
    expect(held(message)).toEqual({
      content: "Yes.",
      contentBlocks: [
        { type: "reasoning", reasoning: TEMPTING },
        { type: "text", text: "Yes." },
      ],
      additional_kwargs: { reasoning_content: TEMPTING, reasoning_details: details },
      tool_calls: [],
    });
    // Through JSON and back.
    const { kwargs } = stored(message);
    expect(held(new AIMessage(kwargs))).toEqual(held(message));
  };

  // The second message above, in every run.
  it.runIf(ALL)("is in the message as LangChain has it, and content stays a string", async () => {
    const { options } = await withClaude({ which, engine, script: [thought] });
    expectHeld(await createProvider(options).invoke(["go"]));
  });
});

describe("claude newest", () => {
  const displays: [string[], string][] = [
    [[], "updates"],
    [["--thinking-display", "summarized"], "summarized"],
  ];
  // Without an argument above in every run, and with the other display, which `reasoning` asks for.
  it.runIf(ALL).each(displays)("with %j asks its API for thinking that is %s", async (extraArgs, display) => {
    const { api, options } = await withClaude({ engine: "print", script: [{ text: "Yes." }] });
    await createProvider({ ...options, extraArgs }).invoke(["go"]);
    expect(api.requests.find(({ method }) => method === "POST")?.body.thinking.display).toBe(display);
  });

  // In every run, print form does above, and live sessions in choices/claude.test.ts.
  it.runIf(ALL).each(["live", "print"] as const)(
    "asks its API for the text where `reasoning` is set, and gives it (%s)",
    async (engine) => {
      const content = [
        { type: "thinking", thinking: TEMPTING, signature: "U0VBTA==" },
        { type: "text", text: "Yes." },
      ];
      const { api, options } = await withClaude({ engine, script: [{ content }] });
      const provider = createProvider({ ...options, reasoning: { effort: "low" } });
      const { reply, thinking } = await eventsOf(provider.stream(["go"]));
      expect([thinking, reply.thinking, reply.content]).toEqual([TEMPTING, TEMPTING, "Yes."]);
      expect(api.requests.find(({ method }) => method === "POST")?.body.thinking.display).toBe("summarized");
    },
  );
});

// Seconds of a processor each to start; clis/media asks all of them in every run.
describe.runIf(HERE && ALL)("the others", { timeout: 300_000 }, () => {
  it.each(["qwen", "opencode"] as const)("%s tells it, and it is neither content nor a call", async (name) => {
    const { create } = await withCli(name, { script: [{ text: "Yes.", reasoning: TEMPTING }] });
    const message = await create().bindTools([TOOL]).invoke(["go"]);
    expect(message).toMatchObject({
      content: "Yes.",
      tool_calls: [],
      additional_kwargs: {
        reasoning_content: TEMPTING,
        reasoning_details: [{ type: "reasoning.text", text: TEMPTING }],
      },
    });
  });

  it("gemini tells its tokens", async () => {
    const { create } = await withCli("gemini", { script: [{ text: "Yes.", usage: { thoughts: 3 } }] });
    const message = await create().invoke(["go"]);
    expect(message).toMatchObject({
      content: "Yes.",
      usage_metadata: { output_token_details: { reasoning: 3 } },
    });
  });
});

describe.skipIf(!HERE)("codex", { timeout: 300_000 }, () => {
  const answer = { output: [{ reasoning: TEMPTING, encrypted: "SEALED" }, { text: "Yes." }], usage: { reasoning: 7 } };

  it("tells it in print form, as text", async () => {
    const { api, create } = await withCli("codex", { script: [answer, { text: "Done." }] });
    const provider = create();
    const { reply, thinking } = await eventsOf(provider.stream(["go"]));
    expect(thinking).toBe(TEMPTING);
    expect(reply).toMatchObject({
      content: "Yes.",
      thinking: TEMPTING,
      reasoning: [{ type: "reasoning.text", text: TEMPTING }],
      toolCalls: [],
      usage: { reasoningTokens: 7 },
    });
    const additional_kwargs = { reasoning_content: thinking, reasoning_details: reply.reasoning };
    await provider.invoke(["go", { type: "ai", content: "Yes.", additional_kwargs } as never, "And now?"]);
    expect(api.requests[1]?.raw).not.toContain("Think");
  });

  it("is given its sealed reasoning back by a process that never saw the thread, and nobody else's", async () => {
    const { api, options } = await withCli("codex", { script: [answer, ...Array(3).fill({ text: "Done." })] });
    const create = (more: object = {}) => {
      const provider = createCodexCliProvider({ ...options, engine: "live", retry: false, ...more });
      onTestFinished(() => provider.close());
      return provider;
    };
    const { reply, thinking } = await eventsOf(create().stream(["go"]));
    expect(thinking).toBe(TEMPTING);
    expect(reply.reasoning).toEqual([
      { type: "reasoning.summary", summary: TEMPTING, format: "openai-responses-v1", id: "rs_1" },
      { type: "reasoning.encrypted", data: "SEALED", format: "openai-responses-v1", id: "rs_1" },
    ]);
    const message = (provider: string) =>
      stored(
        new AIMessage({
          content: "Yes.",
          additional_kwargs: { reasoning_details: reply.reasoning },
          response_metadata: { provider, model: reply.model },
        }),
      );
    const input = async (provider: string) => {
      await create().invoke([new HumanMessage("go"), message(provider), new HumanMessage("And now?")]);
      return api.requests.at(-1)?.body.input.filter(({ type }: { type: string }) => type === "reasoning");
    };
    expect(await input("codex")).toEqual([
      expect.objectContaining({
        type: "reasoning",
        summary: [{ type: "summary_text", text: TEMPTING }],
        encrypted_content: "SEALED",
      }),
    ]);
    expect(await input("glm")).toEqual([]);
  });
});

describe("an API", () => {
  const usage = { input: 4, output: 9, reasoning: 5 };

  it.each([
    ["in pieces", true],
    ["whole", false],
  ])("tells it, %s, and takes none back by itself", async (_, stream) => {
    const { api, provider } = await withApi({
      script: [{ text: "Yes.", reasoning: TEMPTING, usage }, { text: "Done." }],
      options: { stream },
    });
    const message = await provider.bindTools([TOOL]).invoke(["go"]);
    expect(held(message)).toEqual({
      content: "Yes.",
      contentBlocks: [
        { type: "reasoning", reasoning: TEMPTING },
        { type: "text", text: "Yes." },
      ],
      additional_kwargs: {
        reasoning_content: TEMPTING,
        reasoning_details: [{ type: "reasoning.text", text: TEMPTING }],
      },
      tool_calls: [],
    });
    expect(message).toMatchObject({ usage_metadata: { output_token_details: { reasoning: 5 } } });
    await provider.invoke(["go", message, "And now?"]);
    expect(api.requests[1]?.body.messages).toEqual([
      { role: "user", content: "go" },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "And now?" },
    ]);
  });

  /** As OpenRouter streams them. */
  const DETAILS = [
    [{ type: "reasoning.text", text: "One, ", index: 0, format: "anthropic-claude-v1" }],
    [{ type: "reasoning.text", text: "two.", index: 0 }],
    [{ type: "reasoning.text", text: null, signature: "SIG", index: 0 }],
    [{ type: "reasoning.encrypted", data: "SEALED", id: "rs_1", index: 1 }],
  ];
  const raw = [
    ...DETAILS.map((reasoning_details) => ({ delta: { reasoning_details } })),
    { delta: { content: "Yes." } },
    { delta: {}, finish_reason: "stop" },
  ].map((choice) => `data: ${JSON.stringify({ id: "c1", model: "scripted", choices: [{ index: 0, ...choice }] })}\n\n`);
  const whole = [
    { type: "reasoning.text", text: "One, two.", index: 0, format: "anthropic-claude-v1", signature: "SIG" },
    { type: "reasoning.encrypted", data: "SEALED", id: "rs_1", index: 1 },
  ];
  const headers = { "content-type": "text/event-stream" };

  it.each([
    ["reasoning_details", whole],
    ["reasoning_content", "One, two."],
    ["reasoning", "One, two."],
  ] as const)("gets it back as %s where it takes that", async (sendReasoning, expected) => {
    const { api, provider } = await withApi({
      script: [{ raw, headers }, { text: "Done." }],
      options: { sendReasoning },
    });
    const { reply, thinking } = await eventsOf(provider.stream(["go"]));
    expect([thinking, reply.thinking, reply.reasoning]).toEqual(["One, two.", "One, two.", whole]);
    const message = (provider: string) => ({
      type: "ai",
      content: "Yes.",
      additional_kwargs: { reasoning_details: whole },
      response_metadata: { provider },
    });
    await provider.invoke(["go", message("openai"), message("claude"), "And now?"]);
    expect(api.requests[1]?.body.messages).toEqual([
      { role: "user", content: "go" },
      { role: "assistant", content: "Yes.", [sendReasoning]: expected },
      // Another's is not told; DeepSeek and Kimi want the field all the same.
      { role: "assistant", content: "Yes.", ...(sendReasoning === "reasoning_content" && { [sendReasoning]: " " }) },
      { role: "user", content: "And now?" },
    ]);
  });

  it("is not asked to take what no server knows", async () => {
    await expect(withApi({ options: { sendReasoning: "thoughts" as never } })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining(
        'option "sendReasoning" must be one of "reasoning_content", "reasoning", "reasoning_details"; given: "thoughts"',
      ),
    });
  });
});
