"use strict";

/**
 * The one door to what is the caller's own: a tracer, a meter, a span, an instrument. Each of their methods may throw, give a promise
 * that rejects or never settles, or answer anything at all. None of it reaches a call, an agent's run or a provider's creation: what is
 * thrown is dropped, nothing is waited for, and an answer counts only for what it is asked for.
 */

/**
 * Calls a method of something of the caller's.
 *
 * @param {unknown} target
 * @param {string} method
 * @param {...unknown} args
 * @returns {unknown} what it answers; `undefined` where there is no such method, or it throws
 */
function ask(target, method, ...args) {
  return quietly(() => {
    const it = /** @type {Record<string, (...args: unknown[]) => unknown> | null | undefined} */ (target);
    const answer = it?.[method]?.(...args);
    if (isPromiseLike(answer)) Promise.resolve(answer).catch(() => {});
    return answer;
  });
}

/**
 * @template T
 * @param {() => T} work may read what is the caller's own
 * @returns {T | undefined} `undefined`: it threw
 */
function quietly(work) {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/**
 * @param {unknown} value
 * @returns {value is PromiseLike<unknown>}
 */
function isPromiseLike(value) {
  return typeof value === "object" && value !== null && typeof (/** @type {any} */ (value).then) === "function";
}

module.exports = { ask, quietly };
