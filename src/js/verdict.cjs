"use strict";

/**
 * In: why each of several providers did not answer. Out: the one error their caller gets.
 *
 * @import { Failure } from "./members.cjs"
 */

const { clip, providerError } = require("./errors.cjs");

/** What a provider made of several calls itself. */
const FALLBACK = /** @type {const} */ ("fallback");

/**
 * What the caller gets: the one error there was, or one that lists all.
 *
 * @param {readonly Failure[]} failures not empty
 * @param {boolean} exhausted whether it ended for want of members; otherwise the last failure ended it
 */
function verdict(failures, exhausted) {
  const errors = failures.map(({ error }) => error);
  const last = /** @type {import("../../index.js").ProviderError} */ (errors.at(-1));
  if (failures.length === 1 && failures[0]?.asked) return last;
  const { code, shouldRetry, shouldFallback, hint } = last;
  const mixed = exhausted && errors.some(({ category }) => category !== last.category);
  const guidance = mixed
    ? // CLI-ADAPTER-PROTOCOL, "Error Categories": unknown.
      /** @type {const} */ ({ category: "unknown", shouldRetry: false, shouldFallback: true })
    : { category: last.category, shouldRetry, shouldFallback };
  const waits = errors.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
  const resets = errors.flatMap(({ resetsAt }) => resetsAt?.getTime() ?? []);
  const message = listed(failures, exhausted);
  return providerError(
    {
      ...guidance,
      code,
      message,
      provider: FALLBACK,
      ...(hint === undefined || mixed ? {} : { hint }),
      ...(waits.length === 0 ? {} : { retryAfterMs: Math.min(...waits) }),
      ...(resets.length === 0 ? {} : { resetsAt: Math.min(...resets) }),
      attempts: failures.reduce((sum, { asked, error }) => sum + (asked ? Math.max(error.attempts, 1) : 0), 0),
      reasons: failures.flatMap(reasonsOf),
    },
    { cause: new AggregateError(errors, message) },
  );
}

/** @param {Failure} failure */
function reasonsOf({ provider, error, asked }) {
  const { code, message } = error;
  const reasons = asked && error.reasons.length > 0 ? error.reasons : [{ attempt: asked ? 1 : 0, code, message }];
  return reasons.map((reason) => ({ provider, ...reason }));
}

/**
 * All of them in one message, each with an equal part of it.
 *
 * @param {readonly Failure[]} failures
 * @param {boolean} exhausted
 */
function listed(failures, exhausted) {
  const last = failures.at(-1);
  const heading = exhausted ? `no provider could answer (${failures.length})` : `${last?.provider} failed for good`;
  const room = Math.floor((480 - heading.length - 2) / failures.length) - 2;
  const parts = failures.map(({ provider, error }) => clip(`${provider}: ${error.message}`, Math.max(room, 12)));
  return clip(`${heading}: ${parts.join("; ")}`);
}

module.exports = { FALLBACK, verdict };
