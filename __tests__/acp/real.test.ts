// @release
/** Real agents that speak the Agent Client Protocol, offline, with their own instructions and tools. */
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createAcpProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HELLO, HERE } from "../clis/real.js";
import { NEWEST_QWEN } from "../support/clis.mjs";
import { removeFolder } from "../support/folders.mjs";
import { withCli } from "../support/harness.mjs";
import { calling } from "../support/model.mjs";
import { until } from "../support/processes.mjs";

type Options = { authType?: string; config?: object; model: string };
type Started = (options: Options, config?: object) => { args: string[]; env?: Record<string, string> };
type Agent = { id: "gemini" | "qwen" | "opencode"; version?: string; prefix: string; started: Started };
const qwen: Started = ({ authType = "", model }) => ({ args: ["--acp", "--auth-type", authType, "--model", model] });
const AGENTS: Record<string, Agent> = {
  gemini: {
    id: "gemini",
    prefix: "mcp_df_",
    started: ({ model }) => ({ args: ["--skip-trust", "--acp", "-m", model] }),
  },
  qwen: { id: "qwen", prefix: "mcp__df__", started: qwen },
  [`qwen ${NEWEST_QWEN}`]: { id: "qwen", version: NEWEST_QWEN, prefix: "mcp__df__", started: qwen },
  opencode: {
    id: "opencode",
    prefix: "df_",
    started: ({ config, model }, more) => ({
      args: ["acp"],
      env: { OPENCODE_CONFIG_CONTENT: JSON.stringify({ ...config, ...more, model, small_model: model }) },
    }),
  },
};

const ADD = { name: "add", description: "Adds", schema: { type: "object", properties: { a: { type: "number" } } } };
type Asked = { body: unknown };
/** How often `text` stands in a request. */
const count = ({ body }: Asked, text: string) => JSON.stringify(body).split(text).length - 1;

// They start for seconds.
describe.skipIf(!HERE).each(Object.entries(AGENTS))("the agent %s", { timeout: 300_000 }, (_, agent) => {
  const { id, version, prefix, started } = agent;
  async function start(script: (request: Asked) => object, more = {}, config = {}) {
    const { api, options, tag } = await withCli(id, {
      ...(version && { version }),
      script: script as never,
      mayRunOut: true,
    });
    const { args, env: own } = started(options as Options, config);
    const env = { ...options.env, ...own };
    const provider = createAcpProvider({
      command: options.cliPath,
      args,
      name: id,
      env,
      timeout: 240_000,
      retry: false,
      ...more,
    });
    onTestFinished(() => provider.close());
    return { api, provider, tag };
  }
  /** Calls `add` until there are `results` of it. */
  const adding = (results: number, calls: object[]) => (request: Asked) =>
    count(request, "took ") < results && count(request, "Add.") > 0 && count(request, "title generator") === 0
      ? { text: "Let me add.", calls: calls.map((call) => ({ name: `${prefix}add`, ...call })) }
      : { text: "Done." };

  it("answers, goes on in its session, and keeps its own tools", async () => {
    const { api, provider, tag } = await start(() => HELLO);
    const first = await provider.invoke(["Say hello"]);
    const thread = [new HumanMessage("Say hello"), first, new HumanMessage("And again")];
    const second = await provider.invoke(thread);
    expect([first.content, second.content]).toEqual(["Hello there.", "Hello there."]);
    const { pid } = first.response_metadata.run ?? {};
    expect(second.response_metadata.run).toMatchObject({ engine: "live", continued: true, pid });
    const last = api.requests.findLast((request) => count(request, "And again") > 0) as Asked;
    expect([count(last, "Say hello"), count(last, "And again")]).toEqual([1, 1]);
    // What its instructions and tools come to.
    expect(Math.max(...api.requests.map(({ bytes }) => bytes))).toBeGreaterThan(5_000);
    await provider.close();
    expect(tag.left()).toEqual([]);
  });

  it("calls the caller's tools, whose results it waits for", async () => {
    const { provider, api } = await start(adding(1, [{ id: "c1", args: { a: 1 } }]));
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(["Add."]);
    expect([first.content, first.tool_calls?.map(({ name, args }) => [name, args])]).toEqual([
      "Let me add.",
      [["add", { a: 1 }]],
    ]);
    expect(first.response_metadata).toMatchObject({ stop_reason: "tool_use", run: { engine: "live" } });
    const [call] = first.tool_calls ?? [];
    const result = new ToolMessage({ tool_call_id: call?.id ?? "", content: "took 1" });
    const second = await model.invoke([new HumanMessage("Add."), first, result]);
    expect(second.content).toBe("Done.");
    expect(second.response_metadata.run).toMatchObject({ engine: "live", continued: true });
    expect(api.requests.some((request) => count(request, "took 1") > 0)).toBe(true);
  });

  it("calls several, each answered by its own result, whoever makes them at once", async () => {
    const calls = [
      { id: "c1", args: { a: 1 } },
      { id: "c2", args: { a: 2 } },
    ];
    const { provider, api } = await start(adding(2, calls));
    const model = provider.bindTools([ADD]);
    const thread: BaseMessage[] = [new HumanMessage("Add.")];
    const made: unknown[] = [];
    let reply: AIMessage;
    do {
      reply = await model.invoke(thread);
      thread.push(reply);
      for (const call of reply.tool_calls ?? []) {
        made.push(call.args);
        thread.push(new ToolMessage({ tool_call_id: call.id ?? "", content: `took ${call.args.a}` }));
      }
    } while (reply.tool_calls?.length);
    expect([reply.content, made]).toEqual(["Done.", [{ a: 1 }, { a: 2 }]]);
    const last = api.requests.findLast((request) => count(request, "took 1") > 0) as Asked;
    expect([count(last, "took 1"), count(last, "took 2")]).toEqual([1, 1]);
  });

  it("has a session for each call, and calls in words, where that is asked for", async () => {
    const script = calling("Let me add.", [{ name: "add", args: { a: 1 }, id: "call_1" }]);
    const { provider } = await start(script, { engine: "warm" });
    const reply = await provider.bindTools([ADD]).invoke(["Add."]);
    expect(reply.tool_calls?.map(({ name, args }) => [name, args])).toEqual([["add", { a: 1 }]]);
    expect(reply.response_metadata.run).toMatchObject({ engine: "warm" });
  });

  it("is replayed all of the thread where its process was killed", async () => {
    const { provider, api, tag } = await start(adding(1, [{ id: "c1", args: { a: 1 } }]));
    const model = provider.bindTools([ADD]);
    const first = await model.invoke(["Add."]);
    process.kill(first.response_metadata.run?.pid ?? 0, "SIGKILL");
    // Some of them are two processes.
    await until(() => tag.left().length === 0);
    const [call] = first.tool_calls ?? [];
    const result = new ToolMessage({ tool_call_id: call?.id ?? "", content: "took 1" });
    const second = await model.invoke([new HumanMessage("Add."), first, result]);
    expect(second.content).toBe("Done.");
    expect(second.response_metadata.run).toMatchObject({ continued: false });
    const last = api.requests.findLast((request) => count(request, "took 1") > 0) as Asked;
    expect(count(last, "Let me add.")).toBeGreaterThan(0);
  });

  it.runIf(id === "opencode")("is told of with a warning where its model gets a part of a result alone", async () => {
    const { provider, api } = await start(adding(1, [{ id: "c1", args: { a: 1 } }]));
    const model = provider.bindTools([ADD]);
    const warnings: string[] = [];
    const turn = async (thread: BaseMessage[], results: number) => {
      for await (const event of model.stream(thread)) {
        if (event.type === "warning") warnings.push(`${results} ${event.code}: ${event.message}`);
        if (event.type === "done") return event.reply;
      }
      throw new Error("no reply");
    };
    const { content, toolCalls } = await turn([new HumanMessage("Add.")], 0);
    const [call] = toolCalls;
    const calls = toolCalls.map(({ id, name, args }) => ({ id, name, args: args as Record<string, unknown> }));
    const first = new AIMessage({ content: "Let me add.", tool_calls: calls });
    const long = `took ${"x".repeat(94)}\n`.repeat(600);
    const result = new ToolMessage({ tool_call_id: call?.id ?? "", content: long });
    const second = await turn([new HumanMessage("Add."), first, result], 1);
    expect(second.content).toBe("Done.");
    expect([content, second.run?.continued]).toEqual(["Let me add.", true]);
    expect(warnings).toEqual([
      expect.stringMatching(/^1 RESULT_TOO_LONG: the result of call .* has 60000 bytes of text/),
    ]);
    const seen = Math.max(...api.requests.map((request) => count(request, "took ")));
    expect([seen > 0, seen < 600]).toEqual([true, true]);
  });

  it.runIf(id === "opencode").each(["c1", "df_add", "df_add__c1", "mcp__df__add_1"])(
    "is not let run a command of its own that it asks for: call %s",
    async (called) => {
      const folder = mkdtempSync(join(tmpdir(), "dfp-"));
      onTestFinished(() => removeFolder(folder));
      const file = join(folder, "done");
      const command = `touch ${file}`;
      const calls = [{ id: called, name: "bash", args: { command, description: "df_add" } }];
      let asked = 0;
      const script = (request: Asked) =>
        count(request, "Add.") > 0 && count(request, "title generator") === 0 && asked++ === 0
          ? { calls }
          : { text: "Done." };
      const { provider } = await start(script, {}, { permission: { bash: "ask" } });
      const ended = await provider
        .bindTools([ADD])
        .invoke(["Add."])
        .then(
          ({ content, tool_calls }) => [content, tool_calls],
          ({ code }) => [code],
        );
      expect([asked > 0, existsSync(file), ended]).toEqual([true, false, expect.anything()]);
    },
  );
});
