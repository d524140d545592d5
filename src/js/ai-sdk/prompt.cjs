"use strict";

/**
 * In: a prompt of the AI SDK (`LanguageModelV3Prompt`, and what of V4 reaches a V3 model). Out: messages for a provider.
 *
 * Only the frame is translated here: who speaks, which calls were made, whose result this is. What a message holds goes over as it is,
 * for the native side reads the AI SDK's parts as it reads everybody's (`src/model/message/content/read.rs`), and refuses by name what the
 * provider can't take.
 *
 * @import { CliPromptMessage } from "./index.d.cts"
 *
 * @typedef {{ type: string, [field: string]: any }} Part
 * @typedef {{ role: string, content: unknown, tool_calls?: object[], tool_call_id?: string, status?: "error",
 *   additional_kwargs?: object, response_metadata?: object }} Message
 */

const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { METADATA } = require("./words.cjs");

/**
 * @param {readonly CliPromptMessage[]} prompt
 * @returns {Message[]}
 */
function messagesOf(prompt) {
  if (!Array.isArray(prompt)) throw fault("INVALID_MESSAGES", `prompt must be an array, got ${describe(prompt)}`);
  return prompt.flatMap(({ role, content }, index) => {
    if (!Array.isArray(content)) return [{ role, content }];
    if (role === "assistant") return [assistant(content)];
    if (role !== "tool") return [{ role, content: contentOf(content) }];
    return content.filter(({ type }) => type === "tool-result").map((part) => result(part, `prompt[${index}]`));
  });
}

/**
 * The model's turn. What the CLI did by itself in it, and what it thought, is no message to the model.
 *
 * @param {readonly Part[]} parts
 * @returns {Message}
 */
function assistant(parts) {
  const calls = parts.filter(({ type, providerExecuted }) => type === "tool-call" && providerExecuted !== true);
  return {
    role: "assistant",
    content: contentOf(parts.filter(({ type }) => type === "text" || type === "file")),
    ...(calls.length === 0
      ? {}
      : {
          tool_calls: calls.map(({ toolCallId, toolName, input }) => ({ id: toolCallId, name: toolName, args: input })),
        }),
    ...sealedReasoning(parts),
  };
}

/**
 * The reasoning that only the API that gave it can read, back in the fields in which `js/reasoning.cjs` looks for it.
 *
 * @param {readonly Part[]} parts
 */
function sealedReasoning(parts) {
  for (const { providerOptions } of parts) {
    const { reasoningDetails, provider, model, run } = providerOptions?.[METADATA] ?? {};
    if (!Array.isArray(reasoningDetails)) continue;
    return { additional_kwargs: { reasoning_details: reasoningDetails }, response_metadata: { provider, model, run } };
  }
  return undefined;
}

/**
 * What is nothing but text goes over as one, as the native side would join it: of a long thread, that is most of the work.
 *
 * @param {readonly Part[]} parts
 */
function contentOf(parts) {
  let text = "";
  for (const part of parts) {
    if (part.type !== "text" || typeof part.text !== "string") return parts.map(untagged);
    text += part.text;
  }
  return text;
}

/**
 * A part of a user's message. V4 says what `data` is in a tag; a V3 model gets the tags that V3 has no form for.
 *
 * @param {Part} part
 * @returns {Part}
 */
function untagged(part) {
  const { type, data } = part;
  if (type !== "file" || typeof data !== "object" || data === null) return part;
  switch (data.type) {
    case "data":
      return { ...part, data: data.data };
    case "url":
      return { ...part, data: String(data.url) };
    case "text": {
      const { data: _, ...rest } = part;
      return { ...rest, text: data.text };
    }
    case "reference": {
      const { data: _, ...rest } = part;
      return { ...rest, fileId: data.reference };
    }
    default:
      return part;
  }
}

/**
 * @param {Part} part a `tool-result`
 * @param {string} at
 * @returns {Message}
 */
function result({ toolCallId, output }, at) {
  const message = { role: "tool", tool_call_id: toolCallId };
  const failed = /** @type {const} */ ({ status: "error" });
  switch (output?.type) {
    case "text":
      return { ...message, content: output.value };
    case "json":
      return { ...message, content: JSON.stringify(output.value) ?? "" };
    case "error-text":
      return { ...message, ...failed, content: output.value };
    case "error-json":
      return { ...message, ...failed, content: JSON.stringify(output.value) ?? "" };
    case "execution-denied":
      return { ...message, ...failed, content: output.reason ?? "The execution of this tool was denied." };
    case "content":
      return { ...message, content: output.value.map(untagged) };
    default:
      throw fault("INVALID_MESSAGES", `${at} has a tool result of an unknown type: ${describe(output?.type)}`);
  }
}

module.exports = { messagesOf };
