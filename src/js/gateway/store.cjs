"use strict";

/**
 * Responses that a later request may go on from (`previous_response_id`), refer to (`item_reference`) or read again, per key, in memory, for a
 * while. What a request with `store: false` came to is not in it.
 *
 * It is bounded by the memory that it holds: the oldest response goes first, whose ever it is. An item that several responses of a chain
 * have is held, and counted, once.
 *
 * @import { Fields } from "./fields.cjs"
 *
 * @typedef {{ response: Fields, items: Fields[], expires: number }} Stored `items`: the whole thread, the answer's items last; none of
 *   them is a reference
 */

/** What an object or a text costs beside what is in it, bytes: about what V8 takes. */
const EACH = 32;

/**
 * About how much memory a value of JSON holds.
 *
 * @param {unknown} value
 * @returns {number} bytes
 */
function bytesOf(value) {
  let bytes = 0;
  const open = [value];
  while (open.length > 0) {
    const node = open.pop();
    bytes += EACH;
    if (typeof node === "string") bytes += 2 * node.length;
    else if (typeof node === "object" && node !== null) {
      for (const [name, inner] of Object.entries(node)) {
        if (!Array.isArray(node)) bytes += 2 * name.length;
        open.push(inner);
      }
    }
  }
  return bytes;
}

/** @param {{ ttlMs: number, maxResponses: number, maxBytes: number }} limits */
function createStore({ ttlMs, maxResponses, maxBytes }) {
  /** By key and id, the oldest first: which is also the first to be over. @type {Map<string, Stored & { key: string, own: number }>} */
  const responses = new Map();
  /** How many responses have an item. @type {Map<Fields, { bytes: number, count: number }>} */
  const held = new Map();
  /** The newest item of an id, by key and id. @type {Map<string, Fields>} */
  const known = new Map();
  let bytes = 0;

  const nameOf = (/** @type {string} */ key, /** @type {unknown} */ id) => `${key}\0${id}`;

  /** @param {string} name */
  const drop = (name) => {
    const stored = responses.get(name);
    if (stored === undefined) return false;
    responses.delete(name);
    bytes -= stored.own;
    for (const item of stored.items) {
      const its = /** @type {{ bytes: number, count: number }} */ (held.get(item));
      if (--its.count > 0) continue;
      held.delete(item);
      bytes -= its.bytes;
      const id = nameOf(stored.key, item.id);
      if (known.get(id) === item) known.delete(id);
    }
    return true;
  };

  const tidy = () => {
    for (const [name, { expires }] of responses) {
      if (expires > Date.now() && responses.size <= maxResponses && bytes <= maxBytes) break;
      drop(name);
    }
  };

  /** @param {string} key @param {string} id @returns {Stored | undefined} */
  const get = (key, id) => {
    tidy();
    return responses.get(nameOf(key, id));
  };

  return {
    get,
    remove: (/** @type {string} */ key, /** @type {string} */ id) => drop(nameOf(key, id)),

    /** @param {string} key @param {Fields} response @param {Fields[]} items */
    keep(key, response, items) {
      // Its output is among the items.
      const own = bytesOf({ ...response, output: null }) + 8 * items.length;
      responses.set(nameOf(key, response.id), { response, items, expires: Date.now() + ttlMs, key, own });
      bytes += own;
      for (const item of items) {
        const its = held.get(item);
        if (its !== undefined) its.count++;
        else {
          const size = bytesOf(item);
          held.set(item, { bytes: size, count: 1 });
          bytes += size;
        }
        if (typeof item.id === "string") known.set(nameOf(key, item.id), item);
      }
      tidy();
    },

    /** An item of any of them, by its id: clients send references for what they were told. @param {string} key @param {string} id */
    item(key, id) {
      tidy();
      return known.get(nameOf(key, id));
    },

    /** About how much memory it holds, bytes. */
    size: () => bytes,
  };
}

module.exports = { createStore };
