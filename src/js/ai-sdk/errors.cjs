"use strict";

/**
 * In: what a provider failed with. Out: the AI SDK's own errors.
 *
 * The AI SDK knows its errors by marks that any copy of it may set (`APICallError.isInstance`), since a program may hold several copies:
 * `ai@6` brings one, `ai@7` another. So they are made here, by the same marks (`@ai-sdk/provider` 3.0 and 4.0), and no copy is imported.
 *
 * @import { ProviderError } from "../../../index.js"
 */

const { isProviderError } = require("../errors.cjs");

/** Limits that the caller has set: another attempt would take as long again (`retry` of index.d.ts says the same). */
const OWN_LIMITS = new Set(["TIMEOUT", "IDLE_TIMEOUT"]);

/**
 * @param {string} name as the AI SDK has it: `AI_APICallError`
 * @param {string} message
 * @param {object} fields
 * @param {unknown} [cause]
 * @returns {Error}
 */
function aiSdkError(name, message, fields, cause) {
  const error = new Error(message, cause === undefined ? undefined : { cause });
  Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  for (const mark of ["vercel.ai.error", `vercel.ai.error.${name}`]) {
    Object.defineProperty(error, Symbol.for(mark), { value: true });
  }
  return Object.assign(error, fields);
}

/**
 * What a call failed with, for the AI SDK. An abort is the signal's own reason and stays what it is.
 *
 * @param {unknown} error
 * @param {{ url: string, modelId: string, retries: boolean }} call `retries`: the provider makes further attempts by itself
 * @returns {unknown}
 */
function callError(error, { url, modelId, retries }) {
  if (!isProviderError(error)) return error;
  const { httpStatus, retryAfterMs } = error;
  const fields = {
    url,
    // Not the thread: errors end up in logs.
    requestBodyValues: { model: modelId },
    isRetryable: mayBeRetried(error, retries),
    ...(httpStatus === undefined ? {} : { statusCode: httpStatus }),
    // Where the AI SDK looks for how long it is to wait.
    ...(retryAfterMs === undefined ? {} : { responseHeaders: { "retry-after-ms": String(Math.ceil(retryAfterMs)) } }),
    data: error.toJSON(),
  };
  return aiSdkError("AI_APICallError", error.message, fields, error);
}

/**
 * Whether the AI SDK is to ask again. Where the provider does that itself, it has: both would multiply.
 *
 * @param {ProviderError} error
 * @param {boolean} retries
 */
function mayBeRetried({ shouldRetry, code, attempts }, retries) {
  return shouldRetry && !retries && attempts <= 1 && !OWN_LIMITS.has(code);
}

/**
 * @param {string} modelId
 * @param {string} modelType `"languageModel"`, `"embeddingModel"`, `"imageModel"`
 * @param {string} reason
 */
function noSuchModel(modelId, modelType, reason) {
  return aiSdkError("AI_NoSuchModelError", reason, { modelId, modelType });
}

module.exports = { callError, noSuchModel };
