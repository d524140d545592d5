// @change
/** Runs that do not end by themselves, or not well: nothing is left of them, and what there was is kept. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ClaudeCodeAdapter } from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { createWorkspace, logOf, use, withAdapter } from "../support/claude-code.mjs";
import { ALL, VERSIONS } from "../support/harness.mjs";
import { createTag, fakeCli, fakeOptions, READY, type Step, says } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const MiB = 1024 * 1024;

function fake(steps: Step[], options: object = {}) {
  const tag = createTag();
  const adapter = new ClaudeCodeAdapter({ ...fakeOptions(tag, steps), ...options });
  const workspaceDir = createWorkspace();
  return {
    tag,
    adapter,
    workspaceDir,
    async run(more: object = {}) {
      const context = { workspaceDir, config: { prompt: "x" }, ...more };
      const result = await adapter.execute(context);
      return { result, log: logOf(adapter, result, context) };
    },
  };
}

describe.skipIf(lacks("signals")).each(VERSIONS)("the real claude, %s, in the middle of a tool", (which) => {
  const sleeping = (workspace: string) => ({
    content: [
      // `&&`: where the CLI ends the tool itself, it may end `sleep` before the shell, which then goes on.
      use("t1", "Bash", {
        command: `touch ${join(workspace, "started")}; sleep 300 && touch ${join(workspace, "woke")}`,
      }),
    ],
  });

  // It sits its time out. Every day, the abort below ends the real CLI, and the time limits further down a made-up one.
  it.runIf(process.env.TEST_ALL)("is ended by its timeout, with the shell in a session of its own", async () => {
    const tag = createTag();
    const artifactsDir = createWorkspace();
    const { workspace, run } = await withAdapter({
      which,
      env: tag.env,
      script: () => sleeping(workspace),
      options: { killGrace: 500 },
    });
    const { result, log } = await run(
      { prompt: "x", permission_mode: "auto", allowed_tools: ["Bash"] },
      { timeout: 15_000, artifactsDir },
    );
    expect(existsSync(join(workspace, "started"))).toBe(true);
    expect(result).toMatchObject({ status: "timeout", timedOut: true, errors: [{ code: "CLAUDE_TIMEOUT" }] });
    expect(result.durationMs).toBeGreaterThanOrEqual(15_000);
    expect(tag.left()).toEqual([]);
    expect(readFileSync(result.artifacts?.stdout ?? "", "utf8")).toBe(result.output);
    expect(existsSync(join(workspace, "woke"))).toBe(false);
    // It may still have said that the shell was ended (CLI-FACTS 1.9).
    expect(log.tool_calls[0]).toMatchObject({ id: "t1", name: "Bash" });
    expect(log.model_info.name).toMatch(/^claude-/);
  });

  it.skipIf(lacks("processes"))("is ended by an abort, which rejects when nothing is left", async () => {
    const tag = createTag();
    const artifactsDir = createWorkspace();
    const { workspace, run } = await withAdapter({ which, env: tag.env, script: () => sleeping(workspace) });
    const controller = new AbortController();
    const running = run(
      { prompt: "x", permission_mode: "auto", allowed_tools: ["Bash"] },
      { signal: controller.signal, artifactsDir, timeout: 0 },
    );
    await expect.poll(() => existsSync(join(workspace, "started")), { timeout: 60_000 }).toBe(true);
    expect(tag.left().length).toBeGreaterThan(1);
    controller.abort(new Error("enough"));
    await expect(running).rejects.toThrow("enough");
    expect(tag.left()).toEqual([]);
    expect(readFileSync(join(artifactsDir, "stdout.log"), "utf8")).toContain("sleep 300");
  });
});

describe.skipIf(lacks("signals"))("a CLI", () => {
  it("that prints 12 MiB is heard to its end: its last word counts, both ends are kept, the file has it all", async () => {
    const artifactsDir = createWorkspace();
    const { run } = fake([
      READY,
      says("begin", "m1"),
      { fill: { to: "stdout", bytes: 12 * MiB } },
      { claude: { text: "end" } },
    ]);
    const { result, log } = await run({ artifactsDir });
    expect(result).toMatchObject({
      status: "success",
      answer: "end",
      truncated: true,
      errors: [{ code: "CLAUDE_OUTPUT_TRUNCATED" }],
    });
    expect(result.output.length).toBeLessThanOrEqual(10 * MiB);
    expect(result.output.match(/\[OUTPUT TRUNCATED: \d+ of \d+ bytes left out\]/g)).toHaveLength(1);
    const whole = readFileSync(join(artifactsDir, "stdout.log"), "utf8");
    expect(whole.length).toBeGreaterThan(12 * MiB);
    expect(whole.startsWith(result.output.slice(0, MiB))).toBe(true);
    expect(whole.endsWith(result.output.slice(-MiB))).toBe(true);
    expect(log.execution.truncated).toBe(true);
    expect(log.messages.map(({ content }) => content)).toEqual(["x", "begin", "end"]);
    expect(log.errors.map(({ code }) => code)).toEqual(["CLAUDE_OUTPUT_TRUNCATED"]);
  });

  it("that prints without end is ended by its timeout, its output bounded", async () => {
    const { run, tag } = fake([
      READY,
      { fill: { to: "stdout", bytes: (ALL ? 64 : 24) * MiB } },
      { fill: { to: "stderr", bytes: MiB } },
      "forever",
    ]);
    const { result } = await run({ timeout: 8_000 });
    expect(result).toMatchObject({ status: "timeout", truncated: true });
    expect(result.output.length).toBeLessThan(11 * MiB);
    expect(result.stderr.length).toBeLessThan(64 * 1024);
    expect(tag.left()).toEqual([]);
  });

  it("that ignores SIGTERM and leaves a child behind is gone when its result comes", async () => {
    const steps: Step[] = [
      { onSignal: { TERM: [] } },
      { spawn: { steps: ["setsid", { onSignal: { TERM: [] } }, "forever"], stdio: "null" } },
      READY,
      says("so far"),
      "forever",
    ];
    const { run, tag } = fake(steps, { killGrace: 200 });
    const { result, log } = await run({ timeout: 1_500 });
    expect(result).toMatchObject({ status: "timeout", exitCode: 137, signal: "SIGKILL", timedOut: true });
    expect(log.messages.at(-1)?.content).toBe("so far");
    expect(tag.left()).toEqual([]);
  });

  it("that succeeds and leaves a child behind leaves none", async () => {
    const steps: Step[] = [
      { spawn: { steps: ["setsid", "forever"], stdio: "null" } },
      READY,
      { claude: { text: "Hi" } },
    ];
    const { run, tag } = fake(steps, { killGrace: 200 });
    const { result } = await run();
    expect(result).toMatchObject({ status: "success", answer: "Hi" });
    expect(tag.left()).toEqual([]);
  });

  it.each([
    [
      "dies of a signal",
      [READY, { kill: "KILL" }],
      { exitCode: 137, signal: "SIGKILL", errors: [{ code: "CRASHED" }] },
    ],
    [
      "exits with 3",
      [{ err: "the disk is on fire\n" }, { exit: 3 }],
      { exitCode: 3, stderr: "the disk is on fire\n", output: "the disk is on fire\n" },
    ],
    ["says nothing and exits with 0", [], { exitCode: 1, errors: [{ code: "EMPTY_RESPONSE" }] }],
    ["fails and exits with 0", [READY, { claude: { text: "no", result: { is_error: true } } }], { exitCode: 1 }],
  ] as [string, Step[], object][])("that %s is a failed run with what it said", async (_, steps, expected) => {
    const { run } = fake(steps);
    const { result, log } = await run();
    expect(result).toMatchObject({ status: "failed", ...expected });
    expect(result.errors).toHaveLength(1);
    expect(log.errors).toEqual(result.errors);
  });

  it("that is asked for more than may run at once waits, and its time does not begin before", async () => {
    const { run } = fake([READY, { sleep: 700 }, { claude: { text: "Hi" } }], { maxConcurrency: 1 });
    const results = await Promise.all([run({ timeout: 30_000 }), run({ timeout: 30_000 })]);
    const [first, second] = results.map(({ result }) => result).sort((a, b) => a.startedAt.localeCompare(b.startedAt));
    expect([first?.status, second?.status]).toEqual(["success", "success"]);
    // Each is rounded to the millisecond by itself.
    expect(Date.parse(second?.startedAt ?? "")).toBeGreaterThanOrEqual(Date.parse(first?.startedAt ?? "") + 700 - 1);
  });

  it.skipIf(lacks("links"))("whose artifacts are links somewhere else does not write there", async () => {
    const { run, workspaceDir } = fake([READY, { claude: { text: "Hi" } }]);
    const artifactsDir = join(workspaceDir, "out");
    const victim = join(createWorkspace({ victim: "untouched" }), "victim");
    mkdirSync(artifactsDir);
    for (const name of ["stdout.log", "events.jsonl"]) symlinkSync(victim, join(artifactsDir, name));
    writeFileSync(join(artifactsDir, "stderr.log"), "of an earlier run");
    const { result } = await run({ artifactsDir });
    expect(readFileSync(victim, "utf8")).toBe("untouched");
    expect(readFileSync(join(artifactsDir, "stdout.log"), "utf8")).toBe(result.output);
    expect(readFileSync(join(artifactsDir, "stderr.log"), "utf8")).toBe("");
  });
});

it("a CLI that is missing is a failed run, and not available", async () => {
  const context = { workspaceDir: createWorkspace(), config: { prompt: "x" } };
  for (const [cliPath, exitCode] of [
    ["no-such-cli-anywhere", 127],
    [join(context.workspaceDir, "nowhere"), 127],
    [context.workspaceDir, 126],
  ] as const) {
    const adapter = new ClaudeCodeAdapter({ cliPath });
    expect(await adapter.checkAvailability()).toBe(false);
    const result = await adapter.execute(context);
    expect(result).toMatchObject({
      status: "failed",
      exitCode,
      output: "",
      errors: [{ code: "CLAUDE_CLI_NOT_FOUND" }],
    });
    expect(logOf(adapter, result, context).agent_info.version).toBe("unknown");
  }
});

it.skipIf(lacks("processes"))("a CLI is available if it says its version", async () => {
  const available = (when: Step[]) => {
    const options = fakeOptions(createTag(), { when: { "--version": when }, else: [{ exit: 1 }] });
    return new ClaudeCodeAdapter(options).checkAvailability();
  };
  expect(await available([{ out: "2.1.330 (Claude Code)\n" }])).toBe(true);
  expect(await available([{ out: "no idea\n" }])).toBe(false);
  expect(await available([{ exit: 1 }])).toBe(false);
});
