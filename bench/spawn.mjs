// @ts-check
/**
 * `npm run bench:spawn`: what starting a process costs the JavaScript thread, beside Node's own `child_process.spawn`.
 *
 * In flows nothing; out flows a table for a host of 0, 1 and 2 GiB of touched memory: how long the call holds up the thread,
 * the longest gap between two turns of the event loop until the process is there, and how long that takes in all. Both start
 * the same program, in turns, in the same run; the ratios are theirs to ours.
 *
 * Needs the addon (`npm run build`) and cargo for the compiled fake CLI.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { createTag, fakeCli, fakeOptions } from "../__tests__/support/processes.mjs";

const STARTS = 40;
const GIB = 2 ** 30;
const STEPS = [{ claude: { text: "Hi" } }];

const options = fakeOptions(createTag(), STEPS);
const provider = createClaudeCliProvider(options);
const env = { ...process.env, ...options.env };

/** Watches the event loop: the longest time in which nothing else got its turn. */
function watchGaps() {
  let longest = 0;
  let last = performance.now();
  let watching = true;
  const turn = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (watching) setImmediate(turn);
  };
  setImmediate(turn);
  return () => {
    watching = false;
    return Math.max(longest, performance.now() - last);
  };
}

/** @typedef {{ call: number, gap: number, wall: number }} Cost in ms */

/** @returns {Promise<Cost>} */
async function ours() {
  const events = provider.stream(["x"]);
  const stop = watchGaps();
  const began = performance.now();
  const first = events.next();
  const call = performance.now() - began;
  await first;
  const cost = { call, gap: stop(), wall: performance.now() - began };
  for await (const _ of events) {
    // To its end.
  }
  return cost;
}

/** @returns {Promise<Cost>} */
async function theirs() {
  const stop = watchGaps();
  const began = performance.now();
  const child = spawn(fakeCli(), ["-p", "--output-format", "stream-json"], { env, stdio: ["pipe", "pipe", "pipe"] });
  const call = performance.now() - began;
  const closed = once(child, "close");
  await once(child, "spawn");
  const cost = { call, gap: stop(), wall: performance.now() - began };
  // The fake does not read: for Node's streams that is an error (EPIPE) that ends the host, unless it is listened for.
  child.stdin.on("error", () => {}).end("x");
  child.stdout.resume();
  child.stderr.resume();
  await closed;
  return cost;
}

/** @param {Cost[]} costs @param {keyof Cost} what @param {number} share */
function at(costs, what, share) {
  const sorted = costs.map((cost) => cost[what]).toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** @param {number} ms */
const shown = (ms) => ms.toFixed(2);

for (let n = 0; n < 5; n++) await Promise.all([ours(), theirs()]);

console.log("| host's memory | ms per start, median (longest) | ours | child_process.spawn | theirs / ours |");
console.log("| ---: | --- | ---: | ---: | ---: |");
/** @type {Buffer[]} */
const held = [];
let failed = false;
for (const gib of [0, 1, 2]) {
  while (held.length < gib) held.push(Buffer.alloc(GIB, 1));
  /** @type {Cost[][]} */
  const [mine, nodes] = [[], []];
  for (let n = 0; n < STARTS; n++) {
    mine?.push(await ours());
    nodes?.push(await theirs());
  }
  const rss = `${(process.memoryUsage.rss() / GIB).toFixed(1)} GiB`;
  for (const [what, label] of /** @type {const} */ ([
    ["call", "the call holds up the thread"],
    ["gap", "longest gap in the event loop"],
    ["wall", "until the process is there"],
  ])) {
    const [a, b] = [at(mine ?? [], what, 0.5), at(nodes ?? [], what, 0.5)];
    const cell = (/** @type {Cost[]} */ costs) => `${shown(at(costs, what, 0.5))} (${shown(at(costs, what, 1))})`;
    console.log(`| ${rss} | ${label} | ${cell(mine ?? [])} | ${cell(nodes ?? [])} | ${(b / a).toFixed(1)} |`);
  }
  failed ||= gib === 2 && at(mine ?? [], "call", 0.5) >= 1;
}
if (failed) {
  console.error("a start holds up the JavaScript thread for 1 ms or more at 2 GiB");
  process.exitCode = 1;
}
