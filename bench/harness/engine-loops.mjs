// @ts-check
/** An agent's loop over opencode, qwen and copilot, in each engine and by hand: what every step takes, and what is left of it at rest. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CLIS, findCli, isolateCli, NEWEST_QWEN } from "../../__tests__/support/clis.mjs";
import { installed, PACKAGES } from "../../__tests__/support/installed.mjs";
import { markIn, writeToolCalls } from "../../__tests__/support/model.mjs";
import { driveCopilotHeadless } from "./copilot-headless.mjs";
import { driveOpencodeServe } from "./opencode-serve.mjs";
import { driveQwenStream } from "./qwen-stream.mjs";
import { QUESTION, SYSTEM, TOOL, taken } from "./setting.mjs";
import { median } from "./stats.mjs";

const STEPS = { full: 10, quick: 2 };

/** @typedef {"opencode" | "qwen" | "copilot"} Cli */
/** @typedef {{ cliPath: string, model: string, env: Record<string, string | undefined>, [name: string]: any }} Options */
/**
 * @typedef {object} Agent
 * @property {(input: string | string[]) => Promise<{ n: number }[]>} turn the question, or what the calls gave; gives the next calls
 * @property {() => number} processes
 * @property {() => number | undefined} pid of the process that stays, if one does
 * @property {() => Promise<unknown>} close
 */
/** @typedef {{ title: string, kind: import("./bench.mjs").Kind, open: (options: Options) => Agent }} Way */

/** @param {Cli} cli @param {"live" | "print"} engine @returns {Way["open"]} */
const ours = (cli, engine) => (options) => {
  const provider = CLIS[cli].create({ ...options, engine, retry: false });
  const model = provider.bindTools([TOOL]);
  /** @type {any[]} */
  const thread = [{ type: "system", content: SYSTEM }];
  /** @type {{ name: string, args: any, id: string }[]} */
  let calls = [];
  const pids = new Set();
  return {
    async turn(input) {
      if (Array.isArray(input)) {
        for (const [n, { id }] of calls.entries()) thread.push({ type: "tool", tool_call_id: id, content: input[n] });
      } else thread.push({ type: "human", content: input });
      const { content, tool_calls, response_metadata } = await model.invoke(thread);
      const { run } = response_metadata;
      if (run?.engine !== engine) throw new Error(`the call was made in the ${run?.engine} engine`);
      pids.add(run.pid);
      calls = /** @type {any[]} */ (tool_calls);
      thread.push({ type: "ai", content, tool_calls });
      return calls.map(({ args }) => args);
    },
    processes: () => pids.size,
    pid: () => (engine === "live" ? [...pids].at(-1) : undefined),
    close: () => provider.close(),
  };
};

/** @param {(options: Options) => Pick<Agent, "turn" | "pid" | "close">} drive @returns {Way["open"]} */
const byHand = (drive) => (options) => ({ ...drive(options), processes: () => 1 });

/** By the CLI, ours first. @type {Record<Cli, Record<string, Way>>} */
export const LOOPS = {
  opencode: {
    opencodeLive: { title: "opencode live", kind: "ours", open: ours("opencode", "live") },
    opencodePrint: { title: "opencode print", kind: "ours", open: ours("opencode", "print") },
    opencodeServe: { title: "opencode serve by hand", kind: "floor", open: byHand(driveOpencodeServe) },
  },
  qwen: {
    qwenLive: { title: "qwen live", kind: "ours", open: ours("qwen", "live") },
    qwenPrint: { title: "qwen print", kind: "ours", open: ours("qwen", "print") },
    qwenStream: { title: "qwen stream-json by hand", kind: "floor", open: byHand(driveQwenStream) },
  },
  copilot: {
    copilotLive: { title: "copilot live", kind: "ours", open: ours("copilot", "live") },
    copilotPrint: { title: "copilot print", kind: "ours", open: ours("copilot", "print") },
    copilotHeadless: { title: "copilot --headless by hand", kind: "floor", open: byHand(driveCopilotHeadless) },
  },
};

/**
 * @param {Cli} cli
 * @param {Way["open"]} open
 * @param {{ quick: boolean }} context
 */
export async function measureLoop(cli, open, { quick }) {
  const steps = quick ? STEPS.quick : STEPS.full;
  /** @type {number[]} */
  const arrivals = [];
  const api = await CLIS[cli].startApi(({ body }, n) => {
    arrivals.push(performance.now());
    return n < steps - 1 ? step(body, n) : { text: "Arrived." };
  });
  const isolated = await isolateCli(cli, api.url, await setup(cli));
  try {
    const began = performance.now();
    const agent = open(isolated.options);
    try {
      /** @type {number[]} */
      const waits = [];
      /** @type {number[]} */
      const answers = [];
      /** @type {string | string[] | undefined} */
      let input = QUESTION;
      for (let at = began; input !== undefined; at = performance.now()) {
        const calls = await agent.turn(input);
        waits.push((arrivals[answers.length] ?? Number.NaN) - at);
        answers.push(performance.now() - at);
        input = calls.length > 0 ? calls.map(({ n }) => taken(n)) : undefined;
      }
      const total = performance.now() - began;
      const { length } = api.requests;
      if (length !== steps || answers.length !== steps) {
        throw new Error(`${length} requests and ${answers.length} turns instead of ${steps} of each`);
      }
      if (api.violations.length > 0) throw new Error(`the scripted API: ${api.violations.join("; ")}`);
      const [first = Number.NaN, ...later] = waits;
      const [start = Number.NaN, ...rest] = answers;
      const times = { total, first, later: median(later), start, answer: median(rest) };
      const bytes = api.requests.reduce((sum, request) => sum + request.bytes, 0);
      const figures = { ...times, processes: agent.processes(), requests: length, bytes };
      const pid = agent.pid();
      return pid === undefined ? figures : { ...figures, memory: residentMb(pid) };
    } finally {
      await agent.close();
    }
  } finally {
    await api.close();
    isolated.cleanup();
  }
}

/** A call of the tool, in the API's way where it is declared there, and written into the text elsewhere. @param {any} body @param {number} n */
function step(body, n) {
  const declared = (body.tools ?? []).map((/** @type {any} */ tool) => tool.function.name);
  const name = declared.find((/** @type {string} */ each) => each === TOOL.name || /(^|_)df_+step/.test(each));
  if (name) return { calls: [{ name, args: { n }, id: `call_${n}` }] };
  return { text: writeToolCalls([{ name: TOOL.name, args: { n }, id: `call_${n}` }], markIn(body)) };
}

/** The qwen that has a live engine wants Node 22, and finds it on the PATH. @param {Cli} cli */
async function setup(cli) {
  if (cli !== "qwen") return {};
  const cliPath = await findCli("qwen", NEWEST_QWEN);
  const node = Object.keys(PACKAGES).find((name) => name.startsWith("node-"));
  if (!node) return { cliPath };
  return { cliPath, env: { PATH: `${join(await installed(node), "bin")}:${process.env.PATH}` } };
}

/** What a process and those that it started hold. @param {number} pid @returns {number} */
export function residentMb(pid) {
  if (process.platform !== "linux") return Number.NaN;
  const [, kb] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return children.reduce((sum, child) => sum + residentMb(Number(child)), Number(kb) / 1024);
}
