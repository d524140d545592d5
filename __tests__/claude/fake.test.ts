/** What the real CLI can't be made to do, and what goes wrong before it runs. */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { HumanMessage } from "@langchain/core/messages";
import { type ClaudeCliProviderOptions, createClaudeCliProvider, execFileAsync } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";
import { lacks } from "../support/systems.mjs";

const hello = [new HumanMessage("Hello")];
const THREAD = '<thread>\n  <event type="human" id="0" iteration="0">Hello</event>\n</thread>';

function fakes() {
  const folder = createFakes();
  onTestFinished(() => folder.cleanup());
  return folder;
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("it did not fail"),
    (error) => error,
  );

describe.each(["stream-json", "json"] as const)("a CLI that prints no more than a result, as %s", (outputFormat) => {
  const print = (printed: string, code = 0) => {
    const cli = fakes().cli("claude", { stdout: printed, code });
    return createClaudeCliProvider({ cliPath: cli.path, outputFormat, engine: "print", retry: false }).invoke(hello);
  };

  it.each([
    ["its text alone", '{"result":"Hi"}', "Hi"],
    ["over several lines, behind a line of noise", 'ready\n{\n  "result": "Hi",\n  "session_id": "s1"\n}\n', "Hi"],
  ])("answers: %s", async (_, printed, content) => {
    expect((await print(printed)).content).toBe(content);
  });

  it("fails where its text is empty: an answer without a word is none", async () => {
    await expect(print('{"result":""}')).rejects.toMatchObject({ code: "EMPTY_RESPONSE" });
  });

  it("reads what else stands there as of a result that says what it is", async () => {
    const fields = {
      result: "Hi",
      session_id: "s1",
      stop_reason: "end_turn",
      usage: { input_tokens: 3, output_tokens: 2 },
    };
    const { response_metadata, usage_metadata } = await print(JSON.stringify(fields));
    expect(response_metadata).toMatchObject({ session_id: "s1", stop_reason: "end_turn" });
    expect(usage_metadata).toEqual({ input_tokens: 3, output_tokens: 2, total_tokens: 5 });
    await expect(print('{"result":"Credit balance is too low","is_error":true}')).rejects.toMatchObject({
      category: "quota",
    });
  });

  it.each([
    ["a result without a text", '{"type":"result","subtype":"success","is_error":false,"num_turns":1}'],
    ["a result that is no text", '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":5}'],
    ["one that says nothing of itself, and is no text", '{"result":{"text":"Hi"}}'],
    ["none at all", '{"session_id":"s1"}'],
    ["one that is cut", '{"result":"Hi"'],
  ])("fails: %s", async (_, printed) => {
    await expect(print(printed)).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });
  });

  it("fails where the exit code says so", async () => {
    await expect(print('{"result":"Hi"}', 1)).rejects.toMatchObject({ name: "ProviderError", exitCode: 1 });
  });
});

describe("a plan that is used up", () => {
  const said = "You've hit your limit · resets 8pm (Africa/Cairo)";
  const json = { type: "result", subtype: "success", is_error: true, num_turns: 1, result: said };

  it.each<[string, ClaudeCliProviderOptions, string, number | undefined]>([
    ["text", { outputFormat: "text" }, said, undefined],
    ["json", { outputFormat: "json" }, JSON.stringify({ ...json, api_error_status: 429 }), 429],
    ["stream-json", {}, JSON.stringify({ ...json, api_error_status: 429 }), 429],
  ])("is quota, with the time when it is there again: %s", async (_, form, stdout, httpStatus) => {
    const cli = fakes().cli("claude", { stdout: `${stdout}\n`, code: 1 });
    const model = createClaudeCliProvider({ ...form, cliPath: cli.path, engine: "print" });
    const error = await failureOf(model.invoke(hello));
    expect(error).toMatchObject({ code: "USAGE_LIMIT", category: "quota", exitCode: 1, attempts: 1 });
    expect(error.httpStatus).toBe(httpStatus);
    // 20:00 in Cairo is 17:00 or 18:00 UTC, by the season.
    const resets = new Date(error.resetsAt);
    const hour = new Intl.DateTimeFormat("en", { timeZone: "Africa/Cairo", hour: "numeric", hourCycle: "h23" });
    expect(hour.format(resets)).toBe("20");
    expect(resets.getTime()).toBeGreaterThan(Date.now());
    expect(cli.calls()).toHaveLength(1);
  });
});

describe("a CLI that prints plain text", () => {
  it("answers with the defaults", async () => {
    const cli = fakes().cli("claude", { stdout: "Hello from the fake.\n" });
    const reply = await createClaudeCliProvider({ cliPath: cli.path }).invoke(hello);
    expect(reply.content).toBe("Hello from the fake.");
    expect(reply.tool_calls).toEqual([]);
    expect(reply.response_metadata).toMatchObject({ provider: "claude", usage_estimated: true });
    const call = cli.calls()[0];
    expect(call?.stdin).toBe(THREAD);
    // An empty private folder, gone with the run.
    expect(dirname(dirname(call?.cwd ?? ""))).toBe(realpathSync(tmpdir()));
    expect(existsSync(dirname(call?.cwd ?? ""))).toBe(false);
  });

  it("is called exactly as SPEC-01 says in SPEC-01's form", async () => {
    const cli = fakes().cli("claude", { stdout: '```json\n{"tool_calls":[{"name":"t","args":{"a":1}}]}\n```' });
    const spec = { promptStyle: "arg", outputFormat: "text", noInput: true, textToolCalls: "lenient" };
    const form = spec as ClaudeCliProviderOptions;
    const reply = await createClaudeCliProvider({ ...form, cliPath: cli.path, model: "sonnet" }).invoke(hello);
    await createClaudeCliProvider({ ...form, cliPath: cli.path, inputEncoding: "text" }).invoke(hello);
    expect(reply.tool_calls).toEqual([{ name: "t", args: { a: 1 }, id: "call_0" }]);
    const [first, second] = cli.calls();
    expect(first).toMatchObject({ argv: ["-p", THREAD, "--no-input", "--model", "sonnet"], stdin: "" });
    expect(first?.cwd).toBe(process.cwd());
    expect(second?.argv).toEqual(["-p", "[User]\nHello", "--no-input"]);
  });

  it("runs with a clean environment: what nests or debugs is dropped, what is asked for is there", async () => {
    const cli = fakes().cli("claude", { stdout: "ok" });
    const before = { ...process.env };
    onTestFinished(() => {
      process.env = before;
    });
    Object.assign(process.env, {
      CLAUDECODE: "1",
      NODE_OPTIONS: "--no-warnings",
      ANTHROPIC_API_KEY: "k",
      DFP_KEEP: "1",
    });
    await createClaudeCliProvider({ cliPath: cli.path, env: { DFP_NEW: "2", DFP_KEEP: undefined } }).invoke(hello);
    await createClaudeCliProvider({ cliPath: cli.path, auth: "subscription" }).invoke(hello);
    const env = { ...process.env, CLAUDE_CODE_USE_BEDROCK: "1" };
    await createClaudeCliProvider({ cliPath: cli.path, auth: "subscription", env }).invoke(hello);
    const [inherited, subscription, spread] = cli.calls();
    expect(inherited?.env).toMatchObject({
      TERM: "dumb",
      NO_COLOR: "1",
      CI: "true",
      ANTHROPIC_API_KEY: "k",
      DFP_NEW: "2",
    });
    for (const name of ["CLAUDECODE", "NODE_OPTIONS", "DFP_KEEP"]) expect(inherited?.env).not.toHaveProperty(name);
    for (const call of [subscription, spread]) {
      expect(call?.env).toHaveProperty("DFP_KEEP", "1");
      for (const key of ["ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"]) expect(call?.env).not.toHaveProperty(key);
    }
  });

  it("is asked again, once, without a flag it is too old for, and that is remembered", async () => {
    const refuse = (flag: string) => ({ code: 1, stderr: `error: unknown option '${flag}'\n` });
    const cli = fakes().cli("claude", [refuse("--safe-mode"), { stdout: "old but fine" }]);
    const provider = createClaudeCliProvider({ cliPath: cli.path });
    const warnings: string[] = [];
    for await (const event of provider.stream(hello)) if (event.type === "warning") warnings.push(event.code);
    expect(warnings).toEqual(["FLAG_DROPPED"]);
    await createClaudeCliProvider({ cliPath: cli.path }).invoke(hello);
    const used = cli.calls().map(({ argv }) => argv.includes("--safe-mode"));
    expect(used).toEqual([true, false, false]);
  });

  it.skipIf(lacks("scripts"))(
    "is not started without end by a launcher whose file is another one each time",
    async () => {
      const { dir, shell } = fakes();
      const rewrite = 'echo run >> "$0.runs"; cp "$0" "$0.new"; echo "# again" >> "$0.new"; mv "$0.new" "$0"';
      const runs = (path: string) => readFileSync(`${path}.runs`, "utf8").trim().split("\n").length;
      // It refuses a flag that it gets, and knows the rest.
      const once = shell(
        "once",
        `${rewrite}; case "$*" in *--safe-mode*) echo "error: unknown option '--safe-mode'" >&2; exit 1;; esac; cat > "${dir}/in"; echo old but fine`,
      );
      const provider = createClaudeCliProvider({ cliPath: once, engine: "print", retry: false });
      expect([(await provider.invoke(hello)).content, runs(once)]).toEqual(["old but fine", 2]);
      // It refuses whatever it gets, and one flag for ever.
      const ever = shell("ever", `${rewrite}; echo "error: unknown option '--safe-mode'" >&2; exit 1`);
      const error = await failureOf(
        createClaudeCliProvider({ cliPath: ever, engine: "print", retry: false }).invoke(hello),
      );
      expect(error.code).toBe("UNSUPPORTED_FLAG");
      expect(runs(ever)).toBeLessThanOrEqual(3);
    },
  );

  it("fails with UNSUPPORTED_FLAG where the flag is the user's own", async () => {
    const cli = fakes().cli("claude", { code: 1, stderr: "error: unknown option '--mine'\n" });
    const error = await failureOf(createClaudeCliProvider({ cliPath: cli.path, extraArgs: ["--mine"] }).invoke(hello));
    expect(error).toMatchObject({ code: "UNSUPPORTED_FLAG", category: "configuration", exitCode: 1 });
    expect(error.message).toMatch(/^unknown option --mine/);
    expect(cli.calls()).toHaveLength(1);
  });
});

describe("honest failures", () => {
  it.skipIf(lacks("scripts"))(
    "tells a missing CLI, one that is not executable, a missing interpreter and a missing folder apart",
    async () => {
      const { dir, shell } = fakes();
      writeFileSync(join(dir, "plain"), "text");
      writeFileSync(join(dir, "script"), "#!/nonexistent/interpreter\n", { mode: 0o755 });
      mkdirSync(join(dir, "folder"));
      const codes = [];
      for (const options of [
        { cliPath: join(dir, "missing") },
        { cliPath: "no-such-cli-anywhere" },
        { cliPath: join(dir, "plain") },
        { cliPath: join(dir, "script") },
        { cliPath: join(dir, "folder") },
        { cliPath: shell("fine", "echo hi"), cwd: join(dir, "nowhere") },
      ]) {
        const error = await failureOf(createClaudeCliProvider(options).invoke(hello));
        expect(error.name).toBe("ProviderError");
        codes.push(error.code);
      }
      expect(codes).toEqual([
        "CLI_NOT_FOUND",
        "CLI_NOT_FOUND",
        "CLI_NOT_EXECUTABLE",
        "INTERPRETER_NOT_FOUND",
        "CLI_NOT_EXECUTABLE",
        "CWD_NOT_FOUND",
      ]);
    },
  );

  it.each([
    ["print", "~/bin/claude"],
    ["live", "~/bin/claude"],
    ["print", "/opt/~/claude"],
  ] as const)("says of a path with ~ that shells read it (%s, %s)", async (engine, cliPath) => {
    const error = await failureOf(createClaudeCliProvider({ cliPath, engine }).invoke(hello));
    expect(error.code).toBe("CLI_NOT_FOUND");
    expect(error.message).toMatch(
      /Write the whole path: `~` is for shells to read; in JavaScript it is `os\.homedir\(\)`/,
    );
  });

  it("begins with the CLI's own reason when it exits with 1", async () => {
    const cli = fakes().cli("claude", { code: 1, stderr: "the disk is on fire\n" });
    const error = await failureOf(createClaudeCliProvider({ cliPath: cli.path }).invoke(hello));
    expect(error.message).toMatch(/^the disk is on fire/);
    expect(error).toMatchObject({ exitCode: 1, stderrTail: "the disk is on fire\n" });
  });

  it("takes no error for an answer: exit 1 with text, is_error with exit 0, a cut line, silence", async () => {
    const folder = fakes();
    const result = { type: "result", subtype: "success", is_error: false, num_turns: 1, result: "fine", usage: {} };
    const line = (value: object) => `${JSON.stringify(value)}\n`;
    for (const [name, behaviour, code] of [
      ["text", { stdout: "Not logged in · Please run /login\n", code: 1 }, "NOT_LOGGED_IN"],
      ["error", { stdout: line({ ...result, is_error: true, result: "API Error: 500 boom" }) }, "SERVER_ERROR"],
      ["slash", { stdout: line({ ...result, num_turns: 0, result: "Unknown command" }) }, "PROMPT_INTERCEPTED"],
      ["cut", { stdout: line({ type: "system", subtype: "init" }) + line(result).slice(0, 60) }, "MALFORMED_RESPONSE"],
      ["silent", { stdout: "" }, "EMPTY_RESPONSE"],
      ["killed", { stdout: line({ type: "system", subtype: "init" }), signal: "SIGKILL" as const }, "CRASHED"],
    ] as const) {
      const cli = folder.cli(name, behaviour);
      const error = await failureOf(createClaudeCliProvider({ cliPath: cli.path }).invoke(hello));
      expect([name, error.code]).toEqual([name, code]);
    }
  });

  it("understands what comes with noise around it", async () => {
    const folder = fakes();
    const result = { type: "result", subtype: "success", is_error: false, num_turns: 1, result: "fine", usage: {} };
    const noise = `warning: something\n\n${JSON.stringify(result)}\nbye\n`;
    const reply = await createClaudeCliProvider({ cliPath: folder.cli("noise", { stdout: noise }).path }).invoke(hello);
    expect(reply.content).toBe("fine");
    expect(reply.response_metadata.diagnostics).toHaveLength(2);
    const array = JSON.stringify([{ type: "system", subtype: "init", session_id: "s" }, result]);
    const cli = folder.cli("array", { stdout: array });
    const json = await createClaudeCliProvider({ cliPath: cli.path, outputFormat: "json" }).invoke(hello);
    expect(json.content).toBe("fine");
  });

  it("refuses an empty prompt at once", async () => {
    const cli = fakes().cli("claude", { stdout: "never" });
    for (const messages of [[], [new HumanMessage("")], [new HumanMessage(" \n")]]) {
      const error = await failureOf(createClaudeCliProvider({ cliPath: cli.path }).invoke(messages));
      expect(error).toMatchObject({ code: "EMPTY_PROMPT", category: "validation" });
    }
    expect(cli.calls()).toEqual([]);
  });

  it("refuses a prompt that does not fit into argv, and names the limit", async () => {
    const cli = fakes().cli("claude", { stdout: "never" });
    const provider = createClaudeCliProvider({ cliPath: cli.path, promptStyle: "arg" });
    const error = await failureOf(provider.invoke(["x".repeat(200_000)]));
    expect(error.code).toBe("PROMPT_TOO_LONG");
    expect(error.message).toContain("131071");
    expect(cli.calls()).toEqual([]);
  });

  it("takes 8 MiB over standard input", async () => {
    const cli = fakes().cli("claude", { stdout: "long" });
    const text = "y".repeat(8 * 1024 * 1024);
    expect((await createClaudeCliProvider({ cliPath: cli.path }).invoke([text])).content).toBe("long");
    expect(cli.calls()[0]?.stdin.length).toBeGreaterThan(text.length);
  });
});

describe("execFileAsync", () => {
  it.skipIf(lacks("scripts"))("gives standard output, and rejects with the reason", async () => {
    const folder = fakes();
    const node = process.execPath;
    expect(await execFileAsync(node, ["-e", "console.log(process.argv[1])", "a b;$HOME"])).toBe("a b;$HOME\n");
    const bad = folder.shell("bad", "echo 'no such thing' >&2; exit 3");
    await expect(execFileAsync(bad, [], { timeout: 60_000, maxBuffer: 1024 })).rejects.toMatchObject({
      exitCode: 3,
      message: expect.stringMatching(/^no such thing/),
    });
    await expect(
      execFileAsync(node, ["-e", "console.log('x'.repeat(2000))"], { maxBuffer: 100 }),
    ).rejects.toMatchObject({
      code: "OUTPUT_LIMIT",
    });
    await expect(execFileAsync(node, ["-e", "setInterval(() => {}, 1000)"], { timeout: 300 })).rejects.toMatchObject({
      code: "TIMEOUT",
    });
    await expect(execFileAsync(node, [], { tiemout: 1 } as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});
