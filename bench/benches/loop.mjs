// @ts-check
/** An agent's loop of ten steps: time, processes, requests, bytes. */
import { WAYS } from "../harness/agents.mjs";
import { goal } from "../harness/bench.mjs";
import { CODEX_WAYS, createCodexSetting } from "../harness/codex-agents.mjs";
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

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "a loop of ten steps",
  about:
    "The real claude and the real codex, a scripted API that answers at once: nine tool calls, then an answer. Whoever runs the tools itself makes no later calls.",
  figures: {
    total: { title: "whole loop", unit: "ms" },
    first: { title: "first call to the API", unit: "ms" },
    later: { title: "later calls", unit: "ms" },
    processes: { title: "processes", unit: "count" },
    requests: { title: "requests", unit: "count" },
    bytes: { title: "to the API", unit: "bytes" },
  },
  main: "total",
  cases: () => Object.keys(CLIS).map((name) => ({ name })),
  contenders: Object.fromEntries(
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
    ),
  ),
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
    ];
  },
};
