"use strict";

/**
 * In: a chat model and a schema. Out: a runnable whose answer is a value of that schema.
 *
 * The value is the provider's (`outputSchema`: native or asked for in words, always validated) or the arguments of a call; a zod
 * schema then makes of it what it was written for, defaults and dates included.
 *
 * @import { ToJsonSchema } from "../tools.cjs"
 */

const { ProviderError, fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { argumentsParser, encodeTools } = require("../tools.cjs");

/**
 * @typedef {object} Parts of LangChain
 * @property {any} AIMessage
 * @property {any} RunnableLambda
 * @property {any} RunnablePassthrough
 * @property {any} RunnableSequence
 * @property {new (message: string, output?: string) => Error} OutputParserException
 * @property {ToJsonSchema} toJsonSchema
 */

const METHODS = ["jsonSchema", "functionCalling"];

/**
 * @param {Parts} parts
 * @param {any} model a chat model of ours
 * @param {unknown} outputSchema
 * @param {{ name?: string, method?: string, includeRaw?: boolean, strict?: boolean } | undefined} config
 */
function structured(parts, model, outputSchema, config = {}) {
  const { method = "jsonSchema", includeRaw = false, strict } = config;
  if (!METHODS.includes(method)) {
    throw fault(
      "INVALID_OPTION",
      `method must be "jsonSchema" or "functionCalling", got ${describe(method)}: JSON without a schema can't be asked for`,
    );
  }
  const { name, description, schema } = read(outputSchema, config.name, parts.toJsonSchema);
  const format = { ls_structured_output_format: { kwargs: { method }, schema } };
  const calls = method === "functionCalling";
  const llm = calls
    ? model.bindTools([{ name, description, schema }], { tool_choice: name, strict, ...format })
    : model.withConfig({ outputSchema: schema, ...format });
  const parser = parts.RunnableLambda.from(async (/** @type {any} */ message) =>
    parse(calls ? argumentsOf(message, name) : outputOf(message), outputSchema),
  ).withConfig({ runName: "StructuredOutputParser" });
  if (!includeRaw) return llm.pipe(parser).withConfig({ runName: "StructuredOutput" });

  const raw = parts.RunnableLambda.from((/** @type {any} */ input, /** @type {any} */ options) =>
    llm.invoke(input, options).catch((/** @type {unknown} */ error) => rejected(parts, error)),
  );
  const parsed = parts.RunnablePassthrough.assign({
    parsed: (/** @type {{ raw: unknown }} */ input, /** @type {any} */ options) => parser.invoke(input.raw, options),
  }).withFallbacks({ fallbacks: [parts.RunnablePassthrough.assign({ parsed: () => null })] });
  return parts.RunnableSequence.from([{ raw }, parsed]).withConfig({ runName: "StructuredOutputRunnable" });

  /**
   * @param {{ text: string } | { value: unknown }} found
   * @param {unknown} validator
   */
  async function parse(found, validator) {
    const text = "text" in found ? found.text : JSON.stringify(found.value);
    let value;
    try {
      value = "text" in found ? JSON.parse(found.text) : found.value;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new parts.OutputParserException(`the answer is no JSON: ${reason}`, text);
    }
    const result = await argumentsParser({ schema: validator })?.(value);
    if (result === undefined) return value;
    if ("issues" in result) {
      throw new parts.OutputParserException(`the answer does not fit its schema: ${result.issues}`, text);
    }
    return result.value;
  }
}

/**
 * What a schema is called, what it says of itself, and what it is in JSON.
 *
 * @param {unknown} outputSchema zod, JSON Schema, or OpenAI's `{ name, parameters }`
 * @param {string | undefined} given
 * @param {ToJsonSchema} toJsonSchema
 * @returns {{ name: string, description: string, schema: Record<string, any> }}
 */
function read(outputSchema, given, toJsonSchema) {
  const it = /** @type {any} */ (outputSchema);
  const isFunction = typeof it?.name === "string" && typeof it.parameters === "object" && it.parameters !== null;
  const tool = { name: "output", schema: isFunction ? it.parameters : outputSchema };
  if (tool.schema === undefined || tool.schema === null) {
    throw fault("INVALID_OPTION", `the schema must be zod or JSON Schema, got ${describe(outputSchema)}`);
  }
  const [{ schema }] = JSON.parse(encodeTools([tool], toJsonSchema));
  const title = typeof schema.title === "string" ? schema.title.replaceAll(/[^\w-]+/g, "_") : undefined;
  return {
    name: given ?? (isFunction ? it.name : title) ?? "extract",
    description: (isFunction ? it.description : schema.description) ?? "A function available to call.",
    schema,
  };
}

/**
 * The value of an answer by a schema; of a provider that knows of none, the text that may hold it.
 *
 * @param {any} message
 * @returns {{ text: string } | { value: unknown }}
 */
function outputOf(message) {
  const metadata = message.response_metadata ?? {};
  if ("structured_output" in metadata) return { value: metadata.structured_output };
  return { text: typeof message.content === "string" ? message.content : JSON.stringify(message.content) };
}

/**
 * @param {any} message
 * @param {string} name
 * @returns {{ text: string } | { value: unknown }}
 */
function argumentsOf(message, name) {
  const call = message.tool_calls?.find((/** @type {{ name: string }} */ one) => one.name === name);
  return call === undefined ? { text: String(message.content) } : { value: call.args };
}

/**
 * The answer that did not fit, for who wants it raw; any other failure stays one.
 *
 * @param {Parts} parts
 * @param {unknown} error
 */
function rejected(parts, error) {
  const failed = /** @type {any} */ (error);
  if (!ProviderError.isInstance(error) || failed.code !== "OUTPUT_INVALID") throw error;
  return new parts.AIMessage({ content: failed.partial?.text ?? "", response_metadata: { error: failed.toJSON() } });
}

module.exports = { structured };
