"use strict";

/**
 * In: the text of a cassette. Out: its calls; and back.
 *
 * One JSON object per line, so that a changed prompt or answer is a changed line:
 *
 *     {"cassette":1,"provider":"claude"}
 *     {"call":1}
 *     {"tool":{"name":"add",…}}
 *     {"message":{"type":"human","content":"1 + 2?"}}
 *     {"ms":40,"event":{"type":"tool_call",…}}
 *     {"ms":50,"done":{"stopReason":"tool_use"}}
 *     {"call":2,"after":1,"tools":1}
 *     {"message":…}
 *
 * A call `after` another goes on with its thread: only what is new is told. `tools` names the call that has the same.
 *
 * @import { ScriptedRequest, ScriptEvent } from "./types.cjs"
 *
 * @typedef {{ ms: number, event: ScriptEvent }} Timed
 * @typedef {{ done: Record<string, unknown> } | { error: Record<string, unknown> } | { aborted: true }} End
 * @typedef {{ number: number, after: number | undefined, request: ScriptedRequest, events: Timed[], end: End | undefined, endMs: number }} Call
 * @typedef {{ provider: string, calls: Call[] }} Tape
 */

const { fault, parseAnswer } = require("../errors.cjs");
const { adviceOf } = require("./codes.cjs");
const { keyOf } = require("./compare.cjs");

/** The format, counted up by changes that older versions can't read. */
const FORMAT = 1;

/** The fields that an event must have, by its type. @type {Record<string, readonly [string, string][]>} */
const EVENTS = {
  session: [],
  text_delta: [["text", "string"]],
  thinking_delta: [["text", "string"]],
  message: [["content", "string"]],
  tool_call_delta: [["delta", "string"]],
  tool_call: [["toolCall", "object"]],
  invalid_tool_call: [["invalidToolCall", "object"]],
  tool_result: [
    ["toolCallId", "string"],
    ["content", "string"],
  ],
  usage: [["usage", "object"]],
  rate_limit: [["status", "string"]],
  retry: [["reason", "string"]],
  waiting: [["reason", "string"]],
  warning: [["message", "string"]],
  other: [["kind", "string"]],
};

/**
 * @param {string} text
 * @param {string} file for errors
 * @returns {Tape}
 */
function parseTape(text, file) {
  const lines = text.split("\n");
  let at = 0;
  /** @param {string} reason */
  const wrong = (reason) => fault("INVALID_OPTION", `the cassette can't be played: ${file}:${at}: ${reason}`);
  /** @type {Tape | undefined} */
  let tape;
  /** @type {Call | undefined} the one that is being read */
  let call;

  for (const line of lines) {
    at += 1;
    if (line.trim() === "") continue;
    /** @type {Record<string, any>} */
    let entry;
    try {
      entry = parseAnswer(line);
    } catch (error) {
      const last = at >= lines.length - 1 ? ", and it is the last: the file may be cut short" : "";
      throw wrong(`the line is no JSON (${/** @type {Error} */ (error).message})${last}`);
    }
    if (typeof entry !== "object" || entry === null || Array.isArray(entry)) throw wrong("the line is no object");
    if (tape === undefined) {
      tape = { provider: readHeader(entry, wrong), calls: [] };
    } else if ("call" in entry) {
      if (call !== undefined) throw wrong(`call ${call.number} has no end before the next one`);
      call = readCall(entry, tape.calls, wrong);
    } else if (call === undefined) {
      throw wrong('a line outside of a call: there must be {"call": number} before it');
    } else if (readLine(entry, call, wrong)) {
      tape.calls.push(call);
      call = undefined;
    }
  }
  if (tape === undefined) throw wrong("the file is empty");
  if (call !== undefined) throw wrong(`call ${call.number} has no end: the file is cut short`);
  return tape;
}

/**
 * @param {Record<string, any>} entry
 * @param {(reason: string) => Error} wrong
 */
function readHeader({ cassette, provider }, wrong) {
  if (!Number.isInteger(cassette))
    throw wrong(`the file is no cassette: its first line must be {"cassette":${FORMAT},…}`);
  if (cassette > FORMAT) throw wrong(`it is of format ${cassette}, and this package knows formats up to ${FORMAT}`);
  if (typeof provider !== "string" || !/^[\w.-]{1,64}$/.test(provider))
    throw wrong('"provider" must be a provider\'s id');
  return provider;
}

/**
 * @param {Record<string, any>} entry
 * @param {Call[]} calls
 * @param {(reason: string) => Error} wrong
 * @returns {Call}
 */
function readCall({ call: number, after, options = {}, tools }, calls, wrong) {
  if (number !== calls.length + 1) throw wrong(`"call" must be ${calls.length + 1}: calls are counted from 1`);
  const earlier = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    if (value === undefined) return undefined;
    const its = calls[Number(value) - 1];
    if (!Number.isInteger(value) || its === undefined) throw wrong(`"${name}" must be the number of an earlier call`);
    return its.request;
  };
  if (typeof options !== "object" || options === null) throw wrong('"options" must be an object');
  const messages = [...(earlier("after", after)?.messages ?? [])];
  const request = { messages, tools: [...(earlier("tools", tools)?.tools ?? [])], options };
  return { number, after, request, events: [], end: undefined, endMs: 0 };
}

/**
 * @param {Record<string, any>} entry
 * @param {Call} call gets what the line says
 * @param {(reason: string) => Error} wrong
 * @returns {boolean} whether it is the call's last
 */
function readLine(entry, call, wrong) {
  const { tool, message, event, done, error, aborted, ms = 0 } = entry;
  const isObject = (/** @type {unknown} */ value) =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (typeof ms !== "number" || !(ms >= 0)) throw wrong('"ms" must be a number of milliseconds');
  call.endMs = ms;
  if (isObject(tool) && typeof tool.name === "string") call.request.tools.push(tool);
  else if (isObject(message) && typeof message.type === "string") call.request.messages.push(message);
  else if (isObject(event)) {
    const fields = Object.hasOwn(EVENTS, event.type) ? EVENTS[event.type] : undefined;
    if (fields === undefined) throw wrong(`there is no event of the type ${JSON.stringify(event.type)}`);
    for (const [name, type] of fields) {
      if (typeof event[name] !== type || event[name] === null) throw wrong(`the event's "${name}" must be a ${type}`);
    }
    const { toolCall } = event;
    if (toolCall !== undefined && !isCall(toolCall)) throw wrong('the event\'s "toolCall" must be { name, args, id }');
    call.events.push({ ms, event });
  } else if (isObject(done)) call.end = { done };
  else if (isObject(error)) {
    if (adviceOf(error.code) === undefined) throw wrong(`there is no error of the code ${JSON.stringify(error.code)}`);
    call.end = { error };
  } else if (aborted === true) call.end = { aborted };
  else throw wrong("the line is none that a call has: tool, message, event, done, error or aborted");
  return call.end !== undefined;
}

/** @param {Record<string, unknown>} call */
const isCall = ({ name, args, id }) =>
  typeof name === "string" && typeof id === "string" && typeof args === "object" && args !== null;

/** @param {Tape} tape */
function formatTape({ provider, calls }) {
  /** @type {unknown[]} */
  const lines = [{ cassette: FORMAT, provider }];
  for (const { number, after, request, events, end = { aborted: true }, endMs } of calls) {
    const { messages, tools, options } = request;
    const same = tools.length === 0 ? undefined : calls.find((other) => keyOf(other.request.tools) === keyOf(tools));
    const isSame = same !== undefined && same.number < number;
    lines.push({
      call: number,
      ...(after !== undefined && { after }),
      ...(isSame && { tools: same.number }),
      ...(Object.keys(options).length > 0 && { options }),
    });
    if (!isSame) for (const tool of tools) lines.push({ tool });
    const known = after === undefined ? 0 : (calls[after - 1]?.request.messages.length ?? 0);
    for (const message of messages.slice(known)) lines.push({ message });
    for (const { ms, event } of events) lines.push({ ms, event });
    lines.push({ ms: endMs, ...end });
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

module.exports = { FORMAT, formatTape, parseTape };
