// @change
/** Any agent that speaks the Agent Client Protocol: one that breaks its rules, and what becomes of a call then. */
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { type AcpProviderOptions, createAcpProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { removeFolder } from "../support/folders.mjs";
import { sampleOf, sharing, type Until } from "../support/harness.mjs";
import { setMood } from "../support/moods.mjs";
import { until } from "../support/processes.mjs";

const AGENT = fileURLToPath(new URL("../support/hostile-acp.mjs", import.meta.url));

type Options = Partial<AcpProviderOptions>;

function agent(mood: string, more: Options = {}, name = "hostile", ends: Until = onTestFinished) {
  const home = mkdtempSync(join(tmpdir(), "dfp-"));
  const log = join(home, "log");
  const provider = createAcpProvider({
    command: process.execPath,
    args: [AGENT, log, mood, name],
    name: "hostile",
    retry: false,
    ...more,
  });
  ends(async () => {
    await provider.close();
    removeFolder(home);
  });
  type Sent = { id?: unknown; method?: string; params?: unknown; result?: unknown; error?: { code: number } };
  const sent = (): Sent[] => {
    if (!existsSync(log)) return [];
    const lines = readFileSync(log, "utf8").trimEnd().split("\n");
    return lines.map((line) => JSON.parse(line));
  };
  return { provider, sent, log };
}

/** An agent for all tests of a `describe`, each in a mood of its own. `begun`: the mood it is started in, which says what it can do. */
function sharedAgent(begun: string, more: Options = {}) {
  const start = sharing<ReturnType<typeof agent> & { api: never }, string>(async (_, until) => ({
    ...agent(begun, more, "hostile", until),
    api: { requests: [], violations: [] } as never,
  }));
  return async (mood: string) => {
    const { provider, sent, log } = await start(mood);
    setMood(log, mood);
    const before = sent().length;
    // A provider remembers what was bound last.
    return { provider: provider.bindTools([]), sent: () => sent().slice(before) };
  };
}

const plain = sharedAgent("");

describe("an agent that breaks every rule", () => {
  it("tells no secret where it lists no models", async () => {
    const { provider } = agent("leaky", { env: { LEAKED_API_KEY: "sk-leaked-0123456789abcdef" } });
    const said = await provider.models().then(
      () => "listed",
      (error) => JSON.stringify([error.message, error.hint, error]),
    );
    expect(said).toContain("it opens no session: the key [redacted] is wrong");
    expect(said).not.toContain("sk-leaked");
  });

  it("is read for its answer alone, given nothing that it asks for, and serves the next call, of which nothing late is a part", async () => {
    const { provider, sent } = agent("rules");
    const reply = await provider.invoke(["Say hello"]);
    const { response_metadata, content, tool_calls, invalid_tool_calls, additional_kwargs, usage_metadata } = reply;
    expect({ content, tool_calls, invalid_tool_calls, additional_kwargs, usage_metadata }).toEqual({
      content: "Hello there.",
      tool_calls: [],
      invalid_tool_calls: [],
      additional_kwargs: {
        reasoning_content: "thinking",
        reasoning_details: [{ type: "reasoning.text", text: "thinking" }],
      },
      usage_metadata: { input_tokens: 20, output_tokens: 7, total_tokens: 27 },
    });
    expect(response_metadata).toMatchObject({ provider: "hostile", stop_reason: "end_turn", run: { engine: "live" } });
    const answers = sent().filter(({ method }) => method === undefined);
    const refused = expect.objectContaining({ code: -32_601 });
    expect(answers).toEqual([
      { jsonrpc: "2.0", id: "f1", error: refused },
      { jsonrpc: "2.0", id: "f2", error: refused },
      { jsonrpc: "2.0", id: "t1", error: refused },
      { jsonrpc: "2.0", id: "p1", result: { outcome: { outcome: "cancelled" } } },
    ]);
    const [initialize, opened] = sent();
    expect(initialize?.params).toEqual({
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    });
    expect(opened?.params).toEqual({ cwd: expect.any(String), mcpServers: [] });
    const second = await provider.invoke(["Say hello"]);
    expect(second.content).toBe("Hello there.");
    expect(second.response_metadata.run?.pid).toBe(response_metadata.run?.pid);
  });
});

describe("what becomes of a call", () => {
  const again = sharedAgent("", { retry: { maxAttempts: 2, baseDelayMs: 1 } });
  /** What is found out of these is kept, or they end. */
  const ALONE = ["nameless", "newer", "dies"];
  it.each([
    ["fails", "RATE_LIMITED"],
    ["forbidden", "PERMISSION_DENIED"],
    ["nobody", "NOT_LOGGED_IN"],
    ["nameless", "LIVE_UNSUPPORTED"],
    ["newer", "LIVE_UNSUPPORTED"],
    ["dies", "CRASHED"],
    ["max_tokens", "MAX_TOKENS"],
    ["refusal", "REFUSAL"],
    ["empty", "EMPTY_RESPONSE"],
  ])("in the mood %j: %s", async (mood, code) => {
    const { provider } = ALONE.includes(mood) ? agent(mood) : await plain(mood);
    await expect(provider.invoke(["Say hello"])).rejects.toMatchObject({ code, provider: "hostile" });
  });

  it.each([
    ["error", 'the agent ended its turn with "error"'],
    ["pause", 'the agent ended its turn with "pause_turn"'],
    ["noReason", "the agent does not say how its turn ended"],
  ])("takes no end for an answer that it does not know: %s", async (mood, message) => {
    await expect((await plain(mood)).provider.invoke(["Say hello"])).rejects.toMatchObject({
      message: expect.stringContaining(message),
      partial: { text: "Hello there." },
    });
  });

  it.each([
    ["failsFirst", "Hello there.", 2],
    // It would act twice.
    ["actsAndFails", "SERVER_ERROR", 1],
  ])("is asked again where it fails, unless the agent has run a tool of its own: %s", async (mood, expected, times) => {
    for (const engine of sampleOf(["live", "warm"] as const)) {
      const retry = { maxAttempts: 2, baseDelayMs: 1 };
      const { provider, sent } = engine === "live" ? await again(mood) : agent(mood, { engine, retry });
      const came = await provider.invoke(["Say hello"]).then(
        ({ content }) => content,
        ({ code }) => code,
      );
      expect([came, sent().filter(({ method }) => method === "session/prompt").length]).toEqual([expected, times]);
    }
  });

  it("has the prompt cancelled at its time limit", async () => {
    const { provider, sent } = agent("silent", { timeout: 1_500 });
    await expect(provider.invoke(["Say hello"])).rejects.toMatchObject({ code: "TIMEOUT" });
    expect(sent().filter(({ method }) => method === "session/cancel")).toHaveLength(1);
  });
});

const ADD = { name: "add", description: "Adds", schema: { type: "object" } };
type Results = (args: Record<string, unknown>) => string;
/** The thread behind `reply`, with the results of its calls. */
const answered = (thread: BaseMessage[], reply: AIMessage, result: Results = ({ a }) => `took ${a}`) => [
  ...thread,
  reply,
  ...(reply.tool_calls ?? []).map(
    (call) => new ToolMessage({ tool_call_id: call.id ?? "", content: result(call.args) }),
  ),
];
const argsOf = (reply: AIMessage) => reply.tool_calls?.map(({ name, args }) => [name, args]);
const ofRun = (reply: AIMessage) => {
  const { run } = reply.response_metadata as { run?: { engine: string; continued?: boolean } };
  return [run?.engine, run?.continued];
};

describe("kept sessions", () => {
  const GO = [new HumanMessage("Go")];
  /** It takes servers. */
  const calling = sharedAgent("atOnce");

  it("are sent what is new, each its own", async () => {
    const { provider, sent } = agent("");
    const [one, two] = await Promise.all([provider.invoke(["One"]), provider.invoke(["Two"])]);
    const thread = [new HumanMessage("One"), one, new HumanMessage("/more"), new HumanMessage("and more")];
    expect(ofRun(await provider.invoke(thread))).toEqual(["live", true]);
    expect(ofRun(await provider.invoke([new HumanMessage("Two"), two, new HumanMessage("Three")]))).toEqual([
      "live",
      true,
    ]);
    const opened = sent().filter(({ method }) => method === "session/new");
    const prompts = sent()
      .filter(({ method }) => method === "session/prompt")
      .map(({ params }) => params as { sessionId: string; prompt: { text: string }[] });
    expect(opened).toHaveLength(2);
    expect(new Set(prompts.map(({ sessionId }) => sessionId)).size).toBe(2);
    expect(prompts[2]?.sessionId).toBe(prompts.find(({ prompt }) => prompt[0]?.text.includes("One"))?.sessionId);
    expect(prompts[2]?.prompt[0]?.text).toMatch(/\/more[\s\S]*and more/);
    expect(prompts[2]?.prompt[0]?.text).not.toMatch(/^\s*\/|One|Hello/);
  });

  it("are called the tools of at once, and go on when all have their results", async () => {
    const { provider, sent } = await calling("atOnce");
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(GO);
    expect([first.content, argsOf(first)]).toEqual(["Let me add.", expect.any(Array)]);
    expect(new Set(argsOf(first)?.map(([, args]) => (args as { a: number }).a))).toEqual(new Set([1, 2]));
    const second = await model.invoke(answered(GO, first));
    expect([second.content, ofRun(second)]).toEqual(["took 1 and took 2", ["live", true]]);
    expect(sent().filter(({ method }) => method === "session/prompt")).toHaveLength(1);
    const opened = sent().find(({ method }) => method === "session/new");
    const url = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\//);
    const headers = [{ name: "Authorization", value: expect.stringMatching(/^Bearer [\da-f]{64}$/) }];
    expect(opened?.params).toEqual({
      cwd: expect.stringMatching(/[/\\]s0$/),
      mcpServers: [{ type: "http", name: "df", url, headers }],
    });
  });

  it("warns where the agent has answered without having asked for the tools", async () => {
    const { provider } = await calling("ignoresTools");
    const codes: string[] = [];
    for await (const event of provider.bindTools([ADD]).stream(["Say hello"])) {
      if (event.type === "warning") codes.push(event.code);
    }
    expect(codes).toEqual(["TOOLS_NOT_CALLABLE"]);
  });

  it("lose no word that comes behind the call that follows it", async () => {
    const { provider } = await calling("lateWords");
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(GO);
    expect([first.content, argsOf(first)]).toEqual(["Let me add.", [["add", { a: 1 }]]]);
    const second = await model.invoke(answered(GO, first));
    expect([second.content, ofRun(second)]).toEqual(["took 1", ["live", true]]);
  });

  it("are called them one after the other by one prompt", async () => {
    const { provider } = await calling("inTurn");
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(GO);
    const thread = answered(GO, first);
    const second = await model.invoke(thread);
    expect([argsOf(first), argsOf(second)]).toEqual([[["add", { a: 1 }]], [["add", { a: 2 }]]]);
    const third = await model.invoke(answered(thread, second));
    expect([second.content, third.content, ofRun(third)]).toEqual(["took 1.", "took 2.", ["live", true]]);
  });

  it.each([
    ["afterTheEnd", "Done."],
    ["withoutWaiting", "Done without it."],
  ])("give no call away that comes to nothing (%s)", async (mood, content) => {
    const { provider, sent } = await calling(mood);
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(GO);
    expect([first.content, first.tool_calls]).toEqual([content, []]);
    await until(() => sent().some((line) => "late" in line));
    expect(sent().find((line) => "late" in line)).toEqual({ late: "the agent has dropped the call" });
    const second = await model.invoke([...GO, first, new HumanMessage("More")]);
    expect([second.content, second.tool_calls, ofRun(second)]).toEqual([content, [], ["live", true]]);
  });

  it("are sent to another process where theirs ends before it has told anything of them", async () => {
    const { provider, sent } = agent("diesOfTheResult");
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(GO);
    expect(argsOf(first)).toEqual([["add", { a: 1 }]]);
    // What it told of the call while that waited is not of the next turn.
    await until(() => sent().some((line) => "waits" in line));
    const second = await model.invoke(answered(GO, first));
    expect([argsOf(second), ofRun(second)]).toEqual([[["add", { a: 1 }]], ["live", false]]);
    expect(second.response_metadata.run?.pid).not.toBe(first.response_metadata.run?.pid);
  });

  it("are given up where the agent has given up its calls, and the thread is sent to another", async () => {
    const { provider, sent } = agent("givesUp");
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(GO);
    expect(argsOf(first)).toEqual([["add", { a: 1 }]]);
    await until(() => sent().some((line) => "late" in line));
    const second = await model.invoke(answered(GO, first));
    expect([second.content, ofRun(second)]).toEqual(["Another session.", ["live", false]]);
    const [, prompt] = sent().filter(({ method }) => method === "session/prompt");
    expect(JSON.stringify(prompt?.params)).toMatch(/Go.*took 1/);
  });

  it("call no tool that the caller has not", async () => {
    const reply = await (await calling("unknownTool")).provider.bindTools([ADD]).invoke(GO);
    expect([reply.content, reply.tool_calls]).toEqual([expect.stringContaining("rm"), []]);
  });

  it("are permitted the caller's tools, and nothing that is called like them", async () => {
    const { provider, sent } = await calling("permissions");
    expect((await provider.bindTools([ADD]).invoke(GO)).content).toBe("Done.");
    const of = (name: string) => sent().flatMap((line) => (name in line ? [(line as never)[name]] : []));
    const once = { outcome: { outcome: "selected", optionId: "once" } };
    const refused = { outcome: { outcome: "cancelled" } };
    expect([of("permitted"), of("refused")]).toEqual([Array(3).fill(once), Array(10).fill(refused)]);
  });

  it.each([
    // kimi's first title of a call is the tool's name; that of others may be anything.
    ["Kimi Code CLI", [["add", { a: 1 }]], ""],
    ["hostile", [], "It was refused."],
  ])("are permitted them by the words of an agent that is known to have its own: %s", async (name, calls, content) => {
    const reply = await agent("titles", {}, name).provider.bindTools([ADD]).invoke(GO);
    expect([argsOf(reply), reply.content]).toEqual([calls, content]);
  });

  it("are left where the agent does not stop, and others serve", async () => {
    const { provider, sent } = agent("endless");
    await provider.prewarm();
    await expect(provider.invoke(GO, { timeout: 700 })).rejects.toMatchObject({
      code: "TIMEOUT",
      partial: { text: expect.stringMatching(/^and on and on/) },
    });
    expect(sent().filter(({ method }) => method === "session/cancel")).toHaveLength(1);
    await expect(provider.invoke(GO, { timeout: 700 })).rejects.toMatchObject({ code: "TIMEOUT" });
  });

  it("are not two of one name", async () => {
    const { provider } = agent("sameName");
    const both = await Promise.allSettled([provider.invoke(["One"]), provider.invoke(["Two"])]);
    expect(both.map((one) => (one.status === "fulfilled" ? one.value.content : one.reason.code)).sort()).toEqual([
      "Hello.",
      "LIVE_UNSUPPORTED",
    ]);
  });

  it("are interrupted with their calls", async () => {
    const { provider, sent } = agent("atOnce");
    const model = provider.bindTools([ADD]);
    await model.invoke(GO);
    await provider.close();
    expect(sent().filter(({ method }) => method === "session/cancel").length).toBeLessThanOrEqual(1);
    await expect(model.invoke(GO)).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("an agent that takes no servers", () => {
  it("is told the tools in words, in a session of the call's own", async () => {
    const { provider, sent } = await plain("");
    const reply = await provider.bindTools([ADD]).invoke(["Say hello"]);
    expect([reply.content, ofRun(reply)]).toEqual(["Hello there.", ["warm", undefined]]);
    const prompts = sent().filter(({ method }) => method === "session/prompt");
    expect(prompts.map(({ params }) => JSON.stringify(params))).toEqual([expect.stringContaining("Available Tools")]);
    expect(ofRun(await provider.bindTools([]).invoke(["Say hello"]))).toEqual(["live", false]);
  });

  it("is refused to who wants kept sessions and nothing else", async () => {
    const model = agent("", { engine: "live" }).provider.bindTools([ADD]);
    await expect(model.invoke(["Say hello"])).rejects.toMatchObject({
      code: "LIVE_UNSUPPORTED",
      message: expect.stringContaining("no MCP servers over HTTP"),
    });
  });

  it("is one, too, where its sessions share a folder of the user's", async () => {
    const cwd = mkdtempSync(join(tmpdir(), "dfp-"));
    onTestFinished(() => removeFolder(cwd));
    const model = agent("atOnce", { engine: "live", cwd }).provider.bindTools([ADD]);
    await expect(model.invoke(["Say hello"])).rejects.toMatchObject({
      code: "LIVE_UNSUPPORTED",
      message: expect.stringContaining("`cwd`"),
    });
  });
});

describe("the model and how much it thinks", () => {
  const chosen = { model: "m2", reasoning: { effort: "high" } };
  const asked = (sent: { method?: string; params?: unknown }[]) =>
    sent.flatMap(({ method, params }) => (method?.startsWith("session/set_") ? [[method, params]] : []));
  const sessionId = expect.any(String);

  const agents = { live: plain, warm: sharedAgent("options", { engine: "warm" }) };

  it.each(["live", "warm"] as const)("are chosen by what the agent offers (%s)", async (engine) => {
    const { provider, sent } = await agents[engine]("options");
    const reply = await provider.invoke(["Say hello"], chosen);
    // The engine that is asked for has a session for each call.
    expect([reply.content, ofRun(reply)]).toEqual([
      "Hello there.",
      engine === "warm" ? ["warm", undefined] : ["live", false],
    ]);
    expect(asked(sent())).toEqual([
      ["session/set_config_option", { sessionId, configId: "llm", value: "m2" }],
      ["session/set_config_option", { sessionId, configId: "thinking", value: "high" }],
    ]);
    const { provider: other, sent: toOther } = await agents[engine]("models");
    expect((await other.invoke(["Say hello"], { model: "m2" })).content).toBe("Hello there.");
    expect(asked(toOther())).toEqual([["session/set_model", { sessionId, modelId: "m2" }]]);
  });

  it("are those of the provider's options", async () => {
    const { provider, sent } = agent("options", chosen);
    expect((await provider.invoke(["Say hello"])).content).toBe("Hello there.");
    expect(asked(sent())).toEqual([
      ["session/set_config_option", { sessionId, configId: "llm", value: "m2" }],
      ["session/set_config_option", { sessionId, configId: "thinking", value: "high" }],
    ]);
  });

  it.each([
    ["off", "off"],
    ["none", "none"],
    ["noneThenOff", "off"],
  ] as const)("no reasoning has the name that the agent gives it: %s", async (mood, value) => {
    for (const engine of sampleOf(["warm", "live"] as const)) {
      const { provider, sent } = await agents[engine](mood);
      expect((await provider.invoke(["Say hello"], { reasoning: "off" })).content).toBe("Hello there.");
      expect(asked(sent())).toEqual([["session/set_config_option", { sessionId, configId: "thinking", value }]]);
    }
  });

  it.each([
    ["options", { reasoning: "off" }, "UNSUPPORTED_OPTION", 'no level of reasoning "off"; it offers: low, high'],
    ["options", { model: "m3" }, "MODEL_NOT_FOUND", 'the agent offers no model "m3"; it offers: m1, m2'],
    ["", { model: "m2" }, "UNSUPPORTED_OPTION", "the agent offers no choice of its model"],
    ["models", { reasoning: { effort: "high" } }, "UNSUPPORTED_OPTION", "no choice of its level of reasoning"],
  ] as const)("are told where they can't be had: %s %j", async (mood, more, code, reason) => {
    const { provider, sent } = await agents.live(mood);
    await expect(provider.invoke(["Say hello"], more as never)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(reason),
    });
    expect(sent().some(({ method }) => method === "session/prompt")).toBe(false);
  });
});

it("says what it is", async () => {
  const { provider } = await plain("");
  const report = await provider.health({ level: "request" });
  expect(report).toMatchObject({ provider: "hostile", installed: true, answering: true, pure: false, problems: [] });
});

it.each([
  [{}, "INVALID_CONFIG", "config.command is missing"],
  [{ command: 7 }, "INVALID_CONFIG", "config.command must be"],
  [{ command: "x", args: "--acp" }, "INVALID_CONFIG", "config.args must be"],
  [{ command: "x", engine: "print" }, "UNSUPPORTED_OPTION", 'option "engine" can\'t be "print"'],
  [{ command: "x", systemPrompt: "x" }, "INVALID_OPTION", 'unknown option "systemPrompt"'],
] as const)("refuses %j", (options, code, reason) => {
  expect(() => createAcpProvider(options as never)).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(reason) }),
  );
});
