"use strict";

/**
 * In: options as the caller wrote them. Out: JSON for the native side, which validates them, and the checked options of
 * one call.
 *
 * JSON has no word for `undefined`, functions or `NaN`; where such a value stands, `{"$given": "a function"}` goes over
 * instead, so that the validator can say what it was given rather than not see it.
 *
 * @import { InvokeOptions } from "../../index.js"
 */

const { isMainThread } = require("node:worker_threads");
const { fault } = require("./errors.cjs");

/** The longest delay a timer takes: 2^31 - 1 ms, 24.8 days. */
const MAX_TIMEOUT = 2 ** 31 - 1;

/**
 * A value in words, for error messages: `the string "10s"`, `a function`, `NaN`.
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
  if (parents.includes(value)) return { $given: "an object that contains itself" };
  const within = [...parents, value];
  if (Array.isArray(value)) return Array.from(value, (item) => encode(item, within));
  if (isPlainObject(value)) {
    // fromEntries defines keys, so that one named __proto__ is data like any other.
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, encode(item, within)]));
  }
  return { $given: describe(value) };
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
      return [name, value === null ? { $given: "null" } : encode(value, [env])];
    }),
  );
}

/**
 * @param {unknown} options what a `create…Provider` function or `execFileAsync` was given
 * @returns {string} JSON of an object; top-level keys that are `undefined` are left out
 */
function encodeOptions(options) {
  if (options === undefined) return "{}";
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw fault("INVALID_OPTION", `options must be an object, got ${describe(options)}`);
  }
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return JSON.stringify(
    Object.fromEntries(given.map(([key, value]) => [key, key === "env" ? encodeEnv(value) : encode(value, [options])])),
  );
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
 * The options of one call. Keys that are not ours are left alone: LangChain passes its whole run configuration here.
 *
 * @param {unknown} options
 * @returns {InvokeOptions}
 */
function readCallOptions(options) {
  if (options === undefined || options === null) return {};
  if (typeof options !== "object") {
    throw fault("INVALID_OPTION", `the call's options must be an object, got ${describe(options)}`);
  }
  const { signal, timeout } = /** @type {{ signal?: unknown, timeout?: unknown }} */ (options);
  /** @type {{ signal?: AbortSignal, timeout?: number }} */
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
  return call;
}

/**
 * The environment a child inherits, where the native side can't read it for itself: a worker's `process.env` is a copy of
 * its own. `undefined` on the main thread.
 */
function workerEnv() {
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

module.exports = { describe, encodeOptions, readCallOptions, requireString, workerEnv };
