"use strict";

/**
 * In: what the constructor of a chat model is given, flat. Out: LangChain's own part of it, the provider's options, and what holds
 * for every call; and, of LangChain's options of one call, those of the provider.
 *
 * @import { CliProvider, InvokeOptions } from "../../../index.js"
 */

const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");

/**
 * What a model is made of.
 *
 * @typedef {object} Init
 * @property {Record<string, unknown>} fields as they were given
 * @property {Record<string, unknown>} base those that LangChain's own constructor gets, which keeps them to be serialised
 * @property {CliProvider<any>} provider
 * @property {Record<string, unknown> | undefined} options of the provider; `undefined` where the caller has made it
 * @property {Defaults} defaults
 *
 * @typedef {object} Defaults what holds for every call that does not say otherwise
 * @property {number | undefined} [temperature]
 * @property {number | undefined} [maxTokens]
 * @property {string[] | undefined} [stop]
 * @property {boolean | undefined} [streaming]
 * @property {object | undefined} [profile]
 *
 * @typedef {"auto" | "none" | "any" | { name: string }} ToolChoice
 *
 * @typedef {InvokeOptions & { model?: string, reasoning?: object, outputSchema?: object, toolChoice?: ToolChoice, temperature?: number,
 *   maxOutputTokens?: number, stop?: string[], onUnsupported?: "error" | "warn" }} Call
 */

/** What `BaseChatModel` takes. claude's own `verbose` is not among the options here: LangChain's has the name. */
const LANGCHAIN = new Set([
  "cache",
  "callbackManager",
  "callbacks",
  "disableStreaming",
  "metadata",
  "name",
  "outputVersion",
  "tags",
  "verbose",
]);

/** What a call is made with unless it says otherwise, and what the model says of itself. */
const DEFAULTS = new Set(["temperature", "maxTokens", "stop", "streaming", "profile"]);

/**
 * What is written when a model is serialised. Everything else may hold a secret (`env`, `extraArgs`, opencode's `config`), or is
 * nothing in JSON.
 */
const SERIALIZED = Object.freeze([
  ...["metadata", "tags", "verbose", "disableStreaming", "outputVersion"],
  ...["temperature", "maxTokens", "stop", "streaming", "profile", "maxRetries"],
  ...[
    "model",
    "cliPath",
    "cliSearch",
    "cwd",
    "engine",
    "auth",
    "authType",
    "systemPrompt",
    "permissionMode",
    "disableBuiltInTools",
  ],
  ...["ignoreUserConfig", "sandbox", "toolForm", "inputEncoding", "textToolCalls", "outputFormat", "promptStyle"],
  ...[
    "includePartialMessages",
    "noInput",
    "timeout",
    "idleTimeout",
    "killGrace",
    "keepAlive",
    "maxProcesses",
    "spares",
    "promptCache",
    "sessions",
    "maxBuffer",
  ],
  ...[
    "maxConcurrency",
    "retry",
    "reasoning",
    "serviceTier",
    "speed",
    "webSearch",
    "tools",
    "onUnsupported",
    "quota",
    "budget",
    "login",
  ],
]);

/**
 * @param {unknown} fields
 * @returns {Record<string, unknown>}
 */
function readFields(fields) {
  if (fields === undefined) return {};
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
    throw fault("INVALID_OPTION", `the options of a chat model must be an object, got ${describe(fields)}`);
  }
  return { ...fields };
}

/**
 * The constructor of a model that makes its provider.
 *
 * @param {unknown} given
 * @param {(options: object) => CliProvider<any>} create
 * @returns {Init}
 */
function readCliFields(given, create) {
  const fields = readFields(given);
  const { maxRetries, ...own } = without(fields, (key) => LANGCHAIN.has(key) || DEFAULTS.has(key));
  if ("threadDocuments" in own) {
    throw fault("INVALID_OPTION", "threadDocuments is no option of a chat model: a user's text is always a text");
  }
  const options = { ...own, ...readRetries(maxRetries, own.retry) };
  // What the provider does not know it refuses by name.
  return { fields, base: baseOf(fields), provider: create(options), options, defaults: readDefaults(fields) };
}

/**
 * The constructor of a model over a provider that the caller has made.
 *
 * @param {unknown} given
 * @returns {Init}
 */
function readProviderFields(given) {
  const fields = readFields(given);
  const { provider, ...others } = without(fields, (key) => LANGCHAIN.has(key) || DEFAULTS.has(key));
  const missing = ["invoke", "stream", "bindTools"].find(
    (name) => typeof (/** @type {any} */ (provider)?.[name]) !== "function",
  );
  if (missing !== undefined) {
    throw fault(
      "INVALID_OPTION",
      `provider must be a provider of this package (it has no ${missing}), got ${describe(provider)}: ` +
        "createFallbackProvider([adapter]) makes one of any adapter",
    );
  }
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw fault("INVALID_OPTION", `ChatCli has no option "${unknown}": the provider that it is given has its own`);
  }
  const checked = /** @type {CliProvider<any>} */ (provider);
  return { fields, base: baseOf(fields), provider: checked, options: undefined, defaults: readDefaults(fields) };
}

/** @param {Record<string, unknown>} fields */
function baseOf(fields) {
  return without(fields, (key) => !LANGCHAIN.has(key) && !SERIALIZED.includes(key));
}

/**
 * LangChain's `maxRetries`: how many further attempts a call may have. They are the provider's; LangChain itself makes none here,
 * so they never multiply.
 *
 * @param {unknown} maxRetries
 * @param {unknown} retry
 * @returns {{ retry?: false | { maxAttempts: number } }}
 */
function readRetries(maxRetries, retry) {
  if (maxRetries === undefined) return {};
  if (retry !== undefined) {
    throw fault("INVALID_OPTION", "maxRetries and retry say the same: give one of them");
  }
  if (typeof maxRetries !== "number" || !Number.isInteger(maxRetries) || maxRetries < 0 || maxRetries > 99) {
    throw fault("INVALID_OPTION", `maxRetries must be a whole number from 0 to 99, got ${describe(maxRetries)}`);
  }
  return { retry: maxRetries === 0 ? false : { maxAttempts: maxRetries + 1 } };
}

/**
 * @param {Record<string, unknown>} fields
 * @returns {Defaults}
 */
function readDefaults(fields) {
  const { stop, streaming, profile, ...numbers } = /** @type {any} */ (
    without(fields, (key) => !DEFAULTS.has(key) || fields[key] === undefined)
  );
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw fault("INVALID_OPTION", `${name} must be a number, got ${describe(value)}`);
    }
  }
  if (streaming !== undefined && typeof streaming !== "boolean") {
    throw fault("INVALID_OPTION", `streaming must be true or false, got ${describe(streaming)}`);
  }
  if (profile !== undefined && (typeof profile !== "object" || profile === null)) {
    throw fault("INVALID_OPTION", `profile must be an object, got ${describe(profile)}`);
  }
  return compact({ ...numbers, streaming, profile, stop: readStop(stop) });
}

/**
 * @param {unknown} stop
 * @returns {string[] | undefined} `undefined` where nothing ends the answer
 */
function readStop(stop) {
  if (stop === undefined || stop === null) return undefined;
  const list = typeof stop === "string" ? [stop] : stop;
  if (!Array.isArray(list) || list.some((text) => typeof text !== "string")) {
    throw fault("INVALID_OPTION", `stop must be a string or an array of strings, got ${describe(stop)}`);
  }
  return list.length > 0 ? list : undefined;
}

/**
 * LangChain's options of one call, as the provider takes them.
 *
 * @param {Record<string, any>} options
 * @param {Defaults} defaults
 * @returns {Call}
 */
function readCall(options, defaults) {
  return /** @type {Call} */ (
    compact({
      signal: options.signal,
      record: options.record,
      model: options.model,
      reasoning: options.reasoning,
      serviceTier: options.serviceTier ?? options.service_tier,
      speed: options.speed,
      webSearch: options.webSearch,
      onUnsupported: options.onUnsupported,
      outputSchema: options.outputSchema ?? readResponseFormat(options.response_format),
      toolChoice: readToolChoice(options.tool_choice),
      temperature: options.temperature ?? defaults.temperature,
      maxOutputTokens: options.maxOutputTokens ?? options.maxTokens ?? defaults.maxTokens,
      stop: readStop(options.stop) ?? defaults.stop,
    })
  );
}

/**
 * OpenAI's way of asking for a schema, in which LangChain's agents ask for a provider's own structured output.
 *
 * @param {unknown} format
 * @returns {object | undefined}
 */
function readResponseFormat(format) {
  if (format === undefined || format === null) return undefined;
  const { type, json_schema: named } = /** @type {{ type?: unknown, json_schema?: { schema?: unknown } }} */ (format);
  if (type === "text") return undefined;
  const schema = named?.schema;
  if (type === "json_schema" && typeof schema === "object" && schema !== null) return schema;
  throw fault(
    "INVALID_OPTION",
    `response_format must be { type: "json_schema", json_schema: { schema } }, got ${type === undefined ? describe(format) : `the type ${describe(type)}`}`,
  );
}

const CHOICES = new Set(["auto", "none", "any"]);

/**
 * LangChain's, OpenAI's and Anthropic's words for which tools the model is to call.
 *
 * @param {unknown} choice
 * @returns {ToolChoice | undefined}
 */
function readToolChoice(choice) {
  if (choice === undefined || choice === null) return undefined;
  if (choice === "required") return "any";
  if (typeof choice === "string") {
    return CHOICES.has(choice) ? /** @type {"auto" | "none" | "any"} */ (choice) : { name: choice };
  }
  if (typeof choice === "object") {
    const {
      type,
      name,
      function: named,
    } = /** @type {{ type?: unknown, name?: unknown, function?: { name?: unknown } }} */ (choice);
    const chosen = named?.name ?? name;
    if (typeof chosen === "string" && chosen !== "") return { name: chosen };
    if (typeof type === "string" && (CHOICES.has(type) || type === "required")) return readToolChoice(type);
  }
  throw fault(
    "INVALID_OPTION",
    `tool_choice must be "auto", "none", "any", "required", a tool's name or an object with it, got ${describe(choice)}`,
  );
}

/**
 * @param {Record<string, unknown>} fields
 * @param {(key: string) => boolean} leaves
 */
function without(fields, leaves) {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => !leaves(key)));
}

/**
 * Without the keys that are `undefined`.
 *
 * @template {object} T
 * @param {T} fields
 * @returns {T}
 */
function compact(fields) {
  return /** @type {T} */ (Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)));
}

module.exports = { SERIALIZED, compact, readCall, readCliFields, readProviderFields };
