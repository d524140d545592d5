"use strict";

/** In: LangChain's modules, of one build. Out: what of them a chat model is made of. */

const { zod3Converter } = require("../tools.cjs");

/**
 * @param {any[]} modules
 * @returns {any} all their names; where there is no `toJsonSchema` yet, the one that makes do
 */
function partsOf(modules) {
  const parts = Object.assign({}, ...modules);
  return { ...parts, toJsonSchema: parts.toJsonSchema ?? zod3Converter(parts.convertToOpenAIFunction) };
}

module.exports = { partsOf };
