// @ts-check
/**
 * In: something to be done. Out: what it took of this process: time, the JavaScript thread's share of it, memory.
 *
 * The JavaScript thread is busy whenever it is not waiting in the event loop's poll: what libuv does on it (a `fork`, say)
 * counts as much as JavaScript does.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";

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

/**
 * How late the event loop's turns are, over their time: what everything else in the process would have had to wait.
 * @returns {() => { p99: number, max: number }} ms; ends the watch
 */
export function watchDelay() {
  const resolution = 1;
  const histogram = monitorEventLoopDelay({ resolution });
  histogram.enable();
  return () => {
    histogram.disable();
    // The histogram holds the whole interval between two turns of its timer.
    const late = (/** @type {number} */ ns) => Math.max(0, ns / 1e6 - resolution);
    return { p99: late(histogram.percentile(99)), max: late(histogram.max) };
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
