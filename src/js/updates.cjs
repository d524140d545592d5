"use strict";

/**
 * In: the events of a run. Out: the updates of `invokeWithUpdates`: whole messages, tool calls, token counts and the end.
 *
 * @import { InvokeUpdate, ProviderEvent, ProviderReply, TokenUsage, UpdateUsage } from "../../index.js"
 */

const { toolCall } = require("./messages.cjs");

/**
 * Text in which a tool call may be written. A message's event holds the text as the model wrote it; only the reply at the
 * end has the calls taken out of it, and a user interface is not to show them twice.
 */
const MAY_HOLD_CALL = /tool_?calls?|function_?call|"(name|tool|function)"\s*:|<(tool|function|invoke)/i;

/**
 * Maps one run. Updates come at once, except behind a message that may hold a tool call: from there on they wait for the
 * reply, and come in their order with the message's clean text.
 */
function createUpdates() {
  /** Each an update, or the index of a message whose clean text is to be looked up. @type {(InvokeUpdate | number)[]} */
  const waiting = [];
  /** The messages' texts as they came. @type {string[]} */
  const texts = [];
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
   * @param {Exclude<ProviderEvent, { type: "message" | "done" }>} event
   * @returns {InvokeUpdate[]}
   */
  function simple(event) {
    if (event.type === "tool_call") {
      const { id, name, args } = event.toolCall;
      calls.add(id);
      return [{ type: "tool_call", toolCall: { name, id, args } }];
    }
    if (event.type === "usage") return [{ type: "usage", ...figures(event.usage, event.rawStopReason) }];
    return [];
  }

  /**
   * @param {ProviderReply} reply
   * @returns {InvokeUpdate[]}
   */
  function done(reply) {
    const aligned = reply.messages.length === texts.length;
    const updates = waiting.splice(0).flatMap((item) => {
      if (typeof item !== "number") return [item];
      return message((aligned ? reply.messages[item]?.content : texts[item]) ?? "");
    });
    if (!delivered.has(reply.content)) updates.push(...message(reply.content));
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
      if (event.type === "done") return done(event.reply);
      if (event.type === "message") {
        const index = texts.push(event.content) - 1;
        if (waiting.length === 0 && !MAY_HOLD_CALL.test(event.content)) return message(event.content);
        waiting.push(index);
        return [];
      }
      const updates = simple(event);
      if (waiting.length === 0) return updates;
      waiting.push(...updates);
      return [];
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
