/**
 * One worker of the fleet: takes runs from the queue and keeps them in Redis, so that it may die at any moment.
 *
 * `FLEET` (JSON) says where Redis and the model are. SIGTERM ends it gracefully: what it was at is given back to the queue, and goes on
 * elsewhere from its last step.
 */
import { createRequire } from "node:module";
import { createOpenAiCompatibleProvider, runAgent } from "deep-factor-providers/native";
import { createRedisCheckpoint } from "./redis-store.mjs";
import { whatToDo } from "./retry.mjs";

const load = createRequire(import.meta.url);
const { DelayedError, UnrecoverableError, Worker } = load("bullmq");
const Redis = load("ioredis");

const { port, url, queue, concurrency, lockMs, effects } = JSON.parse(process.env.FLEET ?? "{}");

const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const redis = new Redis(connection);
const checkpoint = createRedisCheckpoint(redis, { leaseMs: lockMs });
const provider = createOpenAiCompatibleProvider({ baseURL: url, apiKey: "not-a-key", model: "scripted", retry: false });
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

const worker = new Worker(
  queue,
  async (/** @type {any} */ job, /** @type {string} */ token) => {
    /** @param {number} until */
    const later = async (until) => {
      await job.moveToDelayed(until, token);
      // It is no attempt that has failed.
      throw new DelayedError();
    };
    let steps = 0;
    const { status, output, error, resumed, usage } = await runAgent({
      provider,
      runId: job.id,
      checkpoint,
      prompt: job.data.prompt,
      tools,
      signal: stop.signal,
      // The lock is kept by the run's own signs of life, and no timer of the queue's: a run that hangs loses it.
      heartbeatInterval: Math.floor(lockMs / 4),
      onHeartbeat: () => job.extendLock(token, lockMs),
      onEvent: ({ type }) => {
        if (type === "usage") job.updateProgress({ step: ++steps }).catch(() => {});
      },
    }).result;
    if (status === "completed") return { output, tokens: usage.totalTokens, resumed: resumed?.steps ?? 0 };
    if (status === "cancelled" || error === undefined) return await later(Date.now());
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

process.once("SIGTERM", async () => {
  stop.abort();
  await worker.close();
  await provider.close();
  await redis.quit();
});
