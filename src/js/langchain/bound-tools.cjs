"use strict";

/**
 * In: the tools that are bound to a chat model. Out: the same in OpenAI's form, plain data: what LangChain shows in traces and looks for in a
 * model that is bound already, and what does not change afterwards.
 *
 * @import { ToJsonSchema } from "../tools.cjs"
 */

const { encodeTools } = require("../tools.cjs");
const { compact } = require("./fields.cjs");

/**
 * @param {any[]} tools
 * @param {ToJsonSchema} toJsonSchema
 * @returns {object[]}
 */
function formatTools(tools, toJsonSchema) {
  /** @type {{ name: string, description?: string, schema: object }[]} */
  const specs = JSON.parse(encodeTools(tools, toJsonSchema));
  return specs.map(({ name, description, schema }) => ({
    type: "function",
    function: compact({ name, description, parameters: schema }),
  }));
}

module.exports = { formatTools };
