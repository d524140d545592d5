"use strict";

/**
 * A second copy of `@langchain/core` beside this package's, as npm's workspaces have it where two of them want different versions: what
 * `instanceof` says of the one's messages is false of the other's, and an agent ends behind its first call without a word.
 *
 * In: a caller's messages and tools. Out: one warning of the process that names both folders.
 */

const { builtin } = require("./builtin.cjs");

const CODE = "LANGCHAIN_TWICE";

/** The folder of LangChain's core in a path of one of its files. */
const CORE = /^(.*[\\/]@langchain[\\/]core)[\\/]/;

/** What any look at throws an error: a constructor that gets it says in the error's stack which file it is in. */
const TRAP = (() => {
  const spring = () => {
    throw new Error("looked at");
  };
  return new Proxy({}, { get: spring, has: spring, ownKeys: spring, getPrototypeOf: spring });
})();

/**
 * The folder of the `@langchain/core` that a class is of, or derived from.
 *
 * @param {object | null} prototype
 * @returns {string | undefined} `undefined` where it can't be told: a bundler has put it elsewhere
 */
function folderOf(prototype) {
  /** @type {Function[]} */
  const classes = [];
  for (let it = prototype; it !== null && it !== Object.prototype; it = Object.getPrototypeOf(it)) {
    if (Object.hasOwn(it, "constructor")) classes.unshift(it.constructor);
  }
  // LangChain's own come first: a class of the caller's is never made.
  for (const its of classes) {
    const folder = folderOfClass(its);
    if (folder !== undefined) return folder;
  }
  return undefined;
}

/** @param {Function} its */
function folderOfClass(its) {
  try {
    Reflect.construct(its, [TRAP]);
  } catch (error) {
    const { stack } = /** @type {{ stack?: unknown }} */ (error ?? {});
    for (const line of String(stack).split("\n").slice(1)) {
      const at = /\(?((?:file:\/\/|\/|[A-Za-z]:[\\/])[^\n]*?):\d+:\d+\)?$/.exec(line)?.[1];
      const file = at?.startsWith("file://") ? builtin("node:url").fileURLToPath(at) : at;
      const folder = file === undefined ? undefined : CORE.exec(file)?.[1];
      if (folder !== undefined) return folder;
    }
  }
  return undefined;
}

let warned = false;

/**
 * @param {Function | null} AIMessage this package's; `null`: it makes none
 */
function createCopies(AIMessage) {
  /** Prototypes that were looked at. @type {WeakSet<object>} */
  const seen = new WeakSet();
  /** @type {string | undefined} */
  let own;

  return {
    /**
     * Looks at what the caller has given, each class once.
     *
     * @param {unknown} given messages, or tools
     * @param {string} what they are
     */
    look(given, what) {
      if (AIMessage === null || warned || !Array.isArray(given)) return;
      for (const item of given) {
        if (typeof item !== "object" || item === null) continue;
        const prototype = Object.getPrototypeOf(item);
        if (prototype === null || prototype === Object.prototype || seen.has(prototype)) continue;
        seen.add(prototype);
        // What all of LangChain's have that can be written as JSON.
        if (!("lc_namespace" in item)) continue;
        own ??= folderOf(AIMessage.prototype);
        const other = folderOf(prototype);
        if (own === undefined || other === undefined || other === own) continue;
        warned = true;
        process.emitWarning(
          `there are two copies of @langchain/core: ${what} passed in come from ${other}, and answers are made of ${own}. ` +
            "`instanceof` is false between them, so an agent may end behind its first call. Have one copy: give every " +
            "package.json the same range of @langchain/core, or name one version in `overrides` (npm, pnpm) or `resolutions` " +
            "(yarn), and install anew",
          { type: "DeepFactorProvidersWarning", code: CODE },
        );
        return;
      }
    },
  };
}

module.exports = { createCopies };
