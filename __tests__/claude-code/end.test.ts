// @change
/** Runs that do not end by themselves, or not well: nothing is left of them, and what there was is kept. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  ClaudeCodeAdapter,
  createClaudeCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  runAgent,
} from "deep-factor-providers";
import { beforeAll, describe, expect, it } from "vitest";
import { createWorkspace, logOf, use, withAdapter } from "../support/claude-code.mjs";
import { ALL, VERSIONS } from "../support/harness.mjs";
import { createTag, createTemp, fakeCli, fakeOptions, READY, type Step, says, until } from "../support/processes.mjs";
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
      { fill: { to: "stdout", bytes: (ALL ? 64 : 12) * MiB } },
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

/** A CLI that does not exit after its last word: its answer is whole, and settles when the grace is over. */
describe("a CLI that lingers", () => {
  beforeAll(() => void fakeCli(), 600_000);

  const RECORDINGS = fileURLToPath(new URL("../fixtures/recordings/", import.meta.url));
  const IGNORES_TERM: Step = { onSignal: { TERM: [], INT: [], HUP: [] } };

  /** A whole answer that a real CLI has printed, and who reads it. */
  const ANSWERS = {
    "claude/success-stream-json": createClaudeCliProvider,
    "claude/success-stream-json-partial": createClaudeCliProvider,
    "claude-2.1.330/success-stream-json": createClaudeCliProvider,
    "claude/success-json": (options: object) => createClaudeCliProvider({ ...options, outputFormat: "json" }),
    "claude-2.1.330/success-json": (options: object) => createClaudeCliProvider({ ...options, outputFormat: "json" }),
    "codex/success-json-stdin": createCodexCliProvider,
    "gemini/success-stream-json": createGeminiCliProvider,
    "gemini/success-json": (options: object) => createGeminiCliProvider({ ...options, outputFormat: "json" }),
    "qwen/success-stream-json": createQwenCliProvider,
    "qwen/success-json": (options: object) => createQwenCliProvider({ ...options, outputFormat: "json" }),
    "opencode/success-json-argv": createOpenCodeCliProvider,
  } as const;

  /** What it does after it. */
  const LINGERS: Record<string, Step[]> = {
    "does nothing": ["forever"],
    "closes its output": ["closeStdout", "closeStderr", "forever"],
    "leaves its output to a grandchild that ignores SIGTERM": [
      { spawn: { steps: [IGNORES_TERM, "forever"] } },
      "forever",
    ],
    "prints something that is no answer": [{ out: "bye\n" }, { err: "bye\n" }, "forever"],
  };

  function fake(name: Name, before: Step[], after: Step[], options: object = {}) {
    const tag = createTag();
    const steps = [...before, { cat: join(RECORDINGS, `${name}.stdout`) }, ...after];
    const provider = ANSWERS[name]({ ...fakeOptions(tag, steps), killGrace: 300, maxConcurrency: 12, ...options });
    return { tag, provider };
  }

  /** Everything of a reply but what is different in each run. */
  function comparable(reply: unknown) {
    const { id: _id, response_metadata: meta, ...rest } = JSON.parse(JSON.stringify(reply)).kwargs ?? reply;
    const { run: _run, diagnostics: _diagnostics, ...others } = meta;
    return { ...rest, response_metadata: others };
  }

  type Name = keyof typeof ANSWERS;

  /** What `ask` gives of every answer, all at once. */
  async function each<T>(ask: (name: Name) => Promise<T>): Promise<Record<string, T>> {
    const entries = (Object.keys(ANSWERS) as Name[]).map(async (name) => [name, await ask(name)] as const);
    return Object.fromEntries(await Promise.all(entries));
  }

  /** The replies of CLIs that exit. */
  let whole: Promise<Record<string, unknown>> | undefined;
  function expected() {
    whole ??= each(async (name) => comparable(await fake(name, [], []).provider.invoke(["x"])));
    return whole;
  }

  describe.skipIf(lacks("signals"))("after a whole answer", { timeout: 60_000 }, () => {
    it.each(Object.entries(LINGERS))(
      "a CLI that %s: the reply is the same, and close() leaves nothing",
      async (_, after) => {
        const replies = await each(async (name) => {
          const { tag, provider } = fake(name, [], after);
          const reply = comparable(await provider.invoke(["x"]));
          await provider.close();
          expect(tag.left()).toEqual([]);
          return reply;
        });
        expect(replies).toEqual(await expected());
      },
    );

    it("a CLI that ignores SIGTERM: the answer is the same from stream() and runAgent(), and close() leaves nothing", async () => {
      const replies = await expected();
      await each(async (name) => {
        const { tag, provider } = fake(name, [IGNORES_TERM], ["forever"]);
        const { content } = replies[name] as { content: string };
        let streamed: unknown;
        for await (const event of provider.stream(["x"])) if (event.type === "done") streamed = event.reply.content;
        const agent = await runAgent({ provider, prompt: "x", tools: [] }).result;
        await provider.close();
        expect({ name, streamed, status: agent.status, output: agent.output, left: tag.left() }).toEqual({
          name,
          streamed: content,
          status: "completed",
          output: content,
          left: [],
        });
      });
    });

    it("a limit of time that passes within the grace ends nothing", async () => {
      const limits = { timeout: 8_000, idleTimeout: 8_000, killGrace: 9_000 };
      const replies = await each(async (name) =>
        comparable(await fake(name, [], ["forever"], limits).provider.invoke(["x"])),
      );
      expect(replies).toEqual(await expected());
    });

    it("an exit with another code than 0 within the grace still counts", async () => {
      const breaks: Step[] = [{ sleep: 100 }, { err: "it broke\n" }, { exit: 3 }];
      const errors = await each((name) => {
        const { provider } = fake(name, [], breaks, { killGrace: 60_000, retry: false });
        return provider.invoke(["x"]).then(
          () => "no error",
          ({ name, exitCode }) => `${name} ${exitCode}`,
        );
      });
      expect(new Set(Object.values(errors))).toEqual(new Set(["ProviderError 3"]));
    });

    it("an abort within the grace is an abort", async () => {
      const errors = await each(async (name) => {
        const temp = createTemp();
        const flag: Step = { writeFile: { path: join(temp.path, "whole"), text: "" } };
        const { tag, provider } = fake(name, [], [flag, "forever"], { killGrace: 50_000 });
        const controller = new AbortController();
        const call = provider.invoke(["x"], { signal: controller.signal }).catch((error) => error.message);
        await until(() => temp.entries().includes("whole"));
        controller.abort(new Error("enough"));
        const error = await call;
        temp.cleanup();
        return { error, left: tag.left() };
      });
      expect(Object.values(errors)).toEqual(Object.keys(ANSWERS).map(() => ({ error: "enough", left: [] })));
    });
  });

  describe.skipIf(lacks("signals"))("output without its last word", () => {
    it.skipIf(lacks("processes"))("is no answer: a time limit ends it as before", async () => {
      const tag = createTag();
      const options = {
        ...fakeOptions(tag, [READY, says("half"), "forever"]),
        killGrace: 100,
        timeout: 1_500,
        retry: false,
      } as const;
      await expect(createClaudeCliProvider(options).invoke(["x"])).rejects.toMatchObject({
        code: "TIMEOUT",
        partial: { text: "half" },
      });
      expect(tag.left()).toEqual([]);
    });

    it.skipIf(lacks("processes"))(
      "is no answer either where the last word comes only when the time is over",
      async () => {
        const tag = createTag();
        const late: Step = { onSignal: { TERM: [{ claude: { text: "late" } }, { exit: 0 }] } };
        const options = {
          ...fakeOptions(tag, [late, READY, "forever"]),
          killGrace: 20_000,
          timeout: 1_500,
          retry: false,
        } as const;
        await expect(createClaudeCliProvider(options).invoke(["x"])).rejects.toMatchObject({ code: "TIMEOUT" });
        expect(tag.left()).toEqual([]);
      },
    );

    it.skipIf(lacks("processes"))("of text stays a timeout: nothing in it says that no more will come", async () => {
      const options = {
        ...fakeOptions(createTag(), [{ out: "an answer\n" }, "forever"]),
        timeout: 1_500,
        killGrace: 100,
      };
      const call = createClaudeCliProvider({ ...options, outputFormat: "text" }).invoke(["x"]);
      await expect(call).rejects.toMatchObject({ code: "TIMEOUT" });
    });
  });

  describe.skipIf(lacks("signals"))("the Claude Code adapter", () => {
    it.skipIf(lacks("processes")).each(["claude/success-stream-json", "claude-2.1.330/success-stream-json"])(
      "has the answer of %s, exit code 0 and no signal, and leaves nothing",
      async (name) => {
        const tag = createTag();
        const answer = { cat: join(RECORDINGS, `${name}.stdout`) };
        const run = async (steps: Step[]) => {
          const adapter = new ClaudeCodeAdapter({ ...fakeOptions(tag, steps), killGrace: 300 });
          const context = { workspaceDir: createWorkspace(), config: { prompt: "x" }, timeout: 60_000 };
          const result = await adapter.execute(context);
          logOf(adapter, result, context);
          const { startedAt: _s, completedAt: _c, durationMs: _d, ...facts } = result;
          return facts;
        };
        const exits = await run([answer]);
        expect(exits).toMatchObject({ status: "success", exitCode: 0, timedOut: false });
        expect(
          await run([IGNORES_TERM, answer, { spawn: { steps: ["setsid", IGNORES_TERM, "forever"] } }, "forever"]),
        ).toEqual(exits);
        expect(tag.left()).toEqual([]);
      },
    );
  });
});
