"use strict";

/**
 * The entry for `require`: as index.mjs, with LangChain's CommonJS build.
 *
 * @import { ToJsonSchema } from "./tools.cjs"
 */

const { createCore } = require("./core.cjs");
const { explain } = require("./langchain.cjs");
const { loadNative } = require("./load.cjs");
const { zod3Converter } = require("./tools.cjs");

function loadLangChain() {
  try {
    const messages = require("@langchain/core/messages");
    const { AIMessage } = messages;
    const schemas = /** @type {{ toJsonSchema?: ToJsonSchema }} */ (require("@langchain/core/utils/json_schema"));
    if (schemas.toJsonSchema) return { AIMessage, messages, toJsonSchema: schemas.toJsonSchema };
    const { convertToOpenAIFunction } = require("@langchain/core/utils/function_calling");
    return { AIMessage, messages, toJsonSchema: zod3Converter(convertToOpenAIFunction) };
  } catch (error) {
    throw explain(error);
  }
}

module.exports = createCore({ native: loadNative(), ...loadLangChain() });
