/**
 * What is asked of every real CLI beside claude, offline. In flow a CLI's name and what is its own; out flow tests, registered
 * in the file that calls.
 */
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { delimiter, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { AIMessageJson } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { CLIS, type CliName } from "../support/clis.mjs";
import { ALL, sampleOf, withCli } from "../support/harness.mjs";
import { PACKAGES } from "../support/installed.mjs";
import { calling, readPrompt } from "../support/model.mjs";
import { createRichSurroundings } from "../support/rich.mjs";

/** The packages are for this machine alone: elsewhere, recordings stand for the CLIs. */
export const HERE = process.platform === "linux" && process.arch === "x64";

const DOCTOR = fileURLToPath(new URL("../../src/js/cli.mjs", import.meta.url));

/** What the API says an answer has cost. */
export const USAGE = { input: 20, output: 7, cached: 5, reasoning: 2, thoughts: 3 };
export const HELLO = { chunks: ["Hello ", "there."], usage: USAGE };
const ADD = { name: "add", description: "Adds two numbers", schema: { type: "object" } };

export interface Expected {
  /** The reply to HELLO per format, `id` and `response_metadata` apart; `""` where there is one format. */
  replies: Record<string, { id?: unknown; usage_metadata: object; response_metadata: object }>;
  /** The model as the API is asked for it. */
  asked: string;
  /** The most that goes to the API for a prompt of nine characters. */
  maxBytes: number;
  /** The tools it offers the model, which can do nothing. */
  tools: string[];
  /** Instructions of a home that are known to be sent. */
  sent: string[];
  /** What a run leaves in an empty home, names that change replaced. */
  files: string[];
  unauthorized: object;
}

/** The reply as it is, without what is told about the run by this machine's clock. */
export async function ask(reply: Promise<AIMessageJson>) {
  const { response_metadata, ...rest } = await reply;
  const { run, ...metadata } = response_metadata;
  expect(run?.pid).toBeGreaterThan(0);
  return { ...rest, response_metadata: metadata };
}

/** What was said in words, however the API carries it. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
export function promptOf(body: any) {
  type Part = { text?: string };
  const turns: { role: string; content?: string | Part[]; parts?: Part[] }[] =
    body.messages ?? body.contents ?? body.input;
  return readPrompt({ messages: turns.map(({ role, content, parts }) => ({ role, content: content ?? parts ?? [] })) });
}

// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
function toolsOf(body: any): string[] {
  type Tool = { name?: string; function?: { name: string }; functionDeclarations?: { name: string }[] };
  const tools: Tool[] = body.tools ?? [];
  return tools.flatMap(
    (tool) => tool.functionDeclarations?.map(({ name }) => name) ?? [tool.name ?? tool.function?.name ?? "?"],
  );
}

/** The files below a folder, with what changes from run to run replaced. */
function filesIn(dir: string) {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  // codex asks git for a list of plugins; how far that comes is git's affair.
  const files = entries.filter((entry) => !entry.isDirectory() && !/\.codex[/\\]\.tmp[/\\]git-/.test(entry.parentPath));
  const paths = files.map((entry) => relative(dir, join(entry.parentPath, entry.name)));
  const stable = paths.map((path) =>
    path
      .replace(/\.codex\/skills\/\.system\/.*/, ".codex/skills/.system/*")
      .replace(/node-compile-cache\/.*/, "node-compile-cache/*")
      .replace(/[\da-f]{40}/, "HASH")
      .replace(/session-[\w-]+\.jsonl/, "session-*.jsonl")
      .replace(/_\d+\.sqlite(-\w+)?/, "_*.sqlite"),
  );
  return [...new Set(stable)].sort();
}

/** What the doctor says of each CLI's engine. */
const ENGINES: Partial<Record<CliName, (version?: string) => string>> = {
  copilot: (version) => `live: it is @github/copilot-linux-x64 ${version}, says its package.json`,
  codex: (version) => `live: it is @openai/codex ${version}, says its package.json`,
  gemini: (version) => `warm: it is @google/gemini-cli ${version}, says its package.json`,
  grok: (version) => `warm: it is @xai-official/grok-linux-x64 ${version}, says its package.json`,
  opencode: (version) => `live: it is opencode-linux-x64 ${version}, says its package.json`,
  qwen: (version) => `warm: it is @qwen-code/qwen-code ${version}, says its package.json`,
};

export function describeReal(name: CliName, expected: Expected, more: () => void) {
  const { package: of, formats } = CLIS[name];
  const version = PACKAGES[of];

  // opencode needs 4 s of a processor for each run: on a machine shared by many, minutes.
  describe.skipIf(!HERE)(`the real ${name} ${version}`, { timeout: 600_000 }, () => {
    it.each(formats.length === 0 ? [""] : sampleOf(formats))("answers, format %j", async (format) => {
      const { api, create } = await withCli(name, { script: [HELLO] });
      const reply = await ask(create(format === "" ? {} : { outputFormat: format }).invoke(["Say hello"]));
      const { id, ...words } = expected.replies[format] ?? {};
      expect(reply).toEqual({
        ...(id === undefined ? {} : { id }),
        type: "ai",
        content: "Hello there.",
        tool_calls: [],
        invalid_tool_calls: [],
        additional_kwargs: {},
        ...words,
      });
      const [request] = api.requests;
      expect(`${request?.path} ${request?.body.model}`).toContain(expected.asked);
      expect(promptOf(request?.body).events.map(({ type, text }) => [type, text])).toEqual([["human", "Say hello"]]);
      expect(toolsOf(request?.body)).toEqual(expected.tools);
      expect(request?.bytes).toBeLessThan(expected.maxBytes);
    });

    it("carries a tool loop of two steps", async () => {
      const { api, create } = await withCli(name, {
        script: [
          calling("Let me add.", [{ name: "add", args: { a: 17, b: 25 }, id: "call_1" }]),
          (request: { body: unknown }) => {
            const { events } = promptOf(request.body);
            return { text: `It is ${events.find(({ type }) => type === "tool_output")?.text}.` };
          },
        ],
      });
      const model = create().bindTools([ADD]);
      const question = new HumanMessage("What is 17 + 25?");
      const first = await model.invoke([question]);
      expect([first.content, first.tool_calls]).toEqual([
        "Let me add.",
        [{ name: "add", args: { a: 17, b: 25 }, id: "call_1" }],
      ]);
      const called = new AIMessage({ content: first.content, tool_calls: first.tool_calls });
      const result = new ToolMessage({ tool_call_id: "call_1", content: "42" });
      expect((await model.invoke([question, called, result])).content).toBe("It is 42.");
      const { tools, events } = promptOf(api.requests[1]?.body);
      expect(tools.map((tool) => tool.name)).toEqual(["add"]);
      expect(events.map(({ type, callId }) => [type, callId])).toEqual([
        ["human", undefined],
        ["ai", undefined],
        ["tool_input", "call_1"],
        ["tool_output", "call_1"],
      ]);
    });

    it("is refused", async () => {
      const error = { status: 401, message: "Incorrect API key provided" };
      const { api, create } = await withCli(name, { script: [{ error }] });
      await expect(create().invoke(["hi"])).rejects.toMatchObject({
        category: "authentication",
        shouldRetry: false,
        httpStatus: 401,
        attempts: 1,
        ...expected.unauthorized,
      });
      expect(api.requests).toHaveLength(1);
    });

    it("is ended at its timeout when the API is silent, with no process left", async () => {
      const { api, tag, create } = await withCli(name, { script: () => ({ hang: true }) });
      // Enough for the CLI to start and ask.
      const timeout = name === "codex" ? 3_000 : 10_000;
      const provider = create({ timeout, retry: false });
      await expect(provider.invoke(["hi"])).rejects.toMatchObject({
        code: "TIMEOUT",
        category: "timeout",
        message: expect.stringMatching(new RegExp(`^no answer within ${timeout} ms`)),
      });
      await provider.close();
      expect(tag.left()).toEqual([]);
      for (const { outcome } of api.requests) expect(await outcome).toBe("aborted");
    });

    it("takes a prompt of 400 KB, and keeps to its home", async () => {
      const { api, home, create } = await withCli(name, { script: [{ text: "long" }] });
      const before = filesIn(home);
      const text = "0123456789".repeat(40_000);
      const provider = create();
      expect((await provider.invoke([text])).content).toBe("long");
      await provider.close();
      expect(promptOf(api.requests[0]?.body).events.map((event) => event.text === text)).toEqual([true]);
      expect(filesIn(home).filter((path) => !before.includes(path))).toEqual(expected.files);
    });

    it("does not notice a project, and of a home no more than is told", async () => {
      const { api, home, create } = await withCli(name, { script: [{ text: "ok" }] });
      const rich = createRichSurroundings(home);
      onTestFinished(() => rich.cleanup());
      await create(name === "gemini" ? {} : { cwd: rich.dir }).invoke(["hi"]);
      expect(rich.traces()).toEqual([]);
      expect(rich.canaries(api.requests[0]?.body)).toEqual(expected.sent);
      expect(toolsOf(api.requests[0]?.body)).toEqual(expected.tools);
    });

    it("tells its health", async () => {
      const { api, options, create } = await withCli(name, { script: [{ text: "OK" }] });
      const provider = create();
      const look = async (level: "command" | "version" | "auth" | "request") => {
        const { timingsMs, ...report } = await provider.health({ level });
        return { ...report, timings: Object.keys(timingsMs).join(" ") };
      };
      // Defaults other than print are kept from the tests of print.
      const why = 'the option `engine` is "print"';
      const engine = { uses: "print", why };
      const facts = {
        provider: name,
        installed: true,
        path: options.cliPath,
        problems: [],
        ...(ENGINES[name] && { engine }),
      };
      const known = { ...facts, version, versionTested: true };
      // Only codex can be asked for its login, and knows of none: the key is that of a model provider of the user's own.
      const auth = name === "codex" ? " auth" : "";
      expect(await look("command")).toEqual({ ...facts, authenticated: "unknown", timings: "command" });
      expect(await look("auth")).toEqual({
        ...known,
        authenticated: name === "codex" ? false : "unknown",
        problems: name === "codex" ? [expect.objectContaining({ code: "NOT_LOGGED_IN", severity: "error" })] : [],
        timings: `command version${auth}`,
      });
      expect(api.requests).toEqual([]);
      expect(await look("request")).toEqual({
        ...known,
        authenticated: true,
        answering: true,
        timings: `command version${auth} request`,
      });
    });

    it.runIf(ALL)("is a row of the doctor's table", async () => {
      const { home, options } = await withCli(name, { script: [] });
      const bin = join(home, "bin");
      mkdirSync(bin);
      symlinkSync(options.cliPath, join(bin, name));
      // A script needs its interpreter.
      const PATH = [bin, dirname(process.execPath), "/usr/bin", "/bin"].join(delimiter);
      const env = { ...process.env, ...options.env, PATH, NO_COLOR: "1" };
      const doctor = [DOCTOR, "doctor", name, "--level", "version"];
      const { stdout } = await promisify(execFile)(process.execPath, doctor, { env });
      expect(stdout.replaceAll(bin, "<bin>").split("\n")).toEqual([
        expect.stringMatching(/^PROVIDER +STATUS +VERSION +LOGGED IN +PATH$/),
        expect.stringMatching(new RegExp(`^${name} +ready +${version} +unknown +<bin>/${name}$`)),
        ...(ENGINES[name] ? [`          engine: ${ENGINES[name](version)}`] : []),
        "",
        "1 of 1 provider is ready.",
        "",
      ]);
    });

    more();
  });
}
