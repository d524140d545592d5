// @change
/** opencode live: what only it does, against the real server. The common behaviours are in `__tests__/live`. */
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createOpenCodeCliProvider } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { sharing, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const tools = [{ name: "step", description: "Takes a step", schema }];
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

/** What the API is told, but for the system prompt: role, text, calls. */
const told = (body: {
  messages: { role: string; content: unknown; tool_calls?: unknown[]; tool_call_id?: string }[];
}) =>
  body.messages
    .filter(({ role }) => role !== "system")
    .map(({ role, content, tool_calls, tool_call_id }) => [
      role,
      content,
      ...(tool_calls ? [tool_calls.map((one) => (one as { function: object }).function)] : []),
      ...(tool_call_id ? [tool_call_id] : []),
    ]);

type Script = Parameters<typeof withCli>[1]["script"];

describe.skipIf(!HERE)("opencode", { timeout: 300_000 }, () => {
  const start = sharing(async (answer, until) => {
    const script: Script = (request: unknown, index: number) => answer(index, request, index);
    const cli = await withCli("opencode", { script, until });
    // The default engine.
    const options = { ...cli.options, model: "mock/m1", engine: undefined, retry: false };
    const provider = createOpenCodeCliProvider(options as never);
    until(() => provider.close());
    return { ...cli, provider };
  });

  it("answers over one process, calls natively and fails honestly", async () => {
    const step = (id: string, n: number) => ({ id, name: "df_step", args: { n } });
    const { api, provider } = await start([
      { text: "Hello there.", usage: { input: 60, output: 20, cached: 40, reasoning: 5 } },
      { text: "Let me see.", calls: [step("a", 1), step("b", 2)] },
      { text: "Done." },
      { text: "Welcome back." },
      { error: { status: 401, message: "Incorrect API key provided" } },
      { error: { status: 429, message: "Rate limit reached" } },
      { hang: true },
      { text: "Still here." },
    ]);
    expect((await provider.health({ level: "command" })).engine).toEqual({
      uses: "live",
      why: "it is opencode-linux-x64 1.18.34, says its package.json",
    });
    const bound = provider.bindTools(tools);
    await provider.prewarm({ tools });
    expect(api.requests).toEqual([]);

    const first = await ask(bound, [new SystemMessage("Be kind."), new HumanMessage("hi")]);
    expect([first.reply.content, first.reply.usage, first.reply.stopReason, first.reply.run]).toEqual([
      "Hello there.",
      expect.objectContaining({ inputTokens: 60, outputTokens: 20, cacheReadTokens: 40, reasoningTokens: 5 }),
      "stop",
      expect.objectContaining({ engine: "live", continued: false }),
    ]);
    expect(api.requests[0]?.body.messages[0].content).toMatch(/<\/env>\nBe kind\.$/);

    const thread: BaseMessage[] = [new HumanMessage("go")];
    const called = await ask(bound, thread);
    expect([called.reply.content, called.reply.toolCalls.map(({ id, name, args }) => [id, name, args])]).toEqual([
      "Let me see.",
      [
        ["a", "step", { n: 1 }],
        ["b", "step", { n: 2 }],
      ],
    ]);
    thread.push(called.message, result("b", "two"), result("a", "one"), new HumanMessage("and thanks"));
    const done = await ask(bound, thread);
    expect([done.reply.content, done.reply.run?.continued, done.pid]).toEqual(["Done.", true, first.pid]);
    const calls = ["1", "2"].map((n) => ({ name: "df_step", arguments: `{"n":${n}}` }));
    expect(told(api.requests[2]?.body)).toEqual([
      ["user", "go"],
      ["assistant", "Let me see.", calls],
      ["tool", "one", "a"],
      ["tool", "two", "b"],
      ["user", "and thanks"],
    ]);

    // Written by somebody else: no session knows it.
    const foreign = [
      new HumanMessage("one"),
      new AIMessage({ content: "", tool_calls: [{ id: "x", name: "step", args: { n: 7 } }] }),
      new ToolMessage({ tool_call_id: "x", content: "broken", status: "error" }),
      new AIMessage("It broke."),
      new HumanMessage("again?"),
    ];
    const replayed = await ask(bound, foreign);
    expect([replayed.reply.content, replayed.reply.run?.continued, replayed.pid]).toEqual([
      "Welcome back.",
      false,
      first.pid,
    ]);
    expect(told(api.requests[3]?.body)).toEqual([
      ["user", "one"],
      ["assistant", expect.toSatisfy((text) => !text), [{ name: "df_step", arguments: '{"n":7}' }]],
      ["tool", "Error: broken", "x"],
      ["assistant", "It broke."],
      ["user", "again?"],
    ]);

    await expect(bound.invoke(["fail"])).rejects.toMatchObject({ code: "INVALID_API_KEY", httpStatus: 401 });
    await expect(bound.invoke(["slow"])).rejects.toMatchObject({ code: "RATE_LIMITED" });
    const controller = new AbortController();
    const pending = bound.invoke(["hang"], { signal: controller.signal });
    const hung = await api.waitForRequest(7);
    controller.abort(new Error("enough"));
    await expect(pending).rejects.toThrow("enough");
    expect(await hung.outcome).toBe("aborted");
    const last = await ask(bound, [...foreign.slice(0, 1), new AIMessage("No."), new HumanMessage("there?")]);
    expect([last.reply.content, last.pid]).toEqual(["Still here.", first.pid]);
    expect(api.requests).toHaveLength(8);
  });

  it("gives two calls of one id, told apart, goes on with the results of both, and leaves nothing when it is closed", async () => {
    const call = (n: number, name = "df_step") => ({ id: "c", name, args: { n } });
    const { provider, api, tag } = await start([{ calls: [call(1), call(2), call(2)] }, { text: "done" }]);
    const model = provider.bindTools([...tools]);
    const first = await ask(model, ["go"]);
    const ids = first.reply.toolCalls.map(({ id }) => id);
    // opencode has one place for all of them: of two that are alike it tells once.
    expect(first.reply.toolCalls.map(({ args }) => args)).toEqual([{ n: 1 }, { n: 2 }]);
    expect(new Set(ids).size).toBe(2);
    const results = ids.map((id, at) => new ToolMessage({ tool_call_id: id, content: `took ${at}` }));
    const second = await ask(model, [new HumanMessage("go"), first.message, ...results]);
    expect(second.reply.content).toBe("done");
    const sent = api.requests[1]?.body.messages.filter(({ role }: { role: string }) => role === "tool");
    expect(sent.map(({ content }: { content: string }) => content).sort()).toEqual(["took 0", "took 1"]);
    expect(tag.left()).not.toEqual([]);
    await provider.close();
    expect(tag.left()).toEqual([]);
  });
});
