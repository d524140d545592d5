// @ts-check
/** One call after the other: what is added to the time the bare process takes. */
import { goal } from "../harness/bench.mjs";
import { askOne, CALLERS } from "../harness/calls.mjs";
import { median } from "../harness/stats.mjs";
import { timed } from "../harness/watch.mjs";

const CALLS = { full: 100, quick: 5 };

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "one call after the other",
  about: "A fake CLI that answers at once, asked again and again. Per call, the median of 100.",
  figures: { wall: { title: "until the answer", unit: "ms" }, js: { title: "JS thread", unit: "ms" } },
  main: "wall",
  cases: () => [{ name: "sequential" }],
  contenders: Object.fromEntries(
    Object.entries(CALLERS).map(([name, { title, kind, call }]) => [
      name,
      {
        title,
        kind,
        async prepare(_, context) {
          const caller = await call(context);
          for (let n = 0; n < 5; n++) await askOne(caller);
          const calls = context.quick ? CALLS.quick : CALLS.full;
          return {
            async measure() {
              const times = [];
              for (let n = 0; n < calls; n++) times.push(await timed(() => askOne(caller)));
              return { wall: median(times.map(({ wall }) => wall)), js: median(times.map(({ js }) => js)) };
            },
            close: () => caller.close?.(),
          };
        },
      },
    ]),
  ),
  rounds: { full: 9, quick: 1 },
  peers: ["execa"],
  goals: (look) => {
    /** @param {string} name */
    const over = (name) => look.median("sequential", name, "wall") - look.median("sequential", "floor", "wall");
    return [
      goal(
        "within 2 ms of the bare process",
        over("ours"),
        (ms) => ms < 2,
        (ms) => `${ms.toFixed(2)} ms over it`,
      ),
      goal(
        "below child_process",
        Math.min(over("spec"), over("spawn")) - over("ours"),
        (ms) => ms > 0,
        () => `${over("spec").toFixed(2)} ms (execFile) and ${over("spawn").toFixed(2)} ms (spawn) over it`,
      ),
    ];
  },
};
