"use strict";

/**
 * The gateway's token in a file of its owner's alone. Out: where it is, and how it goes away again.
 */

const { randomBytes } = require("node:crypto");
const fs = require("node:fs");
const { tmpdir } = require("node:os");
const { basename, dirname, join, resolve } = require("node:path");

const { fault } = require("../errors.cjs");

/** A token that nobody guesses. */
const createToken = () => `dfp-${randomBytes(32).toString("base64url")}`;

/**
 * @param {string} token
 * @param {string | undefined} given where; default: in a new folder that nobody else can look into
 * @returns {{ path: string, remove: () => void }}
 */
function writeToken(token, given) {
  try {
    if (given !== undefined) {
      const path = resolve(given);
      replace(path, token);
      return { path, remove: () => removeOwn(path, token) };
    }
    // mkdtemp makes it 0700.
    const folder = fs.mkdtempSync(join(process.env.XDG_RUNTIME_DIR || tmpdir(), "deep-factor-gateway-"));
    const path = join(folder, "token");
    replace(path, token);
    return {
      path,
      remove() {
        removeOwn(path, token);
        fs.rmSync(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw fault("INVALID_OPTION", `the option "tokenFile" must be a path that can be written: ${reason}`, error);
  }
}

/**
 * Puts a new file in the place of whatever is there: a link is replaced, not followed.
 *
 * @param {string} path
 * @param {string} token
 */
function replace(path, token) {
  const made = join(dirname(path), `.${basename(path)}-${randomBytes(6).toString("hex")}`);
  try {
    fs.writeFileSync(made, `${token}\n`, { flag: "wx", mode: 0o600 });
    fs.renameSync(made, path);
  } catch (error) {
    fs.rmSync(made, { force: true });
    throw error;
  }
}

/**
 * Another gateway may have put its own in the place meanwhile: that one stays.
 *
 * @param {string} path
 * @param {string} token
 */
function removeOwn(path, token) {
  try {
    if (fs.lstatSync(path).isFile() && fs.readFileSync(path, "utf8") === `${token}\n`) fs.rmSync(path);
  } catch {
    // It is gone already.
  }
}

module.exports = { createToken, writeToken };
