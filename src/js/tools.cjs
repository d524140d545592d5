"use strict";

/**
 * In: the tools a caller binds (LangChain's, or plain objects). Out: JSON of `[{name, description, schema}]` for the native
 * side, the schema being JSON Schema. Made once per `bindTools`, so what was bound can't change afterwards.
 */

const { builtin } = require("./builtin.cjs");
const { ProviderError, fault } = require("./errors.cjs");
const { describe } = require("./options.cjs");

/**
 * Turns a zod schema into JSON Schema; `undefined` where it can't.
 *
 * @typedef {(schema: object, params?: object) => unknown} ToJsonSchema
 */

/** What JavaScript's strings can hold and no other's. */
const LONE_SURROGATE = /\p{Surrogate}/u;

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
    if (!wrapped) refuseServerTool(wrapper, at);
    const { name, description } = it;
    if (typeof name !== "string" || name === "") {
      throw fault("INVALID_TOOL", `${at} has no name: it must be a string that is not empty, got ${describe(name)}`);
    }
    where = `${at} (${JSON.stringify(name)})`;
    if (LONE_SURROGATE.test(name)) {
      throw fault(
        "INVALID_TOOL",
        `${where} has half a character in its name (a lone surrogate), which no model can write`,
      );
    }
    if (description !== undefined && typeof description !== "string") {
      throw fault("INVALID_TOOL", `${where} has a description that is not a string: ${describe(description)}`);
    }
    /** @type {string | undefined} */
    const schema = JSON.stringify(toSchema(schemaOf(it, where), where, toJsonSchema));
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
 * A schema that stands for itself, as JSON text.
 *
 * @param {unknown} schema zod, JSON Schema, or what a library puts around it
 * @param {string} where
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {string}
 */
function encodeSchema(schema, where, toJsonSchema) {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    throw fault("INVALID_TOOL", `${where} must be zod or JSON Schema, got ${describe(schema)}`);
  }
  try {
    return JSON.stringify(toSchema(unwrapSchema(schema), where, toJsonSchema));
  } catch (error) {
    if (ProviderError.isInstance(error)) throw error;
    const reason = (error instanceof Error ? error.message : String(error)).split("\n", 1)[0];
    throw fault("INVALID_TOOL", `${where} can't be written as JSON Schema: ${reason}`, error);
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
  const converted = "_zod" in schema ? zod4Schema(schema, toJsonSchema) : otherSchema(schema, toJsonSchema);
  if (typeof converted === "object" && converted !== null && converted !== schema) return converted;
  throw fault(
    "INVALID_TOOL",
    `${where} has a schema that can't be turned into JSON Schema: give it JSON Schema instead`,
  );
}

/**
 * A tool that an API runs itself has a type of its own and no arguments (Anthropic's `web_search_20250305`, OpenAI's
 * `web_search_preview`); a CLI would be offered one that does nothing. OpenAI calls `custom` what has a text for its argument.
 *
 * @param {Record<string, unknown>} tool
 * @param {string} at
 */
function refuseServerTool(tool, at) {
  const { type, name } = tool;
  if (typeof type !== "string" || type === "function") return;
  if (typeof tool.invoke === "function" || typeof tool.execute === "function") return;
  if (SCHEMAS.some((key) => tool[key] !== undefined && tool[key] !== null)) return;
  const where = typeof name === "string" ? `${at} (${JSON.stringify(name)})` : at;
  throw fault(
    "INVALID_TOOL",
    `${where} is of type ${describe(type)}, a tool that an API runs by itself: give tools that the app runs`,
  );
}

/** Where a tool has its schema: here and in LangChain; OpenAI; MCP and the AI SDK; Anthropic. */
const SCHEMAS = ["schema", "parameters", "inputSchema", "input_schema"];
/** What else a library might call it. */
const SUSPECTS =
  /^(json_?)?(args?|arguments|params|inputs?|properties)(_?schema)?$|^(args|params|json|tool)_?schema$|^(tool_?spec|function_?declarations?)$/i;

/** The schema of what a tool gives back (MCP, the AI SDK): no arguments. */
const OF_RESULTS = /^(output|result|returns?)(_?schema)?$/i;

/** What a tool has beside its arguments, and may look like some: what is said of it, and what a library keeps. */
const METADATA =
  /^(_?meta(_?data)?|annotations|extras?|examples?|(provider_?)?options|cache_?control|callbacks|config)$/i;

/** Words by which a schema is put together of others. */
const COMBINERS = ["oneOf", "anyOf", "allOf"];
/** What `type` may say in JSON Schema. */
const TYPES = new Set(["string", "number", "integer", "boolean", "array", "object", "null"]);

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * JSON Schema of an object, or what some library puts around one, by what only such a schema has.
 *
 * @param {object} value
 */
function isObjectSchema(value) {
  const schema = /** @type {Record<string, unknown>} */ (unwrapSchema(value));
  const { type, properties, $schema, $ref } = schema;
  const isNamed = typeof $schema === "string" || typeof $ref === "string";
  return type === "object" || isObject(properties) || isNamed || COMBINERS.some((word) => Array.isArray(schema[word]));
}

/**
 * Whether `value` is fields, each with its schema: what a `z.object` or `properties` is made of.
 *
 * @param {object} value
 */
function isFields(value) {
  const fields = Object.values(value);
  const isSchema = (/** @type {unknown} */ field) => {
    if (!isObject(field)) return false;
    const { type } = field;
    const isTyped = (Array.isArray(type) ? type : [type]).every((name) => TYPES.has(name));
    return isValidator(field) || isTyped || isObjectSchema(field) || Array.isArray(field.enum);
  };
  return !Array.isArray(value) && fields.length > 0 && fields.every(isSchema);
}

/**
 * Whether what a tool has as `key` is its arguments' schema, or holds it.
 *
 * @param {string} key
 * @param {unknown} value
 */
function holdsArguments(key, value) {
  if (!isObject(value)) return false;
  if (SUSPECTS.test(key) || isValidator(value)) return true;
  if (OF_RESULTS.test(key)) return false;
  if (isObjectSchema(value)) return true;
  if (METADATA.test(key)) return false;
  /** @param {[string, unknown]} member */
  const isWithin = ([name, inner]) =>
    (SCHEMAS.includes(name) || SUSPECTS.test(name)) &&
    isObject(inner) &&
    (isValidator(inner) || isObjectSchema(inner) || isFields(inner));
  return isFields(value) || Object.entries(value).some(isWithin);
}

/**
 * What `tool` has, and what its class gives it by getters.
 *
 * @param {object} tool
 * @returns {string[]}
 */
function keysOf(tool) {
  const keys = Object.keys(tool);
  for (let of = Object.getPrototypeOf(tool); of && Object.getPrototypeOf(of); of = Object.getPrototypeOf(of)) {
    const properties = Object.entries(Object.getOwnPropertyDescriptors(of));
    if (of !== Function.prototype) keys.push(...properties.flatMap(([key, { get }]) => (get ? [key] : [])));
  }
  return keys;
}

/**
 * @param {Record<string, unknown>} tool
 * @param {string} key
 */
function valueAt(tool, key) {
  try {
    return tool[key];
  } catch {
    // A getter that is not for us holds no schema.
    return undefined;
  }
}

/**
 * @param {Record<string, unknown>} tool
 * @param {string} where
 * @returns {unknown} `undefined` for a tool that has none
 */
function schemaOf(tool, where) {
  const name = SCHEMAS.find((key) => tool[key] !== undefined && tool[key] !== null);
  if (name !== undefined) return unwrapSchema(tool[name]);
  // Without a schema a tool is described as one without arguments, which shall not happen to one that has them elsewhere.
  const elsewhere = keysOf(tool).find((key) => holdsArguments(key, valueAt(tool, key)));
  if (elsewhere === undefined && typeof tool === "function") {
    throw fault("INVALID_TOOL", `${where} is a function without a schema: give a tool with its name and ${SCHEMAS[0]}`);
  }
  if (elsewhere === undefined) return undefined;
  throw fault(
    "INVALID_TOOL",
    `${where} has its arguments in "${elsewhere}", where they are not looked for: name it ${SCHEMAS.join(", ")}`,
  );
}

/**
 * What the AI SDK's `jsonSchema()` and Bedrock put around a schema.
 *
 * @param {unknown} schema
 */
function unwrapSchema(schema) {
  if (typeof schema !== "object" || schema === null) return schema;
  const { jsonSchema, json } = /** @type {{ jsonSchema?: unknown, json?: unknown }} */ (schema);
  // A promise of one can't be waited for: what it is then has no keywords of a schema, and is refused.
  if (typeof jsonSchema === "object" && jsonSchema !== null && !isValidator(schema) && !("then" in jsonSchema)) {
    return jsonSchema;
  }
  if (typeof json === "object" && json !== null && Object.keys(schema).length === 1) return json;
  return schema;
}

/** Keywords of JSON Schema of which at least one stands at the top of any schema; those with `$` or `x-` count as well. */
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
 * What would reach the model as a schema which allows anything: fields where a schema belongs, as zod or as JSON Schema, and whatever
 * some library puts around a schema.
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
  if (!isShape && !entries.every(([, value]) => isField(value))) {
    throw fault("INVALID_TOOL", `${where} has a schema of an unknown shape (${shown}): give it zod or JSON Schema`);
  }
  throw fault(
    "INVALID_TOOL",
    isShape
      ? `${where} has fields of zod (${shown}) where a schema belongs: wrap them in z.object({ … })`
      : `${where} has a schema that is not a JSON Schema, for "${names[0]}" is not one of its keywords: write ` +
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
  // What zod's own toJSONSchema gives is JSON Schema that can also validate.
  const isStandard = "~standard" in schema && !Object.hasOwn(schema, "$schema");
  return "_zod" in schema || isStandard || ("_def" in schema && "parse" in schema);
}

/**
 * What zod is asked for: the side that is written, on which a default need not be there, and `{}` for what JSON Schema has no
 * word for. A date is written as JSON writes it, and a BigInt is an integer, as zod 3's converters have both.
 */
const INPUT_SIDE = {
  io: "input",
  unrepresentable: "any",
  /** @param {{ zodSchema: { _zod?: { def?: { type?: string } } }, jsonSchema: Record<string, unknown> }} part */
  override({ zodSchema, jsonSchema }) {
    const type = zodSchema._zod?.def?.type;
    if (type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
    if (type === "bigint") Object.assign(jsonSchema, { type: "integer" });
  },
};

/**
 * Closes objects, as LangChain does: models keep to such a schema better, and some APIs ask for it. The parts of an intersection
 * don't know each other's fields, so a schema that has one is left as it is.
 *
 * @param {unknown} schema JSON Schema that zod has made
 */
function closeObjects(schema) {
  if (JSON.stringify(schema).includes('"allOf"')) return schema;
  /** @param {any} node */
  const close = (node) => {
    if (typeof node !== "object" || node === null) return;
    if (node.type === "object" && node.properties && !("additionalProperties" in node)) {
      node.additionalProperties = false;
    }
    for (const inner of [...Object.values(node.properties ?? {}), node.items]) close(inner);
    for (const inner of [...(node.anyOf ?? []), ...(node.oneOf ?? [])]) close(inner);
  };
  close(schema);
  return schema;
}

/**
 * zod 4: by its own converter. LangChain's looks into both sides of a schema first, which ends nowhere for one that holds
 * itself, and takes the result of a `preprocess` for what is written.
 *
 * @param {object} schema
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {unknown}
 */
function zod4Schema(schema, toJsonSchema) {
  const { toJSONSchema } = /** @type {{ toJSONSchema?: unknown }} */ (schema);
  if (typeof toJSONSchema === "function") return closeObjects(toJSONSchema.call(schema, INPUT_SIDE));
  // zod 4.0, 3.25 and mini: a schema has no method, and the function is in a module of its zod.
  const convert = zodConverter();
  if (convert !== undefined) return closeObjects(convert(schema, INPUT_SIDE));
  return toJsonSchema?.(schema, INPUT_SIDE);
}

/** @type {{ found: ((schema: object, params: object) => unknown) | undefined } | undefined} */
let zodCore;

/** `toJSONSchema` of the zod that LangChain brings, or of one that stands beside this package. */
function zodConverter() {
  zodCore ??= { found: findZodConverter() };
  return zodCore.found;
}

function findZodConverter() {
  // In a bundle in ESM format there is no `__filename`.
  const here = typeof __filename === "string" ? __filename : process.argv[1];
  if (here === undefined) return undefined;
  const { createRequire } = builtin("node:module");
  for (const near of [() => createRequire(here).resolve("@langchain/core/messages"), () => here]) {
    try {
      const { toJSONSchema } = createRequire(near())("zod/v4/core");
      if (typeof toJSONSchema === "function") return toJSONSchema;
    } catch {
      // Not there, or bundled.
    }
  }
  return undefined;
}

/**
 * zod 3, and whatever says its JSON Schema itself (Standard JSON Schema).
 *
 * @param {object} schema
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {unknown}
 */
function otherSchema(schema, toJsonSchema) {
  const converted = toJsonSchema?.(schema);
  if (converted !== undefined && converted !== null) return converted;
  const own = /** @type {{ "~standard"?: { jsonSchema?: { input?: unknown } } }} */ (schema);
  const standard = own["~standard"]?.jsonSchema;
  return typeof standard?.input === "function" ? standard.input({ target: "draft-07" }) : undefined;
}

/**
 * What checks a tool's arguments, and makes of them what the tool was written for: defaults filled in, strings turned into
 * dates. JSON Schema does neither.
 *
 * @param {object} tool
 * @returns {((args: unknown) => Promise<{ value: unknown } | { issues: string }>) | undefined} `undefined` where the schema only checks
 */
function argumentsParser(tool) {
  const it = /** @type {Record<string, unknown>} */ (tool);
  const name = SCHEMAS.find((key) => it[key] !== undefined && it[key] !== null);
  const schema = name === undefined ? undefined : /** @type {any} */ (it[name]);
  const validate = schema?.["~standard"]?.validate;
  if (typeof validate === "function") {
    return async (args) => {
      const result = await validate.call(schema["~standard"], args);
      return result.issues === undefined ? { value: result.value } : { issues: describeIssues(result.issues) };
    };
  }
  if (typeof schema?.safeParseAsync === "function") {
    return async (args) => {
      const result = await schema.safeParseAsync(args);
      return result.success ? { value: result.data } : { issues: describeIssues(result.error.issues) };
    };
  }
  // The AI SDK's.
  if (typeof schema?.validate === "function" && typeof schema.jsonSchema === "object") {
    return async (args) => {
      const result = await schema.validate(args);
      return result.success ? { value: result.value } : { issues: String(result.error?.message ?? result.error) };
    };
  }
  return undefined;
}

/**
 * @param {readonly { message: string, path?: readonly (PropertyKey | { key: PropertyKey })[] }[]} issues
 * @returns {string} as the native side tells mistakes: `/days: must be a number`
 */
function describeIssues(issues) {
  const lines = issues.slice(0, 5).map(({ message, path = [] }) => {
    const place = path.map((step) => `/${String(typeof step === "object" ? step.key : step)}`).join("");
    return place === "" ? message : `${place}: ${message}`;
  });
  return lines.join("; ");
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

module.exports = { argumentsParser, encodeSchema, encodeTools, zod3Converter };
