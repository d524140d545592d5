"use strict";

/**
 * In: the name of one of Node's own modules. Out: the module, also in a bundle in ESM format, where there is no `require`.
 *
 * @template T
 * @param {`node:${string}`} name
 * @returns {T}
 */
function builtin(name) {
  // Not in Node 20 before 20.16, nor in 22 before 22.3.
  if (process.getBuiltinModule) return /** @type {T} */ (process.getBuiltinModule(name));
  try {
    // Written so, bundlers make the `require` of a CommonJS bundle of it.
    return /** @type {any} */ (module).require(name);
  } catch (error) {
    const message =
      "deep-factor-providers in a bundle in ESM format needs Node 20.16, 22.3 or newer: leave the package out of the bundle " +
      '(external: ["deep-factor-providers"]), or install a newer Node.';
    throw Object.assign(new Error(message, { cause: error }), { code: "ERR_UNSUPPORTED_NODE" });
  }
}

module.exports = { builtin };
