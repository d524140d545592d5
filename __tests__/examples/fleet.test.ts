// @release
/** The fleet of examples/fleet over a real Redis, whose workers are killed: every run ends, and nothing is paid or done twice. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createFileCheckpoint } from "deep-factor-providers/native";
import { expect, it, onTestFinished } from "vitest";
import { whatToDo } from "../../examples/fleet/retry.mjs";
import { runTask } from "../../examples/fleet/task-run.mjs";
import { TASKS, type Task } from "../../examples/fleet/tasks.mjs";
import { scriptedModel } from "../../examples/suite/scripted-model.mjs";
import { withAdapter } from "../support/claude-code.mjs";
import { installed } from "../support/installed.mjs";
import { createTag, until } from "../support/processes.mjs";
import { isThere, MISSING_REDIS, startRedis } from "../support/servers.mjs";
import { lacks } from "../support/systems.mjs";

const isMissing = !isThere("redis-server");
if (isMissing) console.warn(`the fleet is left out: ${MISSING_REDIS}`);

it.skipIf(isMissing)("carries every run to its end, whoever is killed", { timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "dfp-fleet-"));
  const redis = await startRedis();
  onTestFinished(async () => {
    await redis.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const tag = createTag();
  const out = join(folder, "fleet.html");
  const main = join(import.meta.dirname, "../../examples/fleet/main.mjs");
  const args = [
    "--port",
    `${redis.port}`,
    "--runs",
    "60",
    "--repeats",
    "2",
    "--kills",
    "20",
    "--seed",
    "7",
    "--out",
    out,
  ];
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, ...tag.env, NODE_PATH: dirname(await installed("bullmq")) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  expect(await once(child, "close")).toEqual([0, null]);
  const { requests, charged, begun, codes, ...summary } = JSON.parse(text);
  expect(summary).toEqual({
    ...{ runs: 60, completed: 56, deadLetters: 4, killed: 20, delayed: 8, paidTwice: 0, chargedTwice: 0 },
    // Tasks of claude's own: two had their worker killed, two had it ended, two were delayed until their plan was there again.
    // What is finished is never asked for again.
    ...{ tasks: 6, passed: 4, failed: 2, disturbed: 4, refused: 2, repeated: 0, requestsAgain: 0 },
    // Nobody holds a run any more.
    leases: 0,
  });
  expect(begun).toBeGreaterThanOrEqual(6 + 4 + 2);
  expect(charged).toBeLessThanOrEqual(2 * 56);
  // Each worker has ended by itself when it was asked to: those of the tasks, and all in the end.
  expect([new Set(codes), codes.length >= 3 + 1]).toEqual([new Set([0]), true]);
  await until(() => tag.left().length === 0);
  const html = readFileSync(out, "utf8");
  expect(html.split("<tr>").length - 1).toBe(67);
  expect(html).toContain("INVALID_REQUEST");
  expect(html.split("<td>task</td>").length - 1).toBe(6);
});

it.skipIf(lacks("processes"))(
  "a task of claude's own begins anew where it was interrupted, and is never repeated when it is finished",
  async () => {
    let hangs = true;
    const tag = createTag();
    const { api, adapter } = await withAdapter({
      env: tag.env,
      mayRunOut: true,
      script: (request: { body: unknown }) => (hangs ? { hang: true } : scriptedModel(request)),
    });
    const folder = mkdtempSync(join(tmpdir(), "dfp-fleet-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const checkpoint = createFileCheckpoint({ dir: join(folder, "runs") });
    const workspaces = join(folder, "workspaces");
    mkdirSync(workspaces);
    const start = (more: object = {}) =>
      runTask({
        ...{ adapter, checkpoint, workspaces, runId: "task-1", task: TASKS.get("fix-the-sum") as Task },
        ...{ signal: new AbortController().signal, heartbeatInterval: 20, onHeartbeat() {} },
        ...more,
      });
    // Ended from outside: the reason comes back, and so does the run.
    const stop = new AbortController();
    const reason = new Error("the worker ends");
    const first = start({ signal: stop.signal });
    await until(() => api.requests.length === 1);
    await expect(start()).rejects.toMatchObject({ code: "RUN_LOCKED" });
    stop.abort(reason);
    await expect(first).rejects.toBe(reason);
    // A lock that the queue has given to somebody else.
    const lost = new Error("lock lost");
    await expect(start({ onHeartbeat: () => api.requests.length === 2 && Promise.reject(lost) })).rejects.toBe(lost);
    expect([api.requests.length, tag.left(), readdirSync(workspaces)]).toEqual([2, [], []]);

    hangs = false;
    const record = await start();
    expect(record).toMatchObject({ v: 1, verdict: "pass", output: "sum.mjs adds now.", attempts: 3 });
    const paid = api.requests.length;
    expect(await start()).toEqual(record);
    // Nor is it taken for another task's, and no id leads elsewhere.
    const other = { task: TASKS.get("name-a-colour") };
    await expect(start(other)).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", category: "validation" });
    await expect(start({ runId: "../task-1" })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect([api.requests.length, tag.left(), readdirSync(workspaces)]).toEqual([paid, [], []]);
  },
);

it("a task whose plan is used up has no record, and the queue learns until when", async () => {
  const resets = Math.floor(Date.now() / 1000) + 3600;
  const headers = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": String(resets),
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
  };
  const message = "This request would exceed your account's rate limit.";
  const { adapter } = await withAdapter({
    env: { ANTHROPIC_API_KEY: undefined, CLAUDE_CODE_OAUTH_TOKEN: "sk-ant-oat01-made-up" },
    script: () => ({ error: { status: 429, message, headers } }),
  });
  const folder = mkdtempSync(join(tmpdir(), "dfp-fleet-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const checkpoint = createFileCheckpoint({ dir: join(folder, "runs") });
  const error = await runTask({
    ...{ adapter, checkpoint, workspaces: folder, runId: "task-1", task: TASKS.get("fix-the-sum") as Task },
    ...{ signal: new AbortController().signal, heartbeatInterval: 1000, onHeartbeat() {} },
  }).catch((error) => error);
  expect([error.code, error.category, error.resetsAt]).toEqual(["USAGE_LIMIT", "quota", new Date(resets * 1000)]);
  expect(whatToDo(error, 1000)).toEqual({ do: "delay", until: resets * 1000 });
  // It was given back, and is not finished.
  const { entries, result } = await checkpoint.load("task-1", { leaseMs: 1000 });
  expect([entries.length, result]).toEqual([1, undefined]);
});
