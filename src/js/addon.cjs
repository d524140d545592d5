"use strict";

/**
 * In: where this code is. Out: the addon: the file that a variable names; else what `native.cjs` beside this file finds; for code that
 * is part of a bundle, the one of the package that is installed where the bundle is.
 *
 * A native addon can't be part of a JavaScript file, and most bundlers that follow a `require` down to one give up ("No loader is
 * configured for .node"). Tools which collect a program's files (Next.js, serverless packagers) have to follow it. What tells them apart is
 * the condition `module` of package.json's `imports`: esbuild, webpack, Rollup and Vite have it where they put code into a bundle, and get
 * `no-addon.mjs` for `#addon`. Node, `@vercel/nft` and Turbopack's tracing do not, and get `native.cjs`. Bun gets it too: its executables hold addons.
 */

const { builtin } = require("./builtin.cjs");

/** A variable with the path of an addon's file. */
const VARIABLE = "DEEP_FACTOR_PROVIDERS_ADDON";

/** @typedef {typeof import("./native.cjs")} Native */

/** @returns {Native | null} `null`: this is a bundle */
function besideThis() {
  try {
    const found = require("#addon");
    // Of an ES module, bundlers give the exports or the default one.
    return found === null || /** @type {{ default?: unknown }} */ (found).default === null ? null : found;
  } catch (error) {
    // Only tools that copy a program's files leave it out: it is part of the package.
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code === "MODULE_NOT_FOUND" && /^Cannot find module '[^'\n]*\bnative\.cjs'/.test(message)) {
      throw alone(
        "deep-factor-providers was copied without its src/js/native.cjs and the native addon, which is a bundler's doing",
      );
    }
    throw error;
  }
}

/**
 * @param {(string | undefined)[]} places files and `file:` URLs
 * @returns {Native | undefined}
 */
function ofPackage(places) {
  const { createRequire } = builtin("node:module");
  for (const place of places) {
    let manifest;
    try {
      manifest = createRequire(place ?? "").resolve("deep-factor-providers/package.json");
    } catch {
      continue;
    }
    return createRequire(manifest)("./src/js/native.cjs");
  }
  return undefined;
}

/** @param {string} reason */
function alone(reason) {
  const message =
    `${reason}: leave the package out of the bundle (external: ["deep-factor-providers"]; ` +
    'serverExternalPackages: ["deep-factor-providers", "@langchain/core"] in next.config.js) and install it where the bundle runs, or set ' +
    `${VARIABLE} to the path of the addon's file (docs/guide/deploy.md).`;
  return Object.assign(new Error(message), { code: "MODULE_NOT_FOUND", explained: true });
}

/** @param {string} file @returns {Native} */
function named(file) {
  const { createRequire } = builtin("node:module");
  try {
    return createRequire(file)(file);
  } catch (error) {
    const { code = "ERR_DLOPEN_FAILED", message } = /** @type {NodeJS.ErrnoException} */ (error);
    const text = `${VARIABLE} must be the absolute path of an addon's file, and what it names does not load: ${message.split("\n", 1)[0]}`;
    throw Object.assign(new Error(text, { cause: error }), { code, explained: true });
  }
}

/**
 * @param {string} [url] `import.meta.url` of the module that asks: a bundle in ESM format has no `__filename`
 * @returns {Native}
 */
function requireAddon(url) {
  const file = process.env[VARIABLE];
  if (file) return named(file);
  const here = typeof __filename === "string" ? __filename : undefined;
  // Not the working folder: it may be anybody's.
  const found = besideThis() ?? ofPackage([url, here, process.argv[1]]);
  if (found) return found;
  throw alone(
    "deep-factor-providers is part of a bundle, which can't hold its native addon, and is not installed beside it",
  );
}

module.exports = { requireAddon };
