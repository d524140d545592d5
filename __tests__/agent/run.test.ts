// @long
/** What `runAgent` does beside the scenarios: results, events, LangChain, what goes wrong, and bad input. */

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  type AgentEvent,
  type AgentTool,
  createClaudeCliProvider,
  createCodexCliProvider,
  createFallbackProvider,
  ProviderError,
  renderRunLog,
  replayRun,
  runAgent,
} from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { withApi } from "../api/setup.js";
import { toAnswer } from "../support/agent-claude.mjs";
import { toAnswer as toCodexAnswer } from "../support/agent-codex.mjs";
import type { Turn } from "../support/agent-scenarios.mjs";
import { createProvider, sampleOf, withClaude, withCli } from "../support/harness.mjs";
import { createTag } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

type Engine = "print" | "live";
type Failure = { error: { status: number; message: string } };

/** Live by default: one process for all turns of a run. */
async function claude(turns: (Turn | Failure)[], engine: Engine = "live") {
  const script = turns.map((turn, index) => ("error" in turn ? turn : toAnswer(turn, index + 1, engine)));
  const { api, options } = await withClaude({ engine, script });
  return { api, options, provider: createProvider(options) };
}

/** The same; in print form, its calls are written into the text where the run says that they come in turns. */
async function codex(turns: (Turn | Failure)[], engine: Engine = "live") {
  const toOne = engine === "live" ? toCodexAnswer : (turn: Turn, index: number) => toAnswer(turn, index + 1, engine);
  const script = turns.map((turn, index) => ("error" in turn ? turn : toOne(turn, index)));
  const { api, options: made } = await withCli("codex", { script });
  const options = { ...made, engine };
  const provider = createCodexCliProvider(options);
  onTestFinished(() => provider.close());
  return { api, options, provider };
}

const CLAUDE = { cli: "claude", cast: claude, create: createClaudeCliProvider, native: native.createClaudeCliProvider };
const CODEX = { cli: "codex", cast: codex, create: createCodexCliProvider, native: native.createCodexCliProvider };
/** What a run is played with whose subject is the agent: codex, which starts in a fraction of the time, and with `--all` claude, too. */
const CLIS = sampleOf([CODEX, CLAUDE]);

/** A model that says this, where the agent is what is tested, and not how a CLI is spoken to. */
function scripted(turns: Turn[]) {
  const provider = createScriptedProvider(turns.map(({ text, calls = [] }) => ({ text, toolCalls: calls })));
  onTestFinished(() => provider.close());
  return provider;
}

const look: AgentTool = { name: "look", execute: () => "fine" };

async function eventsOf(run: AsyncIterable<AgentEvent>) {
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

interface Used {
  total_tokens: number;
}

/** What the model's own messages say they took. */
function tokensOf(messages: object[]) {
  const used = messages.map((message) => (message as { usage_metadata?: Used }).usage_metadata?.total_tokens ?? 0);
  return used.reduce((all, tokens) => all + tokens, 0);
}

describe("arguments", () => {
  const tree: z.ZodType = z.object({
    name: z.string(),
    get children() {
      return z.array(tree).default([]);
    },
  });
  const schema = z.object({
    days: z.number().default(5),
    city: z.preprocess((given) => String(given).trim(), z.string().min(2)),
    at: z.coerce.date().optional(),
    tree: tree.optional(),
  });
  const wrapped = {
    jsonSchema: z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }),
    validate: async (args: unknown) => {
      const { success, data, error } = schema.safeParse(args);
      return success ? { success, value: data } : { success, error };
    },
  };
  const args = { city: " Bonn ", at: "2026-01-02", tree: { name: "r", children: [{ name: "l" }] } };
  const parsed = {
    days: 5,
    city: "Bonn",
    at: new Date("2026-01-02"),
    tree: { name: "r", children: [{ name: "l", children: [] }] },
  };

  it.each<[string, (seen: (given: unknown) => string) => object]>([
    ["zod under `schema`", (execute) => ({ schema, execute })],
    ["zod under `inputSchema`", (execute) => ({ inputSchema: schema, execute })],
    ["the AI SDK's wrapper", (execute) => ({ inputSchema: wrapped, execute })],
    ["a LangChain tool", (execute) => tool(execute as never, { name: "weather", description: "", schema })],
  ])("of %s may leave out what has a default, and are what the schema makes of them", async (_, make) => {
    const seen: unknown[] = [];
    const provider = scripted([
      { calls: [{ name: "weather", args }] },
      { calls: [{ name: "weather", args: { days: "many", city: "Bonn" } }] },
      { calls: [{ name: "weather", args: { city: " B " } }] },
      { text: "Fine." },
    ]);
    const execute = (given: unknown) => {
      seen.push(given);
      return "sunny";
    };
    const weather = Object.assign(make(execute), { name: "weather" }) as AgentTool;
    const run = runAgent({ provider, prompt: "go", tools: [weather] });
    const results = (await eventsOf(run)).filter((event) => event.type === "tool_result");
    expect(seen).toEqual([parsed]);
    expect(results.map(({ isError }) => isError)).toEqual([false, true, true]);
    expect(String(results[1]?.content)).toContain('the arguments of "weather" do not fit its schema: /days:');
    expect(String(results[2]?.content)).toContain(">=2 characters");
    expect((await run.result).status).toBe("completed");
    expect(provider.requests[0]?.tools).toMatchObject([{ name: "weather", schema: { properties: { days: {} } } }]);
  });
});

describe("a result", () => {
  // One process of claude's for all of it, which says what its answers cost.
  it("is there without anybody iterating, with the thread in the caller's own messages; another run goes on from where it ended, and costs no more than it may", async () => {
    const { provider, api } = await claude([
      { text: "Let me see.", calls: [{ name: "sum", args: { a: 1, b: 2 } }] },
      { text: "3." },
      { text: "Bye." },
      { calls: [{ name: "sum", args: { a: 3, b: 4 } }] },
    ]);
    const sum = tool(({ a, b }) => `${a + b}`, {
      name: "sum",
      description: "Adds",
      schema: z.object({ a: z.number(), b: z.number() }),
    });
    const given = new HumanMessage("What is 1 + 2?");
    const run = runAgent({ provider, systemPrompt: "Be brief.", messages: [given, ["user", "Quick!"]], tools: [sum] });
    const result = await run.result;
    expect(result).toMatchObject({ status: "completed", output: "3.", steps: 2 });
    const { messages } = result;
    expect(messages.map((message) => [message.constructor, message.content])).toEqual([
      [SystemMessage, "Be brief."],
      [HumanMessage, "What is 1 + 2?"],
      [HumanMessage, "Quick!"],
      [AIMessage, "Let me see."],
      [ToolMessage, "3"],
      [AIMessage, "3."],
    ]);
    expect(messages[1]).toBe(given);
    const [, , , asked, answered] = messages as [never, never, never, AIMessage, ToolMessage];
    expect(asked.tool_calls).toMatchObject([{ name: "sum", args: { a: 1, b: 2 } }]);
    expect([answered.tool_call_id, answered.status]).toEqual([asked.tool_calls?.[0]?.id, "success"]);
    const tokens = tokensOf(messages);
    expect([result.usage.totalTokens, result.usage.estimated]).toEqual([tokens, undefined]);
    expect(result.costUsd).toBeGreaterThan(0);
    // Whenever somebody asks, all events are there.
    const [events, again] = [await eventsOf(run), await eventsOf(run)];
    expect(again).toEqual(events);
    expect(events.map(({ type }) => type).filter((type) => type !== "text_delta")).toEqual([
      ...["run_started", "message", "usage", "tool_call", "permission", "tool_result"],
      ...["message", "usage", "run_completed"],
    ]);

    const thanks = [...messages, new HumanMessage("Thanks.")];
    const second = await runAgent({ provider, messages: thanks, tools: [sum] }).result;
    expect(second.output).toBe("Bye.");
    expect(second.messages).toHaveLength(8);
    // One process has heard it all: the last request is the first's, grown.
    expect(api.requests).toHaveLength(3);
    expect(JSON.stringify(api.requests[2]?.body.messages)).not.toContain("thread");

    const more = [...second.messages, new HumanMessage("And 3 + 4?")];
    const limits = { maxCostUsd: 0.000001 };
    const limited = await runAgent({ provider, messages: more, tools: [sum], limits }).result;
    expect(limited).toMatchObject({ status: "limit", limit: "maxCostUsd", steps: 1, error: { code: "AGENT_LIMIT" } });
    expect(limited.messages.at(-1)).toMatchObject({ status: "error" });
  });

  it.each(CLIS)("is plain data with the native entry: $cli", async ({ cast, native: create }) => {
    const { options } = await cast([{ calls: [{ name: "look" }] }, { text: "Fine." }]);
    const provider = create(options);
    const { messages, status } = await native.runAgent({ provider, prompt: "Look.", tools: [look] }).result;
    await provider.close();
    expect(status).toBe("completed");
    expect(messages).toMatchObject([
      { type: "human", content: "Look." },
      { type: "ai", content: "", tool_calls: [{ name: "look", args: {} }] },
      { type: "tool", content: "fine", name: "look", status: "success" },
      { type: "ai", content: "Fine." },
    ]);
    expect(JSON.parse(JSON.stringify(messages))).toEqual(messages);
  });
});

describe("what the model gets wrong", () => {
  it.each(CLIS)("is told where a call can't be read, and each start is the logger's to hear of: $cli", async (over) => {
    const broken = { text: '```json\n{"tool_calls":[{"name":"look","args":{"at": },"id":"call_1"}]}\n```' };
    const { options, api } = await over.cast([broken, { text: "Never mind." }], "print");
    const records: string[] = [];
    const provider = over.create({ ...options, logger: ({ message }) => records.push(message) });
    onTestFinished(() => provider.close());
    const run = runAgent({ provider, prompt: "Look.", tools: [look], toolCalls: "turns" });
    const warnings = (await eventsOf(run)).flatMap((event) => (event.type === "warning" ? [event.code] : []));
    const codes = new Set(warnings.filter((code) => code !== "CLI_WARNING"));
    expect([[...codes], (await run.result).output]).toEqual([["INVALID_TOOL_CALL"], "Never mind."]);
    const asked = JSON.stringify(api.requests[1]?.body);
    expect(asked).toContain("could not be read: the JSON is malformed");
    const { messages } = await run.result;
    // One note, whatever number of calls it is about.
    expect(messages.map((message) => message.constructor)).toEqual([HumanMessage, AIMessage, HumanMessage, AIMessage]);
    expect(records.filter((message) => message === "started" || message === "ended")).toEqual([
      ...["started", "ended", "started", "ended"],
    ]);
  });
});

describe("tools", () => {
  it("give text, blocks, data, tool messages, or nothing; and throw anything", async () => {
    const results: Record<string, () => unknown> = {
      text: () => "a\nb",
      blocks: () => [{ type: "text", text: "hi" }],
      data: () => [{ type: "bug", n: 1 }],
      nothing: () => undefined,
      message: () => new ToolMessage({ content: "no", tool_call_id: "x", status: "error" }),
      bigint: () => ({ n: 1n }),
      string: () => Promise.reject("a string"),
      thing: () => Promise.reject({ odd: true }),
    };
    const tools = Object.entries(results).map(([name, execute]) => ({ name, execute }));
    const provider = scripted([{ calls: tools.map(({ name }) => ({ name })) }, { text: "ok" }]);
    const run = runAgent({ provider, prompt: "Go.", tools });
    const told = (await eventsOf(run)).flatMap((event) =>
      event.type === "tool_result" ? [[event.name, [event.content, event.isError]]] : [],
    );
    expect(Object.fromEntries(told)).toEqual({
      text: ["a\nb", false],
      blocks: [[{ type: "text", text: "hi" }], false],
      data: ['[{"type":"bug","n":1}]', false],
      nothing: ["", false],
      message: ["no", true],
      bigint: ['{"n":"1"}', false],
      string: ["a string", true],
      thing: ["it threw an object", true],
    });
  });

  it("are denied when the one who is asked fails, or says neither yes nor no", async () => {
    const answers = [
      () => {
        throw new Error("no terminal");
      },
      () => "yes" as never,
      () => ({ allow: true, args: [1] }) as never,
    ];
    const calls = answers.map(() => ({ name: "look" }));
    const provider = scripted([{ calls }, { text: "ok" }]);
    const run = runAgent({
      provider,
      prompt: "Go.",
      tools: [look],
      permissions: { ask: () => answers.shift()?.() ?? true },
    });
    const reasons = (await eventsOf(run)).flatMap((event) => (event.type === "permission" ? [event.reason] : []));
    expect(reasons).toEqual([
      "permissions.ask failed: no terminal",
      'permissions.ask failed: it must return true, false or { allow, reason?, args? }, and returned the string "yes"',
      "permissions.ask failed: its args must be an object, and are an array",
    ]);
  });
});

describe("a run that ends badly", () => {
  it.each(CLIS)(
    "says before the start that $cli is missing, and warns of agents that are",
    async ({ cast, create }) => {
      const missing = create({ cliPath: "/nowhere/cli" });
      onTestFinished(() => missing.close());
      const run = runAgent({ provider: missing, prompt: "Go." });
      expect((await eventsOf(run)).map(({ type }) => type)).toEqual(["run_started", "run_failed"]);
      const { status, error, output } = await run.result;
      expect([status, error?.code, output]).toEqual(["failed", "CLI_NOT_FOUND", ""]);
      expect(error).toBeInstanceOf(ProviderError);
      expect(error?.hint).toContain("cliPath");

      const call = { name: "handoff", args: { agent: "helper", task: "Help." } };
      const { provider } = await cast([{ calls: [call] }, { text: "Alone then." }]);
      const handoff = { agents: { helper: { provider: missing } } };
      const events = await eventsOf(runAgent({ provider, prompt: "Go.", builtins: { handoff } }));
      expect(events).toContainEqual(expect.objectContaining({ type: "warning", code: "AGENT_UNAVAILABLE" }));
      const failed = events.filter((event) => event.type === "run_failed");
      expect(failed).toMatchObject([
        { agent: "helper", parentRunId: events[0]?.runId, error: { code: "CLI_NOT_FOUND" } },
      ]);
      expect(events.at(-1)).toMatchObject({ type: "run_completed", output: "Alone then." });
    },
  );

  const [PRINT, LIVE] = [{ engine: "print" as const }, { engine: "live" as const }];
  const OVER_EACH = CLIS.flatMap((cli) => [PRINT, LIVE].map((engine) => ({ ...cli, ...engine })));

  it.each(OVER_EACH)("fails as the provider does, with what there was: $cli, $engine", async ({ cast, engine }) => {
    const failure = { error: { status: 401, message: "no way" } };
    const { provider } = await cast([{ calls: [{ name: "look" }] }, failure], engine);
    const { status, error, messages, usage } = await runAgent({
      provider,
      prompt: "Go.",
      tools: [look],
      toolCalls: "turns",
    }).result;
    expect([status, error?.code, messages.length]).toEqual(["failed", "AUTHENTICATION_FAILED", 3]);
    expect(usage.totalTokens).toBeGreaterThan(0);
  });

  // Of claude alone: a live codex keeps its process, which is no conversation's own.
  it.skipIf(lacks("processes")).each(["print", "live"] as const)(
    "leaves no process behind an abort: %s",
    async (engine) => {
      const { api, options } = await withClaude({ engine, script: [{ hang: true }] });
      const tag = createTag();
      const controller = new AbortController();
      const provider = createProvider({ ...options, env: { ...options.env, ...tag.env } });
      const run = runAgent({ provider, prompt: "Go.", signal: controller.signal });
      await api.waitForRequest(1);
      expect(tag.left()).not.toEqual([]);
      controller.abort();
      expect(await run.result).toMatchObject({ status: "cancelled", output: "" });
      expect(tag.left()).toEqual([]);
    },
  );

  it("does not begin where the signal is aborted already", async () => {
    const provider = scripted([]);
    const { status } = await runAgent({ provider, prompt: "Go.", signal: AbortSignal.abort() }).result;
    expect([status, provider.requests]).toEqual(["cancelled", []]);
  });

  it("ends where onEvent throws or rejects", async () => {
    for (const onEvent of [
      (event: AgentEvent) => {
        if (event.type === "tool_call") throw new Error("my bug");
      },
      async (event: AgentEvent) => {
        if (event.type === "tool_call") throw new Error("my bug");
      },
    ]) {
      const provider = scripted([{ calls: [{ name: "never" }] }]);
      const never: AgentTool = { name: "never", execute: () => new Promise(() => {}) };
      const { status, error } = await runAgent({ provider, prompt: "Go.", tools: [never], onEvent }).result;
      expect([status, error?.code, error?.message]).toEqual(["failed", "CALLBACK_FAILED", "onEvent threw: my bug"]);
      expect(error?.cause).toMatchObject({ message: "my bug" });
    }
  });

  it("is no failure of the process when the provider is closed under it", async () => {
    const provider = createScriptedProvider(() => new Promise<string>(() => {}));
    const run = runAgent({ provider, prompt: "Go." });
    await vi.waitFor(() => expect(provider.requests).toHaveLength(1));
    await provider.close();
    expect(await run.result).toMatchObject({ status: "failed", error: { code: "CLOSED" } });
  });
});

describe("handoffs", () => {
  it("nest as deep as they may", async () => {
    const hand = (agent: string) => ({ calls: [{ name: "handoff", args: { agent, task: "On." } }] });
    const provider = scripted([hand("a"), { text: "root" }]);
    const a = scripted([hand("b"), { text: "a" }]);
    const b = scripted([{ text: "b" }]);
    const agents = { a: { provider: a }, b: { provider: b } };
    const run = runAgent({ provider, prompt: "Go.", builtins: { handoff: { agents, maxDepth: 2 } } });
    const started = (await eventsOf(run)).flatMap((event) =>
      event.type === "run_started" ? [[event.agent, event.tools]] : [],
    );
    // The deepest has nobody to hand anything to.
    expect(started).toEqual([
      [undefined, ["handoff"]],
      ["a", ["handoff"]],
      ["b", []],
    ]);
    const { usage, messages } = await run.result;
    expect(messages.map(({ content }) => content)).toEqual(["Go.", "", "a", "root"]);
    expect(usage.totalTokens).toBeGreaterThan(tokensOf(messages));
  });

  it.skipIf(lacks("processes")).each(CLIS)("end with the run that waits for them: $cli", async ({ cast, create }) => {
    const call = { name: "handoff", args: { agent: "helper", task: "Help." } };
    const { provider } = await cast([{ calls: [call] }]);
    const helper = await cast([{ hang: true }], cast === claude ? "live" : "print");
    const tag = createTag();
    const slow = create({ ...helper.options, env: { ...helper.options.env, ...tag.env } });
    onTestFinished(() => slow.close());
    const controller = new AbortController();
    const handoff = { agents: { helper: { provider: slow } } };
    const run = runAgent({ provider, prompt: "Go.", signal: controller.signal, builtins: { handoff } });
    await helper.api.waitForRequest(1);
    controller.abort();
    expect(await run.result).toMatchObject({ status: "cancelled" });
    expect(tag.left()).toEqual([]);
    const ends = (await eventsOf(run)).flatMap((event) =>
      event.type === "run_failed" ? [[event.agent, event.status]] : [],
    );
    expect(ends).toEqual([
      ["helper", "cancelled"],
      [undefined, "cancelled"],
    ]);
  });
});

describe("bad input", () => {
  const provider = createProviderOnce();
  const refused: [string, Record<string, unknown>, string, string][] = [
    ["no provider", { provider: undefined }, "INVALID_OPTION", "provider must be a provider made by"],
    ["a copy", { provider: { ...provider } }, "INVALID_OPTION", "provider must be a provider made by"],
    ["several as one", { provider: createFallbackProvider([provider]) }, "INVALID_OPTION", "not several as one"],
    ["no prompt", { prompt: undefined }, "INVALID_OPTION", "either prompt or messages must be set: neither"],
    ["both", { messages: [] }, "INVALID_OPTION", "either prompt or messages must be set: both"],
    ["an empty prompt", { prompt: " " }, "INVALID_OPTION", "prompt must not be empty"],
    ["messages that are none", { prompt: undefined, messages: [1] }, "INVALID_MESSAGES", "messages[0] must be"],
    ["an unknown option", { tool: [] }, "INVALID_OPTION", 'unknown option "tool"; allowed: provider'],
    ["a tool that can't be run", { tools: [{ name: "t" }] }, "INVALID_TOOL", 'tools[0] ("t") can\'t be run'],
    [
      "a schema that is none",
      { tools: [{ ...look, schema: { $ref: "a.json" } }] },
      "INVALID_TOOL",
      'tools: "look" can\'t',
    ],
    ["the same name twice", { tools: [look, look] }, "INVALID_TOOL", 'tools[1] has the name "look"'],
    [
      "the name of a built-in tool",
      { tools: [{ ...look, name: "handoff" }], builtins: { handoff: { agents: { a: { provider } } } } },
      "INVALID_TOOL",
      'tools: "handoff" can\'t be bound: the name is that of a built-in tool, which is on',
    ],
    ["a permission list", { permissions: { allow: "look" } }, "INVALID_OPTION", "permissions.allow must be an array"],
    ["an entry of one", { permissions: { deny: [1] } }, "INVALID_OPTION", "permissions.deny[0] must be a tool's name"],
    ["an asker", { permissions: { ask: true } }, "INVALID_OPTION", "permissions.ask must be a function, got true"],
    ["a limit", { limits: { maxSteps: 1.5 } }, "INVALID_OPTION", 'option "limits.maxSteps" must be a whole number'],
    ["limits", { limits: null }, "INVALID_OPTION", "limits must be an object, got null"],
    [
      "a built-in",
      { builtins: { plannerOutput: 1 } },
      "INVALID_OPTION",
      'option "builtins.plannerOutput" must be true',
    ],
    ["an unknown one", { builtins: { handoffs: {} } }, "INVALID_OPTION", 'did you mean "builtins.handoff"?'],
    [
      "no agents",
      { builtins: { handoff: { agents: {} } } },
      "INVALID_OPTION",
      "builtins.handoff.agents names no agent",
    ],
    [
      "an agent's limit",
      { builtins: { handoff: { agents: { a: { provider, limits: { maxSteps: 0 } } } } } },
      "INVALID_OPTION",
      'option "builtins.handoff.agents.a.limits.maxSteps" must be a whole number from 1 to 1000000; given: 0',
    ],
    [
      "an agent's tool",
      { builtins: { handoff: { agents: { a: { provider, tools: [{ name: "" }] } } } } },
      "INVALID_TOOL",
      "builtins.handoff.agents.a.tools[0] has no name",
    ],
    [
      "the depth",
      { builtins: { handoff: { agents: { a: { provider } }, maxDepth: 0 } } },
      "INVALID_OPTION",
      "maxDepth",
    ],
    ["onEvent", { onEvent: {} }, "INVALID_OPTION", "onEvent must be a function, got an object"],
    ["the signal", { signal: {} }, "INVALID_OPTION", "signal must be an AbortSignal"],
  ];

  it.each(refused)("%s", (_, wrong, code, message) => {
    const options = { provider, prompt: "Go.", ...wrong };
    const expected = expect.objectContaining({
      name: "ProviderError",
      code,
      message: expect.stringContaining(message),
    });
    expect(() => runAgent(options as never)).toThrow(expected);
  });

  it("is refused as a whole", () => {
    for (const wrong of [undefined, null, "go", []]) {
      expect(() => runAgent(wrong as never)).toThrow(/^options must be an object, got/);
    }
  });
});

it.each(CLIS)(
  "half a character, which JavaScript's strings can hold, is U+FFFD wherever it is text: $cli",
  async (over) => {
    const { api, options, provider } = await over.cast([
      { calls: [{ name: "look", args: {} }] },
      { text: "Fine." },
      { text: "ok" },
    ]);
    const half = "a\ud800b";
    const schema = { type: "object", properties: { at: { type: "string", description: half } } };
    const looking = { name: "look", description: half, schema, execute: () => half };
    const run = runAgent({ provider, systemPrompt: half, prompt: half, tools: [looking] });
    expect(await run.result).toMatchObject({ status: "completed", output: "Fine." });
    const [first, second] = api.requests.map(({ body }) => JSON.stringify(body));
    expect(first?.match(/a\ufffdb/g)?.length).toBe(4);
    expect(second?.match(/a\ufffdb/g)?.length).toBe(5);
    expect(`${first}${second}`).not.toMatch(/\\ud800/i);

    const asked = over.create({ ...options, systemPrompt: half });
    onTestFinished(() => asked.close());
    await asked.bindTools([{ name: "look", description: half, schema }]).invoke([new HumanMessage(half)]);
    expect(JSON.stringify(api.requests[2]?.body).match(/a\ufffdb/g)?.length).toBe(4);
  },
);

/** Nothing is started by it, so nothing is to be closed. */
function createProviderOnce() {
  return native.createClaudeCliProvider() as never as ReturnType<typeof createProvider>;
}

// What becomes of what a tool returns that is no text and no JSON: errors that are returned, not thrown, and BigInts.
describe("a tool's result that is no text and no JSON", () => {
  /** What the model is told of a call whose tool returns `result`, and whether it failed. */
  async function told(tool: AgentTool) {
    const script = [{ text: "", calls: [{ id: "c1", name: "look", args: {} }] }, { text: "Done." }];
    const { api, provider } = await withApi({ script });
    const events: [string, unknown][] = [];
    const run = runAgent({
      provider,
      prompt: "Go.",
      tools: [tool],
      onEvent: (event) => {
        if (event.type === "tool_result") events.push([String(event.content), event.isError]);
      },
    });
    const { status, messages } = await run.result;
    const { content } = api.requests[1]?.body.messages.at(-1) ?? {};
    const last = messages.find((message) => "tool_call_id" in message) as { status?: string } | undefined;
    return { status, content, isError: last?.status === "error", events };
  }

  const returning = (result: () => unknown): AgentTool => ({ name: "look", execute: () => result() });

  class HttpError extends Error {
    override name = "HttpError";
  }

  it.each([
    ["an error", () => new Error("no such file"), "no such file"],
    ["one of a class of its own", () => new HttpError("404"), "404"],
    ["one without a message", () => new TypeError(), "TypeError"],
    ["one of another realm", () => runInNewContext('new Error("elsewhere")'), "elsewhere"],
    ["a DOMException", () => new DOMException("too late", "TimeoutError"), "too late"],
    ["a promise of one", () => Promise.resolve(new Error("later")), "later"],
  ])("takes %s that is returned for a failed result with its text", async (_, result, text) => {
    const { status, content, isError, events } = await told(returning(result));
    expect([status, isError, events]).toEqual(["completed", true, [[text, true]]]);
    expect(content).toContain(text);
  });

  it("does so for a tool of LangChain's, too", async () => {
    const look = tool(async () => new Error("no such file"), { name: "look", description: "", schema: z.object({}) });
    const { isError, content } = await told(look as unknown as AgentTool);
    expect([isError, content]).toEqual([true, expect.stringContaining("no such file")]);
  });

  it.each([
    ["a BigInt", () => 12345678901234567890n, "12345678901234567890"],
    ["one in an object", () => ({ id: 12345678901234567890n, n: 1 }), '{"id":"12345678901234567890","n":1}'],
    ["one in a list", () => [1n, [2n]], '["1",["2"]]'],
    [
      "an error in an object",
      () => ({ ok: false, error: new Error("no") }),
      '{"ok":false,"error":{"name":"Error","message":"no"}}',
    ],
  ])("writes %s so that nothing of it is lost", async (_, result, text) => {
    const { status, content, isError, events } = await told(returning(result));
    expect([status, isError, content, events]).toEqual(["completed", false, text, [[text, false]]]);
  });
});

// An agent's run in a run log: what is in the file, what is replayed of it, what people see, and a file that can't be written.
describe("a run in a run log", () => {
  const KEY = "sk-ant-api03-0123456789abcdef";

  /** A model by the name of a CLI: what is recorded is the agent's own doing. */
  function scripted(turns: Turn[]) {
    const script = turns.map(({ text, calls = [] }) => ({ text, toolCalls: calls }));
    const provider = createScriptedProvider(script, { id: "claude" });
    onTestFinished(() => provider.close());
    return provider;
  }

  function file() {
    const folder = mkdtempSync(join(tmpdir(), "dfp-agent-log-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return join(folder, "run.jsonl");
  }

  async function all<Event>(events: AsyncIterable<Event>) {
    const list: Event[] = [];
    for await (const event of events) list.push(event);
    return list;
  }

  const without = <Event extends { runId: string }>(events: Event[], runId: string) =>
    events.filter((event) => event.runId === runId);

  it("holds the run, its turns and the agents it hands tasks to, to be replayed and to be shown", async () => {
    const record = file();
    const root = scripted([
      { text: "I look.", calls: [{ name: "look", args: { at: "the door" } }, { name: "secret" }] },
      { calls: [{ name: "handoff", args: { agent: "helper", task: "Help me." } }] },
      { text: "All is well." },
    ]);
    const helper = scripted([{ text: "Helped." }]);
    const run = runAgent({
      provider: root,
      prompt: "Go.",
      tools: [
        { name: "look", execute: () => `it says ${KEY}` },
        { name: "secret", execute: () => expect.unreachable("it is denied") },
      ],
      permissions: { deny: ["secret"] },
      builtins: { handoff: { agents: { helper: { provider: helper } } } },
      record,
    });
    const { runId, status, output } = await run.result;
    expect([status, output]).toEqual(["completed", "All is well."]);
    const events = await all(run);
    const child = events.find(({ agent }) => agent === "helper")?.runId ?? "";

    expect(readFileSync(record, "utf8")).not.toContain(KEY);
    const info = await replayRun(record).info;
    expect(info).toMatchObject({
      ...{ outcome: "replied", complete: true, problems: [] },
      header: {
        runId,
        provider: "claude",
        prompt: { messages: 1, characters: 3, tools: ["look", "secret", "handoff"] },
      },
    });
    const headers = await Promise.all(
      info.runIds.map(async (id) => (await replayRun(record, { runId: id }).info).header),
    );
    // In the order in which they began: the run, two turns, the helper's run, its turn, the last turn.
    expect(headers.map(({ parentRunId }) => parentRunId)).toEqual([undefined, runId, runId, runId, child, runId]);
    expect(headers[3]?.runId).toBe(child);

    const clean = (event: AgentEvent) => JSON.parse(JSON.stringify(event).replace(KEY, "[redacted]"));
    expect(await all(replayRun(record))).toEqual(without(events, runId).map(clean));
    expect(await all(replayRun(record, { runId: child }))).toEqual(without(events, child));
    expect(await replayRun(record).reply.catch((error) => error)).toMatchObject({ code: "RUN_LOG_INCOMPLETE" });
    const turns = info.runIds.filter((id) => id !== runId && id !== child);
    const replies = await Promise.all(turns.map((id) => replayRun(record, { runId: id }).reply));
    expect(replies.map(({ content }) => content)).toEqual(["I look.", "", "Helped.", "All is well."]);
    expect(replies[0]?.tool_calls).toMatchObject([{ name: "look", args: { at: "the door" } }, { name: "secret" }]);

    const text = await renderRunLog(record);
    expect(text.split("\n").filter((line) => /^ *(agent|turn)/.test(line))).toEqual([
      expect.stringMatching(/^agent {2}claude {2}agent-/),
      expect.stringMatching(/^ {2}turn 1 {2}claude {2}run-/),
      expect.stringMatching(/^ {2}turn 2 {2}claude {2}run-/),
      expect.stringMatching(/^ {2}agent helper {2}claude {2}agent-/),
      expect.stringMatching(/^ {4}turn 1 {2}claude {2}run-/),
      expect.stringMatching(/^ {2}turn 3 {2}claude {2}run-/),
    ]);
    const own = text.slice(0, text.indexOf("\n  turn 1"));
    const tools = own.split("\n").filter((line) => /^ *\+\S+ {2}tool /.test(line));
    expect(tools).toEqual([
      expect.stringMatching(/tool {6}look {2}permission: allowed {2}\{ "at": "the door" \}/),
      expect.stringMatching(/tool {6}secret {2}permission: denied by deny {2}\{\}/),
      expect.stringMatching(
        /tool {6}handoff {2}permission: allowed, built in {2}handed to: helper {2}run: agent-.+\(\d/,
      ),
    ]);
    const page = await renderRunLog(record, { format: "html" });
    expect(
      [...page.matchAll(/<li class="depth-(\d)"><a href="#run-\d">([^<]+) </g)].map(([, ...found]) => found),
    ).toEqual([
      ["0", "agent · claude"],
      ...[
        ["1", "turn 1 · claude"],
        ["1", "turn 2 · claude"],
        ["1", "agent helper · claude"],
      ],
      ...[
        ["2", "turn 1 · claude"],
        ["1", "turn 3 · claude"],
      ],
    ]);
  });

  it("says how a run failed that did, and throws nothing", async () => {
    const record = file();
    const provider = createProvider({ cliPath: "/nowhere/claude" });
    const run = runAgent({ provider, prompt: "Go.", record: { path: record, prompts: true } });
    await run.result;
    const replayed = replayRun(record);
    const events = await all(replayed);
    expect(JSON.parse(JSON.stringify(events))).toEqual(JSON.parse(JSON.stringify(await all(run))));
    const last = events.at(-1);
    expect(last?.type === "run_failed" && last.error).toBeInstanceOf(ProviderError);
    const { outcome, header } = await replayed.info;
    expect([outcome, header.prompt?.thread]).toEqual(["failed", [{ type: "human", content: "Go." }]]);
    expect(await renderRunLog(record)).toMatch(/^failed after .+ · 1 error$[\s\S]* error +CLI_NOT_FOUND/m);
  });

  it.skipIf(lacks("devices"))("says once that a file takes no more, and goes on", async () => {
    const provider = scripted([{ calls: [{ name: "look" }] }, { text: "Fine." }]);
    const tools = [{ name: "look", execute: () => "fine" }];
    const run = runAgent({ provider, prompt: "Go.", tools, record: "/dev/full" });
    expect(await run.result).toMatchObject({ status: "completed", output: "Fine." });
    const warnings = (await all(run)).filter(({ type }) => type === "warning");
    expect(warnings).toMatchObject([
      { code: "RUN_LOG_FAILED", message: expect.stringContaining("No space left on device") },
    ]);
  });

  it("refuses a file that can't be written before anything is started, and an option that is none at once", async () => {
    const provider = scripted([{ text: "Never said." }]);
    const record = join(file(), "no", "run.jsonl");
    const { status, error } = await runAgent({ provider, prompt: "Go.", record }).result;
    expect([status, error?.code, error?.message]).toEqual([
      ...["failed", "INVALID_OPTION"],
      expect.stringContaining('option "record": there is no folder'),
    ]);
    expect([provider.requests.length, existsSync(record)]).toEqual([0, false]);
    expect(() => runAgent({ provider, prompt: "Go.", record: 7 as never })).toThrow(
      "record must be a path or an object",
    );
  });
});
