// @ts-check
/** What a host leaves on Windows, however it ends: processes, private folders, locks; and what it writes: run logs, checkpoints. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import {
  createClaudeCliProvider,
  createFileCheckpoint,
  createOpenAiCompatibleProvider,
  runAgent,
} from "deep-factor-providers/native";
import { runCommand, startCommand } from "../support/command-line.mjs";
import { shimOfScript } from "../support/shims.mjs";
import { FAKE, failure, fake, notUnderWine, put, READY, ROOM, register, say, withTemp } from "./support.mjs";

const HOST = fileURLToPath(new URL("../process/host.mjs", import.meta.url));

/**
 * A host program with one run, once that runs; and how it ends.
 * @param {string} ending
 * @param {unknown[]} steps
 * @param {string} temp
 */
async function startHost(ending, steps, temp) {
  const options = {
    cliPath: FAKE,
    engine: "print",
    retry: false,
    systemPrompt: "private",
    env: { FAKE_CLI: JSON.stringify(steps) },
  };
  const child = spawn(process.execPath, [HOST, ending, JSON.stringify(options), "1"], {
    env: { ...process.env, TEMP: temp, TMP: temp },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
  const ready = new Promise((resolve) => child.stdout.once("data", resolve));
  await Promise.race([ready, ended]);
  return { child, ended };
}

/** A claude on the PATH, which is the fake. */
const ON_PATH = join(ROOM, "on path");
mkdirSync(ON_PATH);
copyFileSync(FAKE, join(ON_PATH, "claude.exe"));
/** Variables of a command whose claude does these steps. @param {unknown} steps */
const withFake = (steps) => ({ FAKE_CLI: JSON.stringify(steps), PATH: `${ON_PATH};${process.env.PATH}` });

/** Private folders in a folder for temporary files. @param {string} temp */
const folders = (temp) => readdirSync(temp, { withFileTypes: true }).filter((entry) => entry.isDirectory());

for (const ending of ["exit", "uncaught exception", "killed"]) {
  test(`a host that ends by ${ending} leaves no process, and its folder for the next host at most`, async () => {
    const name = ending.replaceAll(" ", "-");
    const processes = register(name);
    const steps = [
      processes.signIn(1),
      { spawn: { steps: [processes.signIn(2), "forever"] } },
      processes.wait(2),
      READY,
      "forever",
    ];
    await withTemp(name, async (temp) => {
      const { child, ended } = await startHost(ending, steps, temp);
      if (ending === "killed") child.kill("SIGKILL");
      await ended;
      await processes.gone(2);
      // What only a host that could clean up has removed, the next one removes when it makes its own folder.
      assert.equal(folders(temp).length, ending === "killed" ? 1 : 0);
      assert.equal((await fake([say("next")], { systemPrompt: "of the next" }).invoke(["x"])).content, "next");
      const end = Date.now() + 10_000;
      while (folders(temp).length > 0 && Date.now() < end) await delay(10);
      assert.deepEqual(folders(temp), []);
    });
  });
}

test("a private folder is there as long as its run, and the folder of a living host stays", async () => {
  await withTemp("private", async (temp) => {
    const file = join(ROOM, "go-on");
    const call = fake([READY, { waitFile: file }, say("x")], { systemPrompt: "a private text" });
    const events = call.stream(["x"]);
    await events.next();
    const during = folders(temp).map((entry) => entry.name);
    // Another host, which looks for what dead ones have left.
    const env = { TEMP: temp, TMP: temp, ...withFake([say("of another host")]) };
    const other = await runCommand(["run", "hi", "--engine", "print"], { env });
    assert.match(other.stdout, /of another host/, other.stderr);
    assert.deepEqual(
      folders(temp).map((entry) => entry.name),
      during,
    );
    assert.equal(during.length, 1);
    put("go-on", "");
    for await (const _ of events);
    assert.deepEqual(folders(temp), []);
  });
});

test("a private folder is the user's alone", { skip: notUnderWine("icacls prints nothing there") }, async () => {
  await withTemp("acl", async (temp) => {
    // Anybody may read what is made in this folder.
    execFileSync("icacls", [temp, "/grant", "*S-1-1-0:(OI)(CI)F"]);
    const file = join(ROOM, "acl-go-on");
    const events = fake([READY, { waitFile: file }, say("x")], { systemPrompt: "a private text" }).stream(["x"]);
    await events.next();
    const [folder] = folders(temp);
    const inside = readdirSync(join(temp, folder?.name ?? "")).map((name) => join(temp, folder?.name ?? "", name));
    const user = execFileSync("whoami", { encoding: "utf8" }).trim().toLowerCase();
    for (const path of [join(temp, folder?.name ?? ""), ...inside]) {
      const list = execFileSync("icacls", [path], { encoding: "utf8" })
        .split("\n")
        .filter((line) => line.includes(":("));
      assert.deepEqual(
        list.map((line) => line.replace(path, "").trim().split(":(")[0]?.toLowerCase()),
        [user],
        path,
      );
    }
    put("acl-go-on", "");
    for await (const _ of events);
  });
});

test("a private folder with a file that is held open goes with its run", async () => {
  await withTemp("held", async (temp) => {
    const script = `require("node:fs").openSync("held.txt", "w"); process.stdout.write(${JSON.stringify(READY.out)}); setTimeout(() => {}, 60_000);`;
    put("hold/hold.cjs", script);
    const cliPath = put("hold/hold.cmd", shimOfScript("hold.cjs"));
    const options = {
      cliPath,
      engine: /** @type {const} */ ("print"),
      retry: /** @type {const} */ (false),
      timeout: 3000,
    };
    const error = await failure(createClaudeCliProvider(options).invoke(["x"]));
    assert.equal(error.code, "TIMEOUT");
    const end = Date.now() + 5_000;
    while (folders(temp).length > 0 && Date.now() < end) await delay(10);
    assert.deepEqual(folders(temp), []);
  });
});

test("a host without work ends by itself", async () => {
  const { child, ended } = await startHost("idle", [READY, say("bye")], ROOM);
  let output = "";
  child.stdout.on("data", (text) => {
    output += text;
  });
  assert.equal(await ended, 0);
  assert(!output.includes("held"), output);
});

test("a run log is written and read", async () => {
  const log = join(ROOM, "run.jsonl");
  await fake([say("logged ☃")]).invoke(["x"], { record: log });
  const lines = readFileSync(log, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert(lines.length > 3);
  const shown = await runCommand(["log", "show", log]);
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /logged ☃/);
});

test("a checkpoint is resumed, and locked for this process and for others", async () => {
  const dir = join(ROOM, "runs");
  /** @param {string} runId @param {unknown[]} steps */
  const run = (runId, steps) =>
    runAgent({
      provider: fake(/** @type {any} */ (steps)),
      runId,
      checkpoint: createFileCheckpoint({ dir }),
      prompt: "x",
    });
  assert.equal((await run("one", [say("done")]).result).status, "completed");
  assert.equal((await run("one", [say("not asked")]).result).status, "completed");
  const file = join(ROOM, "slow-go-on");
  const processes = register("slow");
  const slow = run("two", [processes.signIn(1), READY, { waitFile: file }, say("slow")]);
  await processes.there(1);
  const own = await run("two", [say("x")]).result;
  assert.equal(own.error?.code, "RUN_LOCKED");
  const code = `
    import { createClaudeCliProvider, createFileCheckpoint, runAgent } from "deep-factor-providers/native";
    const provider = createClaudeCliProvider({ cliPath: process.env.DFP_FAKE_CLI, engine: "print" });
    const result = await runAgent({ provider, runId: "two", checkpoint: createFileCheckpoint({ dir: process.env.RUNS }), prompt: "x" }).result;
    console.log(result.status, result.error?.code);
  `;
  const args = ["--input-type=module", "-e", code];
  const other = execFileSync(process.execPath, args, {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env: { ...process.env, RUNS: dir, FAKE_CLI: JSON.stringify([say("x")]) },
    encoding: "utf8",
  });
  assert.equal(other.trim(), "failed RUN_LOCKED");
  put("slow-go-on", "");
  assert.equal((await slow.result).status, "completed");
});

test("the command line: run, standard input, doctor, status, and what is wrong", async () => {
  const steps = { when: { "--version": [{ out: "2.1.330 (Claude Code)\n" }] }, else: [say("from the command line ☃")] };
  const env = withFake(steps);
  const version = await runCommand(["--version"]);
  assert.match(version.stdout, /^\d+\.\d+\.\d+/);
  for (const [args, input] of /** @type {[string[], string | undefined][]} */ ([
    [["run", "hello", "--engine", "print"], undefined],
    [["run", "-", "--engine", "print"], "from stdin\r\n"],
  ])) {
    const ran = await runCommand(args, { env, ...(input !== undefined && { input }) });
    assert.deepEqual([ran.code, ran.stdout.trim()], [0, "from the command line ☃"], ran.stderr);
  }
  assert.match((await runCommand(["doctor"], { env })).stdout, /claude/);
  const status = await runCommand(["status"], { env });
  assert.match(`${status.stdout}${status.stderr}`, /Linux/);
  assert.equal((await runCommand(["run", "x", "--nope"], { env })).code, 2);
});

test("serve: a local endpoint that answers whoever has the token of the file", async () => {
  const env = withFake([say("by the gateway ☃")]);
  const args = ["serve", "--provider", "claude", "--engine", "print", "--port", "0", "--json"];
  const { child, ended, output } = startCommand(args, { env });
  try {
    const end = Date.now() + 60_000;
    while (!output.stdout.includes("\n") && child.exitCode === null && Date.now() < end) await delay(20);
    assert.notEqual(output.stdout, "", output.stderr);
    const { url, tokenFile } = JSON.parse(output.stdout);
    // Node's own client can't connect under Wine (UNKNOWN); this is what the package connects by itself.
    const apiKey = readFileSync(tokenFile, "utf8").trim();
    const client = createOpenAiCompatibleProvider({ baseURL: `${url}/v1`, apiKey, model: "claude", retry: false });
    assert.equal((await client.invoke(["hi"])).content, "by the gateway ☃");
  } finally {
    child.kill();
    await ended;
  }
});
