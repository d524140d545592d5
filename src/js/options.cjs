"use strict";

/**
 * In: options as the caller wrote them. Out: JSON for the native side, which validates them, and the checked options of
 * one call.
 *
 * JSON has no word for `undefined`, functions or `NaN`; where such a value stands, `{"$notJson": "a function"}` goes over
 * instead, so that the validator can say what it got rather than not see it.
 *
 * @import { InvokeOptions } from "../../index.js"
 */

const { builtin } = require("./builtin.cjs");
const { pickChoices } = require("./choices.cjs");
const { fault } = require("./errors.cjs");

const { resolve } = builtin("node:path");

/** The longest delay a timer takes: 2^31 - 1 ms, 24.8 days. */
const MAX_TIMEOUT = 2 ** 31 - 1;

/**
 * A value described for error messages: `the string "10s"`, `a function`, `NaN`.
 *
 * @param {unknown} value
 * @returns {string}
 */
function describe(value) {
  switch (typeof value) {
    case "string":
      return `the string ${JSON.stringify(value.length > 40 ? `${value.slice(0, 39)}…` : value)}`;
    case "bigint":
      return `the BigInt ${value}`;
    case "symbol":
      return "a symbol";
    case "function":
      return "a function";
    case "object": {
      if (value === null) return "null";
      if (Array.isArray(value)) return "an array";
      const name = Object.getPrototypeOf(value)?.constructor?.name;
      if (typeof name !== "string" || name === "" || name === "Object") return "an object";
      return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
    }
    default:
      return String(value);
  }
}

/**
 * Data rather than an instance of some class. By the constructor's name: objects of another realm (a test runner's vm) are
 * data too, and so is `process.env`, whose prototype is its own.
 *
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isPlainObject(value) {
  return describe(value) === "an object";
}

/**
 * @param {unknown} value
 * @param {readonly unknown[]} parents the objects this value stands in
 * @returns {unknown} something that JSON holds without loss
 */
function encode(value, parents) {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (parents.includes(value)) return { $notJson: "an object that contains itself" };
  const within = [...parents, value];
  if (Array.isArray(value)) return Array.from(value, (item) => encode(item, within));
  if (isPlainObject(value)) {
    // fromEntries defines keys, so that one named __proto__ is data like any other.
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, encode(item, within)]));
  }
  return { $notJson: describe(value) };
}

/**
 * The environment: `undefined` takes a variable away, which JSON says as `null`; a `null` the caller wrote is none of it.
 *
 * @param {unknown} env
 */
function encodeEnv(env) {
  if (!isPlainObject(env)) return encode(env, []);
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => {
      if (value === undefined) return [name, null];
      return [name, value === null ? { $notJson: "null" } : encode(value, [env])];
    }),
  );
}

/** Options that are objects of options: there, too, a key that is `undefined` was not set. */
const GROUPS = new Set(["retry", "breaker", "config", "quota", "budget", "login", "reasoning"]);

/**
 * @param {string} key
 * @param {unknown} value
 * @param {object} options
 */
function encodeOption(key, value, options) {
  if (key === "env") return encodeEnv(value);
  if (!GROUPS.has(key) || !isPlainObject(value)) return encode(value, [options]);
  return encode(withoutUndefined(value), [options]);
}

/** @param {object} fields */
function withoutUndefined(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/**
 * @param {unknown} options what a `create…Provider` function or `execFileAsync` was called with
 * @returns {string} JSON of an object; top-level keys that are `undefined` are left out
 */
function encodeOptions(options) {
  if (options === undefined) return "{}";
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw fault("INVALID_OPTION", `options must be an object, got ${describe(options)}`);
  }
  const entries = Object.entries(withoutUndefined(options));
  return JSON.stringify(Object.fromEntries(entries.map(([key, value]) => [key, encodeOption(key, value, options)])));
}

/**
 * What a call, or the calls of an agent, choose, for the native side.
 *
 * @param {Record<string, unknown>} choices
 * @returns {Record<string, unknown>} something that JSON holds without loss
 */
function encodeChoices(choices) {
  const encoded = Object.entries(choices).map(([key, value]) => [key, encodeOption(key, value, choices)]);
  return Object.fromEntries(encoded);
}

/**
 * What is known beside an error text. `null` is what Node says for an exit code or a signal that there is not.
 *
 * @param {unknown} context
 * @returns {string} JSON of an object
 */
function encodeContext(context) {
  if (context === undefined || context === null) return "{}";
  if (typeof context !== "object" || Array.isArray(context)) {
    throw fault("INVALID_OPTION", `context must be an object, got ${describe(context)}`);
  }
  return encodeOptions(Object.fromEntries(Object.entries(context).filter(([, value]) => value !== null)));
}

/**
 * @param {unknown} config what `createCliProvider` was called with
 * @returns {string} its JSON; a rule's pattern may be a RegExp, of which the source goes over
 */
function encodeConfig(config) {
  if (!isPlainObject(config)) return JSON.stringify(encode(config ?? null, []));
  const entries = Object.entries(config).filter(([, value]) => value !== undefined);
  /** @param {[string, unknown]} entry */
  const field = ([name, value]) => {
    if (name === "env") return [name, encodeEnv(value)];
    if (name === "errorRules" && Array.isArray(value))
      return [name, value.map((rule) => encode(unwrapRule(rule), [config]))];
    return [name, encode(value, [config])];
  };
  return JSON.stringify(Object.fromEntries(entries.map(field)));
}

/** @param {unknown} rule */
function unwrapRule(rule) {
  if (!isPlainObject(rule)) return rule;
  const entries = Object.entries(rule).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name === "pattern" && value instanceof RegExp ? value.source : value]),
  );
}

const FORMATS = /** @type {const} */ (["text", "json", "stream-json"]);

/**
 * The options of `parseCliOutput`.
 *
 * @param {unknown} options
 */
function readParseOptions(options) {
  if (typeof options !== "object" || options === null) {
    throw fault("INVALID_OPTION", `options must be an object { format, provider? }, got ${describe(options)}`);
  }
  const { format, provider } = /** @type {{ format?: unknown, provider?: unknown }} */ (options);
  const known = FORMATS.find((name) => name === format);
  if (known === undefined) {
    const names = FORMATS.map((name) => `"${name}"`).join(", ");
    throw fault("INVALID_OPTION", `format must be one of ${names}, got ${describe(format)}`);
  }
  return { format: known, provider: provider === undefined ? undefined : requireString("provider", provider) };
}

/**
 * @param {unknown} value
 * @returns {value is AbortSignal} by shape: a polyfill's signal, or another realm's, is as good
 */
function isAbortSignal(value) {
  if (typeof value !== "object" || value === null) return false;
  const signal = /** @type {Partial<AbortSignal>} */ (value);
  return (
    typeof signal.aborted === "boolean" &&
    typeof signal.addEventListener === "function" &&
    typeof signal.removeEventListener === "function"
  );
}

/**
 * Where a run is recorded: a path, or an object with one. Made absolute here: the working folder may change meanwhile.
 *
 * @param {unknown} record
 * @returns {{ path: string, prompts: boolean }}
 */
function readRecord(record) {
  const settings = typeof record === "string" ? { path: record } : record;
  if (!isPlainObject(settings)) {
    throw fault("INVALID_OPTION", `record must be a path or an object { path, prompts? }, got ${describe(record)}`);
  }
  const { path, prompts = false, ...others } = settings;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw fault("INVALID_OPTION", `record has an unknown key "${unknown}": there are "path" and "prompts"`);
  }
  if (typeof path !== "string" || path === "" || path.includes("\0")) {
    const name = typeof record === "string" ? "record" : "record.path";
    throw fault("INVALID_OPTION", `${name} must be the path of a file, got ${describe(path)}`);
  }
  if (typeof prompts !== "boolean") {
    throw fault("INVALID_OPTION", `record.prompts must be true or false, got ${describe(prompts)}`);
  }
  return { path: resolve(path), prompts };
}

/**
 * Whether the call waits for a plan that is used up.
 *
 * @param {unknown} quota
 * @returns {import("./quota.cjs").QuotaChoice}
 */
function readQuota(quota) {
  if (quota === false) return { wait: false };
  if (!isPlainObject(quota)) {
    throw fault("INVALID_OPTION", `quota must be false or an object { wait, maxWaitMs? }, got ${describe(quota)}`);
  }
  const { wait = false, maxWaitMs, ...others } = quota;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw fault("INVALID_OPTION", `quota has an unknown key "${unknown}": there are "wait" and "maxWaitMs"`);
  }
  if (typeof wait !== "boolean") {
    throw fault("INVALID_OPTION", `quota.wait must be true or false, got ${describe(wait)}`);
  }
  if (maxWaitMs === undefined) return { wait };
  if (typeof maxWaitMs !== "number" || !(maxWaitMs >= 0 && maxWaitMs <= MAX_TIMEOUT)) {
    const range = `a number of milliseconds from 0 to ${MAX_TIMEOUT}`;
    throw fault("INVALID_OPTION", `quota.maxWaitMs must be ${range}, got ${describe(maxWaitMs)}`);
  }
  return { wait, maxWaitMs: Math.ceil(maxWaitMs) };
}

/**
 * The options of one call. Keys that are not ours are left alone: LangChain passes its whole run configuration here.
 *
 * @param {unknown} options
 * @returns {{ signal?: AbortSignal, timeout?: number, record?: { path: string, prompts: boolean },
 *   quota?: import("./quota.cjs").QuotaChoice,
 *   choices?: Record<string, unknown> }} `choices`: data for the native side, which checks them
 */
function readCallOptions(options) {
  if (options === undefined || options === null) return {};
  if (typeof options !== "object") {
    throw fault("INVALID_OPTION", `the call's options must be an object, got ${describe(options)}`);
  }
  const { signal, timeout, record, quota } = /** @type {{ [name in keyof InvokeOptions]: unknown }} */ (options);
  /** @type {ReturnType<typeof readCallOptions>} */
  const call = {};
  if (signal !== undefined && signal !== null) {
    if (!isAbortSignal(signal)) throw fault("INVALID_OPTION", `signal must be an AbortSignal, got ${describe(signal)}`);
    call.signal = signal;
  }
  if (timeout !== undefined) {
    if (typeof timeout !== "number" || !(timeout >= 0 && timeout <= MAX_TIMEOUT)) {
      const range = `a number of milliseconds from 0 (no limit) to ${MAX_TIMEOUT}`;
      throw fault("INVALID_OPTION", `timeout must be ${range}, got ${describe(timeout)}`);
    }
    call.timeout = Math.ceil(timeout);
  }
  if (record !== undefined) call.record = readRecord(record);
  const choices = pickChoices(options);
  if (choices !== undefined) call.choices = encodeChoices(choices);
  if (quota !== undefined) call.quota = readQuota(quota);
  return call;
}

/**
 * The environment a child inherits, where the native side can't read it for itself: a worker's `process.env` is a copy of
 * its own. `undefined` on the main thread.
 */
function workerEnv() {
  // Not at the top: reading that module is a tenth of what importing this package takes.
  const { isMainThread } = builtin("node:worker_threads");
  return isMainThread ? undefined : JSON.stringify(process.env);
}

/**
 * @param {string} parameter the parameter's name
 * @param {unknown} value
 * @returns {string}
 */
function requireString(parameter, value) {
  if (typeof value === "string") return value;
  throw fault("INVALID_OPTION", `${parameter} must be a string, got ${describe(value)}`);
}

module.exports = {
  describe,
  encodeChoices,
  encodeConfig,
  encodeContext,
  encodeOptions,
  readCallOptions,
  readParseOptions,
  requireString,
  workerEnv,
};
