"use strict";

/**
 * In: the calls of an answer, and the tools they are of. Out: nothing, or the error that arguments do not fit.
 *
 * An API with a strict mode gives only calls that fit. A CLI has none, so with `strict` its calls are checked.
 */

const { fault, providerError } = require("../errors.cjs");

/**
 * @param {(new (schema: object) => { validate(value: unknown): { valid: boolean, errors: { instanceLocation: string, error: string }[] } }) | undefined} Validator
 *   of LangChain
 * @param {readonly { name: string, args: unknown }[] | undefined} calls
 * @param {readonly { function?: { name?: string, parameters?: object } }[] | undefined} tools
 */
function checkArguments(Validator, calls = [], tools = []) {
  if (Validator === undefined) {
    throw fault("INVALID_OPTION", "strict needs a newer @langchain/core, which has the validator: 0.3.58 or later");
  }
  for (const { name, args } of calls) {
    const schema = tools.find((tool) => tool.function?.name === name)?.function?.parameters;
    if (schema === undefined) continue;
    const { valid, errors } = new Validator(schema).validate(args);
    if (valid) continue;
    // The last says it of the innermost value; those before, of what it stands in.
    const { instanceLocation = "#", error = "" } = errors.at(-1) ?? {};
    throw providerError({
      category: "validation",
      code: "MALFORMED_RESPONSE",
      message: `the arguments of the call ${JSON.stringify(name)} do not fit its schema, at ${instanceLocation}: ${error}`,
      provider: "",
      shouldRetry: true,
      shouldFallback: true,
      attempts: 1,
    });
  }
}

module.exports = { checkArguments };
