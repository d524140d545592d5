/**
 * A pool of worker threads that carries a table of agent runs to its end, on one machine and without a queue.
 *
 * In: the runs. Out: the table, each row with what became of it. Runs are kept in files: whatever happens to a thread, or to the whole
 * process, another takes the run up under its id, from its last entry.
 *
 * @import { Ended, WorkerData } from "./worker.mjs"
 *
 * @typedef {object} Row
 * @property {string} id
 * @property {string} prompt
 * @property {"waiting" | "running" | "completed" | "failed"} state `"waiting"` in the end: the pool was stopped
 * @property {number} notBefore ms since the epoch
 * @property {number} failures attempts that failed and were worth another
 * @property {number} lost threads that ended while they were at it
 * @property {number} resumed turns of earlier attempts, which were not paid again
 * @property {string} output the model's last word, or why there is none
 */
import { Worker } from "node:worker_threads";

const FILE = new URL("worker.mjs", import.meta.url);
/** The longest time of a timer, ms. */
const LONGEST = 2 ** 31 - 1;

/**
 * @param {object} options
 * @param {{ id: string, prompt: string }[]} options.runs
 * @param {Omit<WorkerData, "heartbeatInterval">} options.workerData
 * @param {number} [options.threads]
 * @param {URL} [options.file] the threads' program; default: `worker.mjs`
 * @param {number} [options.attempts] how often a run may fail for a reason that passes
 * @param {number} [options.losses] how many threads a run may take with it
 * @param {number} [options.backoffMs] before the second attempt; it doubles before each further one
 * @param {number} [options.silentMs] a thread from which nothing is heard for so long is ended
 * @param {AbortSignal} [options.signal] stops the pool: runs under way are given back, and go on in the next one
 * @param {(row: Row, thread: Worker) => void} [options.onBegin]
 * @returns {Promise<Row[]>}
 */
export async function runPool({ runs, workerData, threads = 4, file = FILE, onBegin, signal, ...limits }) {
  const { attempts = 5, losses = 10, backoffMs = 500, silentMs = 60_000 } = limits;
  /** @type {Row[]} */
  const rows = runs.map(({ id, prompt }) => ({
    ...{ id, prompt, state: "waiting", notBefore: 0, failures: 0, lost: 0, resumed: 0, output: "" },
  }));
  /** @type {(() => void)[]} */
  const sleeping = [];
  const wake = () => {
    for (const resolve of sleeping.splice(0)) resolve();
  };
  /** Until something has changed, or `ms` have passed. */
  const change = async (/** @type {number} */ ms) => {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      sleeping.push(resolve);
      timer = setTimeout(resolve, Math.min(ms, LONGEST));
    });
    clearTimeout(timer);
  };

  /** The next run that may begin; undefined when there are none any more. */
  async function take() {
    while (!signal?.aborted) {
      const [first] = rows.filter(({ state }) => state === "waiting").sort((a, b) => a.notBefore - b.notBefore);
      const wait = first ? first.notBefore - Date.now() : LONGEST;
      if (first && wait <= 0) {
        first.state = "running";
        return first;
      }
      // One that is running may come back.
      if (!first && !rows.some(({ state }) => state === "running")) return undefined;
      await change(wait);
    }
    return undefined;
  }

  /**
   * @param {Row} row
   * @param {Ended | undefined} ended undefined: its thread is gone
   */
  function settle(row, ended) {
    const fail = (/** @type {string} */ output) => Object.assign(row, { state: "failed", output });
    const again = (/** @type {number} */ notBefore) => Object.assign(row, { state: "waiting", notBefore });
    if (ended === undefined) {
      // No fault of the run's, unless it happens wherever it is.
      row.lost += 1;
      if (row.lost >= losses) fail(`${row.lost} threads ended while they were at it`);
      else again(0);
    } else if (ended.value) Object.assign(row, { state: "completed", ...ended.value });
    else if (ended.action === undefined) again(0);
    else if (ended.action.do === "delay") again(ended.action.until);
    else if (ended.action.do === "bury") fail(ended.reason ?? "");
    else {
      row.failures += 1;
      if (row.failures >= attempts) fail(ended.reason ?? "");
      else again(Date.now() + backoffMs * 2 ** (row.failures - 1));
    }
  }

  async function carry() {
    /** @type {ReturnType<typeof startThread> | undefined} */
    let thread;
    for (let row = await take(); row !== undefined; row = await take()) {
      thread ??= startThread(file, { ...workerData, heartbeatInterval: Math.floor(silentMs / 4) });
      onBegin?.(row, thread.worker);
      const ended = await attempt(thread, row, silentMs, signal);
      if (ended === undefined) thread = undefined;
      settle(row, ended);
      wake();
    }
    await thread?.worker.terminate();
  }

  signal?.addEventListener("abort", wake);
  try {
    await Promise.all(Array.from({ length: threads }, carry));
  } finally {
    signal?.removeEventListener("abort", wake);
  }
  return rows;
}

/**
 * @param {URL} file
 * @param {WorkerData} workerData
 */
function startThread(file, workerData) {
  const worker = new Worker(file, { workerData });
  /** @type {Promise<undefined>} */
  const exited = new Promise((resolve) => worker.once("exit", () => resolve(undefined)));
  // Its "exit" follows.
  worker.on("error", (error) => process.emitWarning(error));
  return { worker, exited };
}

/**
 * @param {ReturnType<typeof startThread>} thread
 * @param {Row} row
 * @param {number} silentMs
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<Ended | undefined>} undefined: the thread has ended
 */
async function attempt({ worker, exited }, row, silentMs, signal) {
  const stop = () => worker.postMessage("stop");
  // The run's own signs of life keep its thread: one that is stuck gives none.
  const watchdog = setTimeout(() => worker.terminate(), silentMs);
  /** @type {Promise<Ended>} */
  const ended = new Promise((resolve) => {
    worker.on("message", (/** @type {Ended | { type: "beat" }} */ message) => {
      if (message.type === "ended") resolve(message);
      else watchdog.refresh();
    });
  });
  signal?.addEventListener("abort", stop);
  try {
    worker.postMessage({ id: row.id, prompt: row.prompt });
    return await Promise.race([ended, exited]);
  } finally {
    clearTimeout(watchdog);
    signal?.removeEventListener("abort", stop);
    worker.removeAllListeners("message");
  }
}
