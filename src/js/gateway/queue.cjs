"use strict";

/**
 * Places for answers, of each provider its own. In: whose answer is to be made. Out: a place, at once or when one is free; a refusal where too
 * many wait already, or where the gateway ends before there is one. Nothing of a call has been started while it waits.
 */

const { onAbort } = require("../signals.cjs");
const { Refusal } = require("./refusal.cjs");

/** How many calls of one provider may wait. */
const MOST_WAITING = 100;
/** When who was refused may ask again, ms. */
const AGAIN = 2000;

/** @typedef {{ queuedMs: number, leave: () => void }} Place */

function createQueues() {
  /** @type {Map<string, { running: number, waiting: Set<{ go: () => void, refuse: (refusal: InstanceType<typeof Refusal>) => void }> }>} */
  const queues = new Map();

  return {
    /**
     * @param {string} name the provider's
     * @param {number} places how many answers of it may be made at a time
     * @param {AbortSignal} signal
     * @returns {Promise<Place>} throws a {@link Refusal}, or the signal's reason
     */
    async enter(name, places, signal) {
      const queue = queues.get(name) ?? { running: 0, waiting: new Set() };
      queues.set(name, queue);
      const began = performance.now();
      if (queue.running >= places) {
        if (queue.waiting.size >= MOST_WAITING) {
          const message = `${places} answers of ${name} are being made, and ${MOST_WAITING} calls wait for them: ask again later, or allow more at a time (--answers)`;
          throw new Refusal(503, "overloaded", message, { retryAfterMs: AGAIN });
        }
        await new Promise((resolve, reject) => {
          let unlisten = () => {};
          const end = () => {
            queue.waiting.delete(one);
            unlisten();
          };
          const left = () => {
            end();
            reject(signal.reason);
          };
          const one = {
            go() {
              end();
              queue.running++;
              resolve(undefined);
            },
            /** @param {InstanceType<typeof Refusal>} refusal */
            refuse(refusal) {
              end();
              reject(refusal);
            },
          };
          queue.waiting.add(one);
          if (signal.aborted) left();
          else unlisten = onAbort(signal, left);
        });
      } else queue.running++;
      let held = true;
      return {
        queuedMs: Math.round(performance.now() - began),
        leave() {
          if (!held) return;
          held = false;
          queue.running--;
          const [next] = queue.waiting;
          if (queue.running < places) next?.go();
        },
      };
    },

    /** Refuses all that wait. @param {() => InstanceType<typeof Refusal>} refusal */
    end(refusal) {
      for (const { waiting } of queues.values()) for (const one of [...waiting]) one.refuse(refusal());
    },
  };
}

module.exports = { MOST_WAITING, createQueues };
