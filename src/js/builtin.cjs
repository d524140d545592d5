"use strict";

/**
 * In: the name of one of Node's own modules. Out: the module, also in a bundle in ESM format, where there is no `require`.
 *
 * @template T
 * @param {`node:${string}`} name
 * @returns {T}
 */
function builtin(name) {
  // Not in Node 20 before 20.16. What a bundler makes of `module` has no `require`: nothing is guessed there.
  const own = /** @type {NodeJS.Module} */ (/** @type {unknown} */ (module));
  return /** @type {T} */ (process.getBuiltinModule?.(name) ?? own.require(name));
}

module.exports = { builtin };
