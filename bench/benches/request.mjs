// @ts-check
/** From a call to its request at the API: the first of a conversation, and the next. */
import { WAYS } from "../harness/agents.mjs";
import { goal } from "../harness/bench.mjs";
import { createSetting } from "../harness/setting.mjs";

const TURNS = ["Hello.", "And now?"];

/**
 * @param {import("../harness/agents.mjs").Way} way
 * @param {import("../harness/bench.mjs").Context} context
 */
async function measure({ open }, context) {
  const setting = await createSetting({ speech: "native", steps: 1 });
  try {
    const agent = await open(setting, context);
    try {
      for (const text of TURNS) await agent.talk(text);
      const [first = Number.NaN, second = Number.NaN] = setting.waits();
      const [one, two] = setting.api.requests;
      if (!one || !two) throw new Error(`${setting.api.requests.length} requests arrived`);
      return { first, second, bytes: one.bytes, bytesAfter: two.bytes };
    } finally {
      await agent.close();
    }
  } finally {
    await setting.close();
  }
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "from the call to the API",
  about:
    "The real claude, a scripted API that answers at once. The first and the second message of a conversation: how long after the call the request arrives, and how large it is.",
  figures: {
    first: { title: "first request", unit: "ms" },
    second: { title: "second", unit: "ms" },
    bytes: { title: "first", unit: "bytes" },
    bytesAfter: { title: "second", unit: "bytes" },
  },
  main: "first",
  cases: () => [{ name: "conversation" }],
  contenders: Object.fromEntries(
    Object.entries(WAYS).map(([name, way]) => [
      name,
      { title: way.title, kind: way.kind, prepare: (_, context) => ({ measure: () => measure(way, context) }) },
    ]),
  ),
  rounds: { full: 7, quick: 1 },
  peers: ["@anthropic-ai/claude-agent-sdk", "ai-sdk-provider-claude-code", "zod"],
  goals: (look) => {
    const of = (/** @type {string} */ name, /** @type {string} */ figure) => look.median("conversation", name, figure);
    const starting = ["spec", "queries", "session", "aiSdk"];
    const least = (/** @type {string} */ figure) => Math.min(...starting.map((name) => of(name, figure)));
    const perCall = Math.min(...["spec", "queries", "aiSdk"].map((name) => of(name, "second")));
    const times = (/** @type {number} */ value) => `${value.toFixed(2)} times`;
    return [
      goal(
        "first request, live: within 1.2 times the floor",
        of("live", "first") / of("floor", "first"),
        (value) => value <= 1.2,
        times,
      ),
      goal(
        "first request, behind prewarm: within 1.1 times the floor started ahead",
        of("spare", "first") / of("warmFloor", "first"),
        (value) => value <= 1.1,
        times,
      ),
      goal(
        "second request, live: within 1.2 times the floor",
        of("live", "second") / of("floor", "second"),
        (value) => value <= 1.2,
        times,
      ),
      goal(
        "first request, with a spare: at least 10 times sooner than who starts a process",
        least("first") / of("spare", "first"),
        (value) => value >= 10,
        times,
      ),
      goal(
        "second request, live: at least 10 times sooner than who starts a process",
        perCall / of("live", "second"),
        (value) => value >= 10,
        times,
      ),
    ];
  },
};
