"use strict";

/**
 * In: a folder. Out: a `CheckpointStore` with a file for each run. The files are the native side's (`src/record/checkpoint.rs`).
 *
 * @import { CheckpointStore } from "../../index.js"
 */

const { builtin } = require("./builtin.cjs");
const { fault, guard, unwrap } = require("./errors.cjs");
const { requireString } = require("./options.cjs");

const { resolve } = builtin("node:path");

/** @param {typeof import("./native.cjs")} native */
function createFileCheckpoints(native) {
  /**
   * @param {unknown} options
   * @returns {CheckpointStore}
   */
  return (options) => {
    const { dir, ...rest } = /** @type {{ dir?: unknown }} */ (options ?? {});
    for (const name of Object.keys(rest)) throw fault("INVALID_OPTION", `unknown option "${name}"; allowed: dir`);
    const folder = requireString("dir", dir);
    if (folder.trim() === "") throw fault("INVALID_OPTION", "dir must not be empty");
    const files = new native.NativeCheckpoints(resolve(folder));
    /** @param {string} runId */
    const requireRunId = (runId) => {
      if (typeof runId !== "string" || !native.isRunId(runId)) throw notARunId(runId);
      return runId;
    };
    return {
      async load(runId) {
        const { result, ...loaded } = /** @type {any} */ (unwrap(await guard(files.load(requireRunId(runId)))));
        return result === null ? loaded : { ...loaded, result };
      },
      // Without entries, too: whose file it is now is asked, though the lock of the operating system needs no renewal.
      async append(runId, entries, { token }) {
        unwrap(await guard(files.append(runId, token, [...entries])));
      },
      async finish(runId, result, { token }) {
        unwrap(await guard(files.finish(runId, token, result)));
      },
    };
  };
}

/** @param {unknown} runId */
function notARunId(runId) {
  const allowed = "1 to 128 letters, digits and any of ._:@-, the first a letter or a digit";
  return fault("INVALID_OPTION", `runId must be ${allowed}; got ${JSON.stringify(runId) ?? typeof runId}`);
}

module.exports = { createFileCheckpoints, notARunId };
