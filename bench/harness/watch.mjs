// @ts-check
/**
 * In: something to be done. Out: what it took of this process: time, the JavaScript thread's share of it, memory.
 *
 * The JavaScript thread is busy whenever it is not waiting in the event loop's poll: what libuv does on it (a `fork`, say)
 * counts as much as JavaScript does.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { quantile } from "./stats.mjs";

const MIB = 2 ** 20;

/**
 * @template T
 * @param {() => T | Promise<T>} work
 * @returns {Promise<{ result: T, wall: number, js: number }>} ms
 */
export async function timed(work) {
  // A turn of the loop, so that what came before is not counted.
  await new Promise((resolve) => setImmediate(resolve));
  const before = performance.eventLoopUtilization();
  const began = performance.now();
  const result = await work();
  const wall = performance.now() - began;
  const js = performance.eventLoopUtilization(before).active;
  return { result, wall, js };
}

/** What the watch's timer is set to, ms: the least there is. */
const TICK_MS = 1;

/**
 * How late the event loop's turns are, over their time: what everything else in the process would have had to wait. A loop that
 * did not turn at all was late all the time, which `monitorEventLoopDelay` does not see.
 * @returns {() => { p99: number, max: number }} ms; ends the watch
 */
export function watchDelay() {
  /** @type {number[]} */
  const delays = [];
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    delays.push(Math.max(0, now - last - TICK_MS));
    last = now;
  };
  const timer = setInterval(tick, TICK_MS);
  return () => {
    clearInterval(timer);
    tick();
    return { p99: quantile(delays, 0.99), max: Math.max(...delays) };
  };
}

/**
 * The time this thread, which is JavaScript's, has spent on a processor, ms: unlike a clock it does not count the time others
 * had it. In steps of some milliseconds: for what is done many times. Linux; elsewhere a clock.
 */
export function threadTime() {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return performance.now();
  }
}

/** The memory this process holds, MB. */
export function rss() {
  return process.memoryUsage.rss() / MIB;
}

/** Memory given back and collected first. */
export function settledRss() {
  globalThis.gc?.();
  globalThis.gc?.();
  return rss();
}

/**
 * The most memory this process will have held until the function it returns is called, MB. Linux; elsewhere since its start.
 * @returns {() => number}
 */
export function watchPeak() {
  try {
    writeFileSync("/proc/self/clear_refs", "5");
  } catch {
    return () => process.resourceUsage().maxRSS / 1024;
  }
  return () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024;
}

/**
 * Memory that is there, of which every page was touched.
 * @param {number} gib
 */
export function hold(gib) {
  return Array.from({ length: gib }, () => Buffer.alloc(2 ** 30, 1));
}
