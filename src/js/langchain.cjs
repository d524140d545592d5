"use strict";

/** In: the error of an import of LangChain. Out: where it is missing, an error that says what to do. */

const MISSING = new Set(["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND", "ERR_PACKAGE_PATH_NOT_EXPORTED"]);

/**
 * @param {unknown} error
 * @returns {boolean}
 */
function isMissing(error) {
  return error instanceof Error && "code" in error && MISSING.has(String(error.code));
}

/**
 * What an import of `@langchain/core/messages` failed with, with advice; an error of another kind stays itself.
 *
 * @param {unknown} error
 * @returns {unknown}
 */
function explain(error) {
  if (!isMissing(error)) return error;
  const message =
    'deep-factor-providers makes its answers of @langchain/core (>=0.3 <2), which is not installed: run "npm install ' +
    '@langchain/core", or import "deep-factor-providers/native", which gives plain JSON instead.';
  return Object.assign(new Error(message, { cause: error }), { code: "ERR_MODULE_NOT_FOUND" });
}

module.exports = { explain };
