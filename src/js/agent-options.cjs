"use strict";

/**
 * In: what `runAgent` was called with. Out: JSON of it for the native side, which checks limits and schemas, and the functions that
 * only JavaScript can call. Whatever is wrong is thrown at once, by its name.
 *
 * @import { AgentHeartbeat, CheckpointStore } from "../../index.js"
 * @import { Run } from "./agent-tools.cjs"
 * @import { Telemetry } from "./telemetry/index.cjs"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {NonNullable<ReturnType<typeof sharedOf>>} Shared
 *
 * One agent, for the side of JavaScript.
 * @typedef {object} Who
 * @property {Shared} shared
 * @property {string | undefined} name of an agent that a task is handed to
 * @property {string | undefined} model that the agent itself asks for
 * @property {Map<string, Run>} tools
 * @property {((call: object, context: object) => unknown) | undefined} ask
 *
 * @typedef {object} Prepared
 * @property {string} spec JSON for `NativeAgent`
 * @property {Who[]} agents the run's own first
 * @property {readonly unknown[]} messages the thread, as the caller passed it
 * @property {string} encoded JSON of it
 * @property {string | undefined} systemPrompt
 * @property {((event: object) => unknown) | undefined} onEvent
 * @property {AbortSignal | undefined} signal
 * @property {Telemetry | undefined} telemetry
 * @property {number | undefined} timeoutMs the run's own limit of time
 * @property {string | undefined} runId
 * @property {CheckpointStore | undefined} checkpoint
 * @property {((beat: AgentHeartbeat) => unknown) | undefined} onHeartbeat
 * @property {number} heartbeatInterval ms
 */

const { readTools } = require("./agent-tools.cjs");
const { builtin } = require("./builtin.cjs");
const { AGENT_CHOICES, pickChoices } = require("./choices.cjs");
const { requireStore } = require("./checkpoint.cjs");
const { fault } = require("./errors.cjs");
const { notARunId } = require("./file-checkpoint.cjs");
const { encodeMessages } = require("./messages.cjs");
const { describe, encodeChoices, encodeOptions, readCallOptions, requireString } = require("./options.cjs");
const { readOutputSchema } = require("./output-schema.cjs");
const { sharedOf } = require("./provider.cjs");

const { isRegExp } = builtin("node:util/types");

const AGENT = ["provider", "systemPrompt", "tools", "permissions", "limits", "toolCalls", ...AGENT_CHOICES];
const DURABLE = ["runId", "checkpoint", "onHeartbeat", "heartbeatInterval"];
const RUN = [
  ...[...AGENT, "prompt", "messages", "builtins", "onEvent", "signal", "record", "outputSchema", "telemetry"],
  ...DURABLE,
];
const TARGET = [...AGENT, "description"];
const PERMISSIONS = ["allow", "deny", "ask"];

/**
 * @param {unknown} limits the native side has the last word on them
 * @returns {number | undefined} ms
 */
function timeLimit(limits) {
  const { timeoutMs } = /** @type {{ timeoutMs?: unknown }} */ (limits ?? {});
  return typeof timeoutMs === "number" && timeoutMs > 0 && timeoutMs < 2 ** 31 ? timeoutMs : undefined;
}

/**
 * @param {unknown} options
 * @param {ToJsonSchema | null} toJsonSchema
 * @param {(runId: string) => boolean} isRunId
 * @param {(option: unknown, options?: unknown) => Telemetry | undefined} readTelemetry
 * @returns {Prepared}
 */
function readAgentOptions(options, toJsonSchema, isRunId, readTelemetry) {
  const fields = requireObject("options", options);
  refuseUnknown(fields, RUN, "");
  const telemetry =
    fields.telemetry === undefined
      ? sharedOf(fields.provider)?.telemetry
      : readTelemetry(fields.telemetry, sharedOf(fields.provider)?.options);
  const root = readAgent(fields, "", toJsonSchema, telemetry !== undefined);
  const { messages, encoded } = readThread(fields);
  const { handoff, ...builtins } = optionalObject("builtins", fields.builtins);
  const { agents, ...rest } = optionalObject("builtins.handoff", handoff);
  const targets = handoff === undefined ? [] : readTargets(agents, toJsonSchema, telemetry !== undefined);
  const all = [root, ...targets];
  const outputSchema = readOutputSchema(fields, toJsonSchema);
  const { signal, record } = readCallOptions({ signal: fields.signal, record: fields.record });
  const durable = readDurable(fields, isRunId);
  const { runId, checkpoint, onHeartbeat } = durable;
  const flags = { runId, checkpoint: checkpoint !== undefined, heartbeat: onHeartbeat !== undefined };
  return {
    ...durable,
    spec: `{"agents":[${all.map(({ json }) => json).join(",")}],"messages":${encoded},"builtins":${encodeOptions(
      builtins,
    )},"handoff":${encodeOptions(rest)},"record":${JSON.stringify(record ?? null)},"outputSchema":${JSON.stringify(outputSchema ?? null)},${JSON.stringify(flags).slice(1)}`,
    agents: all.map(({ who }) => who),
    timeoutMs: timeLimit(fields.limits),
    messages,
    encoded,
    systemPrompt: root.systemPrompt,
    onEvent: optionalFunction("onEvent", fields.onEvent),
    signal,
    telemetry,
  };
}

/**
 * What makes a run survive, and says that it is alive.
 *
 * @param {Record<string, unknown>} fields
 * @param {(runId: string) => boolean} isRunId
 */
function readDurable(fields, isRunId) {
  const { runId, checkpoint, heartbeatInterval = 10_000 } = fields;
  if (runId !== undefined && (typeof runId !== "string" || !isRunId(runId))) throw notARunId(runId);
  if (checkpoint !== undefined && runId === undefined) {
    throw fault("INVALID_OPTION", "checkpoint needs runId, by which the run is found again: set it");
  }
  const isInterval = Number.isInteger(heartbeatInterval) && Number(heartbeatInterval) >= 10;
  if (!isInterval || Number(heartbeatInterval) >= 2 ** 31) {
    const range = `a whole number of ms from 10 to ${2 ** 31 - 1}`;
    throw fault("INVALID_OPTION", `heartbeatInterval must be ${range}, got ${describe(heartbeatInterval)}`);
  }
  return {
    runId,
    checkpoint: checkpoint === undefined ? undefined : requireStore(checkpoint),
    onHeartbeat: optionalFunction("onHeartbeat", fields.onHeartbeat),
    heartbeatInterval: Number(heartbeatInterval),
  };
}

/**
 * @param {unknown} agents
 * @param {ToJsonSchema | null} toJsonSchema
 * @param {boolean} observed
 */
function readTargets(agents, toJsonSchema, observed) {
  const path = "builtins.handoff.agents";
  const entries = Object.entries(requireObject(path, agents));
  if (entries.length === 0) throw fault("INVALID_OPTION", `${path} names no agent`);
  return entries.map(([name, agent]) => {
    const at = `${path}.${name}`;
    if (name.trim() === "") throw fault("INVALID_OPTION", `${path} has an agent without a name`);
    const fields = requireObject(at, agent);
    refuseUnknown(fields, TARGET, `${at}.`);
    return readAgent(fields, `${at}.`, toJsonSchema, observed, name);
  });
}

/**
 * @param {Record<string, unknown>} fields
 * @param {string} path what its fields are called in errors, with a dot; empty for the run's own
 * @param {ToJsonSchema | null} toJsonSchema
 * @param {boolean} observed whether telemetry wants the records of its turns, and what they come to
 * @param {string} [name]
 */
function readAgent(fields, path, toJsonSchema, observed, name) {
  const shared = requireShared(fields.provider, `${path}provider`);
  const systemPrompt = optionalString(`${path}systemPrompt`, fields.systemPrompt);
  const description = optionalString(`${path}description`, fields.description);
  const tools = readTools(fields.tools, `${path}tools`, toJsonSchema);
  const { permissions, ask } = readPermissions(fields.permissions, `${path}permissions`, tools.names);
  const limits = encodeOptions(optionalObject(`${path}limits`, fields.limits));
  const how = encodeOptions({ toolCalls: fields.toolCalls });
  const choices = encodeChoices(pickChoices(fields, AGENT_CHOICES) ?? {});
  const log = shared.log !== undefined || observed;
  const { onResume } = tools;
  const asks = Object.keys(onResume).find((tool) => onResume[tool] === "ask");
  if (asks !== undefined && ask === undefined) {
    throw fault("INVALID_OPTION", `${path}permissions.ask is missing: the tool "${asks}" has onResume "ask"`);
  }
  const observe = observed || undefined;
  const head = JSON.stringify({ name, path, description, systemPrompt, permissions, choices, log, observe, onResume });
  /** @type {Who} */
  const who = {
    shared,
    name,
    model: typeof fields.model === "string" ? fields.model : undefined,
    tools: tools.runs,
    ask,
  };
  return { who, systemPrompt, json: `${head.slice(0, -1)},"tools":${tools.json},"limits":${limits},"how":${how}}` };
}

/**
 * @param {unknown} provider
 * @param {string} at
 * @returns {Shared}
 */
function requireShared(provider, at) {
  const shared = sharedOf(provider);
  if (shared !== undefined) return shared;
  const why =
    "a provider made by one of this package's create…Provider functions (not a copy of one, and not several as one)";
  throw fault("INVALID_OPTION", `${at} must be ${why}, got ${describe(provider)}`);
}

/** @param {Record<string, unknown>} fields */
function readThread({ prompt, messages }) {
  if ((prompt === undefined) === (messages === undefined)) {
    const both = prompt === undefined ? "neither is set" : "both are set";
    throw fault("INVALID_OPTION", `either prompt or messages must be set: ${both}`);
  }
  if (prompt === undefined) {
    const encoded = encodeMessages(messages);
    return { messages: Array.from(/** @type {unknown[]} */ (messages)), encoded };
  }
  const text = requireString("prompt", prompt);
  if (text.trim() === "") throw fault("INVALID_OPTION", "prompt must not be empty");
  return { messages: [text], encoded: encodeMessages([text]) };
}

/**
 * A regular expression is JavaScript's to apply: what goes over are the names it matches.
 *
 * @param {unknown} permissions
 * @param {string} path
 * @param {readonly string[]} names the tools
 */
function readPermissions(permissions, path, names) {
  const fields = optionalObject(path, permissions);
  refuseUnknown(fields, PERMISSIONS, `${path}.`);
  const ask = optionalFunction(`${path}.ask`, fields.ask);
  const allow = fields.allow === undefined ? undefined : readNames(fields.allow, `${path}.allow`, names);
  const deny = fields.deny === undefined ? undefined : readNames(fields.deny, `${path}.deny`, names);
  return { permissions: { allow, deny, ask: ask !== undefined }, ask };
}

/**
 * @param {unknown} list
 * @param {string} path
 * @param {readonly string[]} names
 */
function readNames(list, path, names) {
  if (!Array.isArray(list)) throw fault("INVALID_OPTION", `${path} must be an array, got ${describe(list)}`);
  /** @type {string[]} */
  const globs = [];
  /** @type {string[]} */
  const exact = [];
  for (const [index, item] of list.entries()) {
    // A copy for each test: `g` and `y` remember where they were.
    if (isRegExp(item)) exact.push(...names.filter((name) => new RegExp(item).test(name)));
    else if (typeof item === "string" && item !== "") globs.push(item);
    else {
      const allowed = 'a tool\'s name ("*" stands for anything) or a RegExp';
      throw fault("INVALID_OPTION", `${path}[${index}] must be ${allowed}, got ${describe(item)}`);
    }
  }
  return { globs, exact };
}

/**
 * @param {Record<string, unknown>} fields
 * @param {readonly string[]} known
 * @param {string} path
 */
function refuseUnknown(fields, known, path) {
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && !known.includes(name)) {
      throw fault("INVALID_OPTION", `unknown option "${path}${name}"; allowed: ${known.join(", ")}`);
    }
  }
}

/**
 * @param {string} path
 * @param {unknown} value
 * @returns {Record<string, unknown>}
 */
function requireObject(path, value) {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return /** @type {Record<string, unknown>} */ (value);
  }
  throw fault("INVALID_OPTION", `${path} must be an object, got ${describe(value)}`);
}

/**
 * @param {string} path
 * @param {unknown} value
 */
function optionalObject(path, value) {
  return value === undefined ? {} : requireObject(path, value);
}

/**
 * @param {string} path
 * @param {unknown} value
 */
function optionalString(path, value) {
  return value === undefined ? undefined : requireString(path, value);
}

/**
 * @param {string} path
 * @param {unknown} value
 */
function optionalFunction(path, value) {
  if (value === undefined) return undefined;
  if (typeof value === "function") return /** @type {(...args: unknown[]) => unknown} */ (value);
  throw fault("INVALID_OPTION", `${path} must be a function, got ${describe(value)}`);
}

module.exports = { readAgentOptions };
