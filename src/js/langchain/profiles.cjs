"use strict";

/**
 * In: a provider's id and a model's name. Out: what LangChain asks of a model that is not in its answers: its vendor, by the name
 * price tables have, and its profile. What is known of a provider stands in the registry.
 *
 * @import { ChatCliProfile } from "./index.mjs"
 * @import { Registered } from "../registry.cjs"
 */

const { everyProvider, registered } = require("../registry.cjs");
const { sizesOf } = require("./sizes.cjs");

/** What any provider of this package does: tools are called, natively or in words, and an answer fits its schema. */
const COMMON = Object.freeze({ toolCalling: true, toolChoice: true, structuredOutput: true });

/**
 * What a provider hands over beside text; docs/reference/providers.md has it for each engine. Of an API of one's own it is the model's to know.
 *
 * @param {Registered | undefined} provider
 * @returns {ChatCliProfile}
 */
function abilitiesOf(provider) {
  const has = (/** @type {Registered["hands"][number]} */ kind) => provider?.hands.includes(kind) === true;
  return {
    ...(has("images") && { imageInputs: true }),
    ...(provider?.models.takesImageUrls && { imageUrlInputs: true }),
    ...(has("documents") && { pdfInputs: true }),
    ...(has("resultImages") && { imageToolMessage: true }),
    ...(has("resultImages") && has("documents") && { pdfToolMessage: true }),
    ...(has("reasoning") && { reasoningOutput: true }),
  };
}

/**
 * @param {string} provider
 * @param {string | undefined} model
 * @returns {string} of the model where its name says it, otherwise of the provider
 */
function vendorOf(provider, model = "") {
  // A CLI for anybody's models names one behind its vendor.
  const [vendor, rest] = model.split("/", 2);
  if (rest !== undefined && vendor) return vendor;
  const isNamed = (/** @type {Registered} */ { models }) =>
    models.names !== null && new RegExp(models.names).test(model);
  const named = [...everyProvider()].find(isNamed);
  return (named ?? registered(provider))?.models.vendor ?? provider;
}

/**
 * @param {string} provider
 * @param {string | undefined} model
 * @param {object | undefined} given what the caller knows better
 * @returns {ChatCliProfile}
 */
function profileOf(provider, model, given) {
  return { ...COMMON, ...sizesOf(provider, model), ...abilitiesOf(registered(provider)), ...given };
}

module.exports = { profileOf, vendorOf };
