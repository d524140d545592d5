"use strict";

/**
 * In: what happens in one call of a model (records, events, the reply or the error). Out: its span `chat {model}`, and the figures of
 * the call.
 *
 * @import { LogRecord, ProviderEvent, ProviderReply, RunInfo, TokenUsage, ToolCall } from "../../../index.js"
 * @import { Content } from "./content.cjs"
 * @import { Operation } from "./operation.cjs"
 * @import { Telemetry } from "./index.cjs"
 *
 * Whom a call asks.
 * @typedef {object} Asked
 * @property {string} provider the provider's id
 * @property {string | undefined} model the model that is asked for
 * @property {string | undefined} [baseURL] of an API
 *
 * @typedef {object} ChatOptions
 * @property {boolean} [streams] whether the answer comes piece by piece
 * @property {Record<string, unknown> | undefined} [choices] of the call
 * @property {boolean} [json] whether the answer is a value
 * @property {() => string} [messages] JSON of the normalised thread
 * @property {number} [startTime] ms since the epoch
 * @property {Operation} [parent]
 *
 * @typedef {object} Outcome
 * @property {Partial<ProviderReply>} [reply]
 * @property {unknown} [error]
 * @property {boolean} [cancelled]
 *
 * @typedef {ReturnType<typeof beginChat>} Chat
 */

const { quietly } = require("./guard.cjs");
const { ATTR, OWN, companyOf } = require("./names.cjs");
const { KIND, begin, known } = require("./operation.cjs");
const { beginTool, hasRun } = require("./tool.cjs");

const FIRST = new Set(["text_delta", "thinking_delta", "message", "tool_call_delta", "tool_call"]);

/**
 * @param {Telemetry} telemetry
 * @param {Asked} asked
 * @param {ChatOptions} [options]
 */
function beginChat(telemetry, asked, { streams, choices = {}, json, messages, startTime, parent } = {}) {
  const { tracer, metrics, content } = telemetry;
  const model = /** @type {string | undefined} */ (choices.model || asked.model || undefined);
  const labels = {
    [ATTR.operation]: "chat",
    [ATTR.provider]: companyOf(asked.provider),
    [ATTR.requestModel]: model,
    ...serverOf(asked.baseURL),
  };
  const operation = begin(tracer, model === undefined ? "chat" : `chat ${model}`, {
    kind: KIND.client,
    attributes: {
      ...labels,
      [ATTR.stream]: streams || undefined,
      [ATTR.maxTokens]: choices.maxOutputTokens,
      [ATTR.temperature]: choices.temperature,
      [ATTR.stopSequences]: choices.stop,
      [ATTR.outputType]: json ? "json" : undefined,
      ...(messages === undefined ? {} : quietly(() => content.input(messages))),
    },
    startTime,
    parent,
  });
  const began = startTime ?? Date.now();
  /** @type {Map<string, { call: ToolCall, time: number }>} the CLI's own */
  const calls = new Map();
  /** @type {number | undefined} */
  let first;
  /** @type {number | undefined} */
  let queuedMs;
  /** @type {string | undefined} */
  let code;
  /** @type {Partial<ProviderReply>} */
  let last = {};
  let over = false;

  /** @param {{ type: string, [name: string]: any }} event */
  function take(event) {
    if (streams && first === undefined && FIRST.has(event.type)) first = Date.now() - began;
    if (event.type === "tool_call") calls.set(event.toolCall.id, { call: event.toolCall, time: Date.now() });
    else if (event.type === "tool_result") ranTool(event);
    else if (event.type === "done") last = event.reply;
  }

  /** @param {any} result */
  function ranTool(result) {
    const found = calls.get(result.toolCallId);
    if (found === undefined) return;
    const { call, time } = found;
    const tool = beginTool(telemetry, call, { parent: operation, startTime: time, isKnown: hasRun(call.name, result) });
    tool.end(result);
  }

  /** @param {LogRecord} record */
  function note({ message, pid, runId, fields, time }) {
    if (message === "started" || message === "continued") {
      // The place was had, and the exchange begun with it.
      if (typeof fields.queuedMs === "number") {
        queuedMs = fields.queuedMs;
        operation.event("queued", { [OWN.delay]: queuedMs }, time);
      }
      operation.set({ [OWN.runId]: runId, [OWN.pid]: pid, [OWN.continued]: message === "continued" || undefined });
      if (pid !== undefined) metrics?.remember(pid, known({ [ATTR.provider]: labels[ATTR.provider] }));
    } else if (message === "tried again") {
      const { by, attempt, delayMs, httpStatus } = fields;
      const details = { [OWN.by]: by, [OWN.attempt]: attempt, [OWN.delay]: delayMs, [ATTR.httpStatus]: httpStatus };
      operation.event("retry", details, time);
    } else if (message === "waiting for its plan") operation.event("waiting", { [OWN.until]: fields.until }, time);
    else if (message === "warned") {
      operation.event("warning", { [OWN.code]: fields.code }, time);
      if (fields.code === "SESSION_EXPIRED") metrics?.evictions.add(1, known(labels));
    } else if (message === "reported its limits" && fields.status !== "allowed") {
      operation.event("rate_limit", { [OWN.limitStatus]: fields.status }, time);
    } else if (message === "ended" && typeof fields.queuedMs === "number") queuedMs = fields.queuedMs;
    else if (message === "failed" && typeof fields.code === "string") code = fields.code;
  }

  /** @param {Outcome} outcome */
  function finish({ reply, error, cancelled }) {
    if (over) return;
    over = true;
    const answer = { ...last, ...reply };
    const failure = error === undefined || cancelled ? undefined : failureOf(error, content, code);
    const failed = /** @type {{ usage?: TokenUsage, run?: RunInfo }} */ (error ?? {});
    const usage = answer.usage ?? failed.usage;
    const run = answer.run ?? failed.run;
    const waited = run?.queuedMs ?? queuedMs;
    operation.set({
      ...replyAttributes(answer, usage, run),
      [ATTR.timeToFirstChunk]: first === undefined ? undefined : first / 1000,
      [ATTR.outputMessages]: reply === undefined ? undefined : quietly(() => content.output(answer)),
      [ATTR.errorType]: failure?.type,
      [OWN.cancelled]: cancelled || undefined,
    });
    operation.end(failure);
    measure({ usage, waited, model: answer.model, type: failure?.type, cancelled });
  }

  /**
   * @param {{ usage: TokenUsage | undefined, waited: number | undefined, model: string | undefined, type: string | undefined,
   *   cancelled: boolean | undefined }} figures
   */
  function measure({ usage, waited, model: answered, type, cancelled }) {
    if (metrics === undefined) return;
    const all = known({ ...labels, [ATTR.responseModel]: answered });
    // The conventions forbid to report what was not counted.
    if (usage !== undefined && !usage.estimated) {
      metrics.tokens.record(usage.inputTokens, { ...all, [ATTR.tokenType]: "input" });
      metrics.tokens.record(usage.outputTokens, { ...all, [ATTR.tokenType]: "output" });
    }
    const outcome = { [ATTR.errorType]: type, [OWN.cancelled]: cancelled || undefined };
    metrics.duration.record((Date.now() - began) / 1000, known({ ...all, ...outcome }));
    if (first !== undefined) metrics.firstChunk.record(first / 1000, all);
    if (waited !== undefined) metrics.queue.record(waited / 1000, all);
  }

  return {
    operation,
    /** @param {ProviderEvent} event */
    event: (event) => quietly(() => take(event)),
    /** @param {LogRecord} record */
    record: (record) => quietly(() => note(record)),
    /** Once; what comes later is dropped. @param {Outcome} outcome */
    end: (outcome) => quietly(() => finish(outcome)),
  };
}

/**
 * @param {Partial<ProviderReply>} reply
 * @param {TokenUsage | undefined} usage
 * @param {RunInfo | undefined} run
 */
function replyAttributes(reply, usage, run) {
  return {
    [ATTR.responseModel]: reply.model,
    [ATTR.responseId]: reply.messageId,
    [ATTR.finishReasons]: reply.stopReason === undefined ? undefined : [reply.stopReason],
    [ATTR.conversation]: reply.sessionId,
    ...usageAttributes(usage),
    [OWN.cost]: reply.costUsd,
    [OWN.runId]: run?.id,
    [OWN.engine]: run?.engine,
    [OWN.pid]: run?.pid,
    [OWN.continued]: run?.continued,
    [OWN.sessionCacheHitShare]: run?.sessionUsage?.cacheHitShare,
  };
}

/** @param {TokenUsage | undefined} usage */
function usageAttributes(usage) {
  return {
    [ATTR.inputTokens]: usage?.inputTokens,
    [ATTR.outputTokens]: usage?.outputTokens,
    [ATTR.cacheReadTokens]: usage?.cacheReadTokens,
    [ATTR.cacheWriteTokens]: usage?.cacheWriteTokens,
    [ATTR.reasoningTokens]: usage?.reasoningTokens,
    [OWN.estimated]: usage?.estimated,
    [OWN.cacheHitShare]: usage?.cacheHitShare,
  };
}

/**
 * @param {unknown} error
 * @param {Content} content
 * @param {string} [code] what the run's records say
 * @returns {import("./operation.cjs").Failure}
 */
function failureOf(error, content, code) {
  const {
    code: own,
    name,
    message,
  } = /** @type {{ code?: unknown, name?: unknown, message?: unknown }} */ (error ?? {});
  // A DOMException has a number there, which says nothing.
  const type = [own, code, name].find((word) => typeof word === "string" && word !== "");
  return {
    type: /** @type {string | undefined} */ (type) ?? "_OTHER",
    message: quietly(() => content.failure(typeof message === "string" ? message : String(error))),
  };
}

/** @param {string | undefined} baseURL */
function serverOf(baseURL) {
  if (baseURL === undefined || !URL.canParse(baseURL)) return {};
  const { hostname, port, protocol } = new URL(baseURL);
  return { [ATTR.serverAddress]: hostname, [ATTR.serverPort]: Number(port) || (protocol === "http:" ? 80 : 443) };
}

module.exports = { beginChat, failureOf, usageAttributes };
