"use strict";

/**
 * Responses that a later request may go on from (`previous_response_id`) or read again, per key, in memory, for a while. What a request
 * with `store: false` came to is not in it.
 *
 * @import { Fields } from "./fields.cjs"
 *
 * @typedef {{ response: Fields, items: Fields[], expires: number }} Stored `items`: the whole thread, the answer's items last
 */

/** @param {{ ttlMs: number, maxResponses: number }} limits */
function createStore({ ttlMs, maxResponses }) {
  /** @type {Map<string, Map<string, Stored>>} by key, the oldest response first */
  const keys = new Map();
  let count = 0;

  /** @param {string} key @param {string} id */
  const get = (key, id) => {
    const stored = keys.get(key)?.get(id);
    if (stored === undefined || stored.expires > Date.now()) return stored;
    remove(key, id);
    return undefined;
  };

  /** @param {string} key @param {string} id */
  const remove = (key, id) => {
    const found = keys.get(key)?.delete(id) ?? false;
    if (found) count--;
    return found;
  };

  return {
    get,
    remove,

    /** @param {string} key @param {Fields} response @param {Fields[]} items */
    keep(key, response, items) {
      const own = keys.get(key) ?? new Map();
      keys.set(key, own);
      own.set(String(response.id), { response, items, expires: Date.now() + ttlMs });
      count++;
      // What is over goes first, then this key's oldest.
      for (const [id, { expires }] of own) {
        if (expires > Date.now() && count <= maxResponses) break;
        remove(key, id);
      }
    },

    /** An item of any of them, by its id: clients send references for what they were told. @param {string} key @param {string} id */
    item(key, id) {
      for (const [response] of [...(keys.get(key) ?? [])].reverse()) {
        const found = get(key, response)?.items.find((item) => item.id === id);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

module.exports = { createStore };
