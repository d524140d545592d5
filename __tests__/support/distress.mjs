// @ts-check
/**
 * Kept processes that hang, starve or are killed, and what is done about it by who has a call there: one case of the table.
 *
 * In flow a form and a case; out flows what became of each call that it made, and what should not have been. Every answer says which call
 * it belongs to, and takes a second.
 */
import { readdirSync, readFileSync } from "node:fs";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ask, isAlive } from "./live.mjs";

/**
 * Where a conversation is when its process comes to harm: it rests between calls, its API has not answered, its caller has a tool to run,
 * or its answer is under way.
 */
export const STATES = /** @type {const} */ (["rests", "waits for the API", "waits for a result", "streams"]);
/** What happens to the process: it is stopped for good, gets a tenth of its time, or is killed. */
export const HARMS = /** @type {const} */ (["stopped", "starved", "killed"]);
/** What is done then: the call that is there, or is made now, is aborted, has little time, or is left alone; or the provider is closed. */
export const ACTS = /** @type {const} */ (["abort", "timeout", "close", "next call"]);
/** @typedef {{ state: typeof STATES[number], harm: typeof HARMS[number], act: typeof ACTS[number] }} Case */

/** Every case that `form` has. @param {import("./live-forms.mjs").LiveForm} form @returns {Case[]} */
export function casesOf(form) {
  const states = STATES.filter((state) => form.remembers || state !== "waits for a result");
  return HARMS.flatMap((harm) => states.flatMap((state) => ACTS.map((act) => ({ state, harm, act }))));
}

/** How much time a call has that has little, one that a process has which hangs under it, and one that has enough, ms. */
const SHORT = 6_000;
const HANGING = 20_000;
const PATIENT = 120_000;
/** How long after its limit or an abort a call may settle, ms: three seconds at most on a machine with nothing else to do. */
const SLACK = 10_000;

const said = (/** @type {string} */ id) => `answer ${id}: one two three four`;
const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
const step = { name: "step", description: "Takes a step", schema: { type: "object" } };

/**
 * The model of these cases, which goes by the last `[[<kind> <id>]]` that it is told: `says` answers, in a second; `calls` calls the tool;
 * `waits` answers when {@link Model.release} is called for that id.
 */
export function model() {
  /** @type {Map<string, { seen: () => void, isSeen: Promise<void>, release: () => void, isReleased: Promise<void> }>} */
  const calls = new Map();
  const of = (/** @type {string} */ id) => {
    let call = calls.get(id);
    if (!call) {
      let seen = () => {};
      let release = () => {};
      const isSeen = /** @type {Promise<void>} */ (new Promise((resolve) => (seen = () => resolve())));
      const isReleased = /** @type {Promise<void>} */ (new Promise((resolve) => (release = () => resolve())));
      call = { seen, isSeen, release, isReleased };
      calls.set(id, call);
    }
    return call;
  };
  return {
    /** @param {number} _ @param {string} raw @returns {Promise<import("./live-forms.mjs").Says>} */
    script: async (_, raw) => {
      const [, kind, id = ""] = [...raw.matchAll(/\[\[(says|calls|waits) ([\w-]+)\]\]/g)].at(-1) ?? [];
      of(id).seen();
      if (kind === "calls") return { calls: [{ id: `call_${id}`, name: "step", args: {} }] };
      if (kind === "waits") await of(id).isReleased;
      return { chunks: [`answer ${id}:`, " one", " two", " three", " four"], everyMs: 120 };
    },
    isAsked: (/** @type {string} */ id) => of(id).isSeen,
    release: (/** @type {string} */ id) => of(id).release(),
  };
}

/**
 * A call that goes on.
 * @typedef {object} Pending
 * @property {Promise<void>} streams its first piece is there, or it has ended
 * @property {Promise<{ end: string, ms: number }>} ended `answered`, `aborted`, an error's code, or what is wrong with its answer
 */

/**
 * @param {import("deep-factor-providers").CliProvider} provider
 * @param {import("deep-factor-providers").MessageInput[]} thread
 * @param {string} id what the answer has to say
 * @param {{ signal?: AbortSignal, timeout: number }} options
 * @returns {Pending}
 */
function begin(provider, thread, id, options) {
  let streams = () => {};
  const first = /** @type {Promise<void>} */ (new Promise((resolve) => (streams = () => resolve())));
  const began = performance.now();
  const run = async () => {
    let end = "no end";
    try {
      for await (const event of provider.stream(thread, options)) {
        if (event.type === "text_delta") streams();
        if (event.type !== "done") continue;
        const { content } = event.reply;
        end = content === said(id) ? "answered" : `WRONG: ${JSON.stringify(content)} for ${id}`;
      }
    } catch (error) {
      const { name, code, message } = /** @type {{ name: string, code?: string, message: string }} */ (error);
      end = name === "AbortError" ? "aborted" : (code ?? `THREW: ${message}`);
    }
    streams();
    return { end, ms: performance.now() - began };
  };
  return { streams: first, ended: run() };
}

/** `pid` and what descends from it. @param {number} pid @returns {number[]} */
function tree(pid) {
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const parent = Number(
        readFileSync(`/proc/${name}/stat`, "utf8")
          .replace(/^.*\) /s, "")
          .split(" ")[1],
      );
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // Gone since it was listed.
    }
  }
  const all = [pid];
  for (const one of all) all.push(...(children.get(one) ?? []));
  return all;
}

/** @param {number[]} pids @param {NodeJS.Signals} signal */
function send(pids, signal) {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // Gone.
    }
  }
}

/** Does `harm` to process `pid`; what is returned undoes it. @param {Case["harm"]} harm @param {number} pid */
function inflict(harm, pid) {
  if (harm === "killed") {
    process.kill(pid, "SIGKILL");
    return () => {};
  }
  const pids = tree(pid);
  send(pids, "SIGSTOP");
  if (harm === "stopped") return () => send(pids, "SIGCONT");
  let isOn = false;
  const timer = setInterval(() => {
    isOn = !isOn && Math.random() < 0.2;
    send(pids, isOn ? "SIGCONT" : "SIGSTOP");
  }, 50);
  return () => {
    clearInterval(timer);
    send(pids, "SIGCONT");
  };
}

/** Whether a call is under way in the process when it comes to harm. @param {Case["state"]} state */
const isUnderWay = (state) => state === "waits for the API" || state === "streams";

/**
 * What the call may come to that the harm and the act are about.
 * @param {Case} of
 * @param {boolean} [prompts] see `LiveForm`
 * @returns {string[]}
 */
function allowed({ state, harm, act }, prompts = false) {
  // An agent may take any time for a prompt, so nothing tells one that is stopped from one that thinks: its session's call has its limit.
  if (prompts && harm === "stopped" && act === "next call") return ["TIMEOUT"];
  const own = { abort: "aborted", timeout: "TIMEOUT", close: "CLOSED", "next call": "answered" }[act];
  // With little time, it may have its answer all the same.
  const inTime = act === "timeout" ? ["answered"] : [];
  // What an agent has said nothing of yet is asked of another one; it is gone before that is known.
  if (prompts && harm === "killed") return ["CRASHED", "answered", own];
  if (!isUnderWay(state) || harm === "starved") return [own, ...inTime];
  // Its answer may have been whole just then.
  const before = state === "streams" ? ["answered"] : [];
  if (harm === "stopped") return [act === "next call" ? "TIMEOUT" : own, ...before];
  return [...(act === "abort" || act === "close" ? ["CRASHED", own] : ["CRASHED"]), ...before];
}

/**
 * Runs one case: a conversation whose process comes to harm, its neighbour in the same process, where that serves several, and a call of another
 * process.
 * @param {import("./live-forms.mjs").LiveForm} form
 * @param {import("./live-forms.mjs").Running} running
 * @param {ReturnType<typeof model>} api
 * @param {import("deep-factor-providers").CliProvider} elsewhere another provider of the same kind
 * @param {Case} of
 * @param {string} id of the case, among those of `running`
 */
async function runCase(form, running, api, elsewhere, of, id) {
  const { state, harm, act } = of;
  /** @type {string[]} */
  const problems = [];
  /** @type {string[]} */
  const ends = [];
  const provider = running.create({ maxConcurrency: 64 });
  const hasCall = state === "waits for a result";
  const bound = hasCall ? provider.bindTools([step]) : provider;
  const opening = new HumanMessage(`[[${hasCall ? "calls" : "says"} ${id}-first]]`);
  const first = await ask(bound, [opening]);
  const [call] = first.reply.toolCalls;
  if (hasCall !== Boolean(call)) return { ends, problems: [`it answers ${JSON.stringify(first.reply)}`] };
  const { pid } = first;

  /** What `what` comes to that was begun, which has to be one of `may`. @param {string} what @param {Pending} pending @param {string[]} may */
  const note = async (what, { ended }, may) => {
    const { end, ms } = await ended;
    ends.push(`${what} ${end} ${(ms / 1000).toFixed(1)}`);
    if (!may.includes(end)) problems.push(`${what}: ${end}, not ${may.join(" or ")}`);
  };
  /** @param {number} began @param {string} what */
  const settles = (began, what) => {
    const ms = performance.now() - began;
    ends.push(`${what} ${(ms / 1000).toFixed(1)}`);
    if (ms > SLACK) problems.push(`${what}: ${Math.round(ms)} ms`);
  };
  /** @param {string} who @param {object} [options] */
  const goOn = (who, options, kind = "says") => {
    const text = `[[${kind} ${id}-${who}]]`;
    const next = call ? new ToolMessage({ tool_call_id: call.id, content: text }) : new HumanMessage(text);
    return begin(bound, [opening, first.message, next], `${id}-${who}`, { timeout: PATIENT, ...options });
  };
  /** @param {import("deep-factor-providers").CliProvider} of @param {string} who */
  const another = (of, who) =>
    begin(of, [new HumanMessage(`[[says ${id}-${who}]]`)], `${id}-${who}`, { timeout: PATIENT });

  const abort = new AbortController();
  const hangs = harm === "stopped" && isUnderWay(state);
  const timeout = act === "timeout" ? SHORT : hangs ? HANGING : PATIENT;
  const begun = () => goOn("call", { timeout, signal: abort.signal }, state === "waits for the API" ? "waits" : "says");
  let own = isUnderWay(state) ? begun() : undefined;
  const neighbour = form.oneProcess ? another(provider, "neighbour") : undefined;
  const other = another(elsewhere, "elsewhere");
  if (own) await api.isAsked(`${id}-call`);
  if (neighbour) await api.isAsked(`${id}-neighbour`);
  if (state === "streams") await own?.streams;

  const undo = inflict(harm, pid);
  try {
    api.release(`${id}-call`);
    if (act === "close") {
      const began = performance.now();
      await provider.close();
      settles(began, "close()");
      if (own) await note("call", own, allowed(of, form.prompts));
    } else {
      own ??= begun();
      const began = performance.now();
      if (act === "abort") {
        // One that has just been made is on its way to the process.
        if (!isUnderWay(state)) await pause(300);
        abort.abort();
      }
      const over = note("call", own, allowed(of, form.prompts)).then(() => {
        const limit = act === "abort" ? 0 : timeout;
        const late = performance.now() - began - limit;
        if (late > SLACK) problems.push(`call: ends ${Math.round(late)} ms late`);
      });
      // The same conversation goes on meanwhile, and another begins.
      if (act !== "next call") await over;
      const later = [note("later", goOn("later"), ["answered"]), note("new", another(provider, "new"), ["answered"])];
      await Promise.all([over, ...later]);
    }
  } finally {
    undo();
  }
  // Its process was stopped and goes on: no other call has ended it, though its own limit may have.
  const waits = form.prompts && harm === "stopped" && act === "next call" ? "TIMEOUT" : "answered";
  const itsEnd = harm === "killed" ? "CRASHED" : act === "close" ? "CLOSED" : waits;
  if (neighbour) await note("neighbour", neighbour, ["answered", itsEnd, ...(act === "close" ? ["CLOSED"] : [])]);
  await note("elsewhere", other, ["answered"]);
  const began = performance.now();
  await provider.close();
  settles(began, "closed");
  if (isAlive(pid)) problems.push("its process is left");
  return { ends, problems };
}

/**
 * Runs `cases`, some of them at once. Out: a line for each, with what its calls came to and after how many seconds, and a line for whatever was
 * otherwise than it should be.
 * @param {import("./live-forms.mjs").LiveForm} form
 * @param {readonly Case[]} cases
 */
export async function runCases(form, cases, atOnce = 2) {
  const api = model();
  const running = await form.start(api.script);
  const elsewhere = running.create({ maxConcurrency: 64 });
  await elsewhere.prewarm();
  /** @type {string[]} */
  const table = [];
  /** @type {string[]} */
  const wrong = [];
  const waiting = cases.map((of, number) => ({ of, id: `c${number}` }));
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { of, id } = next;
      const name = `${form.name}, ${of.harm}, ${of.state}, ${of.act}`;
      const { ends, problems } = await runCase(form, running, api, elsewhere, of, id);
      table.push(`${name}: ${ends.join(", ")}`);
      wrong.push(...problems.map((problem) => `${name}: ${problem}`));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return { table, wrong };
}
