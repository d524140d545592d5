"use strict";

/**
 * In: a message of the caller's, whatever made it. Out: a {@link Reading}, which is all of it that is ever looked at, and copies of
 * readings that say later whether a message is still as it was.
 *
 * Messages are recognised by shape, never by `instanceof`: in one process there may be several copies of LangChain, an ESM and a
 * CommonJS build of each, serialised messages and plain objects.
 *
 * What is encoded is a reading or its copy, and nothing else is read of a message: so one whose reading is the same as a copy would be
 * encoded as the copy was.
 *
 * @typedef {object} Reading
 * @property {string} type who speaks
 * @property {unknown} content
 * @property {readonly unknown[] | undefined} calls of the model
 * @property {readonly unknown[] | undefined} invalid calls of the model that could not be read
 * @property {readonly unknown[] | undefined} details of the model's reasoning
 * @property {string | undefined} provider that reasoned
 * @property {string | undefined} login of the provider
 * @property {string | undefined} model that reasoned
 * @property {string | undefined} id of the call that is answered
 * @property {boolean} failed whether the call has failed
 *
 * @typedef {{ content?: unknown, tool_calls?: unknown, invalid_tool_calls?: unknown, tool_call_id?: unknown, status?: unknown, is_error?: unknown,
 *   additional_kwargs?: { tool_calls?: unknown, [name: string]: unknown } | null,
 *   response_metadata?: Record<string, unknown> | null }} Fields
 */

const { fault } = require("./errors.cjs");
const { describe } = require("./options.cjs");
const { readReasoning } = require("./reasoning.cjs");

/** Names other dialects have for LangChain's types. A name that is not here is kept as it is. */
const TYPES = new Map([
  ["user", "human"],
  ["assistant", "ai"],
  ["model", "ai"],
  ["developer", "system"],
  ["chat", "generic"],
]);

/** Values in one message, and how deep they may lie: what has more is not copied. The second is far below what recursion allows. */
const MOST_VALUES = 20_000;
const DEEPEST = 100;

/** What a value counts beside its text: about the bytes that it takes. */
const VALUE_SIZE = 16;

/**
 * @param {unknown} message
 * @param {number} index
 * @returns {Reading}
 */
function readMessage(message, index) {
  if (typeof message === "string") return readFields("human", { content: message }, index);
  if (Array.isArray(message)) {
    if (message.length === 2 && typeof message[0] === "string") {
      return readFields(canonical(message[0]), { content: message[1] }, index);
    }
    throw fault("INVALID_MESSAGES", `${place(index)} is an array, but not a pair [role, content]`);
  }
  if (typeof message !== "object" || message === null) {
    throw fault("INVALID_MESSAGES", `${place(index)} must be a message, got ${describe(message)}`);
  }
  const it = /** @type {Fields & Record<string, unknown>} */ (message);
  // A message that LangChain serialised: {lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs}.
  if (it.lc === 1 && Array.isArray(it.id) && isObject(it.kwargs)) {
    const name = String(it.id.at(-1)).replace(/Message(Chunk)?$/, "");
    return readFields(canonical(name.toLowerCase()), it.kwargs, index);
  }
  const type = speaker(it);
  if (typeof type !== "string" || type === "") {
    throw fault("INVALID_MESSAGES", `${place(index)} has neither a type nor a role that is a string`);
  }
  // What LangChain's toDict() and mapChatMessagesToStoredMessages() write: {type: "human", data: {…}}.
  const content = it.content;
  if (content === undefined && isObject(it.data)) return readFields(canonical(type), it.data, index);
  return readFields(canonical(type), it, index, content);
}

/** @param {Record<string, unknown>} message */
function speaker(message) {
  if (typeof message._getType === "function") return message._getType();
  if (typeof message.getType === "function") return message.getType();
  // OpenAI's Responses API says {type: "message", role: "user"}.
  if (typeof message.role === "string" && (message.type === undefined || message.type === "message"))
    return message.role;
  return message.type;
}

/** @param {string} type */
function canonical(type) {
  return TYPES.get(type) ?? type;
}

/** @param {number} index */
function place(index) {
  return `messages[${index}]`;
}

/**
 * @param {string} type
 * @param {Fields} fields
 * @param {number} index
 * @param {unknown} [content]
 * @returns {Reading}
 */
function readFields(type, fields, index, content = fields.content) {
  /** @type {Reading} */
  const reading = {
    type,
    content: content ?? "",
    calls: undefined,
    invalid: undefined,
    details: undefined,
    provider: undefined,
    login: undefined,
    model: undefined,
    id: undefined,
    failed: false,
  };
  if (type === "ai") {
    const calls = fields.tool_calls ?? fields.additional_kwargs?.tool_calls ?? [];
    if (!Array.isArray(calls)) {
      throw fault("INVALID_MESSAGES", `${place(index)}.tool_calls must be an array, got ${describe(calls)}`);
    }
    reading.calls = calls;
    const { invalid_tool_calls: invalid } = fields;
    if (Array.isArray(invalid) && invalid.length > 0) reading.invalid = invalid;
    readReasoning(fields, reading);
  } else if (type === "tool") {
    const id = fields.tool_call_id;
    if (id !== undefined && id !== null && typeof id !== "string") {
      throw fault("INVALID_MESSAGES", `${place(index)}.tool_call_id must be a string, got ${describe(id)}`);
    }
    reading.id = id ?? "";
    reading.failed = fields.status === "error" || fields.is_error === true;
  }
  return reading;
}

/**
 * A copy of a reading, in which nothing is the caller's own but its strings.
 *
 * @param {Reading} reading
 * @returns {{ reading: Reading, size: number } | undefined} `undefined` for what is more than plain values, of which JSON may be anything
 *   the next time. `size` is about the bytes that keeping it takes.
 */
function copyOf(reading) {
  const count = { values: 0, size: 0 };
  const content = copy(reading.content, count, 0);
  if (content === NONE) return undefined;
  const calls = reading.calls && copy(reading.calls, count, 0);
  if (calls === NONE) return undefined;
  const invalid = reading.invalid && copy(reading.invalid, count, 0);
  if (invalid === NONE) return undefined;
  const details = reading.details && copy(reading.details, count, 0);
  if (details === NONE) return undefined;
  const { type, provider, login, model, id, failed } = reading;
  return { reading: { type, content, calls, invalid, details, provider, login, model, id, failed }, size: count.size };
}

/** There is no copy. */
const NONE = Symbol("none");

/**
 * @param {unknown} value
 * @param {{ values: number, size: number }} count
 * @param {number} depth
 * @returns {any} or {@link NONE}
 */
function copy(value, count, depth) {
  count.values += 1;
  count.size += VALUE_SIZE;
  if (typeof value === "string") {
    count.size += value.length;
    return value;
  }
  if (typeof value !== "object" || value === null) return isSimple(value) ? value : NONE;
  if (depth === DEEPEST) return NONE;
  if (Array.isArray(value)) {
    const { length } = value;
    if (count.values + length > MOST_VALUES || !isPlainArray(value)) return NONE;
    const items = [];
    for (let at = 0; at < length; at += 1) {
      const item = copy(value[at], count, depth + 1);
      if (item === NONE) return NONE;
      items.push(item);
    }
    return items;
  }
  if (!isPlainObject(value)) return NONE;
  const keys = Object.keys(value);
  if (count.values + keys.length > MOST_VALUES) return NONE;
  /** @type {Record<string, unknown>} */
  const kept = {};
  for (const key of keys) {
    // Set, it would be no key.
    if (key === "__proto__") return NONE;
    count.size += key.length;
    const item = copy(/** @type {any} */ (value)[key], count, depth + 1);
    if (item === NONE) return NONE;
    kept[key] = item;
  }
  return kept;
}

/**
 * Whether a reading is the same as a copy of one.
 *
 * @param {Reading} now
 * @param {Reading} then a copy
 */
function isSame(now, then) {
  return (
    now.type === then.type &&
    now.id === then.id &&
    now.failed === then.failed &&
    now.provider === then.provider &&
    now.login === then.login &&
    now.model === then.model &&
    isSameValue(now.content, then.content) &&
    isSameValue(now.calls, then.calls) &&
    isSameValue(now.invalid, then.invalid) &&
    isSameValue(now.details, then.details)
  );
}

/**
 * @param {any} now
 * @param {any} then part of a copy
 * @returns {boolean}
 */
function isSameValue(now, then) {
  // A copy's objects are nobody else's.
  if (typeof then !== "object" || then === null || typeof now !== "object" || now === null) return now === then;
  if (Array.isArray(then)) {
    const { length } = then;
    if (!Array.isArray(now) || now.length !== length || !isPlainArray(now)) return false;
    for (let at = 0; at < length; at += 1) if (!isSameValue(now[at], then[at])) return false;
    return true;
  }
  if (Array.isArray(now) || !isPlainObject(now)) return false;
  const keys = Object.keys(now);
  const known = Object.keys(then);
  if (keys.length !== known.length) return false;
  for (let at = 0; at < keys.length; at += 1) {
    const key = /** @type {string} */ (keys[at]);
    if (key !== known[at] || !isSameValue(now[key], then[key])) return false;
  }
  return true;
}

/**
 * Whether JSON of it is no more than its value.
 *
 * @param {unknown} value no object
 */
function isSimple(value) {
  return typeof value === "number" || typeof value === "boolean" || value === null || value === undefined;
}

/**
 * Whether JSON of it is its keys and values: it has no `toJSON`, from whomever, is nothing that JSON has a form of its own for (a date, a
 * `new String`), and no bytes.
 *
 * @param {object} value
 */
function isPlainObject(value) {
  return (
    Object.getPrototypeOf(value) === Object.prototype &&
    /** @type {any} */ (value).toJSON === undefined &&
    // By internal slots, and by what an object calls itself.
    tagOf.call(value) === "[object Object]" &&
    !ArrayBuffer.isView(value)
  );
}

/** @param {any} value */
function isPlainArray(value) {
  return value.toJSON === undefined && value[Symbol.toStringTag] === undefined;
}

const tagOf = Object.prototype.toString;

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

module.exports = { copyOf, isObject, isSame, place, readMessage };
