/**
 * One worker of the fleet: takes agent runs and tasks of a suite from the queue and keeps them in Redis, so that it may die at any moment.
 *
 * `FLEET` (JSON) says where Redis, the model and claude are. SIGTERM ends it gracefully: what it was at is given back to the queue, and
 * goes on elsewhere: an agent's run from its last step, a task of claude's own from its beginning.
 *
 * @import { ProviderError } from "deep-factor-providers"
 *
 * @typedef {{ heartbeatInterval: number, onHeartbeat: () => unknown }} Beat
 * @typedef {{ value: Record<string, unknown> } | { error: ProviderError } | "stopped"} Ended
 */
import { createRequire } from "node:module";
import { ClaudeCodeAdapter, createOpenAiCompatibleProvider, runAgent } from "deep-factor-providers/native";
import { createRedisCheckpoint } from "./redis-store.mjs";
import { whatToDo } from "./retry.mjs";
import { runTask } from "./task-run.mjs";
import { TASKS } from "./tasks.mjs";

const load = createRequire(import.meta.url);
const { DelayedError, UnrecoverableError, Worker } = load("bullmq");
const { Redis } = load("ioredis");

const { port, url, queue, concurrency, lockMs, effects, claude, workspaces } = JSON.parse(process.env.FLEET ?? "{}");

const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const redis = new Redis(connection);
const checkpoint = createRedisCheckpoint(redis, { leaseMs: lockMs });
const provider = createOpenAiCompatibleProvider({ baseURL: url, apiKey: "not-a-key", model: "scripted", retry: false });
// Nothing is started before there is a task.
const adapter = new ClaudeCodeAdapter(claude ?? {});
const stop = new AbortController();

const tools = [
  {
    name: "charge",
    schema: { type: "object", properties: { cents: { type: "integer" } }, required: ["cents"] },
    /** Money: the key is what a payment service would take. Here a list in Redis is the service, and counts. */
    execute: async (/** @type {any} */ { cents }, /** @type {{ idempotencyKey: string }} */ { idempotencyKey }) => {
      await redis.rpush(effects, idempotencyKey);
      return `charged ${cents}`;
    },
  },
];

/**
 * A run of an agent, which goes on where it was.
 *
 * @param {any} job
 * @param {Beat} beat
 * @returns {Promise<Ended>}
 */
async function runOf(job, beat) {
  let steps = 0;
  const { status, output, error, resumed, usage } = await runAgent({
    provider,
    runId: job.id,
    checkpoint,
    prompt: job.data.prompt,
    tools,
    signal: stop.signal,
    ...beat,
    onEvent: ({ type }) => {
      if (type === "usage") job.updateProgress({ worker: process.pid, step: ++steps }).catch(() => {});
    },
  }).result;
  if (status === "completed")
    return { value: { output, tokens: usage.totalTokens, resumed: resumed?.steps ?? 0, attempts: null } };
  return status === "cancelled" || error === undefined ? "stopped" : { error };
}

/**
 * A task of the table, done by claude itself, or not done again if it is finished.
 *
 * @param {any} job
 * @param {Beat} beat
 * @returns {Promise<Ended>}
 */
async function taskOf(job, beat) {
  const task = TASKS.get(job.data.task);
  if (task === undefined) throw new UnrecoverableError(`there is no task ${JSON.stringify(job.data.task)}`);
  await job.updateProgress({ worker: process.pid });
  try {
    const parts = { adapter, task, runId: job.id, checkpoint, workspaces, signal: stop.signal };
    const { verdict, output, tokens, attempts } = await runTask({ ...parts, ...beat });
    return { value: { verdict, output, tokens, resumed: null, attempts } };
  } catch (error) {
    return stop.signal.aborted ? "stopped" : { error: /** @type {ProviderError} */ (error) };
  }
}

const worker = new Worker(
  queue,
  async (/** @type {any} */ job, /** @type {string} */ token) => {
    /** @param {number} until */
    const later = async (until) => {
      await job.moveToDelayed(until, token);
      // It is no attempt that has failed.
      throw new DelayedError();
    };
    // The lock is kept by the run's own signs of life, and no timer of the queue's: a run that hangs loses it.
    const beat = { heartbeatInterval: Math.floor(lockMs / 4), onHeartbeat: () => job.extendLock(token, lockMs) };
    const ended = await (job.name === "task" ? taskOf : runOf)(job, beat);
    if (ended === "stopped") return await later(Date.now());
    if ("value" in ended) return ended.value;
    const { error } = ended;
    const action = whatToDo(error, lockMs);
    if (action.do === "delay") return await later(action.until);
    if (action.do === "bury") throw new UnrecoverableError(`${error.code}: ${error.message}`);
    throw error;
  },
  // A worker that is killed leaves its jobs locked: they are back in the queue when that has run out, as often as it takes.
  {
    connection,
    concurrency,
    lockDuration: lockMs,
    skipLockRenewal: true,
    stalledInterval: lockMs,
    maxStalledCount: 1000,
  },
);
worker.on("error", (/** @type {Error} */ error) => process.stderr.write(`${error.message}\n`));

worker.once("ready", () => process.send?.("ready"));

process.once("SIGTERM", async () => {
  stop.abort();
  await worker.close();
  await provider.close();
  await redis.quit();
});
