"use strict";

/**
 * In: a provider's id and a model's name. Out: how many tokens fit, as the CLI itself counts them: it cuts or refuses a thread by its own
 * number, whatever the model's API would take. What no source is known for is not here: an unknown size is left out.
 *
 * @typedef {{ maxInputTokens: number, maxOutputTokens?: number }} Sizes tokens
 */

/** @type {(maxInputTokens: number, maxOutputTokens?: number) => Sizes} */
const sizes = (maxInputTokens, maxOutputTokens) => ({
  maxInputTokens,
  ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
});

/**
 * By the provider's id, then by the model's full name. Names that a CLI resolves itself (`sonnet`) mean another model in each version of it.
 *
 * - claude: `modelUsage.*.contextWindow` and `.maxOutputTokens` of a result of claude 2.1.330 (`__tests__/langchain/sizes.test.ts`).
 * - codex: `modelContextWindow` of a turn of codex 0.169.0, the same test; it names no limit of an answer.
 * - gemini: the table of gemini-cli 0.61.0 (`tokenLimit`), with which the profiles of `@langchain/google-genai` 2.3.2 agree.
 * - qwen: the tables of qwen-code 0.15.10 and 0.24.4 (`tokenLimits`), for the names that stand in both.
 *
 * @type {Readonly<Record<string, Readonly<Record<string, Sizes>>>>}
 */
const SIZES = Object.freeze({
  claude: {
    "claude-haiku-4-5": sizes(200_000, 32_000),
    "claude-opus-4-5": sizes(200_000, 32_000),
    "claude-sonnet-4-5": sizes(200_000, 32_000),
    "claude-sonnet-4-6": sizes(200_000, 32_000),
    "claude-opus-4-8": sizes(1_000_000, 64_000),
    "claude-fable-5": sizes(1_000_000, 64_000),
    "claude-opus-5": sizes(1_000_000, 64_000),
    "claude-sonnet-5": sizes(1_000_000, 64_000),
    "claude-haiku-5-5": sizes(1_000_000, 128_000),
    "claude-opus-5-5": sizes(1_000_000, 128_000),
    "claude-sonnet-5-5": sizes(1_000_000, 128_000),
  },
  codex: {
    "gpt-5.5": sizes(258_400),
    "gpt-6-luna": sizes(258_400),
    "gpt-6.1-sol": sizes(258_400),
  },
  gemini: {
    "gemini-2.5-flash": sizes(1_048_576, 65_536),
    "gemini-2.5-flash-lite": sizes(1_048_576, 65_536),
    "gemini-2.5-pro": sizes(1_048_576, 65_536),
    "gemini-3-flash-preview": sizes(1_048_576, 65_536),
  },
  qwen: {
    "qwen3-coder-flash": sizes(1_000_000, 32_768),
    "qwen3-coder-next": sizes(262_144, 32_768),
    "qwen3-coder-plus": sizes(1_000_000, 32_768),
  },
});

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
  const table = Object.hasOwn(SIZES, provider) ? SIZES[provider] : undefined;
  const name = (priceName(model) ?? "").replace(DAY, "");
  return { ...(table && Object.hasOwn(table, name) ? table[name] : undefined), ...context };
}

module.exports = { priceName, sizesOf };
