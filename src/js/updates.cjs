"use strict";

/**
 * In: the events of a run. Out: the updates of `invokeWithUpdates`: whole messages, tool calls, token counts and the end.
 *
 * @import { InvokeUpdate, ProviderEvent, ProviderReply, TokenUsage, UpdateUsage } from "../../index.js"
 */

const { toolCall } = require("./messages.cjs");

/** Maps one run, event by event. A message's event holds its text with the tool calls taken out. */
function createUpdates() {
  /** @type {Set<string>} */
  const calls = new Set();
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

  return {
    /**
     * @param {ProviderEvent} event
     * @returns {InvokeUpdate[]}
     */
    push(event) {
      switch (event.type) {
        case "message":
          return message(event.content);
        case "tool_call": {
          const { id, name, args } = event.toolCall;
          calls.add(id);
          return [{ type: "tool_call", toolCall: { name, id, args } }];
        }
        case "usage":
          return [{ type: "usage", ...figures(event.usage, event.rawStopReason) }];
        case "done":
          return done(event.reply);
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
