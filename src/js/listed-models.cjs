"use strict";

/**
 * In: a native provider. Out: the models that its login has.
 *
 * @import { ProviderModel } from "../../index.js"
 * @import { NativeProvider } from "./native.cjs"
 */

const { fault, guard, unwrap } = require("./errors.cjs");
const { describe, readCallOptions, workerEnv } = require("./options.cjs");
const { unlessAborted } = require("./signals.cjs");

/**
 * @param {NativeProvider} engine
 * @param {unknown} options
 * @returns {Promise<ProviderModel[]>}
 */
async function listModels(engine, options) {
  const { signal } = readOptions(options);
  if (signal?.aborted) throw signal.reason;
  const listed = guard(engine.models(workerEnv()));
  // Whoever has left does not hear of its failure.
  listed.catch(() => {});
  return /** @type {ProviderModel[]} */ (unwrap(/** @type {string} */ (await unlessAborted(listed, signal))));
}

/** @param {unknown} options */
function readOptions(options) {
  const unknown = Object.keys(options ?? {}).find((name) => name !== "signal");
  if (unknown !== undefined) throw fault("INVALID_OPTION", `models() has no option "${unknown}": there is signal`);
  if (options !== undefined && (typeof options !== "object" || options === null)) {
    throw fault("INVALID_OPTION", `the options of models() must be an object, got ${describe(options)}`);
  }
  return readCallOptions(options);
}

module.exports = { listModels };
