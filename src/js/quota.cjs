"use strict";

/**
 * Waiting for a plan that is used up, where several providers are asked one after the other: none waits while another may answer.
 *
 * In: the failures of a fallback's members. Out: until when all of them are to be left alone, and the wait. What one provider waits for is
 * the native side's (`src/model/retry.rs`), whose rules are these.
 *
 * @import { ProviderError } from "../../index.js"
 *
 * @typedef {{ wait: boolean, maxWaitMs?: number }} QuotaChoice
 * @typedef {{ until: number, reason: string }} Wait
 */

const { onAbort } = require("./signals.cjs");

/** Six hours, as `DEFAULT_MAX_WAIT_MS`. */
const DEFAULT_MAX_WAIT = 6 * 60 * 60 * 1000;
const LEAST = 1000;
const MOST_LATE = 5000;
/** The longest stretch that is slept in one go: the clock of a machine that was suspended stands still. */
const STRETCH = 30_000;

/**
 * What a provider's options say, which the native side has checked.
 *
 * @param {unknown} options
 * @returns {QuotaChoice}
 */
function quotaOf(options) {
  const { quota } = /** @type {{ quota?: Partial<QuotaChoice> | false }} */ (options ?? {});
  const { wait = false, maxWaitMs } = quota || {};
  return maxWaitMs === undefined ? { wait } : { wait, maxWaitMs };
}

/**
 * Until when it makes sense to wait: the earliest moment at which the plan of a member that waits is there again.
 *
 * @param {readonly { error: ProviderError, maxWaitMs: number | undefined }[]} failures of all members; `undefined`: it does not wait
 * @param {{ now: number, waited: number }} clock
 * @returns {Wait | undefined} `undefined` where one has failed for another reason, or none may wait for so long
 */
function earliest(failures, { now, waited }) {
  if (failures.length === 0 || !failures.every(({ error }) => error.category === "quota")) return undefined;
  /** @type {Wait | undefined} */
  let found;
  for (const { error, maxWaitMs } of failures) {
    const resetsAt = error.resetsAt?.getTime() ?? (error.retryAfterMs === undefined ? NaN : now + error.retryAfterMs);
    const wait = Math.max(resetsAt - now, LEAST);
    if (maxWaitMs === undefined || Number.isNaN(wait) || waited + wait > maxWaitMs) continue;
    if (found === undefined || now + wait < found.until) found = { until: now + wait, reason: error.message };
  }
  if (found === undefined) return undefined;
  const late = Math.min((found.until - now) / 10, MOST_LATE) * Math.random();
  return { ...found, until: Math.round(found.until + late) };
}

/**
 * @param {number} until ms since the epoch
 * @param {readonly (AbortSignal | undefined)[]} signals whose abort ends it; what it means the caller knows
 * @returns {Promise<void>}
 */
function sleepUntil(until, signals) {
  return new Promise((resolve) => {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const unlisten = signals.map((signal) => onAbort(signal, end));
    if (signals.some((signal) => signal?.aborted)) end();
    else sleep();

    function sleep() {
      const left = until - Date.now();
      if (left <= 0) end();
      else timer = setTimeout(sleep, Math.min(left, STRETCH));
    }

    function end() {
      clearTimeout(timer);
      for (const stop of unlisten) stop();
      resolve();
    }
  });
}

module.exports = { DEFAULT_MAX_WAIT, earliest, quotaOf, sleepUntil };
