"use strict";

/**
 * The codes of errors by category, and what each advises: those of `src/model/error.rs`, which a test compares. They stand here, too, so
 * that a script whose reply is an error needs no addon.
 *
 * @import { ErrorCategory, ProviderErrorCode } from "../../../index.js"
 */

const CODES = /** @type {const} */ ({
  quota: ["CREDIT_EXHAUSTED", "USAGE_LIMIT", "QUOTA_EXCEEDED", "BUDGET_EXCEEDED"],
  rate_limit: ["RATE_LIMITED"],
  server: ["OVERLOADED", "SERVER_ERROR", "MALFORMED_RESPONSE", "EMPTY_RESPONSE", "CRASHED"],
  authentication: ["NOT_LOGGED_IN", "TOKEN_EXPIRED", "INVALID_API_KEY", "PERMISSION_DENIED", "AUTHENTICATION_FAILED"],
  validation: [
    "INVALID_REQUEST",
    "CONTEXT_LENGTH",
    "REQUEST_TOO_LARGE",
    "PROMPT_TOO_LONG",
    "EMPTY_PROMPT",
    "PROMPT_INTERCEPTED",
    "INVALID_MESSAGES",
    "UNSUPPORTED_CONTENT",
    "UNSUPPORTED_OPTION",
    "TOOL_CHOICE_UNMET",
    "INVALID_TOOL",
    "REFUSAL",
    "MAX_TOKENS",
    "MAX_TURNS",
    "BUDGET_EXHAUSTED",
    "INVALID_RUN_LOG",
    "RUN_LOG_INCOMPLETE",
    "OUTPUT_INVALID",
    "AGENT_LIMIT",
    "PLANNER_OUTPUT_MISSING",
    "COMPLETION_REPORT_MISSING",
    "CHECKPOINT_MISMATCH",
    "CHECKPOINT_INVALID",
  ],
  network: ["CONNECTION_FAILED", "CONNECTION_LOST"],
  timeout: ["TIMEOUT", "IDLE_TIMEOUT", "REQUEST_TIMEOUT"],
  not_found: ["CLI_NOT_FOUND", "MODEL_NOT_FOUND", "NOT_FOUND"],
  configuration: [
    "RUN_LOCKED",
    "CHECKPOINT_FAILED",
    "CALLBACK_FAILED",
    "INVALID_OPTION",
    "CLI_NOT_EXECUTABLE",
    "INTERPRETER_NOT_FOUND",
    "CWD_NOT_FOUND",
    "SPAWN_FAILED",
    "UNSUPPORTED_FLAG",
    "UNTRUSTED_WORKSPACE",
    "INVALID_CONFIG",
    "CLAUDE_INVALID_CONFIG",
    "LIVE_UNSUPPORTED",
    "CALLBACKS_UNAVAILABLE",
    "OUTPUT_LIMIT",
    "CLOSED",
  ],
  unknown: ["INTERNAL", "UNKNOWN"],
});

/** @type {ReadonlySet<string>} categories of which the same provider may be asked again */
const RETRY = new Set(["rate_limit", "network", "server", "timeout"]);
/** @type {ReadonlySet<string>} categories of which another provider may do better */
const FALLBACK = new Set(["quota", "network", "server", "timeout", "not_found", "unknown"]);
/** @type {ReadonlySet<string>} codes of other categories that are this provider's own */
const OWN = new Set(["UNSUPPORTED_CONTENT", "UNSUPPORTED_OPTION", "TOOL_CHOICE_UNMET", "OUTPUT_INVALID"]);

/** @type {ReadonlyMap<string, ErrorCategory>} */
const CATEGORY = new Map(
  Object.entries(CODES).flatMap(([category, codes]) =>
    codes.map((code) => /** @type {const} */ ([code, /** @type {ErrorCategory} */ (category)])),
  ),
);

/**
 * @param {string} code
 * @returns {{ code: ProviderErrorCode, category: ErrorCategory, shouldRetry: boolean, shouldFallback: boolean } | undefined} `undefined`
 *   for a code that there is not
 */
function adviceOf(code) {
  const category = CATEGORY.get(code);
  if (category === undefined) return undefined;
  const shouldFallback = OWN.has(code) || FALLBACK.has(category);
  return { code: /** @type {ProviderErrorCode} */ (code), category, shouldRetry: RETRY.has(category), shouldFallback };
}

/** All codes. */
const codes = () => [...CATEGORY.keys()];

module.exports = { adviceOf, codes };
