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
 */

const { sizesOf } = require("./sizes.cjs");

/** What any provider of this package does: tools are called, natively or in words, and an answer fits its schema. */
const COMMON = Object.freeze({ toolCalling: true, toolChoice: true, structuredOutput: true });

/**
 * By the provider's id.
 *
 * @type {Readonly<Record<string, Facts>>}
 */
const FACTS = Object.freeze({
  claude: { vendor: "anthropic", models: /^claude-/ },
  codex: { vendor: "openai", models: /^(gpt-|o\d)/ },
  gemini: { vendor: "google_genai", models: /^gemini-/ },
  qwen: { vendor: "qwen", models: /^qwen/ },
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
  opencode: { imageInputs: true, imageToolMessage: true, reasoningOutput: true },
});

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
function profileOf(provider, model, given) {
  return { ...COMMON, ...sizesOf(provider, model), ...CAN[provider], ...given };
}

module.exports = { profileOf, vendorOf };
