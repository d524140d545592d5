"use strict";

/**
 * In: the caller's messages, whatever made them. Out: the one form the native side reads (`src/message.rs`), and back: the
 * native side's reply as an `AIMessage` of the caller's own LangChain (the only place that builds one).
 *
 * Messages are recognised by shape, never by `instanceof`: in one process there may be several copies of LangChain, an ESM and a
 * CommonJS build of each, serialised messages and plain objects.
 *
 * @typedef {{ json: string, texts: string }} PackedThread
 *
 * @import { AIMessageJson, InvalidToolCall, ProviderReply, ToolCall } from "../../index.js"
 */

const { ProviderError, fault } = require("./errors.cjs");
const { describe } = require("./options.cjs");
const { TRANSLATOR, encodeReasoning, reasoningKwargs } = require("./reasoning.cjs");

/** Names other dialects have for LangChain's types. A name that is not here is kept as it is. */
const TYPES = new Map([
  ["user", "human"],
  ["assistant", "ai"],
  ["model", "ai"],
  ["developer", "system"],
  ["chat", "generic"],
]);

/**
 * Where a thread is written to.
 *
 * @typedef {object} Target
 * @property {string[]} [texts] takes the contents that are text; in the JSON they are their lengths then
 * @property {boolean} [pure] the thread becomes a string, for which there is no provider: bytes are refused at once
 */

/**
 * @param {unknown} messages
 * @param {Target} [target]
 * @returns {string} JSON of the normalised thread
 */
function encodeMessages(messages, target = {}) {
  if (!Array.isArray(messages)) {
    throw fault("INVALID_MESSAGES", `messages must be an array, such as ["Say hello"], got ${describe(messages)}`);
  }
  return `[${Array.from(messages, (message, index) => encodeMessage(message, index, target)).join(",")}]`;
}

/**
 * The thread as `src/thread.rs` takes it.
 *
 * @param {unknown} messages
 * @param {{ pure?: boolean }} [how]
 * @returns {PackedThread}
 */
function packMessages(messages, how) {
  /** @type {string[]} */
  const texts = [];
  const json = encodeMessages(messages, { ...how, texts });
  return { json, texts: texts.join("") };
}

/**
 * @param {unknown} message
 * @param {number} index
 * @param {Target} target
 */
function encodeMessage(message, index, target) {
  const at = `messages[${index}]`;
  try {
    return encodeFields(readMessage(message, at), at, target);
  } catch (error) {
    if (ProviderError.isInstance(error)) throw error;
    // A getter or a proxy of the caller's that throws.
    throw fault("INVALID_MESSAGES", `${at} can't be read: ${error instanceof Error ? error.message : error}`, error);
  }
}

/**
 * @typedef {{ content?: unknown, tool_calls?: unknown, tool_call_id?: unknown, status?: unknown, is_error?: unknown,
 *   additional_kwargs?: { tool_calls?: unknown, [name: string]: unknown } | null,
 *   response_metadata?: Record<string, unknown> | null }} Fields
 */

/**
 * Who speaks, and where the rest is to be found.
 *
 * @param {unknown} message
 * @param {string} at
 * @returns {{ type: string, fields: Fields }}
 */
function readMessage(message, at) {
  if (typeof message === "string") return { type: "human", fields: { content: message } };
  if (Array.isArray(message)) {
    if (message.length === 2 && typeof message[0] === "string") {
      return { type: canonical(message[0]), fields: { content: message[1] } };
    }
    throw fault("INVALID_MESSAGES", `${at} is an array, but not a pair [role, content]`);
  }
  if (typeof message !== "object" || message === null) {
    throw fault("INVALID_MESSAGES", `${at} must be a message, got ${describe(message)}`);
  }
  const it = /** @type {Fields & Record<string, unknown>} */ (message);
  // A message that LangChain serialised: {lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs}.
  if (it.lc === 1 && Array.isArray(it.id) && isObject(it.kwargs)) {
    const name = String(it.id.at(-1)).replace(/Message(Chunk)?$/, "");
    return { type: canonical(name.toLowerCase()), fields: it.kwargs };
  }
  const type = speaker(it);
  if (typeof type !== "string" || type === "") {
    throw fault("INVALID_MESSAGES", `${at} has neither a type nor a role that is a string`);
  }
  // What LangChain's toDict() and mapChatMessagesToStoredMessages() write: {type: "human", data: {…}}.
  return { type: canonical(type), fields: isObject(it.data) && it.content === undefined ? it.data : it };
}

/** @param {Record<string, unknown>} message */
function speaker(message) {
  if (typeof message._getType === "function") return message._getType();
  if (typeof message.getType === "function") return message.getType();
  // OpenAI's Responses API says {type: "message", role: "user"}.
  if (typeof message.role === "string" && (message.type === undefined || message.type === "message"))
    return message.role;
  return message.type;
}

/** @param {string} type */
function canonical(type) {
  return TYPES.get(type) ?? type;
}

/**
 * @param {{ type: string, fields: Fields }} message
 * @param {string} at
 * @param {Target} target
 */
function encodeFields({ type, fields }, at, target) {
  let json = `{"type":${JSON.stringify(type)},"content":${encodeContent(fields.content ?? "", at, target)}`;
  if (type === "ai") {
    const calls = fields.tool_calls ?? fields.additional_kwargs?.tool_calls ?? [];
    if (!Array.isArray(calls)) {
      throw fault("INVALID_MESSAGES", `${at}.tool_calls must be an array, got ${describe(calls)}`);
    }
    if (calls.length > 0) {
      const encoded = calls.map((call, index) => encodeToolCall(call, `${at}.tool_calls[${index}]`));
      json += `,"tool_calls":[${encoded.join(",")}]`;
    }
    // A prompt has none.
    const reasoning = target.pure ? undefined : encodeReasoning(fields);
    if (reasoning !== undefined) json += `,"reasoning":${reasoning}`;
  }
  if (type === "tool") {
    json += `,"tool_call_id":${JSON.stringify(readId(fields.tool_call_id, `${at}.tool_call_id`))}`;
    if (fields.status === "error" || fields.is_error === true) json += ',"is_error":true';
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
  const args = from.args ?? from.arguments ?? {};
  // Arguments that are JSON text already go over as that text: key order and number spelling survive.
  const text = typeof args === "string" && holdsObject(args) ? args : stringify(args, `${at}.args`);
  return `{"id":${id},"name":${JSON.stringify(from.name)},"args":${text}}`;
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
 * of their own, so that they are never taken for text (`src/message/content.rs`).
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
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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
      input_token_details: known({ cache_read: usage.cacheReadTokens, cache_creation: usage.cacheWriteTokens }),
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
      usage_estimated: usage.estimated,
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
  encodeMessages,
  markBytes,
  packMessages,
  aiMessageBuilder,
  replyFields,
  toAIMessageJson,
  toolCall,
};
