"use strict";

/**
 * In: what was read of the caller's messages (`reading.cjs`). Out: the one form the native side reads (`src/model/message.rs`), and back: the
 * native side's reply as an `AIMessage` of the caller's own LangChain (the only place that builds one).
 *
 * @typedef {object} PackedThread what `src/model/thread.rs` takes
 * @property {string} json of the messages that are not known there, one behind the other
 * @property {string} texts those of them, one behind the other
 * @property {Uint32Array} plan each message's number, length in `json` and length in `texts`
 *
 * @import { AIMessageJson, InvalidToolCall, ProviderReply, ToolCall } from "../../index.js"
 * @import { Reading } from "./reading.cjs"
 */

const { ProviderError, fault } = require("./errors.cjs");
const { describe } = require("./options.cjs");
const { isObject, place, readMessage } = require("./reading.cjs");
const { TRANSLATOR, encodeReasoning, reasoningKwargs } = require("./reasoning.cjs");

/**
 * Where a thread is written to.
 *
 * @typedef {object} Target
 * @property {string[]} [texts] takes the contents that are text; in the JSON they are their lengths then
 * @property {boolean} [pure] the thread becomes a string, for which there is no provider: bytes are refused at once
 */

/**
 * @param {unknown} messages
 * @returns {string} JSON of the normalised thread
 */
function encodeMessages(messages) {
  const encoded = eachOf(messages, (message, index) => encodeReading(readMessage(message, index), index, {}));
  return `[${encoded.join(",")}]`;
}

/**
 * A thread that becomes a string, for which there is no provider. What one is sent, `known.cjs` packs.
 *
 * @param {unknown} messages
 * @returns {PackedThread}
 */
function packMessages(messages) {
  /** @type {string[]} */
  const texts = [];
  /** @type {number[]} */
  const plan = [];
  const encoded = eachOf(messages, (message, index) => {
    const json = encodeReading(readMessage(message, index), index, { texts, pure: true });
    if (texts.length === index) texts.push("");
    plan.push(0, json.length, texts[index]?.length ?? 0);
    return json;
  });
  return { json: encoded.join(""), texts: texts.join(""), plan: Uint32Array.from(plan) };
}

/**
 * @template T
 * @param {unknown} messages
 * @param {(message: unknown, index: number) => T} take
 * @returns {T[]}
 */
function eachOf(messages, take) {
  if (!Array.isArray(messages)) {
    throw fault("INVALID_MESSAGES", `messages must be an array, such as ["Say hello"], got ${describe(messages)}`);
  }
  /** @type {T[]} */
  const taken = [];
  for (let index = 0; index < messages.length; index += 1) {
    try {
      taken.push(take(messages[index], index));
    } catch (error) {
      if (ProviderError.isInstance(error)) throw error;
      // A getter or a proxy of the caller's that throws.
      const reason = error instanceof Error ? error.message : error;
      throw fault("INVALID_MESSAGES", `${place(index)} can't be read: ${reason}`, error);
    }
  }
  return taken;
}

/**
 * @param {Reading} reading
 * @param {number} index
 * @param {Target} target
 * @returns {string} JSON of one message
 */
function encodeReading(reading, index, target) {
  const { type, content, calls } = reading;
  const at = place(index);
  let json = `{"type":${JSON.stringify(type)},"content":${encodeContent(content, at, target)}`;
  if (calls !== undefined && calls.length > 0) {
    const encoded = calls.map((call, number) => encodeToolCall(call, `${at}.tool_calls[${number}]`));
    json += `,"tool_calls":[${encoded.join(",")}]`;
  }
  if (reading.invalid !== undefined && !target.pure) {
    json += `,"invalid_tool_calls":${JSON.stringify(reading.invalid.filter(isObject).map(invalidCall))}`;
  }
  if (reading.details !== undefined && !target.pure) json += `,"reasoning":${encodeReasoning(reading)}`;
  if (type === "tool") {
    json += `,"tool_call_id":${JSON.stringify(reading.id)}`;
    if (reading.failed) json += ',"is_error":true';
  }
  return `${json}}`;
}

/**
 * @param {unknown} content
 * @param {string} at
 * @param {Target} target
 */
function encodeContent(content, at, { texts, pure }) {
  const json = () => stringify(content, `${at}.content`, pure ? refuseBytes(`${at}.content`) : markBytes);
  if (texts === undefined) return json();
  // A number would be taken for a length.
  const text = typeof content === "number" ? json() : content;
  if (typeof text !== "string") return json();
  texts.push(text);
  return text.length;
}

/**
 * LangChain's `{id, name, args}` or OpenAI's `{id, function: {name, arguments}}`.
 *
 * @param {unknown} call
 * @param {string} at
 */
function encodeToolCall(call, at) {
  if (!isObject(call)) throw fault("INVALID_MESSAGES", `${at} must be an object, got ${describe(call)}`);
  const from = isObject(call.function) ? call.function : call;
  if (typeof from.name !== "string") {
    throw fault("INVALID_MESSAGES", `${at}.name must be a string, got ${describe(from.name)}`);
  }
  const id = JSON.stringify(readId(call.id, `${at}.id`));
  const given = from.args ?? from.arguments ?? {};
  // What clients write where a call has none.
  const args = typeof given === "string" && given.trim() === "" ? {} : given;
  // Arguments that are JSON text already go over as that text: key order and number spelling survive.
  const text = typeof args === "string" && holdsObject(args) ? args : stringify(args, `${at}.args`);
  return `{"id":${id},"name":${JSON.stringify(from.name)},"args":${text}}`;
}

/**
 * A call that could not be read, in text alone.
 *
 * @param {Record<string, unknown>} call
 */
function invalidCall({ id, name, args, error }) {
  return { id: textOf(id), name: textOf(name), args: textOf(args) ?? "", error: textOf(error) ?? "" };
}

/** @param {unknown} value */
function textOf(value) {
  // The native side takes no lone surrogates here.
  return typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\uFFFD") : undefined;
}

/**
 * @param {unknown} id
 * @param {string} at
 */
function readId(id, at) {
  if (id === undefined || id === null) return "";
  if (typeof id === "string") return id;
  throw fault("INVALID_MESSAGES", `${at} must be a string, got ${describe(id)}`);
}

/**
 * @typedef {(this: any, key: string, value: unknown) => unknown} Replacer what `JSON.stringify` takes
 */

/**
 * Bytes have no form in JSON, and would be written as an object of numbers. The native side gets them as base64 under a name
 * of their own, so that they are never taken for text (`src/model/message/content.rs`).
 *
 * @type {Replacer}
 */
function markBytes(key, value) {
  // `value` is what a toJSON (Buffer has one) has made of it.
  const bytes = asBytes(this[key]);
  if (bytes === undefined) return value;
  return bytes === null ? { $blob: true } : { $bytes: bytes.toString("base64") };
}

/**
 * @param {string} at
 * @returns {Replacer}
 */
function refuseBytes(at) {
  return function (key, value) {
    if (asBytes(this[key]) === undefined) return value;
    throw fault("UNSUPPORTED_CONTENT", `${at} holds bytes (${describe(this[key])}), which are not text`);
  };
}

/**
 * @param {unknown} value
 * @returns {Buffer | null | undefined} `null` for a Blob, which can't be read at once; `undefined` for what is no bytes
 */
function asBytes(value) {
  if (typeof value !== "object" || value === null) return undefined;
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  // By name: a buffer of another realm is one, too.
  const tag = Object.prototype.toString.call(value);
  if (tag === "[object ArrayBuffer]" || tag === "[object SharedArrayBuffer]") {
    return Buffer.from(/** @type {ArrayBuffer} */ (value));
  }
  return tag === "[object Blob]" || tag === "[object File]" ? null : undefined;
}

/**
 * @param {unknown} value
 * @param {string} at
 * @param {Replacer} [replacer]
 * @returns {string}
 */
function stringify(value, at, replacer) {
  try {
    const json = JSON.stringify(value, replacer);
    if (json !== undefined) return json;
  } catch (error) {
    if (ProviderError.isInstance(error)) throw error;
    // Circular, a BigInt, or a toJSON that throws. Node's message goes on for several lines: the first says it.
    const reason = (error instanceof Error ? error.message : String(error)).split("\n", 1)[0];
    throw fault("INVALID_MESSAGES", `${at} can't be written as JSON: ${reason}`, error);
  }
  throw fault("INVALID_MESSAGES", `${at} must be text or JSON, got ${describe(value)}`);
}

/** @param {string} text */
function holdsObject(text) {
  try {
    return isObject(JSON.parse(text));
  } catch {
    // Not JSON: then the arguments are that very text.
    return false;
  }
}

/**
 * The fields an `AIMessage` is built from. All of them go through the constructor: LangChain serialises only what did.
 *
 * @param {Omit<ProviderReply, "messages">} reply
 * @param {string} provider
 */
function replyFields(reply, provider) {
  const { usage } = reply;
  const reasoning = reasoningKwargs(reply);
  return compact({
    id: reply.messageId,
    content: reply.content,
    tool_calls: reply.toolCalls.map(toolCall),
    invalid_tool_calls: reply.invalidToolCalls.map(invalidToolCall),
    usage_metadata: compact({
      input_tokens: usage.inputTokens,
      output_tokens: usage.outputTokens,
      total_tokens: usage.totalTokens,
      input_token_details: known({
        cache_read: usage.cacheReadTokens,
        cache_creation: usage.cacheWriteTokens,
        // The names of LangChain's Python package: its JavaScript has none of its own.
        ephemeral_5m_input_tokens: usage.cacheWrite5mTokens,
        ephemeral_1h_input_tokens: usage.cacheWrite1hTokens,
      }),
      output_token_details: known({ reasoning: usage.reasoningTokens }),
    }),
    response_metadata: compact({
      provider,
      model_provider: reasoning && TRANSLATOR,
      model: reply.model,
      model_name: reply.model,
      session_id: reply.sessionId,
      stop_reason: reply.stopReason,
      permission_mode: reply.permissionMode,
      cost: reply.costUsd,
      cost_usd: reply.costUsd,
      duration_ms: reply.durationMs,
      num_turns: reply.numTurns,
      permission_denials: reply.permissionDenials?.map(({ toolName, toolUseId, toolInput }) => ({
        tool_name: toolName,
        tool_use_id: toolUseId,
        tool_input: toolInput,
      })),
      service_tier: reply.serviceTier,
      speed: reply.speed,
      usage_estimated: usage.estimated,
      cache_hit_share: usage.cacheHitShare,
      cache_miss: reply.cacheMiss,
      diagnostics: reply.diagnostics,
      cli_version: reply.cliVersion,
      structured_output: reply.structured,
      run: reply.run,
    }),
    additional_kwargs: reasoning,
  });
}

/**
 * `name`, `args`, `id` and nothing more: what SPEC-01's `parseToolCalls` gives.
 *
 * @param {ToolCall} call
 * @returns {ToolCall}
 */
function toolCall({ name, args, id }) {
  return { name, args, id };
}

/** @param {InvalidToolCall} call */
function invalidToolCall({ name, args, id, error }) {
  return compact({ type: "invalid_tool_call", name: name ?? undefined, args, id: id ?? undefined, error });
}

/**
 * The native entry's answer: an `AIMessage` in shape, without LangChain.
 *
 * @param {Omit<ProviderReply, "messages">} reply
 * @param {string} provider
 * @returns {AIMessageJson}
 */
function toAIMessageJson(reply, provider) {
  const fields = /** @type {Omit<AIMessageJson, "type">} */ (replyFields(reply, provider));
  return { type: "ai", ...fields, additional_kwargs: fields.additional_kwargs ?? {} };
}

/**
 * @template T
 * @param {new (fields: ReturnType<typeof replyFields>) => T} AIMessage
 * @returns {(reply: Omit<ProviderReply, "messages">, provider: string) => T}
 */
function aiMessageBuilder(AIMessage) {
  return (reply, provider) => new AIMessage(replyFields(reply, provider));
}

/**
 * Without the keys that are `undefined`.
 *
 * @param {Record<string, unknown>} fields
 * @returns {Record<string, unknown>}
 */
function compact(fields) {
  /** @type {Record<string, unknown>} */
  const kept = {};
  for (const key of Object.keys(fields)) if (fields[key] !== undefined) kept[key] = fields[key];
  return kept;
}

/** @param {Record<string, unknown>} details */
function known(details) {
  const kept = compact(details);
  return Object.keys(kept).length > 0 ? kept : undefined;
}

module.exports = {
  asBytes,
  eachOf,
  encodeMessages,
  encodeReading,
  markBytes,
  packMessages,
  aiMessageBuilder,
  replyFields,
  toAIMessageJson,
  toolCall,
};
