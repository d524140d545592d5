// @ts-check
/**
 * The engines of CLIs other than claude and codex: from a call to its request at the API, and to its answer. A CLI is a case; whoever adds
 * an engine adds its contenders to {@link WAYS}, or to {@link LOOPS} where it keeps a conversation.
 */
import { CLIS, isolateCli } from "../../__tests__/support/clis.mjs";
import { driveGeminiAcp, driveGrokAcp, driveQwenAcp } from "../harness/acp-by-hand.mjs";
import { goal } from "../harness/bench.mjs";
import { LOOPS, measureLoop, residentMb } from "../harness/engine-loops.mjs";
import { median } from "../harness/stats.mjs";

/** Calls behind the first. */
const LATER = { full: 10, quick: 2 };

/** @typedef {{ call: (text: string) => Promise<number | undefined>, close: () => Promise<unknown> }} Caller gives the process that answered */
/** @typedef {{ options: any, url: string }} Setting */

/** @typedef {import("../../__tests__/support/clis.mjs").CliName} CliName */

/** @param {CliName} cli @param {{ engine: string }} more */
const ours =
  (cli, more) =>
  async (/** @type {Setting} */ { options }) => {
    const provider = CLIS[cli].create({ ...options, retry: false, ...more });
    return {
      /** @param {string} text */
      async call(text) {
        const { run } = (await provider.invoke([text])).response_metadata;
        if (run?.engine !== more.engine) throw new Error(`the call was made in the ${run?.engine} engine`);
        return run?.engine === "print" ? undefined : run?.pid;
      },
      close: () => provider.close(),
    };
  };

/** The qwen that is warm is not the one of the loop: that has a live form. */
const QWEN_CALLS = "qwen 0.15.10";
/** The CLI of a case whose name is another. @type {Record<string, CliName>} */
const CLI_OF = { [QWEN_CALLS]: "qwen" };

/**
 * By the case, ours first.
 * @type {Record<string, Record<string, { title: string, kind: import("../harness/bench.mjs").Kind, open: (setting: Setting) => Promise<Caller> }>>}
 */
export const WAYS = {
  gemini: {
    geminiWarm: { title: "gemini warm", kind: "ours", open: ours("gemini", { engine: "warm" }) },
    geminiPrint: { title: "gemini print", kind: "ours", open: ours("gemini", { engine: "print" }) },
    geminiAcp: {
      title: "gemini --acp by hand",
      kind: "floor",
      open: async (setting) => driveGeminiAcp(setting.options),
    },
  },
  [QWEN_CALLS]: {
    qwenWarm: { title: "qwen warm", kind: "ours", open: ours("qwen", { engine: "warm" }) },
    qwenCalls: { title: "qwen 0.15.10 print", kind: "ours", open: ours("qwen", { engine: "print" }) },
    qwenAcp: { title: "qwen --acp by hand", kind: "floor", open: async (setting) => driveQwenAcp(setting.options) },
  },
  grok: {
    grokWarm: { title: "grok warm", kind: "ours", open: ours("grok", { engine: "warm" }) },
    grokPrint: { title: "grok print", kind: "ours", open: ours("grok", { engine: "print" }) },
    grokAcp: { title: "grok agent by hand", kind: "floor", open: async (setting) => driveGrokAcp(setting.options) },
  },
};

/**
 * @param {string} of
 * @param {(setting: Setting) => Promise<Caller>} open
 * @param {{ quick: boolean }} context
 */
async function measure(of, open, { quick }) {
  const cli = CLI_OF[of] ?? /** @type {CliName} */ (of);
  /** @type {number[]} */
  const arrivals = [];
  const api = await CLIS[cli].startApi(() => {
    arrivals.push(performance.now());
    return { text: "Fine." };
  });
  const isolated = await isolateCli(cli, api.url);
  try {
    const began = performance.now();
    const caller = await open({ options: isolated.options, url: api.url });
    try {
      /** @type {number[]} */
      const waits = [];
      /** @type {number[]} */
      const answers = [];
      let pid;
      for (let n = 0; n <= (quick ? LATER.quick : LATER.full); n += 1) {
        const at = n === 0 ? began : performance.now();
        pid = await caller.call(`Call ${n}.`);
        waits.push((arrivals[n] ?? Number.NaN) - at);
        answers.push(performance.now() - at);
      }
      const [first = Number.NaN, ...later] = waits;
      const [start = Number.NaN, ...rest] = answers;
      const figures = { first, later: median(later), start, answer: median(rest) };
      return pid === undefined ? figures : { ...figures, memory: residentMb(pid) };
    } finally {
      await caller.close();
    }
  } finally {
    await api.close();
    isolated.cleanup();
  }
}

/**
 * @template Open
 * @template {string} Cli
 * @param {Record<Cli, Record<string, { title: string, kind: import("../harness/bench.mjs").Kind, open: Open }>>} ways
 * @param {(cli: Cli, open: Open, context: { quick: boolean }) => Promise<import("../harness/bench.mjs").Figures>} measure
 * @returns {Record<string, import("../harness/bench.mjs").Contender>}
 */
function contenders(ways, measure) {
  const clis = /** @type {Cli[]} */ (Object.keys(ways));
  return Object.fromEntries(
    clis.flatMap((cli) =>
      Object.entries(ways[cli]).map(([name, { title, kind, open }]) => [
        name,
        {
          title,
          kind,
          skip: (one) => one.name !== cli,
          prepare: (_, context) => ({ measure: () => measure(cli, open, context) }),
        },
      ]),
    ),
  );
}

/** @param {number} value */
const times = (value) => `${value.toFixed(2)} times`;

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "the engines of other CLIs",
  about:
    "The real CLI, a scripted API that answers at once. gemini, grok, and the qwen that has no live form: eleven calls, one after the other, none of which knows of another. opencode, qwen and copilot: an agent's loop of ten steps, nine tool calls and an answer, with the same requests by hand. From the call to its request and to its answer, the first with the process's start.",
  figures: {
    total: { title: "whole loop", unit: "ms" },
    first: { title: "first request", unit: "ms" },
    later: { title: "later request", unit: "ms" },
    start: { title: "first call", unit: "ms" },
    answer: { title: "later call", unit: "ms" },
    processes: { title: "processes", unit: "count" },
    requests: { title: "requests", unit: "count" },
    bytes: { title: "to the API", unit: "bytes" },
    memory: { title: "process at rest", unit: "MB" },
  },
  main: "answer",
  cases: () => [...Object.keys(WAYS), ...Object.keys(LOOPS)].map((name) => ({ name })),
  contenders: { ...contenders(WAYS, measure), ...contenders(LOOPS, measureLoop) },
  rounds: { full: 5, quick: 1 },
  goals: (look) => [
    goal(
      "gemini, warm: a later call at least 20 times sooner than in print form",
      look.median("gemini", "geminiPrint", "answer") / look.median("gemini", "geminiWarm", "answer"),
      (value) => value >= 20,
      (value) => `${value.toFixed(1)} times`,
    ),
    goal(
      "gemini, warm: a later call within 1.2 times `--acp` by hand",
      look.median("gemini", "geminiWarm", "answer") / look.median("gemini", "geminiAcp", "answer"),
      (value) => value <= 1.2,
      times,
    ),
    goal(
      "qwen, warm: a later call at least 20 times sooner than in print form",
      look.median(QWEN_CALLS, "qwenCalls", "answer") / look.median(QWEN_CALLS, "qwenWarm", "answer"),
      (value) => value >= 20,
      (value) => `${value.toFixed(1)} times`,
    ),
    goal(
      "qwen, warm: a later call within 1.2 times `--acp` by hand",
      look.median(QWEN_CALLS, "qwenWarm", "answer") / look.median(QWEN_CALLS, "qwenAcp", "answer"),
      (value) => value <= 1.2,
      times,
    ),
    goal(
      "grok, warm: a later call at least 3 times sooner than in print form",
      look.median("grok", "grokPrint", "answer") / look.median("grok", "grokWarm", "answer"),
      (value) => value >= 3,
      (value) => `${value.toFixed(1)} times`,
    ),
    goal(
      "grok, warm: a later call within 1.2 times `grok agent` by hand",
      look.median("grok", "grokWarm", "answer") / look.median("grok", "grokAcp", "answer"),
      (value) => value <= 1.2,
      times,
    ),
    goal(
      "opencode, live: a loop within 1.2 times `serve` by hand",
      look.median("opencode", "opencodeLive", "total") / look.median("opencode", "opencodeServe", "total"),
      (value) => value <= 1.2,
      times,
    ),
    goal(
      "copilot, live: a loop within 1.2 times `--headless` by hand",
      look.median("copilot", "copilotLive", "total") / look.median("copilot", "copilotHeadless", "total"),
      (value) => value <= 1.2,
      times,
    ),
    goal(
      "qwen, live: a loop within 1.2 times stream-json by hand",
      look.median("qwen", "qwenLive", "total") / look.median("qwen", "qwenStream", "total"),
      (value) => value <= 1.2,
      times,
    ),
  ],
};
