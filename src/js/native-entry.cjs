"use strict";

/** The entry `deep-factor-providers/native`: the package without LangChain. Answers are AIMessage-shaped plain objects. */

const native = require("./native.cjs");
const { createCore } = require("./core.cjs");

module.exports = createCore({ native, AIMessage: null, toJsonSchema: null });
