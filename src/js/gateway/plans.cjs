"use strict";

/**
 * The windows of the plans behind a gateway, in the headers of its answers. In: what the answers of each provider have told. Out: headers of
 * what is known and still holds, in the vendor's own form where its clients read one. Nobody is asked anything for it.
 *
 * @import { Limit } from "./call.cjs"
 *
 * @typedef {"unified" | "codex"} PlanForm `unified`: as Anthropic's API tells claude. `codex`: as ChatGPT's tells codex.
 * @typedef {Limit & { at: number }} Told `at`: when it was told, ms since the epoch
 */

/** The most windows that are kept of a plan, and told: a plan has two or three. */
const MOST = 8;

/** The windows by their names in events, as Anthropic's API calls them (recordings of claude 2.1.332). */
const UNIFIED = new Map([
  ["five_hour", "5h"],
  ["seven_day", "7d"],
]);

/** The windows by their names in events, as ChatGPT's backend calls them, and their minutes (codex 0.169). */
const CODEX = new Map([
  ["five_hour", /** @type {const} */ (["primary", 300])],
  ["seven_day", /** @type {const} */ (["secondary", 10_080])],
]);

/** A name in a header: the path of a field, or a code. @param {string} text */
const word = (text) => text.replaceAll(/[^\w.[\]-]/g, "?").slice(0, 80);

/** @param {number} at ms since the epoch */
const isoOf = (at) => (Number.isFinite(at) && Math.abs(at) < 8.64e15 ? new Date(at).toISOString() : undefined);

/** @param {number | undefined} at ms since the epoch */
const secondsOf = (at) => (at === undefined || isoOf(at) === undefined ? undefined : String(Math.ceil(at / 1000)));

/** @typedef {ReturnType<typeof createPlans>} Plans */

function createPlans() {
  /** What was told last of each plan: two providers of one CLI may have two logins. @type {Map<string, Map<string, Told>>} */
  const plans = new Map();

  /** What was told of a window that is over says nothing of the one that has begun. @param {Limit} limit */
  const holds = ({ resetsAt }) => resetsAt !== undefined && resetsAt > Date.now();

  return {
    /**
     * Takes note of a window as soon as it is told: of two answers, the one that ends last need not be the newer. One without an end could
     * not be forgotten.
     *
     * @param {string} plan
     * @param {Limit} limit
     */
    note(plan, limit) {
      if (typeof limit.limitType !== "string" || !holds(limit)) return;
      const known = plans.get(plan) ?? new Map();
      known.delete(limit.limitType);
      known.set(limit.limitType, { ...limit, at: Date.now() });
      for (const [name, one] of known) if (known.size > MOST || !holds(one)) known.delete(name);
      plans.set(plan, known);
    },

    /** What holds of all plans, in the order in which they were told of first. */
    list: () =>
      [...plans].flatMap(([plan, known]) => [...known.values()].filter(holds).map((told) => ({ plan, ...told }))),

    /**
     * @param {PlanForm | undefined} form
     * @param {string} plan
     * @returns {Record<string, string>}
     */
    headers(form, plan) {
      const known = [...(plans.get(plan)?.values() ?? [])].filter(holds);
      const headers = known.flatMap((limit) => [...own(limit), ...vendors(form, limit)]);
      const last = known.at(-1);
      if (form === "unified" && last !== undefined) headers.push(...representative(last));
      const told = headers.filter(([, value]) => value !== undefined);
      return /** @type {Record<string, string>} */ (Object.fromEntries(told));
    },
  };
}

/** @typedef {[name: string, value: string | undefined]} Header */

/** @param {number | undefined} utilization */
const share = (utilization) => (utilization === undefined ? undefined : String(Number(utilization)));

/** @param {Limit} limit @returns {Header[]} */
function own({ limitType = "", status, resetsAt, utilization }) {
  const name = `x-dfp-plan-${limitType
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, 40)}`;
  return [
    [`${name}-status`, word(String(status))],
    [`${name}-utilization`, share(utilization)],
    [`${name}-resets-at`, resetsAt === undefined ? undefined : isoOf(resetsAt)],
  ];
}

/** @param {PlanForm | undefined} form @param {Limit} limit @returns {Header[]} */
function vendors(form, { limitType = "", status, resetsAt, utilization }) {
  const unified = UNIFIED.get(limitType);
  if (form === "unified" && unified !== undefined) {
    const name = `anthropic-ratelimit-unified-${unified}`;
    return [
      [`${name}-status`, word(String(status))],
      [`${name}-utilization`, share(utilization)],
      [`${name}-reset`, secondsOf(resetsAt)],
    ];
  }
  const codex = CODEX.get(limitType);
  if (form === "codex" && codex !== undefined && utilization !== undefined) {
    const [which, minutes] = codex;
    return [
      [`x-codex-${which}-used-percent`, String(Math.round(utilization * 1000) / 10)],
      [`x-codex-${which}-window-minutes`, String(minutes)],
      [`x-codex-${which}-reset-at`, secondsOf(resetsAt)],
    ];
  }
  return [];
}

/** The window of which the CLI itself has spoken, which it tells last: without it, claude tells a window without a name. @param {Limit} limit @returns {Header[]} */
const representative = ({ limitType = "", status, resetsAt }) => [
  ["anthropic-ratelimit-unified-status", word(String(status))],
  ["anthropic-ratelimit-unified-reset", secondsOf(resetsAt)],
  ["anthropic-ratelimit-unified-representative-claim", word(limitType)],
];

module.exports = { createPlans, isoOf, word };
