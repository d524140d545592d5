// @ts-check
/** What starting a process costs the JavaScript thread, in a host that holds much memory and in one that holds none. */
import { goal } from "../harness/bench.mjs";
import { askOne, CALLERS } from "../harness/calls.mjs";
import { median } from "../harness/stats.mjs";
import { hold, timed } from "../harness/watch.mjs";

/** One after the other. */
const STARTS = { full: 5, quick: 2 };

/** @type {Buffer[]} */
let held = [];

/** @param {import("../harness/calls.mjs").Caller} caller @param {number} starts */
async function measure(caller, starts) {
  /** @type {number[]} */
  const calls = [];
  /** @type {number[]} */
  const walls = [];
  /** @type {number[]} */
  const js = [];
  for (let n = 0; n < starts; n++) {
    const { wall, js: busy } = await timed(() => {
      const began = performance.now();
      const asked = askOne(caller);
      calls.push(performance.now() - began);
      return asked;
    });
    walls.push(wall);
    js.push(busy);
  }
  return { js: median(js), call: median(calls), wall: median(walls) };
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "JavaScript thread per start, by the host's memory",
  about:
    "One question to a fake CLI that answers at once. JS thread: how long it was busy from the call to the answer, `fork` and all; the call: until it returns its promise.",
  figures: {
    js: { title: "JS thread", unit: "ms" },
    call: { title: "the call", unit: "ms" },
    wall: { title: "until the answer", unit: "ms" },
  },
  main: "js",
  cases: ({ quick }) => (quick ? [0] : [0, 1, 2, 4]).map((gib) => ({ name: `${gib} GB`, gib })),
  contenders: Object.fromEntries(
    Object.entries(CALLERS).map(([name, { title, kind, call }]) => [
      name,
      {
        title,
        kind,
        async prepare(of, context) {
          if (held.length < of.gib) held = hold(of.gib);
          const caller = await call(context);
          for (let n = 0; n < 3; n++) await askOne(caller);
          const starts = context.quick ? STARTS.quick : STARTS.full;
          return { measure: () => measure(caller, starts), close: () => caller.close?.() };
        },
      },
    ]),
  ),
  rounds: { full: 5, quick: 1 },
  peers: ["execa"],
  goals: (look) => [
    goal(
      "2 GB: at least 50 times less of the JS thread than child_process",
      Math.min(look.ratio("2 GB", "spec", "js"), look.ratio("2 GB", "spawn", "js")),
      (times) => times >= 50,
      (times) => `${times.toFixed(0)} times`,
    ),
    goal(
      "independent of the host's memory",
      look.median("4 GB", "ours", "js") / look.median("0 GB", "ours", "js"),
      (times) => times < 2,
      (times) => `4 GB takes ${times.toFixed(2)} times what 0 GB takes`,
    ),
  ],
};
