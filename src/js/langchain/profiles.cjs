"use strict";

/**
 * In: a provider's id and a model's name. Out: what LangChain asks of a model that is not in its answers: its vendor, by the name
 * price tables have, and its profile.
 *
 * @import { ChatCliProfile } from "./index.mjs"
 *
 * @typedef {object} Facts
 * @property {string} vendor LangChain's and LangSmith's name for who makes the models
 * @property {RegExp} models what they are called
 * @property {{ maxInputTokens: number, maxOutputTokens: number }} sizes tokens, of the vendor's present models
 * @property {Partial<ChatCliProfile>} can what the provider hands over beside text
 */

/** What any provider of this package does: tools are called, natively or in words, and an answer fits its schema. */
const COMMON = Object.freeze({ toolCalling: true, toolChoice: true, structuredOutput: true });

/**
 * By the provider's id. Sizes: the vendors' model pages, November 2026; one that a CLI is told otherwise (`[1m]`) is below.
 *
 * @type {Readonly<Record<string, Facts>>}
 */
const FACTS = Object.freeze({
  claude: {
    vendor: "anthropic",
    models: /^claude-/,
    sizes: { maxInputTokens: 200_000, maxOutputTokens: 64_000 },
    can: { reasoningOutput: true, imageInputs: true, pdfInputs: true, imageToolMessage: true },
  },
  codex: {
    vendor: "openai",
    models: /^(gpt-|o\d)/,
    sizes: { maxInputTokens: 272_000, maxOutputTokens: 128_000 },
    can: { reasoningOutput: true, imageInputs: true },
  },
  gemini: {
    vendor: "google_genai",
    models: /^gemini-/,
    sizes: { maxInputTokens: 1_048_576, maxOutputTokens: 65_536 },
    can: {},
  },
  qwen: {
    vendor: "qwen",
    models: /^qwen/,
    sizes: { maxInputTokens: 262_144, maxOutputTokens: 65_536 },
    can: {},
  },
});

/** A context that is not the model's usual one, as claude is told of it: `sonnet[1m]`. */
const CONTEXT = /\[(\d+)([km])\]$/i;

/**
 * The name that price tables have: without what a CLI writes behind it.
 *
 * @param {string | undefined} model
 * @returns {string | undefined}
 */
function priceName(model) {
  return model?.replace(CONTEXT, "");
}

/**
 * @param {string} provider
 * @param {string | undefined} model
 * @returns {string} of the model where its name says it, otherwise of the provider
 */
function vendorOf(provider, model = "") {
  // opencode names a model behind its vendor.
  const [vendor, rest] = model.split("/", 2);
  if (rest !== undefined && vendor) return vendor;
  const named = Object.values(FACTS).find(({ models }) => models.test(model));
  return (named ?? FACTS[provider])?.vendor ?? provider;
}

/**
 * @param {string} provider
 * @param {string | undefined} model
 * @param {object | undefined} given what the caller knows better
 * @returns {ChatCliProfile}
 */
function profileOf(provider, model = "", given) {
  const bare = model.slice(model.indexOf("/") + 1);
  const sized = Object.values(FACTS).find(({ models }) => models.test(bare)) ?? FACTS[provider];
  const [, digits, unit] = CONTEXT.exec(model) ?? [];
  const context = digits && { maxInputTokens: Number(digits) * (unit?.toLowerCase() === "m" ? 1_000_000 : 1000) };
  return { ...COMMON, ...sized?.sizes, ...context, ...FACTS[provider]?.can, ...given };
}

module.exports = { priceName, profileOf, vendorOf };
