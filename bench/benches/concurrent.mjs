// @ts-check
/** A hundred calls at once: how long they take, how late the event loop is meanwhile, how much memory they need. */
import { goal } from "../harness/bench.mjs";
import { askOne, bare, CALLERS, ours } from "../harness/calls.mjs";
import { hold, settledRss, timed, watchDelay, watchPeak } from "../harness/watch.mjs";

const CALLS = { full: 100, quick: 10 };

/** @type {Buffer[]} */
let held = [];

/**
 * @param {import("../harness/calls.mjs").Caller} caller
 * @param {number} calls
 */
async function measure(caller, calls) {
  const before = settledRss();
  const peak = watchPeak();
  const delay = watchDelay();
  const { wall, js } = await timed(() => Promise.all(Array.from({ length: calls }, () => askOne(caller))));
  const { p99, max } = delay();
  return { wall, js, p99, max, rss: peak() - before };
}

/**
 * @param {string} title
 * @param {import("../harness/bench.mjs").Kind} kind
 * @param {(context: import("../harness/bench.mjs").Context) => import("../harness/calls.mjs").Caller | Promise<import("../harness/calls.mjs").Caller>} call
 * @returns {import("../harness/bench.mjs").Contender}
 */
function contender(title, kind, call) {
  return {
    title,
    kind,
    async prepare(of, context) {
      if (held.length < of.gib) held = hold(of.gib);
      const caller = await call(context);
      // Code that runs for the first time is slow in everybody.
      for (let n = 0; n < 3; n++) await askOne(caller);
      const calls = context.quick ? CALLS.quick : CALLS.full;
      return { measure: () => measure(caller, calls), close: () => caller.close?.() };
    },
  };
}

const { floor, ...others } = CALLERS;

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "100 calls at once",
  about:
    "All of them in one `Promise.all`, of a fake CLI that answers at once, each measurement in a process of its own. Delay: how late the event loop's timers are. Memory: the process's peak over what it held before.",
  figures: {
    wall: { title: "all answers", unit: "ms" },
    js: { title: "JS thread", unit: "ms" },
    p99: { title: "delay, p99", unit: "ms" },
    max: { title: "delay, longest", unit: "ms" },
    rss: { title: "memory", unit: "MB" },
  },
  main: "wall",
  fresh: true,
  cases: ({ quick }) => (quick ? [0] : [0, 1]).map((gib) => ({ name: `host of ${gib} GB`, gib })),
  contenders: {
    ours: contender("invoke, maxConcurrency 100", "ours", others.ours.call),
    limited: contender("invoke, 4 at a time (default)", "ours", () => ours()),
    spec: contender(others.spec.title, "plain", others.spec.call),
    spawn: contender(others.spawn.title, "plain", others.spawn.call),
    execa: contender(others.execa.title, "plain", others.execa.call),
    floor: contender(floor.title, "floor", () => bare({ together: true })),
  },
  rounds: { full: 3, quick: 1 },
  peers: ["execa"],
  goals: (look) =>
    ["host of 0 GB", "host of 1 GB"].flatMap((of) => [
      goal(
        `${of}: at least 3 times sooner done than child_process`,
        Math.min(look.ratio(of, "spec", "wall"), look.ratio(of, "spawn", "wall")),
        (times) => times >= 3,
        (times) => `${times.toFixed(2)} times`,
      ),
      goal(
        `${of}: the event loop is never 10 ms late`,
        look.median(of, "ours", "max"),
        (ms) => ms < 10,
        (ms) => `${ms.toFixed(1)} ms`,
      ),
    ]),
};
