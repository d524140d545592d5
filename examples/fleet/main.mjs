/**
 * A fleet: agent runs on a BullMQ queue, workers in processes of their own, checkpoints in Redis. Workers can be killed on purpose.
 *
 *   redis-server --port 6390 --save '' &
 *   npm install bullmq
 *   node examples/fleet/main.mjs --port 6390 --runs 200 --workers 4 --kills 10 --out fleet.html
 *
 * The model is scripted and answers offline: it charges twice, then says that it is done. Of every seven runs one meets a used-up quota
 * and is delayed, and of every thirteen one is refused and goes to the dead letters. It ends with a line of JSON.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startOpenAi } from "../../__tests__/support/openai.mjs";
import { page } from "./page.mjs";

const load = createRequire(import.meta.url);
const { Queue } = load("bullmq");
const Redis = load("ioredis");

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "6379" },
    runs: { type: "string", default: "20" },
    workers: { type: "string", default: "3" },
    concurrency: { type: "string", default: "4" },
    kills: { type: "string", default: "0" },
    seed: { type: "string", default: "1" },
    out: { type: "string" },
  },
});
const [port, runs, size, concurrency, kills] = [
  values.port,
  values.runs,
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
    killed += 1;
    workers[choose(workers.length)]?.kill("SIGKILL");
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

const env = { port, url: api.url, queue: name, concurrency, lockMs: 2000, effects };
/** @type {import("node:child_process").ChildProcess[]} */
const workers = [];
let ending = false;
function startWorker(/** @type {number} */ index) {
  const file = fileURLToPath(new URL("worker.mjs", import.meta.url));
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, FLEET: JSON.stringify(env) },
    stdio: ["ignore", "ignore", "inherit"],
  });
  workers[index] = child;
  child.once("exit", () => ending || startWorker(index));
}
for (let index = 0; index < size; index++) startWorker(index);

await queue.addBulk(
  Array.from({ length: runs }, (_, index) => {
    const jobId = `${name}-${index}`;
    const opts = { jobId, attempts: 5, backoff: { type: "exponential", delay: 200 } };
    return { name: "run", data: { prompt: `This is run ${jobId}.` }, opts };
  }),
);
for (;;) {
  const { completed = 0, failed = 0 } = await queue.getJobCounts("completed", "failed");
  if (completed + failed === runs) break;
  await delay(50);
}
ending = true;
const exits = workers.map((worker) =>
  worker.exitCode === null && worker.signalCode === null ? once(worker, "exit") : undefined,
);
for (const worker of workers) worker.kill("SIGTERM");
const codes = (await Promise.all(exits)).map((exit) => exit?.[0]);

const jobs = await queue.getJobs(["completed", "failed"]);
const rows = jobs.map((/** @type {any} */ { id, returnvalue, failedReason }) => ({
  id,
  state: returnvalue ? "completed" : "dead letter",
  output: returnvalue?.output ?? failedReason,
  resumed: returnvalue?.resumed ?? 0,
  tokens: returnvalue?.tokens ?? 0,
}));
const keys = await redis.lrange(effects, 0, -1);
const leases = (await redis.keys(`runs:{${name}-*}:lease`)).length;
const completed = rows.filter((/** @type {any} */ row) => row.state === "completed").length;
const summary = {
  ...{ runs, completed, deadLetters: runs - completed, killed, delayed, requests, paidTwice },
  ...{ charged: keys.length, chargedTwice: keys.length - new Set(keys).size, leases, codes },
};
if (values.out) writeFileSync(values.out, page(rows, summary));
console.log(JSON.stringify(summary));
await queue.obliterate({ force: true });
await queue.close();
const left = await redis.keys(`*${name}*`);
if (left.length > 0) await redis.del(left);
await redis.quit();
await api.close();
