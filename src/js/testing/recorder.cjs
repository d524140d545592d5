"use strict";

/**
 * In: a provider, and requests. Out: its answers, and the calls as a cassette has them: without what is another in each run (ids of runs,
 * moments) and with ids of sessions, messages and calls that are counted.
 *
 * @import { CliProvider } from "../../../index.js"
 * @import { Answer, ScriptedRequest, ScriptEvent } from "./types.cjs"
 * @import { Call } from "./tape.cjs"
 */

const { isProviderError } = require("../errors.cjs");
const { unbound } = require("../provider.cjs");
const { elapsed } = require("./clock.cjs");
const { keyOf, mapTexts } = require("./compare.cjs");
const { readError } = require("./reply.cjs");

/** Times are told in steps of so many ms: the last digit is chance. */
const STEP = 10;

const OUTPUT = new Set([
  "text_delta",
  "thinking_delta",
  "tool_call_delta",
  "message",
  "tool_call",
  "invalid_tool_call",
]);
const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi;
const MOMENT = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
/** The fields that are a moment. */
const MOMENTS = ["resetsAt", "until"];

/** The figures of an answer that stay the same from run to run. */
const FIGURES = ["stopReason", "model", "sessionId", "costUsd", "numTurns"];

/**
 * @param {CliProvider<any>} provider
 * @param {Call[]} calls gets those that are made
 * @param {(request: ScriptedRequest) => ScriptedRequest} plain the request as it is kept
 * @returns {Answer}
 */
function createRecorder(provider, calls, plain) {
  const ids = createIds();

  /** @type {Answer} */
  async function* answer(request, signal) {
    const began = elapsed();
    const asked = ids.ofRequest(plain(request));
    /** @type {Call} */
    const call = {
      ...{ number: calls.length + 1, after: before(asked, calls)?.number },
      ...{ request: asked, events: [], end: undefined, endMs: 0 },
    };
    calls.push(call);
    const ms = () => Math.round((elapsed() - began) / STEP) * STEP;
    /** @param {NonNullable<Call["end"]>} end */
    const close = (end) => {
      call.end = end;
      call.endMs = ms();
    };
    const { messages, tools, options } = request;
    try {
      const adapter = tools.length > 0 ? provider.bindTools(tools) : unbound(provider);
      const events = adapter.stream(
        /** @type {any} */ (messages.map(messageOf)),
        /** @type {any} */ ({ ...options, signal }),
      );
      for await (const event of events) {
        if (event.type === "start" || event.type === "fallback") continue;
        if (event.type === "done") {
          const told = whole(event.reply);
          if (told !== undefined) {
            call.events.push({ ms: ms(), event: told });
            yield told;
          }
          const figures = pick(event.reply, FIGURES);
          close({ done: ids.ofEvent({ type: "over", ...figures }, true) });
          yield { type: "over", ...figures };
          return;
        }
        // What came before is not the answer's.
        if (event.type === "retry" && event.by === "provider") {
          call.events = call.events.filter(({ event: { type } }) => !OUTPUT.has(type));
        }
        call.events.push({ ms: ms(), event: relative(ids.ofEvent(event)) });
        yield event;
      }
    } catch (error) {
      if (signal.aborted) return close({ aborted: true });
      const failed = isProviderError(error)
        ? readError(error, "")
        : readError({ code: "UNKNOWN", message: String(error) }, "");
      const { category: _, ...kept } = failed;
      close({ error: relative(kept) });
      yield { type: "failed", ...failed };
    }
  }

  return answer;
}

/**
 * Moments as times from now on, in seconds: `"+3600000"`.
 *
 * @template {Record<string, any>} T
 * @param {T} fields
 * @returns {T}
 */
function relative(fields) {
  const its = MOMENTS.filter((name) => typeof fields[name] === "number");
  const from = (/** @type {string} */ name) => `+${Math.max(0, Math.round((fields[name] - Date.now()) / 1000)) * 1000}`;
  return its.length === 0 ? fields : { ...fields, ...Object.fromEntries(its.map((name) => [name, from(name)])) };
}

/**
 * What {@link relative} has made, as moments again.
 *
 * @template {Record<string, any>} T
 * @param {T} fields
 * @returns {T}
 */
function absolute(fields) {
  const its = MOMENTS.filter((name) => /^\+\d+$/.test(String(fields[name])));
  const at = (/** @type {string} */ name) => Date.now() + Number(fields[name]);
  return its.length === 0 ? fields : { ...fields, ...Object.fromEntries(its.map((name) => [name, at(name)])) };
}

/**
 * An answer whose value came beside its text: as text, which is what a schema is held against.
 *
 * @param {import("../../../index.js").ProviderReply} reply
 * @returns {ScriptEvent | undefined}
 */
function whole({ structured, content }) {
  if (structured === undefined) return undefined;
  try {
    if (keyOf(JSON.parse(content)) === keyOf(structured)) return undefined;
  } catch {
    // No JSON: the value is.
  }
  return { type: "message", content: JSON.stringify(structured) };
}

/**
 * The call that a request goes on with: the longest whose thread it begins with.
 *
 * @param {ScriptedRequest} request
 * @param {readonly Call[]} calls
 */
function before({ messages }, calls) {
  const keys = messages.map(keyOf);
  let longest = /** @type {Call | undefined} */ (undefined);
  for (const call of calls) {
    const its = call.request.messages;
    const isLonger = its.length > (longest?.request.messages.length ?? 0);
    if (isLonger && its.length < keys.length && its.every((message, at) => keyOf(message) === keys[at])) longest = call;
  }
  return longest;
}

/** @param {ScriptedRequest["messages"][number]} message */
function messageOf({ is_error: failed, ...message }) {
  return failed ? { ...message, status: "error" } : message;
}

/**
 * @param {object} fields
 * @param {readonly string[]} names
 * @returns {Record<string, any>}
 */
function pick(fields, names) {
  return Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => names.includes(name) && value !== undefined),
  );
}

/** Ids that are counted in the place of a provider's own. */
function createIds() {
  /** @type {Map<string, string>} */
  const known = new Map();
  /** @type {Record<string, number>} */
  const counts = {};
  /** Of the caller's threads: no other may have them. @type {Set<string>} */
  const taken = new Set();

  /**
   * @param {string} kind
   * @param {string} id
   */
  const counted = (kind, id) => {
    const key = `${kind} ${id}`;
    let its = known.get(key);
    while (its === undefined || (taken.has(its) && !known.has(key))) {
      counts[kind] = (counts[kind] ?? 0) + 1;
      its = `${kind}_${counts[kind]}`;
    }
    known.set(key, its);
    return its;
  };
  const ofCall = (/** @type {string} */ id) => {
    const its = known.get(`call ${id}`);
    if (its === undefined) taken.add(id);
    return its ?? id;
  };

  return {
    /** @param {ScriptedRequest} request */
    ofRequest: (request) => ({
      ...request,
      messages: request.messages.map((message) => ({
        ...message,
        ...(message.tool_calls && { tool_calls: message.tool_calls.map((call) => ({ ...call, id: ofCall(call.id) })) }),
        ...(message.tool_call_id !== undefined && { tool_call_id: ofCall(message.tool_call_id) }),
      })),
    }),

    /**
     * @param {ScriptEvent} event
     * @param {boolean} [figures] only its fields
     * @returns {any}
     */
    ofEvent({ type, ...event }, figures = false) {
      const its = { ...event };
      if (typeof its.sessionId === "string") its.sessionId = counted("session", its.sessionId);
      if (typeof its.messageId === "string") its.messageId = counted("message", its.messageId);
      if (type === "message" && typeof its.id === "string") its.id = counted("message", its.id);
      if (typeof its.toolCallId === "string") its.toolCallId = counted("call", its.toolCallId);
      if (its.toolCall) its.toolCall = { ...its.toolCall, id: counted("call", its.toolCall.id) };
      if (typeof its.invalidToolCall?.id === "string") {
        its.invalidToolCall = { ...its.invalidToolCall, id: counted("call", its.invalidToolCall.id) };
      }
      if (type === "other") {
        const plain = (/** @type {string} */ text) =>
          text.replace(UUID, (id) => counted("uuid", id)).replace(MOMENT, "1970-01-01T00:00:00.000Z");
        its.raw = mapTexts(its.raw, plain);
      }
      return figures ? its : { type, ...its };
    },
  };
}

module.exports = { absolute, createRecorder };
