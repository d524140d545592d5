"use strict";

/**
 * In: the call option `outputSchema` as the caller wrote it: zod, or JSON Schema. Out: JSON Schema for the native side, which
 * checks it and holds the reply against it.
 *
 * @import { ToJsonSchema } from "./tools.cjs"
 */

const { fault } = require("./errors.cjs");
const { encodeSchema } = require("./tools.cjs");

/**
 * @param {unknown} options of a call, or of an agent
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {unknown} plain JSON; `undefined` where none is asked for
 */
function readOutputSchema(options, toJsonSchema) {
  if (typeof options !== "object" || options === null) return undefined;
  const { outputSchema } = /** @type {{ outputSchema?: unknown }} */ (options);
  if (outputSchema === undefined) return undefined;
  try {
    return JSON.parse(encodeSchema(outputSchema, "outputSchema", toJsonSchema));
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw fault("INVALID_OPTION", message.replace(" has a schema that", ""), error);
  }
}

module.exports = { readOutputSchema };
