"use strict";

/**
 * In: the tools that are bound to a chat model. Out: the same in OpenAI's form, plain data: what LangChain shows in traces and looks for in a
 * model that is bound already, and what does not change afterwards.
 *
 * @import { ToJsonSchema } from "../tools.cjs"
 */

const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { encodeTools } = require("../tools.cjs");
const { compact } = require("./fields.cjs");

/**
 * @param {any[]} tools
 * @param {ToJsonSchema} toJsonSchema
 * @returns {object[]}
 */
function formatTools(tools, toJsonSchema) {
  if (Array.isArray(tools)) tools.forEach(refuseServerTool);
  /** @type {{ name: string, description?: string, schema: object }[]} */
  const specs = JSON.parse(encodeTools(tools, toJsonSchema));
  return specs.map(({ name, description, schema }) => ({
    type: "function",
    function: compact({ name, description, parameters: schema }),
  }));
}

/**
 * A tool that an API runs itself has a type of its own and no arguments; a CLI would be offered one that does nothing.
 *
 * @param {any} tool
 * @param {number} index
 */
function refuseServerTool(tool, index) {
  if (typeof tool?.type !== "string" || tool.type === "function" || typeof tool.invoke === "function") return;
  if ([tool.schema, tool.parameters, tool.inputSchema, tool.input_schema].some((schema) => schema)) return;
  throw fault(
    "INVALID_TOOL",
    `tools[${index}] is of type ${describe(tool.type)}, a tool that an API runs by itself: give tools that the app runs`,
  );
}

module.exports = { formatTools };
