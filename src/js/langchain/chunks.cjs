"use strict";

/**
 * In: the events of one run. Out: the pieces of one message, as LangChain's `AIMessageChunk`; joined, they are the answer.
 *
 * What can't be taken back is not sent early: tool calls come with the end, when it is known which are the caller's to run, but for those
 * whose arguments a native call tells as the model writes them: these are the caller's.
 *
 * @import { ProviderEvent, ProviderReply } from "../../../index.js"
 */

const { providerError } = require("../errors.cjs");
const { replyFields } = require("../messages.cjs");
const { compact } = require("./fields.cjs");

/** The name by which LangChain 1 makes standard blocks of a message with reasoning. */
const TRANSLATOR = "deep-factor-providers";

/**
 * @template TChunk
 * @param {new (fields: any) => TChunk} AIMessageChunk
 * @param {string} provider whose events they are
 */
function createChunker(AIMessageChunk, provider) {
  /** The pieces of the message that is being written. */
  let pieces = "";
  /** Whether a message came before it. */
  let follows = false;
  let hasText = false;
  let hasThought = false;
  /** Calls whose arguments came piece by piece, and the index of each. @type {Map<string, number>} */
  const written = new Map();
  /** The index of the first call. @type {number | undefined} */
  let base;
  /** A response broke off behind pieces that are out, and was asked for again. */
  let broken = false;
  /**
   * The run's id is that of all chunks, for they are one message. A message's own may come again in the next run (codex: `item_1`),
   * and LangGraph takes messages of one id for versions of one.
   *
   * @type {{ id?: string }}
   */
  let identity = {};

  /** @param {object} fields */
  const chunk = (fields) => new AIMessageChunk({ content: "", ...identity, ...fields });

  /** @param {string} text */
  const said = (text) => {
    // Several messages of one run are paragraphs of one.
    const content = follows && pieces === "" ? `\n\n${text}` : text;
    pieces += text;
    hasText = true;
    return chunk({ content });
  };

  return {
    /**
     * @param {ProviderEvent} event
     * @returns {TChunk | undefined}
     */
    push(event) {
      switch (event.type) {
        case "start":
          identity = { id: event.runId };
          return undefined;
        case "text_delta":
          return said(event.text);
        case "thinking_delta":
          hasThought = true;
          return chunk({
            additional_kwargs: { reasoning_content: event.text },
            response_metadata: { model_provider: TRANSLATOR },
          });
        case "tool_call_delta": {
          const { toolCallId: id, name, delta: args } = event;
          const known = written.get(id);
          const index = known ?? firstIndex() + written.size;
          written.set(id, index);
          const named = known === undefined ? { id, name } : {};
          return chunk({ tool_call_chunks: [{ type: "tool_call_chunk", ...named, args, index }] });
        }
        case "message": {
          // An adapter that can only be invoked has no pieces.
          const whole = pieces === "" ? said(event.content) : undefined;
          broken ||= pieces.trim() !== event.content.trim();
          pieces = "";
          follows = true;
          return whole;
        }
        case "done":
          broken ||= [...written.keys()].some((id) => !isCall(event.reply, id));
          if (broken) throw brokenOff(provider, event.reply);
          return last(event.reply);
        default:
          return undefined;
      }
    },
  };

  /** The blocks of a message are counted, and calls come behind its reasoning and its text. */
  function firstIndex() {
    base ??= Number(hasThought) + Number(hasText);
    return base;
  }

  /**
   * What is known at the end: calls, usage, and what `response_metadata` says.
   *
   * @param {ProviderReply} reply
   */
  function last(reply) {
    const fields = metadataOf(reply, provider);
    const whole = reply.toolCalls.filter(({ id }) => !written.has(id));
    const first = firstIndex() + written.size;
    const { reasoning_content, ...kwargs } = fields.additional_kwargs;
    // Of this chunk alone no block is to be made: its reasoning is out.
    if (hasThought) delete fields.response_metadata.model_provider;
    return chunk({
      // Its pieces are out; what belongs to it beside the text is known now.
      additional_kwargs: hasThought ? kwargs : compact({ reasoning_content, ...kwargs }),
      tool_call_chunks: [
        ...reply.invalidToolCalls.flatMap(({ id, args }) => {
          const index = written.get(id ?? "");
          return index === undefined ? [] : [{ type: "tool_call_chunk", args: unreadable(args), index }];
        }),
        ...whole.map(({ id, name, args }, index) => ({
          type: "tool_call_chunk",
          id,
          name,
          args: JSON.stringify(args),
          index: first + index,
        })),
      ],
      usage_metadata: fields.usage_metadata,
      response_metadata: fields.response_metadata,
    });
  }
}

/**
 * What goes behind the pieces of a call that can't be read. LangChain completes JSON that breaks off, and would make a call of it, with
 * other arguments: this closes what is open by what can't close it.
 *
 * @param {string} args
 */
function unreadable(args) {
  const open = [];
  let [inText, escaped] = [false, false];
  for (const char of args) {
    if (inText) {
      if (!escaped && char === '"') inText = false;
      escaped = !escaped && char === "\\";
    } else if (char === '"') inText = true;
    else if (char === "{" || char === "[") open.push(char);
    else if (char === "}" || char === "]") open.pop();
  }
  return `${inText ? `${escaped ? "n" : ""}"` : ""}${open.at(-1) === "[" ? "}" : "]"}`;
}

/**
 * Whether the call came, be it one that can't be read.
 *
 * @param {ProviderReply} reply
 * @param {string} id
 */
function isCall({ toolCalls, invalidToolCalls }, id) {
  return toolCalls.some((call) => call.id === id) || invalidToolCalls.some((call) => call.id === id);
}

/**
 * The fields of a message that a reply makes. A chunk derives invalid calls of its own from pieces of calls, so those of the reply
 * stand beside it.
 *
 * @param {ProviderReply} reply
 * @param {string} provider
 * @returns {{ usage_metadata: any, response_metadata: Record<string, any>, additional_kwargs: Record<string, unknown> }}
 */
function metadataOf(reply, provider) {
  const fields = /** @type {any} */ (replyFields(reply, reply.fallback?.provider ?? provider));
  const invalid = fields.invalid_tool_calls.length > 0 ? fields.invalid_tool_calls : undefined;
  const { fallback } = reply;
  const message_id = reply.messageId;
  const response_metadata = compact({ ...fields.response_metadata, message_id, fallback, invalid_tool_calls: invalid });
  const { usage_metadata, additional_kwargs = {} } = fields;
  return { usage_metadata, response_metadata, additional_kwargs };
}

/**
 * @param {string} provider
 * @param {ProviderReply} reply
 */
function brokenOff(provider, reply) {
  return providerError({
    category: "network",
    code: "CONNECTION_LOST",
    message:
      "a response broke off when pieces of it were streamed already, and the CLI asked for it again: the stream can't take them " +
      "back. Call again, or invoke() instead of stream()",
    provider,
    shouldRetry: true,
    shouldFallback: true,
    attempts: 1,
    usage: reply.usage,
    partial: { text: reply.content, events: 0 },
  });
}

module.exports = { createChunker };
