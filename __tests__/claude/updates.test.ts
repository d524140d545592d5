// @change
/** What deep-factor-agent relies on: updates in order, complete, before the promise settles. */
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createClaudeCliProvider, createCodexCliProvider, type InvokeUpdate } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { ALL, createProvider, MAIN_RUN, sampleOf, withClaude, withCli } from "../support/harness.mjs";
import { calling, markIn, writeToolCalls } from "../support/model.mjs";

const usage = { input_tokens: 11, cache_creation_input_tokens: 3, cache_read_input_tokens: 5, output_tokens: 7 };
const counted = { inputTokens: 19, outputTokens: 7, totalTokens: 26, cacheReadTokens: 5, cacheWriteTokens: 3 };
const lookup = { name: "lookup", description: "Looks a word up", schema: { type: "object" } };

/** The model calls the tool its own way, or in its text where it was told to. */
const CALL = {
  print: (request: { body: unknown }) => {
    const call = { name: "lookup", args: { word: "crab" }, id: "call_1" };
    return { text: `I look it up.\n${writeToolCalls([call], markIn(request.body))}`, usage };
  },
  live: {
    content: [
      { type: "text", text: "I look it up.\n" },
      { type: "tool_use", id: "call_1", name: "mcp__df__lookup", input: { word: "crab" } },
    ],
    usage,
  },
};

describe.each(MAIN_RUN)("claude %s, engine %s", (which, engine) => {
  it.each(engine === "print" ? (["stream-json", "json"] as const) : (["stream-json"] as const))(
    "sends the exact updates of a two-step tool run (%s)",
    async (outputFormat) => {
      const steps = [CALL[engine], { text: "  A crab is a decapod.\n", usage }];
      const script = (request: { body: unknown }, index: number) => {
        const step = steps[index] ?? { error: { status: 400, message: "no" } };
        return typeof step === "function" ? step(request) : step;
      };
      const { options } = await withClaude({ which, engine, script });
      const provider = createProvider({
        ...options,
        // Which a root may start, too, with the built-in tools off.
        permissionMode: ALL ? "acceptEdits" : "bypassPermissions",
        disableBuiltInTools: true,
        outputFormat,
        verbose: true,
        ...(outputFormat === "stream-json" ? { includePartialMessages: true } : {}),
      });
      const updates: InvokeUpdate[] = [];
      const onUpdate = (update: InvokeUpdate) => void updates.push(update);

      const question = new HumanMessage("What is a crab?");
      const first = await provider.bindTools([lookup]).invokeWithUpdates([question], onUpdate);
      const result = new ToolMessage({ tool_call_id: first.tool_calls?.[0]?.id ?? "", content: "decapod" });
      const second = await provider.bindTools([lookup]).invokeWithUpdates([question, first, result], onUpdate);

      const called = engine === "print" ? "end_turn" : "tool_deferred";
      expect(updates).toEqual([
        { type: "assistant_message", content: "I look it up." },
        { type: "tool_call", toolCall: { name: "lookup", id: "call_1", args: { word: "crab" } } },
        { type: "usage", usage: counted, rawStopReason: called },
        { type: "final", content: "I look it up.", usage: counted, rawStopReason: called },
        { type: "assistant_message", content: "A crab is a decapod." },
        { type: "usage", usage: counted, rawStopReason: "end_turn" },
        { type: "final", content: "A crab is a decapod.", usage: counted, rawStopReason: "end_turn" },
      ]);

      // And none of a failure: the rejection is enough.
      updates.length = 0;
      const thread = [question, first, result, second, new HumanMessage("And a lobster?")];
      const failed = provider.bindTools([lookup]).invokeWithUpdates(thread, onUpdate);
      await expect(failed).rejects.toMatchObject({ name: "ProviderError", category: "validation" });
      expect(updates).toEqual([]);
    },
  );

  // The tool run above is one with "bypassPermissions", the call below one with "acceptEdits", and `claude-code/work` has one with "plan".
  it.runIf(ALL)("lets plan mode and bypassPermissions start, also as root, with the built-in tools off", async () => {
    const { options } = await withClaude({ which, engine, script: () => ({ text: "1. Read\n2. Write" }) });
    for (const permissionMode of ["bypassPermissions", "plan", "acceptEdits"] as const) {
      const reply = await createProvider({ ...options, permissionMode, includePartialMessages: true }).invoke([
        "plan it",
      ]);
      expect(reply.content).toBe("1. Read\n2. Write");
    }
  });
});

it("makes a repeated call id unique within the thread", async () => {
  const { options } = await withClaude({
    engine: "print",
    script: [calling("", [{ name: "lookup", args: {}, id: "call_1" }])],
  });
  const thread = [
    new HumanMessage("x"),
    new AIMessage({ content: "", tool_calls: [{ name: "lookup", args: {}, id: "call_1" }] }),
    new ToolMessage({ tool_call_id: "call_1", content: "r" }),
  ];
  const provider = createClaudeCliProvider({ ...options, permissionMode: "acceptEdits" });
  const reply = await provider.bindTools([lookup]).invoke(thread);
  expect(reply.tool_calls).toEqual([{ name: "lookup", args: {}, id: "call_1_2" }]);
});

// It is this package that calls it, whichever the CLI: codex starts in a sixth of the time.
it.each(sampleOf(["codex", "claude"] as const))("rejects with the error that onUpdate throws (%s)", async (cli) => {
  const script = [{ text: "hi" }];
  const { options } = await (cli === "codex" ? withCli(cli, { script }) : withClaude({ engine: "print", script }));
  const reason = new Error("the screen is gone");
  const create = cli === "codex" ? createCodexCliProvider : createClaudeCliProvider;
  const done = create(options as object).invokeWithUpdates(["hi"], () => {
    throw reason;
  });
  await expect(done).rejects.toBe(reason);
});

// In every run, `claude/live` aborts a call and leaves one, and one of `claude/errors` ends at its time limit.
it.runIf(ALL)("rejects with the reason of an abort, and the process is gone", async () => {
  const { api, options } = await withClaude({
    engine: "print",
    script: [{ chunks: ["one ", "two"], hangAfter: 6 }],
    mayRunOut: true,
  });
  const provider = createClaudeCliProvider({ ...options, includePartialMessages: true });
  const reason = new Error("the screen is gone");
  const aborted = new AbortController();
  const call = provider.invoke(["hi"], { signal: aborted.signal });
  await api.waitForRequest(1);
  aborted.abort(reason);
  await expect(call).rejects.toBe(reason);
  expect(await api.requests[0]?.outcome).toBe("aborted");
});

// The tool run ends with one in every run.
it.runIf(ALL)("sends no error update: the rejection is enough", async () => {
  const { options } = await withClaude({ engine: "print", script: () => ({ error: { status: 400, message: "no" } }) });
  const updates: InvokeUpdate[] = [];
  const call = createClaudeCliProvider(options).invokeWithUpdates(["hi"], (update) => void updates.push(update));
  await expect(call).rejects.toMatchObject({ name: "ProviderError", category: "validation" });
  expect(updates).toEqual([]);
});
