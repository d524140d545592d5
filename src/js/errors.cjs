"use strict";

/**
 * In: the error JSON of the native side (`src/model/error.rs`), and misuse the façade itself finds. Out: `ProviderError`.
 *
 * This file is CommonJS and every entry requires it, so that there is one `ProviderError` class per process whichever way
 * the package was loaded.
 *
 * @import { ErrorCause, ErrorCategory, ProviderErrorCode, ProviderErrorInit } from "../../index.js"
 */

/** Marks instances of every copy of this package, where `instanceof` only knows its own. */
const BRAND = Symbol.for("deep-factor-providers.ProviderError");

/** What an error carries besides name, message and cause: what is absent in the JSON is absent here. */
const FIELDS = /** @type {const} */ ([
  "category",
  "code",
  "provider",
  "shouldRetry",
  "shouldFallback",
  "hint",
  "retryAfterMs",
  "resetsAt",
  "exitCode",
  "signal",
  "httpStatus",
  "stdoutTail",
  "stderrTail",
  "partial",
  "usage",
  "attempts",
  "reasons",
  "problems",
  "runId",
  "run",
]);

/** Documented in index.d.ts. */
class ProviderError extends Error {
  /**
   * @param {ProviderErrorInit} init
   * @param {{ cause?: unknown }} [options]
   */
  constructor(init, options) {
    super(init.message, options);
    Object.defineProperty(this, BRAND, { value: true });
    const known = { attempts: 0, reasons: [], ...init };
    /** @type {Record<string, unknown>} */
    const fields = {};
    for (const field of FIELDS) {
      const value = known[field];
      if (value !== undefined) fields[field] = value;
    }
    if (known.resetsAt !== undefined) fields.resetsAt = new Date(known.resetsAt);
    Object.assign(this, fields);
  }

  /**
   * @param {unknown} value
   * @returns {boolean}
   */
  static isInstance(value) {
    return (
      typeof value === "object" && value !== null && /** @type {Record<symbol, unknown>} */ (value)[BRAND] === true
    );
  }

  toJSON() {
    /** @type {Record<string, unknown>} */
    const json = { name: this.name, message: this.message };
    // Own and enumerable are the fields, and not name, message and cause.
    Object.assign(json, this);
    if (this.cause !== undefined) json.cause = plainCause(this.cause);
    return json;
  }
}

/**
 * @param {unknown} cause
 * @returns {ErrorCause | string}
 */
function plainCause(cause) {
  if (!(cause instanceof Error)) return String(cause);
  const { name, message } = cause;
  if (!(cause instanceof AggregateError)) return { name, message };
  // One level: what an aggregate holds are the errors themselves.
  const errors = Array.from(cause.errors, (error) =>
    error instanceof Error ? { name: error.name, message: error.message } : String(error),
  );
  return { name, message, errors };
}

// On the prototype, as with the built-in errors: inspecting an instance shows it once, in the heading.
Object.defineProperty(ProviderError.prototype, "name", { value: "ProviderError", configurable: true, writable: true });

/**
 * A `ProviderError` with its declared type: the class above gets its fields from a list, which TypeScript does not see.
 *
 * @param {ProviderErrorInit} init
 * @param {{ cause?: unknown }} [options]
 * @returns {import("../../index.js").ProviderError}
 */
function providerError(init, options) {
  return /** @type {never} */ (new ProviderError(init, options));
}

/**
 * @param {unknown} value
 * @returns {value is import("../../index.js").ProviderError}
 */
function isProviderError(value) {
  return ProviderError.isInstance(value);
}

/** The agent shows `name: message` cut at 500 characters; ours never needs the cut (`src/model/error.rs`). */
const MESSAGE_LIMIT = 480;

/**
 * @param {string} text
 * @param {number} [limit] characters
 */
function clip(text, limit = MESSAGE_LIMIT) {
  const characters = Array.from(text);
  return characters.length <= limit ? text : `${characters.slice(0, limit - 1).join("")}…`;
}

/**
 * The codes that the façade gives by itself; all others come from the native side with their category.
 *
 * @satisfies {Partial<Record<ProviderErrorCode, ErrorCategory>>}
 */
const CATEGORIES = /** @type {const} */ ({
  INVALID_MESSAGES: "validation",
  INVALID_TOOL: "validation",
  UNSUPPORTED_CONTENT: "validation",
  INVALID_OPTION: "configuration",
  CALLBACK_FAILED: "configuration",
  CHECKPOINT_FAILED: "configuration",
  CHECKPOINT_INVALID: "validation",
  RUN_LOCKED: "configuration",
  CLOSED: "configuration",
  INTERNAL: "unknown",
});

/**
 * An error found by the façade. No process was started, so it has no attempts and no provider is to blame.
 *
 * @param {keyof typeof CATEGORIES} code
 * @param {string} message
 * @param {unknown} [cause]
 */
function fault(code, message, cause) {
  const category = CATEGORIES[code];
  return new ProviderError(
    // CLI-ADAPTER-PROTOCOL, "Error Categories": of these three only `unknown` may do better elsewhere. Content is refused
    // by the one who can't take it (`src/model/error.rs`).
    {
      code,
      category,
      message: clip(message),
      provider: "",
      shouldRetry: false,
      shouldFallback: category === "unknown" || code === "UNSUPPORTED_CONTENT",
    },
    cause === undefined ? undefined : { cause },
  );
}

/** How a key `__proto__` may be written in JSON. */
const PROTO = /__proto__|\\u00(?:5f|6f|7[024])/i;

/**
 * What the native side tells. A model may name a field of its arguments `__proto__`: the usual copies of an object (`Object.assign({}, args)`)
 * would take it for the prototype, so nobody gets it.
 *
 * @param {string} json
 * @returns {any}
 */
function parseAnswer(json) {
  return PROTO.test(json) ? JSON.parse(json, withoutProto) : JSON.parse(json);
}

/**
 * @param {string} _key
 * @param {any} value
 */
function withoutProto(_key, value) {
  if (typeof value === "object" && value !== null && Object.hasOwn(value, "__proto__")) {
    Reflect.deleteProperty(value, "__proto__");
  }
  return value;
}

/**
 * What the native side answers: its value, or its error thrown.
 *
 * @param {string} json `{"ok": …}`, `{"err": …}` or `{"cancelled": true}`
 * @returns {unknown}
 */
function unwrap(json) {
  /** @type {{ ok?: unknown, err?: ProviderErrorInit, cancelled?: true }} */
  const answer = parseAnswer(json);
  if (answer.err) throw new ProviderError(answer.err);
  if (answer.cancelled) throw fault("CLOSED", "the run was cancelled: its provider was closed");
  return answer.ok;
}

/**
 * A native promise. It rejects only where the native side broke: every expected failure is a value ({@link unwrap}).
 *
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
async function guard(promise) {
  try {
    return await promise;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw fault("INTERNAL", `${reason}. This is a bug of deep-factor-providers`, cause);
  }
}

module.exports = { ProviderError, clip, fault, guard, isProviderError, parseAnswer, providerError, unwrap };
