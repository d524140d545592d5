"use strict";

/**
 * In: the options of a call, or of an agent. Out: those of them that choose something for the model, as they were written. What
 * they may be is the native side's to say (`src/provider/choices.rs`).
 */

/** What the calls of an agent may choose: a tool that has to be called would be called for ever. */
const AGENT_CHOICES = [
  "model",
  "reasoning",
  "maxOutputTokens",
  "stop",
  "temperature",
  "serviceTier",
  "speed",
  "webSearch",
  "onUnsupported",
];

/** What one call may choose. */
const CALL_CHOICES = [...AGENT_CHOICES, "toolChoice"];

/** In a call's options, for the gateway: further fields of an API's request. A symbol passes through a fallback provider. */
const EXTRA_BODY = Symbol("extra body");

/**
 * @param {object} options other keys are left alone
 * @param {readonly string[]} [names]
 * @returns {Record<string, unknown> | undefined} `undefined` where there is none
 */
function pickChoices(options, names = CALL_CHOICES) {
  /** @type {Record<string, unknown> | undefined} */
  let choices;
  for (const name of names) {
    const value = /** @type {Record<string, unknown>} */ (options)[name];
    if (value === undefined) continue;
    choices ??= {};
    choices[name] = value;
  }
  const extra = /** @type {Record<symbol, unknown>} */ (options)[EXTRA_BODY];
  return extra === undefined ? choices : { ...choices, extraBody: extra };
}

module.exports = { AGENT_CHOICES, EXTRA_BODY, pickChoices };
