"use strict";

/**
 * In: what the generated loader (`native.cjs`) failed with, and the machine it failed on. Out: an error that names the machine,
 * says why there is no addon for it and what to do.
 *
 * @typedef {object} Machine
 * @property {string} platform as in `process.platform`
 * @property {string} arch as in `process.arch`
 * @property {"gnu" | "musl" | undefined} libc on Linux
 * @property {string | undefined} glibc its version, for example "2.31"
 * @property {readonly string[]} installed the platform packages of this package that can be found
 * @property {string} version of this package
 */

const NAME = "deep-factor-providers";

/** The platform packages there are, which is what package.json's `napi.targets` says. */
const PLATFORMS = [
  "linux-x64-gnu",
  "linux-arm64-gnu",
  "linux-x64-musl",
  "linux-arm64-musl",
  "darwin-x64",
  "darwin-arm64",
  "win32-x64-msvc",
  "win32-arm64-msvc",
];

const BUILT_FOR = "Linux (glibc or musl), macOS and Windows, each on x64 and arm64";
const REINSTALL = "remove node_modules and install again on this machine";

/**
 * @param {Machine} machine
 * @returns {string} the platform package it needs, whether there is one or not
 */
function platformOf({ platform, arch, libc }) {
  const abi = platform === "linux" ? `-${libc}` : platform === "win32" ? "-msvc" : "";
  return `${platform}-${arch}${abi}`;
}

/** @param {Machine} machine */
function describe({ platform, arch, libc, glibc }) {
  if (platform !== "linux") return `${platform} ${arch}`;
  return `linux ${arch}, ${libc === "musl" ? "musl" : `glibc ${glibc ?? "of an unknown version"}`}`;
}

/**
 * Every message in the chain of causes, the last attempt first.
 *
 * @param {unknown} error
 * @returns {string[]}
 */
function messagesOf(error) {
  const messages = [];
  for (let at = error; at instanceof Error; at = at.cause) messages.push(at.message);
  return messages;
}

/**
 * @param {unknown} error
 * @param {Machine} machine
 * @returns {Error & { code: string }} Node's codes: `MODULE_NOT_FOUND` where there is no addon, `ERR_DLOPEN_FAILED` where it
 *   does not load
 */
function explainLoad(error, machine) {
  const needed = platformOf(machine);
  const here = describe(machine);
  /** @type {(code: string, message: string) => Error & { code: string }} */
  const failed = (code, message) => Object.assign(new Error(message, { cause: error }), { code });

  if (!PLATFORMS.includes(needed)) {
    return failed(
      "MODULE_NOT_FOUND",
      `${NAME} has no native addon for this machine (${here}): it is built for ${BUILT_FOR}.`,
    );
  }
  // The chain also tells of files and packages that were merely looked for.
  const refusals = messagesOf(error).filter(
    (message) => !/^(Cannot find (module|package|native)|Cannot find '|Module not found)/i.test(message),
  );
  const archive = refusals
    .map((text) => /([^'"(\n]+\.asar)[\\/][\s\S]*(?:not a directory|ENOTDIR)/i.exec(text)?.[1])
    .find(Boolean);
  if (archive) {
    return failed(
      "ERR_DLOPEN_FAILED",
      `the native addon of ${NAME} lies inside of the archive ${archive}, from which the system can't load it (${here}): name it in ` +
        `asarUnpack, "**/node_modules/${NAME}*/**" (docs/guide/deploy.md).`,
    );
  }
  const blocked = refusals
    .map((text) => /dlopen\(([^,]+),[\s\S]*disallowed by system policy/i.exec(text)?.[1])
    .find(Boolean);
  if (blocked) {
    return failed(
      "ERR_DLOPEN_FAILED",
      `macOS keeps the native addon of ${NAME} in quarantine, as it does with files that a browser or an archive has brought ` +
        `(${here}): run "xattr -d com.apple.quarantine '${blocked}'".`,
    );
  }
  if (refusals.some((text) => /loading addons is disabled/i.test(text))) {
    return failed(
      "ERR_DLOPEN_FAILED",
      `Node's permission model forbids the native addon of ${NAME} (${here}): add --allow-addons, or leave out --permission and --no-addons.`,
    );
  }
  const [, wanted] = refusals.map((text) => /version [`']GLIBC_([\d.]+)' not found/.exec(text)).find(Boolean) ?? [];
  if (wanted) {
    return failed(
      "ERR_DLOPEN_FAILED",
      `the native addon of ${NAME} needs glibc ${wanted}, and this machine is older (${here}): use a newer system, ` +
        "for a container an image such as node:22-bookworm.",
    );
  }
  if (refusals.some((text) => /ld-linux|ld-musl|libc\.musl|symbol not found|relocating/i.test(text))) {
    return failed(
      "ERR_DLOPEN_FAILED",
      `the native addon of ${NAME} that is installed was built for another C library than this machine's (${here}), ` +
        `which needs ${NAME}-${needed}: ${REINSTALL}.`,
    );
  }
  if (
    refusals.some((text) =>
      /wrong ELF class|invalid ELF header|incompatible architecture|not a valid Win32|not a mach-o/i.test(text),
    )
  ) {
    return failed(
      "ERR_DLOPEN_FAILED",
      `the native addon of ${NAME} that is installed was built for another machine than this one (${here}): ${REINSTALL}.`,
    );
  }
  if (machine.installed.includes(needed)) {
    const [reason = "no reason is known"] = refusals;
    return failed(
      "ERR_DLOPEN_FAILED",
      `the native addon ${NAME}-${needed} is installed and does not load (${here}): ${reason.split("\n")[0]}`,
    );
  }
  const [other] = machine.installed;
  const why = other
    ? `${NAME}-${other} is there instead, so node_modules was installed for another machine: ${REINSTALL}, or let your ` +
      "package manager install for both."
    : 'it is an optional dependency, left out by "--omit=optional" or "--no-optional", or by a lock file made on another ' +
      `machine. Run "npm install --include=optional" (with -g for a global one). Where a lock file leaves it out, run "npm install ` +
      `--include=optional ${NAME}@${machine.version}", which adds it there; with another package manager, remove node_modules and the ` +
      "lock file and install again.";
  return failed(
    "MODULE_NOT_FOUND",
    `the native addon for this machine (${here}), ${NAME}-${needed}, is not installed: ${why}`,
  );
}

module.exports = { explainLoad, PLATFORMS };
