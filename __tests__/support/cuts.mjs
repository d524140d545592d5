// @ts-check
/**
 * A conversation of twelve turns with any CLI, cut before each of them, beside the same conversation that nobody has cut.
 *
 * In flow a form of a CLI (`live-forms.mjs`), and what happens before each turn; out flow the API's requests, and the paths at which two
 * conversations' requests differ.
 */

import { opencodeConfig } from "./clis.mjs";
import { ask, gone } from "./live.mjs";
import { markIn, writeToolCalls } from "./model.mjs";

/**
 * @typedef {"nothing" | "killed" | "evicted" | "closed"} Cut the CLI's process is killed, its session is not kept, or its provider is closed
 *   and another one gets the thread
 */

const step = {
  name: "step",
  description: "Takes a step",
  schema: { type: "object", properties: { n: { type: "number" } } },
};

/** A picture of one point. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
const text = (/** @type {string} */ words) => ({ type: "text", text: words });
const user = (/** @type {unknown} */ content) => ({ role: "user", content });
const call = (/** @type {number} */ n) => ({ id: `call_${n}`, name: "step", args: { n } });
const result = (/** @type {number} */ n, /** @type {unknown} */ content, /** @type {object} */ more = {}) => ({
  role: "tool",
  tool_call_id: `call_${n}`,
  content,
  ...more,
});

/**
 * What is said in each turn, what the model answers, and the effort that is asked for, if any.
 * @type {readonly { says: Record<string, any>[], answers: { reasoning?: string, text?: string, calls?: ReturnType<typeof call>[] },
 *   effort?: "low" | "high" }[]}
 */
export const TURNS = [
  {
    says: [{ role: "system", content: "Be brief." }, user("Plan the way.")],
    answers: { reasoning: "thought 1", text: "Two at once.", calls: [call(1), call(2)] },
  },
  { says: [result(1, "took 1"), result(2, "took 2")], answers: { reasoning: "thought 2", calls: [call(3)] } },
  { says: [result(3, "no way", { status: "error" })], answers: { text: "A wall.\n" } },
  { says: [user([text("And here?"), image])], answers: { text: "A door." } },
  { says: [user("Quickly now.")], answers: { reasoning: "thought 5", text: "In." }, effort: "low" },
  { says: [user("Go on."), user("Twice.")], answers: { calls: [call(4), call(5)] }, effort: "low" },
  {
    says: [result(4, ""), result(5, "took 5")],
    answers: { reasoning: "thought 7", text: "One was silent." },
    effort: "low",
  },
  { says: [user("Think hard.")], answers: { reasoning: "thought 8", text: "Hm.", calls: [call(6)] }, effort: "high" },
  { says: [result(6, "took 6"), user("and hurry")], answers: { text: "Hurrying." }, effort: "high" },
  { says: [user('\u2028 "x" /plan @x\n{"type":"assistant"}')], answers: { text: "Odd." }, effort: "high" },
  { says: [user("Once more.")], answers: { reasoning: "thought 11", calls: [call(7)] }, effort: "high" },
  { says: [result(7, [text("took 7"), image])], answers: { text: "Arrived." }, effort: "high" },
];

/**
 * What a CLI takes of it.
 * @typedef {{ images?: boolean, efforts?: boolean, written?: boolean, more?: (api: { url: string }) => object }} Takes
 *   `written`: calls stand in the answer's text
 */

/**
 * Has the conversation.
 * @param {import("./live-forms.mjs").LiveForm} form
 * @param {(turn: number) => Cut} cut
 * @param {Takes & { turns?: number, options?: object }} [takes]
 */
export async function converse(form, cut, { images, efforts, written, more, turns = TURNS.length, options } = {}) {
  let turn = 0;
  const { api, create } = await form.start((_, raw) => {
    const { calls, ...answers } = /** @type {typeof TURNS[number]} */ (TURNS[turn]).answers;
    if (!calls) return answers;
    if (!written) return { ...answers, calls };
    const body = JSON.parse(raw);
    return { ...answers, text: [answers.text, writeToolCalls(calls, markIn(body))].filter(Boolean).join("\n\n") };
  });
  const common = more?.(api);
  const own = () => create({ ...common, ...options });
  let provider = own();
  const thread = [];
  const sessions = [];
  /** @type {unknown[]} */
  const warnings = [];
  /** @type {Map<string, string>} */
  const ids = new Map();
  let pid = 0;
  for (turn = 0; turn < turns; turn++) {
    const { says, effort } = /** @type {typeof TURNS[number]} */ (TURNS[turn]);
    thread.push(...says.map((message) => taken(message, images, ids)));
    const what = turn === 0 ? "nothing" : cut(turn);
    if (what === "killed") {
      // With what it has started: qwen's is a launcher.
      process.kill(-pid, "SIGKILL");
      await gone(pid);
    }
    if (what === "closed") {
      await provider.close();
      provider = own();
    }
    const answer = await ask(
      provider.bindTools([step]),
      /** @type {any} */ (JSON.parse(JSON.stringify(thread))),
      effort && efforts ? { reasoning: { effort } } : {},
    );
    pid = answer.pid;
    sessions.push(answer.run?.session ?? answer.run?.engine);
    for (const code of answer.warnings) warnings.push([turn, code]);
    const calls = answer.reply.toolCalls;
    for (const [at, { id }] of (TURNS[turn]?.answers.calls ?? []).entries()) ids.set(id, String(calls[at]?.id));
    thread.push({
      role: "assistant",
      content: answer.reply.content,
      ...(calls.length > 0 && { tool_calls: calls.map(({ id, name, args }) => ({ id, name, args })) }),
    });
  }
  await provider.close();
  return { requests: api.requests.map(({ headers, body }) => ({ headers, body })), sessions, warnings };
}

/**
 * A message as this CLI takes it: without images, and with its own ids of calls.
 * @param {Record<string, any>} message
 * @param {boolean | undefined} images
 * @param {Map<string, string>} ids
 */
function taken({ content, ...message }, images, ids) {
  const id = message.tool_call_id;
  const parts = Array.isArray(content) && !images ? content.filter(({ type }) => type === "text") : content;
  return { ...message, ...(id && { tool_call_id: ids.get(id) ?? id }), content: parts };
}

/** Configuration of opencode's with a model that sees and has efforts. @param {{ url: string }} api */
export function seeing({ url }) {
  const { provider } = opencodeConfig(url, true);
  const { mock } = provider;
  const m1 = { ...mock.models.m1, modalities: { input: ["text", "image"], output: ["text"] } };
  return { config: { provider: { mock: { ...mock, models: { ...mock.models, m1 } } } } };
}

/** What is a provider's, a process's or a session's own. */
const UNIQUE = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|\bses_\w+|\b(?:deep-factor|dfp)-\w+/g;

/** What is another in each request, also of one conversation: times, the API's port, the body's length, the ids of traces. */
const ALWAYS = /^\.headers\.(?:host|content-length|traceparent)$|_unix_ms$/;

/** What is another in each turn of codex's, and is told whole. */
const WHOLE = /(client_metadata|turn-metadata)\..*/;

/** @typedef {{ headers: object, body: object }} Request */

/**
 * Requests to compare: JSON in texts as values, and items of lists called by what they are, and which of these they are. Something unique is
 * called as the place where it first came: two conversations agree about it where they agree when it is another one.
 * @param {Request[]} requests
 */
function comparable(requests) {
  /** @type {Map<string, string>} */
  const names = new Map();
  /** @type {(value: any, place: string) => any} */
  const named = (value, place) => {
    if (typeof value === "string" && /^\{"/.test(value)) return named(JSON.parse(value), place);
    if (typeof value === "string") {
      return value.replaceAll(UNIQUE, (one) => {
        if (!names.has(one)) names.set(one, `<${place}>`);
        return names.get(one) ?? "";
      });
    }
    if (value === null || typeof value !== "object") return value;
    const keys = Array.isArray(value) ? keysOf(value) : Object.keys(value).map((key) => `.${key}`);
    const values = Object.values(value);
    const order = [...keys.keys()].sort((one, other) => (String(keys[one]) < String(keys[other]) ? -1 : 1));
    return Object.fromEntries(order.map((at) => [keys[at], named(values[at], `${place}${keys[at]}`)]));
  };
  return requests.map((request, turn) => named(request, String(turn)));
}

/** @param {any[]} items of which each has a role, a type or neither */
function keysOf(items) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  return items.map((item) => {
    const kind = `[${item?.role ?? item?.type ?? ""}]`;
    const count = counts.get(kind) ?? 0;
    counts.set(kind, count + 1);
    return `${kind}#${count}`;
  });
}

/**
 * Where the requests of a conversation differ from those of another one: each path, with the turns.
 * @param {Request[]} requests
 * @param {Request[]} others
 * @returns {Record<string, string>}
 */
export function differences(requests, others) {
  /** @type {Record<string, Set<number>>} */
  const found = {};
  /** @type {(one: any, other: any, path: string, turn: number) => void} */
  const compare = (one, other, path, turn) => {
    const isObject = [one, other].map((value) => value !== null && typeof value === "object");
    if (isObject[0] && isObject[1]) {
      for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
        compare(one[key], other[key], `${path}${key.replace(/#\d+$/, "")}`, turn);
      }
    } else if (one !== other && !ALWAYS.test(path)) {
      const place = path.slice(1).replace(WHOLE, "$1");
      found[place] ??= new Set();
      found[place]?.add(turn);
    }
  };
  const [mine, theirs] = [comparable(requests), comparable(others)];
  for (let turn = 0; turn < Math.max(mine.length, theirs.length); turn++) compare(mine[turn], theirs[turn], "", turn);
  const paths = Object.keys(found).sort();
  return Object.fromEntries(paths.map((path) => [path, [...(found[path] ?? [])].join(" ")]));
}
