"use strict";

/**
 * In: the tools a caller binds (LangChain's, or plain objects). Out: JSON of `[{name, description, schema}]` for the native
 * side, the schema being JSON Schema. Made once per `bindTools`, so what was bound can't change afterwards.
 */

const { ProviderError, fault } = require("./errors.cjs");
const { describe } = require("./options.cjs");

/**
 * Turns a zod schema into JSON Schema; `undefined` where it can't.
 *
 * @typedef {(schema: object) => unknown} ToJsonSchema
 */

/**
 * @param {unknown} tools
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {string}
 */
function encodeTools(tools, toJsonSchema) {
  if (!Array.isArray(tools)) throw fault("INVALID_TOOL", `tools must be an array, got ${describe(tools)}`);
  /** @type {Map<string, number>} */
  const seen = new Map();
  const encoded = Array.from(tools, (tool, index) => {
    const { name, json } = encodeTool(tool, `tools[${index}]`, toJsonSchema);
    const earlier = seen.get(name);
    if (earlier !== undefined) {
      throw fault("INVALID_TOOL", `tools[${index}] has the name ${JSON.stringify(name)}, as tools[${earlier}] has`);
    }
    seen.set(name, index);
    return json;
  });
  return `[${encoded.join(",")}]`;
}

/**
 * @param {unknown} tool
 * @param {string} at
 * @param {ToJsonSchema | null} toJsonSchema
 */
function encodeTool(tool, at, toJsonSchema) {
  // A LangChain tool may be a function with properties; anything else that isn't an object has none.
  if ((typeof tool !== "object" && typeof tool !== "function") || tool === null) {
    throw fault("INVALID_TOOL", `${at} must be a tool, got ${describe(tool)}`);
  }
  let where = at;
  try {
    const wrapper = /** @type {Record<string, unknown>} */ (tool);
    const wrapped = wrapper.type === "function" && typeof wrapper.function === "object" && wrapper.function !== null;
    const it = /** @type {Record<string, unknown>} */ (wrapped ? wrapper.function : tool);
    const { name, description } = it;
    if (typeof name !== "string" || name === "") {
      throw fault("INVALID_TOOL", `${at} has no name: it must be a string that is not empty, got ${describe(name)}`);
    }
    where = `${at} (${JSON.stringify(name)})`;
    if (description !== undefined && typeof description !== "string") {
      throw fault("INVALID_TOOL", `${where} has a description that is not a string: ${describe(description)}`);
    }
    /** @type {string | undefined} */
    const schema = JSON.stringify(toSchema(it.schema ?? it.parameters, where, toJsonSchema));
    if (schema === undefined) throw fault("INVALID_TOOL", `${where} has a schema that is nothing in JSON`);
    return {
      name,
      json: `{${JSON.stringify({ name, description }).slice(1, -1)},"schema":${schema}}`,
    };
  } catch (error) {
    if (ProviderError.isInstance(error)) throw error;
    const reason = (error instanceof Error ? error.message : String(error)).split("\n", 1)[0];
    throw fault("INVALID_TOOL", `${where} has a schema that can't be written as JSON Schema: ${reason}`, error);
  }
}

/**
 * @param {unknown} schema
 * @param {string} where
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {object}
 */
function toSchema(schema, where, toJsonSchema) {
  if (schema === undefined || schema === null) return { type: "object", properties: {} };
  if ((typeof schema !== "object" && typeof schema !== "function") || Array.isArray(schema)) {
    throw fault("INVALID_TOOL", `${where} has a schema that is neither zod nor JSON Schema: ${describe(schema)}`);
  }
  if (!isValidator(schema)) {
    if (typeof schema === "object") return checkedJsonSchema(schema, where);
    throw fault("INVALID_TOOL", `${where} has a schema that is neither zod nor JSON Schema: a function`);
  }
  const converted = toJsonSchema?.(schema) ?? ownJsonSchema(schema);
  if (typeof converted === "object" && converted !== null && converted !== schema) return converted;
  throw fault(
    "INVALID_TOOL",
    `${where} has a schema that can't be turned into JSON Schema: give it JSON Schema instead`,
  );
}

/** Words of JSON Schema of which at least one stands at the top of any schema; those with `$` or `x-` count as well. */
const KEYWORDS = new Set([
  ...["type", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "items"],
  ...[
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "enum",
    "const",
    "definitions",
    "title",
    "description",
    "default",
    "nullable",
  ],
  ...["minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "examples"],
]);

/**
 * Two mistakes that would reach the model as a schema which allows anything: fields where a schema belongs, as zod or as words.
 *
 * @param {object} schema
 * @param {string} where
 */
function checkedJsonSchema(schema, where) {
  const entries = Object.entries(schema);
  if (entries.length === 0 || entries.some(([word]) => KEYWORDS.has(word) || /^(\$|x-)/.test(word))) return schema;
  const names = entries.map(([name]) => name);
  const shown = `${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}`;
  const isShape = entries.every(([, value]) => typeof value === "object" && value !== null && isValidator(value));
  if (!isShape && !entries.every(([, value]) => isField(value))) return schema;
  throw fault(
    "INVALID_TOOL",
    isShape
      ? `${where} has fields of zod (${shown}) where a schema belongs: wrap them in z.object({ … })`
      : `${where} has a schema that is no JSON Schema, for "${names[0]}" is no word of it: write ` +
          `{ type: "object", properties: { ${shown}: … } }`,
  );
}

/**
 * The name of a type, or a schema itself.
 *
 * @param {unknown} value
 */
function isField(value) {
  if (typeof value !== "object" || value === null) return typeof value === "string";
  return isValidator(value) || Object.keys(value).some((word) => KEYWORDS.has(word));
}

/**
 * zod 3 (`_def` and `parse`), zod 4 (`_zod`), or any library of the Standard Schema kind (`~standard`), as opposed to JSON
 * Schema, which is plain data.
 *
 * @param {object} schema
 */
function isValidator(schema) {
  return "_zod" in schema || "~standard" in schema || ("_def" in schema && "parse" in schema);
}

/**
 * What a schema says of itself: zod 4's method, or Standard JSON Schema.
 *
 * @param {object} schema
 * @returns {unknown}
 */
function ownJsonSchema(schema) {
  const own = /** @type {{ toJSONSchema?: unknown, "~standard"?: { jsonSchema?: { input?: unknown } } }} */ (schema);
  if (typeof own.toJSONSchema === "function") return own.toJSONSchema({ io: "input" });
  const standard = own["~standard"]?.jsonSchema;
  return typeof standard?.input === "function" ? standard.input({ target: "draft-07" }) : undefined;
}

/**
 * The converter of LangChain 0.3 before it had `toJsonSchema`: it knows zod 3, and makes nothing of zod 4 without saying so.
 *
 * @param {(tool: { name: string, description: string, schema: object }) => { parameters?: unknown }} convertToOpenAIFunction
 * @returns {ToJsonSchema}
 */
function zod3Converter(convertToOpenAIFunction) {
  return (schema) =>
    "_zod" in schema ? undefined : convertToOpenAIFunction({ name: "tool", description: "", schema }).parameters;
}

module.exports = { encodeTools, zod3Converter };
