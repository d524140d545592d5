/**
 * A fleet: agent runs and tasks of claude's own on a BullMQ queue, workers in processes of their own, checkpoints in Redis. Workers can be
 * killed on purpose.
 *
 *   redis-server --port 6390 --save '' &
 *   npm install bullmq ioredis
 *   node examples/fleet/main.mjs --port 6390 --runs 200 --repeats 2 --workers 4 --kills 10 --out fleet.html
 *
 * The model is scripted and answers offline: it charges twice, then says that it is done. Of every seven runs one meets a used-up quota
 * and is delayed, and of every thirteen one is refused and goes to the dead letters. Each task of tasks.mjs is done `--repeats` times by
 * the real claude CLI, against a scripted API as well: of every three of these one meets a used-up plan and is delayed, and with `--kills`
 * one has its worker killed and one has it ended by SIGTERM. In the end, what has finished is delivered once more, and must cost nothing.
 * It ends with a line of JSON.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { startOpenAi } from "../../__tests__/support/openai.mjs";
import { scriptedModel } from "../suite/scripted-model.mjs";
import { page } from "./page.mjs";
import { TASKS } from "./tasks.mjs";

const load = createRequire(import.meta.url);
const { Queue } = load("bullmq");
const { Redis } = load("ioredis");

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "6379" },
    runs: { type: "string", default: "20" },
    repeats: { type: "string", default: "1" },
    workers: { type: "string", default: "3" },
    concurrency: { type: "string", default: "4" },
    kills: { type: "string", default: "0" },
    seed: { type: "string", default: "1" },
    out: { type: "string" },
  },
});
const [port, runs, repeats, size, concurrency, kills] = [
  values.port,
  values.runs,
  values.repeats,
  values.workers,
  values.concurrency,
  values.kills,
].map(Number);
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const name = `fleet-${process.pid}`;
const effects = `${name}-charges`;
const redis = new Redis(connection);
const queue = new Queue(name, { connection });

/** The same numbers for the same seed: a linear congruential generator is enough to choose by. */
let state = Number(values.seed);
const choose = (/** @type {number} */ below) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

let [requests, killed, paidTwice, delayed] = [0, 0, 0, 0];
const spent = new Set();
/** Workers that were asked to end. */
const stopping = new Set();
const api = await startOpenAi(async ({ body }) => {
  requests += 1;
  const runId = /run (\S+)\./.exec(JSON.stringify(body.messages))?.[1] ?? "";
  const number = Number(runId.split("-").at(-1));
  const step = body.messages.filter((/** @type {{ role: string }} */ { role }) => role === "assistant").length;
  const kept = (await redis.lrange(`runs:{${runId}}:entries`, 0, -1)).map((/** @type {string} */ entry) =>
    JSON.parse(entry),
  );
  if (kept.filter((/** @type {{ type: string }} */ { type }) => type === "turn").length > step) paidTwice += 1;
  // Whoever works while this request is open may die.
  if (killed < kills && choose(4) === 0) {
    const worker = workers[choose(workers.length)];
    if (worker && !stopping.has(worker)) {
      killed += 1;
      worker.kill("SIGKILL");
    }
  }
  if (number % 13 === 12) return { error: { status: 400, message: "This one is refused." } };
  if (number % 7 === 6 && step === 1 && !spent.has(runId)) {
    spent.add(runId);
    delayed += 1;
    const headers = { "retry-after": "1" };
    return { error: { status: 429, type: "insufficient_quota", message: "The quota is used up.", headers } };
  }
  return step < 2 ? { text: "", calls: [{ name: "charge", args: { cents: step + 1 } }] } : { text: `${runId} is done` };
});

/** The tasks as they are asked of claude: how often one was begun, and asked for although it was finished. */
let [begun, repeated] = [0, 0];
/** Each attempt that does not get far, once for its run. */
const [disturbed, refused] = [new Set(), new Set()];
const claudeApi = await startAnthropic(async (request) => {
  const thread = JSON.stringify(request.body.messages);
  const runId = /run (\S+?)\./.exec(thread)?.[1] ?? "";
  if ((await redis.exists(`runs:{${runId}}:result`)) === 1) repeated += 1;
  if (thread.includes('"tool_result"')) return scriptedModel(request);
  begun += 1;
  const signal = /** @type {const} */ (["SIGKILL", "SIGTERM", undefined])[Number(runId.split("-").at(-1)) % 3];
  if (signal === undefined && !refused.has(runId)) {
    refused.add(runId);
    const headers = {
      "anthropic-ratelimit-unified-status": "rejected",
      "anthropic-ratelimit-unified-reset": String(Math.floor(Date.now() / 1000) + 2),
      "anthropic-ratelimit-unified-representative-claim": "five_hour",
    };
    return { error: { status: 429, message: "This request would exceed your account's rate limit.", headers } };
  }
  if (kills === 0 || signal === undefined || disturbed.has(runId)) return scriptedModel(request);
  const { progress } = await queue.getJob(runId);
  const worker = workers.find(({ pid }) => pid === progress.worker);
  // One that ends already is let end.
  if (worker && !stopping.has(worker)) {
    disturbed.add(runId);
    if (signal === "SIGTERM") stopping.add(worker);
    worker.kill(signal);
  }
  return { hang: true };
});
// A login that has a plan.
const login = { ANTHROPIC_API_KEY: undefined, CLAUDE_CODE_OAUTH_TOKEN: "sk-ant-oat01-made-up" };
const isolated = isolateClaude({ baseUrl: claudeApi.url, env: login });
const workspaces = mkdtempSync(join(tmpdir(), "fleet-"));

const env = {
  port,
  url: api.url,
  queue: name,
  concurrency,
  lockMs: 2000,
  effects,
  claude: { cliPath: isolated.cliPath },
  workspaces,
};
/** @type {import("node:child_process").ChildProcess[]} */
const workers = [];
/** @type {Promise<unknown>[]} */
const ready = [];
/** @type {(number | null)[]} with what those have ended that were asked to */
const codes = [];
let ending = false;
function startWorker(/** @type {number} */ index) {
  const file = fileURLToPath(new URL("worker.mjs", import.meta.url));
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, ...isolated.env, FLEET: JSON.stringify(env) },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  workers[index] = child;
  ready[index] = once(child, "message");
  child.once("exit", (code, signal) => {
    if (signal !== "SIGKILL") codes.push(code);
    if (!ending) startWorker(index);
  });
}
for (let index = 0; index < size; index++) startWorker(index);

const taskRuns = [...TASKS.keys()].flatMap((task) => Array.from({ length: repeats }, () => ({ task })));
/** @type {{ name: "run" | "task", data: object, opts: { jobId: string } }[]} */
const wanted = [
  ...Array.from({ length: runs }, (_, index) => {
    const jobId = `${name}-${index}`;
    return { name: /** @type {const} */ ("run"), data: { prompt: `This is run ${jobId}.` }, opts: { jobId } };
  }),
  ...taskRuns.map((data, index) => ({
    name: /** @type {const} */ ("task"),
    data,
    opts: { jobId: `${name}-task-${index}` },
  })),
];
/** @param {typeof wanted} jobs */
const deliver = async (jobs) => {
  const backoff = { type: "exponential", delay: 200 };
  await queue.addBulk(jobs.map(({ opts, ...job }) => ({ ...job, opts: { ...opts, attempts: 5, backoff } })));
  for (;;) {
    const { completed = 0, failed = 0 } = await queue.getJobCounts("completed", "failed");
    if (completed + failed === wanted.length) return await queue.getJobs(["completed", "failed"]);
    await delay(50);
  }
};
const jobs = await deliver(wanted);
const rows = jobs.map((/** @type {any} */ { id, name, returnvalue, failedReason }) => ({
  id,
  kind: name,
  state: returnvalue ? (returnvalue.verdict ?? "completed") : "dead letter",
  output: returnvalue?.output ?? failedReason,
  resumed: returnvalue?.resumed ?? "",
  attempts: returnvalue?.attempts ?? "",
  tokens: returnvalue?.tokens ?? 0,
}));

// A queue may deliver twice, and so may who fills it.
const asked = requests + begun;
const finished = jobs.filter((/** @type {any} */ { returnvalue }) => returnvalue);
for (const job of finished) await job.remove();
await deliver(wanted.filter(({ opts }) => finished.some((/** @type {any} */ { id }) => id === opts.jobId)));
const requestsAgain = requests + begun - asked;

ending = true;
await Promise.all(ready);
const exits = workers.map((worker) =>
  worker.exitCode === null && worker.signalCode === null ? once(worker, "exit") : undefined,
);
for (const worker of workers) worker.kill("SIGTERM");
await Promise.all(exits);

const keys = await redis.lrange(effects, 0, -1);
const leases = (await redis.keys(`runs:{${name}-*}:lease`)).length;
const count = (/** @type {string} */ kind, /** @type {string} */ state) =>
  rows.filter((/** @type {any} */ row) => row.kind === kind && row.state === state).length;
const summary = {
  ...{ runs, completed: count("run", "completed"), deadLetters: count("run", "dead letter") },
  ...{ killed, delayed, requests, paidTwice, charged: keys.length, chargedTwice: keys.length - new Set(keys).size },
  ...{ tasks: taskRuns.length, passed: count("task", "pass"), failed: count("task", "fail") },
  ...{ begun, disturbed: disturbed.size, refused: refused.size, repeated, requestsAgain, leases, codes },
};
if (values.out) writeFileSync(values.out, page(rows, summary));
console.log(JSON.stringify(summary));
await queue.obliterate({ force: true });
await queue.close();
const left = await redis.keys(`*${name}*`);
if (left.length > 0) await redis.del(left);
await redis.quit();
await Promise.all([api.close(), claudeApi.close()]);
isolated.cleanup();
rmSync(workspaces, { recursive: true, force: true });
