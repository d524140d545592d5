// @change
/** What OpenTelemetry gets of runs: names, trees, errors, figures, and nothing of their content unless it is asked for. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { HumanMessage } from "@langchain/core/messages";
import { createNoopMeter } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import * as conventions from "@opentelemetry/semantic-conventions/incubating";
import {
  type AgentTool,
  ClaudeCodeAdapter,
  createCodexCliProvider,
  createFallbackProvider,
  createFileCheckpoint,
  createOpenAiCompatibleProvider,
  limits,
  type MessageInput,
  type ProviderResponseMetadata,
  runAgent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { failureOf, withApi } from "../api/setup.js";
import { toAnswer } from "../support/agent-claude.mjs";
import { createProvider, sampleOf, withClaude, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";
import { startSdk } from "../support/telemetry.mjs";

const require = createRequire(import.meta.url);
const { ATTR, METRIC } = require("../../src/js/telemetry/names.cjs");
const { metricsOf } = require("../../src/js/telemetry/metrics.cjs");
const usage = { input: 20, output: 7 };
/** Of a known shape. */
const SECRET = `ghp_${"a1B2".repeat(9)}`;

it("uses the names of the semantic conventions", () => {
  const names = new Set<unknown>(Object.values(conventions));
  expect(
    [...Object.values(ATTR), METRIC.tokens, METRIC.duration, METRIC.firstChunk].filter((name) => !names.has(name)),
  ).toEqual([]);
});

describe("an API", () => {
  it("is a span and figures of a call, below what is active where it is made", async () => {
    const sdk = startSdk();
    const { provider } = await withApi({
      script: [{ chunks: ["Hello ", "there."], usage: { ...usage, cached: 5 } }],
      options: { telemetry: sdk.both },
    });
    await sdk.tracer.startActiveSpan("request", async (span) => {
      for await (const _ of provider.stream(["my secret plan"]));
      span.end();
    });
    expect(sdk.trees()).toEqual([{ name: "request", children: [{ name: "chat scripted" }] }]);
    const chat = sdk.spans().find(({ name }) => name === "chat scripted");
    expect(chat?.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "scripted",
      "gen_ai.request.stream": true,
      "gen_ai.response.model": "scripted",
      "gen_ai.response.id": expect.any(String),
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.response.time_to_first_chunk": expect.any(Number),
      "gen_ai.usage.input_tokens": 20,
      "gen_ai.usage.output_tokens": 7,
      "gen_ai.usage.cache_read.input_tokens": 5,
      "deep_factor.usage.cache_hit_share": 0.25,
      "server.address": "127.0.0.1",
      "server.port": expect.any(Number),
      "deep_factor.run.id": expect.stringMatching(/^run-/),
    });
    expect([chat?.kind, JSON.stringify(chat?.attributes).includes("secret")]).toEqual([2, false]);
    const metrics = await sdk.metrics();
    const labels = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "scripted",
      "gen_ai.response.model": "scripted",
      "server.address": "127.0.0.1",
      "server.port": expect.any(Number),
    };
    expect(metrics["gen_ai.client.token.usage"]).toEqual([
      { attributes: { ...labels, "gen_ai.token.type": "input" }, value: { count: 1, sum: 20 } },
      { attributes: { ...labels, "gen_ai.token.type": "output" }, value: { count: 1, sum: 7 } },
    ]);
    const once = [{ attributes: labels, value: { count: 1, sum: expect.any(Number) } }];
    expect(metrics["gen_ai.client.operation.duration"]).toEqual(once);
    expect(metrics["gen_ai.client.operation.time_to_first_chunk"]).toEqual(once);
    expect(metrics["deep_factor.client.queue.duration"]).toEqual(once);
  });

  it("has our code as the error's type, and retries as events", async () => {
    const sdk = startSdk();
    const script = [{ error: { status: 500, message: "broken" } }, { error: { status: 401, message: "no" } }];
    const retry = { baseDelayMs: 1 };
    const { provider } = await withApi({ script, options: { telemetry: sdk.both, retry } });
    const error = await failureOf(provider.invoke(["hi"]));
    expect(sdk.trees()).toEqual([{ name: "chat scripted", error: error.code, events: ["retry"] }]);
    const [span] = sdk.spans();
    // The message may quote what was sent, and what a CLI printed.
    expect(span?.status).toEqual({ code: 2, message: `${error.code}: the operation failed` });
    expect(span?.events[0]?.attributes).toMatchObject({ "deep_factor.attempt": 1, "http.response.status_code": 500 });
    expect((await sdk.metrics())["gen_ai.client.operation.duration"]?.[0]?.attributes["error.type"]).toBe(error.code);
  });

  it("ends the span of a call that is left or aborted, without an error", async () => {
    const sdk = startSdk();
    const script = [{ chunks: ["a", "b"] }, { hang: true as const }];
    const { api, provider } = await withApi({ script, options: { telemetry: sdk.both } });
    for await (const event of provider.stream(["hi"])) if (event.type === "text_delta") break;
    const controller = new AbortController();
    const call = provider.invoke(["hi"], { signal: controller.signal });
    await api.waitForRequest(2);
    controller.abort();
    await expect(call).rejects.toThrow();
    expect(sdk.spans().map(({ status, attributes }) => [status.code, attributes["deep_factor.cancelled"]])).toEqual([
      [0, true],
      [0, true],
    ]);
  });

  it("tells of a call that waited for a place", async () => {
    const sdk = startSdk();
    const script = [{ hang: true as const }, { text: "hi", delayMs: 100 }];
    const { api, provider } = await withApi({ script, options: { telemetry: sdk.both, maxConcurrency: 1 } });
    const controller = new AbortController();
    const first = provider.invoke(["1"], { signal: controller.signal });
    await api.waitForRequest(1);
    const second = provider.invoke(["2"]);
    await until(() => limits().perBinary[api.url]?.waiting === 1);
    const waits = Date.now();
    await until(() => Date.now() > waits + 5);
    controller.abort();
    await expect(first).rejects.toThrow();
    await second;
    // The two spans end in either order; on a busy machine the call that was aborted may have waited, too.
    const [waited, ...others] = sdk.spans().filter(({ attributes }) => !attributes["deep_factor.cancelled"]);
    expect(others).toEqual([]);
    const queued = waited?.events.filter(({ name }) => name === "queued") ?? [];
    expect(queued).toHaveLength(1);
    expect(queued[0]?.attributes?.["deep_factor.delay_ms"]).toBeGreaterThanOrEqual(5);
    // Where it happened: the answer came later.
    const ms = ([seconds = 0, nanos = 0]: readonly number[] = []) => seconds * 1000 + nanos / 1e6;
    expect(ms(waited?.endTime) - ms(queued[0]?.time)).toBeGreaterThanOrEqual(90);
  });

  it.each([
    ["none", "CREDIT_EXHAUSTED: the operation failed"],
    ["redacted", "CREDIT_EXHAUSTED: no credit for [redacted]"],
    ["full", "CREDIT_EXHAUSTED: no credit for [redacted]"],
  ] as const)("says with content %j why it failed: %s", async (content, status) => {
    const sdk = startSdk();
    const script = [{ error: { status: 402, message: `no credit for ${SECRET}` } }];
    const { provider } = await withApi({ script, options: { telemetry: { ...sdk.both, content } } });
    await failureOf(provider.invoke(["hi"]));
    expect(sdk.spans()[0]?.status.message).toContain(status);
  });

  it.each([
    ["redacted", "[redacted]"],
    ["full", SECRET],
  ] as const)("has the content with %s", async (content, shown) => {
    const sdk = startSdk();
    const script = [{ text: `it is ${SECRET}`, calls: [{ id: "c1", name: "look", args: { key: SECRET } }] }];
    const telemetry = { tracer: sdk.tracer, content };
    const { provider } = await withApi({ script, options: { telemetry } });
    await provider.bindTools([{ name: "look" }]).invoke([
      { role: "system", content: "Be brief." },
      { role: "user", content: `say ${SECRET}` },
    ]);
    const attributes = sdk.spans()[0]?.attributes ?? {};
    const parsed = ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"].map((name) =>
      JSON.parse(String(attributes[name])),
    );
    expect(parsed).toEqual([
      [{ type: "text", content: "Be brief." }],
      [{ role: "user", parts: [{ type: "text", content: `say ${shown}` }] }],
      [
        {
          role: "assistant",
          parts: [
            { type: "text", content: `it is ${shown}` },
            { type: "tool_call", id: "c1", name: "look", arguments: { key: shown } },
          ],
          finish_reason: "tool_calls",
        },
      ],
    ]);
  });
});

it("tells of a fallback: its members' calls below its own, and why one was passed over", async () => {
  const sdk = startSdk();
  const first = await withApi({
    script: [{ error: { status: 503, message: "down" } }],
    options: { telemetry: sdk.both, id: "one", retry: false },
  });
  const second = await withApi({ script: [{ text: "hi" }], options: { telemetry: sdk.both, id: "two" } });
  const provider = createFallbackProvider([first.provider, second.provider], { telemetry: sdk.both });
  const message = await provider.invoke(["hi"]);
  const { fallback } = message.response_metadata as unknown as ProviderResponseMetadata;
  const code = fallback?.skipped[0]?.code;
  expect(sdk.trees()).toEqual([
    {
      name: "chat fallback",
      events: ["fallback"],
      children: [{ name: "chat scripted", error: code }, { name: "chat scripted" }],
    },
  ]);
});

const look: AgentTool = { name: "look", execute: () => "fine" };
const TURNS = [{ text: "I look", calls: [{ name: "look", args: { a: 1 } }] }, { text: "done" }];
const AGENT = (model: string) => [
  {
    name: "invoke_agent scout",
    children: [{ name: `chat ${model}` }, { name: "execute_tool look" }, { name: `chat ${model}` }],
  },
];

describe("claude", () => {
  it.each(sampleOf(["live", "print"] as const))("%s: a call, an agent's run and the processes", async (engine) => {
    const sdk = startSdk();
    const script = [{ text: "Hello." }, ...TURNS.map((turn, index) => toAnswer(turn, index + 1, engine))];
    const { options } = await withClaude({ engine, script });
    const provider = createProvider({ ...options, telemetry: { ...sdk.both, agentName: "scout" } });
    const message = await provider.bindTools([look]).invoke(["hi"]);
    const { response_metadata } = message;
    const answered = (response_metadata as unknown as ProviderResponseMetadata).model;
    expect(answered).toMatch(/^claude-/);
    expect(sdk.trees()).toEqual([{ name: "chat sonnet" }]);
    expect(sdk.spans()[0]?.attributes).toMatchObject({
      "gen_ai.provider.name": "anthropic",
      "gen_ai.conversation.id": expect.any(String),
      "deep_factor.engine": engine,
    });
    if (engine === "live") {
      const alive = [{ attributes: { "gen_ai.provider.name": "anthropic" }, value: 1 }];
      expect((await sdk.metrics())["deep_factor.client.processes"]).toEqual(alive);
    }
    // In live form the run goes on in the process of the call.
    const messages: MessageInput[] = [new HumanMessage("hi"), message, new HumanMessage("go")];
    const { status, usage: used } = await runAgent({ provider, messages, tools: [look] }).result;
    expect(status).toBe("completed");
    expect(sdk.trees().slice(1)).toEqual(AGENT("sonnet"));
    const chats = sdk.spans().filter(({ name }) => name === "chat sonnet");
    const tokens = chats.slice(1);
    const known = tokens.map(({ attributes }) => [
      attributes["gen_ai.response.model"],
      attributes["deep_factor.engine"],
      typeof attributes["gen_ai.conversation.id"],
      typeof attributes["gen_ai.response.id"],
    ]);
    expect(known).toEqual([
      [answered, engine, "string", "string"],
      [answered, engine, "string", "string"],
    ]);
    if (engine === "live")
      expect(new Set(chats.map(({ attributes }) => attributes["gen_ai.conversation.id"])).size).toBe(1);
    const sum = tokens.reduce((all, { attributes }) => all + Number(attributes["gen_ai.usage.input_tokens"]), 0);
    expect(sum).toBe(used.inputTokens);
  });

  it("the adapter: one span with what the run came to", async () => {
    const sdk = startSdk();
    const { options, home } = await withClaude({ script: [{ text: "Done." }] });
    const adapter = new ClaudeCodeAdapter({ cliPath: options.cliPath, env: options.env, telemetry: sdk.both });
    const result = await adapter.execute({ workspaceDir: home, config: { prompt: "do it", model: "sonnet" } as never });
    expect(result.status).toBe("success");
    expect(sdk.trees()).toEqual([{ name: "invoke_agent claude-code" }]);
    expect(sdk.spans()[0]?.attributes).toMatchObject({
      "gen_ai.request.model": "sonnet",
      "gen_ai.conversation.id": result.sessionId,
      "gen_ai.usage.input_tokens": result.usage?.inputTokens,
    });
  });
});

it("codex: a call with its model and its tokens", async () => {
  const sdk = startSdk();
  const { create } = await withCli("codex", { script: [{ text: "Hello.", usage }] });
  await create({ telemetry: sdk.both }).invoke(["hi"]);
  expect(sdk.spans().map(({ attributes }) => attributes)).toMatchObject([
    { "gen_ai.provider.name": "openai", "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 7 },
  ]);
});

it("links a run that goes on from a checkpoint to the span it began in", async () => {
  const dir = mkdtempSync(join(tmpdir(), "dfp-telemetry-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const { provider } = await withApi({ script: [{ text: "", calls: [{ name: "look", args: {} }] }, { text: "done" }] });
  const stop = new AbortController();
  const attempt = async (signal?: AbortSignal) => {
    const sdk = startSdk();
    const waiting: AgentTool = {
      name: "look",
      onResume: "rerun",
      execute: (_, { signal: ended }) => {
        if (signal === undefined) return "fine";
        stop.abort();
        return new Promise((_, reject) => ended.addEventListener("abort", () => reject(ended.reason)));
      },
    };
    const checkpoint = createFileCheckpoint({ dir });
    const options = { provider, prompt: "go", tools: [waiting], runId: "job-1", checkpoint, signal };
    const { status } = await runAgent({ ...options, telemetry: sdk.both }).result;
    const root = sdk.spans().find(({ name }) => name.startsWith("invoke_agent"));
    if (root === undefined) throw new Error("the run has no span");
    const { traceId, spanId } = root.spanContext();
    const links = root.links.map(({ context: { traceId, spanId } }) => ({ traceId, spanId }));
    return { status, own: { traceId, spanId }, links, resumed: root.attributes["deep_factor.run.resumed"] };
  };
  const first = await attempt(stop.signal);
  expect([first.status, first.links, first.resumed]).toEqual(["cancelled", [], undefined]);
  const second = await attempt();
  expect([second.status, second.links, second.resumed]).toEqual(["completed", [first.own], true]);
  expect(second.own.traceId).not.toBe(first.own.traceId);
});

const KEPT = {
  codex: async (more: object) => {
    const { options } = await withCli("codex", { script: () => ({ text: "ok" }) });
    const provider = createCodexCliProvider({ ...options, engine: "live", ...more });
    onTestFinished(() => provider.close());
    return { provider, company: "openai" };
  },
  claude: async (more: object) => {
    const { options } = await withClaude({ engine: "live", script: () => ({ text: "ok" }) });
    return { provider: createProvider({ ...options, ...more }), company: "anthropic" };
  },
};

it.each(sampleOf(["codex", "claude"] as const))(
  "counts the sessions that were gone when their conversation went on: %s",
  async (cli) => {
    const sdk = startSdk();
    const { provider, company } = await KEPT[cli]({ telemetry: sdk.both, keepAlive: 50 });
    const thread: MessageInput[] = [new HumanMessage("1")];
    let gone = false;
    for (let tries = 0; !gone && tries < 200; tries++) {
      const { message, warnings } = await ask(provider, thread);
      gone = warnings.includes("SESSION_EXPIRED");
      thread.push(message, new HumanMessage("more"));
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    expect(gone).toBe(true);
    const evicted = (await sdk.metrics())["deep_factor.client.session.evictions"];
    expect(evicted).toMatchObject([{ attributes: { "gen_ai.provider.name": company }, value: 1 }]);
  },
);

it("sends an agent's run with tools and a handoff to a collector as one tree", async () => {
  startSdk();
  interface Sent {
    name: string;
    spanId: string;
    traceId: string;
    parentSpanId?: string;
  }
  const sent: Sent[] = [];
  const paths: (string | undefined)[] = [];
  const collector = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      paths.push(request.url);
      const body: { resourceSpans: { scopeSpans: { spans: Sent[] }[] }[] } = JSON.parse(
        Buffer.concat(chunks).toString("utf8"),
      );
      for (const { scopeSpans } of body.resourceSpans) for (const { spans } of scopeSpans) sent.push(...spans);
      response.setHeader("content-type", "application/json").end("{}");
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  const { port } = collector.address() as { port: number };
  const exporter = new OTLPTraceExporter({ url: `http://127.0.0.1:${port}/v1/traces` });
  const traces = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  onTestFinished(() => void collector.close());
  const script = [
    {
      calls: [
        { name: "look", args: {} },
        { name: "break", args: {} },
      ],
    },
    { calls: [{ name: "handoff", args: { agent: "helper", task: "help" } }] },
    { text: "helped" },
    { text: "all done" },
  ];
  const { provider } = await withApi({ script });
  let within = "";
  const tracer = traces.getTracer("t");
  const failing: AgentTool = {
    name: "break",
    execute: () => {
      // What a tool does itself is below its own span.
      tracer.startSpan("query").end();
      within = "ran";
      throw new Error("broken");
    },
  };
  const result = await runAgent({
    provider,
    prompt: "go",
    tools: [look, failing],
    builtins: { handoff: { agents: { helper: { provider, description: "helps" } } } },
    telemetry: { tracer, agentName: "scout" },
  }).result;
  expect([result.status, within]).toEqual(["completed", "ran"]);
  await traces.shutdown();
  expect(new Set(paths)).toEqual(new Set(["/v1/traces"]));
  expect(new Set(sent.map(({ traceId }) => traceId)).size).toBe(1);
  const names = new Map(sent.map(({ spanId, name }) => [spanId, name]));
  expect(sent.map(({ name, parentSpanId = "" }) => [names.get(parentSpanId) ?? "", name]).sort()).toEqual(
    [
      ["", "invoke_agent scout"],
      ["invoke_agent scout", "chat scripted"],
      ["invoke_agent scout", "chat scripted"],
      ["invoke_agent scout", "chat scripted"],
      ["invoke_agent scout", "execute_tool break"],
      ["invoke_agent scout", "execute_tool handoff"],
      ["invoke_agent scout", "execute_tool look"],
      ["execute_tool break", "query"],
      ["execute_tool handoff", "invoke_agent helper"],
      ["invoke_agent helper", "chat scripted"],
    ].sort(),
  );
});

describe("the option", () => {
  const create = (telemetry: unknown) => () =>
    createOpenAiCompatibleProvider({ model: "m", baseURL: "http://127.0.0.1:1", telemetry: telemetry as never });

  it.each([
    [
      "yes",
      'the option "telemetry" must be true, false or an object { tracer?, meter?, content?, agentName? }, got the string "yes"',
    ],
    [{ trace: 1 }, 'telemetry has an unknown key "trace": there are tracer, meter, content, agentName'],
    [{ content: "some" }, 'the option "telemetry.content" must be "none", "redacted" or "full", got the string "some"'],
    [
      { tracer: {} },
      'the option "telemetry.tracer" must be a Tracer of OpenTelemetry (it has startActiveSpan), got an object',
    ],
    [{ meter: 1 }, 'the option "telemetry.meter" must be a Meter of OpenTelemetry (it has createHistogram), got 1'],
    [{ agentName: "" }, 'the option "telemetry.agentName" must be a text that is not empty, got the string ""'],
  ])("refuses %j", (telemetry, message) => {
    expect(create(telemetry)).toThrow(message);
  });

  it("loads nothing and wraps nothing while it is off", async () => {
    const script = `
      import { createRequire } from "node:module";
      const require = createRequire(${JSON.stringify(import.meta.url)});
      const { createOpenAiCompatibleProvider, createFallbackProvider, runAgent } = require("../../src/js/index.cjs");
      const options = { model: "m", baseURL: "http://127.0.0.1:1", retry: false };
      const loaded = () => Object.keys(require.cache).filter((path) => /telemetry|opentelemetry/.test(path.replace(/^.*__tests__/, "")));
      const provider = createOpenAiCompatibleProvider({ ...options, telemetry: false });
      await createFallbackProvider([provider]).invoke(["hi"]).catch(() => {});
      await runAgent({ provider, prompt: "hi" }).result;
      const off = loaded().length;
      const tracer = { startActiveSpan() { throw new Error("a tracer that fails"); } };
      const own = createOpenAiCompatibleProvider({ ...options, telemetry: { tracer } });
      const failed = await own.invoke(["hi"]).catch((error) => error.code ?? error.message);
      console.log(JSON.stringify([off, loaded().some((path) => path.includes("@opentelemetry")), failed]));
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
    expect(JSON.parse(stdout)).toEqual([0, false, "CONNECTION_FAILED"]);
  });

  it.skipIf(lacks("links"))("says what to install where the peer is missing", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-no-peer-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const root = fileURLToPath(new URL("../..", import.meta.url));
    // Without node_modules beside it; the addon itself stays where it is.
    const isAddon = (name: string) => name.endsWith(".node");
    const copy = (name: string) =>
      cpSync(join(root, name), join(folder, name), { recursive: true, filter: (path) => !isAddon(path) });
    copy("package.json");
    copy("src/js");
    const [addon = ""] = readdirSync(join(root, "src/js")).filter(isAddon);
    symlinkSync(join(root, "src/js", addon), join(folder, "src/js", addon));
    const script = `require(${JSON.stringify(join(folder, "src/js/native-entry.cjs"))}).createClaudeCliProvider({ telemetry: true })`;
    const run = promisify(execFile)(process.execPath, ["-e", script]);
    await expect(run).rejects.toThrow(
      'telemetry needs the package "@opentelemetry/api", which can\'t be loaded: run `npm install @opentelemetry/api`, or pass { tracer, meter }',
    );
  });

  it.each([undefined, false, true, {}, { content: "full" }])("takes %j", (telemetry) => {
    expect(create(telemetry)).not.toThrow();
  });
});

describe("what the instruments remember between calls", () => {
  // Above the highest that Linux gives (2^22): nobody's.
  const NOBODY = 2 ** 22 + 1;

  it("forgets processes that have ended where a meter never asks for them", () => {
    const metrics = metricsOf(createNoopMeter());
    metrics.remember(process.pid, { own: true });
    for (let pid = NOBODY; pid < NOBODY + 10_000; pid++) metrics.remember(pid, {});
    expect(metrics.processes.size).toBeLessThan(64);
    expect(metrics.processes.get(process.pid)).toEqual({ own: true });
  });
});
