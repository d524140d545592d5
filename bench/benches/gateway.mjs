// @ts-check
/** What a gateway costs: ten steps of the real claude, one stream after the other, and 200 of them at once. */
import { startOpenAi } from "../../__tests__/support/openai.mjs";
import { goal } from "../harness/bench.mjs";
import { LOOPS, STREAMS } from "../harness/gateway-ways.mjs";
import { createSetting } from "../harness/setting.mjs";
import { median } from "../harness/stats.mjs";

const STEPS = { full: 10, quick: 2 };
const ONE_BY_ONE = { full: 100, quick: 3 };
const AT_ONCE = { full: 200, quick: 5 };
const MIB = 2 ** 20;

/** @param {import("../harness/agents.mjs").Way} way @param {import("../harness/bench.mjs").Context} context */
async function measureLoop({ open, speech }, context) {
  const setting = await createSetting({ speech, steps: context.quick ? STEPS.quick : STEPS.full });
  try {
    const agent = await open(setting, context);
    try {
      const began = performance.now();
      await agent.loop();
      const whole = performance.now() - began;
      const [, ...later] = setting.waits();
      return { whole, step: median(later), processes: agent.processes() };
    } finally {
      await agent.close();
    }
  } finally {
    await setting.close();
  }
}

/** @param {(typeof STREAMS)[string]} way @param {number} count @param {boolean} atOnce */
async function measureStreams({ open }, count, atOnce) {
  const api = await startOpenAi(() => ({ chunks: Array.from({ length: 20 }, (_, n) => `piece ${n} `) }));
  const streamer = await open(api.url);
  try {
    for (let n = 0; n < 3; n++) await streamer.ask();
    const before = process.memoryUsage().rss;
    const began = performance.now();
    const asked = [];
    for (let n = 0; n < count; n++) asked.push(atOnce ? streamer.ask() : await streamer.ask());
    const times = await Promise.all(asked);
    const whole = atOnce ? performance.now() - began : median(times.map((one) => one.whole));
    const first = median(times.map((one) => one.first));
    return atOnce ? { whole, first, memory: (process.memoryUsage().rss - before) / MIB } : { whole, first };
  } finally {
    await streamer.close();
    await api.close();
  }
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "the gateway",
  about:
    "Ten steps: the real claude, a scripted API that answers at once, tools run by the client. Streams: 20 pieces of a scripted API, over the API's provider alone. The clients are in the gateway's process. Memory: what the process grew by.",
  figures: {
    whole: { title: "whole", unit: "ms" },
    step: { title: "a later step until the API", unit: "ms" },
    first: { title: "first piece", unit: "ms" },
    memory: { title: "memory", unit: "MB" },
    processes: { title: "processes", unit: "count" },
  },
  main: "whole",
  fresh: true,
  cases: ({ quick }) => [
    { name: "ten steps" },
    { name: "a stream", count: quick ? ONE_BY_ONE.quick : ONE_BY_ONE.full, atOnce: false },
    { name: "200 streams", count: quick ? AT_ONCE.quick : AT_ONCE.full, atOnce: true },
  ],
  contenders: Object.fromEntries(
    Object.entries(LOOPS).map(([name, way]) => [
      name,
      {
        title: way.title,
        kind: way.kind,
        skip: (of) => of.name !== "ten steps" && !(name in STREAMS),
        prepare: (of, context) => {
          const streams = STREAMS[name];
          return {
            measure: () =>
              of.name === "ten steps" || streams === undefined
                ? measureLoop(way, context)
                : measureStreams(streams, of.count, of.atOnce),
          };
        },
      },
    ]),
  ),
  rounds: { full: 5, quick: 1 },
  peers: ["openai", "claude-max-api-proxy"],
  goals: (look) => {
    const more = (/** @type {string} */ of, /** @type {string} */ figure) =>
      look.median(of, "gateway", figure) - look.median(of, "direct", figure);
    const ms = (/** @type {number} */ value) => `${value.toFixed(2)} ms more`;
    const times = (/** @type {number} */ value) => `${value.toFixed(2)} times`;
    return [
      goal("a step reaches the API at most 3 ms later", more("ten steps", "step"), (value) => value <= 3, ms),
      goal("a stream's first piece comes at most 3 ms later", more("a stream", "first"), (value) => value <= 3, ms),
      goal(
        "ten steps take at most 1.15 times what the provider itself takes",
        look.median("ten steps", "gateway", "whole") / look.median("ten steps", "direct", "whole"),
        (value) => value <= 1.15,
        times,
      ),
      goal(
        "ten steps are faster than by the other gateway",
        look.median("ten steps", "gateway", "whole") / look.median("ten steps", "proxy", "whole"),
        (value) => value < 1,
        times,
      ),
    ];
  },
};
