"use strict";

/**
 * In: what is wrong with a request, or what a provider failed with. Out: a {@link Refusal}: an HTTP status, headers that tell a client
 * whether to ask again, and the body in the words of either vendor.
 *
 * openai's and Anthropic's clients ask again by themselves (408, 409, 429, 500 and more) unless `x-should-retry` forbids it, and heed
 * `retry-after`: JavaScript's openai one of at most 60 s, Anthropic's however long it is. So what can't pass within a minute
 * forbids it: a client would run into the same wall, or sleep for hours.
 *
 * @import { ProviderError } from "../../../index.js"
 */

const { clip, isProviderError } = require("../errors.cjs");
const { LENIENT, forClients } = require("./advice.cjs");

/** Who is spoken to: OpenAI's faces have one shape of errors, Anthropic's another. @typedef {"openai" | "anthropic"} Vendor */

/** What a vendor calls a status. */
const TYPES = {
  openai: new Map([
    [400, "invalid_request_error"],
    [401, "authentication_error"],
    [403, "permission_error"],
    [404, "invalid_request_error"],
    [429, "rate_limit_error"],
  ]),
  anthropic: new Map([
    [401, "authentication_error"],
    [403, "permission_error"],
    [404, "not_found_error"],
    [413, "request_too_large"],
    [429, "rate_limit_error"],
    [504, "timeout_error"],
    [529, "overloaded_error"],
  ]),
};

/** How much of a message is told, in characters. */
const MESSAGE_LIMIT = 2000;

/** What clients wait for, ms; whatever takes longer is not to be asked for again by itself. */
const PATIENCE = 60_000;

class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} code one of the gateway's own (docs/reference/gateway.md)
   * @param {string} message
   * @param {{ param?: string | undefined, type?: string, retryAfterMs?: number | undefined, retry?: boolean, dfp?: object, close?: boolean, details?: object, allow?: string }} [more]
   *   `type`: OpenAI's, where it is not that of the status; `retry: false`: a client is not to ask again by itself; `close`: the connection
   *   ends behind the answer; `details`: Anthropic's, by which its clients know what to do without; `allow`: the methods that a path takes
   */
  constructor(
    status,
    code,
    message,
    { param, type, retryAfterMs, retry = true, dfp, close = false, details, allow } = {},
  ) {
    super(clip(message, MESSAGE_LIMIT));
    this.status = status;
    this.code = code;
    this.param = param;
    this.type = type;
    this.retryAfterMs = retryAfterMs;
    this.mayRetry = retry && (retryAfterMs === undefined || retryAfterMs <= PATIENCE);
    this.dfp = dfp;
    this.details = details;
    this.close = close;
    this.allow = allow;
  }

  /** @param {Vendor} vendor */
  statusFor(vendor) {
    return vendor === "anthropic" && this.code === "overloaded" ? 529 : this.status;
  }

  /** @returns {Record<string, string>} */
  headers() {
    const retried = [408, 422, 429].includes(this.status) || this.status >= 500;
    return {
      ...(this.retryAfterMs === undefined ? {} : { "retry-after": String(Math.ceil(this.retryAfterMs / 1000)) }),
      ...(retried && !this.mayRetry ? { "x-should-retry": "false" } : {}),
      ...(this.close ? { connection: "close" } : {}),
      ...(this.allow === undefined ? {} : { allow: this.allow }),
    };
  }

  /**
   * @param {Vendor} vendor
   * @param {string} requestId
   */
  body(vendor, requestId) {
    const { message, param, code, dfp } = this;
    const status = this.statusFor(vendor);
    const own = dfp === undefined ? {} : { dfp };
    if (vendor === "openai") {
      const type = this.type ?? TYPES.openai.get(status) ?? (status >= 500 ? "server_error" : "invalid_request_error");
      return { error: { message, type, param: param ?? null, code, ...own } };
    }
    const type = TYPES.anthropic.get(status) ?? (status >= 500 ? "api_error" : "invalid_request_error");
    const where = param === undefined ? {} : { param };
    const details = this.details === undefined ? {} : { details: this.details };
    return { type: "error", error: { type, message, ...where, code, ...details, ...own }, request_id: requestId };
  }
}

/**
 * A request that can't be taken as it is.
 *
 * @param {string} code
 * @param {string | undefined} param
 * @param {string} message
 */
const bad = (code, param, message) => new Refusal(400, code, message, { param });

/** Options of a provider's call that are knobs: a lenient call goes on without them where a provider has none. */
const DROPPABLE_OPTIONS = [
  "maxOutputTokens",
  "stop",
  "temperature",
  "reasoning.effort",
  "reasoning",
  "serviceTier",
  "speed",
];

/**
 * Where in a request something of a provider's call comes from.
 *
 * @typedef {object} Places
 * @property {(message: number, part: number | undefined) => string} message
 * @property {(option: string) => string | undefined} option
 * @property {string} thread the field that holds the conversation
 */

/**
 * That an option can't be had, as a client knows it: by the field of its request, and without the engine, which it did not choose.
 *
 * @param {string} reason
 * @param {string} param
 */
function lacking(reason, param) {
  const [, option = "", who, able] =
    /option "([\w.]+)" is not supported by (.+?)(?:'s \w+ engine)?; (.*)$/s.exec(reason) ?? [];
  if (who === undefined) return undefined;
  const todo = DROPPABLE_OPTIONS.includes(option) ? `leave it out, or ${LENIENT}` : "leave it out";
  return `${param} can't be had of ${who} (${able}): ${todo}`;
}

/**
 * @param {unknown} error what a call failed with
 * @param {Places} [places]
 * @returns {Refusal}
 */
function refusalOf(error, places) {
  if (error instanceof Refusal) return error;
  if (!isProviderError(error)) {
    // A bug of ours, or an adapter of the caller's: its text is nobody's business.
    return new Refusal(500, "internal", "the gateway failed: see its log", { retry: false });
  }
  if (error.code === "INVALID_OPTION" && optionIn(error.message) === "record") {
    // The gateway's own option, not the client's.
    return new Refusal(500, "internal", "the gateway can't write its record: see its log", { retry: false });
  }
  const retryAfterMs = waitOf(error);
  const { status: known, code, type, retry = mayHelp(error, retryAfterMs) } = kindOf(error);
  const { reason, end, hint } = forClients(error.message, error.hint);
  const { param, message } = placed(error, reason, end, places);
  // A 502 is asked for again by clients that read no `x-should-retry`.
  const status = known === 502 && !retry ? 422 : known;
  return new Refusal(status, code, message, {
    param,
    ...(type === undefined ? {} : { type }),
    retryAfterMs,
    retry,
    dfp: {
      code: error.code,
      category: error.category,
      ...(hint === undefined ? {} : { hint }),
      ...(error.resetsAt === undefined ? {} : { resets_at: error.resetsAt.toISOString() }),
    },
  });
}

/**
 * Whether the same request may go well another time. A plan that is used up begins anew, where its end is known.
 *
 * @param {ProviderError} error
 * @param {number | undefined} wait ms
 */
function mayHelp({ category, shouldRetry }, wait) {
  if (category === "quota") return wait !== undefined;
  return shouldRetry || category === "network";
}

/**
 * @param {ProviderError} error
 * @returns {{ status: number, code: string, type?: string, retry?: boolean }}
 */
function kindOf({ category, code, httpStatus }) {
  switch (code) {
    case "OVERLOADED":
      return { status: 503, code: "overloaded" };
    case "CONTEXT_LENGTH":
    case "PROMPT_TOO_LONG":
      return { status: 400, code: "context_length_exceeded" };
    case "REQUEST_TOO_LARGE":
      return { status: 413, code: "request_too_large" };
    case "UNSUPPORTED_CONTENT":
      return { status: 400, code: "unsupported_content" };
    case "UNSUPPORTED_OPTION":
      return { status: 400, code: "unsupported_parameter" };
    case "MODEL_NOT_FOUND":
      return { status: 404, code: "model_not_found" };
    case "OUTPUT_INVALID":
    case "TOOL_CHOICE_UNMET":
      return { status: 502, code: code.toLowerCase(), retry: false };
    case "PERMISSION_DENIED":
      return { status: 403, code: "provider_not_logged_in" };
    case "CLI_NOT_FOUND":
    case "CLI_NOT_EXECUTABLE":
    case "INTERPRETER_NOT_FOUND":
      return { status: 503, code: "provider_not_installed", retry: false };
    case "INVALID_OPTION":
    case "INVALID_TOOL":
    case "INVALID_MESSAGES":
    case "EMPTY_PROMPT":
    case "PROMPT_INTERCEPTED":
    case "INVALID_REQUEST":
      return { status: 400, code: "invalid_value" };
    case "INTERNAL":
      return { status: 500, code: "internal", retry: false };
    default:
  }
  switch (category) {
    case "quota":
      return { status: 429, code: "insufficient_quota", type: "insufficient_quota" };
    case "rate_limit":
      return { status: 429, code: "rate_limit_exceeded" };
    case "authentication":
      return { status: 401, code: "provider_not_logged_in" };
    case "network":
      return { status: 502, code: "upstream_unreachable" };
    case "timeout":
      return { status: 504, code: "timeout" };
    case "server":
      return {
        status: httpStatus !== undefined && httpStatus >= 500 && httpStatus < 600 ? httpStatus : 502,
        code: "upstream_error",
      };
    default:
      return { status: 502, code: "upstream_error" };
  }
}

/** @param {ProviderError} error */
function waitOf({ resetsAt, retryAfterMs }) {
  if (resetsAt !== undefined) return Math.max(0, resetsAt.getTime() - Date.now());
  return retryAfterMs;
}

/**
 * An error's message in the words of the request, and which of its fields it is about.
 *
 * @param {ProviderError} error
 * @param {string} reason
 * @param {string} end what is advised, behind the reason
 * @param {Places | undefined} places
 */
function placed(error, reason, end, places) {
  let message = reason + end;
  /** @type {string | undefined} */
  let param;
  if (error.category === "authentication") {
    message = `the CLI or API behind the gateway (${error.provider}), not the caller of the gateway, has no valid login: ${message}`;
  }
  if (places === undefined) return { param, message };
  message = message.replaceAll(/messages\[(\d+)\](?:\.content\[(\d+)\])?/g, (_, index, part) => {
    const place = places.message(Number(index), part === undefined ? undefined : Number(part));
    param ??= place;
    return place;
  });
  if (error.code === "UNSUPPORTED_OPTION" || error.code === "INVALID_OPTION") {
    const option = optionIn(message);
    param ??= option === undefined ? undefined : places.option(option);
    if (param !== undefined) message = message.replace(/the call's option "[\w.]+"/, param);
    if (param !== undefined && error.code === "UNSUPPORTED_OPTION") message = lacking(reason, param) ?? message;
  }
  if (error.code === "INVALID_TOOL") param ??= /tools\[\d+\]/.exec(message)?.[0];
  const field = BLAMED[error.code];
  if (field !== undefined) param ??= field === "thread" ? places.thread : places.option(field);
  return { param, message };
}

/**
 * What a failure is about that names no place of its own.
 *
 * @type {Readonly<Record<string, "thread" | "model" | "tools" | "toolChoice" | "outputSchema">>}
 */
const BLAMED = {
  EMPTY_PROMPT: "thread",
  PROMPT_TOO_LONG: "thread",
  PROMPT_INTERCEPTED: "thread",
  CONTEXT_LENGTH: "thread",
  REQUEST_TOO_LARGE: "thread",
  INVALID_MESSAGES: "thread",
  MODEL_NOT_FOUND: "model",
  INVALID_TOOL: "tools",
  TOOL_CHOICE_UNMET: "toolChoice",
  OUTPUT_INVALID: "outputSchema",
};

/**
 * The option that a message names, in quotes.
 *
 * @param {string} message
 */
function optionIn(message) {
  return /[`"]([\w.]+)[`"]/.exec(message)?.[1];
}

module.exports = { DROPPABLE_OPTIONS, LENIENT, Refusal, bad, optionIn, refusalOf };
