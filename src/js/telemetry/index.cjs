"use strict";

/**
 * In: the option `telemetry`. Out: what observes runs with it. Read only where the option is set: nothing here is loaded, and
 * nothing wraps anything, where it is not.
 *
 * @import { Meter, Tracer } from "@opentelemetry/api"
 * @import { Content, ContentMode } from "./content.cjs"
 * @import { Metrics } from "./metrics.cjs"
 *
 * What observers share.
 * @typedef {object} Telemetry
 * @property {Tracer | undefined} tracer
 * @property {Metrics | undefined} metrics
 * @property {Content} content
 * @property {string | undefined} agentName
 *
 * @typedef {typeof import("../native.cjs")} Native
 */

const { builtin } = require("../builtin.cjs");
const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { version } = require("../../../package.json");
const { createContent } = require("./content.cjs");
const { ask, quietly } = require("./guard.cjs");
const { metricsOf } = require("./metrics.cjs");

const NAME = "deep-factor-providers";
const KEYS = ["tracer", "meter", "content", "agentName"];
const MODES = ["none", "redacted", "full"];

/**
 * @param {unknown} option
 * @param {Native} native
 * @param {unknown} [options] of the provider: its variables and its key are what a redactor has to know
 * @returns {Telemetry | undefined} `undefined`: it is off
 */
function readTelemetry(option, native, options) {
  if (option === undefined || option === false) return undefined;
  const settings = option === true ? {} : option;
  if (typeof settings !== "object" || settings === null || Array.isArray(settings)) {
    throw wrong("telemetry", "true, false or an object { tracer?, meter?, content?, agentName? }", settings);
  }
  const unknown = Object.keys(settings).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    throw fault("INVALID_OPTION", `telemetry has an unknown key "${unknown}": there are ${KEYS.join(", ")}`);
  }
  const { content = "none", agentName, ...own } = /** @type {Record<string, unknown>} */ (settings);
  if (typeof content !== "string" || !MODES.includes(content)) {
    throw wrong("telemetry.content", '"none", "redacted" or "full"', content);
  }
  if (agentName !== undefined && (typeof agentName !== "string" || agentName === "")) {
    throw wrong("telemetry.agentName", "a text that is not empty", agentName);
  }
  const { tracer, meter } = own.tracer === undefined && own.meter === undefined ? load() : own;
  if (tracer !== undefined && !has(tracer, "startActiveSpan")) {
    throw wrong("telemetry.tracer", "a Tracer of OpenTelemetry (it has startActiveSpan)", tracer);
  }
  if (meter !== undefined && !has(meter, "createHistogram")) {
    throw wrong("telemetry.meter", "a Meter of OpenTelemetry (it has createHistogram)", meter);
  }
  /** @type {import("../native.cjs").NativeRedactor | undefined} */
  let redactor;
  const redact = () => {
    redactor ??= new native.NativeRedactor(secretsOf(options));
    return redactor;
  };
  return {
    tracer: /** @type {Tracer | undefined} */ (tracer),
    metrics: meter === undefined ? undefined : metricsOf(/** @type {Meter} */ (meter)),
    content: createContent(/** @type {ContentMode} */ (content), redact),
    agentName,
  };
}

/**
 * The tracer and the meter of whatever SDK is registered, by the optional peer: the one beside this package, or, in a bundle, beside
 * the program. Any copy of it finds what is registered. Not a plain `require`: bundlers complain of one that finds nothing.
 */
function load() {
  const { createRequire } = builtin("node:module");
  /** @type {unknown} */
  let reason;
  for (const place of [typeof __filename === "string" ? __filename : undefined, process.argv[1]]) {
    if (!place) continue;
    try {
      const { metrics, trace } = createRequire(place)("@opentelemetry/api");
      return { tracer: ask(trace, "getTracer", NAME, version), meter: ask(metrics, "getMeter", NAME, version) };
    } catch (error) {
      reason ??= error;
    }
  }
  const advice = "run `npm install @opentelemetry/api`, or pass { tracer, meter }";
  throw fault(
    "INVALID_OPTION",
    `telemetry needs the package "@opentelemetry/api", which can't be loaded: ${advice}`,
    reason,
  );
}

/** @param {unknown} options JSON for `NativeRedactor` */
function secretsOf(options) {
  const { env, apiKey } = /** @type {{ env?: object, apiKey?: unknown }} */ (options ?? {});
  const variables = Object.entries({ ...process.env, ...env }).filter(([, value]) => typeof value === "string");
  return JSON.stringify({
    env: Object.fromEntries(variables),
    secrets: typeof apiKey === "string" ? [apiKey] : [],
  });
}

/**
 * @param {unknown} value
 * @param {string} method
 */
function has(value, method) {
  // One that can't even be asked is no mistake of the option's: it is taken, and tells nothing.
  return typeof value === "object" && value !== null && (quietly(() => method in value) ?? true);
}

/**
 * @param {string} name
 * @param {string} allowed
 * @param {unknown} value
 */
function wrong(name, allowed, value) {
  return fault("INVALID_OPTION", `the option "${name}" must be ${allowed}, got ${describe(value)}`);
}

module.exports = { readTelemetry };
