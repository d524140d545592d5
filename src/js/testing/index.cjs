"use strict";

/** The entry `deep-factor-providers/testing` for `require`. */

const { createTesting } = require("./testing.cjs");
const { loadNative } = require("../load.cjs");
const { zod3Converter } = require("../tools.cjs");

/** LangChain's classes, where it is installed. */
function loadLangChain() {
  try {
    const { AIMessage } = require("@langchain/core/messages");
    const schemas = /** @type {{ toJsonSchema?: import("../tools.cjs").ToJsonSchema }} */ (
      require("@langchain/core/utils/json_schema")
    );
    if (schemas.toJsonSchema) return { AIMessage, toJsonSchema: schemas.toJsonSchema };
    const { convertToOpenAIFunction } = require("@langchain/core/utils/function_calling");
    return { AIMessage, toJsonSchema: zod3Converter(convertToOpenAIFunction) };
  } catch {
    return { AIMessage: null, toJsonSchema: null };
  }
}

module.exports = createTesting({ load: () => loadNative(), ...loadLangChain() });
