"use strict";

/**
 * In: the settings of one call of the AI SDK. Out: the options of a provider's call, the tools to bind, and the AI SDK's warnings for
 * what the provider has nothing for. What a provider itself can't do comes from it, as `warning` events.
 *
 * @import { InvokeOptions, ToolInput } from "../../../index.js"
 * @import { CliCallOptions, CliWarning } from "./index.d.cts"
 *
 * @typedef {object} Settings
 * @property {InvokeOptions & Record<string, unknown>} options
 * @property {ToolInput[]} tools
 * @property {CliWarning[]} warnings
 * @property {boolean} json the answer is to be JSON
 * @property {string | undefined} instruction what the model is told in words
 * @property {boolean} whole text is known to be the answer only at the end
 */

const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { METADATA } = require("./words.cjs");

/** What no provider of ours takes for one call. */
const UNKNOWN = /** @type {const} */ (["topP", "topK", "presencePenalty", "frequencyPenalty", "seed"]);

/** Options of ours that one call may have, under `providerOptions.deepFactor`. */
const OWN = new Set(["timeout", "record", "reasoning", "serviceTier", "speed", "webSearch", "onUnsupported"]);

const JSON_ONLY = "Answer with one JSON value and nothing else: no prose, no code fence.";

/**
 * @param {CliCallOptions} call
 * @returns {Settings}
 */
function settingsOf(call) {
  /** @type {CliWarning[]} */
  const warnings = UNKNOWN.filter((feature) => call[feature] !== undefined && call[feature] !== null).map(
    (feature) => ({
      type: "unsupported",
      feature,
      details: "a provider takes it for all its calls, if at all: it is left out",
    }),
  );
  // The AI SDK names itself in every call.
  const headers = Object.keys(call.headers ?? {}).filter((name) => name.toLowerCase() !== "user-agent");
  if (headers.length > 0) {
    warnings.push({ type: "unsupported", feature: "headers", details: "a CLI makes its requests itself" });
  }
  const { toolChoice, responseFormat } = call;
  const tools = toolsOf(call.tools ?? [], warnings);
  const json = responseFormat?.type === "json";
  const schema = responseFormat?.type === "json" ? schemaOf(responseFormat) : undefined;
  if (json && schema === undefined) {
    warnings.push({
      type: "compatibility",
      feature: "responseFormat",
      details: "JSON without a schema is asked for in words",
    });
  }
  const forced = toolChoice?.type === "required" || toolChoice?.type === "tool";
  return {
    options: {
      onUnsupported: "warn",
      ...own(call),
      ...known({
        signal: call.abortSignal,
        outputSchema: schema,
        toolChoice: choice(toolChoice),
        maxOutputTokens: call.maxOutputTokens,
        temperature: call.temperature,
        stop: call.stopSequences?.length ? call.stopSequences : undefined,
        ...effort(call.reasoning),
      }),
    },
    tools,
    warnings,
    json,
    instruction: json && schema === undefined ? JSON_ONLY : undefined,
    // A reply that does not hold what was asked for is asked for again: what was said first is no part of the answer then.
    whole: json || forced,
  };
}

/**
 * @param {NonNullable<CliCallOptions["tools"]>} tools
 * @param {CliWarning[]} warnings
 * @returns {ToolInput[]}
 */
function toolsOf(tools, warnings) {
  return tools.flatMap((tool) => {
    if (tool.type !== "function") {
      const details = "only functions can be called: a CLI has no tools of another provider's";
      warnings.push({ type: "unsupported", feature: `the provider tool ${tool.id}`, details });
      return [];
    }
    const { name, description, inputSchema } = tool;
    if (tool.strict === true) {
      const details = "arguments are what the model wrote; the AI SDK checks them";
      warnings.push({ type: "unsupported", feature: `strict mode of the tool ${name}`, details });
    }
    if (tool.inputExamples?.length) {
      const details = "addToolInputExamplesMiddleware of the AI SDK writes them into the description";
      warnings.push({ type: "unsupported", feature: `input examples of the tool ${name}`, details });
    }
    return [known({ name, description, inputSchema })];
  });
}

/**
 * @param {CliCallOptions["toolChoice"]} toolChoice
 * @returns {"none" | "any" | { name: string } | undefined}
 */
function choice(toolChoice) {
  switch (toolChoice?.type) {
    case "none":
      return "none";
    case "required":
      return "any";
    case "tool":
      return { name: toolChoice.toolName };
    default:
      return undefined;
  }
}

/**
 * The schema under the name that the caller has for what it describes.
 *
 * @param {{ schema?: object | undefined, name?: string | undefined, description?: string | undefined }} format
 */
function schemaOf({ schema, name, description }) {
  return schema === undefined ? undefined : { ...known({ title: name, description }), ...schema };
}

/** @param {string | undefined} reasoning V4's setting, which `ai@7` hands to V3 models as well */
function effort(reasoning) {
  if (reasoning === undefined || reasoning === "provider-default") return {};
  return { reasoning: reasoning === "none" ? "off" : { effort: reasoning } };
}

/** @param {CliCallOptions} call */
function own({ providerOptions }) {
  const given = providerOptions?.[METADATA];
  if (given === undefined || given === null) return {};
  if (typeof given !== "object" || Array.isArray(given)) {
    throw fault("INVALID_OPTION", `providerOptions.${METADATA} must be an object, got ${describe(given)}`);
  }
  const unknown = Object.keys(given).find((name) => !OWN.has(name));
  if (unknown !== undefined) {
    const names = Array.from(OWN, (name) => `"${name}"`).join(", ");
    throw fault("INVALID_OPTION", `providerOptions.${METADATA} has no option "${unknown}": there are ${names}`);
  }
  return given;
}

/**
 * Without what is `undefined`.
 *
 * @template {object} T
 * @param {T} fields
 * @returns {any}
 */
function known(fields) {
  /** @type {Record<string, unknown>} */
  const kept = {};
  for (const [key, value] of Object.entries(fields)) if (value !== undefined) kept[key] = value;
  return kept;
}

module.exports = { known, settingsOf };
