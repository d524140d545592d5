"use strict";

/**
 * The audit. In: a key, and calls that were refused before a run of theirs began. Out: the run log of the key, and a run in it for each of
 * those calls, which failed. All others write their own log.
 */

const { join, parse } = require("node:path");

const { guard, providerError, unwrap } = require("../errors.cjs");
const { loadNative } = require("../load.cjs");
const { OWN_KEY } = require("./keys.cjs");

/**
 * The run log of a key: that of the gateway's own token is the file that was named, and that of another key stands beside it under the key's
 * name (`audit.jsonl`, `audit.editor.jsonl`).
 *
 * @param {string | undefined} record
 * @param {string} key
 */
function recordOf(record, key) {
  if (record === undefined || key === OWN_KEY) return record;
  const { dir, name, ext } = parse(record);
  return join(dir, `${name}.${encodeURIComponent(key)}${ext}`);
}

/**
 * @param {string} file
 * @param {{ requestId: string, began: number, refusal: InstanceType<typeof import("./refusal.cjs").Refusal> }} call
 * @returns {Promise<string | undefined>} why it can't be written
 */
async function recordCall(file, { requestId, began, refusal }) {
  const { status, code, message, dfp } = refusal;
  const error = providerError({
    ...{ category: "validation", code: "INVALID_REQUEST" },
    ...(status >= 500 ? { category: "server", code: "OVERLOADED" } : {}),
    ...(status === 429 ? { category: "rate_limit", code: "RATE_LIMITED" } : {}),
    .../** @type {{ category?: never, code?: never } | undefined} */ (dfp),
    ...{ message: `${code}: ${message}`, provider: "gateway", httpStatus: status },
    ...{ shouldRetry: refusal.mayRetry && status >= 429, shouldFallback: false },
  });
  try {
    const line = { runId: requestId, provider: "gateway", startedAt: began, error };
    unwrap(await guard(loadNative().recordRefusedCall(file, JSON.stringify(line))));
    return undefined;
  } catch (failure) {
    return /** @type {Error} */ (failure).message;
  }
}

module.exports = { recordCall, recordOf };
