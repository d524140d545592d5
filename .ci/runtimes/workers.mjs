// @ts-check
/**
 * Many worker threads, one after the other: each loads the addon, uses it, leaves a call running and is terminated. In: how
 * many. Out: one line, or an error where something of them is left: processes, open files, threads, memory.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import * as api from "deep-factor-providers/native";
import runtime from "./use.cjs";

const ROUNDS = Number(process.argv[2] ?? 50);
/** Until then, thread pools and caches may grow. */
const WARM_UP = Math.min(15, ROUNDS / 2);
const MEMORY_MIB = 48;
const PATIENCE_MS = 20_000;

if (isMainThread) await main();
else {
  await runtime.use(api);
  await runtime.leaveRunning(api);
  parentPort?.postMessage("running");
}

function look() {
  const count = (/** @type {string} */ folder) => (existsSync(folder) ? readdirSync(folder).length : 0);
  const task = `/proc/self/task/${process.pid}/children`;
  // Children belong to the thread that started them.
  const children = existsSync(task)
    ? readdirSync("/proc/self/task").flatMap((id) => readFileSync(`/proc/self/task/${id}/children`, "utf8").split(" "))
    : [];
  return {
    files: count("/proc/self/fd"),
    threads: count("/proc/self/task"),
    mib: Math.round(process.memoryUsage().rss / 2 ** 20),
    children: children.filter(Boolean).length,
  };
}

async function main() {
  let before = look();
  for (let round = 0; round < ROUNDS; round++) {
    if (round === WARM_UP) before = await settled((now) => now.children === 0);
    const worker = new Worker(new URL(import.meta.url));
    await Promise.race([
      once(worker, "message"),
      once(worker, "error").then(([error]) => Promise.reject(error)),
      once(worker, "exit").then(() => Promise.reject(new Error("the worker ended by itself"))),
    ]);
    await worker.terminate();
  }
  await runtime.use(api);
  const after = await settled(
    (now) => now.children === 0 && now.files <= before.files && now.threads <= before.threads + 2,
  );
  assert.equal(after.children, 0, "processes are left");
  assert(after.files <= before.files, `open files: ${before.files}, then ${after.files}`);
  // The runtime's own pool of threads for what blocks grows and shrinks with the load.
  assert(after.threads <= before.threads + 2, `threads: ${before.threads}, then ${after.threads}`);
  assert(after.mib <= before.mib + MEMORY_MIB, `memory: ${before.mib} MiB, then ${after.mib} MiB`);
  console.log(`${ROUNDS} worker threads: ${JSON.stringify({ before, after })}`);
}

/** @param {(now: ReturnType<typeof look>) => boolean} enough */
async function settled(enough) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const now = look();
    if (enough(now) || performance.now() > deadline) return now;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
