// @ts-check
/** An agent's long loop: how long each step holds Node's thread, of a thread that grows. */
import { goal } from "../harness/bench.mjs";
import { GROWING, measureGrowing, SIZES } from "../harness/growing.mjs";

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "the steps of a long loop",
  about:
    "A fake CLI that answers at once: how long `invoke` holds Node's thread until it returns its promise, at the second step and at the last (medians of five steps), beside one `JSON.stringify` of the last thread.",
  figures: {
    last: { title: "Node's thread, last step", unit: "ms" },
    second: { title: "second step", unit: "ms" },
    stringify: { title: "one JSON.stringify", unit: "ms" },
  },
  main: "last",
  cases: ({ quick }) =>
    Object.entries(quick ? SIZES.quick : SIZES.full).map(([name, [steps = 0, bytes = 0]]) => ({ name, steps, bytes })),
  contenders: Object.fromEntries(
    Object.entries(GROWING).map(([name, way]) => [
      name,
      {
        title: way.title,
        kind: "ours",
        prepare: ({ steps, bytes }) => ({ measure: () => measureGrowing(way, { steps, bytes }) }),
      },
    ]),
  ),
  rounds: { full: 5, quick: 1 },
  peers: [],
  /**
   * Whatever a thread holds, Node's thread has to do with what is new, live. Print hands the thread over alike, but its runtime renders and
   * writes all of it beside, which the machine's cores share.
   */
  goals: (look) =>
    Object.keys(SIZES.full).flatMap((of) => {
      const last = (/** @type {string} */ name) => look.median(of, name, "last");
      const times = (/** @type {number} */ value) => `${value.toFixed(2)} times`;
      const ways = Object.keys(GROWING).filter((name) => GROWING[name]?.live && name !== "growingReread");
      const worst = (/** @type {(name: string) => number} */ figure) => Math.max(...ways.map(figure));
      return [
        goal(
          `${of}: the last step holds Node's thread at most 1.5 times as long as the second`,
          worst((name) => last(name) / look.median(of, name, "second")),
          (value) => value <= 1.5,
          times,
        ),
        goal(
          `${of}: the last step takes at most a fifth of a JSON.stringify`,
          worst((name) => last(name) / look.median(of, name, "stringify")),
          (value) => value <= 0.2,
          times,
        ),
        goal(
          `${of}: the last step takes at most 1 ms`,
          worst(last),
          (value) => value <= 1,
          (value) => `${value.toFixed(2)} ms`,
        ),
        goal(
          `${of}: print, and texts made anew, take less than a JSON.stringify`,
          Math.max(...["growingPrint", "growingReread"].map((name) => last(name) / look.median(of, name, "stringify"))),
          (value) => value < 1,
          times,
        ),
      ];
    }),
};
