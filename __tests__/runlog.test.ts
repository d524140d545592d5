/** Run logs: what a call leaves in its file, what comes of it again, and what people see of it. */
import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import * as langchain from "deep-factor-providers";
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  createFallbackProvider,
  ProviderError,
  type ProviderEvent,
  renderRunLog,
  replayRun,
} from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { runCommand, runCommands } from "./support/command-line.mjs";
import { createFakes } from "./support/fake.mjs";
import { withClaude } from "./support/harness.mjs";
import { until } from "./support/processes.mjs";
import { replay } from "./support/replay.mjs";
import { lacks } from "./support/systems.mjs";

const ENTRY = new URL("../src/js/native-entry.mjs", import.meta.url).href;
const SCHEMA = JSON.parse(readFileSync(new URL("../docs/schemas/run-recording.schema.json", import.meta.url), "utf8"));

const requireOfLangChain = createRequire(createRequire(import.meta.url).resolve("@langchain/core/messages"));
const { Validator } = requireOfLangChain("@cfworker/json-schema");
const validator = new Validator(SCHEMA, "2020-12");

const KEY = "sk-ant-api03-0123456789abcdef";

function setup() {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  return { fakes, file: join(fakes.dir, "run.jsonl") };
}

/** The lines of a file, every one of them valid. */
function lines(file: string) {
  const text = readFileSync(file, "utf8");
  expect(text.endsWith("\n")).toBe(true);
  return text
    .trimEnd()
    .split("\n")
    .map((line) => {
      const parsed = JSON.parse(line);
      expect(validator.validate(parsed)).toMatchObject({ valid: true, errors: [] });
      return parsed;
    });
}

async function all<Event>(events: AsyncIterable<Event>) {
  const list: Event[] = [];
  for await (const event of events) list.push(event);
  return list;
}

/** What a promise rejects with. */
const rejection = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable("it should have rejected"),
    (error) => error,
  );

/** A line of claude's stream. */
const line = (value: object) => `${JSON.stringify(value)}\n`;
const INIT = line({
  type: "system",
  subtype: "init",
  session_id: "s",
  model: "claude-fake",
  claude_code_version: "2.1.330",
});
const block = (id: string, content: object) =>
  line({
    type: "assistant",
    session_id: "s",
    message: { id, role: "assistant", model: "claude-fake", content: [content] },
  });
const result = (id: string, content: string, is_error = false) =>
  line({
    type: "user",
    session_id: "s",
    message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content, is_error }] },
  });
const RESULT = line({
  type: "result",
  subtype: "success",
  is_error: false,
  num_turns: 2,
  result: "Done.",
  session_id: "s",
  total_cost_usd: 0.0421,
  usage: { input_tokens: 1200, output_tokens: 345 },
});
const WORK = [
  INIT,
  block("m1", { type: "text", text: "I look first." }),
  block("m1", { type: "tool_use", id: "t1", name: "Bash", input: { command: "ls" } }),
  result("t1", `a\nMY_API_KEY=${KEY}\n</script><b>`, true),
  block("m2", { type: "text", text: `Done. The key was ${KEY}, the word mellon-mellon.` }),
  RESULT,
];

describe.skipIf(lacks("signals"))("a recorded run", () => {
  it("comes again as it was: the same events, the same message", async () => {
    const { fakes, file } = setup();
    const cliPath = fakes.cli("codex", replay("codex/success-json-stdin")).path;
    const events = await all(createCodexCliProvider({ cliPath }).stream(["Say hello"], { record: file }));
    expect(await all(replayRun(file))).toEqual(events);
    const [header, ...rest] = lines(file);
    // In front of it stands the warning that this is no codex.
    const start = events.find((event) => event.type === "start");
    expect(header).toEqual({
      format: "deep-factor-run",
      version: 1,
      runId: start?.runId,
      provider: "codex",
      startedAt: expect.any(Number),
      prompt: { messages: 1, characters: 9, sha256: expect.any(String), tools: [] },
      packageVersion: expect.any(String),
      platform: `${process.platform}-${process.arch}`,
    });
    expect(rest.map(({ event }) => event)).toEqual(events);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const replayed = replayRun(file);
    const done = events.at(-1);
    expect((await replayed.reply).content).toBe(done?.type === "done" && done.reply.content);
    expect(await replayed.info).toEqual({
      header,
      outcome: "replied",
      complete: true,
      events: events.length,
      runIds: [header.runId],
      problems: [],
    });
    // It can be iterated again, and events are there without the reply.
    expect(await all(replayed)).toEqual(events);
  });

  it("gives the message that invoke gave, of the caller's own class", async () => {
    const { fakes, file } = setup();
    const tool = { type: "tool_use", id: "t1", name: "add", input: { b: 1.5, a: 2 } };
    const stdout = [INIT, block("m1", { type: "text", text: "I add." }), block("m1", tool), RESULT];
    const cliPath = fakes.cli("claude", { stdout }).path;
    const tools = [{ name: "add", schema: { type: "object" } }];
    const provider = langchain.createClaudeCliProvider({ cliPath }).bindTools(tools);
    const message = await provider.invoke(["Add"], { record: { path: file } });
    expect(message.tool_calls).toEqual([{ name: "add", id: "t1", args: { b: 1.5, a: 2 } }]);
    const again = await langchain.replayRun(file).reply;
    expect(again).toEqual(message);
    expect(Object.getPrototypeOf(again)).toBe(Object.getPrototypeOf(message));
    expect(lines(file)[0].prompt.tools).toEqual(["add"]);
    const told: string[] = [];
    await provider.invokeWithUpdates(["Add"], ({ type }) => void told.push(type), { record: file });
    expect(told).toEqual(["assistant_message", "tool_call", "usage", "final"]);
    expect((await replayRun(file).info).runIds).toHaveLength(2);
  });

  it("holds neither the prompt nor secrets", async () => {
    const { fakes, file } = setup();
    const env = { MY_SECRET: "mellon-mellon" };
    const provider = createClaudeCliProvider({ cliPath: fakes.cli("claude", { stdout: WORK }).path, env });
    const message = await provider.invoke([`a plan with ${KEY} in it`], { record: file });
    expect(message.content).toContain(KEY);
    const text = readFileSync(file, "utf8");
    for (const secret of [KEY, "mellon-mellon", "a plan"]) expect(text).not.toContain(secret);
    expect((await replayRun(file).reply).content).toBe("Done. The key was [redacted], the word [redacted].");
    const whole = join(fakes.dir, "whole.jsonl");
    await provider.invoke([`a plan with ${KEY} in it`], { record: { path: whole, prompts: true } });
    expect(lines(whole)[0].prompt.thread).toEqual([{ type: "human", content: "a plan with [redacted] in it" }]);
  });

  it("that failed fails again in the same way", async () => {
    const { fakes, file } = setup();
    const provider = createCodexCliProvider({ cliPath: fakes.cli("codex", replay("codex/err-401-json")).path });
    const error = await rejection(provider.invoke(["Say hello"], { record: file }));
    const replayed = replayRun(file);
    const again = await rejection(replayed.reply);
    expect(again).toBeInstanceOf(ProviderError);
    expect(again).toEqual(error);
    expect(await rejection(all(replayed))).toEqual(error);
    expect(await replayed.info).toMatchObject({ outcome: "failed", complete: true });
    expect(lines(file).at(-1).end).toEqual({ status: "failed", error: expect.objectContaining({ code: error.code }) });
  });

  it("that was aborted is told so, and has all its events", async () => {
    const { fakes, file } = setup();
    const stdout = [INIT, block("m1", { type: "text", text: "I look " }), block("m2", { type: "text", text: "twice" })];
    const fake = fakes.cli("claude", { stdout, hang: true });
    const abort = new AbortController();
    const events: ProviderEvent[] = [];
    const run = async () => {
      const stream = createClaudeCliProvider({ cliPath: fake.path }).stream(["x"], {
        record: file,
        signal: abort.signal,
      });
      for await (const event of stream) {
        events.push(event);
        if (event.type === "text_delta" && event.text.includes("twice")) abort.abort();
      }
    };
    expect(await rejection(run())).toBe(abort.signal.reason);
    expect(lines(file).at(-1).end).toEqual({ status: "cancelled" });
    const replayed = replayRun(file);
    const again: object[] = [];
    const error = await rejection(
      (async () => {
        for await (const event of replayed) again.push(event);
      })(),
    );
    expect(error.name).toBe("AbortError");
    expect(again.slice(0, events.length)).toEqual(events);
    expect((await rejection(replayed.reply)).name).toBe("AbortError");
  });

  it("is readable as far as it came when its process is killed", async () => {
    const { fakes, file } = setup();
    const stdout = [INIT, block("m1", { type: "text", text: "I began" }), block("m2", { type: "text", text: ", and" })];
    const fake = fakes.cli("claude", { stdout, hang: true });
    const source = `
      import { createClaudeCliProvider } from ${JSON.stringify(ENTRY)};
      await createClaudeCliProvider({ cliPath: ${JSON.stringify(fake.path)} }).invoke(["x"], { record: ${JSON.stringify(file)} });`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", source], { stdio: "ignore" });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = new Promise((resolve) => child.once("close", (_code, signal) => resolve(signal)));
    await until(() => existsSync(file) && readFileSync(file, "utf8").includes(", and"));
    child.kill("SIGKILL");
    expect(await ended).toBe("SIGKILL");
    // What kills a process in the middle of a write leaves: the beginning of a line.
    writeFileSync(file, '{"at":1,"t":2,"run":"r', { flag: "a" });
    process.kill((await fake.waitForCall(1)).pid, "SIGKILL");
    const replayed = replayRun(file);
    const events = await all(replayed);
    // Two parts of one answer, whose end has not come.
    expect(events.map(({ type }) => type)).toEqual(["start", "session", "text_delta", "text_delta"]);
    const info = await replayed.info;
    const number = readFileSync(file, "utf8").split("\n").length;
    expect(info).toMatchObject({
      outcome: "unknown",
      complete: false,
      problems: [{ line: number, message: "the line is torn: the log ends in the middle of it" }],
    });
    expect(await rejection(replayed.reply)).toMatchObject({
      code: "RUN_LOG_INCOMPLETE",
      message: `the log ends before the run did; it holds 4 events of run ${info.header.runId}`,
      partial: { text: "I began, and", events: 4 },
    });
    expect(await renderRunLog(file)).toContain("The log ends before the run did.");
  });

  it("shares its file with others, those of a fallback provider too", async () => {
    const { fakes, file } = setup();
    const bad = createCodexCliProvider({ cliPath: fakes.cli("bad", replay("codex/err-429-quota-json")).path });
    const good = createCodexCliProvider({ cliPath: fakes.cli("good", replay("codex/success-json-stdin")).path });
    const message = await createFallbackProvider([bad, good]).invoke(["Say hello"], { record: file });
    const { runIds, header } = await replayRun(file).info;
    expect(runIds).toHaveLength(2);
    expect(header.runId).toBe(runIds[1]);
    expect((await replayRun(file).reply).content).toBe(message.content);
    const first = replayRun(file, { runId: runIds[0] as string });
    expect(await first.info).toMatchObject({ outcome: "failed" });
    expect(await rejection(replayRun(file, { runId: "none" }).reply)).toMatchObject({ code: "NOT_FOUND" });
  });

  it("knows how long the real CLI's own tools took", async () => {
    const { fakes, file } = setup();
    const input = { command: "sleep 0.5; echo slept" };
    const { options } = await withClaude({
      engine: "print",
      script: [{ content: [{ type: "tool_use", id: "toolu_1", name: "Bash", input }] }, { text: "It slept." }],
    });
    const provider = createClaudeCliProvider({
      ...options,
      cwd: fakes.dir,
      disableBuiltInTools: false,
      permissionMode: "bypassPermissions",
      env: { ...options.env, IS_SANDBOX: "1" },
    });
    const message = await provider.invoke(["Sleep"], { record: file });
    expect(message.content).toBe("It slept.");
    expect(await replayRun(file).reply).toEqual(message);
    const { runs } = JSON.parse(await renderRunLog(file, { format: "json" }));
    const [tool] = runs[0].items.filter(({ kind }: { kind: string }) => kind === "tool_call");
    expect(tool).toMatchObject({ title: "Bash", result: { content: "slept", isError: false } });
    // Asleep for 500 ms by one clock, seen by another.
    expect(tool.durationMs).toBeGreaterThanOrEqual(490);
  });
});

it("a log shows how much of the input was in the prompt cache, and what the CLI says of it", async () => {
  const { file } = setup();
  const usage = { inputTokens: 1000, outputTokens: 5, totalTokens: 1005, cacheReadTokens: 906 };
  const sessionUsage = { inputTokens: 4000, cacheReadTokens: 2000 };
  const reply = { usage, run: { sessionUsage }, cacheMiss: "Prompt cache (main): 1 miss" };
  const header = { format: "deep-factor-run", version: 1, runId: "r", provider: "claude", startedAt: 1 };
  const lines = [header, { at: 1, t: 1, run: "r", event: { type: "done", reply } }];
  writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\n"));
  const text = await renderRunLog(file);
  expect(text).toContain("1,000 tokens in (91 % cached), 5 out");
  expect(text).toContain("cached in the session so far: 50 %  on the cache: Prompt cache (main): 1 miss");
  expect(await renderRunLog(file, { format: "html" })).toContain("<td>906 (91 %)</td>");
  expect(JSON.parse(await renderRunLog(file, { format: "json" })).runs[0].cacheHitShare).toBe(0.906);
});

describe.skipIf(lacks("devices"))("a log that can't be written", () => {
  it("refuses the call before anything is started", async () => {
    const { fakes, file } = setup();
    const fake = fakes.cli("claude", { stdout: WORK });
    const provider = createClaudeCliProvider({ cliPath: fake.path });
    writeFileSync(file, "my notes\n");
    mkdirSync(join(fakes.dir, "folder"));
    for (const [record, reason] of [
      [file, `"${file}" exists and is not a run log of this version: it is left alone`],
      [join(fakes.dir, "no/run.jsonl"), `there is no folder "${join(fakes.dir, "no")}" to write it into`],
      [join(fakes.dir, "folder"), `"${join(fakes.dir, "folder")}" is not a file`],
    ] as const) {
      expect(await rejection(provider.invoke(["x"], { record }))).toMatchObject({
        code: "INVALID_OPTION",
        message: `the call's option "record": ${reason}. Correct the option`,
      });
    }
    for (const [record, reason] of [
      ["", 'record must be the path of a file, got the string ""'],
      [1, "record must be a path or an object { path, prompts? }, got 1"],
      [null, "record must be a path or an object { path, prompts? }, got null"],
      [{}, "record.path must be the path of a file, got undefined"],
      [{ path: file, prompts: "yes" }, 'record.prompts must be true or false, got the string "yes"'],
      [{ path: file, prompt: true }, 'record has an unknown key "prompt": there are "path" and "prompts"'],
    ] as const) {
      const options = { record: record as never };
      expect(await rejection(provider.invoke(["x"], options))).toMatchObject({
        code: "INVALID_OPTION",
        message: reason,
      });
    }
    expect(readFileSync(file, "utf8")).toBe("my notes\n");
    expect(fake.calls()).toEqual([]);
  });

  it.skipIf(!existsSync("/dev/full"))("is a warning where the disk is full, and the run goes on", async () => {
    const { fakes } = setup();
    const records: unknown[] = [];
    const provider = createClaudeCliProvider({
      cliPath: fakes.cli("claude", { stdout: WORK }).path,
      logger: ({ message, fields }) => records.push(message === "warned" && fields),
    });
    const events = await all(provider.stream(["x"], { record: "/dev/full" }));
    expect(events.filter(({ type }) => type === "warning")).toEqual([
      {
        type: "warning",
        code: "RUN_LOG_FAILED",
        message: expect.stringMatching(/^the run goes on and is no longer recorded: No space left on device/),
      },
    ]);
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { costUsd: 0.0421 } });
    await provider.invoke(["x"], { record: "/dev/full" });
    expect(records.filter(Boolean)).toEqual([{ code: "RUN_LOG_FAILED" }, { code: "RUN_LOG_FAILED" }]);
  });
});

describe("what is no run log", () => {
  it("is refused with a reason", async () => {
    const { fakes, file } = setup();
    const other = join(fakes.dir, "other.json");
    const refusal = async (text: string) => {
      writeFileSync(other, text);
      const error = await rejection(replayRun(other).reply);
      expect(error.code).toBe("INVALID_RUN_LOG");
      return error.message.replace(other, "<file>").split(". Give")[0];
    };
    expect(await refusal("")).toBe("<file>: it is empty: a run log begins with a header line");
    expect(await refusal('{"version":"1.0.0","agent_info":{},"execution":{}}')).toBe(
      "<file>: it is not a run log: it is a normalised log of the Claude Code adapter (youbencha-log.json), which can be shown but not replayed",
    );
    expect(await refusal('{"format":"deep-factor-run","version":7}')).toBe(
      "<file>: its version is 7, and this package reads up to 1: a newer deep-factor-providers wrote it",
    );
    expect(await rejection(replayRun(file).info)).toMatchObject({ code: "NOT_FOUND" });
    expect(await rejection(renderRunLog(file))).toMatchObject({ code: "NOT_FOUND" });
    expect(() => replayRun("")).toThrow('path must be the path of a run log, got the string ""');
    expect(() => replayRun(file, { run: 1 } as never)).toThrow('unknown option "run": there are "runId"');
    expect(await rejection(renderRunLog(file, { format: "pdf" as never }))).toMatchObject({
      message: 'format must be "text", "html" or "json", got the string "pdf"',
    });
  });
});

describe.skipIf(lacks("modes"))("log, the command", () => {
  /** Runs `log` with each of these arguments, one after the other, in one process. */
  const logs = (...all: string[][]) => runCommands(all.map((args) => ({ args: ["log", ...args] })));

  it("shows what happened as text, as data and as a page", async () => {
    const { fakes, file } = setup();
    fakes.cli("claude", { stdout: WORK });
    const env = { PATH: `${fakes.dir}:${process.env.PATH}` };
    const made = await runCommand(["run", "Say hello", "--record", file], { env });
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Done\./) });
    const page = join(fakes.dir, "page.html");
    const [shown, full, json, written, printed] = await logs(
      ["show", file],
      ["show", file, "--full"],
      ["show", "--json", file],
      ["html", file, "-o", page],
      ["html", file],
    );
    expect([shown?.code, shown?.stderr]).toEqual([0, ""]);
    const [first, second, third, ...rest] = (shown?.stdout ?? "").split("\n");
    expect(first).toMatch(/^claude {2}run-[0-9A-Z]{26} {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    expect(second).toMatch(/^replied in .+ · 1,200 tokens in, 345 out · \$0\.0421 · 1 tool call · 1 error$/);
    expect(third).toMatch(/^model: claude-fake, recorded by: deep-factor-providers .+, platform: /);
    const kinds = rest.filter((text) => text.startsWith("+")).map((text) => text.split(/ +/)[1]);
    expect(kinds).toEqual(["prompt", "start", "session", "message", "tool", "message", "tokens", "end"]);
    expect(full).toMatchObject({ code: 0, stdout: expect.stringContaining("│ {\n") });
    const { runs, problems } = JSON.parse(json?.stdout ?? "");
    expect(problems).toEqual([]);
    expect(runs[0].items[4]).toEqual({
      kind: "tool_call",
      t: expect.any(Number),
      durationMs: expect.any(Number),
      title: "Bash",
      facts: [],
      args: '{\n  "command": "ls"\n}',
      result: { content: "a\nMY_API_KEY=[redacted]\n</script><b>", isError: true },
    });
    expect(written).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(readFileSync(page, "utf8")).toBe(printed?.stdout);
    expect(readFileSync(page, "utf8")).toBe(await renderRunLog(file, { format: "html" }));
    expect(statSync(page).mode & 0o777).toBe(0o600);
  });

  it.skipIf(lacks("links"))("replaces a page of its own and nothing else, whole or not at all", async () => {
    const { fakes, file } = setup();
    writeFileSync(file, `${JSON.stringify({ format: "deep-factor-run", version: 1, runId: "r", provider: "p" })}\n`);
    const [page, other, link] = ["page.html", "package.json", "link.html"].map((name) => join(fakes.dir, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(other, "{}");
    symlinkSync(other, link);
    const [first, again, ofOther, ofLink] = await logs(
      ["html", file, "-o", page],
      ["html", file, "-o", page],
      ["html", file, "-o", other],
      ["html", file, "-o", link],
    );
    expect([first, again]).toEqual(Array(2).fill({ code: 0, stdout: "", stderr: "" }));
    expect(ofOther).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`${other} exists and is no page of ours: it is left alone`),
    });
    expect(ofLink).toMatchObject({ code: 2 });
    expect(readFileSync(other, "utf8")).toBe("{}");
    expect(await runCommand(["log", "html", file, "-o", link, "--force"])).toMatchObject({ code: 0 });
    expect(readFileSync(other, "utf8")).toBe("{}");
    expect(await runCommand(["log", "html", file, "-o", other, "--force"])).toMatchObject({ code: 0 });
    expect(readFileSync(other, "utf8")).toBe(readFileSync(page, "utf8"));
    expect(readdirSync(fakes.dir).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("says what is wrong", async () => {
    const { fakes, file } = setup();
    const [hello, empty] = [join(fakes.dir, "hello"), join(fakes.dir, "empty")];
    writeFileSync(hello, "hello");
    writeFileSync(empty, `${JSON.stringify({ format: "deep-factor-run", version: 1, runId: "r", provider: "p" })}\n`);
    chmodSync(fakes.dir, 0o700);
    const wrong = [
      [["list"], 'unknown action "list"'],
      [["show"], "name the file of a run log"],
      [["show", "a", "b"], 'unexpected argument "b"'],
      [["html", "a", "--full"], "unknown option '--full'"],
      [["html", empty, "-o", join(fakes.dir, "no/page.html")], "ENOENT"],
    ] as const;
    const [nothing, help, missing, text, ...rest] = await logs(
      [],
      ["--help"],
      ["show", file],
      ["show", hello],
      ...wrong.map(([args]) => [...args]),
    );
    expect(nothing).toEqual({
      code: 2,
      stdout: "",
      stderr: "deep-factor-providers: say what to do: show or html (deep-factor-providers log --help)\n",
    });
    expect(help?.stdout).toContain("log html <file>");
    expect(missing).toMatchObject({ code: 10, stderr: expect.stringMatching(/^NOT_FOUND: /) });
    expect(text).toMatchObject({
      code: 6,
      stderr: expect.stringMatching(/^INVALID_RUN_LOG: .+it is not a run log: its first line is not JSON/),
    });
    for (const [at, [, reason]] of wrong.entries()) {
      expect(rest[at]).toMatchObject({ code: 2, stderr: expect.stringContaining(reason) });
    }
  });
});
