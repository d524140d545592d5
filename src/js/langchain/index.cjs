"use strict";

/** The entry `deep-factor-providers/langchain` for `require`: as index.mjs, over LangChain's CommonJS build. */

// First: without LangChain it says what to install.
const factories = require("../index.cjs");
const { createChatModels } = require("./chat-models.cjs");
const { partsOf } = require("./parts.cjs");

module.exports = createChatModels(
  partsOf([
    require("@langchain/core/language_models/chat_models"),
    require("@langchain/core/messages"),
    require("@langchain/core/outputs"),
    require("@langchain/core/output_parsers"),
    require("@langchain/core/runnables"),
    require("@langchain/core/utils/json_schema"),
    require("@langchain/core/utils/function_calling"),
  ]),
  factories,
);
