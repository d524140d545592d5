"use strict";

/**
 * In: the calls of a cassette, and requests. Out: the answer to each that is on it, and what has not been asked.
 *
 * Conversations may come in any order, and the calls of one only in theirs: a call is played once, behind the one that it goes on with.
 *
 * @import { ScriptedRequest, ScriptEvent } from "./types.cjs"
 * @import { Call } from "./tape.cjs"
 */

const { adviceOf } = require("./codes.cjs");
const { differences, keyOf, tell } = require("./compare.cjs");
const { absolute } = require("./recorder.cjs");
const { lastOf, missing } = require("./script.cjs");

/**
 * @param {readonly Call[]} calls
 * @param {(request: ScriptedRequest) => unknown} compared what of a request is compared
 */
function createPlayer(calls, compared) {
  const keys = calls.map(({ request }) => keyOf(compared(request)));
  /** @type {Set<number>} numbers of calls */
  const played = new Set();
  let asked = 0;

  const isNext = (/** @type {Call} */ { after }) => after === undefined || played.has(after);

  /**
   * @param {ScriptedRequest} request
   * @returns {Call | undefined}
   */
  function find(request) {
    const key = keyOf(compared(request));
    return calls.find((call, at) => keys[at] === key && !played.has(call.number) && isNext(call));
  }

  /**
   * @param {ScriptedRequest} request
   * @param {string} file
   * @returns {string}
   */
  function whyNot(request, file) {
    const wanted = `request ${asked}, ${lastOf(request)}, is not on the cassette ${file}`;
    if (calls.length === 0) return `${wanted}, which has no calls`;
    const key = keyOf(compared(request));
    const same = calls.filter((_, at) => keys[at] === key);
    const early = same.find((call) => !played.has(call.number));
    if (early !== undefined) {
      return `${wanted} at this place: it is call ${early.number}, which comes behind call ${early.after}`;
    }
    if (same.length > 0) {
      const numbers = same.map(({ number }) => number).join(" and ");
      return `${wanted} once more: ${same.length === 1 ? "call" : "calls"} ${numbers} had it, and ${same.length === 1 ? "was" : "were"} played`;
    }
    const now = compared(request);
    const found = calls.map((call) => ({ call, differs: differences(compared(call.request), now) }));
    // Of two that are as near, the one that has not been played.
    /** @param {(typeof found)[number]} one */
    const order = ({ call, differs }) => 2 * differs.length + (played.has(call.number) ? 1 : 0);
    found.sort((one, other) => order(one) - order(other));
    const [{ call, differs }] = /** @type {[(typeof found)[number]]} */ (found);
    return `${wanted}; the nearest is call ${call.number}: ${tell(differs)}`;
  }

  /**
   * @param {Call} call
   * @param {AbortSignal} signal
   * @returns {AsyncGenerator<ScriptEvent, void, undefined>}
   */
  async function* play({ events, end }, signal) {
    for (const { event } of events) yield absolute(event);
    if (end === undefined || "aborted" in end) {
      // As it was: nothing more came until somebody turned away.
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return;
    }
    if ("done" in end) yield { type: "over", ...end.done };
    else
      yield {
        type: "failed",
        message: "",
        ...adviceOf(/** @type {string} */ (end.error.code)),
        ...absolute(end.error),
      };
  }

  return {
    /**
     * @param {ScriptedRequest} request
     * @param {AbortSignal} signal
     * @returns {ReturnType<typeof play> | undefined} `undefined`: it is not there
     */
    take(request, signal) {
      asked += 1;
      const call = find(request);
      if (call === undefined) return undefined;
      played.add(call.number);
      return play(call, signal);
    },

    /** The error of a request that is not there. @param {ScriptedRequest} request @param {string} file */
    refuse: (request, file) => missing(whyNot(request, file)),

    /** Calls that nobody has asked for. */
    unplayed: () => calls.filter(({ number }) => !played.has(number)),
  };
}

module.exports = { createPlayer };
