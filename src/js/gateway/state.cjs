"use strict";

/**
 * Whether the CLIs behind a gateway could answer. In: its providers. Out: of each, whether it is there and logged in, as far as it tells
 * without being asked anything that is billed.
 *
 * @import { HealthReport } from "../../../index.js"
 * @import { Provider } from "./models.cjs"
 *
 * @typedef {object} State
 * @property {string} id what the gateway calls the provider
 * @property {boolean} [installed] none: it tells nothing, as a list of several
 * @property {boolean | "unknown"} [authenticated]
 * @property {string} [version]
 * @property {{ message: string, hint?: string }[]} problems what is in the way of an answer
 */

const { adviceFor } = require("./advice.cjs");

/** How long what was found holds, ms: each look starts the CLIs. */
const HOLDS = 10_000;

/** @param {Readonly<Record<string, Provider>>} providers */
function createState(providers) {
  /** @type {Promise<State[]> | undefined} */
  let found;
  let at = 0;

  return {
    /** @returns {Promise<State[]>} in the order of the providers */
    look() {
      if (found !== undefined && Date.now() - at < HOLDS) return found;
      at = Date.now();
      found = Promise.all(Object.entries(providers).map(([id, provider]) => stateOf(id, provider)));
      return found;
    },
  };
}

/** @param {string} id @param {Provider} provider @returns {Promise<State>} */
async function stateOf(id, provider) {
  const { health } = /** @type {{ health?: (options: object) => Promise<HealthReport> }} */ (provider);
  if (health === undefined) return { id, problems: [] };
  try {
    const { installed, authenticated, version, problems } = await health.call(provider, { level: "auth" });
    const errors = problems.filter(({ severity }) => severity === "error");
    return {
      id,
      installed,
      authenticated,
      ...(version === undefined ? {} : { version }),
      problems: errors.map(({ message, hint }) => ({ message, ...adviceOf(hint) })),
    };
  } catch (error) {
    return { id, problems: [{ message: error instanceof Error ? error.message : String(error) }] };
  }
}

/** @param {string} hint */
function adviceOf(hint) {
  const own = adviceFor(hint);
  return own === undefined ? {} : { hint: own };
}

module.exports = { createState };
