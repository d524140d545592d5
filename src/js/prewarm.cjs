"use strict";

/**
 * In: the options of `prewarm()`, and the tools that are bound. Out: JSON of what is known of the next call.
 *
 * @import { PrewarmOptions } from "../../index.js"
 * @import { ToJsonSchema } from "./tools.cjs"
 */

const { fault } = require("./errors.cjs");
const { describe } = require("./options.cjs");
const { encodeTools } = require("./tools.cjs");

/**
 * @param {unknown} options
 * @param {string} bound JSON of the tools that are bound; those of the last call count where none are
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {string} `{"system": text?, "tools": [spec…]?}`
 */
function encodeKnown(options, bound, toJsonSchema) {
  const { system, tools } = readPrewarmOptions(options);
  const encoded = tools === undefined ? bound : encodeTools(tools, toJsonSchema);
  const fields = [
    ...(system === undefined ? [] : [`"system":${JSON.stringify(system)}`]),
    ...(tools === undefined && encoded === "[]" ? [] : [`"tools":${encoded}`]),
  ];
  return `{${fields.join(",")}}`;
}

/**
 * @param {unknown} options
 * @returns {{ system?: string | undefined, tools?: unknown }}
 */
function readPrewarmOptions(options) {
  if (options === undefined) return {};
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw fault("INVALID_OPTION", `the options of prewarm() must be an object, got ${describe(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (name !== "system" && name !== "tools") {
      throw fault("INVALID_OPTION", `prewarm() has no option "${name}": there are system and tools`);
    }
  }
  const { system, tools } = /** @type {{ [name in keyof PrewarmOptions]: unknown }} */ (options);
  if (system !== undefined && typeof system !== "string") {
    throw fault("INVALID_OPTION", `the option "system" of prewarm() must be a string, got ${describe(system)}`);
  }
  return { system, tools };
}

module.exports = { encodeKnown };
