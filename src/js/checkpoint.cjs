"use strict";

/**
 * The caller's store of checkpoints, on the side of `runAgent`.
 *
 * In: `checkpoint` and `runId` of a run. Out: what the store holds of the run, entries kept one after the other, a lease that is renewed
 * while the run is at work, and the one failure that ends it: a run never goes on unrecorded.
 *
 * @import { CheckpointStore, ProviderError } from "../../index.js"
 *
 * @typedef {{ token: number, entries: readonly string[], result?: string | undefined }} Loaded
 */

const { fault, isProviderError } = require("./errors.cjs");
const { describe } = require("./options.cjs");
const { onAbort } = require("./signals.cjs");

/** How long a lease lasts that is not renewed, ms. */
const LEASE = 30_000;
/** So often within a lease it is renewed. */
const RENEWALS = 3;
/** How long a store is waited for once the run is to end, ms: what is on its way arrives, and one that hangs holds nobody up. */
const GRACE = 1000;
const LONGEST = 2 ** 31 - 1;

/** How often a store that takes longer than the lease to answer is asked again: it can't say who has the run. */
const ASKED_AGAIN = 3;

/** What comes of a store that did not answer before the run had to end. */
const UNANSWERED = Symbol("unanswered");

/**
 * A moment, by both of the system's clocks: the one stands still while a laptop sleeps, the other may be set.
 */
const now = () => ({ at: performance.now(), date: Date.now() });

/** @param {ReturnType<typeof now>} moment @returns {number} ms since then, by the clock that says more */
const since = ({ at, date }) => Math.max(performance.now() - at, Date.now() - date);

/**
 * @param {unknown} store
 * @returns {CheckpointStore}
 */
function requireStore(store) {
  const it = /** @type {Partial<CheckpointStore>} */ (store);
  for (const name of /** @type {const} */ (["load", "append", "finish"])) {
    if (typeof it !== "object" || it === null || typeof it[name] !== "function") {
      const found = typeof it === "object" && it !== null ? `\`${name}\` is ${describe(it[name])}` : describe(it);
      const wanted = "a store with the functions `load`, `append` and `finish`, such as createFileCheckpoint({ dir })";
      throw fault("INVALID_OPTION", `checkpoint must be ${wanted}; ${found}`);
    }
  }
  const { leaseMs = LEASE } = it;
  if (!(Number.isInteger(leaseMs) && leaseMs >= 100 && leaseMs <= LONGEST)) {
    const range = `a whole number of ms from 100 to ${LONGEST}`;
    throw fault("INVALID_OPTION", `checkpoint.leaseMs must be ${range}, got ${describe(leaseMs)}`);
  }
  return /** @type {CheckpointStore} */ (store);
}

/**
 * What a store throws, as an error of this package: `RUN_LOCKED` is its own word.
 *
 * @param {unknown} thrown
 * @param {string} what
 * @returns {ProviderError}
 */
function storeError(thrown, what) {
  if (isProviderError(thrown)) return thrown;
  const { code, message } = /** @type {{ code?: unknown, message?: unknown }} */ (thrown ?? {});
  const reason = typeof message === "string" && message !== "" ? message : describe(thrown);
  if (code === "RUN_LOCKED") return /** @type {never} */ (fault("RUN_LOCKED", reason, thrown));
  return /** @type {never} */ (fault("CHECKPOINT_FAILED", `the checkpoint's store failed: ${what}: ${reason}`, thrown));
}

/**
 * @template T
 * @param {Promise<T>} answer of the store
 * @param {AbortSignal} stopped
 * @param {number} grace ms from then on
 * @returns {Promise<T | typeof UNANSWERED>}
 */
async function unlessStopped(answer, stopped, grace) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  let unlisten = () => {};
  /** @type {Promise<typeof UNANSWERED>} */
  const over = new Promise((resolve) => {
    const end = () => {
      timer = setTimeout(resolve, grace, UNANSWERED);
    };
    if (stopped.aborted) end();
    else unlisten = onAbort(stopped, end);
  });
  // Whoever does not wait for it does not want to hear of its failure either.
  answer.catch(() => {});
  try {
    return await Promise.race([answer, over]);
  } finally {
    unlisten();
    clearTimeout(timer);
  }
}

/**
 * Takes the run from its store.
 *
 * @param {CheckpointStore} store
 * @param {string} runId
 * @param {AbortSignal} stopped aborts when the run is to end: no store is waited for then
 * @returns the run's checkpoint; its `result` is there if the run is finished, and then nobody holds it. `undefined`: it was stopped
 *   before; a lease that still comes is given back
 */
async function openCheckpoint(store, runId, stopped) {
  const { leaseMs = LEASE } = store;
  if (stopped.aborted) return undefined;
  /** When the store was last asked of what it has answered: the run was this attempt's then. */
  let asked = now();
  /** @type {Loaded} */
  let loaded;
  try {
    const answer = Promise.resolve(store.load(runId, { leaseMs }));
    const found = await unlessStopped(answer, stopped, 0);
    if (found === UNANSWERED) {
      answer.then((late) => giveBack(store, runId, /** @type {Loaded} */ (late))).catch(() => {});
      return undefined;
    }
    loaded = /** @type {Loaded} */ (found);
  } catch (thrown) {
    throw storeError(thrown, "load");
  }
  const { token, entries, result } = loaded ?? {};
  const isText = (/** @type {unknown} */ value) => typeof value === "string";
  if (!Number.isSafeInteger(token) || !Array.isArray(entries) || !entries.every(isText)) {
    const wanted = "load must give { token: a whole number, entries: texts, result?: a text }";
    throw fault("CHECKPOINT_FAILED", `the checkpoint's store failed: ${wanted}`);
  }
  const lease = { token, leaseMs };

  /** @type {ProviderError | undefined} */
  let failure;
  /** @type {(error: ProviderError) => void} */
  let lost = () => {};
  let queue = Promise.resolve();
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  let renewing = false;
  let unanswered = false;

  /** @param {ProviderError} error */
  const fail = (error) => {
    if (failure !== undefined) return;
    failure = error;
    lost(error);
  };

  /**
   * One after the other: an entry never overtakes another.
   *
   * @param {() => Promise<void>} act
   * @returns {Promise<void>}
   */
  const inTurn = (act) => {
    const done = queue.then(act);
    queue = done.catch(() => {});
    return done;
  };

  /** @param {readonly string[]} added */
  const append = async (added) => {
    if (failure !== undefined) throw failure;
    const moment = now();
    await store.append(runId, added, lease);
    asked = moment;
  };

  /**
   * A lease that is overdue is no verdict: a thread that was busy, a clock that was set or a laptop's sleep let it run out as well.
   * Only the store knows whether another attempt has the run by now, and its token is all that counts. While the store can't be
   * asked, what was begun goes on, and nothing begins: each beginning is an entry.
   */
  const renew = () => {
    if (renewing) return;
    renewing = true;
    inTurn(() => append([]))
      .catch((thrown) => {
        const error = storeError(thrown, "append");
        if (error.code === "RUN_LOCKED") fail(error);
      })
      .finally(() => {
        renewing = false;
      });
  };

  return {
    entries,
    result,
    /** What made the run stop, if anything did. */
    failure: () => failure,
    /** Whether the run was stopped while it waited for the store: that, and not the store, is then why it ends. */
    unanswered: () => unanswered,

    /**
     * Renews the lease from now on.
     *
     * @param {(error: ProviderError) => void} onLost called once: the run must end
     */
    hold(onLost) {
      lost = onLost;
      timer = setInterval(renew, Math.floor(leaseMs / RENEWALS));
      timer.unref();
    },

    /**
     * Keeps an entry; what comes back goes to the native side.
     *
     * @param {string} entry
     * @returns {Promise<string>} JSON: `null`, or why not
     */
    async keep(entry) {
      try {
        const kept = await unlessStopped(
          inTurn(() => append([entry])),
          stopped,
          GRACE,
        );
        if (kept !== UNANSWERED) return "null";
        // No failure: the run ends anyway, by what has stopped it.
        unanswered = true;
        return JSON.stringify({
          locked: false,
          message: "the checkpoint's store did not answer before the run was stopped",
        });
      } catch (thrown) {
        const error = storeError(thrown, "append");
        fail(error);
        return JSON.stringify({ locked: error.code === "RUN_LOCKED", message: error.message });
      }
    },

    /**
     * Whether a tool may begin: at once, unless this process stood still for longer than the lease since the store's last word, maybe
     * within the append of the tool's own beginning. Another attempt may have the run then, and only the store knows.
     *
     * @returns {Promise<boolean> | true}
     */
    mayBegin() {
      if (since(asked) < leaseMs) return true;
      const ask = async () => {
        for (let times = 0; since(asked) >= leaseMs; times += 1) {
          if (times === ASKED_AGAIN) {
            const why = `its answers take longer than the lease of ${leaseMs} ms: raise \`leaseMs\``;
            throw fault("CHECKPOINT_FAILED", `the checkpoint's store failed: append: ${why}`);
          }
          await inTurn(() => append([]));
        }
        return true;
      };
      return unlessStopped(ask(), stopped, GRACE).then(
        (answer) => answer === true,
        (thrown) => {
          fail(storeError(thrown, "append"));
          return false;
        },
      );
    },

    /**
     * The run is finished, or given back.
     *
     * @param {string | undefined} text the result of a run that is finished
     * @returns {Promise<boolean>} whether that is durable: `false` if it was stopped before the store answered
     */
    async close(text) {
      clearInterval(timer);
      const finish = async () => {
        if (failure !== undefined && text !== undefined) throw failure;
        await store.finish(runId, text, lease);
      };
      try {
        // Whoever gives the run back has been stopped already, by whatever it was.
        const end = text === undefined ? AbortSignal.abort() : stopped;
        return (await unlessStopped(inTurn(finish), end, unanswered ? 0 : GRACE)) !== UNANSWERED;
      } catch (thrown) {
        // What can't be given back runs out.
        if (text !== undefined) throw storeError(thrown, "finish");
        return false;
      }
    },
  };
}

/**
 * A lease that came when nobody waited for it any more.
 *
 * @param {CheckpointStore} store
 * @param {string} runId
 * @param {Loaded | undefined} loaded
 */
async function giveBack(store, runId, loaded) {
  const { leaseMs = LEASE } = store;
  // Nobody holds a run that is finished.
  if (loaded === undefined || loaded.result !== undefined) return;
  await store.finish(runId, undefined, { token: loaded.token, leaseMs });
}

/** @typedef {NonNullable<Awaited<ReturnType<typeof openCheckpoint>>>} Checkpoint */

module.exports = { openCheckpoint, requireStore };
