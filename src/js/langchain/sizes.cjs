"use strict";

/**
 * In: a provider's id and a model's name. Out: how many tokens fit, as the CLI itself counts them. What no source is known for is not in
 * the registry: an unknown size is left out.
 *
 * @typedef {{ maxInputTokens: number, maxOutputTokens?: number }} Sizes tokens
 */

const { registered } = require("../registry.cjs");

/** A context that is not the model's usual one, as claude is told of it: `sonnet[1m]`. */
const CONTEXT = /\[(\d+)([km])\]$/i;
/** The day of a version, behind a model's name: `claude-haiku-4-5-20251001`. */
const DAY = /-20\d{6}$/;

/**
 * @param {string | undefined} model
 * @returns {string | undefined} the name that price tables have: without what a CLI writes behind it
 */
function priceName(model) {
  return model?.replace(CONTEXT, "");
}

/**
 * @param {string} provider
 * @param {string | undefined} model
 * @returns {Partial<Sizes>} empty where nothing is known
 */
function sizesOf(provider, model = "") {
  const [, digits, unit] = CONTEXT.exec(model) ?? [];
  const context = digits && { maxInputTokens: Number(digits) * (unit?.toLowerCase() === "m" ? 1_000_000 : 1000) };
  const name = (priceName(model) ?? "").replace(DAY, "");
  const { model: _, ...sizes } = registered(provider)?.models.sizes.find((row) => row.model === name) ?? {
    model: name,
  };
  return { ...sizes, ...context };
}

module.exports = { priceName, sizesOf };
