// @ts-check
/** An agent's loop of ten steps: time, processes, requests, bytes. And long ones: how long each step holds Node's thread. */
import { WAYS } from "../harness/agents.mjs";
import { goal } from "../harness/bench.mjs";
import { CODEX_WAYS, createCodexSetting } from "../harness/codex-agents.mjs";
import { GROWING, measureGrowing, SIZES } from "../harness/growing.mjs";
import { createSetting } from "../harness/setting.mjs";
import { median } from "../harness/stats.mjs";

const STEPS = { full: 10, quick: 2 };

/**
 * @param {import("../harness/agents.mjs").Way} way
 * @param {import("../harness/bench.mjs").Context} context
 * @param {(script: import("../harness/setting.mjs").Script) => Promise<import("../harness/agents.mjs").Setting>} create
 */
async function measure({ open, speech }, context, create) {
  const steps = context.quick ? STEPS.quick : STEPS.full;
  const setting = await create({ speech, steps });
  try {
    const agent = await open(setting, context);
    try {
      const began = performance.now();
      await agent.loop();
      const total = performance.now() - began;
      const { requests } = setting.api;
      if (requests.length < steps) throw new Error(`${requests.length} requests instead of ${steps}`);
      const [first = Number.NaN, ...later] = setting.waits();
      const bytes = requests.reduce((sum, request) => sum + request.bytes, 0);
      const figures = { total, first, processes: agent.processes(), requests: requests.length, bytes };
      return later.length > 0 ? { ...figures, later: median(later) } : figures;
    } finally {
      await agent.close();
    }
  } finally {
    await setting.close();
  }
}

/** By the CLI: where its agents work, and who they are. */
const CLIS = {
  loop: { create: createSetting, ways: WAYS },
  codex: { create: createCodexSetting, ways: CODEX_WAYS },
};

/** @param {boolean} quick */
const growing = (quick) =>
  Object.entries(quick ? SIZES.quick : SIZES.full).map(([name, [steps = 0, bytes = 0]]) => ({ name, steps, bytes }));

/** @returns {[string, import("../harness/bench.mjs").Contender][]} */
const ofTenSteps = () =>
  Object.entries(CLIS).flatMap(([of, { create, ways }]) =>
    Object.entries(ways).map(([name, way]) => [
      name,
      {
        title: way.title,
        kind: way.kind,
        skip: (one) => one.name !== of,
        prepare: (_, context) => ({ measure: () => measure(way, context, create) }),
      },
    ]),
  );

/** @returns {[string, import("../harness/bench.mjs").Contender][]} */
const ofLongLoops = () =>
  Object.entries(GROWING).map(([name, way]) => [
    name,
    {
      title: way.title,
      kind: "ours",
      skip: (one) => one.steps === undefined,
      prepare: ({ steps, bytes }) => ({ measure: () => measureGrowing(way, { steps, bytes }) }),
    },
  ]);

/**
 * The steps of long loops: whatever a thread holds, Node's thread has to do with what is new.
 *
 * @param {import("../harness/bench.mjs").Look} look
 */
const growingGoals = (look) =>
  Object.keys(SIZES.full).flatMap((of) => {
    const last = (/** @type {string} */ name) => look.median(of, name, "last");
    const times = (/** @type {number} */ value) => `${value.toFixed(2)} times`;
    const [kept, ...others] = Object.keys(GROWING).filter((name) => name !== "growingReread");
    const worst = (/** @type {(name: string) => number} */ figure) =>
      Math.max(...[kept, ...others].map((name) => figure(name ?? "")));
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
    ];
  });

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "a loop of ten steps",
  about:
    "The real claude and the real codex, a scripted API that answers at once: nine tool calls, then an answer. Whoever runs the tools itself makes no later calls. The long loops are of a fake CLI: how long `invoke` holds Node's thread until it returns its promise, at the second step and at the last (medians of five steps), beside one `JSON.stringify` of the last thread.",
  figures: {
    total: { title: "whole loop", unit: "ms" },
    first: { title: "first call to the API", unit: "ms" },
    later: { title: "later calls", unit: "ms" },
    processes: { title: "processes", unit: "count" },
    requests: { title: "requests", unit: "count" },
    bytes: { title: "to the API", unit: "bytes" },
    second: { title: "Node's thread, second step", unit: "ms" },
    last: { title: "Node's thread, last step", unit: "ms" },
    stringify: { title: "one JSON.stringify", unit: "ms" },
  },
  main: "total",
  cases: ({ quick }) => [...Object.keys(CLIS).map((name) => ({ name })), ...growing(quick)],
  contenders: Object.fromEntries([...ofTenSteps(), ...ofLongLoops()]),
  rounds: { full: 5, quick: 1 },
  peers: ["@anthropic-ai/claude-agent-sdk", "ai-sdk-provider-claude-code", "ai-sdk-provider-codex-cli", "zod"],
  goals: (look) => {
    const of = (/** @type {string} */ name, /** @type {string} */ figure) => look.median("loop", name, figure);
    const times = (/** @type {number} */ value) => `${value.toFixed(2)} times`;
    const peers = ["spec", "queries", "session", "startup", "aiSdk"];
    return [
      goal(
        "live: within 1.2 times the floor",
        of("live", "total") / of("floor", "total"),
        (value) => value <= 1.2,
        times,
      ),
      goal(
        "with a spare: within 1.2 times the floor started ahead",
        of("spare", "total") / of("warmFloor", "total"),
        (value) => value <= 1.2,
        times,
      ),
      goal(
        "with a spare: at least 12 times faster than a process per step",
        look.ratio("loop", "spec", "total") / look.ratio("loop", "spare", "total"),
        (value) => value >= 12,
        times,
      ),
      goal(
        "live: at least 12 times faster than a process per step",
        look.ratio("loop", "spec", "total"),
        (value) => value >= 12,
        times,
      ),
      goal(
        "codex, live: within 1.2 times the bare app-server",
        look.median("codex", "codexLive", "total") / look.median("codex", "codexFloor", "total"),
        (value) => value <= 1.2,
        times,
      ),
      goal("one process", of("live", "processes"), (value) => value === 1, String),
      goal(
        "fewer bytes than any peer",
        of("live", "bytes") / Math.min(...peers.map((name) => of(name, "bytes"))),
        (value) => value < 1,
        (value) => `${value.toFixed(2)} times the least of theirs`,
      ),
      ...growingGoals(look),
    ];
  },
};
