"use strict";

/**
 * In: a provider, or what one is made of. Out: a short text that tells it from others, for caches. Nothing can be read from it.
 *
 * @import { CliProvider } from "../../../index.js"
 */

const { builtin } = require("../builtin.cjs");
const { encodeOptions } = require("../options.cjs");

/** Of a provider that the caller has made the options are not known. @type {WeakMap<object, string>} */
const identities = new WeakMap();

/** @param {CliProvider<any>} provider */
function identityOf(provider) {
  const known = identities.get(provider);
  if (known !== undefined) return known;
  const made = builtin("node:crypto").randomUUID();
  identities.set(provider, made);
  return made;
}

/**
 * All options of a provider in one short text, from which none can be read.
 *
 * @param {Record<string, unknown>} options
 */
function fingerprintOf({ logger: _, ...options }) {
  const { createHash } = builtin("node:crypto");
  return createHash("sha256").update(encodeOptions(options)).digest("hex").slice(0, 32);
}

module.exports = { fingerprintOf, identityOf };
