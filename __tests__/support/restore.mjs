// @ts-check
/**
 * A conversation that is cut at its turns, and what the API is asked then: beside the same conversation that nobody has cut.
 *
 * In flows a version of claude, and what happens before each turn; out flow the requests, as the API's prompt cache compares them.
 */
import { spawn } from "node:child_process";
import { text as textOf } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createProvider, withClaude } from "./harness.mjs";
import { ask, gone } from "./live.mjs";

/** @typedef {"nothing" | "killed" | "closed" | "evicted" | "restarted"} Cut a restart is that of Node itself, for each turn */

const step = {
  name: "step",
  description: "Takes a step",
  schema: { type: "object", properties: { n: { type: "number" } } },
};

/** A picture of one point. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const thinking = (/** @type {number} */ n) => ({ type: "thinking", thinking: `thought ${n}`, signature: `SIG${n}=` });
const text = (/** @type {string} */ words) => ({ type: "text", text: words });
const use = (/** @type {number} */ n) => ({ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__step", input: { n } });
const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
const result = (/** @type {number} */ n, /** @type {any} */ content, /** @type {object} */ more = {}) =>
  new ToolMessage({ tool_call_id: `toolu_${n}`, content, ...more });

/**
 * What is said in each turn, what the model answers, and the effort that is asked for, if any.
 * @type {readonly { says: (HumanMessage | ToolMessage)[], answers: { type: string, [field: string]: unknown }[], effort?: "low" | "high" }[]}
 */
export const TURNS = [
  { says: [new HumanMessage("/plan the way")], answers: [thinking(1), text("Two at once."), use(1), use(2)] },
  { says: [result(1, "took 1"), result(2, [{ type: "text", text: "took 2" }, image])], answers: [thinking(2), use(3)] },
  { says: [result(3, "no way", { status: "error" })], answers: [text("A wall.\n")] },
  { says: [new HumanMessage({ content: [{ type: "text", text: "And here?" }, image] })], answers: [text("A door.")] },
  { says: [new HumanMessage("Quickly now.")], answers: [thinking(5), text("In.")], effort: "low" },
  { says: [new HumanMessage("Go on."), new HumanMessage("Twice.")], answers: [use(4), use(5)], effort: "low" },
  { says: [result(4, ""), result(5, "took 5")], answers: [thinking(7), text("One was silent.")], effort: "low" },
  { says: [new HumanMessage("Think hard.")], answers: [thinking(8), text("Hm."), use(6)], effort: "high" },
  { says: [result(6, "took 6"), new HumanMessage("and hurry")], answers: [text("Hurrying.")], effort: "high" },
  {
    says: [new HumanMessage('\u2028 "x"\n{"type":"assistant"}')],
    answers: [{ type: "redacted_thinking", data: "DATA" }, text("Odd.")],
    effort: "high",
  },
  { says: [new HumanMessage("Once more.")], answers: [thinking(11), use(7)], effort: "high" },
  { says: [result(7, "took 7")], answers: [text("Arrived.")], effort: "high" },
];

/**
 * A request as the API's prompt cache compares it: without cache marks, a lone text as a string, keys in order.
 * @param {any} body
 */
export function asked(body) {
  /** @type {(value: any) => any} */
  const plain = (value) => {
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== "object") return value;
    const { cache_control: _, ...rest } = value;
    return Object.fromEntries(
      Object.keys(rest)
        .sort()
        .map((key) => [key, plain(rest[key])]),
    );
  };
  const messages = body.messages.map((/** @type {any} */ message) => {
    const { content, ...rest } = plain(message);
    const alone = Array.isArray(content) && content.length === 1 && content[0].type === "text" && content[0].text;
    return { ...rest, content: typeof alone === "string" ? alone : content };
  });
  return { system: plain(body.system), tools: plain(body.tools), messages, output_config: plain(body.output_config) };
}

/**
 * Has the conversation, with what happens before each turn but the first.
 * @param {object} setup
 * @param {import("./claude.mjs").Which} setup.which
 * @param {(turn: number) => Cut} setup.cut
 * @param {number} [setup.turns] how many of them; default all
 * @param {object} [setup.options] of the provider
 * @param {boolean} [setup.returnsReasoning] the thread comes back with its reasoning
 */
export async function converse({ which, cut, turns = TURNS.length, options = {}, returnsReasoning = false }) {
  let turn = 0;
  const { api, options: own } = await withClaude({
    which,
    engine: "live",
    script: () => ({ content: /** @type {any} */ (TURNS[turn]?.answers) }),
  });
  const model = which === "oldest" ? "claude-sonnet-5" : "claude-sonnet-5-5";
  const create = () => createProvider({ ...own, model, retry: false, ...options });
  let provider = create();
  const thread = [/** @type {any} */ (new SystemMessage("Be brief."))];
  const sessions = [];
  const warnings = [];
  let pid = 0;
  for (turn = 0; turn < turns; turn++) {
    const { says, effort } = /** @type {typeof TURNS[number]} */ (TURNS[turn]);
    thread.push(...says);
    const what = turn === 0 ? "nothing" : cut(turn);
    if (what === "killed") process.kill(pid, "SIGKILL");
    // An evicted one ends by itself: its provider keeps none.
    if (what === "killed" || what === "evicted") await gone(pid);
    if (what === "closed") {
      await provider.close();
      provider = create();
    }
    const call = effort ? { reasoning: { effort } } : {};
    if (cut(turn) === "restarted") {
      const answer = await askElsewhere({ ...own, model, retry: false, ...options }, [step], thread, call);
      sessions.push(answer.session);
      warnings.push(...answer.warnings);
      thread.push(answer.message);
      continue;
    }
    const answer = await ask(provider.bindTools([step]), thread, call);
    pid = answer.pid;
    sessions.push(answer.run?.session);
    warnings.push(...answer.warnings);
    thread.push(returnsReasoning ? withReasoning(answer) : answer.message);
  }
  await provider.close();
  // A provider's folder has a name of its own.
  const requests = api.requests.map(({ body }) => asked(body));
  const folder = /directory: (\S+?)\\n/.exec(JSON.stringify(requests[0]))?.[1] ?? "none";
  return { requests: JSON.parse(JSON.stringify(requests).replaceAll(folder, "FOLDER")), sessions, warnings };
}

/**
 * One call in a Node of its own.
 * @param {Record<string, any>} options
 * @param {object[]} tools
 * @param {object[]} thread
 * @param {object} call
 * @param {"claude" | "codex"} cli
 * @returns {Promise<{ message: any, session: string, warnings: string[] }>}
 */
export async function askElsewhere(options, tools, thread, call = {}, cli = "claude") {
  const worker = fileURLToPath(new URL("sessions-worker.mjs", import.meta.url));
  const child = spawn(process.execPath, [worker], { stdio: ["pipe", "pipe", "inherit"] });
  // JSON has no undefined.
  const env = Object.entries(options.env).map(([name, value]) => [name, value ?? null]);
  child.stdin.end(JSON.stringify({ cli, options: { ...options, env }, tools, thread, call }));
  return JSON.parse(await textOf(child.stdout));
}

/** @param {Awaited<ReturnType<typeof ask>>} answer */
function withReasoning({ message, reply }) {
  message.additional_kwargs.reasoning_details = reply.reasoning;
  message.response_metadata = { provider: "claude", model: reply.model };
  return message;
}

/**
 * A request without what a provider can't know of a conversation that another one had: the efforts of the past, and white space around
 * the model's words.
 * @param {ReturnType<typeof asked>} request
 */
export function asForeign({ messages, ...rest }) {
  const told = messages.filter((/** @type {any} */ message) => message.role !== "system" || message.content.length > 0);
  const plain = told.map((/** @type {any} */ { output_config: _, ...message }) => message);
  return { ...rest, messages: JSON.parse(JSON.stringify(plain).replaceAll(String.raw`wall.\n`, "wall.")) };
}

/**
 * A request whose newest results are in order: where claude can't be asked for the first of them, another one comes first.
 * @param {ReturnType<typeof asked>} request
 */
export function inOrder({ messages, ...rest }) {
  const { content, ...last } = messages.at(-1);
  const sorted = Array.isArray(content)
    ? [...content].sort((a, b) => String(a.tool_use_id).localeCompare(String(b.tool_use_id)))
    : content;
  return { ...rest, messages: [...messages.slice(0, -1), { ...last, content: sorted }] };
}
