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
  },
  codex: {
    vendor: "openai",
    models: /^(gpt-|o\d)/,
    sizes: { maxInputTokens: 272_000, maxOutputTokens: 128_000 },
  },
  gemini: {
    vendor: "google_genai",
    models: /^gemini-/,
    sizes: { maxInputTokens: 1_048_576, maxOutputTokens: 65_536 },
  },
  qwen: {
    vendor: "qwen",
    models: /^qwen/,
    sizes: { maxInputTokens: 262_144, maxOutputTokens: 65_536 },
  },
});

/**
 * What a provider hands over beside text, in one of its engines at least; docs/providers.md has it for each. Of an API of one's own it
 * is the model's to know.
 *
 * @type {Readonly<Record<string, ChatCliProfile>>}
 */
const CAN = Object.freeze({
  claude: {
    imageInputs: true,
    imageUrlInputs: true,
    pdfInputs: true,
    imageToolMessage: true,
    pdfToolMessage: true,
    reasoningOutput: true,
  },
  codex: { imageInputs: true, imageToolMessage: true, reasoningOutput: true },
  gemini: { imageInputs: true, pdfInputs: true, imageToolMessage: true, pdfToolMessage: true },
  qwen: { reasoningOutput: true },
  opencode: { reasoningOutput: true },
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
  return { ...COMMON, ...sized?.sizes, ...context, ...CAN[provider], ...given };
}

module.exports = { priceName, profileOf, vendorOf };
