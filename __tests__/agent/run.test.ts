// @long
/** What `runAgent` does beside the scenarios: results, events, LangChain, what goes wrong, and bad input. */
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  type AgentEvent,
  type AgentTool,
  createFallbackProvider,
  ProviderError,
  runAgent,
} from "deep-factor-providers";
import * as native from "deep-factor-providers/native";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { toAnswer } from "../support/agent-claude.mjs";
import { createProvider, withClaude } from "../support/harness.mjs";
import { createTag } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

type Turn = Parameters<typeof toAnswer>[0];

/** Live by default: one process for all turns of a run. */
async function claude(turns: Turn[], engine: "print" | "live" = "live") {
  const script = turns.map((turn, index) => toAnswer(turn, index + 1, engine));
  const { api, options } = await withClaude({ engine, script });
  return { api, options, provider: createProvider(options) };
}

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
  it("is there without anybody iterating, with the thread in the caller's own messages", async () => {
    const { provider } = await claude([
      { text: "Let me see.", calls: [{ name: "sum", args: { a: 1, b: 2 } }] },
      { text: "3." },
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
    const [first, second] = [await eventsOf(run), await eventsOf(run)];
    expect(second).toEqual(first);
    expect(first.map(({ type }) => type).filter((type) => type !== "text_delta")).toEqual([
      ...["run_started", "message", "usage", "tool_call", "permission", "tool_result"],
      ...["message", "usage", "run_completed"],
    ]);
  });

  it("is plain data with the native entry", async () => {
    const { options } = await claude([{ calls: [{ name: "look" }] }, { text: "Fine." }]);
    const provider = native.createClaudeCliProvider(options);
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

  it("is the logger's to hear of, too", async () => {
    const { options } = await claude([{ calls: [{ name: "look" }] }, { text: "Fine." }], "print");
    const records: string[] = [];
    const provider = createProvider({ ...options, logger: ({ message }) => records.push(message) });
    await runAgent({ provider, prompt: "Look.", tools: [look] }).result;
    expect(records.filter((message) => message === "started" || message === "ended")).toEqual([
      ...["started", "ended", "started", "ended"],
    ]);
  });

  it("goes on from where another run ended", async () => {
    const { provider, api } = await claude([{ calls: [{ name: "look" }] }, { text: "Fine." }, { text: "Bye." }]);
    const first = await runAgent({ provider, prompt: "Look.", tools: [look] }).result;
    const messages = [...first.messages, new HumanMessage("Thanks.")];
    const second = await runAgent({ provider, messages, tools: [look] }).result;
    expect(second.output).toBe("Bye.");
    expect(second.messages).toHaveLength(6);
    // One process has heard it all: the last request is the first's, grown.
    expect(api.requests).toHaveLength(3);
    expect(JSON.stringify(api.requests[2]?.body.messages)).not.toContain("thread");
  });
});

describe("what the model gets wrong", () => {
  it("is told where a call can't be read", async () => {
    const broken = { text: '```json\n{"tool_calls":[{"name":"look","args":{"at": },"id":"call_1"}]}\n```' };
    const { options, api } = await withClaude({ engine: "print", script: [broken, { text: "Never mind." }] });
    const run = runAgent({ provider: createProvider(options), prompt: "Look.", tools: [look] });
    const warnings = (await eventsOf(run)).flatMap((event) => (event.type === "warning" ? [event.code] : []));
    expect([[...new Set(warnings)], (await run.result).output]).toEqual([["INVALID_TOOL_CALL"], "Never mind."]);
    const asked = JSON.stringify(api.requests[1]?.body.messages);
    expect(asked).toContain("could not be read: the JSON is malformed");
    const { messages } = await run.result;
    // One note, whatever number of calls it is about.
    expect(messages.map((message) => message.constructor)).toEqual([HumanMessage, AIMessage, HumanMessage, AIMessage]);
  });

  it("costs what it costs, and no more than that", async () => {
    const { provider } = await claude([{ calls: [{ name: "look" }] }]);
    const run = runAgent({ provider, prompt: "Look.", tools: [look], limits: { maxCostUsd: 0.000001 } });
    const result = await run.result;
    expect(result).toMatchObject({ status: "limit", limit: "maxCostUsd", steps: 1, error: { code: "AGENT_LIMIT" } });
    expect(result.messages.at(-1)).toMatchObject({ status: "error" });
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
  it("says before the start that the CLI is missing, and warns of agents that are", async () => {
    const missing = createProvider({ cliPath: "/nowhere/claude" });
    const run = runAgent({ provider: missing, prompt: "Go." });
    expect((await eventsOf(run)).map(({ type }) => type)).toEqual(["run_started", "run_failed"]);
    const { status, error, output } = await run.result;
    expect([status, error?.code, output]).toEqual(["failed", "CLI_NOT_FOUND", ""]);
    expect(error).toBeInstanceOf(ProviderError);
    expect(error?.hint).toContain("cliPath");

    const call = { name: "handoff", args: { agent: "helper", task: "Help." } };
    const { provider } = await claude([{ calls: [call] }, { text: "Alone then." }]);
    const handoff = { agents: { helper: { provider: missing } } };
    const events = await eventsOf(runAgent({ provider, prompt: "Go.", builtins: { handoff } }));
    expect(events).toContainEqual(expect.objectContaining({ type: "warning", code: "AGENT_UNAVAILABLE" }));
    const failed = events.filter((event) => event.type === "run_failed");
    expect(failed).toMatchObject([
      { agent: "helper", parentRunId: events[0]?.runId, error: { code: "CLI_NOT_FOUND" } },
    ]);
    expect(events.at(-1)).toMatchObject({ type: "run_completed", output: "Alone then." });
  });

  it.each(["print", "live"] as const)("fails as the provider does, with what there was: %s", async (engine) => {
    const script = [toAnswer({ calls: [{ name: "look" }] }, 1, engine), { error: { status: 401, message: "no way" } }];
    const { options } = await withClaude({ engine, script });
    const { status, error, messages, usage } = await runAgent({
      provider: createProvider(options),
      prompt: "Go.",
      tools: [look],
    }).result;
    expect([status, error?.code, messages.length]).toEqual(["failed", "AUTHENTICATION_FAILED", 3]);
    expect(usage.totalTokens).toBeGreaterThan(0);
  });

  it.skipIf(lacks("processes")).each(["print", "live"] as const)(
    "leaves no process behind an abort: %s",
    async (engine) => {
      const { options, api } = await withClaude({ engine, script: [{ hang: true }] });
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

  it.skipIf(lacks("processes"))("end with the run that waits for them", async () => {
    const call = { name: "handoff", args: { agent: "helper", task: "Help." } };
    const { provider } = await claude([{ calls: [call] }]);
    const helper = await withClaude({ script: [{ hang: true }] });
    const tag = createTag();
    const slow = createProvider({ ...helper.options, env: { ...helper.options.env, ...tag.env } });
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

it("half a character, which JavaScript's strings can hold, is U+FFFD wherever it is text", async () => {
  const { api, options } = await withClaude({
    script: [
      toAnswer({ calls: [{ name: "look", args: {} }] }, 1, "live"),
      toAnswer({ text: "Fine." }, 2, "live"),
      { text: "ok" },
    ],
  });
  const half = "a\ud800b";
  const schema = { type: "object", properties: { at: { type: "string", description: half } } };
  const looking = { name: "look", description: half, schema, execute: () => half };
  const run = runAgent({
    provider: createProvider(options),
    systemPrompt: half,
    prompt: half,
    tools: [looking],
  });
  expect(await run.result).toMatchObject({ status: "completed", output: "Fine." });
  const [first, second] = api.requests.map(({ body }) => JSON.stringify(body));
  expect(first?.match(/a\ufffdb/g)?.length).toBe(4);
  expect(second?.match(/a\ufffdb/g)?.length).toBe(5);
  expect(`${first}${second}`).not.toMatch(/\\ud800/i);

  const model = createProvider({ ...options, systemPrompt: half }).bindTools([
    { name: "look", description: half, schema },
  ]);
  await model.invoke([new HumanMessage(half)]);
  expect(JSON.stringify(api.requests[2]?.body).match(/a\ufffdb/g)?.length).toBe(4);
});

/** Nothing is started by it, so nothing is to be closed. */
function createProviderOnce() {
  return native.createClaudeCliProvider() as never as ReturnType<typeof createProvider>;
}
