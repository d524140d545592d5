"use strict";

/**
 * In: the thread an agent's run began with, and what came to it, as the native side reports it. Out: messages of the caller's
 * own LangChain, or plain objects.
 *
 * @import { ProviderReply } from "../../index.js"
 *
 * @typedef {{ type: "human", content: string } | { type: "ai", provider: string, reply: ProviderReply }
 *   | { type: "tool", tool_call_id: string, name: string, content: unknown, status: string }} ThreadMessage
 *
 * @typedef {{ type: string, content: unknown, tool_calls?: { id: string, name: string, args: unknown }[],
 *   tool_call_id?: string, is_error?: boolean }} Plain
 *
 * @typedef {new (fields: any) => any} MessageClass
 * @typedef {{ AIMessage: MessageClass, HumanMessage: MessageClass, SystemMessage: MessageClass,
 *   ToolMessage: MessageClass }} MessageClasses
 */

/**
 * @template TMessage
 * @typedef {object} ThreadBuilder
 * @property {(thread: { systemPrompt: string | undefined, messages: readonly unknown[], encoded: string }) => TMessage[]} initial
 * @property {(added: ThreadMessage) => TMessage} message
 */

/**
 * @param {(reply: ProviderReply, provider: string) => any} toMessage
 * @param {MessageClasses | null} classes `null`: plain objects
 * @returns {ThreadBuilder<any>}
 */
function threadBuilder(toMessage, classes) {
  /** @type {(plain: Plain) => unknown} */
  const build = classes ? (plain) => construct(classes, plain) : (plain) => spell(plain);
  return {
    initial({ systemPrompt, messages, encoded }) {
      /** @type {Plain[]} */
      const normal = JSON.parse(encoded, reviveBytes);
      // A message that is one already stays that very object.
      const thread = normal.map((plain, index) =>
        isMessage(messages[index], classes) ? messages[index] : build(plain),
      );
      return systemPrompt === undefined ? thread : [build({ type: "system", content: systemPrompt }), ...thread];
    },
    message(added) {
      if (added.type === "ai") return toMessage(added.reply, added.provider);
      if (added.type === "human") return build(added);
      const { type, content, tool_call_id, name, status } = added;
      const fields = { content, tool_call_id, name, status };
      return classes ? new classes.ToolMessage(fields) : { type, ...fields };
    },
  };
}

/**
 * Bytes as `messages.cjs` writes them.
 *
 * @param {string} _
 * @param {any} value
 */
function reviveBytes(_, value) {
  const isBytes = typeof value === "object" && typeof value?.$bytes === "string" && Object.keys(value).length === 1;
  return isBytes ? new Uint8Array(Buffer.from(value.$bytes, "base64")) : value;
}

/**
 * @param {unknown} value
 * @param {MessageClasses | null} classes
 */
function isMessage(value, classes) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return classes === null || "_getType" in value || "getType" in value;
}

/**
 * @param {MessageClasses} classes
 * @param {Plain} plain
 */
function construct(classes, { type, content, tool_calls = [], tool_call_id, is_error }) {
  switch (type) {
    case "ai":
      return new classes.AIMessage({ content, tool_calls });
    case "system":
      return new classes.SystemMessage({ content });
    case "tool":
      return new classes.ToolMessage({ content, tool_call_id, status: is_error ? "error" : "success" });
    default:
      return new classes.HumanMessage({ content });
  }
}

/** @param {Plain} plain */
function spell({ type, content, tool_calls, tool_call_id, is_error }) {
  if (type !== "tool") return { type, content, ...(tool_calls && { tool_calls }) };
  return { type, content, tool_call_id, status: is_error ? "error" : "success" };
}

module.exports = { threadBuilder };
