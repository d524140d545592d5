// @ts-check
/** Ten thousand runs in one process: what is left of them. */

import { holds } from "../../__tests__/support/processes.mjs";
import { goal } from "../harness/bench.mjs";
import { askOne, CALLERS, ours } from "../harness/calls.mjs";
import { settledRss, timed } from "../harness/watch.mjs";

const CONCURRENCY = 8;
const { spec, spawn, floor } = CALLERS;

/**
 * @param {import("../harness/calls.mjs").Caller} caller
 * @param {number} runs
 */
async function batch(caller, runs) {
  let left = runs;
  const one = async () => {
    while (left-- > 0) await askOne(caller);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, one));
}

/** The runtime keeps an idle thread of its pool for 10 s. */
const POOL_MS = 11_000;

/**
 * @param {import("../harness/calls.mjs").Caller} caller
 * @param {number} runs
 * @param {() => Promise<unknown>} rest
 */
async function measure(caller, runs, rest) {
  const { wall: first } = await timed(() => batch(caller, runs / 10));
  await rest();
  const early = { rss: settledRss(), ...holds() };
  const { wall: others } = await timed(() => batch(caller, runs - runs / 10));
  const each = (first + others) / runs;
  await rest();
  const late = { rss: settledRss(), ...holds() };
  return {
    each,
    early: early.rss,
    late: late.rss,
    grown: late.rss - early.rss,
    files: late.files - early.files,
    threads: late.threads - early.threads,
  };
}

/**
 * @param {Pick<typeof spec, "title" | "kind" | "call">} who
 * @returns {import("../harness/bench.mjs").Contender}
 */
function contender({ title, kind, call }) {
  return {
    title,
    kind,
    async prepare(_, context) {
      const caller = await call(context);
      const [runs, ms] = context.quick ? [100, 0] : [10_000, POOL_MS];
      const rest = () => new Promise((resolve) => setTimeout(resolve, ms));
      return { measure: () => measure(caller, runs, rest), close: () => caller.close?.() };
    },
  };
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "10,000 runs in one process",
  about: `${CONCURRENCY} at a time, of a fake CLI that answers at once, each contender in a process of its own. Early is after 1,000 runs, late after 10,000, garbage collected; files and threads are those that were added in between.`,
  figures: {
    each: { title: "per run", unit: "ms" },
    early: { title: "memory, early", unit: "MB" },
    late: { title: "memory, late", unit: "MB" },
    grown: { title: "grown", unit: "MB" },
    files: { title: "files", unit: "count" },
    threads: { title: "threads", unit: "count" },
  },
  main: "each",
  fresh: true,
  cases: () => [{ name: "runs" }],
  contenders: {
    ours: contender({ title: "invoke", kind: "ours", call: () => ours({ maxConcurrency: CONCURRENCY }) }),
    spec: contender(spec),
    spawn: contender(spawn),
    floor: contender(floor),
  },
  rounds: { full: 1, quick: 1 },
  goals: (look) => [
    goal(
      "memory is flat: less than 8 MB from 1,000 runs to 10,000",
      look.median("runs", "ours", "grown"),
      (mb) => mb < 8,
      (mb) => `${mb.toFixed(1)} MB`,
    ),
    goal(
      "no open file and no thread is added",
      Math.max(look.median("runs", "ours", "files"), look.median("runs", "ours", "threads")),
      (count) => count <= 0,
      () => `${look.median("runs", "ours", "files")} files, ${look.median("runs", "ours", "threads")} threads`,
    ),
  ],
};
