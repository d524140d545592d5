"use strict";

/**
 * In: what answers requests, and the options of a provider. Out: the provider, which has no process.
 *
 * @import { CliProvider } from "../../../index.js"
 * @import { ToJsonSchema } from "../tools.cjs"
 * @import { Answer, ScriptedRequest } from "./types.cjs"
 *
 * @typedef {object} Parts what the entry knows of the caller's LangChain
 * @property {() => typeof import("../native.cjs")} load the addon
 * @property {(new (fields: Record<string, unknown>) => unknown) | null} AIMessage
 * @property {ToJsonSchema | null} toJsonSchema
 */

const { createCopies } = require("../copies.cjs");
const { fault, unwrap } = require("../errors.cjs");
const { takeLogger } = require("../logger.cjs");
const { aiMessageBuilder, toAIMessageJson } = require("../messages.cjs");
const { describe } = require("../options.cjs");
const { createProvider } = require("../provider.cjs");
const { quotaOf } = require("../quota.cjs");
const { registerTranslator } = require("../reasoning.cjs");
const { createEngine } = require("./engine.cjs");
const { createScript } = require("./script.cjs");

const NAMES = [
  ...["id", "model", "timeout", "idleTimeout", "retry", "quota", "budget", "maxConcurrency"],
  ...["logger", "telemetry"],
];
/** The default of an API's `maxConcurrency`. */
const PLACES = 64;
const ID = /^[\w.-]{1,64}$/;

/**
 * @param {Parts} parts
 * @param {Answer} answer
 * @param {Record<string, unknown>} options
 * @returns {CliProvider<any>}
 */
function createAnswering({ load, AIMessage, toJsonSchema }, answer, options) {
  const { log, rest } = takeLogger(options, describe);
  const { telemetry: observed, ...given } = /** @type {Record<string, any>} */ (rest);
  /** @type {{ id: string, model: string, maxConcurrency?: number }} */
  const its = { id: "scripted", model: "scripted", ...withoutUndefined(given) };
  const { engine, known } = createEngine(its, answer, load);
  unwrap(engine.check());
  const telemetry =
    observed === undefined || observed === false
      ? undefined
      : require("../telemetry/index.cjs").readTelemetry(observed, load(), its);
  if (AIMessage !== null) registerTranslator();
  return createProvider({
    ...{ id: its.id, engine, known, copies: createCopies(AIMessage), toJsonSchema, log, telemetry, options: its },
    toMessage: AIMessage === null ? toAIMessageJson : aiMessageBuilder(AIMessage),
    asked: { provider: its.id, model: its.model },
    quota: quotaOf(its),
    places: its.maxConcurrency ?? PLACES,
    isApi: false,
  });
}

/** @param {Record<string, unknown>} fields */
const withoutUndefined = (fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/**
 * @param {unknown} options
 * @param {readonly string[]} names those that there are
 * @returns {Record<string, unknown>}
 */
function readOptions(options, names) {
  if (options === undefined) return {};
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw fault("INVALID_OPTION", `options must be an object, got ${describe(options)}`);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw fault("INVALID_OPTION", `unknown option "${unknown}": there are ${names.join(", ")}`);
  }
  const { id, model, timeout } = /** @type {Record<string, unknown>} */ (options);
  if (id !== undefined && (typeof id !== "string" || !ID.test(id))) {
    throw fault("INVALID_OPTION", `id must be 1 to 64 letters, digits and "-", "_", ".", got ${describe(id)}`);
  }
  if (model !== undefined && (typeof model !== "string" || model.trim() === "")) {
    throw fault("INVALID_OPTION", `model must be a text, got ${describe(model)}`);
  }
  if (timeout !== undefined && (!Number.isInteger(timeout) || Number(timeout) < 0 || Number(timeout) > 2 ** 31 - 1)) {
    throw fault(
      "INVALID_OPTION",
      `timeout must be a whole number of ms from 0 (no limit) to ${2 ** 31 - 1}, got ${describe(timeout)}`,
    );
  }
  return /** @type {Record<string, unknown>} */ (options);
}

/**
 * The provider and all that `bindTools` makes of it, each with `extra`.
 *
 * @template {object} T
 * @param {CliProvider<any>} provider
 * @param {T} extra
 * @returns {CliProvider<any> & T}
 */
function withExtra(provider, extra) {
  const { bindTools } = provider;
  return Object.assign(provider, extra, {
    bindTools: (/** @type {Parameters<typeof bindTools>[0]} */ tools) => withExtra(bindTools(tools), extra),
  });
}

/**
 * @param {Parts} parts
 * @returns {(script: unknown, options?: unknown) => CliProvider<any> & { requests: ScriptedRequest[] }}
 */
function scriptedFactory(parts) {
  return (script, options) => {
    // An error of the script's is the call's, unless further attempts are asked for.
    const given = { retry: false, ...readOptions(options, NAMES) };
    const { model = "scripted" } = /** @type {{ model?: string }} */ (given);
    const { answer, requests } = createScript(script, { model });
    return withExtra(createAnswering(parts, answer, given), { requests });
  };
}

module.exports = { createAnswering, readOptions, scriptedFactory, withExtra };
