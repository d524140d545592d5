"use strict";

/**
 * An agent run's events, for whoever wants them.
 *
 * @import { AgentEvent } from "../../index.js"
 */

const { unlessOver } = require("./life.cjs");

/** Every event of the run, for as many readers as there are, each from the first on. */
function createEvents() {
  /** @type {AgentEvent[]} */
  const all = [];
  let over = false;
  /** @type {(() => void)[]} */
  let waiting = [];
  const wake = () => {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  };
  return {
    /** @param {AgentEvent} event */
    push(event) {
      all.push(event);
      wake();
    },
    end() {
      over = true;
      wake();
    },
    async *iterate() {
      for (let index = 0; ; index++) {
        while (index >= all.length) {
          if (over) return;
          await new Promise((resolve) => waiting.push(() => resolve(undefined)));
        }
        yield/** @type {AgentEvent} */ (all[index]);
      }
    },
  };
}

/**
 * The caller's `onEvent`: called with each event at once, in order. The first thing it throws, or rejects with, ends the run.
 *
 * @param {((event: AgentEvent) => unknown) | undefined} onEvent
 * @param {() => void} cancel
 */
function createListener(onEvent, cancel) {
  /** @type {{ reason: unknown, callback: string } | undefined} */
  let thrown;
  /** @type {Promise<void>[]} */
  const open = [];
  /**
   * @param {unknown} reason
   * @param {string} [callback] which of the caller's functions it was
   */
  const stop = (reason, callback = "onEvent") => {
    thrown ??= { reason, callback };
    cancel();
  };
  return {
    stop,
    /** @param {AgentEvent} event */
    tell(event) {
      if (onEvent === undefined || thrown) return;
      try {
        const answer = onEvent(event);
        if (answer instanceof Promise)
          open.push(
            answer.then(
              () => {},
              (reason) => stop(reason),
            ),
          );
      } catch (reason) {
        stop(reason);
      }
    },
    /**
     * What it has thrown. It is waited for where the run is completed, until `ended` aborts: what ends a run ends this, too.
     *
     * @param {boolean} completed
     * @param {{ signals: (AbortSignal | undefined)[], done: () => void }} ended
     */
    async settled(completed, { signals, done }) {
      // What has failed already is known by then.
      await new Promise((resolve) => setImmediate(resolve));
      const all = completed && !thrown ? Promise.all(open) : undefined;
      await unlessOver(all, signals).catch(() => {});
      done();
      return thrown;
    },
  };
}

module.exports = { createEvents, createListener };
