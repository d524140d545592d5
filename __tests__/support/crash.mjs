// @ts-check
/**
 * Runs that are killed at seeded places until all of them have finished, and what has to hold then.
 *
 * In: a store, runs, and a seed. Out: how often a worker was killed, where, and every broken promise: a turn that was asked again
 * although it was kept, a tool that ran again although it had ended, a payment that was made twice.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startOpenAi } from "./openai.mjs";

const WORKER = fileURLToPath(new URL("checkpoint-worker.mjs", import.meta.url));
/** The calls of each step; then the run is done. */
const STEPS = [
  [
    { name: "pay", args: { n: 1 } },
    { name: "put", args: { n: 1 } },
  ],
  [{ name: "pay", args: { n: 2 } }],
  [
    { name: "put", args: { n: 2 } },
    { name: "put", args: { n: 3 } },
  ],
];

/**
 * Numbers from 0 to 1, the same for the same seed (mulberry32).
 * @param {number} seed
 */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * @param {object} options
 * @param {import("./checkpoint-stores.mjs").StoreSpec} options.spec
 * @param {(runId: string) => Promise<import("./checkpoint-stores.mjs").Entry[]>} options.peek
 * @param {string} options.effects the file of the tools' effects
 * @param {number} options.kills so many at least
 * @param {number} options.seed
 */
export async function crash({ spec, peek, effects, kills, seed }) {
  const next = random(seed);
  /** @type {string[]} */
  const broken = [];
  /** @type {import("node:child_process").ChildProcess | undefined} */
  let worker;
  let killAtRequest = false;
  let requests = 0;
  const api = await startOpenAi(async ({ body }) => {
    requests += 1;
    /** @type {{ role: string, content: string }[]} */
    const messages = body.messages;
    const runId = /run (\S+)\./.exec(JSON.stringify(messages))?.[1] ?? "";
    const step = messages.filter(({ role }) => role === "assistant").length;
    const kept = (await peek(runId)).filter(({ type }) => type === "turn").length;
    if (kept !== step) broken.push(`${runId}: step ${step + 1} was asked for, and ${kept} turns are kept`);
    if (killAtRequest) {
      killAtRequest = false;
      worker?.kill("SIGKILL");
    }
    const calls = STEPS[step];
    return calls ? { text: "", calls } : { text: `${runId} is done` };
  });

  let killed = 0;
  let finished = 0;
  try {
    for (let batch = 0; killed < kills; batch++) {
      const runIds = [`s${seed}-b${batch}`];
      for (let attempt = 0, done = false; !done; attempt++) {
        if (attempt > 200) throw new Error(`${runIds} makes no progress`);
        const point = 1 + Math.floor(next() * 45);
        // Every fifth dies while the model is at work on its answer.
        killAtRequest = next() < 0.2 && killed < kills;
        const killAt = killAtRequest || killed >= kills ? 0 : point;
        const input = JSON.stringify({ url: api.url, store: spec, effects, runIds, killAt });
        const ended = await start(input, (child) => {
          worker = child;
        });
        if (ended.signal === "SIGKILL") {
          killed += 1;
          continue;
        }
        if (ended.code !== 0) throw new Error(`the worker ended with ${ended.code}: ${ended.stderr}`);
        for (const line of ended.stdout.trim().split("\n")) {
          const { runId, status, output, steps, code } = JSON.parse(line);
          const expected = `${runId} is done`;
          if (status !== "completed" || output !== expected || steps !== STEPS.length + 1) {
            broken.push(`${runId} ended as ${status} ${code} with "${output}" after ${steps} steps`);
          }
          finished += 1;
        }
        done = true;
      }
    }
  } finally {
    await api.close();
  }
  const counts = new Map();
  const lines = existsSync(effects) ? readFileSync(effects, "utf8").trim().split("\n") : [];
  for (const line of lines) {
    const { key, name, ended } = JSON.parse(line);
    counts.set(key, (counts.get(key) ?? 0) + 1);
    if (ended) broken.push(`${key}: "${name}" had ended and ran again`);
    if (name === "pay" && counts.get(key) > 1) broken.push(`${key}: "pay" ran ${counts.get(key)} times`);
  }
  return { killed, finished, requests, effects: lines.length, broken };
}

/**
 * @param {string} input
 * @param {(child: import("node:child_process").ChildProcess) => void} began
 * @returns {Promise<{ code: number | null, signal: string | null, stdout: string, stderr: string }>}
 */
function start(input, began) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [WORKER, input], { stdio: ["ignore", "pipe", "pipe"] });
    began(child);
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}
