// @change
/** What whoever runs a gateway sees of it: records, spans, figures, what is left when it is killed, and what the doctor says. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClaudeCliProvider, type ProviderEvent, renderRunLog } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { runCommand, runCommands, startCommand } from "../support/command-line.mjs";
import { createFakes } from "../support/fake.mjs";
import { serve, serveApi, temporaryFolder } from "../support/gateway.mjs";
import { startOpenAi } from "../support/openai.mjs";
import { createTag, exists } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";
import { startSdk } from "../support/telemetry.mjs";

const CHAT = "/v1/chat/completions";

/** A project that has `@opentelemetry/sdk-node`: its name, over the parts of the SDK that the development dependencies have. */
function folderWithSdk() {
  const folder = temporaryFolder();
  const packages = join(folder, "node_modules", "@opentelemetry");
  mkdirSync(join(packages, "sdk-node"), { recursive: true });
  for (const name of ["api", "context-async-hooks", "exporter-trace-otlp-http", "sdk-trace-base"])
    symlinkSync(
      fileURLToPath(new URL(`../../node_modules/@opentelemetry/${name}`, import.meta.url)),
      join(packages, name),
      "junction",
    );
  writeFileSync(
    join(packages, "sdk-node", "index.js"),
    `const { context, trace } = require("@opentelemetry/api");
     const { AsyncLocalStorageContextManager } = require("@opentelemetry/context-async-hooks");
     const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
     const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");
     exports.NodeSDK = class {
       traces = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
       start() {
         trace.setGlobalTracerProvider(this.traces);
         context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
       }
       shutdown = () => this.traces.shutdown();
     };`,
  );
  return folder;
}

const BODY = { model: "api/m", messages: [{ role: "user", content: "hi" }] };
const INSTALL = "install it with `npm install -g @anthropic-ai/claude-code`, or see that it is on the gateway's PATH";
const CLAUDES = ["sonnet", "opus", "haiku", "fable", "best"].map((name) => `claude/${name}`);
const MODELS = ["fast", "openai/m", "openai", "claude", ...CLAUDES];
const BEHIND = [
  { id: "openai", installed: true, authenticated: true, problems: [] },
  {
    id: "claude",
    installed: false,
    authenticated: "unknown",
    problems: [
      {
        message: "claude is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers",
        hint: INSTALL,
      },
    ],
  },
];
const EDITOR = { name: "an editor/1", token: "editor-0123456789" };

const linesIn = (path: string) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

it("a record that can't be written any more is the gateway's own failure, and its log says why", async () => {
  const folder = temporaryFolder();
  const { ask, log } = await serveApi([{ text: "Hi." }], { record: join(folder, "audit.jsonl") });
  rmSync(folder, { recursive: true });
  const { status, json } = await ask("/v1/chat/completions", {
    ...{ model: "api/m", messages: [{ role: "user", content: "hi" }] },
  });
  expect([status, json.error.code]).toEqual([500, "internal"]);
  expect(log.at(-1)?.fields).toMatchObject({ status: 500, reason: expect.stringContaining("record") });
});

it.skipIf(lacks("modes"))(
  "the audit is a run log for each key, whole whatever goes on at once, without prompts",
  async () => {
    const folder = temporaryFolder();
    const record = join(folder, "audit.jsonl");
    const { ask } = await serveApi(() => ({ text: "ok" }), { record, keys: [EDITOR] });
    const secret = { ...BODY, messages: [{ role: "user", content: "a secret prompt" }] };
    const own = Array.from({ length: 8 }, () => ask(CHAT, secret));
    const others = Array.from({ length: 4 }, () => ask(CHAT, secret, { authorization: `Bearer ${EDITOR.token}` }));
    const runs = async (answers: typeof own) =>
      (await Promise.all(answers)).map(({ headers }) => headers.get("x-dfp-run-id")).sort();
    const [mine, editors] = [await runs(own), await runs(others)];
    const files = ["audit.an%20editor%2F1.jsonl", "audit.jsonl"];
    expect(readdirSync(folder).sort()).toEqual(files);
    const ids = (name: string) => [...new Set(linesIn(join(folder, name)).flatMap(({ runId }) => runId ?? []))].sort();
    expect([ids(files[0] ?? ""), ids(files[1] ?? "")]).toEqual([editors, mine]);
    const done = linesIn(record).filter(({ event }) => event?.type === "done");
    expect(done.map(({ run }) => run).sort()).toEqual(mine);
    for (const name of files) {
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
      expect(readFileSync(join(folder, name), "utf8")).not.toMatch(/a secret prompt|editor-0123/);
    }
  },
);

it("calls that were refused stand in the audit, once, under their requests' ids; knocks without a key do not", async () => {
  const record = join(temporaryFolder(), "audit.jsonl");
  const claude = createClaudeCliProvider({ cliPath: "/nonexistent/claude" });
  onTestFinished(() => claude.close());
  const { ask } = await serve({ providers: { claude }, record });
  const refused = [
    await ask(CHAT, { ...BODY, model: "claude", top_p: 0.5 }),
    await ask(CHAT, { ...BODY, model: "claude", temperature: 0 }),
    await ask(CHAT, { ...BODY, model: "nobody/m" }),
  ];
  const missing = await ask(CHAT, { ...BODY, model: "claude" });
  await ask(CHAT, BODY, { authorization: "Bearer another-0123456789" });
  await ask("/v1/models");
  const lines = linesIn(record);
  expect(lines.filter(({ format }) => format).map(({ runId, provider }) => [runId, provider])).toEqual([
    ...refused.map(({ headers }) => [headers.get("x-request-id"), "gateway"]),
    [missing.headers.get("x-dfp-run-id"), "claude"],
  ]);
  const ends = lines
    .filter(({ end }) => end)
    .map(({ run, end }) => [run, end.status, end.error.code, end.error.httpStatus]);
  expect(ends.slice(0, 3)).toEqual(
    refused.map(({ headers, status }, index) => [
      ...[headers.get("x-request-id"), "failed"],
      ...[["INVALID_REQUEST", "UNSUPPORTED_OPTION", "INVALID_REQUEST"][index], status],
    ]),
  );
  expect(lines[1].end.error.message).toMatch(/^unsupported_parameter: top_p can't be had here/);
  expect(await renderRunLog(record)).toContain("top_p can't be had here");
  if (!lacks("modes")) expect(statSync(record).mode & 0o777).toBe(0o600);
});

it("no key may go by the name of the gateway's own", async () => {
  await expect(serveApi([], { keys: [{ ...EDITOR, name: "default" }] })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining('keys[0].name" must be a name'),
  });
});

it("each request is a span, with the call of its provider below it, and a time", async () => {
  const sdk = startSdk();
  const { ask } = await serveApi(
    [{ text: "ok" }, { error: { status: 500, message: "no" } }],
    { telemetry: sdk.both, keys: [EDITOR] },
    { telemetry: sdk.both },
  );
  await ask(CHAT, BODY, { authorization: `Bearer ${EDITOR.token}` });
  await ask(CHAT, BODY);
  await ask(CHAT, { ...BODY, n: 2 });
  await ask("/v1/the/user's/secret");
  await expect.poll(() => sdk.trees()).toHaveLength(4);
  expect(sdk.trees()).toMatchObject([
    { name: `POST ${CHAT}`, children: [{ name: "chat m" }] },
    { name: `POST ${CHAT}`, children: [{ name: "chat m" }] },
    { name: `POST ${CHAT}` },
    { name: "GET" },
  ]);
  const served = sdk.spans().filter(({ kind }) => kind === 1);
  const told = served.map(({ attributes, status }) => [
    attributes["http.response.status_code"],
    attributes["error.type"],
    attributes["gen_ai.request.model"],
    attributes["deep_factor.gateway.key"],
    status.code,
  ]);
  expect(told).toEqual([
    [200, undefined, "api/m", "an editor/1", 0],
    [500, "upstream_error", "api/m", "default", 2],
    [400, "unsupported_parameter", undefined, "default", 0],
    [404, "unknown_url", undefined, "default", 0],
  ]);
  expect(JSON.stringify(served.map(({ name, attributes }) => [name, attributes]))).not.toContain("secret");
});

it("a client's trace is joined, by who has a key; what was left is told with its key, model and id", async () => {
  const sdk = startSdk();
  const hangs = { chunks: ["one", "two", "three"], hangAfter: 3 };
  const { ask, gateway } = await serveApi([{ text: "ok" }, hangs], { telemetry: sdk.both }, { telemetry: sdk.both });
  const [trace, span] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
  const traceparent = `00-${trace}-${span}-01`;
  const joined = await ask(CHAT, BODY, { traceparent });
  await ask(CHAT, BODY, { traceparent, authorization: "Bearer another-0123456789" });
  await ask("/v1/models", undefined, { traceparent: `00-${"0".repeat(32)}-${span}-01` });
  const leaving = new AbortController();
  const left = await fetch(`${gateway.url}${CHAT}`, {
    ...{ method: "POST", signal: leaving.signal, body: JSON.stringify({ ...BODY, stream: true }) },
    headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" },
  });
  leaving.abort();
  await expect.poll(() => sdk.spans().filter(({ kind }) => kind === 1)).toHaveLength(4);
  const served = sdk.spans().filter(({ kind }) => kind === 1);
  const parents = served.map(
    ({ parentSpanContext: parent }) => parent && [parent.traceId, parent.spanId, parent.isRemote],
  );
  expect(parents).toEqual([[trace, span, true], undefined, undefined, undefined]);
  const [called] = sdk.spans().filter(({ name }) => name === "chat m");
  expect(called?.spanContext().traceId).toBe(trace);
  const told = served.map(({ attributes }) => [
    attributes["deep_factor.gateway.request.id"],
    attributes["deep_factor.gateway.key"],
    attributes["gen_ai.request.model"],
    attributes["deep_factor.cancelled"],
  ]);
  expect(told).toEqual([
    [joined.headers.get("x-request-id"), "default", "api/m", undefined],
    [expect.stringMatching(/^req_/), undefined, undefined, undefined],
    [expect.stringMatching(/^req_/), "default", undefined, undefined],
    [left.headers.get("x-request-id"), "default", "api/m", true],
  ]);
});

it("says of a telemetry that is none what it must be", async () => {
  await expect(serveApi([], { telemetry: "on" as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

it("a session that fell to another engine is no session that went on", async () => {
  const usage = {
    inputTokens: 1,
    outputTokens: 1,
    totalTokens: 2,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    estimated: false,
  };
  const reply = { content: "ok", messages: [{ content: "ok" }], toolCalls: [], invalidToolCalls: [], usage };
  const begun = (continued: boolean) => ({
    type: "start",
    runId: "r",
    pid: 1,
    engine: continued ? "live" : "print",
    continued,
  });
  const events = [
    begun(true),
    { type: "retry", by: "provider", attempt: 2, delayMs: 0, reason: "crashed" },
    begun(false),
    { type: "message", content: "ok" },
    { type: "done", reply: { ...reply, stopReason: "end_turn" } },
  ] as unknown as ProviderEvent[];
  const provider = {
    id: "scripted",
    bindTools: () => provider,
    async *stream() {
      yield* events;
    },
  };
  const { ask } = await serve({ providers: { api: provider as never } });
  const answered = { role: "assistant", content: "earlier" };
  const messages = [...BODY.messages, answered, ...BODY.messages];
  for (const stream of [false, true]) {
    const { headers, status } = await ask(CHAT, { ...BODY, messages, stream });
    expect([status, headers.get("x-dfp-session"), headers.get("x-dfp-engine")]).toEqual([200, "replayed", "print"]);
  }
});

describe("the command", { timeout: 120_000 }, () => {
  async function started(args: string[], env: Record<string, string> = {}, cwd?: string) {
    const { child, ended, output } = startCommand(["serve", "--port", "0", ...args], { env, ...(cwd && { cwd }) });
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await ended;
    });
    await Promise.race([expect.poll(() => output.stdout, { timeout: 60_000 }).toContain("\n"), ended]);
    return { child, ended, output };
  }

  it.skipIf(lacks("signals"))("sends telemetry where the usual variables ask for it, to its end", async () => {
    const spans: { name: string; traceId: string; parentSpanId?: string }[] = [];
    const collector = createServer((request, response) => {
      let body = "";
      request.on("data", (piece) => (body += piece));
      request.on("end", () => {
        for (const { scopeSpans } of JSON.parse(body).resourceSpans)
          spans.push(...scopeSpans.flatMap((scope: { spans: typeof spans }) => scope.spans));
        response.writeHead(200, { "content-type": "application/json" }).end("{}");
      });
    });
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void collector.close());
    const api = await startOpenAi([{ text: "ok" }]);
    onTestFinished(() => api.close());
    const args = ["--provider", "openai", "--base-url", `${api.url}/v1`, "--model", "openai/m", "--json"];
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
      DEEP_FACTOR_GATEWAY_TOKEN: "dfp-0123456789abcdef",
    };
    const { output, child, ended } = await started(args, env, folderWithSdk());
    const { url } = JSON.parse(output.stdout);
    const answered = await fetch(url + CHAT, {
      method: "POST",
      headers: { authorization: `Bearer ${env.DEEP_FACTOR_GATEWAY_TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ ...BODY, model: "openai/m" }),
    });
    expect(answered.status).toBe(200);
    child.kill("SIGTERM");
    expect((await ended).code).toBe(0);
    const server = spans.find(({ name }) => name === `POST ${CHAT}`);
    const call = spans.find(({ name }) => name === "chat m");
    expect([spans.length, call?.traceId, server?.parentSpanId]).toEqual([2, server?.traceId, undefined]);

    // Who asks for it and has no SDK is told what is missing; who says that there is none to be is not.
    const bare = await started(args, env, temporaryFolder());
    expect(bare.output.stderr).toContain(
      "OTEL_EXPORTER_OTLP_ENDPOINT is set, and nothing sends telemetry: run `npm install @opentelemetry/sdk-node`",
    );
    const off = await started(args, { ...env, OTEL_SDK_DISABLED: "true" }, temporaryFolder());
    expect(off.output.stderr).not.toContain("OTEL_");
  });

  it("prints the token where it is asked to, and nowhere else", async () => {
    const { output } = await started(["--print-token"]);
    const [url, token] = output.stdout.split("\n");
    const of = (secret: string) =>
      fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } }).then(({ status }) => status);
    expect([await of(token ?? ""), await of("dfp-another-0123456789")]).toEqual([200, 401]);
    expect(output.stderr).not.toContain(token);
    const refused = await runCommand([
      "serve",
      "--socket",
      join(temporaryFolder(), "s"),
      "--no-token",
      "--print-token",
    ]);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining("--no-token and --print-token contradict each other: say one"),
    ]);
  });

  it("the doctor fails where nothing that stands behind the gateway could answer, and only a key is told of it", async () => {
    const claude = createClaudeCliProvider({ cliPath: "/nowhere/claude" });
    onTestFinished(() => claude.close());
    const { gateway, ask } = await serve({ providers: { mine: claude } });
    const env = { DEEP_FACTOR_GATEWAY_TOKEN: String(gateway.token) };
    const { code, stdout } = await runCommand(["doctor", "--gateway", gateway.url, "--json"], { env });
    const { problems } = JSON.parse(stdout).providers[0];
    expect([code, problems]).toEqual([1, [{ message: expect.stringContaining("/nowhere/claude"), hint: INSTALL }]]);
    expect((await ask("/health", undefined, { authorization: "" })).json).toEqual({ status: "ok" });
    const refused = await ask("/health?providers=true", undefined, { authorization: "" });
    expect([refused.status, refused.json.providers]).toEqual([401, undefined]);
  });

  it("the doctor says whether a gateway is there, takes the token, and what it has", async () => {
    const api = await startOpenAi([]);
    onTestFinished(() => api.close());
    const behind = ["--provider", "openai", "--base-url", api.url, "--model", "openai/m", "--provider", "claude"];
    const { output } = await started(["--json", "--alias", "fast=claude/haiku", ...behind], {
      PATH: temporaryFolder(),
    });
    const { url, tokenFile } = JSON.parse(output.stdout);
    // It says so itself when it starts.
    await expect.poll(() => output.stderr).toContain("openai: there, logged in\nclaude: not there\n! ");
    const there = { url, reachable: true, status: "ok" };
    const open = join(temporaryFolder(), "token");
    writeFileSync(open, readFileSync(tokenFile), { mode: 0o644 });
    const wrongToken = { DEEP_FACTOR_GATEWAY_TOKEN: "another-0123456789" };
    const looks: [args: string[], code: number, report: object, env?: Record<string, string>][] = [
      [[url, "--token-file", tokenFile], 0, { accepted: true }],
      [[url], 1, { ...there, accepted: false, models: [], problems: [{ hint: expect.any(String) }] }, wrongToken],
      [[url], 0, { ...there, accepted: null }],
      [
        [url, "--token-file", open],
        0,
        { accepted: true, problems: [{ hint: `chmod 600 ${open}, and start the gateway anew` }] },
      ],
      [["http://127.0.0.1:9"], 1, { reachable: false, status: null, accepted: null }],
    ];
    const refusals: [args: string[], message: string][] = [
      [["--gateway", "127.0.0.1"], "--gateway must be the address that serve prints"],
      [["--gateway", url, "claude"], "--gateway looks at a gateway alone: leave out claude"],
      [["--token-file", tokenFile], "--token-file is for --gateway"],
    ];
    const ended = await runCommands([
      ...looks.map(([args, , , env]) => ({ args: ["doctor", "--gateway", ...args, "--json"], ...(env && { env }) })),
      ...refusals.map(([args]) => ({ args: ["doctor", ...args] })),
      { args: ["doctor", "--gateway", url, "--token-file", tokenFile] },
    ]);
    const seen = ended.slice(0, looks.length).map(({ code, stdout }) => [code, JSON.parse(stdout)]);
    expect(seen).toMatchObject(looks.map(([, code, report]) => [code, report]));
    expect(seen[0]?.[1]).toEqual({ ...there, accepted: true, models: MODELS, providers: BEHIND, problems: [] });
    const refused = ended.slice(looks.length, -1).map(({ code, stderr }) => [code, stderr]);
    expect(refused).toEqual(refusals.map(([, message]) => [2, expect.stringContaining(message)]));
    const shown = ended.at(-1);
    expect(shown?.stdout).toBe(
      [
        ...[`${url}: a gateway, ok`, "token: taken", `models: ${MODELS.join(", ")}`],
        ...["openai: there, logged in", "claude: not there"],
        ...[
          "! claude is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers",
          `  → ${INSTALL}`,
          "",
        ],
      ].join("\n"),
    );
  });

  it.skipIf(lacks("processes"))(
    "leaves no process, and nothing in the way of the next, when it is killed",
    async () => {
      const fakes = createFakes();
      onTestFinished(() => fakes.cleanup());
      const fake = fakes.cli("claude", { hang: true });
      const tag = createTag();
      const path = `${dirname(fake.path)}:${process.env.PATH}`;
      const socket = join(temporaryFolder(), "gateway.sock");
      const tokenFile = join(temporaryFolder(), "token");
      const args = ["--engine", "print", "--token-file", tokenFile, "--json"];
      const first = await started(args, { PATH: path, ...tag.env });
      const { url } = JSON.parse(first.output.stdout);
      const token = readFileSync(tokenFile, "utf8").trim();
      const asked = fetch(url + CHAT, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ ...BODY, model: "claude" }),
      }).catch(() => "cut");
      // Beside the calls that look whether it is there.
      const answering = () => fake.calls().find(({ argv }) => argv.includes("--output-format"));
      await expect.poll(answering, { timeout: 30_000 }).toBeDefined();
      const { pid } = answering() as { pid: number };
      expect(exists(pid)).toBe(true);
      first.child.kill("SIGKILL");
      await first.ended;
      expect(await asked).toBe("cut");
      await expect.poll(() => exists(pid), { timeout: 20_000 }).toBe(false);
      // Its token's file is replaced; the port is free again at once.
      const second = await started([...args, "--port", new URL(url).port], { PATH: path });
      expect(JSON.parse(second.output.stdout).url).toBe(url);
      expect(readFileSync(tokenFile, "utf8").trim()).not.toBe(token);
      expect(existsSync(socket)).toBe(false);
    },
  );
});
