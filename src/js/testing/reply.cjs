"use strict";

/**
 * In: a reply as a script writes it. Out: the events of a run that gave it, and its end or its error.
 *
 * An event is a `ProviderEvent`, or one of the two ends: `over` with the figures of a whole answer, `failed` with the fields of an
 * error. The native side takes the same (`src/exchange/script.rs`).
 *
 * @import { Reply } from "./types.cjs"
 *
 * @typedef {{ type: string, [field: string]: any }} ScriptEvent
 */

const { clip, isProviderError } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { pause } = require("./clock.cjs");
const { adviceOf, codes } = require("./codes.cjs");

const KEYS = ["text", "toolCalls", "reasoning", "usage", "error", "delayMs", "deltas", "model", "stopReason"];

/** What an error may carry of another run: not whose it was, nor when. */
const CARRIED = [
  ...[
    "shouldRetry",
    "shouldFallback",
    "hint",
    "retryAfterMs",
    "exitCode",
    "signal",
    "httpStatus",
    "stdoutTail",
    "stderrTail",
  ],
  ...["partial", "usage"],
];

/**
 * A reply's fields, checked.
 *
 * @param {unknown} reply
 * @param {string} at its place, for errors
 * @returns {Reply}
 */
function readReply(reply, at) {
  if (typeof reply === "string") return { text: reply };
  if (isProviderError(reply)) return { error: reply };
  if (typeof reply !== "object" || reply === null || Array.isArray(reply) || reply instanceof Error) {
    throw new TypeError(`${at} must be a text, a reply or a ProviderError, got ${describe(reply)}`);
  }
  const fields = /** @type {Record<string, unknown>} */ (reply);
  const unknown = Object.keys(fields).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) throw new TypeError(`${at} has no field "${unknown}": there are ${KEYS.join(", ")}`);
  /** @type {[string, boolean, string][]} */
  const must = [
    ["text", typeof fields.text === "string", "a text"],
    ["toolCalls", isCalls(fields.toolCalls), "an array of { name, args?, id? }"],
    ["reasoning", typeof fields.reasoning === "string", "a text"],
    ["usage", typeof fields.usage === "object" && fields.usage !== null, "an object { inputTokens, outputTokens }"],
    ["delayMs", isTime(fields.delayMs), "a number of milliseconds"],
    ["deltas", Array.isArray(fields.deltas) && fields.deltas.every(isDelta), "an array of texts or { text, delayMs }"],
    ["model", typeof fields.model === "string", "a text"],
    ["stopReason", typeof fields.stopReason === "string", "a text"],
  ];
  for (const [name, fits, allowed] of must) {
    if (fields[name] !== undefined && !fits) {
      throw new TypeError(`"${name}" of ${at} must be ${allowed}, got ${describe(fields[name])}`);
    }
  }
  if (fields.error !== undefined) readError(fields.error, at);
  return /** @type {Reply} */ (fields);
}

/** @param {unknown} value */
const isTime = (value) => typeof value === "number" && value >= 0 && Number.isFinite(value);

/** @param {any} value */
const isDelta = (value) =>
  typeof value === "string" ||
  (typeof value?.text === "string" && (value.delayMs === undefined || isTime(value.delayMs)));

/** @param {any} value */
const isCalls = (value) => Array.isArray(value) && value.every((call) => typeof call?.name === "string");

/**
 * @param {unknown} error a code, the fields of a `ProviderError`, or one
 * @param {string} at
 * @returns {Record<string, unknown>}
 */
function readError(error, at) {
  const fields = typeof error === "string" ? { code: error } : /** @type {Record<string, any>} */ (error);
  const advice = typeof fields?.code === "string" ? adviceOf(fields.code) : undefined;
  if (advice === undefined) {
    const given = typeof fields?.code === "string" ? fields.code : error;
    throw new TypeError(`"error" of ${at} must have one of the codes ${codes().join(", ")}, got ${describe(given)}`);
  }
  const { message = `the script answers with ${advice.code}`, resetsAt } = fields;
  const when = resetsAt === undefined ? {} : { resetsAt: new Date(resetsAt).getTime() };
  const its = Object.fromEntries(CARRIED.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])));
  // An Error's message is no field of its own that a copy has.
  return { ...advice, ...its, ...when, message: clip(String(message)) };
}

/**
 * @param {Reply} reply checked
 * @param {{ at: string, signal: AbortSignal, model: string, id: () => string, usage: (text: string) => object }} run `id`: of the next
 *   call; `usage`: an estimate
 * @returns {AsyncGenerator<ScriptEvent, void, undefined>}
 */
async function* eventsOf(reply, { at, signal, model, id, usage }) {
  const { toolCalls = [], reasoning = "", delayMs = 0, error } = reply;
  const deltas = reply.deltas?.map((delta) => (typeof delta === "string" ? { text: delta } : delta));
  const text = reply.text ?? deltas?.map((delta) => delta.text).join("") ?? "";
  await pause(delayMs, signal);
  const chosen = reply.model ?? model;
  const hasOutput = text !== "" || reasoning !== "" || toolCalls.length > 0;
  const events = 1 + (reasoning === "" ? 0 : 1) + (deltas?.length ?? 1);
  if (error === undefined || hasOutput) yield { type: "session", model: chosen };
  if (reasoning !== "") yield { type: "thinking_delta", text: reasoning };
  for (const { text, delayMs = 0 } of deltas ?? []) {
    await pause(delayMs, signal);
    yield { type: "text_delta", text };
  }
  if (error !== undefined) {
    // What breaks off has no whole message.
    if (text !== "" && deltas === undefined) yield { type: "text_delta", text };
    const failed = readError(error, at);
    yield { type: "failed", ...(text === "" ? {} : { partial: { text, events } }), ...failed };
    return;
  }
  if (text !== "") yield { type: "message", content: text };
  const calls = toolCalls.map(({ name, args = {}, id: own }) => ({ name, args, id: own ?? id() }));
  for (const toolCall of calls) yield { type: "tool_call", toolCall };
  const stopReason = reply.stopReason ?? (calls.length > 0 ? "tool_calls" : "stop");
  const written = calls.reduce((all, { name, args }) => all + name + JSON.stringify(args), reasoning + text);
  yield { type: "usage", usage: usageOf(reply.usage) ?? usage(written), rawStopReason: stopReason };
  yield { type: "over", stopReason, model: chosen };
}

/** @param {Reply["usage"]} usage */
function usageOf(usage) {
  if (usage === undefined) return undefined;
  const { inputTokens = 0, outputTokens = 0, ...rest } = usage;
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, ...rest };
}

module.exports = { eventsOf, readError, readReply };
