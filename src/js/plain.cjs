"use strict";

/** Out: the package without LangChain, the same objects for `import` and `require`. Answers are AIMessage-shaped plain objects. */

const { createCore } = require("./core.cjs");
const { loadNative } = require("./load.cjs");

/** @type {ReturnType<typeof createCore> | undefined} */
let plain;

/**
 * Made when asked for, for the reason stated in load.cjs.
 *
 * @param {string} [url] `import.meta.url` of an ES module that asks
 */
function plainCore(url) {
  plain ??= createCore({ native: loadNative(url), AIMessage: null, toJsonSchema: null });
  return plain;
}

module.exports = { plainCore };
