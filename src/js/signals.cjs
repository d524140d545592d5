"use strict";

/**
 * In: the caller's `AbortSignal`, and what is to happen when it aborts. Out: that, with one listener for each signal however many
 * calls use it: Node warns of a leak from the eleventh on.
 */

/**
 * @typedef {{ callbacks: Set<{ callback: () => void }>, fire: () => void }} Shared
 * @type {WeakMap<AbortSignal, Shared>}
 */
const listened = new WeakMap();

/**
 * Calls `callback` once, when `signal` aborts. One that has aborted already calls nobody. Throws what `addEventListener` throws: call
 * it before anything begins that an abort is to end.
 *
 * @param {AbortSignal | undefined} signal
 * @param {() => void} callback never throws
 * @returns {() => void} ends it
 */
function onAbort(signal, callback) {
  if (signal === undefined) return () => {};
  const { callbacks, fire } = listened.get(signal) ?? listen(signal);
  const entry = { callback };
  callbacks.add(entry);
  return () => {
    if (!callbacks.delete(entry) || callbacks.size > 0) return;
    listened.delete(signal);
    forget(signal, fire);
  };
}

/**
 * @param {AbortSignal} signal
 * @returns {Shared}
 */
function listen(signal) {
  /** @type {Shared} */
  const shared = {
    callbacks: new Set(),
    fire() {
      listened.delete(signal);
      // Polyfills may not know `once`.
      forget(signal, shared.fire);
      const entries = [...shared.callbacks];
      shared.callbacks.clear();
      for (const { callback } of entries) callback();
    },
  };
  signal.addEventListener("abort", shared.fire, { once: true });
  listened.set(signal, shared);
  return shared;
}

/**
 * @param {AbortSignal} signal
 * @param {() => void} fire calls nobody any more
 */
function forget(signal, fire) {
  try {
    signal.removeEventListener("abort", fire);
  } catch {
    // The caller's own object. Whoever ends a call must get on with that.
  }
}

/**
 * Waits for `answer`, and no longer once `signal` aborts: then it rejects with the reason of that, and whoever answers is not heard.
 *
 * @template T
 * @param {T} answer
 * @param {AbortSignal | undefined} signal
 */
async function unlessAborted(answer, signal) {
  if (signal === undefined) return await answer;
  let stop = () => {};
  const aborted = new Promise((_, reject) => {
    stop = () => reject(signal.reason);
  });
  const unlisten = onAbort(signal, stop);
  try {
    return await /** @type {Promise<T>} */ (Promise.race([answer, aborted]));
  } finally {
    unlisten();
  }
}

module.exports = { onAbort, unlessAborted };
