// @ts-check
/**
 * The fleet of examples/fleet, its own workers, each of which is killed with SIGKILL at a seeded moment until enough were; then all that
 * is queued comes to its end.
 *
 * In: a Redis of its own, how many kills, and a seed. Out: when the workers were killed, and every broken promise: a turn that was asked
 * again although it was kept, a tool that ran twice, or never, a run that did not finish, and whatever is left behind.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { random } from "./crash.mjs";
import { installed } from "./installed.mjs";
import { startOpenAi } from "./openai.mjs";
import { createTag, exists } from "./processes.mjs";

const WORKER = fileURLToPath(new URL("../../examples/fleet/worker.mjs", import.meta.url));
const KILL_POINTS = new URL("kill-points.mjs", import.meta.url).href;

/** Each turn but the last of a run charges once. */
const CHARGES = 7;
const WORKERS = 4;
const CONCURRENCY = 4;
/** Runs that are queued at once; as many again whenever they are done before there were enough kills. */
const BATCH = 64;
/** How long a lease and a job's lock last that are not renewed, ms: a worker that was killed is missed so late. */
const LOCK_MS = 2000;
/** What hangs ends so late: many times what 200 kills take. */
const LONGEST_MS = 540_000;

/** The moment at which a worker dies. @typedef {{ kind: "point" | "request" | "time", at: number }} Death */

/** @param {{ port: number, kills: number, seed: number }} options */
export async function crashFleet({ port, kills, seed }) {
  const next = random(seed);
  const home = await installed("bullmq");
  const load = createRequire(join(home, "x.js"));
  const { Queue } = load("bullmq");
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const redis = new (load("ioredis").Redis)(connection);
  const name = `fleet-s${seed}`;
  const effects = `${name}-charges`;
  const queue = new Queue(name, { connection });
  const tag = createTag();
  /** @type {string[]} */
  const broken = [];
  /** Charges of which the model learned that nobody knows whether they happened. @type {Map<string, number>} */
  const unknown = new Map();
  /** How often each turn was asked for: more than once only where its answer was not kept. @type {Map<string, number>} */
  const asked = new Map();
  /** Called at each request, and takes itself away. @type {Set<() => void>} */
  const onRequest = new Set();

  const api = await startOpenAi(async ({ body }) => {
    /** @type {{ role: string, content: string }[]} */
    const messages = body.messages;
    const runId = /run (\S+)\./.exec(JSON.stringify(messages))?.[1] ?? "";
    const step = messages.filter(({ role }) => role === "assistant").length;
    const turn = `${runId}/${step + 1}`;
    asked.set(turn, (asked.get(turn) ?? 0) + 1);
    const kept = await turnsOf(runId);
    if (kept !== step) broken.push(`${turn} was asked for, and ${kept} turns are kept`);
    for (const listener of onRequest) listener();
    if (step < CHARGES) return { text: "", calls: [{ name: "charge", args: { cents: step + 1 } }] };
    const lost = messages.filter(({ role, content }) => role === "tool" && content.includes("unknown whether"));
    unknown.set(runId, lost.length);
    return { text: `${runId} is done` };
  });
  /** @param {string} runId */
  async function turnsOf(runId) {
    const entries = await redis.lrange(`runs:{${runId}}:entries`, 0, -1);
    return entries.filter((/** @type {string} */ entry) => JSON.parse(entry).type === "turn").length;
  }

  /** Of every five workers, three die at a place, one while the model is at work on an answer, and one at any time. @returns {Death} */
  const draw = () => {
    const kind =
      /** @type {const} */ (["point", "point", "point", "request", "time"])[Math.floor(next() * 5)] ?? "point";
    return { kind, at: { point: 10 + next() * 120, request: 1 + next() * 12, time: next() * 1000 }[kind] };
  };

  /** By moment. @type {Record<string, number>} */
  const places = {};
  /** @type {import("node:child_process").ChildProcess[]} */
  const workers = [];
  /** @type {Promise<unknown>[]} */
  const ready = [];
  /** @type {number[]} */
  const pids = [];
  /** @type {(number | null)[]} */
  const codes = [];
  let [killed, doomed, ending] = [0, 0, false];
  const fleet = { port, url: api.url, queue: name, concurrency: CONCURRENCY, lockMs: LOCK_MS, effects };

  /** @param {number} index */
  function startWorker(index) {
    const death = killed + doomed < kills ? draw() : undefined;
    if (death) doomed += 1;
    const isPoint = death?.kind === "point";
    const child = spawn(process.execPath, [...(isPoint ? ["--import", KILL_POINTS] : []), WORKER], {
      env: {
        ...process.env,
        ...tag.env,
        ...{ NODE_PATH: dirname(home), FLEET: JSON.stringify(fleet), KILL_AT: `${Math.floor(death?.at ?? 0)}` },
      },
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    });
    workers[index] = child;
    ready[index] = once(child, "message");
    if (child.pid !== undefined) pids.push(child.pid);
    let place = death?.kind === "request" ? "model" : "any time";
    child.stdout?.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
      place = text.trim();
    });
    const kill = () => child.kill("SIGKILL");
    let requests = 0;
    const countRequest = () => {
      requests += 1;
      if (requests >= Math.floor(death?.at ?? 0)) kill();
    };
    child.once("message", () => {
      if (death?.kind === "request") onRequest.add(countRequest);
      if (death?.kind === "time") setTimeout(kill, death.at).unref();
    });
    child.once("close", (code, signal) => {
      onRequest.delete(countRequest);
      if (death) doomed -= 1;
      if (signal === "SIGKILL") {
        killed += 1;
        places[place] = (places[place] ?? 0) + 1;
      } else codes.push(code);
      if (!ending) startWorker(index);
    });
  }
  for (let index = 0; index < WORKERS; index++) startWorker(index);

  let runs = 0;
  const add = async () => {
    const ids = Array.from({ length: BATCH }, (_, index) => `${name}-${runs + index}`);
    runs += BATCH;
    const opts = { attempts: 100, backoff: { type: "fixed", delay: 100 } };
    await queue.addBulk(
      ids.map((jobId) => ({ name: "run", data: { prompt: `This is run ${jobId}.` }, opts: { ...opts, jobId } })),
    );
  };
  const began = performance.now();
  await add();
  for (;;) {
    const { completed = 0, failed = 0 } = await queue.getJobCounts("completed", "failed");
    if (completed + failed === runs) {
      if (killed >= kills) break;
      // Those that are to die yet have to be at work.
      await add();
    }
    if (performance.now() - began > LONGEST_MS) {
      ending = true;
      for (const worker of workers) worker.kill("SIGKILL");
      throw new Error(`${runs - completed} of ${runs} runs have not ended after ${LONGEST_MS} ms and ${killed} kills`);
    }
    await delay(100);
  }
  ending = true;
  // The last to be killed may just have been replaced: what is not up yet would not end in order.
  await Promise.all(ready);
  await Promise.all(
    workers.map(async (worker) => {
      const closed = once(worker, "close");
      worker.kill("SIGTERM");
      await closed;
    }),
  );

  for (const job of await queue.getJobs(["completed", "failed"])) {
    const output = job.returnvalue?.output;
    if (output !== `${job.id} is done`) broken.push(`${job.id} ended with "${output ?? job.failedReason}"`);
    if ((await turnsOf(job.id)) !== CHARGES + 1) broken.push(`${job.id} has ${await turnsOf(job.id)} turns`);
  }
  /** @type {string[]} */
  const ledger = await redis.lrange(effects, 0, -1);
  const charges = new Set(ledger);
  if (charges.size < ledger.length) broken.push(`${ledger.length - charges.size} charges were made twice`);
  for (let index = 0; index < runs; index++) {
    const runId = `${name}-${index}`;
    const made = [...charges].filter((key) => key.startsWith(`${runId}/`)).length;
    const least = CHARGES - (unknown.get(runId) ?? 0);
    if (made < least || made > CHARGES)
      broken.push(`${runId} was charged ${made} times, and at least ${least} are known`);
  }
  const left = {
    leases: await redis.keys("runs:*:lease"),
    locks: await redis.keys(`bull:${name}:*:lock`),
    jobs: await queue.getJobCounts("active", "waiting", "delayed", "paused", "failed"),
    processes: [...pids.filter(exists), ...tag.left()],
  };
  const again = [...asked.values()].filter((times) => times > 1).length;
  await queue.close();
  await redis.quit();
  await api.close();
  return { killed, places, runs, workers: pids.length, turns: asked.size, again, broken, left, codes };
}
