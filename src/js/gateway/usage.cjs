"use strict";

/**
 * `GET /v1/usage`. In: who asks. Out: what that key has used of its budgets, and what the providers last said of the windows of their
 * plans. Nobody is asked anything for it.
 *
 * @import { Limits } from "../../../index.js"
 * @import { Provider } from "./models.cjs"
 */

const { loadNative } = require("../load.cjs");

/** @param {number | undefined} ms */
const time = (ms) => (ms === undefined ? null : new Date(ms).toISOString());

/**
 * @param {string} key its name
 * @param {Readonly<Record<string, Provider>>} providers those of the gateway
 */
function usageOf(key, providers) {
  /** @type {Limits} */
  const { budgets, rateLimits } = JSON.parse(loadNative().limits());
  const ids = new Set(Object.values(providers).map((provider) => /** @type {{ id?: unknown }} */ (provider).id));
  return {
    object: "usage",
    key,
    budgets: budgets
      .filter(({ provider }) => provider === `key ${key}`)
      .map(({ per, limits: { requests, tokens, costUsd }, resetsAt, ...used }) => ({
        per,
        limits: { requests, tokens, cost_usd: costUsd },
        used: { requests: used.requests, tokens: used.tokens, cost_usd: used.costUsd },
        resets_at: time(resetsAt),
      })),
    plans: rateLimits
      .filter(({ provider }) => ids.has(provider))
      .map(({ provider, limitType, utilization, status, resetsAt, at }) => ({
        provider,
        window: limitType ?? null,
        utilization: utilization ?? null,
        status,
        resets_at: time(resetsAt),
        told_at: time(at),
      })),
  };
}

module.exports = { usageOf };
