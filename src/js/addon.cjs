"use strict";

/**
 * In: where this code is. Out: the addon, which `native.cjs` beside this file finds; for code that is part of a bundle, the one of
 * the package that is installed where the bundle is.
 *
 * A native addon can't be part of a JavaScript file, and bundlers that follow a `require` down to it give up ("No loader is
 * configured for .node"). So it is required in a form that they leave alone and that tools which collect a program's files
 * (`@vercel/nft`, of Next.js and others) do follow.
 */

const { builtin } = require("./builtin.cjs");

/** A variable with the path of an addon's file, for a bundle that is alone. */
const VARIABLE = "DEEP_FACTOR_PROVIDERS_ADDON";

/** @typedef {typeof import("./native.cjs")} Native */

/** @returns {Native} */
function besideThis() {
  // nft knows this form and no shorter one.
  const { createRequire } = require("node:module");
  const requireBeside = createRequire(__filename);
  return requireBeside("./native.cjs");
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

/**
 * @param {string} [url] `import.meta.url` of the module that asks: a bundle in ESM format has no `__filename`
 * @returns {Native}
 */
function requireAddon(url) {
  const here = typeof __filename === "string" ? __filename : undefined;
  if (here && /[\\/]addon\.cjs$/.test(here)) return besideThis();
  const file = process.env[VARIABLE];
  if (file) {
    const { createRequire } = builtin("node:module");
    return createRequire(file)(file);
  }
  // Not the working folder: it may be anybody's.
  const found = ofPackage([url, here, process.argv[1]]);
  if (found) return found;
  const message =
    "deep-factor-providers is part of a bundle, which can't hold its native addon, and is not installed beside it: leave the " +
    'package out of the bundle (external: ["deep-factor-providers"]) and install it where the bundle runs, or set ' +
    `${VARIABLE} to the path of the addon's file (docs/deployment.md).`;
  throw Object.assign(new Error(message), { code: "MODULE_NOT_FOUND", bundled: true });
}

module.exports = { requireAddon };
