"use strict";

/**
 * In: the name of one of Node's own modules. Out: the module, also in a bundle in ESM format, where there is no `require`.
 */

/** Written out, because webpack warns of a `require` whose name it can't know. */
const WITH_REQUIRE = {
  "node:async_hooks": () => require("node:async_hooks"),
  "node:crypto": () => require("node:crypto"),
  "node:fs": () => require("node:fs"),
  "node:module": () => require("node:module"),
  "node:net": () => require("node:net"),
  "node:os": () => require("node:os"),
  "node:path": () => require("node:path"),
  "node:timers": () => require("node:timers"),
  "node:url": () => require("node:url"),
  "node:util/types": () => require("node:util/types"),
  "node:worker_threads": () => require("node:worker_threads"),
};

/**
 * @template {keyof typeof WITH_REQUIRE} N
 * @param {N} name
 * @returns {ReturnType<(typeof WITH_REQUIRE)[N]>}
 */
function builtin(name) {
  // Not in Node 20 before 20.16, nor in 22 before 22.3.
  if (process.getBuiltinModule) return /** @type {never} */ (process.getBuiltinModule(name));
  try {
    return /** @type {never} */ (WITH_REQUIRE[name]());
  } catch (error) {
    const message =
      "deep-factor-providers in a bundle in ESM format needs Node 20.16, 22.3 or newer: leave the package out of the bundle " +
      '(external: ["deep-factor-providers"]), or install a newer Node.';
    throw Object.assign(new Error(message, { cause: error }), { code: "ERR_UNSUPPORTED_NODE" });
  }
}

module.exports = { builtin };
