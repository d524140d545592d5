/** However the host ends, no process and no file of its runs outlives it; and it can end: nothing of ours keeps it alive. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import {
  children,
  createTag,
  createTemp,
  exists,
  fakeCli,
  fakeOptions,
  holds,
  READY,
  type Step,
  until,
} from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";

beforeAll(() => void fakeCli(), 600_000);

const HOST = fileURLToPath(new URL("host.mjs", import.meta.url));
const IGNORES_TERM: Step = { onSignal: { TERM: [], INT: [], HUP: [] } };
const STUBBORN: Step[] = [
  IGNORES_TERM,
  { spawn: { steps: [IGNORES_TERM, READY, "forever"] } },
  { spawn: { steps: ["setsid", "forever"], stdio: "null" } },
  READY,
  "forever",
];

/** Starts the host, whose temporary folder is one of its own. */
function host(ending: string, steps: Step[], count: number, env: Record<string, string> = {}, killGrace = 300) {
  const tag = createTag();
  const temp = createTemp();
  const options = { ...fakeOptions(tag, steps), systemPrompt: "a private file", maxConcurrency: 50, killGrace };
  const child = spawn(process.execPath, [HOST, ending, JSON.stringify(options), String(count)], {
    env: { ...process.env, ...tag.env, ...env, TMPDIR: temp.path },
    stdio: ["pipe", "pipe", "pipe"],
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
    temp.cleanup();
  });
  return { child, tag, temp, output: collect(child) };
}

/** The ids of the shells that watch over the runs of `host`. One that is dead shows no command. */
function watchdogs(host: ChildProcess): string[] {
  const table = execFileSync("ps", ["-axww", "-o", "pid=,ppid=,args="], { encoding: "utf8", maxBuffer: 2 ** 26 });
  return table.split("\n").flatMap((line) => {
    const [pid = "", parent] = line.trim().split(/\s+/);
    return Number(parent) === host.pid && line.includes("deep-factor-watchdog") ? [pid] : [];
  });
}

function collect(child: ChildProcess) {
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text) => {
      output[name] += text;
    });
  }
  return output;
}

describe.skipIf(lacks("signals"))("the host ends in mid-run", () => {
  it.each([
    ["exit", 7, ""],
    ["exit in a callback", 7, ""],
    ["uncaught exception", 1, "Error: uncaught"],
    ["unhandled rejection", 1, "Error: unhandled"],
  ])("by %s: no process and no folder is left", async (ending, code, message) => {
    const { child, tag, temp, output } = host(ending, STUBBORN, 6);
    const [exitCode, signal] = await once(child, "close");
    expect({ exitCode, signal, stdout: output.stdout }).toEqual({ exitCode: code, signal: null, stdout: "ready\n" });
    expect(output.stderr).toContain(message);
    // SIGKILL is sent before the host is gone; the system takes a moment to act on it.
    await until(() => tag.left().length === 0);
    expect(temp.entries()).toEqual([]);
  });
});

describe.skipIf(lacks("processes"))("the host ends by itself", () => {
  it("after a call, at once: an idle provider keeps nothing alive", async () => {
    const { child, tag, temp, output } = host("idle", [READY, { claude: { text: "Hi" } }], 0);
    const end = await once(child, "close");
    expect({ end, output }).toEqual({
      end: [0, null],
      output: { stdout: "ready\nanswered\nnothing left to do\n", stderr: "" },
    });
    expect({ left: tag.left(), files: temp.entries() }).toEqual({ left: [], files: [] });
  });
});

describe.skipIf(lacks("signals"))("the host is killed", () => {
  it.each(["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "by %s: its runs are ended, and their folders gone",
    async (signal) => {
      const polite: Step[] = [{ spawn: { steps: ["forever"] } }, READY, "forever"];
      const { child, tag, temp } = host("stay", polite, 4);
      await once(child.stdout as NonNullable<typeof child.stdout>, "data");
      expect(temp.entries()).toHaveLength(4);
      child.kill(signal);
      expect(await once(child, "close")).toEqual([null, signal]);
      await until(() => tag.left().length === 0 && temp.entries().length === 0);
    },
  );

  it("while it begins and ends calls: no folder is left, not even an empty one, whenever it is", async () => {
    for (let kills = 0; kills < 10; kills++) {
      const { child, tag, temp, output } = host("busy", [READY, { claude: { text: "Hi" } }], 0);
      const answers = () => output.stdout.split("answered").length - 1;
      const closed = once(child, "close");
      await until(() => answers() > kills || child.exitCode !== null);
      child.kill("SIGKILL");
      await closed;
      await until(() => tag.left().length === 0 && temp.entries().length === 0);
    }
  });

  it("what does not heed SIGTERM, after the grace", async () => {
    const stubborn: Step[] = [{ spawn: { steps: [IGNORES_TERM, READY, "forever"] } }, IGNORES_TERM, READY, "forever"];
    const { child, tag } = host("stay", stubborn, 2);
    await once(child.stdout as NonNullable<typeof child.stdout>, "data");
    child.kill("SIGKILL");
    await once(child, "close");
    await until(() => tag.left().length === 0);
  });

  it.skipIf(lacks("procfs")).each(["heeds SIGTERM", "ignores it"])(
    "what is in a session of its own, has lost its parent and %s",
    async (how) => {
      const away: Step[] = [...(how === "ignores it" ? [IGNORES_TERM] : []), "setsid", READY, "forever"];
      const parent: Step = { spawn: { steps: ["setsid", { spawn: { steps: away } }], wait: true } };
      const { child, tag } = host("stay", [parent, "forever"], 2);
      await once(child.stdout as NonNullable<typeof child.stdout>, "data");
      child.kill("SIGKILL");
      await once(child, "close");
      await until(() => tag.left().length === 0);
    },
  );

  it("when one of two runs is over: the other one is ended", async () => {
    const { child, tag, temp, output } = host("more", [READY, "forever"], 1);
    await until(() => output.stdout === "ready\n" || child.exitCode !== null);
    child.stdin?.write(`${JSON.stringify([READY, { claude: { text: "Hi" } }])}\n`);
    const over = () => /^over (\d+)$/m.exec(output.stdout)?.[1];
    await until(() => over() !== undefined || child.exitCode !== null);
    // Reaped, so the watchdog has been told to forget it.
    await until(() => !exists(Number(over())));
    expect({ watchdogs: watchdogs(child).length, folders: temp.entries().length }).toEqual({
      watchdogs: 1,
      folders: 1,
    });
    child.kill("SIGKILL");
    await once(child, "close");
    await until(() => tag.left().length === 0 && temp.entries().length === 0);
  });

  it("after its watchdog was: the next run gets another, which knows of the earlier ones", async () => {
    const { child, tag, temp, output } = host("more", [READY, "forever"], 2);
    await until(() => output.stdout === "ready\n" || child.exitCode !== null);
    await until(() => watchdogs(child).length === 1);
    const [first] = watchdogs(child);
    process.kill(Number(first), "SIGKILL");
    await until(() => watchdogs(child).length === 0);
    child.stdin?.write(`${JSON.stringify([READY, "forever"])}\n`);
    await until(() => output.stdout === "ready\nready\n" || child.exitCode !== null);
    await until(() => watchdogs(child).length === 1);
    expect(watchdogs(child)).not.toEqual([first]);
    expect(temp.entries()).toHaveLength(3);
    child.kill("SIGKILL");
    await once(child, "close");
    await until(() => tag.left().length === 0 && temp.entries().length === 0);
  });

  it("and its runs see the end of their input, each of its own", async () => {
    const gates = createTemp();
    const gate = join(gates.path, "gate");
    // More input than a pipe holds: most of it has not been written when the host dies. SIGTERM is not what ends them.
    const steps: Step[] = [IGNORES_TERM, READY, { waitFile: gate }, "readAll"];
    const { child, tag } = host("stay", steps, 4, { PROMPT_BYTES: String(4 * 1024 * 1024) }, 60_000);
    await once(child.stdout as NonNullable<typeof child.stdout>, "data");
    child.kill("SIGKILL");
    await once(child, "close");
    expect(tag.left()).toHaveLength(4);
    writeFileSync(gate, "");
    await until(() => tag.left().length === 0);
    gates.cleanup();
  });
});

describe.skipIf(lacks("processes"))("worker threads", () => {
  it.each(["worker that is terminated", "worker that exits"])("a %s in mid-run leaves nothing", async (ending) => {
    const { child, tag, temp, output } = host(ending, STUBBORN, 0);
    await until(() => output.stdout.includes("worker gone") || child.exitCode !== null);
    await until(() => tag.left().length === 1);
    expect({ entries: temp.entries(), left: tag.left() }).toEqual({
      entries: [],
      left: [expect.stringContaining(`${child.pid} `)],
    });
    child.stdin?.end();
    const [exitCode] = await once(child, "close");
    expect({ exitCode, stderr: output.stderr }).toEqual({ exitCode: 0, stderr: "" });
  });

  // A thread that each worker leaves would be more than may be there beyond those of before.
  const ROUNDS = process.env.TEST_ALL ? 20 : 12;
  it(`${ROUNDS} rounds of starting runs and terminating, in one process`, { timeout: 60_000 }, async () => {
    const tag = createTag();
    const options = JSON.stringify({ ...fakeOptions(tag, STUBBORN), maxConcurrency: 50 });
    const round = async () => {
      const worker = new Worker(HOST, { workerData: ["stay", options, "3"] });
      await once(worker, "message");
      await worker.terminate();
    };
    await round();
    await until(() => tag.left().length === 0);
    const before = process.platform === "linux" ? holds() : undefined;
    for (let n = 1; n < ROUNDS; n++) await round();
    await until(() => tag.left().length === 0);
    if (!before) return;
    await until(() => holds().files <= before.files && children().length === 0);
    // 11 workers or more with 3 runs each; the runtime keeps up to some threads of its pool for 10 s.
    expect(holds().threads).toBeLessThanOrEqual(before.threads + 10);
  });

  it("a worker's runs inherit the worker's environment, not the process's", async () => {
    const source = `
      const { createClaudeCliProvider, execFileAsync } = require("deep-factor-providers/native");
      const { parentPort } = require("node:worker_threads");
      const provider = createClaudeCliProvider({ cliPath: ${JSON.stringify(fakeCli())}, outputFormat: "text" });
      provider.invoke(["x"]).then(async (reply) => {
        const env = await execFileAsync("env");
        parentPort.postMessage({ provider: JSON.parse(reply.content).env.ONLY_HERE, file: /^ONLY_HERE=(.*)$/m.exec(env)?.[1] });
      }).catch((error) => parentPort.postMessage(String(error)));`;
    const env = { ...process.env, ONLY_HERE: "in the worker", FAKE_CLI: '["echo"]' };
    const worker = new Worker(source, { eval: true, env });
    const [message] = await once(worker, "message");
    expect(message).toEqual({ provider: "in the worker", file: "in the worker" });
    await worker.terminate();
  });
});

it.skipIf(lacks("processes"))("a process of this test is told from one that is not there", () => {
  expect([exists(process.pid), exists(process.ppid)]).toEqual([true, true]);
  expect(() => exists(undefined)).toThrow(TypeError);
});

/** Importing the package where the system starts no thread: an exception in words, and Node goes on. */
describe("without threads", () => {
  const ENTRY = fileURLToPath(new URL("../../src/js/native-entry.mjs", import.meta.url));

  /** Not known to be anybody's: the limit counts all processes and threads of a user, and does not hold for root. */
  const UID = 61_234;

  /** Imports the package in a Node that may have no further threads, and tells what came of it. */
  function imported(entry: "import" | "require", limited: boolean) {
    const path = JSON.stringify(entry === "import" ? ENTRY : ENTRY.replace(/native-entry\.mjs$/, "native-entry.cjs"));
    const load = entry === "import" ? `await import(${path})` : `createRequire(${path})(${path})`;
    const program = `
    import { execFileSync } from "node:child_process";
    import { readFile } from "node:fs/promises";
    import { createRequire } from "node:module";
    // Node has its own threads by now: without them it would abort by itself.
    await readFile("/dev/null");
    ${limited ? `execFileSync("prlimit", ["--pid", String(process.pid), "--nproc=1:1"]);` : ""}
    try {
      const { stripAnsi } = ${load};
      console.log("loaded", stripAnsi("x"));
    } catch (error) {
      console.log("thrown", error instanceof Error, error.message);
    }
    setTimeout(() => console.log("goes on"), 1);
  `;
    const root = process.getuid?.() === 0;
    const { status, signal, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      cwd: "/",
      encoding: "utf8",
      ...(root ? { uid: UID, gid: UID, env: { PATH: process.env.PATH, HOME: "/" } } : {}),
    });
    return { status, signal, stdout, stderr };
  }

  function limitable() {
    if (process.platform !== "linux") return false;
    try {
      execFileSync("prlimit", ["--version"]);
    } catch {
      return false;
    }
    // A checkout that another user can't read, or a system that has no such user.
    return imported("import", false).stdout.startsWith("loaded");
  }

  describe.skipIf(!limitable())("where no thread can be started", () => {
    it.each(["import", "require"] as const)("%s throws an error that says so, and what to do", (entry) => {
      const { status, signal, stdout, stderr } = imported(entry, true);
      const [thrown, ...rest] = stdout.split("\n");
      expect(thrown).toMatch(
        /^thrown true deep-factor-providers can't start its threads: .+ Raise the limit on processes and threads /,
      );
      expect({ status, signal, rest, stderr }).toEqual({ status: 0, signal: null, rest: ["goes on", ""], stderr: "" });
    });
  });
});
