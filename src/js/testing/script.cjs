"use strict";

/**
 * In: a script, that is a list of replies or a function of the request. Out: what answers requests by it, and the requests that came.
 *
 * @import { Answer, ScriptedRequest, ScriptEvent } from "./types.cjs"
 */

const { estimateUsage } = require("../answers.cjs");
const { clip, fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { adviceOf } = require("./codes.cjs");
const { eventsOf, readReply } = require("./reply.cjs");

/**
 * @param {unknown} script
 * @param {{ model: string }} options
 * @returns {{ answer: Answer, requests: ScriptedRequest[] }}
 */
function createScript(script, { model }) {
  if (typeof script !== "function" && !Array.isArray(script)) {
    const allowed = "an array of replies, or a function of the request that returns one";
    throw fault("INVALID_OPTION", `the script must be ${allowed}, got ${describe(script)}`);
  }
  // A copy: what the caller does with the list later changes nothing.
  const list = Array.isArray(script) ? [...script] : undefined;
  list?.forEach((reply, index) => {
    if (typeof reply !== "function") checked(() => readReply(reply, `reply ${index + 1} of the script`));
  });
  /** @type {ScriptedRequest[]} */
  const requests = [];
  let calls = 0;

  /** @type {Answer} */
  async function* answer(request, signal) {
    const number = requests.push(request);
    const at = `the reply to request ${number}`;
    /** @type {Set<string>} */
    const taken = new Set(request.messages.flatMap((message) => (message.tool_calls ?? []).map(({ id }) => id)));
    const id = () => {
      let next = `call_${++calls}`;
      while (taken.has(next)) next = `call_${++calls}`;
      return next;
    };
    const usage = (/** @type {string} */ text) => estimateUsage(request.messages, text);
    let from = /** @type {unknown} */ (script);
    if (list !== undefined) {
      if (number > list.length) {
        yield missing(
          `the script has run out: it has ${count(list.length)}, and this is request ${number}, ${lastOf(request)}`,
        );
        return;
      }
      from = list[number - 1];
    }
    let reply;
    try {
      reply = readReply(typeof from === "function" ? await from(request, number - 1) : from, at);
    } catch (error) {
      yield thrown(error, number);
      return;
    }
    yield* eventsOf(reply, { at, signal, model, id, usage });
  }

  return { answer, requests };
}

/** @param {() => unknown} read */
function checked(read) {
  try {
    read();
  } catch (error) {
    throw fault("INVALID_OPTION", /** @type {Error} */ (error).message);
  }
}

/** @param {number} replies */
const count = (replies) => (replies === 1 ? "1 reply" : `${replies} replies`);

/**
 * The error of a request for which there is no answer.
 *
 * @param {string} message
 * @returns {ScriptEvent}
 */
function missing(message) {
  return { type: "failed", ...adviceOf("INVALID_REQUEST"), message: clip(message), unanswered: true };
}

/**
 * @param {unknown} error of the script's function
 * @param {number} number of the request
 * @returns {ScriptEvent}
 */
function thrown(error, number) {
  const reason = error instanceof Error ? error.message : String(error);
  const message = clip(`the script failed on request ${number}: ${reason}`);
  return { type: "failed", ...adviceOf("CALLBACK_FAILED"), message, cause: error };
}

/**
 * The last message of a request, for errors.
 *
 * @param {ScriptedRequest} request
 */
function lastOf({ messages }) {
  const last = messages.at(-1);
  if (last === undefined) return "which has no message";
  const text = typeof last.content === "string" ? last.content : JSON.stringify(last.content);
  return `whose last message is ${last.type}: ${JSON.stringify(clip(text, 120))}`;
}

module.exports = { createScript, lastOf, missing };
