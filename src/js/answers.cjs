"use strict";

/**
 * In: the answer of an adapter that can only `invoke`. Out: the events a stream would have had.
 *
 * @import { ProviderEvent, ProviderReply, TokenUsage } from "../../index.js"
 */

/**
 * What a stream would have had for an answer that came whole.
 *
 * @param {unknown} message
 * @param {readonly unknown[]} messages
 * @returns {Generator<ProviderEvent, void, undefined>}
 */
function* eventsOf(message, messages) {
  const reply = replyOf(message, messages);
  for (const { id, content } of reply.messages) yield { type: "message", ...(id === undefined ? {} : { id }), content };
  for (const toolCall of reply.toolCalls) yield { type: "tool_call", toolCall };
  for (const invalidToolCall of reply.invalidToolCalls) yield { type: "invalid_tool_call", invalidToolCall };
  const { usage, stopReason } = reply;
  yield { type: "usage", usage, ...(stopReason === undefined ? {} : { rawStopReason: stopReason }) };
  yield { type: "done", reply };
}

/**
 * @typedef {object} Answer what an AIMessage may hold
 * @property {unknown} [id]
 * @property {unknown} [content]
 * @property {{ id?: string, name: string, args: Record<string, unknown> }[]} [tool_calls]
 * @property {{ id?: string, name?: string, args?: string, error?: string }[]} [invalid_tool_calls]
 * @property {{ input_tokens: number, output_tokens: number, total_tokens: number }} [usage_metadata]
 * @property {Record<string, unknown>} [response_metadata]
 * @property {Record<string, unknown>} [additional_kwargs]
 */

/**
 * @param {unknown} message
 * @param {readonly unknown[]} messages
 * @returns {ProviderReply}
 */
function replyOf(message, messages) {
  const answer = /** @type {Answer} */ (
    typeof message === "object" && message !== null ? message : { content: message }
  );
  const content = textOf(answer.content).trim();
  const id = typeof answer.id === "string" ? { id: answer.id } : {};
  const metadata = answer.response_metadata ?? {};
  const model = metadata.model_name ?? metadata.model;
  const thinking = answer.additional_kwargs?.reasoning_content;
  const stopReason = metadata.stop_reason ?? metadata.finish_reason;
  return {
    content,
    messages: content === "" ? [] : [{ ...id, content }],
    toolCalls: (answer.tool_calls ?? []).map(({ name, args, id }, index) => ({
      name,
      args,
      id: id ?? `call_${index}`,
    })),
    invalidToolCalls: (answer.invalid_tool_calls ?? []).map(({ name, args, id, error }) => ({
      name: name ?? null,
      args: args ?? "",
      id: id ?? null,
      error: error ?? "it can't be read",
    })),
    usage: usageOf(answer.usage_metadata, messages, content),
    ...(typeof thinking === "string" ? { thinking } : {}),
    ...(typeof answer.id === "string" ? { messageId: answer.id } : {}),
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof stopReason === "string" ? { stopReason } : {}),
    ...(metadata.structured_output === undefined ? {} : { structured: metadata.structured_output }),
  };
}

/**
 * @param {Answer["usage_metadata"]} usage
 * @param {readonly unknown[]} messages
 * @param {string} content
 * @returns {TokenUsage}
 */
function usageOf(usage, messages, content) {
  if (usage !== undefined && usage !== null) {
    const { input_tokens, output_tokens, total_tokens } = usage;
    return { inputTokens: input_tokens, outputTokens: output_tokens, totalTokens: total_tokens };
  }
  return estimateUsage(messages, content);
}

/**
 * @param {readonly unknown[]} messages that were read
 * @param {string} content that was written
 * @returns {TokenUsage}
 */
function estimateUsage(messages, content) {
  let characters = 0;
  for (const message of messages) {
    const has = typeof message === "object" && message !== null && "content" in message;
    characters += textOf(has ? message.content : message).length;
  }
  const inputTokens = Math.ceil(characters / 4);
  const outputTokens = Math.ceil(content.length / 4);
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, estimated: true };
}

/**
 * @param {unknown} content a message's: text, or blocks of which some are text
 * @returns {string}
 */
function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((block) => (typeof block === "string" ? block : typeof block?.text === "string" ? block.text : ""))
    .join("");
}

module.exports = { estimateUsage, eventsOf };
