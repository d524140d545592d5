"use strict";

/**
 * In: the events of a run. Out: the updates of `invokeWithUpdates`: whole messages, tool calls, token counts and the end.
 *
 * @import { InvokeUpdate, ProviderEvent, ProviderReply, TokenUsage, ToolCall, UpdateUsage } from "../../index.js"
 */

const { toolCall } = require("./messages.cjs");

/** Maps one run, event by event. A message's event holds its text with the tool calls taken out. */
function createUpdates() {
  /** @type {Set<string>} calls that went out */
  const calls = new Set();
  /** @type {Map<string, ToolCall>} calls that the CLI may still answer itself: then they are not the caller's */
  const held = new Map();
  /** @type {Set<string>} */
  const delivered = new Set();

  /**
   * @param {string} text
   * @returns {InvokeUpdate[]}
   */
  function message(text) {
    const content = text.trim();
    if (content === "") return [];
    delivered.add(content);
    return [{ type: "assistant_message", content }];
  }

  /**
   * @param {ProviderReply} reply
   * @returns {InvokeUpdate[]}
   */
  function done(reply) {
    const updates = delivered.has(reply.content) ? [] : message(reply.content);
    for (const call of reply.toolCalls) {
      if (!calls.has(call.id)) updates.push({ type: "tool_call", toolCall: toolCall(call) });
    }
    const content = reply.content === "" ? {} : { content: reply.content };
    updates.push({ type: "final", ...content, ...figures(reply.usage, reply.stopReason) });
    return updates;
  }

  /** @returns {InvokeUpdate[]} the calls that nobody has answered by the time the model goes on */
  function release() {
    const updates = Array.from(held.values(), (call) => ({ type: /** @type {const} */ ("tool_call"), toolCall: call }));
    for (const id of held.keys()) calls.add(id);
    held.clear();
    return updates;
  }

  return {
    /**
     * @param {ProviderEvent} event
     * @returns {InvokeUpdate[]}
     */
    push(event) {
      switch (event.type) {
        case "message":
          return [...release(), ...message(event.content)];
        case "tool_call": {
          const { id, name, args } = event.toolCall;
          held.set(id, { name, id, args });
          return [];
        }
        case "tool_result":
          held.delete(event.toolCallId);
          return [];
        case "usage":
          return [...release(), { type: "usage", ...figures(event.usage, event.rawStopReason) }];
        case "done":
          return [...release(), ...done(event.reply)];
        default:
          return [];
      }
    },
  };
}

/**
 * @param {TokenUsage} usage
 * @param {string | undefined} rawStopReason
 * @returns {{ usage: UpdateUsage, rawStopReason?: string }}
 */
function figures({ inputTokens, outputTokens, totalTokens, cacheReadTokens, cacheWriteTokens }, rawStopReason) {
  return {
    usage: {
      inputTokens,
      outputTokens,
      totalTokens,
      ...(cacheReadTokens === undefined ? {} : { cacheReadTokens }),
      ...(cacheWriteTokens === undefined ? {} : { cacheWriteTokens }),
    },
    ...(rawStopReason === undefined ? {} : { rawStopReason }),
  };
}

module.exports = { createUpdates };
