"use strict";

/**
 * `GET /v1/usage`. In: who asks. Out: what that key has used of its budgets, and what the answers have told of the windows of the plans
 * behind the gateway, by the name of the provider here: two of one CLI may have two logins. Nobody is asked anything for it.
 *
 * @import { Limits } from "../../../index.js"
 */

const { loadNative } = require("../load.cjs");

/** @param {number | undefined} ms */
const time = (ms) => (ms === undefined ? null : new Date(ms).toISOString());

/**
 * @param {string} key its name
 * @param {import("./plans.cjs").Plans} plans
 */
function usageOf(key, plans) {
  /** @type {Limits} */
  const { budgets } = JSON.parse(loadNative().limits());
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
    plans: plans.list().map(({ plan, limitType, utilization, status, resetsAt, at }) => ({
      provider: plan,
      window: limitType,
      utilization: utilization ?? null,
      status,
      resets_at: time(resetsAt),
      told_at: time(at),
    })),
  };
}

module.exports = { usageOf };
