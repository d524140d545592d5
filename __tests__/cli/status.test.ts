/** `status`: what goes on in another program, what was left over, what logs say was used; and the screen of it all. */
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { statusText } from "../../src/js/cli/status.mjs";
import { painter, USAGE_CODE } from "../../src/js/cli-text.mjs";
import { HERE } from "../clis/real.js";
import { CLI, runCommand, runCommands } from "../support/command-line.mjs";
import { sampleOf, withClaude, withCli } from "../support/harness.mjs";
import { createTemp, exists, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";
import { HAS_TMUX, openTerminal } from "../support/terminal.mjs";

/** A program that asks a live CLI once, and keeps its session until its input ends. */
const PROGRAM = `
import { createClaudeCliProvider, createCodexCliProvider, limits } from "deep-factor-providers";
const [name, options] = JSON.parse(process.argv.at(-1));
const provider = (name === "codex" ? createCodexCliProvider : createClaudeCliProvider)(options);
await provider.invoke(["Hello"]);
console.log(JSON.stringify(limits()));
for await (const _ of process.stdin);
await provider.close();
`;

/** The line a program prints first. */
async function firstLine(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error("it has no output");
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error("it printed nothing");
}

/** Codex takes a sixth of the time that claude needs to start; what is told of a process is the same code for each. */
const NAMES = sampleOf(HERE ? (["codex", "claude"] as const) : (["claude"] as const));

async function startProgram(name: (typeof NAMES)[number]) {
  const script = () => ({ text: "Hi." });
  const { options } = name === "codex" ? await withCli(name, { script }) : await withClaude({ script });
  const words = JSON.stringify([name, { ...options, engine: "live" }]);
  const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM, "--", words], {
    cwd: join(import.meta.dirname, "..", ".."),
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const own = JSON.parse(await firstLine(child));
  return { child, own };
}

async function statusJson(...args: string[]) {
  const { code, stdout, stderr } = await runCommand(["status", "--json", ...args]);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout);
}

/** The same, and what a person sees, by one process. */
async function statusBoth(...args: string[]) {
  const [json, shown] = await runCommands([{ args: ["status", "--json", ...args] }, { args: ["status", ...args] }]);
  expect([json?.code, json?.stderr]).toEqual([0, ""]);
  return { ...JSON.parse(json?.stdout ?? ""), stdout: shown?.stdout ?? "" };
}

describe.skipIf(lacks("procfs"))("of another program", () => {
  it.each(NAMES)("shows its process, %s, which rests, and nothing of it is left when it ends", async (name) => {
    const { child, own } = await startProgram(name);
    expect(own.processes).toEqual([
      {
        pid: expect.any(Number),
        provider: name,
        engine: "live",
        state: "resting",
        startedAt: expect.any(Number),
        memoryBytes: expect.any(Number),
        conversations: [expect.any(String)],
        usage: expect.objectContaining({ inputTokens: expect.any(Number), cacheHitShare: 0 }),
      },
    ]);
    const [{ pid, startedAt, conversations, usage }] = own.processes;
    const hostOf = async () =>
      (await statusJson()).machine.hosts.find((host: { pid: number }) => host.pid === child.pid);
    // It is published a moment after it has changed.
    let host = await hostOf();
    while (host?.processes[0]?.state !== "resting") host = await hostOf();
    expect(host).toEqual({
      pid: child.pid,
      memoryBytes: expect.any(Number),
      processWide: { limit: 4, running: 0, waiting: 0 },
      perBinary: {},
      processes: [
        {
          pid,
          provider: name,
          engine: "live",
          state: "resting",
          startedAt,
          conversations,
          usage,
          memoryBytes: expect.any(Number),
          descendants: expect.any(Number),
        },
      ],
      rateLimits: [],
      budgets: [],
    });
    expect(host.processes[0].memoryBytes).toBeGreaterThan(20 * 1024 * 1024);
    const { stdout } = await runCommand(["status"]);
    expect(stdout).toMatch(
      new RegExp(
        `^Program ${child.pid}, \\d+ MiB: 0 running, 0 waiting, at most 4 at a time; 1 at rest, \\d+ MiB$`,
        "m",
      ),
    );
    expect(stdout).toMatch(
      new RegExp(`^${pid} +${name} +live +resting +\\d+ MiB +\\d+ s +0 % +${conversations[0].slice(0, 13)}$`, "m"),
    );
    expect(stdout).not.toContain("\u001b");
    child.stdin?.end();
    await until(() => !exists(pid));
    const after = await statusJson();
    expect(after.machine.hosts.map((one: { pid: number }) => one.pid)).not.toContain(child.pid);
    expect(after.machine.leftovers.map((one: { pid: number }) => one.pid)).not.toContain(pid);
  });

  it("tells of a process whose program is gone, and of none whose id somebody else has", async () => {
    const start = (owner: string) => {
      const child = spawn("sleep", ["600"], {
        env: { ...process.env, DEEP_FACTOR_RUN: "status-test-1", DEEP_FACTOR_OWNER: owner },
        stdio: "ignore",
      });
      onTestFinished(() => void child.kill("SIGKILL"));
      return child.pid as number;
    };
    // No process has this id; this one has its own, but began at another time.
    const orphan = start("4194305:1:live:codex");
    const other = start(`${process.pid}:1:print:qwen`);
    // Since 0: when it began is not known.
    const own = start(`${process.pid}:0:print:qwen`);
    const hostile = start("4194305:1:live:\u001b[2Jcodex");
    const { machine, stdout } = await statusBoth();
    const left = machine.leftovers.filter(({ pid }: { pid: number }) => [orphan, other, own, hostile].includes(pid));
    const memoryBytes = expect.any(Number);
    expect(left.sort((a: { pid: number }, b: { pid: number }) => a.pid - b.pid)).toEqual([
      { pid: orphan, provider: "codex", engine: "live", owner: 4194305, memoryBytes },
      { pid: other, provider: "qwen", engine: "print", owner: process.pid, memoryBytes },
      { pid: hostile, memoryBytes },
    ]);
    expect(stdout).toMatch(new RegExp(`^${orphan} +codex +live +\\d+ MiB +4194305$`, "m"));
  });
});

describe("of run logs", () => {
  const entry = (run: string, at: number, event: object) => JSON.stringify({ at, t: 1, run, event });
  const header = (runId: string, provider: string) =>
    JSON.stringify({ format: "deep-factor-run", version: 1, runId, provider, startedAt: 1 });
  const usage = { inputTokens: 1200, outputTokens: 30, totalTokens: 1230, cacheReadTokens: 1000 };

  it("adds up today's calls, and tells the limits that hold", async () => {
    const temp = createTemp();
    onTestFinished(temp.cleanup);
    const now = Date.now();
    const resetsAt = now + 90 * 60_000;
    const limit = {
      type: "rate_limit",
      status: "allowed_warning",
      limitType: "five_hour",
      utilization: 0.81,
      resetsAt,
    };
    const old = { ...limit, limitType: "seven_day", resetsAt: now - 1 };
    const lines = [
      header("a", "claude"),
      entry("a", now, limit),
      entry("a", now, old),
      entry("a", now, { type: "done", reply: { usage, model: "opus", costUsd: 0.5 } }),
      header("b", "claude"),
      entry("b", now - 48 * 3_600_000, { type: "done", reply: { usage, model: "opus", costUsd: 7 } }),
      '{"at":1,"t":1,"run":"c","event":{"type":"done","rep',
    ];
    writeFileSync(join(temp.path, "run.jsonl"), lines.join("\n"));
    const { spending, files, since, stdout } = await statusBoth("--logs", temp.path);
    expect(spending).toEqual({
      spent: [
        {
          ...{ provider: "claude", model: "opus", calls: 1, failedCalls: 0, costUsd: 0.5, callsWithoutCost: 0 },
          usage: { ...usage, cacheHitShare: 0.833 },
        },
      ],
      rateLimits: expect.any(Array),
      unreadableLines: 1,
    });
    expect(files).toEqual({ read: 1, older: 0, unreadable: [], truncated: false });
    expect(since).toBe(new Date(now).setHours(0, 0, 0, 0));
    expect(stdout).toMatch(/^claude +opus +1 +1,200 +1,000 \(83 %\) +30 +\$0\.5000$/m);
    expect(stdout).toMatch(/^claude +five_hour +allowed_warning +81 % +.*\d\d:\d\d, in 1 h \d+ min$/m);
    expect(stdout).not.toContain("seven_day");
  });

  const refusals: [string[], number, RegExp][] = [
    [["--logs", "/nowhere/at/all"], 10, /^NOT_FOUND: there are no run logs at \/nowhere\/at\/all: /],
    [["claude"], USAGE_CODE, /unexpected argument "claude": logs are named with --logs/],
    [["--interval", "2"], USAGE_CODE, /--interval is for --watch: add it/],
    [["--watch", "--interval", "0"], USAGE_CODE, /--interval must be a number of seconds from 0.1 to 9999, not "0"/],
  ];
  /** All of them, by one process. */
  let results: ReturnType<typeof runCommands> | undefined;

  it.each(refusals)("refuses %j", async (args, code, message) => {
    results ??= runCommands(refusals.map(([args]) => ({ args: ["status", ...args] })));
    const refused = (await results)[refusals.findIndex((row) => row[0] === args)];
    expect([refused?.code, refused?.stdout]).toEqual([code, ""]);
    expect(refused?.stderr).toMatch(message);
  });
});

describe("the screen", () => {
  const at = new Date(2026, 0, 2, 12, 0).getTime();
  const now = {
    at,
    machine: {
      hosts: [
        {
          pid: 100,
          memoryBytes: 90 * 1024 * 1024,
          processWide: { limit: 4, running: 2, waiting: 1 },
          perBinary: { "/bin/claude": { running: 2, waiting: 1 } },
          processes: [
            ["working", 101, ["0123456789abcdef"]] as const,
            ["resting", 102, ["old", "new\u001b[2J"]] as const,
            ["spare", 103, []] as const,
          ].map(([state, pid, conversations]) => ({
            pid,
            provider: "claude",
            engine: "live" as const,
            state,
            startedAt: at - 65_000,
            memoryBytes: 231 * 1024 * 1024,
            conversations: [...conversations],
            descendants: 0,
          })),
          rateLimits: [{ provider: "claude", limitType: "five_hour", status: "rejected", resetsAt: at + 60_000, at }],
          budgets: [],
        },
      ],
      leftovers: [{ pid: 7 }],
    },
    spending: {
      spent: [
        {
          provider: "codex",
          calls: 3,
          failedCalls: 1,
          usage: { inputTokens: 12_345, outputTokens: 67, totalTokens: 12_412 },
          costUsd: 0,
          callsWithoutCost: 4,
        },
      ],
      rateLimits: [],
      unreadableLines: 0,
    },
  };
  const plain = painter(false);

  it("tells the plans of several logins apart, and of a log those that no program tells", () => {
    const window = { provider: "claude", limitType: "five_hour", status: "allowed", resetsAt: at + 60_000, at };
    const rateLimits = [
      { ...window, login: "/home/u/work", utilization: 0.9 },
      { ...window, login: "/home/u/own", utilization: 0.1 },
    ];
    const hosts = now.machine.hosts.map((host) => ({ ...host, rateLimits }));
    const logged = [window, { ...window, limitType: "seven_day", resetsAt: at + 70_000, utilization: 0.5 }];
    const spending = { ...now.spending, rateLimits: logged };
    const text = statusText({ ...now, machine: { ...now.machine, hosts }, spending }, plain, 120);
    const rows = text.split("\n").filter((line) => /five_hour|seven_day/.test(line));
    expect(rows.map((row) => row.split(/ {2,}/).slice(0, 4))).toEqual([
      ["claude", "seven_day", "allowed", "50 %"],
      ["claude /home/u/work", "five_hour", "allowed", "90 %"],
      ["claude /home/u/own", "five_hour", "allowed", "10 %"],
    ]);
  });

  it("has a table for each program where there is room", () => {
    expect(statusText(now, plain, 80)).toMatchInlineSnapshot(`
      "Program 100, 90 MiB: 2 running, 1 waiting, at most 4 at a time; 2 at rest, 462
      MiB
        /bin/claude: 2 running, 1 waiting
      PID  PROVIDER  ENGINE  STATE    MEMORY   AGE         CACHED  CONVERSATION
      101  claude    live    working  231 MiB  1 min 05 s  ?       0123456789abc
      102  claude    live    resting  231 MiB  1 min 05 s  ?       new␛[2J +1
      103  claude    live    spare    231 MiB  1 min 05 s  ?       none

      Left over: 1 process whose program has ended
      PID  PROVIDER  ENGINE  MEMORY  PROGRAM
      7    ?         ?       ?       ?
      A watchdog ends them within moments; one that stays can be ended by its id.

      Today
      PROVIDER  MODEL    CALLS          INPUT   CACHED   OUTPUT  COST
      codex     unknown  3 (+1 failed)  12,345  unknown  67      unknown

      Plans
      PROVIDER  LIMIT      STATUS    USED     RESETS
      claude    five_hour  rejected  unknown  12:01, in 1 min"
    `);
  });

  it("has a block for each process where there is none", () => {
    const text = statusText(now, plain, 40);
    expect(text).toMatchInlineSnapshot(`
      "Program 100, 90 MiB: 2 running, 1
      waiting, at most 4 at a time; 2 at rest,
      462 MiB
        /bin/claude: 2 running, 1 waiting
      101
        PROVIDER      claude
        ENGINE        live
        STATE         working
        MEMORY        231 MiB
        AGE           1 min 05 s
        CACHED        ?
        CONVERSATION  0123456789abc
      102
        PROVIDER      claude
        ENGINE        live
        STATE         resting
        MEMORY        231 MiB
        AGE           1 min 05 s
        CACHED        ?
        CONVERSATION  new␛[2J +1
      103
        PROVIDER      claude
        ENGINE        live
        STATE         spare
        MEMORY        231 MiB
        AGE           1 min 05 s
        CACHED        ?
        CONVERSATION  none

      Left over: 1 process whose program has
      ended
      PID  PROVIDER  ENGINE  MEMORY  PROGRAM
      7    ?         ?       ?       ?
      A watchdog ends them within moments; one
      that stays can be ended by its id.

      Today
      codex
        MODEL     unknown
        CALLS     3 (+1 failed)
        INPUT     12,345
        CACHED    unknown
        OUTPUT    67
        COST      unknown

      Plans
      claude
        LIMIT     five_hour
        STATUS    rejected
        USED      unknown
        RESETS    12:01, in 1 min"
    `);
    expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(40);
  });

  it("shows budgets whose windows go on, and of a store what was counted last", () => {
    const [host] = now.machine.hosts;
    if (host === undefined) throw new Error("there is one");
    const common = { provider: "claude", per: "hour" as const, costUsd: 0, callsWithoutCost: 0, resetsAt: at + 60_000 };
    const shared = { ...common, store: "/b/\u001b[2J", limits: { requests: 9, costUsd: 2 }, tokens: 1234 };
    const hosts = [
      { ...host, budgets: [{ ...shared, requests: 8, costUsd: 1.5, callsWithoutCost: 1, at }] },
      {
        ...host,
        pid: 101,
        budgets: [
          { ...shared, requests: 7, at: at - 1 },
          { ...common, provider: "codex", per: "day" as const, limits: { tokens: 10 }, requests: 1, tokens: 10, at },
          { ...common, limits: { requests: 3 }, requests: 3, tokens: 0, resetsAt: at, at },
        ],
      },
    ];
    const text = statusText({ ...now, machine: { ...now.machine, hosts } }, plain, 120);
    expect(text.slice(text.indexOf("\nBudgets"))).toMatchInlineSnapshot(`
      "
      Budgets
      PROVIDER  PER   REQUESTS  TOKENS    COST                        RESETS           STORE
      claude    hour  8 of 9    1,234     $1.50 of $2.00 + 1 unknown  12:01, in 1 min  /b/␛[2J
      codex     day   1         10 of 10  $0.0000                     12:01, in 1 min  its own"
    `);
  });

  it("says where nothing can be known", () => {
    expect(statusText({ at, machine: null }, plain, 80)).toMatchInlineSnapshot(`
      "What other programs run is not known: only Linux shows it. In a program itself,
      limits() tells.

      Today
      Name run logs, or folders of them, with --logs to see tokens and cost.

      Plans
      No limit of a plan is known that holds now."
    `);
  });

  it.skipIf(!HAS_TMUX)(
    "is drawn again in its place, and the shell's own lines are there again afterwards",
    async () => {
      const terminal = openTerminal([process.execPath, CLI, "status", "--watch", "--interval", "0.2"], { rows: 60 });
      await terminal.until(/every 0\.2 s; Ctrl-C ends it$/);
      expect(terminal.screen()).toMatch(/^Plans$/m);
      terminal.press("C-c");
      const { screen, code } = await terminal.ended();
      expect(code).toBe(130);
      expect(screen).not.toContain("Plans");
    },
  );
});

it("is one document per line while it is watched by a program", async () => {
  const { startCommand } = await import("../support/command-line.mjs");
  const { child, ended, output } = startCommand(["status", "--watch", "--json", "--interval", "0.1"]);
  await until(() => output.stdout.split("\n").length > 2);
  child.kill("SIGINT");
  expect((await ended).code).toBe(130);
  for (const line of output.stdout.trim().split("\n")) expect(JSON.parse(line)).toHaveProperty("machine");
});
