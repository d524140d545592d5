// @ts-check
/**
 * `npm run bench:chaos [-- --calls 2000 --seed 1 --at-once 12 --loops 4 --minutes 60 --only claude,codex]`: calls of every kind at once, on a machine with too much to do, while some are aborted, run
 * out of time or are left, and processes are stopped and killed.
 *
 * In flows the number of calls, and for how long at most; out flows what they came to, kind by kind. Exits with 1 where a call came to a wrong answer, or to a success that
 * it could not have, where one ended more than three seconds behind its limit (the time in which this process itself got no turn is not counted), where one failed that nobody had done anything to, or where a
 * process or a folder was left.
 *
 * Two calls of five are of real CLIs' kept processes, one process for many where the CLI has that; what a call has to answer is its own, and takes
 * up to a second. Every CLI has two providers: the processes of one come to harm, those of the other have calls that are given up. Needs the addon
 * (`npm run build`), the CLIs (installed by the tests) and cargo for the compiled fake CLI. Linux.
 */
import { spawn } from "node:child_process";
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { startAnthropic } from "../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../__tests__/support/claude.mjs";
import { CLIS, findCli, isolateCli, NEWEST_QWEN } from "../__tests__/support/clis.mjs";
import { startOpenAi } from "../__tests__/support/openai.mjs";
import { createTag, createTemp, fakeCli, fakeOptions, says } from "../__tests__/support/processes.mjs";

const { values } = parseArgs({
  options: {
    calls: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    only: { type: "string" },
    loops: { type: "string", default: "4" },
    "at-once": { type: "string", default: "12" },
    minutes: { type: "string", default: "60" },
  },
});
const calls = Number(values.calls);
const loops = Number(values.loops);
const AT_ONCE = Number(values["at-once"]);
/** How long a call that is left alone may take, and one whose process comes to harm, ms. */
const PATIENT = 180_000;
const HARMED = 20_000;
const LATE = 3_000;
/** Calls of real CLIs, of all. */
const REAL = 0.4;

fakeCli();
const temp = createTemp();
process.env.TMPDIR = temp.path;
const { createClaudeCliProvider, createOpenAiCompatibleProvider } = await import("deep-factor-providers/native");

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
let state = Number(values.seed);
function random() {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
/** @template T @param {readonly T[]} all */
const one = (all) => /** @type {T} */ (all[Math.floor(random() * all.length)]);
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

const answerOf = (/** @type {string} */ id) => `answer ${id}: one two three four`;
/** The model: it answers the last call that it is told of. @param {{ raw: string }} request */
function script({ raw }) {
  const id = [...raw.matchAll(/\[\[says (\w+)\]\]/g)].at(-1)?.[1] ?? "none";
  return { chunks: [`answer ${id}:`, " one", " two", " three", " four"], everyMs: Number(id.replace(/\D/g, "")) % 120 };
}

const tag = createTag();
/** @type {(() => unknown)[]} */
const endings = [];

/**
 * @typedef {import("deep-factor-providers/native").CliProvider} Provider
 * @typedef {{ name: string, calm: Provider, harmed?: Provider, fake?: (id: string) => Provider }} Kind
 */

/** @param {string} name @param {(more: object) => Provider} create @returns {Kind} */
function kind(name, create) {
  const of = () => create({ retry: false, timeout: PATIENT, maxConcurrency: 2 * AT_ONCE });
  const [calm, harmed] = [of(), of()];
  endings.push(
    () => calm.close(),
    () => harmed.close(),
  );
  return { name, calm, harmed };
}

/** @param {import("../__tests__/support/clis.mjs").CliName} name @param {"live" | "warm"} engine @param {string} [version] */
async function realKind(name, engine, version) {
  const api = await CLIS[name].startApi(script);
  const cli = await isolateCli(name, api.url, { env: tag.env, cliPath: await findCli(name, version) });
  endings.unshift(
    () => api.close(),
    () => cli.cleanup(),
  );
  return kind(name, (more) => CLIS[name].create({ ...cli.options, engine, ...more }));
}

async function claudeKind() {
  const api = await startAnthropic(script);
  const cli = isolateClaude({ baseUrl: api.url, env: tag.env });
  endings.unshift(
    () => api.close(),
    () => cli.cleanup(),
  );
  const options = { cliPath: cli.cliPath, env: cli.env, model: "sonnet", engine: /** @type {const} */ ("live") };
  return kind("claude", (more) => createClaudeCliProvider({ ...options, ...more }));
}

/** @type {(() => Promise<Kind>)[]} */
const wanted = [
  claudeKind,
  () => realKind("codex", "live"),
  () => realKind("opencode", "live"),
  () => realKind("qwen", "live", NEWEST_QWEN),
  () => realKind("copilot", "live"),
  () => realKind("gemini", "warm"),
  () => realKind("grok", "warm"),
];
const names = ["claude", "codex", "opencode", "qwen", "copilot", "gemini", "grok"];
/** @type {Kind[]} */
const real = [];
for (const [number, make] of wanted.entries()) {
  if (!values.only || values.only.split(",").includes(names[number] ?? "")) real.push(await make());
}

const api = await startOpenAi(script);
endings.unshift(() => api.close());
const http = createOpenAiCompatibleProvider({
  baseURL: api.url,
  apiKey: "not-a-key",
  model: "m",
  retry: false,
  timeout: PATIENT,
  maxConcurrency: 2 * AT_ONCE,
});
/** The fake CLI's steps are its provider's: each call has one. @param {string} id */
const fake = (id) =>
  createClaudeCliProvider({
    ...fakeOptions(tag, ["readAll", { claude: { text: answerOf(id) } }]),
    engine: "print",
    retry: false,
    timeout: PATIENT,
    killGrace: 500,
    maxConcurrency: 2 * AT_ONCE,
  });
const dying = (/** @type {string} */ id) =>
  createClaudeCliProvider({
    ...fakeOptions(tag, [says(`answer ${id}: half`), one([{ kill: "KILL" }, { exit: 1 }, "forever"])]),
    engine: "print",
    retry: false,
    timeout: 2_000,
    killGrace: 500,
    maxConcurrency: 2 * AT_ONCE,
  });

/** How often it is looked whether this process gets to run at all, ms. */
const TICK = 20;
/** The times in which this process did not get to run, in their order: an end that came meanwhile is seen only afterwards. @type {{ from: number, to: number }[]} */
const stalls = [];
let tick = performance.now();
const ticking = setInterval(() => {
  const now = performance.now();
  if (now - tick > 2 * TICK) stalls.push({ from: tick + TICK, to: now });
  tick = now;
}, TICK);
/** How long this process did not get to run since `from`, ms. @param {number} from */
function stalledSince(from) {
  const now = performance.now();
  let sum = Math.max(0, now - Math.max(from, tick + TICK));
  for (let at = stalls.length - 1; at >= 0; at--) {
    const stall = stalls[at];
    if (!stall || stall.to <= from) break;
    sum += stall.to - Math.max(from, stall.from);
  }
  return sum;
}

/** @type {Record<"wrong" | "success" | "late" | "harmed" | "other", string[]>} */
const found = { wrong: [], success: [], late: [], harmed: [], other: [] };
/** @type {Map<string, Map<string, number>>} */
const ends = new Map();
let longest = 0;

/**
 * One call. @param {Provider} provider @param {string} id
 * @param {{ timeout: number, abortAfter?: number, leaves?: boolean, harm?: "SIGSTOP" | "SIGKILL" }} how
 */
async function callOf(provider, id, { timeout, abortAfter, leaves, harm }) {
  const controller = new AbortController();
  let abortedAt = 0;
  const timer =
    abortAfter === undefined
      ? undefined
      : setTimeout(() => {
          abortedAt = performance.now();
          controller.abort();
        }, abortAfter);
  let began = 0;
  let end = "no end";
  try {
    for await (const event of provider.stream([`[[says ${id}]]`], { timeout, signal: controller.signal })) {
      // Its clock runs from its place in the queue on.
      if (event.type === "start") {
        began = performance.now();
        const { pid } = event;
        if (harm && pid)
          setTimeout(() => {
            try {
              process.kill(pid, harm);
            } catch {
              // Gone already.
            }
          }, random() * 800);
      }
      if (leaves && event.type === "text_delta") return { end: "left", abortedAt, began };
      if (event.type === "done")
        end = event.reply.content === answerOf(id) ? "answered" : `WRONG ${event.reply.content}`;
    }
  } catch (error) {
    const { name, code, message } = /** @type {{ name: string, code?: string, message: string }} */ (error);
    end = name === "AbortError" ? "aborted" : (code ?? message);
  } finally {
    clearTimeout(timer);
  }
  return { end, abortedAt, began };
}

/** @param {number} number */
async function run(number) {
  const id = `c${number}`;
  const isReal = real.length > 0 && random() < REAL;
  const of = isReal ? one(real) : undefined;
  const what = one(["alone", "alone", "alone", "alone", "abort", "timeout", "leaves", "harm"]);
  const [name, provider] = of
    ? [of.name, what === "harm" && of.harmed ? of.harmed : of.calm]
    : what === "harm"
      ? ["dying", dying(id)]
      : random() < 0.5
        ? ["fake", fake(id)]
        : ["api", /** @type {any} */ (http)];
  /** @type {Parameters<typeof callOf>[2]} */
  const how = {
    timeout: what === "timeout" ? 300 + random() * 1500 : what === "harm" ? (of ? HARMED : 2_000) : PATIENT,
  };
  if (what === "abort") how.abortAfter = random() * 1500;
  if (what === "leaves") how.leaves = true;
  if (what === "harm" && of) how.harm = one(["SIGSTOP", "SIGKILL"]);
  const { end, abortedAt, began } = await callOf(provider, id, how);
  const now = performance.now();
  const said = `${id} ${name} ${what}${how.harm ? ` ${how.harm}` : ""}: ${end}`;
  const limit = Math.min(abortedAt > 0 ? abortedAt : now, began > 0 ? began + how.timeout : now);
  const stalled = stalledSince(limit);
  const late = now - limit - stalled;
  longest = Math.max(longest, late);
  if (late > LATE)
    found.late.push(
      `${said}, ${Math.round(late)} ms late, without the ${Math.round(stalled)} ms in which nothing ran here`,
    );
  if (end.startsWith("WRONG")) found.wrong.push(said);
  if (name === "dying" && end === "answered") found.success.push(said);
  // Whoever has asked a process that comes to harm may fail; everybody else is answered, or gets what it has asked for.
  const own = {
    alone: [],
    abort: ["aborted"],
    timeout: ["TIMEOUT"],
    leaves: ["left"],
    harm: ["CRASHED", "TIMEOUT", "UNKNOWN"],
  }[what];
  if (!end.startsWith("WRONG") && !["answered", ...(own ?? [])].includes(end)) {
    (what === "harm" ? found.other : found.harmed).push(said);
  }
  const key = `${name} ${what}`;
  const counts = ends.get(key) ?? new Map();
  ends.set(key, counts.set(end.split(" ")[0], (counts.get(end.split(" ")[0]) ?? 0) + 1));
  if (!of && provider !== /** @type {any} */ (http)) await provider.close();
}

// All at once, they would take longer to start than they may.
for (const { calm, harmed } of real) {
  await calm.prewarm();
  await harmed?.prewarm();
}
const busy = Array.from({ length: loops }, () => spawn(process.execPath, ["-e", "for(;;);"], { stdio: "ignore" }));
const start = performance.now();
let next = 0;
let made = 0;
const lane = async () => {
  const isTime = () => performance.now() - start < Number(values.minutes) * 60_000;
  for (let number = next++; number < calls && isTime(); number = next++) {
    await run(number);
    made++;
    if (number % 100 === 99) console.error(`${number + 1} calls, ${Math.round((performance.now() - start) / 1000)} s`);
  }
};
await Promise.all(Array.from({ length: AT_ONCE }, lane));
const seconds = (performance.now() - start) / 1000;
clearInterval(ticking);
const still = Math.max(0, ...stalls.map(({ from, to }) => to - from));
for (const loop of busy) loop.kill("SIGKILL");
const closing = performance.now();
await Promise.all(endings.slice(-2 * real.length).map((end) => end()));
const closed = performance.now() - closing;
await http.close();
for (let tries = 0; tries < 100 && tag.left().length > 0; tries++) await pause(100);
const left = tag.left();
const folders = temp.entries().filter((name) => name.startsWith("deep-factor-"));
for (const end of endings.slice(0, endings.length - 2 * real.length)) await end();

console.log(
  `${made} calls, ${AT_ONCE} at a time, ${loops} busy loops, load ${loadavg().map(Math.round).join(" ")}, seed ${values.seed}: ${seconds.toFixed(0)} s; close() ${closed.toFixed(0)} ms; this process did not run for ${(still / 1000).toFixed(1)} s at most\n`,
);
console.log("| calls | ends |\n| --- | --- |");
for (const [key, counts] of [...ends].sort()) {
  console.log(`| ${key} | ${[...counts].map(([end, count]) => `${end} ${count}`).join(", ")} |`);
}
console.log(`\n| what there must be none of | |\n| --- | ---: |`);
/** @type {[string, string[]][]} */
const table = [
  ["wrong answers", found.wrong],
  ["successes that could not be", found.success],
  [`ends later than ${LATE / 1000} s behind their limit (the latest: ${(longest / 1000).toFixed(1)} s)`, found.late],
  ["calls that failed for others", found.harmed],
  ["other ends of calls whose process came to harm", found.other],
  ["processes left", left],
  ["folders left", folders],
];
for (const [what, all] of table) console.log(`| ${what} | ${all.length} |`);
const all = table.flatMap(([what, all]) => all.map((one) => `${what}: ${one}`));
if (all.length > 0) console.log(`\n${all.join("\n")}`);
temp.cleanup();
process.exit(all.length === 0 ? 0 : 1);
