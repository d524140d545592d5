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
    const place = process.env.XDG_RUNTIME_DIR || tmpdir();
    removeAbandoned(place);
    // mkdtemp makes it 0700.
    const folder = fs.mkdtempSync(join(place, FOLDER));
    fs.writeFileSync(join(folder, OWNER), JSON.stringify({ pid: process.pid, space: spaceOf() }), { mode: 0o600 });
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

/** How the name of a gateway's folder begins, and the file in it that says whose it is. */
const FOLDER = "deep-factor-gateway-";
const OWNER = "owner";

/** In which numbering of processes this one is: a container has its own, and may share a folder. */
function spaceOf() {
  try {
    return fs.readlinkSync("/proc/self/ns/pid");
  } catch {
    return "";
  }
}

/**
 * Removes what gateways that were killed have left. What can't be read or removed stays.
 *
 * @param {string} place
 */
function removeAbandoned(place) {
  const names = attempt(() => fs.readdirSync(place)) ?? [];
  for (const name of names.filter((one) => one.startsWith(FOLDER))) {
    const folder = join(place, name);
    if (attempt(() => isAbandoned(folder))) attempt(() => fs.rmSync(folder, { recursive: true }));
  }
}

/** @param {string} folder */
function isAbandoned(folder) {
  const stat = fs.lstatSync(folder);
  if (!stat.isDirectory() || (process.getuid !== undefined && stat.uid !== process.getuid())) return false;
  const { pid, space } = JSON.parse(fs.readFileSync(join(folder, OWNER), "utf8"));
  if (!Number.isSafeInteger(pid) || pid < 1 || space !== spaceOf()) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "ESRCH";
  }
}

/**
 * @template T
 * @param {() => T} work
 * @returns {T | undefined}
 */
function attempt(work) {
  try {
    return work();
  } catch {
    return undefined;
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
