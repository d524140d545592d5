"use strict";

/**
 * A model's reasoning in messages, where `content` stays the answer's text.
 *
 * In: a reply's reasoning. Out: fields of an `AIMessage` that hold it (`additional_kwargs.reasoning_content`, as LangChain's DeepSeek, Ollama
 * and xAI integrations have it, and `reasoning_details`, as its OpenRouter integration has them), and of those, when the message comes
 * back in a thread, what the native side reads. From LangChain 1 on, `contentBlocks` are made by the translator registered here: the
 * name in `response_metadata.model_provider` finds it. Where there is none (LangChain 0.3), the fields are all the same.
 *
 * @import { ProviderReply, ReasoningDetail } from "../../index.js"
 * @import { Reading } from "./reading.cjs"
 *
 * @typedef {{ additional_kwargs?: Record<string, unknown> | null, response_metadata?: Record<string, unknown> | null }} Holder
 * @typedef {{ type: string, [field: string]: unknown }} Block
 */

/** The name of the translator. */
const TRANSLATOR = "deep-factor-providers";

/**
 * @param {Pick<ProviderReply, "thinking" | "reasoning">} reply
 * @returns {{ reasoning_content?: string, reasoning_details?: readonly ReasoningDetail[] } | undefined}
 */
function reasoningKwargs({ thinking = "", reasoning = [] }) {
  if (thinking === "" && reasoning.length === 0) return undefined;
  return {
    ...(thinking === "" ? {} : { reasoning_content: thinking }),
    ...(reasoning.length === 0 ? {} : { reasoning_details: reasoning }),
  };
}

/**
 * What a message of a thread brings back, into what is read of it. What has another shape is nobody's.
 *
 * @param {Holder} message
 * @param {Reading} reading
 */
function readReasoning({ additional_kwargs: kwargs, response_metadata: metadata }, reading) {
  const details = kwargs?.reasoning_details;
  if (!Array.isArray(details) || details.length === 0) return;
  const run = /** @type {{ login?: unknown } | undefined} */ (metadata?.run);
  const { provider, model } = metadata ?? {};
  reading.details = details;
  reading.provider = word(provider);
  reading.login = word(run?.login);
  reading.model = word(model);
}

/**
 * For `src/model/message/reasoning.rs`.
 *
 * @param {Reading} reading with reasoning
 * @returns {string} JSON
 */
function encodeReasoning({ provider, login, model, details }) {
  return JSON.stringify({ provider, login, model, details });
}

/** @param {unknown} value */
function word(value) {
  return typeof value === "string" ? value : undefined;
}

/**
 * A message as LangChain's standard blocks: reasoning, text, calls.
 *
 * @param {Holder & { content: unknown, tool_calls?: readonly { id?: string, name: string, args: unknown }[] }} message
 * @returns {Block[]}
 */
function blocksOf({ content, additional_kwargs: kwargs, tool_calls: calls = [] }) {
  const details = Array.isArray(kwargs?.reasoning_details) ? kwargs.reasoning_details : [];
  const shown = details.map(shownIn).filter((text) => text !== "");
  if (shown.length === 0 && typeof kwargs?.reasoning_content === "string") shown.push(kwargs.reasoning_content);
  /** @type {Block[]} */
  const blocks = shown.filter((text) => text !== "").map((reasoning) => ({ type: "reasoning", reasoning }));
  if (Array.isArray(content)) blocks.push(...content);
  else if (typeof content === "string" && content !== "") blocks.push({ type: "text", text: content });
  for (const { id, name, args } of calls) blocks.push({ type: "tool_call", id, name, args });
  return blocks;
}

/** @param {any} detail */
function shownIn(detail) {
  const text = detail?.type === "reasoning.summary" ? detail.summary : detail?.text;
  return typeof text === "string" ? text : "";
}

/** Tells LangChain 1 how messages with reasoning are read. To be called when LangChain is there. */
function registerTranslator() {
  const { lc_block_translators_registry: registry } = /** @type {Record<string, unknown>} */ (globalThis);
  if (!(registry instanceof Map) || registry.has(TRANSLATOR)) return;
  registry.set(TRANSLATOR, { translateContent: blocksOf, translateContentChunk: blocksOf });
}

module.exports = { TRANSLATOR, encodeReasoning, readReasoning, reasoningKwargs, registerTranslator };
