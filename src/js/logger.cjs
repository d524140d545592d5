"use strict";

/**
 * In: a `logger` option, and records as the native side hands them over. Out: the logger called with each record, in order.
 * Nothing it does can change a run: what it throws, or rejects with, is dropped.
 *
 * @import { LogLevel, LogRecord } from "../../index.js"
 *
 * @typedef {(record: LogRecord) => void} Log
 */

const { fault } = require("./errors.cjs");

const LEVELS = /** @type {const} */ (["debug", "info", "warn", "error"]);

/**
 * Takes `logger` out of a provider's options.
 *
 * @param {unknown} options
 * @param {(value: unknown) => string} describe
 * @returns {{ log: Log | undefined, rest: unknown }} `rest` is for the native side
 */
function takeLogger(options, describe) {
  // What is no object is refused with all other options.
  if (typeof options !== "object" || options === null || !("logger" in options))
    return { log: undefined, rest: options };
  const { logger, ...rest } = options;
  if (logger === undefined) return { log: undefined, rest };
  const log = toFunction(logger);
  if (!log) {
    const allowed = "a function, or an object with the methods debug, info, warn and error";
    throw fault("INVALID_OPTION", `the option "logger" must be ${allowed}, got ${describe(logger)}`);
  }
  return { log, rest };
}

/**
 * @param {unknown} logger
 * @returns {Log | undefined}
 */
function toFunction(logger) {
  if (typeof logger === "function") return guarded((record) => logger(record));
  if (typeof logger !== "object" || logger === null) return undefined;
  const methods = /** @type {Record<LogLevel, unknown>} */ (logger);
  if (!LEVELS.every((level) => typeof methods[level] === "function")) return undefined;
  if (takesMessageLast(logger)) return guarded((record) => tellLast(logger, record));
  return guarded((record) => /** @type {Record<LogLevel, Log>} */ (logger)[record.level](record));
}

/**
 * Whether a logger is called as pino and bunyan are: fields first, then the message. They add level and time themselves, and
 * write keys that are passed again twice.
 *
 * @param {object} logger
 */
function takesMessageLast(logger) {
  const { child, bindings, addSerializers } = /** @type {Record<string, unknown>} */ (logger);
  return typeof child === "function" && (typeof bindings === "function" || typeof addSerializers === "function");
}

/**
 * @param {object} logger
 * @param {LogRecord} record
 */
function tellLast(logger, { level, message, provider, runId, pid, fields }) {
  // `pid` is the logger's own word for this process.
  const entry = { provider, runId, ...(pid === undefined ? {} : { cliPid: pid }), fields };
  return /** @type {Record<LogLevel, (fields: object, message: string) => unknown>} */ (logger)[level](entry, message);
}

/**
 * @param {(record: LogRecord) => unknown} log
 * @returns {Log}
 */
function guarded(log) {
  return (record) => {
    try {
      const answer = log(record);
      if (answer instanceof Promise) answer.catch(() => {});
    } catch {
      // A logger that fails is its owner's affair; the run goes on.
    }
  };
}

module.exports = { takeLogger };
