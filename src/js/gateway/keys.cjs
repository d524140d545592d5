"use strict";

/**
 * Who may ask, and how much. In: a secret from a request. Out: its key, which admits a call or refuses it before anything starts.
 *
 * Rate and concurrency are known before a call; tokens and dollars after it, so one call may pass a limit. A day begins at local midnight.
 * What was used is kept in memory: it begins anew with the gateway.
 */

const { createHash, timingSafeEqual } = require("node:crypto");
const { Refusal } = require("./refusal.cjs");

/** @typedef {{ concurrency?: number | undefined, requestsPerMinute?: number | undefined, tokensPerDay?: number | undefined, usdPerDay?: number | undefined }} Limits */

const MINUTE = 60_000;
/** The name of whoever has the gateway's own token. */
const OWN_KEY = "default";

/** @param {string} text */
const hashOf = (text) => createHash("sha256").update(text).digest();

/**
 * @param {string} name
 * @param {Limits} limits
 */
function createKey(name, limits) {
  let running = 0;
  /** Of the last minute. @type {number[]} */
  let begun = [];
  const spent = { tokens: 0, usd: 0, until: 0 };

  /** @param {number} now */
  const renew = (now) => {
    if (now < spent.until) return;
    const midnight = new Date(now);
    midnight.setHours(24, 0, 0, 0);
    Object.assign(spent, { tokens: 0, usd: 0, until: midnight.getTime() });
  };

  return {
    name,

    /**
     * Takes a place, or refuses.
     *
     * @param {number} [now]
     * @returns {(used: { tokens?: number | undefined, usd?: number | undefined }) => void} gives the place back
     */
    admit(now = Date.now()) {
      renew(now);
      const { concurrency, requestsPerMinute, tokensPerDay, usdPerDay } = limits;
      const used = (/** @type {string} */ code, /** @type {string} */ what) => {
        const dfp = { resets_at: new Date(spent.until).toISOString() };
        return new Refusal(429, code, `the key "${name}" has used up its ${what} of this day`, {
          retryAfterMs: spent.until - now,
          retry: false,
          dfp,
        });
      };
      if (tokensPerDay !== undefined && spent.tokens >= tokensPerDay) {
        throw used("token_budget_exceeded", `${tokensPerDay} tokens`);
      }
      if (usdPerDay !== undefined && spent.usd >= usdPerDay)
        throw used("cost_budget_exceeded", `${usdPerDay} US dollars`);
      if (concurrency !== undefined && running >= concurrency) {
        const message = `the key "${name}" has ${running} calls under way, which are all it may have: wait for one to end`;
        throw new Refusal(429, "concurrency_limit_exceeded", message, { retryAfterMs: 1000 });
      }
      if (requestsPerMinute !== undefined) {
        begun = begun.filter((at) => at > now - MINUTE);
        const oldest = begun[begun.length - requestsPerMinute];
        if (oldest !== undefined) {
          const message = `the key "${name}" has made its ${requestsPerMinute} requests of this minute`;
          throw new Refusal(429, "rate_limit_exceeded", message, { retryAfterMs: oldest + MINUTE - now });
        }
        begun.push(now);
      }
      running++;
      let open = true;
      return ({ tokens = 0, usd = 0 }) => {
        if (!open) return;
        open = false;
        running--;
        renew(Date.now());
        spent.tokens += tokens;
        spent.usd += usd;
      };
    },
  };
}

/** @typedef {ReturnType<typeof createKey>} Key */

/**
 * @param {object} parts
 * @param {string | undefined} parts.token the gateway's own; `undefined`: everybody who gets here may ask
 * @param {readonly { name: string, token: string, limits?: Limits | undefined }[]} parts.keys
 * @param {Limits} parts.limits of every key that has none of its own
 */
function createKeys({ token, keys, limits }) {
  const own = createKey(OWN_KEY, limits);
  const all = [
    ...(token === undefined ? [] : [{ hash: hashOf(token), key: own }]),
    ...keys.map(({ name, token: secret, limits: its }) => ({
      hash: hashOf(secret),
      key: createKey(name, { ...limits, ...its }),
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
  };
}

module.exports = { OWN_KEY, createKeys };
