"use strict";

/**
 * In: this machine. Out: the native addon, or an error that says what to do.
 *
 * Everything that needs the addon takes it from here; `native.cjs` is generated and finds the file.
 *
 * @import { Machine } from "./load-error.cjs"
 */

const { requireAddon } = require("./addon.cjs");

/** What package.json's `engines` says: npm only warns of it. */
const OLDEST_NODE = 20;

/**
 * @param {string} version as in `process.versions.node`
 * @returns {void}
 */
function checkNode(version) {
  if (Number.parseInt(version, 10) >= OLDEST_NODE) return;
  const message = `deep-factor-providers needs Node ${OLDEST_NODE} or newer, and this is Node ${version}: install a newer one from https://nodejs.org.`;
  throw Object.assign(new Error(message), { code: "ERR_UNSUPPORTED_NODE" });
}

/**
 * @param {readonly string[]} platforms those there are addons for
 * @returns {Machine}
 */
function thisMachine(platforms) {
  const { platform, arch } = process;
  // Not in every version's types: the report would look up names of the network's addresses otherwise, which takes seconds.
  if (process.report) Object.assign(process.report, { excludeNetwork: true });
  const report = /** @type {{ header?: { glibcVersionRuntime?: string } } | undefined} */ (
    process.report?.getReport?.()
  );
  const glibc = report?.header?.glibcVersionRuntime;
  const installed = platforms.filter((name) => {
    try {
      require.resolve(`deep-factor-providers-${name}/package.json`);
      return true;
    } catch {
      return false;
    }
  });
  const { version } = require("../../package.json");
  const libc = platform === "linux" ? (glibc ? "gnu" : "musl") : undefined;
  return { platform, arch, libc, glibc, installed, version };
}

/**
 * A function and not the module's own doing, because Node 20 lets nobody catch what a CommonJS module throws while an ES module
 * imports it.
 *
 * @param {string} [url] `import.meta.url` of an ES module that asks
 * @returns {typeof import("./native.cjs")}
 */
function loadNative(url) {
  checkNode(process.versions.node);
  try {
    return requireAddon(url);
  } catch (error) {
    if (error instanceof Error && "explained" in error) throw error;
    const { explainLoad, PLATFORMS } = require("./load-error.cjs");
    throw explainLoad(error, thisMachine(PLATFORMS));
  }
}

module.exports = { loadNative };
