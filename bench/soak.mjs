// @ts-check
/**
 * `npm run bench:soak [-- --runs 10000]`: thousands of runs that go wrong in every way, and what was left of them.
 *
 * In flows the number of runs; out flows a table of what was done, of how long each kind took to settle, and of what this
 * process held at the start, in the middle and at the end. Exits with 1 if a run came to another end than it should have, or
 * if anything was left: a process, an open file, a thread, a temporary folder, or memory that went on growing.
 *
 * Needs the addon (`npm run build`) and cargo for the compiled fake CLI. Linux, for what it holds is read from /proc.
 */
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";
import {
  children,
  createTag,
  createTemp,
  fakeCli,
  fakeOptions,
  holds,
  READY,
  says,
} from "../__tests__/support/processes.mjs";

/** @typedef {import("../__tests__/support/processes.mjs").Step} Step */
/**
 * @typedef {object} Fault
 * @property {Step[]} steps
 * @property {number} [abortMs] aborted after up to that many ms
 * @property {Record<string, unknown>} [options]
 * @property {string} [prompt]
 * @property {string[]} ends the ends it may come to: an error's code, `aborted` or `answered`
 * @property {boolean} [leave] the consumer breaks off at the first event of the CLI
 */

const CONCURRENCY = 16;
const WARM_UP = 200;
/** RSS goes up and down by some MiB; what leaks, leaks in each of a thousand runs. */
const GROWTH_MIB = 24;
/** The runtime keeps an idle thread of its pool for 10 s. */
const POOL_MS = 11_000;

const IGNORES_TERM = { onSignal: { TERM: [], INT: [], HUP: [] } };
const ANSWER = { claude: { text: "Hi" } };
const LONG = "x".repeat(2 ** 20);

/** @type {Record<string, Fault>} */
const FAULTS = {
  answers: { steps: ["readAll", ANSWER], ends: ["answered"] },
  "answers, leaving a grandchild on its pipes": {
    steps: [{ spawn: { steps: ["forever"] } }, ANSWER],
    ends: ["answered"],
  },
  "hangs; aborted": { steps: [READY, "forever"], abortMs: 60, ends: ["aborted"] },
  "ignores SIGTERM; aborted": { steps: [IGNORES_TERM, READY, "forever"], abortMs: 60, ends: ["aborted"] },
  "hangs; timeout": { steps: [READY, says("x"), "forever"], options: { timeout: 60 }, ends: ["TIMEOUT"] },
  "falls silent; idleTimeout": {
    steps: [READY, "forever"],
    options: { idleTimeout: 60 },
    ends: ["IDLE_TIMEOUT"],
  },
  "grandchild in a session of its own; timeout": {
    steps: [{ spawn: { steps: ["setsid", IGNORES_TERM, "forever"], stdio: "null" } }, READY, "forever"],
    options: { timeout: 60 },
    ends: ["TIMEOUT"],
  },
  "prints too much; maxBuffer": {
    steps: [{ fill: { to: "stdout", bytes: 300_000 } }, "forever"],
    options: { maxBuffer: 100_000 },
    ends: ["OUTPUT_LIMIT"],
  },
  "fills stderr and fails": { steps: [{ fill: { to: "stderr", bytes: 2 ** 20 } }, { exit: 3 }], ends: ["UNKNOWN"] },
  "never reads 1 MiB of input": { steps: [ANSWER], prompt: LONG, ends: ["answered"] },
  "dies in mid-answer": { steps: [READY, says("x"), { kill: "KILL" }], ends: ["CRASHED"] },
  "closes its output, lives on; timeout": {
    steps: [READY, "closeStdout", "closeStderr", "forever"],
    options: { timeout: 60 },
    ends: ["TIMEOUT"],
  },
  "hangs; consumer leaves": { steps: [READY, "forever"], leave: true, ends: ["left"] },
};

const { values } = parseArgs({ options: { runs: { type: "string", default: "2000" } } });
const runs = Number(values.runs);
if (!Number.isInteger(runs) || runs < WARM_UP) {
  console.error(`--runs must be a whole number from ${WARM_UP}`);
  process.exit(2);
}

fakeCli();
const temp = createTemp();
process.env.TMPDIR = temp.path;
// Loaded late, so that an addon that is missing is told after the arguments that are wrong.
const { createClaudeCliProvider } = await import("deep-factor-providers/native");

const tag = createTag();
const kinds = Object.entries(FAULTS).map(([name, fault]) => ({
  name,
  fault,
  ms: /** @type {number[]} */ ([]),
  provider: createClaudeCliProvider({
    ...fakeOptions(tag, fault.steps),
    systemPrompt: "a private file",
    killGrace: 50,
    maxConcurrency: CONCURRENCY,
    ...fault.options,
  }),
}));
/** @type {string[]} */
const surprises = [];

/** @param {typeof kinds[number]} kind @param {number} n */
async function run({ name, fault, provider, ms }, n) {
  const began = performance.now();
  const end = await endOf(provider, fault, n);
  ms.push(performance.now() - began);
  if (!fault.ends.includes(end)) surprises.push(`${name}: ${end}`);
}

/**
 * @param {import("deep-factor-providers/native").CliProvider} provider
 * @param {Fault} fault
 * @param {number} n
 */
async function endOf(provider, { abortMs, prompt = "x", leave }, n) {
  const controller = new AbortController();
  // Spread evenly over the time allowed, by the number of the run.
  const timer = abortMs && setTimeout(() => controller.abort(), (n * 7) % abortMs);
  try {
    if (leave) {
      for await (const event of provider.stream([prompt])) if (event.type === "session") break;
      return "left";
    }
    await provider.invoke([prompt], { signal: controller.signal });
    return "answered";
  } catch (error) {
    const { name, code } = /** @type {{ name: string, code: string }} */ (error);
    return name === "AbortError" ? "aborted" : code;
  } finally {
    if (timer) clearTimeout(timer);
  }
}

/** The user's own children, alongside: two reapers in one process. */
let theirs = 0;
async function spawnTheirs() {
  await new Promise((resolve) => spawn("/bin/sh", ["-c", "exit 7"], { stdio: "ignore" }).on("exit", resolve));
  theirs += 1;
}

/** @param {number} from @param {number} to */
async function batch(from, to) {
  let next = from;
  const lane = async () => {
    for (let n = next++; n < to; n = next++) {
      await run(/** @type {typeof kinds[number]} */ (kinds[n % kinds.length]), n);
      if (n % 50 === 0) await spawnTheirs();
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, lane));
}

/** What is held once everything is quiet. */
async function sample() {
  // What answered is cleared up after in the background, within killGrace.
  for (let tries = 0; tries < 100 && (tag.left().length > 0 || children().length > 0); tries++) await pause(20);
  globalThis.gc?.();
  await pause(50);
  const rss = Math.round(process.memoryUsage.rss() / 2 ** 20);
  return { processes: tag.left().length, children: children().length, ...holds(), rss, folders: temp.entries().length };
}

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const began = performance.now();
await batch(0, WARM_UP);
for (const kind of kinds) kind.ms.length = 0;
const start = await sample();
await batch(0, runs >> 1);
const middle = await sample();
await batch(runs >> 1, runs);
const seconds = (performance.now() - began) / 1000;
for (let waited = 0; waited < POOL_MS && holds().threads > start.threads; waited += 100) await pause(100);
const end = await sample();

console.log(
  `${runs} runs (after ${WARM_UP} to warm up), ${CONCURRENCY} at a time, in ${seconds.toFixed(1)} s; ${theirs} children of the user's own beside them\n`,
);
console.log("| run | times | ms to settle: median | longest |\n| --- | ---: | ---: | ---: |");
for (const { name, ms } of kinds) {
  const sorted = ms.toSorted((a, b) => a - b);
  const [median = 0, longest = 0] = [sorted[sorted.length >> 1], sorted.at(-1)];
  console.log(`| ${name} | ${sorted.length} | ${median.toFixed(0)} | ${longest.toFixed(0)} |`);
}
console.log("\n| what is there | start | middle | end |\n| --- | ---: | ---: | ---: |");
for (const [label, key] of /** @type {const} */ ([
  ["processes of the runs", "processes"],
  ["other children, zombies included", "children"],
  ["temporary folders", "folders"],
  ["open files", "files"],
  ["threads", "threads"],
  ["RSS, MiB", "rss"],
])) {
  console.log(`| ${label} | ${start[key]} | ${middle[key]} | ${end[key]} |`);
}

const left = [
  ...surprises.map((surprise) => `came to another end – ${surprise}`),
  ...tag.left().map((process) => `process ${process}`),
  ...(end.children > 0 ? children() : []),
  ...temp.entries().map((name) => `temporary folder ${name}`),
  ...(end.files > start.files ? [`${end.files - start.files} open files`] : []),
  ...(end.threads > start.threads ? [`${end.threads - start.threads} threads`] : []),
  ...(end.rss > middle.rss + GROWTH_MIB ? [`${end.rss - middle.rss} MiB of memory over the second half`] : []),
];
temp.cleanup();
console.log(left.length === 0 ? "\nNothing was left." : `\nLEFT:\n${left.join("\n")}`);
process.exitCode = left.length === 0 ? 0 : 1;
