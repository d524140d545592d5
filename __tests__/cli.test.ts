// @change
/** The command line: what people see, what programs read, and what a shell gets as exit code. */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { HealthReport } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { EXIT_CODES } from "../src/js/cli-text.mjs";
import native from "../src/js/native.cjs";
import { CLI, runCommands, startCommand } from "./support/command-line.mjs";
import { createFakes } from "./support/fake.mjs";
import { ALL, VERSIONS, withClaude } from "./support/harness.mjs";
import { createTag, until } from "./support/processes.mjs";
import { replay } from "./support/replay.mjs";
import { lacks } from "./support/systems.mjs";

/** Without a warning that the fake is no codex. */
const PRINT = ["--engine", "print"];

function setup() {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  /** Starts the command line with the fakes, and nothing else, on its PATH. */
  const start = (
    args: string[],
    { env, ...options }: { input?: string; env?: Record<string, string | undefined>; cwd?: string } = {},
  ) => startCommand(args, { ...options, env: { PATH: fakes.dir, ...env } });
  const run = (args: string[], options?: Parameters<typeof start>[1]) => start(args, options).ended;
  /** Runs several command lines, one after the other, in one process. */
  const runAll = (calls: { args: string[]; env?: Record<string, string | undefined>; cwd?: string }[]) =>
    runCommands(calls.map(({ env, ...call }) => ({ ...call, env: { PATH: fakes.dir, ...env } })));
  return { fakes, start, run, runAll };
}

/** The results of rows that need no fake: one process runs all of them, for the first test that asks. */
function together<Row extends readonly [string[], ...unknown[]]>(rows: readonly Row[]) {
  let results: ReturnType<typeof runCommands> | undefined;
  return async (args: string[]) => {
    results ??= runCommands(rows.map(([args]) => ({ args, env: { PATH: "" } })));
    return (await results)[rows.findIndex((row) => row[0] === args)];
  };
}

const SAYS = (version: string, rest: string) => `case "$1" in --version) echo "${version}";; *) ${rest};; esac`;

const RUN_HELP = ["help", "run"];
const HELPS: [string[], string][] = [
  [["--help"], "Usage: deep-factor-providers <command> [options]"],
  [["help"], "Usage: deep-factor-providers <command> [options]"],
  [["doctor", "--help"], "Usage: deep-factor-providers doctor [provider...] [options]"],
  [["providers", "-h"], "Usage: deep-factor-providers providers [options]"],
  [RUN_HELP, 'Usage: deep-factor-providers run ["<prompt>"] [options]'],
  [["run", "--help"], 'Usage: deep-factor-providers run ["<prompt>"] [options]'],
  [["chat", "--help"], "Usage: deep-factor-providers chat [options]"],
];
const help = together(HELPS);

describe.skipIf(lacks("scripts"))("doctor", () => {
  it("is a table of what there is, and of what to do", async () => {
    const { fakes, run } = setup();
    fakes.shell("claude", SAYS("2.1.332 (Claude Code)", `echo '{"loggedIn":true}'`));
    fakes.shell("codex", SAYS("codex-cli 0.170.0", 'echo "Not logged in" >&2; exit 1'));
    fakes.shell("gemini", SAYS("0.61.0", "exit 1"));
    const google = { GEMINI_API_KEY: undefined, GOOGLE_API_KEY: undefined, GOOGLE_CLOUD_PROJECT: undefined };
    const env = { ANTHROPIC_API_KEY: "not-a-key", CLAUDE_CODE_USE_BEDROCK: undefined, ...google };
    const { code, stdout, stderr } = await run(["doctor", "claude", "codex", "gemini", "qwen"], { env });
    expect(stdout.replaceAll(fakes.dir, "<bin>")).toBe(`PROVIDER  STATUS         VERSION                 LOGGED IN  PATH
claude    ready          2.1.332                 yes        <bin>/claude
          engine: print: it is a script that does not start claude
          ! ANTHROPIC_API_KEY in the environment beats the login, silently, and is what is billed
            → unset ANTHROPIC_API_KEY, or use \`auth: "subscription"\`, which leaves it out
codex     logged out     0.170.0 (not measured)  no         <bin>/codex
          engine: print: it is a script that does not start codex
          ! version 0.170.0 was not measured; 0.169.0 was
            → it will most likely work; if a call fails with UNSUPPORTED_FLAG or MALFORMED_RESPONSE, install one that was
          ✗ codex is not logged in
            → run \`codex login\`
gemini    ready          0.61.0                  unknown    <bin>/gemini
          engine: print: it is a script that does not start gemini
          ! gemini's personal logins have ended: since 2026-06-18 Google serves API keys and companies' accounts only
            → set GEMINI_API_KEY, or log in to a company's account; one of these may be there already, which gemini does not tell
qwen      not installed  –                       –          –
          ✗ qwen is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers
            → install it with \`npm install -g @qwen-code/qwen-code\`, or set \`cliPath\`

claude: ready
codex: run \`codex login\`
gemini: ready
qwen: install it with \`npm install -g @qwen-code/qwen-code\`, or set \`cliPath\`
2 of 4 providers are ready.
All places searched: \`doctor --json\`
`);
    expect([code, stderr]).toEqual([0, ""]);
  });

  it("exits with 1 where none is ready, and tells all of them in JSON", async () => {
    const { run } = setup();
    const { code, stdout, stderr } = await run(["doctor", "--json", "--level", "command"]);
    const reports = JSON.parse(stdout);
    expect(reports.map((report: { provider: string }) => report.provider)).toEqual(
      JSON.parse(native.providers()).map(({ id }: { id: string }) => id),
    );
    expect(reports[0]).toEqual({
      provider: "claude",
      installed: false,
      searched: expect.arrayContaining(["/usr/local/bin"]),
      authenticated: "unknown",
      problems: [
        {
          code: "CLI_NOT_FOUND",
          severity: "error",
          message: "claude is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers",
          hint: "install it with `npm install -g @anthropic-ai/claude-code`, or set `cliPath`",
        },
      ],
      timingsMs: { command: expect.any(Number) },
    });
    expect([code, stderr]).toEqual([1, ""]);
  });

  it("counts the providers in words", async () => {
    const { fakes, runAll } = setup();
    fakes.cli("gemini", [{ stdout: "0.61.0" }]);
    const sums: [string[], string][] = [
      [["claude"], "0 of 1 provider is ready."],
      [["gemini"], "1 of 1 provider is ready."],
      [["claude", "qwen"], "0 of 2 providers are ready."],
      [["claude", "gemini"], "1 of 2 providers is ready."],
    ];
    const results = await runAll(sums.map(([names]) => ({ args: ["doctor", ...names, "--level", "command"] })));
    const counted = results.map(({ stdout }) => stdout.split("\n").find((line) => /^\d+ of \d+ /.test(line)));
    expect(counted).toEqual(sums.map(([, sum]) => sum));
  });

  it("starts no program of the folder it is called in, whatever the PATH", async () => {
    const { fakes, runAll } = setup();
    const ids: string[] = JSON.parse(native.providers()).map(({ id }: { id: string }) => id);
    const names = ids.map((id) => (id === "glm" ? `ax-${id}` : id));
    for (const name of names) fakes.shell(name, `touch "${fakes.dir}/$(basename "$0").ran"; echo 9.9.9`);
    const paths = ["", ".", ":", "./", `../${basename(fakes.dir)}`];
    const args = ["doctor", "--json", "--level", "auth"];
    const results = await runAll(paths.map((PATH) => ({ args, env: { PATH }, cwd: fakes.dir })));
    expect(readdirSync(fakes.dir).sort()).toEqual([...names].sort());
    for (const [at, { code, stdout }] of results.entries()) {
      const found = JSON.parse(stdout).map(({ installed, problems }: HealthReport) => ({ installed, problems }));
      expect(found, `PATH=${paths[at]}`).toEqual(
        names.map((name) => ({
          installed: false,
          problems: [
            {
              code: "CLI_NOT_FOUND",
              severity: "error",
              message: expect.stringMatching(
                `^${name} is not in any folder of the PATH: its empty and relative folders are skipped, so /.*/${name} was not taken; nor is it in \\S+ and the other places of installers$`,
              ),
              hint: "write that folder of the PATH as an absolute one, or set `cliPath` to the file",
            },
          ],
        })),
      );
      expect(code).toBe(1);
    }
  });

  it("knows whether it answers", async () => {
    const { fakes, run } = setup();
    fakes.cli("codex", [{ stdout: "codex-cli 0.169.0" }, { code: 0 }, replay("codex/err-500-json")]);
    const { code, stdout } = await run(["doctor", "codex", "--level", "request"]);
    expect(stdout.replaceAll(fakes.dir, "<bin>").split("\n").slice(0, 2)).toEqual([
      "PROVIDER  STATUS   VERSION  LOGGED IN  ANSWERS  PATH",
      "codex     failing  0.169.0  yes        no       <bin>/codex",
    ]);
    expect(code).toBe(1);
  });
});

describe("providers", () => {
  it("lists what there is", async () => {
    const { runAll } = setup();
    const [table, json] = await runAll([{ args: ["providers"] }, { args: ["providers", "--json"] }]);
    expect(table).toEqual({
      code: 0,
      stderr: "",
      stdout: `PROVIDER  COMMAND   PURE  VERSIONS MEASURED
claude    claude    yes   2.1.197, 2.1.332
codex     codex     yes   0.169.0
gemini    gemini    yes   0.61.0
qwen      qwen      yes   0.15.10, 0.24.4
glm       ax-glm    no    none
grok      grok      yes   1.0.41
opencode  opencode  yes   1.18.34
copilot   copilot   yes   1.0.102
`,
    });
    const registry: { id: string; command: string; pure: boolean; versions: string[] }[] = JSON.parse(
      native.providers(),
    );
    expect(JSON.parse(json?.stdout ?? "")).toEqual(
      registry.map(({ id, command, pure, versions }) => ({ id, command, pure, versions })),
    );
  });
});

describe.skipIf(lacks("signals", "processes"))("run", () => {
  it("takes the engine and the effort, which the provider checks", async () => {
    const [engine, effort] = await setup().runAll([
      { args: ["run", "hi", "--provider", "codex", "--engine", "warm"] },
      { args: ["run", "hi", "--provider", "glm", "--effort", "high"] },
    ]);
    expect([engine?.code, engine?.stderr]).toEqual([
      2,
      expect.stringContaining(`option "engine" can't be "warm" with codex, which takes "print", "live", "auto"`),
    ]);
    expect([effort?.code, effort?.stderr]).toEqual([
      2,
      expect.stringContaining('option "reasoning.effort" is not supported by glm'),
    ]);
  });

  it("prints the value of --schema, and says what is wrong with its file", async () => {
    const { fakes, runAll } = setup();
    const [schema, broken] = [join(fakes.dir, "schema.json"), join(fakes.dir, "broken.json")];
    writeFileSync(broken, "{");
    writeFileSync(
      schema,
      '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}',
    );
    const item = { type: "agent_message", id: "i", text: '{"n":3}' };
    const lines = [
      { type: "thread.started", thread_id: "t" },
      { type: "turn.started" },
      { type: "item.completed", item },
      { type: "turn.completed", usage: { input_tokens: 1, output_tokens: 1 } },
    ];
    fakes.shell("codex", `cat >/dev/null; ${lines.map((line) => `echo '${JSON.stringify(line)}'`).join("; ")}`);
    const words = ["run", "hi", "--provider", "codex", "--schema"];
    const [answered, wrong] = await runAll([schema, broken].map((file) => ({ args: [...words, file] })));
    expect([answered?.code, answered?.stdout]).toEqual([0, '{\n  "n": 3\n}\n']);
    expect([wrong?.code, wrong?.stderr]).toEqual([2, expect.stringContaining(`--schema ${broken} is no JSON: `)]);
  });

  it("prints the answer alone, and what goes on to standard error", async () => {
    const { fakes, run } = setup();
    const fake = fakes.cli("codex", replay("codex/success-json-stdin"));
    const { code, stdout, stderr } = await run([
      ...["run", "Say hello", "--provider", "codex", "--model", "m1"],
      ...PRINT,
    ]);
    expect([code, stdout]).toEqual([0, "Hello from the mock.\n"]);
    const [first, last] = ["codex started (pid N)\n", "codex ended after N ms\n"];
    const warning = "codex has a warning: CLI_WARNING (--stream has its text)\n";
    expect(stderr.replace(/\d+/g, "N")).toBe(first + warning + last);
    // A prompt is a text, also one that looks like a whole thread.
    const streamed = await run(["run", "<thread></thread>", "--provider", "codex", "--stream", ...PRINT]);
    expect(fake.calls().at(-1)?.stdin).toContain('iteration="0">&lt;thread>&lt;/thread></event>');
    expect([streamed.code, streamed.stdout]).toEqual([0, "Hello from the mock.\n"]);
    expect(streamed.stderr.replace(/\d+/g, "N")).toMatch(
      /^codex started \(pid N\)\nwarning: .+\ncodex ended after N ms\n$/,
    );
    expect(fake.calls()[0]?.argv).toEqual(expect.arrayContaining(["--model", "m1"]));
    expect(fake.calls()[0]?.stdin).toContain("Say hello");
  });

  it("takes standard input as the prompt, and behind one", async () => {
    const { fakes, run } = setup();
    const fake = fakes.cli("codex", replay("codex/success-json-stdin"));
    await run(["run", "--provider=codex"], { input: "  from stdin\n" });
    await run(["run", "Explain", "--provider=codex"], { input: "a < b\n" });
    const prompts = fake.calls().map(({ stdin }) => /iteration="0">(.*)<\/event>/s.exec(stdin)?.[1]);
    expect(prompts).toEqual(["from stdin", "Explain\n\na &lt; b"]);
    const empty = await run(["run", "--provider=codex"], { input: " \n" });
    expect(empty).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "deep-factor-providers: there is no prompt: give one as an argument, or over standard input " +
        "(deep-factor-providers run --help)\n",
    });
  });

  it("exits by the category of what went wrong, and tells it in JSON", async () => {
    const { fakes, runAll } = setup();
    const recorded = [
      ["codex/err-401-json", "authentication"],
      ["codex/err-429-quota-json", "quota"],
      ["codex/err-stream-failed-context-json", "validation"],
    ] as const;
    fakes.cli(
      "codex",
      recorded.flatMap(([recording]) => [replay(recording), replay(recording)]),
    );
    const args = ["run", "hi", "--provider", "codex"];
    const results = await runAll(recorded.flatMap(() => [{ args }, { args: [...args, "--json"] }]));
    for (const [at, [recording, category]] of recorded.entries()) {
      const [plain, json] = results.slice(2 * at);
      expect([plain?.code, plain?.stdout], recording).toEqual([EXIT_CODES[category], ""]);
      expect(plain?.stderr.trimEnd().split("\n").at(-1)).toMatch(/^[A-Z_]+: ./);
      expect(json?.code).toBe(EXIT_CODES[category]);
      expect(JSON.parse(json?.stdout ?? "")).toEqual({
        error: expect.objectContaining({ name: "ProviderError", category }),
      });
    }
  });

  it("has a code of its own for every category, and the help names it", async () => {
    const { categories } = JSON.parse(native.errorCodes());
    const names = categories.map(({ category }: { category: string }) => category);
    expect(Object.keys(EXIT_CODES).sort()).toEqual(names.sort());
    expect(new Set([0, 2, ...Object.values(EXIT_CODES)]).size).toBe(names.length + 2);
    const stdout = (await help(RUN_HELP))?.stdout;
    const page = readFileSync(new URL("../docs/reference/command-line.md", import.meta.url), "utf8");
    for (const [category, code] of Object.entries(EXIT_CODES)) {
      expect(stdout).toContain(`${code} ${category}`);
      expect(page).toMatch(new RegExp(`\\| ${code} +\\| .*\`${category}\``));
    }
  });

  it("is ended by --timeout", async () => {
    const { fakes, run } = setup();
    fakes.cli("codex", { hang: true });
    const { code, stderr } = await run(["run", "hi", "--provider", "codex", "--timeout", "300"]);
    expect([code, stderr.split("\n").at(-2)?.split(":")[0]]).toEqual([EXIT_CODES.timeout, "TIMEOUT"]);
  });

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("is ended by %s with all it has started", async (signal, expected) => {
    const { fakes, start } = setup();
    const tag = createTag();
    const fake = fakes.cli("codex", { hang: true, grandchild: true });
    const { child, ended } = start(["run", "hi", "--provider", "codex", ...PRINT], { env: tag.env });
    await fake.waitForCall(1);
    child.kill(signal);
    const { code, stdout, stderr } = await ended;
    expect([code, stdout, stderr.replace(/\d+/g, "N")]).toEqual([expected, "", "codex started (pid N)\n"]);
    await until(() => tag.left().length === 0);
  });

  it("is ended while it waits for its input, too", async () => {
    const child = spawn(process.execPath, [CLI, "run"], { stdio: ["pipe", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    await until(() => stderr !== "");
    child.kill("SIGINT");
    expect([await ended, stderr]).toEqual([130, "reading standard input until it ends (`</dev/null` for none)\n"]);
  });
});

describe.skipIf(lacks("links")).each(VERSIONS)("run with the real claude, %s", (which) => {
  const withReal = async (script: Parameters<typeof withClaude>[0]["script"]) => {
    const { fakes, runAll } = setup();
    const { api, options } = await withClaude({ which, script });
    symlinkSync(options.cliPath, join(fakes.dir, "claude"));
    return { api, runAll: (...all: string[][]) => runAll(all.map((args) => ({ args, env: options.env }))) };
  };

  // What it prints of a text that has come, whole and in pieces, it prints of every CLI's: above, and in cli/run.test.ts of an API's.
  it("prints the whole reply, and streams events", async () => {
    const chunks = ["Hel", "lo ", "there."];
    const { api, runAll } = await withReal([{ text: "Hello." }, { chunks }]);
    const [json, streamed] = await runAll(
      ["run", "Say hello", "--json", "--model", "sonnet", "--system-prompt", "Be brief."],
      ["run", "Say hello", "--stream", "--json"],
    );
    expect(JSON.stringify(api.requests[0]?.body.system)).toContain("Be brief.");
    expect(JSON.parse(json?.stdout ?? "")).toMatchObject({
      type: "ai",
      content: "Hello.",
      usage_metadata: { output_tokens: expect.any(Number) },
      response_metadata: { provider: "claude" },
    });
    const events = (streamed?.stdout ?? "")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect([events[0].type, events.at(-1).type, events.at(-1).reply.content]).toEqual([
      "start",
      "done",
      "Hello there.",
    ]);
    expect(events.flatMap((event) => (event.type === "text_delta" ? [event.text] : [])).join("")).toBe("Hello there.");
  });

  it.runIf(ALL)("prints the answer, at once or in pieces", async () => {
    const { runAll } = await withReal([{ text: "Hello." }, { chunks: ["Hel", "lo ", "there."] }]);
    const results = await runAll(["run", "Say hello", "--model", "sonnet"], ["run", "Say hello", "--stream"]);
    expect(results.map(({ code, stdout }) => [code, stdout])).toEqual([
      [0, "Hello.\n"],
      [0, "Hello there.\n"],
    ]);
  });
});

describe("a wrong command line", () => {
  const rows: [string[], string | RegExp][] = [
    [[], "there is no command: doctor, providers, run, chat, serve, suite, status, log, completions"],
    [
      ["docter"],
      'unknown command "docter": did you mean doctor? there are doctor, providers, run, chat, serve, suite, status, log, completions',
    ],
    [
      ["--nope"],
      'unknown option "--nope": there are doctor, providers, run, chat, serve, suite, status, log, completions',
    ],
    [["doctor", "--nope"], "unknown option '--nope' (deep-factor-providers doctor --help)"],
    [
      ["doctor", "nobody"],
      'unknown provider "nobody": there are claude, codex, gemini, qwen, glm, grok, opencode, copilot (deep-factor-providers doctor --help)',
    ],
    [
      ["doctor", "--level", "deep"],
      '--level must be command, version, auth, request, not "deep" (deep-factor-providers doctor --help)',
    ],
    [["providers", "x"], 'unexpected argument "x" (deep-factor-providers providers --help)'],
    [["run", "a", "b"], 'unexpected argument "b": put the prompt in quotes (deep-factor-providers run --help)'],
    [
      ["run", "a", "--timeout", "soon"],
      '--timeout must be a number of milliseconds, not "soon" (deep-factor-providers run --help)',
    ],
    [["run", "a", "--model"], "--model has no value: write --model VALUE (deep-factor-providers run --help)"],
    [
      ["run", "a", "--provider", "glm", "--system-prompt", "x"],
      /^unknown option "systemPrompt".* \(deep-factor-providers run --help\)$/,
    ],
  ];
  const wrong = together(rows);
  it.each(rows)("%j is one line and exit code 2", async (args, expected) => {
    const { code, stdout = "", stderr = "" } = (await wrong(args)) ?? {};
    expect([code, stdout, stderr.split("\n").length]).toEqual([2, "", 2]);
    const line = stderr.trimEnd().replace(/^deep-factor-providers: /, "");
    if (typeof expected === "string") expect(line).toBe(expected);
    else expect(line).toMatch(expected);
  });
});

describe("help", () => {
  it.each(HELPS)("%j", async (args, expected) => {
    const { code, stdout = "", stderr } = (await help(args)) ?? {};
    expect([code, stderr, stdout.split("\n")[2]]).toEqual([0, "", expected]);
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(120);
  });

  it("and the version, and what a shell gets", async () => {
    const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
    const { run } = setup();
    expect(await run(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
    // The others are evaluated in one process: what they come to is the same in a process of its own.
    expect(await run(["--nope"])).toMatchObject({ code: 2, stdout: "", stderr: expect.stringMatching(/^.+\n$/) });
  });
});
