import { existsSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type AnthropicServer, type Script, startAnthropic } from "../support/anthropic.mjs";
import {
  CANARY,
  createRichProject,
  type Finished,
  findClaude,
  isolateClaude,
  PURE_PIPE_ARGS,
  PURE_PIPE_ENV,
  runClaude,
  type Which,
} from "../support/claude.mjs";
import { VERSIONS } from "../support/harness.mjs";

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function start(script: Script): Promise<AnthropicServer> {
  const server = await startAnthropic(script);
  cleanups.push(() => server.close());
  return server;
}

function isolate(which: Which, server: AnthropicServer, env: Record<string, string> = {}) {
  const claude = isolateClaude({ which, baseUrl: server.url, env: { ...PURE_PIPE_ENV, ...env } });
  cleanups.push(() => claude.cleanup());
  return claude;
}

/** The parts of a stream-json run that come from the API. */
function digest(run: Finished) {
  const lines = run.stdout.trim().split("\n");
  const events = lines.map((line) => JSON.parse(line));
  const result = events.find((event) => event.type === "result");
  return {
    code: run.code,
    stderr: run.stderr,
    blocks: events.flatMap((event) => (event.type === "assistant" ? event.message.content : [])),
    deltas: events.flatMap((event) => (event.type === "stream_event" ? (event.event.delta?.text ?? []) : [])),
    result: result && {
      text: result.result,
      isError: result.is_error,
      status: result.api_error_status,
      turns: result.num_turns,
    },
    usage: result && [result.usage.input_tokens, result.usage.cache_read_input_tokens, result.usage.output_tokens],
  };
}

describe("findClaude", () => {
  it("finds the binary that belongs to each alias", () => {
    expect([findClaude("newest").version, findClaude("oldest").version]).toEqual(["2.1.330", "2.1.197"]);
    expect(findClaude("newest").cliPath).not.toBe(findClaude("oldest").cliPath);
  });
});

describe("isolateClaude", () => {
  it("hides the machine's own logins, endpoints and proxies, and cleans up", () => {
    const foreign = { ANTHROPIC_AUTH_TOKEN: "t", CLAUDECODE: "1", HTTPS_PROXY: "http://p", XDG_CONFIG_HOME: "/x" };
    for (const [name, value] of Object.entries(foreign)) vi.stubEnv(name, value);
    const claude = isolateClaude({ baseUrl: "http://127.0.0.1:1", env: { EXTRA: "1" } });
    expect(claude.env).toMatchObject({
      ANTHROPIC_AUTH_TOKEN: undefined,
      CLAUDECODE: undefined,
      HTTPS_PROXY: undefined,
      XDG_CONFIG_HOME: undefined,
      ANTHROPIC_BASE_URL: "http://127.0.0.1:1",
      HOME: claude.home,
      EXTRA: "1",
    });
    expect(existsSync(claude.home)).toBe(true);
    claude.cleanup();
    expect(existsSync(claude.home)).toBe(false);
  });
});

describe.each(VERSIONS)("the real claude (%s) and the scripted API", (which) => {
  const run = (claude: ReturnType<typeof isolate>, options: { cwd?: string; args?: string[] } = {}) =>
    runClaude(claude, [...PURE_PIPE_ARGS, ...(options.args ?? [])], { stdin: "Say hello", cwd: options.cwd });

  it("accepts the stream, its deltas and its usage", { timeout: 60_000 }, async () => {
    const usage = { input_tokens: 11, cache_read_input_tokens: 5, output_tokens: 7 };
    const server = await start([{ chunks: ["Hel", "lo ", "🙂"], usage }]);
    const finished = await run(isolate(which, server), { args: ["--include-partial-messages"] });
    expect(digest(finished)).toEqual({
      code: 0,
      stderr: "",
      blocks: [{ type: "text", text: "Hello 🙂" }],
      deltas: ["Hel", "lo ", "🙂"],
      result: { text: "Hello 🙂", isError: false, status: null, turns: 1 },
      usage: [11, 5, 7],
    });
    expect(server.violations).toEqual([]);
    expect(server.requests.map(({ body }) => [body.stream, body.tools])).toEqual([[true, []]]);
  });

  it("accepts thinking and tool calls", { timeout: 60_000 }, async () => {
    const content = [
      { type: "thinking", thinking: "Let me look.", signature: "c2ln" },
      { type: "text", text: "Looking." },
      { type: "tool_use", id: "toolu_1", name: "look", input: { at: 'a "name"', deep: [1, { x: null }] } },
    ];
    const server = await start([{ content }, { text: "Done." }]);
    const finished = digest(await run(isolate(which, server)));
    expect(finished.blocks).toMatchObject([...content, { type: "text", text: "Done." }]);
    expect(finished.result).toEqual({ text: "Done.", isError: false, status: null, turns: 2 });
    expect(server.violations).toEqual([]);
  });

  it("reports a scripted error, and an exhausted script, in one request", { timeout: 60_000 }, async () => {
    const server = await start([{ error: { status: 529, message: "Overloaded" } }]);
    const claude = isolate(which, server);
    expect(digest(await run(claude))).toMatchObject({ code: 1, stderr: "", result: { isError: true, status: 529 } });
    expect(server.violations).toEqual([]);
    const exhausted = digest(await run(claude));
    expect(exhausted).toMatchObject({ code: 1, result: { isError: true, status: 500 } });
    expect(exhausted.result?.text).toContain("no answer left");
    expect(server.violations).toEqual(["request 2: no answer left (the script has 1)"]);
  });

  it("reports a cut stream and a silent API", { timeout: 60_000 }, async () => {
    const server = await start([{ chunks: ["Hel", "lo"], cutAfter: 4 }, { hang: true }]);
    const claude = isolate(which, server, { API_TIMEOUT_MS: "1000" });
    expect(digest(await run(claude))).toMatchObject({ code: 1, result: { isError: true, status: null } });
    expect(digest(await run(claude))).toMatchObject({ code: 1, result: { isError: true, status: null } });
    expect(await Promise.all(server.requests.map(({ outcome }) => outcome))).toEqual(["aborted", "aborted"]);
    expect(server.violations).toEqual([]);
  });

  it("notices a rich project with its default flags, and not as a pure pipe", { timeout: 60_000 }, async () => {
    const server = await start(() => ({ text: "Hello" }));
    const claude = isolate(which, server);
    const project = createRichProject({ home: claude.home });
    cleanups.push(() => project.cleanup());
    expect(digest(await run(claude, { cwd: project.dir }))).toMatchObject({ code: 0, result: { text: "Hello" } });
    expect(project.traces()).toEqual([]);
    expect(JSON.stringify(server.requests[0]?.body)).not.toContain(CANARY);
    const open = await runClaude(claude, ["-p"], { stdin: "Say hello", cwd: project.dir });
    expect(open).toEqual({ code: 0, signal: null, stdout: "Hello\n", stderr: "" });
    expect(project.traces()).toEqual([
      "project-SessionStart",
      "project-UserPromptSubmit",
      "mcp-server",
      "user-SessionStart",
      "user-UserPromptSubmit",
    ]);
    expect(JSON.stringify(server.requests[1]?.body)).toContain(CANARY);
  });
});
