"use strict";

/**
 * What all adapters of one provider know of its end: whether it was closed, and what of the caller's own is under way.
 *
 * @import { CloseOptions } from "../../index.js"
 *
 * @typedef {ReturnType<typeof createLife>} Life
 */

const { fault } = require("./errors.cjs");
const { onAbort } = require("./signals.cjs");
const { describe } = require("./options.cjs");

function createLife() {
  const closing = new AbortController();
  /** @type {Set<Promise<unknown>>} */
  const calls = new Set();

  return {
    /** Aborts, with the error that calls get, when the provider is closed. */
    signal: closing.signal,

    /**
     * A call that {@link Life.drained} waits for.
     *
     * @template T
     * @param {Promise<T>} call
     * @returns {Promise<T>}
     */
    track(call) {
      /** @type {Promise<unknown>} */
      const over = call.then(
        () => calls.delete(over),
        () => calls.delete(over),
      );
      calls.add(over);
      return call;
    },

    /** Resolves when every call that was tracked has settled, or the provider was closed meanwhile. */
    async drained() {
      let left = () => {};
      /** @type {Promise<void>} */
      const closed = new Promise((resolve) => {
        left = onAbort(closing.signal, () => resolve());
        if (closing.signal.aborted) resolve();
      });
      await Promise.race([closed, Promise.all(calls)]);
      left();
    },

    close() {
      if (!closing.signal.aborted) closing.abort(fault("CLOSED", "the provider was closed. Create a new provider"));
    },
  };
}

/**
 * @param {unknown} options of `close()`
 * @returns {{ drain: boolean }}
 */
function readCloseOptions(options) {
  if (options === undefined) return { drain: false };
  if (typeof options !== "object" || options === null) {
    throw fault("INVALID_OPTION", `the options of close() must be an object, got ${describe(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (name !== "drain") throw fault("INVALID_OPTION", `close() has no option "${name}": there is drain`);
  }
  const { drain } = /** @type {CloseOptions} */ (options);
  if (drain !== undefined && typeof drain !== "boolean") {
    throw fault("INVALID_OPTION", `the option "drain" of close() must be a boolean, got ${describe(drain)}`);
  }
  return { drain: drain ?? false };
}

/**
 * What a function of the caller's answers, unless one of `signals` aborts or `lost` comes first: its answer is ignored then,
 * whatever it is. Throws the signal's reason; after `lost` it returns and leaves it to the call to say why.
 *
 * @param {unknown} answer
 * @param {readonly (AbortSignal | undefined)[]} signals
 * @param {() => Promise<void>} [lost] asked for only if the answer is not there yet
 * @returns {Promise<boolean>} whether it has answered
 */
async function unlessOver(answer, signals, lost) {
  if (!isThenable(answer)) return true;
  const answered = Promise.resolve(answer);
  // Whoever does not wait for it does not want to hear of its failure either.
  answered.catch(() => {});
  /** @type {(() => void)[]} */
  const ends = [];
  /** @type {Promise<never>} */
  const over = new Promise((_, reject) => {
    for (const signal of signals) {
      if (signal?.aborted) reject(signal.reason);
      else ends.push(onAbort(signal, () => reject(signal?.reason)));
    }
  });
  over.catch(() => {});
  try {
    // Most have answered by the next tick.
    const soon = await Promise.race([answered.then(() => true), over, nextTick()]);
    if (soon !== undefined) return soon;
    const race = [answered.then(() => true), over];
    return await Promise.race(lost ? [...race, lost().then(() => false)] : race);
  } finally {
    for (const end of ends) end();
  }
}

/** @returns {Promise<undefined>} */
const nextTick = () => new Promise((resolve) => setImmediate(resolve, undefined));

/** @param {unknown} value */
function isThenable(value) {
  return typeof value === "object" && value !== null && typeof (/** @type {any} */ (value).then) === "function";
}

module.exports = { createLife, readCloseOptions, unlessOver };
