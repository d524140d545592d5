/** What is refused before anything is started: one error, every violation by field. The rules themselves: src/agent/claude_code/tests. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type AgentExecutionContext,
  ClaudeCodeAdapter,
  type ClaudeCodeAdapterOptions,
  claudeCodeConfigSchema,
  claudeCodeConfigZod,
  claudeCodeConstants,
  getAgentAdapter,
  ProviderError,
  runLogSchema,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { z as zod3 } from "zod3";
import { createWorkspace } from "../support/claude-code.mjs";
import { createFakes } from "../support/fake.mjs";
import { lacks } from "../support/systems.mjs";

/** An adapter over a CLI that must not be started. */
function never(options: ClaudeCodeAdapterOptions = {}) {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const cli = fakes.cli("claude", { stdout: "never" });
  const adapter = new ClaudeCodeAdapter({ cliPath: cli.path, ...options });
  return async (context: unknown) => {
    const error = await adapter.execute(context as AgentExecutionContext).then(
      () => expect.fail("it was not refused"),
      (error) => error,
    );
    expect(error).toBeInstanceOf(ProviderError);
    expect(cli.calls()).toEqual([]);
    return error as ProviderError;
  };
}

/** What is wrong, by field. */
const told = ({ code, problems }: ProviderError) => {
  expect(code).toBe("CLAUDE_INVALID_CONFIG");
  return Object.fromEntries((problems ?? []).map(({ field, message }) => [field, message]));
};

it("every violation at once, in the message and by field", async () => {
  const error = await never()({
    workspaceDir: "relative",
    timeout: "10s",
    env: { A: 1 },
    maxTurns: 3,
    config: {
      prompt: "x",
      prompt_file: "../p.md",
      agent_name: "a b",
      model: "--help",
      append_system_prompt: "a".repeat(10_001),
      permission_mode: "bypassPermissions",
      allowed_tools: ["Read", "Bash()", () => {}],
      system_prompt: 7,
      max_tokens: 0,
      temperature: Number.NaN,
      promptFile: "p.md",
    },
  });
  expect(told(error)).toEqual({
    workspaceDir: 'must be an absolute path; given: "relative"',
    timeout: 'must be a whole number of ms from 0 to 2147483647; given: "10s"',
    env: expect.stringContaining("an object of strings"),
    maxTurns: "there is no such field; allowed: workspaceDir, repoDir, artifactsDir, config, timeout, env",
    promptFile: 'there is no such field: did you mean "prompt_file"?',
    prompt_file: expect.stringContaining('given: "../p.md"'),
    prompt: "exactly one of prompt and prompt_file must be given; given: both",
    agent_name: expect.stringContaining('given: "a b"'),
    model: expect.stringContaining('given: "--help"'),
    append_system_prompt: "must be a string of at most 10000 characters; given: a string of 10001 characters",
    permission_mode: 'must be one of "auto", "plan", "ask"; given: "bypassPermissions"',
    "allowed_tools[1]": expect.stringContaining('given: "Bash()"'),
    "allowed_tools[2]": expect.stringContaining("given: a function"),
    system_prompt: expect.stringContaining("given: 7"),
    max_tokens: "must be a whole number from 1 to 200000; given: 0",
    temperature: "must be a number from 0 to 1; given: NaN",
  });
  expect(error.message).toMatch(/^16 problems: .*workspaceDir must be an absolute path/);
  expect(error.message.length).toBeLessThanOrEqual(480);
  expect(error).toMatchObject({ category: "configuration", shouldRetry: false, attempts: 0 });
  expect(new ProviderError(JSON.parse(JSON.stringify(error))).problems).toEqual(error.problems);
});

it("a key that is undefined was not given", async () => {
  const error = await never()({
    workspaceDir: createWorkspace(),
    repoDir: undefined,
    config: { prompt: undefined, model: undefined },
  });
  expect(told(error)).toEqual({ prompt: "exactly one of prompt and prompt_file must be given; given: neither" });
});

describe.skipIf(lacks("devices", "links"))("a prompt_file", () => {
  const outside = () => createWorkspace({ "secret.md": "a secret" });
  const cases: [string, string, (dir: string) => void, RegExp][] = [
    ["is not there", "p.md", () => {}, /there is no "p.md"/],
    ["is a folder", "p.md", (dir) => mkdirSync(join(dir, "p.md")), /regular file/],
    [
      "is a link out of the workspace",
      "p.md",
      (dir) => symlinkSync(join(outside(), "secret.md"), join(dir, "p.md")),
      /leads out/,
    ],
    [
      "is below a link out of the workspace",
      "l/secret.md",
      (dir) => symlinkSync(outside(), join(dir, "l")),
      /leads out/,
    ],
    ["is a link to nothing", "p.md", (dir) => symlinkSync(join(dir, "nowhere"), join(dir, "p.md")), /there is no/],
    ["is a link to itself", "p.md", (dir) => symlinkSync("p.md", join(dir, "p.md")), /can't be read/],
    ["is a device over a link", "p.md", (dir) => symlinkSync("/dev/zero", join(dir, "p.md")), /leads out/],
    ["goes up", "sub/../../p.md", () => {}, /without ".."/],
    ["is absolute", "/etc/passwd", () => {}, /relative to the workspace/],
    ["is empty", "p.md", (dir) => writeFileSync(join(dir, "p.md"), " \n"), /is empty/],
    ["is no text", "p.md", (dir) => writeFileSync(join(dir, "p.md"), Buffer.from([0x50, 0xff, 0xfe])), /UTF-8/],
    [
      "is too long",
      "p.md",
      (dir) => writeFileSync(join(dir, "p.md"), "ä".repeat(1_000_001)),
      /at most 1000000 characters/,
    ],
    [
      "is far too long",
      "p.md",
      (dir) => writeFileSync(join(dir, "p.md"), Buffer.alloc(5_000_000, 97)),
      /at most 1000000/,
    ],
  ];
  it.each(cases)("that %s is refused", async (_, path, make, reason) => {
    const workspaceDir = createWorkspace();
    make(workspaceDir);
    const error = await never()({ workspaceDir, config: { prompt_file: path } });
    expect(told(error)).toEqual({ prompt_file: expect.stringMatching(reason) });
    expect(JSON.stringify(error)).not.toContain("a secret");
  });

  it("that is a pipe nobody writes to is refused, and not waited for", async () => {
    const workspaceDir = createWorkspace();
    execFileSync("mkfifo", [join(workspaceDir, "p.md")]);
    const error = await never()({ workspaceDir, config: { prompt_file: "p.md" } });
    expect(told(error)).toEqual({ prompt_file: expect.stringMatching(/regular file/) });
  });
});

describe("a folder", () => {
  it("that is missing, or a file, is refused", async () => {
    const dir = createWorkspace({ file: "" });
    const config = { prompt: "x" };
    const refused = never({ saveLog: true });
    expect(told(await refused({ workspaceDir: join(dir, "nowhere"), repoDir: join(dir, "file"), config }))).toEqual({
      workspaceDir: "does not exist",
      repoDir: "is not a folder",
      artifactsDir: "is missing: saveLog needs a folder to save to",
    });
    expect(told(await refused({ workspaceDir: join(dir, "file"), artifactsDir: dir, config }))).toEqual({
      workspaceDir: "is not a folder",
    });
    expect(readdirSync(dir)).toEqual(["file"]);
    const artifactsDir = join(dir, "file", "below");
    expect(told(await refused({ workspaceDir: dir, artifactsDir, config }))).toEqual({
      artifactsDir: expect.stringMatching(/^can't be written to: /),
    });
  });

  // Nothing is unreadable to root.
  it.skipIf(lacks("modes") || process.getuid?.() === 0)("that can't be read is refused", async () => {
    const workspaceDir = createWorkspace();
    chmodSync(workspaceDir, 0o300);
    onTestFinished(() => chmodSync(workspaceDir, 0o700));
    expect(told(await never()({ workspaceDir, config: { prompt: "x" } }))).toEqual({
      workspaceDir: expect.stringMatching(/^can't be read/),
    });
  });
});

it("misuse is told at once: options, contexts, signals and results that are none", async () => {
  expect(() => new ClaudeCodeAdapter({ cliPth: "x" } as never)).toThrow(/did you mean "cliPath"/);
  expect(() => new ClaudeCodeAdapter({ model: "sonnet" } as never)).toThrow(/unknown option "model"/);
  const adapter = new ClaudeCodeAdapter();
  expect([adapter.name, adapter.version]).toEqual(["claude-code", "1.0.0"]);
  const refused = never();
  for (const context of [undefined, null, 7, []]) expect((await refused(context)).code).toBe("INVALID_OPTION");
  const context = { workspaceDir: createWorkspace(), config: { prompt: "x" } };
  expect((await refused({ ...context, signal: {} })).message).toMatch(/signal must be an AbortSignal/);
  const reason = new Error("before");
  await expect(adapter.execute({ ...context, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  for (const result of [null, {}, { exitCode: 0 }]) {
    expect(() => adapter.normalizeLog(result as never, context)).toThrow(ProviderError);
  }
});

it("the exported schemas are the published ones", () => {
  for (const [schema, name] of [
    [claudeCodeConfigSchema, "claude-code-config"],
    [runLogSchema, "run-log"],
  ] as const) {
    const url = new URL(`../../docs/schemas/${name}.schema.json`, import.meta.url);
    expect(schema).toEqual(JSON.parse(readFileSync(url, "utf8")));
  }
});

it("is had by the names of the data model", () => {
  const adapter = getAgentAdapter("claude-code", { saveLog: true });
  expect([adapter instanceof ClaudeCodeAdapter, adapter.name]).toEqual([
    true,
    `${claudeCodeConstants.CLAUDE_CLI_COMMAND}-code`,
  ]);
  expect(() => getAgentAdapter("codex" as never)).toThrow(
    'there is no adapter the string "codex": there is "claude-code"',
  );
  const { DEFAULT_TIMEOUT_MS, MAX_OUTPUT_SIZE, ERROR_CODES, MODEL_PATTERN } = claudeCodeConstants;
  expect([DEFAULT_TIMEOUT_MS, MAX_OUTPUT_SIZE, ERROR_CODES.TIMEOUT]).toEqual([300_000, 10_485_760, "CLAUDE_TIMEOUT"]);
  expect(MODEL_PATTERN.exec("Model: claude-opus-5")?.[1]).toBe("claude-opus-5");
});

it.each([
  ["4", z],
  ["3", zod3],
])("has its schema by zod %s, which takes what the adapter takes", async (_, zod) => {
  const schema = claudeCodeConfigZod(zod);
  const config = {
    prompt: "Go.",
    model: "sonnet",
    permission_mode: "plan",
    allowed_tools: ["Read"],
    max_tokens: 9,
    temperature: 1,
  };
  expect(schema.parse(config)).toEqual(config);
  const refuses = never();
  for (const wrong of [
    {},
    { prompt: "x", prompt_file: "p.md" },
    { prompt: " " },
    { prompt_file: "../p.md" },
    { prompt_file: "/p.md" },
    { prompt: "x", agent_name: "a b" },
    { prompt: "x", model: "--help" },
    { prompt: "x", permission_mode: "bypassPermissions" },
    { prompt: "x", max_tokens: 0 },
    { prompt: "x", temperature: 2 },
    { prompt: "x", promptFile: "p.md" },
  ]) {
    expect([wrong, schema.safeParse(wrong).success]).toEqual([wrong, false]);
    expect((await refuses({ workspaceDir: createWorkspace(), config: wrong, timeout: 0 })).code).toBe(
      "CLAUDE_INVALID_CONFIG",
    );
  }
});
