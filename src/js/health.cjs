"use strict";

/**
 * In: a native provider, or providers, and how far to look. Out: reports. A CLI that is missing, logged out or silent is a
 * report; only a misuse, an abort or a closed provider rejects.
 *
 * @import { HealthLevel, HealthOptions, HealthReport } from "../../index.js"
 * @import { NativeProvider } from "./native.cjs"
 *
 * @typedef {{ health(options?: HealthOptions): Promise<HealthReport> }} Checkable
 */

const { fault, guard, unwrap } = require("./errors.cjs");
const { describe, readCallOptions, workerEnv } = require("./options.cjs");
const { onAbort } = require("./signals.cjs");

const LEVELS = /** @type {const} */ (["command", "version", "auth", "request"]);

/** How many providers are looked at at a time: each look starts a process, and some CLIs take seconds to say their version. */
const AT_A_TIME = 4;

/**
 * @param {unknown} options
 * @returns {{ level: HealthLevel, signal?: AbortSignal | undefined }}
 */
function readHealthOptions(options) {
  const { signal } = readCallOptions(options);
  const { level = "auth" } = /** @type {{ level?: unknown }} */ (options ?? {});
  const known = LEVELS.find((name) => name === level);
  if (known === undefined) {
    const names = LEVELS.map((name) => `"${name}"`).join(", ");
    throw fault("INVALID_OPTION", `level must be one of ${names}, got ${describe(level)}`);
  }
  return { level: known, signal };
}

/**
 * @param {NativeProvider} engine
 * @param {unknown} options
 * @returns {Promise<HealthReport>}
 */
async function health(engine, options) {
  const { level, signal } = readHealthOptions(options);
  if (signal?.aborted) throw signal.reason;
  /** @type {ReturnType<NativeProvider["health"]> | undefined} */
  let look;
  // Before anything is begun: a signal that can't be listened to leaves nothing behind.
  const unlisten = onAbort(signal, () => look?.cancel());
  try {
    look = engine.health(JSON.stringify(level), workerEnv());
    const answer = await guard(look.result());
    if (signal?.aborted) throw signal.reason;
    return /** @type {HealthReport} */ (unwrap(answer));
  } finally {
    unlisten();
  }
}

/**
 * @param {unknown} providers
 * @param {unknown} options
 * @param {() => Checkable[]} everyKind makes one provider of each built-in kind
 * @returns {Promise<HealthReport[]>} in the order of the providers
 */
async function checkHealth(providers, options, everyKind) {
  const asked = readHealthOptions(options);
  const list = providers === undefined ? everyKind() : requireCheckable(providers);
  /** @type {HealthReport[]} */
  const reports = [];
  let next = 0;
  const work = async () => {
    for (let index = next++; index < list.length; index = next++) {
      reports[index] = await /** @type {Checkable} */ (list[index]).health(asked);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_A_TIME, list.length) }, work));
  return reports;
}

/**
 * @param {unknown} providers
 * @returns {Checkable[]}
 */
function requireCheckable(providers) {
  if (!Array.isArray(providers)) {
    throw fault("INVALID_OPTION", `providers must be an array of providers, got ${describe(providers)}`);
  }
  for (const [index, provider] of providers.entries()) {
    if (typeof provider?.health !== "function") {
      throw fault("INVALID_OPTION", `providers[${index}] must have a method \`health\`, got ${describe(provider)}`);
    }
  }
  return providers;
}

module.exports = { checkHealth, health };
