"use strict";

/**
 * In: the fields of a request's JSON. Out: what they hold, or a refusal that names the field.
 *
 * What can't be had is never left out in silence: it is refused with its name as `param`; a lenient call goes on without a knob, whose
 * name is among `ignored` (header `x-dfp-ignored`). What carries messages, instructions or tools is no knob: without it, the answer would be one
 * to another question.
 */

const { LENIENT, bad } = require("./refusal.cjs");

/** @typedef {Record<string, unknown>} Fields */
/** @typedef {Readonly<Record<string, true | ((value: unknown) => boolean)>>} Known */

/**
 * @param {unknown} value
 * @returns {value is Fields}
 */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** How deep a request may be nested; the deepest schema that a provider takes has 64 levels. */
const MOST_LEVELS = 200;

/**
 * Refuses what nests so deep that reading it again would use up the stack.
 *
 * @param {unknown} value
 */
function checkDepth(value) {
  /** @type {[unknown, number][]} */
  const open = [[value, 0]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [node, level] = next;
    if (typeof node !== "object" || node === null) continue;
    if (level >= MOST_LEVELS) throw bad("invalid_json", undefined, `the body nests deeper than ${MOST_LEVELS} levels`);
    for (const inner of Object.values(node)) if (typeof inner === "object") open.push([inner, level + 1]);
  }
}

/** Fields that change how an answer is made, not what it is about. */
const KNOBS = new Set([
  ...[
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "top_a",
    "typical_p",
    "n",
    "best_of",
    "seed",
    "logprobs",
    "top_logprobs",
  ],
  ...["presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias"],
  ...["service_tier", "speed", "inference_geo", "verbosity", "text.verbosity", "max_tool_calls", "prediction"],
]);

/** Knobs that an API has and an answer does not show: they go over as they are. */
const OF_APIS = new Set([
  ...["top_p", "top_k", "min_p", "seed"],
  ...["presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias"],
]);

/** @param {string} name */
const isKnob = (name) => KNOBS.has(name) || name.startsWith("reasoning.");

/**
 * The fields of one request, read one by one.
 *
 * @param {Fields} body
 * @param {boolean | "all"} lenient `"all"`: what is no knob is left out, too
 * @param {boolean} [isApi] whether an API answers, and no CLI
 */
function createReader(body, lenient, isApi = false) {
  /** @type {string[]} */
  const ignored = [];
  /** What goes over to an API as it is. @type {Fields} */
  const extra = {};

  const reader = {
    ignored,
    extra,

    /**
     * A field of the request itself; `null` is as good as none.
     *
     * @param {string} name
     */
    get(name) {
      const value = Object.hasOwn(body, name) ? body[name] : undefined;
      return value === null ? undefined : value;
    },

    /** @param {string} name @param {string} message */
    unsupported(name, message) {
      const todo = isKnob(name) ? `${message}, or ${LENIENT}` : message;
      if (!lenient || (lenient !== "all" && !isKnob(name))) throw bad("unsupported_parameter", name, todo);
      ignored.push(name);
    },

    /**
     * Refuses what nobody knows, and what can't be had.
     *
     * @param {Known} known which fields there are; a function says which values
     *   change nothing of the answer
     */
    check(known) {
      for (const [name, value] of Object.entries(body)) {
        const rule = Object.hasOwn(known, name) ? known[name] : undefined;
        const says = typeof rule === "function" ? !rule(value) : rule === undefined;
        if (value === null || !says) continue;
        if (isApi && OF_APIS.has(name)) {
          extra[name] = value;
          continue;
        }
        if (rule === undefined) {
          // A number and a yes or no carry no content, whatever they are for.
          const may = lenient === "all" || isKnob(name) || typeof value === "number" || typeof value === "boolean";
          const todo = may ? `leave it out, or ${LENIENT}` : "leave it out";
          if (!lenient || !may) throw bad("unknown_parameter", name, `unknown parameter "${shown(name)}": ${todo}`);
          ignored.push(name);
        } else {
          reader.unsupported(name, `${name} can't be had here with this value: leave it out`);
        }
      }
    },

    /**
     * @param {string} name
     * @returns {string | undefined}
     */
    text(name) {
      const value = reader.get(name);
      if (value === undefined || typeof value === "string") return value;
      throw bad("invalid_type", name, `${name} must be a string`);
    },

    /** @param {string} name @returns {boolean | undefined} */
    flag(name) {
      const value = reader.get(name);
      if (value === undefined || typeof value === "boolean") return value;
      throw bad("invalid_type", name, `${name} must be true or false`);
    },

    /** @param {string} name @returns {number | undefined} a whole number from 1 */
    count(name) {
      const value = reader.get(name);
      if (value === undefined) return undefined;
      if (typeof value !== "number") throw bad("invalid_type", name, `${name} must be a number`);
      // How clients of local servers say that there is no limit.
      if (lenient && value === -1) {
        ignored.push(name);
        return undefined;
      }
      if (!Number.isSafeInteger(value) || value < 1)
        throw bad("invalid_value", name, `${name} must be a whole number from 1`);
      return value;
    },

    /** @param {string} name @returns {Fields | undefined} */
    object(name) {
      const value = reader.get(name);
      if (value === undefined || isObject(value)) return value;
      throw bad("invalid_type", name, `${name} must be an object`);
    },

    /** @param {string} name @returns {unknown[] | undefined} */
    list(name) {
      const value = reader.get(name);
      if (value === undefined || Array.isArray(value)) return value;
      throw bad("invalid_type", name, `${name} must be an array`);
    },

    /** The conversation, of which there is some. @param {string} name @returns {unknown[]} */
    thread(name) {
      const list = reader.list(name);
      if (list === undefined) throw bad("missing_required_parameter", name, `${name} is missing`);
      if (list.length === 0) throw bad("invalid_value", name, `${name} is empty: send at least one message`);
      return list;
    },

    /** The temperature; 1 is what there is anyway. @returns {number | undefined} */
    temperature() {
      const value = reader.get("temperature");
      if (value === undefined || value === 1) return undefined;
      if (typeof value === "number" && value >= 0 && value <= 2) return value;
      throw bad("invalid_value", "temperature", "temperature must be a number from 0 to 2");
    },

    /** Texts before which the answer ends. @param {string} name @returns {string[] | undefined} */
    stops(name) {
      const value = reader.get(name);
      if (value === undefined) return undefined;
      const list = typeof value === "string" ? [value] : value;
      if (!Array.isArray(list) || !list.every((text) => typeof text === "string" && text !== "")) {
        throw bad("invalid_type", name, `${name} must be a text or an array of texts, none of them empty`);
      }
      return list.length === 0 ? undefined : list;
    },
  };
  return reader;
}

/** @typedef {ReturnType<typeof createReader>} Reader */

/**
 * @param {unknown} value
 * @param {string} at
 * @returns {Fields}
 */
function objectAt(value, at) {
  if (isObject(value)) return value;
  throw bad("invalid_type", at, `${at} must be an object`);
}

/**
 * @param {unknown} value
 * @param {string} at
 */
function textAt(value, at) {
  if (typeof value === "string" && value !== "") return value;
  throw bad(
    value === undefined || value === null ? "missing_required_parameter" : "invalid_type",
    at,
    `${at} must be a text`,
  );
}

/**
 * The service tier of a call. Words that ask for the usual one are none.
 *
 * @param {Reader} reader
 */
function tierOf(reader) {
  const tier = reader.text("service_tier");
  return tier === undefined || SAME.tier(tier) ? undefined : tier;
}

/**
 * How a call thinks, by OpenAI's effort.
 *
 * @param {string | undefined} effort
 * @returns {"off" | { effort: string } | undefined}
 */
function reasoningAt(effort) {
  if (effort === undefined) return undefined;
  return effort === "none" ? "off" : { effort };
}

/**
 * The schema that an answer is to fit, of a `json_schema` format.
 *
 * @param {Fields} format
 * @param {string} at where `schema` stands
 */
function schemaAt({ schema, name, description }, at) {
  const it = objectAt(schema, at);
  if (it.type !== "object")
    throw bad("invalid_value", at, `${at} must describe an object: \`type: "object"\` at its top`);
  return {
    ...(typeof name === "string" ? { title: name } : {}),
    ...(typeof description === "string" ? { description } : {}),
    ...it,
  };
}

/**
 * A tool as a person knows it, in a message of ours: where it stands, of which type it is, and what it is called.
 *
 * @param {string} at
 * @param {Fields} tool
 */
function shownTool(at, { type, name }) {
  const words = [...new Set([type, name])].filter((word) => typeof word === "string" && word !== "");
  return words.length === 0 ? at : `${at} (${words.map((word) => shown(String(word))).join(", ")})`;
}

/** A caller's text in a message of ours. @param {string} text */
function shown(text) {
  return [...text.slice(0, 80)].map((letter) => (/[\x20-\x7e]/.test(letter) ? letter : "?")).join("");
}

/** Values that change nothing of an answer. */
const SAME = {
  one: (/** @type {unknown} */ value) => value === 1,
  zero: (/** @type {unknown} */ value) => value === 0,
  no: (/** @type {unknown} */ value) => value === false,
  none: (/** @type {unknown} */ value) => isObject(value) && Object.keys(value).length === 0,
  tier: (/** @type {unknown} */ value) => value === "auto" || value === "default" || value === "standard_only",
  medium: (/** @type {unknown} */ value) => value === "medium",
  off: (/** @type {unknown} */ value) => value === 0 || value === -1,
  never: () => false,
};

/**
 * Knobs of sampling, on every face: clients that write all of them down ask for nothing by most. Local servers have some that the vendors
 * have not.
 *
 * @type {Known}
 */
const SAMPLING = {
  ...{ n: SAME.one, best_of: SAME.one, top_p: SAME.one, typical_p: SAME.one, repetition_penalty: SAME.one },
  ...{ min_p: SAME.zero, top_a: SAME.zero, presence_penalty: SAME.zero, frequency_penalty: SAME.zero },
  ...{ top_k: SAME.off, logprobs: SAME.no, top_logprobs: SAME.zero, logit_bias: SAME.none, seed: SAME.never },
};

module.exports = {
  SAME,
  SAMPLING,
  checkDepth,
  createReader,
  isObject,
  objectAt,
  reasoningAt,
  schemaAt,
  shown,
  shownTool,
  textAt,
  tierOf,
};
