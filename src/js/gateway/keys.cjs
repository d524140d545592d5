"use strict";

/**
 * Who may ask, and how much. In: a secret from a request. Out: its key, which admits a call or refuses it before anything starts.
 *
 * Calls at a time are counted here. All other limits are budgets, which are counted as a provider's are (docs/reference/budgets.md): in memory, or in the
 * file that a budget names as its store.
 */

const { createHash, timingSafeEqual } = require("node:crypto");
const { fault, guard, unwrap } = require("../errors.cjs");
const { loadNative } = require("../load.cjs");
const { encodeOptions } = require("../options.cjs");
const { Refusal } = require("./refusal.cjs");

/**
 * @import { BudgetOptions } from "../../../index.cjs"
 *
 * @typedef {object} Limits
 * @property {number | undefined} [concurrency]
 * @property {number | undefined} [requestsPerMinute]
 * @property {number | undefined} [tokensPerDay]
 * @property {number | undefined} [usdPerDay]
 * @property {BudgetOptions | undefined} [budget]
 *
 * @typedef {{ window: string } | { usedUp: { limit: keyof typeof CODES, what: string, resetsAt: number } }} Answer
 */

/** The code of each limit of a budget. */
const CODES = { requests: "rate_limit_exceeded", tokens: "token_budget_exceeded", costUsd: "cost_budget_exceeded" };

/** The name of whoever has the gateway's own token. */
const OWN_KEY = "default";

/** @param {string} text */
const hashOf = (text) => createHash("sha256").update(text).digest();

/**
 * The budgets that limits come to.
 *
 * @param {Limits} limits
 * @returns {BudgetOptions[]}
 */
function budgetsOf({ requestsPerMinute, tokensPerDay, usdPerDay, budget }) {
  return [
    ...(requestsPerMinute === undefined ? [] : [/** @type {const} */ ({ requests: requestsPerMinute, per: "minute" })]),
    ...(tokensPerDay === undefined && usdPerDay === undefined
      ? []
      : [/** @type {const} */ ({ tokens: tokensPerDay, costUsd: usdPerDay, per: "day" })]),
    ...(budget === undefined ? [] : [budget]),
  ];
}

/**
 * @param {string} name
 * @param {Limits} limits
 * @param {string} at the option that has its budget: `limits`, `keys[0].limits`
 */
function createKey(name, limits, at) {
  const budgets = budgetsOf(limits).map((budget) => {
    const native = new (loadNative().NativeBudget)(`key ${name}`, encodeOptions({ budget }));
    checked(native.check(), at);
    return native;
  });
  let running = 0;
  /** Of calls that have ended, what is being counted. @type {Set<Promise<unknown>>} */
  const counting = new Set();

  /** @param {Promise<string>[]} counted */
  const count = (counted) => {
    // What a store does not take it is asked for again with the next call.
    /** @type {Promise<unknown>} */
    const all = Promise.allSettled(counted).then(() => counting.delete(all));
    counting.add(all);
  };

  /** Lets a call in by all of its budgets, or by none. */
  const admitByAll = async () => {
    await Promise.all(counting);
    /** @type {{ native: import("../native.cjs").NativeBudget, window: string }[]} */
    const admitted = [];
    const giveBack = () => count(admitted.map(({ native, window }) => native.giveBack(window)));
    for (const native of budgets) {
      /** @type {Answer} */
      let answer;
      try {
        answer = /** @type {Answer} */ (unwrap(await guard(native.admit())));
      } catch (error) {
        giveBack();
        const { code, message } = /** @type {import("../../../index.js").ProviderError} */ (error);
        const reason = `what the key "${name}" uses can't be counted: ${message}`;
        // Another process has the store: it gives it back.
        if (code === "OVERLOADED") throw new Refusal(503, "overloaded", reason);
        throw new Refusal(500, "internal", reason, { retry: false });
      }
      if ("usedUp" in answer) {
        giveBack();
        const { limit, what, resetsAt } = answer.usedUp;
        throw new Refusal(429, CODES[limit], `the key "${name}" has used up its budget: ${what}`, {
          retryAfterMs: Math.max(0, resetsAt - Date.now()),
          dfp: { code: "BUDGET_EXCEEDED", category: "quota", resets_at: new Date(resetsAt).toISOString() },
        });
      }
      admitted.push({ native, window: answer.window });
    }
  };

  return {
    name,

    /**
     * Takes a place, or refuses.
     *
     * @returns {Promise<(used: { tokens?: number | undefined, usd?: number | undefined }) => void>} gives the place back
     */
    async admit() {
      const { concurrency } = limits;
      if (concurrency !== undefined && running >= concurrency) {
        const message = `the key "${name}" has ${running} calls under way, which are all it may have: wait for one to end`;
        throw new Refusal(429, "concurrency_limit_exceeded", message, { retryAfterMs: 1000 });
      }
      running++;
      try {
        await admitByAll();
      } catch (refusal) {
        running--;
        throw refusal;
      }
      let open = true;
      return ({ tokens, usd }) => {
        if (!open) return;
        open = false;
        running--;
        const used = JSON.stringify({ tokens, costUsd: usd });
        count(budgets.map((native) => native.settle(used)));
      };
    },

    /** When all that has ended is counted. */
    async close() {
      await Promise.all(counting);
      for (const native of budgets) native.close();
    },
  };
}

/**
 * @param {string} outcome of a budget's check
 * @param {string} at
 */
function checked(outcome, at) {
  try {
    unwrap(outcome);
  } catch (error) {
    throw fault("INVALID_OPTION", /** @type {Error} */ (error).message.replaceAll('"budget', `"${at}.budget`));
  }
}

/** @typedef {ReturnType<typeof createKey>} Key */

/**
 * @param {object} parts
 * @param {string | undefined} parts.token the gateway's own; `undefined`: everybody who gets here may ask
 * @param {readonly { name: string, token: string, limits?: Limits | undefined }[]} parts.keys
 * @param {Limits} parts.limits of every key that has none of its own
 */
function createKeys({ token, keys, limits }) {
  const own = createKey(OWN_KEY, limits, "limits");
  const all = [
    ...(token === undefined ? [] : [{ hash: hashOf(token), key: own }]),
    ...keys.map(({ name, token: secret, limits: its }, index) => ({
      hash: hashOf(secret),
      key: createKey(name, { ...limits, ...its }, its?.budget === undefined ? "limits" : `keys[${index}].limits`),
    })),
  ];

  return {
    /**
     * @param {readonly string[]} secrets what the request brought
     * @returns {Key} throws a {@link Refusal}
     */
    find(secrets) {
      /** @type {Key | undefined} */
      let found;
      for (const secret of secrets) {
        const hash = hashOf(secret);
        // Every key is looked at, and each comparison takes the same time.
        for (const one of all) if (timingSafeEqual(one.hash, hash)) found ??= one.key;
      }
      if (found !== undefined) return found;
      if (token === undefined && secrets.length === 0) return own;
      if (token === undefined && all.length === 0) return own;
      if (secrets.length === 0) {
        const message = "there is no key: send the gateway's token as `Authorization: Bearer …` or `x-api-key: …`";
        throw new Refusal(401, "missing_api_key", message);
      }
      throw new Refusal(
        401,
        "invalid_api_key",
        "this key is none of the gateway's: its token is in the file that `serve` names",
      );
    },

    /** Whether one of them is that of a key, or none is asked for. @param {readonly string[]} secrets */
    has(secrets) {
      try {
        return this.find(secrets) !== undefined;
      } catch {
        return false;
      }
    },

    /** When what all calls have used is counted. */
    async close() {
      await Promise.all([own, ...all.map(({ key }) => key)].map((key) => key.close()));
    },
  };
}

module.exports = { OWN_KEY, createKeys };
