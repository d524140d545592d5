"use strict";

/**
 * The real clock. A test's fake timers replace the global ones, and Node's own later; what a script waits for has to pass all the same.
 */

const { builtin } = require("../builtin.cjs");

const { clearTimeout: clear, setTimeout: set } = builtin("node:timers");
const { now } = performance;

/** Milliseconds of a clock that never goes back. */
const elapsed = () => now.call(performance);

/**
 * Calls `callback` in `ms`.
 *
 * @param {number} ms
 * @param {() => void} callback
 * @returns {() => void} takes it back
 */
function after(ms, callback) {
  const timer = set(callback, Math.min(ms, 2 ** 31 - 1));
  return () => clear(timer);
}

/**
 * Resolves in `ms`, or as soon as `signal` aborts.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(ms, signal) {
  return new Promise((resolve) => {
    if (!(ms > 0) || signal.aborted) return resolve();
    const over = () => {
      cancel();
      signal.removeEventListener("abort", over);
      resolve();
    };
    const cancel = after(ms, over);
    signal.addEventListener("abort", over, { once: true });
  });
}

module.exports = { after, elapsed, pause };
