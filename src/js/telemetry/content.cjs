"use strict";

/**
 * In: a thread, a reply, arguments and results of tools. Out: the texts of the conventions' content attributes: nothing, without
 * secrets, or as they are.
 *
 * @import { ProviderReply } from "../../../index.js"
 *
 * @typedef {"none" | "redacted" | "full"} ContentMode
 * @typedef {object} Content
 * @property {(messages: () => string) => Record<string, string | undefined>} input `messages`: JSON of the normalised thread
 * @property {(reply: Partial<ProviderReply>) => string | undefined} output
 * @property {(value: unknown) => string | undefined} value
 * @property {(message: string) => string | undefined} failure an error's message: it may quote a prompt, a CLI's words, a path
 */

const { ATTR } = require("./names.cjs");

const ROLES = new Map([
  ["human", "user"],
  ["ai", "assistant"],
  ["tool", "tool"],
]);

/**
 * @param {ContentMode} mode
 * @param {() => { redact(text: string): string, redactJson(json: string): string }} redactor made when there is something to redact
 * @returns {Content}
 */
function createContent(mode, redactor) {
  if (mode === "none") {
    return { input: () => ({}), output: () => undefined, value: () => undefined, failure: () => undefined };
  }
  /** @param {string} json */
  const json = (json) => (mode === "full" ? json : redactor().redactJson(json));
  /** @param {string} text */
  const plain = (text) => (mode === "full" ? text : redactor().redact(text));
  return {
    input(messages) {
      const all = JSON.parse(messages());
      const system = all.filter(isSystem).map((/** @type {any} */ message) => textPart(message.content));
      return {
        [ATTR.systemInstructions]: system.length === 0 ? undefined : json(JSON.stringify(system)),
        [ATTR.inputMessages]: json(
          JSON.stringify(all.filter((/** @type {any} */ one) => !isSystem(one)).map(toMessage)),
        ),
      };
    },
    output({ content, toolCalls = [], stopReason }) {
      const parts = [...(content ? [textPart(content)] : []), ...toolCalls.map(callPart)];
      return json(JSON.stringify([{ role: "assistant", parts, finish_reason: stopReason ?? "" }]));
    },
    value: (value) => (typeof value === "string" ? plain(value) : json(JSON.stringify(value ?? null))),
    // Made of what others print: never as it is.
    failure: (message) => redactor().redact(message),
  };
}

/** @param {{ type: string }} message */
const isSystem = ({ type }) => type === "system";

/**
 * A message of the normalised thread as the conventions have it. Bytes are never part of it.
 *
 * @param {any} message
 */
function toMessage({ type, content, tool_calls: calls, tool_call_id: id }) {
  const role = ROLES.get(type) ?? type;
  if (type === "tool") return { role, parts: [{ type: "tool_call_response", id, response: textOf(content) }] };
  return { role, parts: [textPart(content), ...(calls ?? []).map(callPart)] };
}

/** @param {unknown} content */
const textPart = (content) => ({ type: "text", content: textOf(content) });

/** @param {{ id?: unknown, name?: unknown, args?: unknown }} call */
const callPart = ({ id, name, args }) => ({ type: "tool_call", id, name, arguments: args });

/**
 * Text as it is; of blocks, the texts, and of others their kind.
 *
 * @param {unknown} content
 */
function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === undefined ? "" : JSON.stringify(content);
  return content
    .map((block) => (typeof block?.text === "string" ? block.text : `[${block?.type ?? "block"}]`))
    .join("\n");
}

module.exports = { createContent };
