"use strict";

/**
 * What a framework's face asks of a provider's `stream` beside its options: a symbol among them, which passes through a fallback
 * provider as they do, and which no key of a caller's can be taken for.
 */

/** In a call's options: the caller wants the answer whole, so the CLI need not tell it piece by piece. */
const WHOLE = Symbol("whole");

/** @param {unknown} options */
function isWhole(options) {
  return typeof options === "object" && options !== null && WHOLE in options;
}

module.exports = { WHOLE, isWhole };
