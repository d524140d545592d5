// @ts-check
/**
 * What the tests on Windows share. They are run by Node's own runner, on Windows itself and under Wine (`.ci/windows.mjs`).
 *
 * In flow variables: where the compiled fake and the real CLIs are, and whether this is Wine. Out flow a room for a test's files, fakes,
 * shims as npm makes them, and processes to look for.
 */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { removeFolder } from "../support/folders.mjs";

/** Why a test that Wine can't run is left out there, or `false`: `{ skip: notUnderWine("…") }`. @param {string} why */
export const notUnderWine = (why) => (process.env.DFP_WINE ? `Wine: ${why}` : false);

/** The compiled fake. */
export const FAKE = process.env.DFP_FAKE_CLI ?? "";

/** The real CLIs; empty where they are not there. */
export const CLAUDE = process.env.DFP_CLAUDE ?? "";
export const CODEX = {
  exe: process.env.DFP_CODEX_EXE ?? "",
  shim: process.env.DFP_CODEX_SHIM ?? "",
  js: process.env.DFP_CODEX_JS ?? "",
};

// npm's shims look for Node beside themselves and on the PATH, where an installed Node is.
process.env.PATH = `${dirname(process.execPath)};${process.env.PATH}`;

/** A folder for this file's tests. */
export const ROOM = mkdtempSync(join(tmpdir(), "dfp-windows-"));
after(() => removeFolder(ROOM));

/** @typedef {import("../support/processes.mjs").Step} Step */

/**
 * A provider of a claude that does `steps`.
 * @param {Step[] | Record<string, unknown>} steps
 * @param {Record<string, unknown>} [options]
 */
export function fake(steps, options = {}) {
  const { env, ...others } = /** @type {{ env?: Record<string, string | undefined> }} */ (options);
  return createClaudeCliProvider({
    ...{ cliPath: FAKE, engine: "print", retry: false },
    ...others,
    env: { FAKE_CLI: JSON.stringify(steps), ...env },
  });
}

/** An answer. @param {string} text */
export const say = (text) => ({ claude: { text } });

/** The first line of an answer: the event `session`. */
export const READY = {
  out: `${JSON.stringify({ type: "system", subtype: "init", session_id: "s", model: "claude-fake" })}\n`,
};

/**
 * Processes that sign in to a file each.
 * @param {string} name of the test
 */
export function register(name) {
  const folder = join(ROOM, `register-${name}`);
  mkdirSync(folder);
  const file = (/** @type {number} */ number) => join(folder, String(number));
  return {
    /** The step with which the process of this number signs in. @param {number} number */
    signIn: (number) => ({ writeFile: { path: file(number), text: "{{pid}}" } }),
    /** The step that waits for that. @param {number} number */
    wait: (number) => ({ waitFile: file(number) }),
    /** @param {number} number */
    async there(number) {
      while (!existsSync(file(number))) await delay(10);
    },
    /** Asserts that so many have signed in, and that all are gone. @param {number} count */
    async gone(count) {
      const numbers = Array.from({ length: count }, (_, index) => index + 1);
      const pids = numbers.map((number) => Number(readFileSync(file(number), "utf8")));
      const end = Date.now() + 10_000;
      while (pids.some(isAlive) && Date.now() < end) await delay(10);
      assert.deepEqual(pids.filter(isAlive), [], "processes that are left");
    },
  };
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * The failure of a call.
 * @param {Promise<unknown>} call
 * @returns {Promise<any>}
 */
export const failure = (call) =>
  call.then(
    (value) => assert.fail(`it has not failed: ${JSON.stringify(value)}`),
    (error) => error,
  );

/** A script that answers with how it was called. */
export const ECHO = `
let stdin = "";
process.stdin.on("data", (text) => { stdin += text; }).on("end", () => {
  const { argv, env, execPath, pid } = process;
  const result = JSON.stringify({ argv: argv.slice(2), cwd: process.cwd(), bytes: stdin.length, head: stdin.slice(0, 100), env, execPath, pid });
  const line = { type: "result", subtype: "success", is_error: false, num_turns: 1, result, session_id: "s", total_cost_usd: 0, usage: { input_tokens: 1, output_tokens: 1 } };
  process.stdout.write(JSON.stringify(line) + "\\n");
});
`;

/**
 * A file in the room, with the folders above it.
 * @param {string} path relative
 * @param {string} text
 */
export function put(path, text) {
  const file = join(ROOM, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

/**
 * While `during` goes on, the folder for temporary files is a new one.
 * @template T
 * @param {string} name
 * @param {(folder: string) => Promise<T>} during
 * @returns {Promise<T>}
 */
export async function withTemp(name, during) {
  const folder = join(ROOM, `temp-${name}`);
  mkdirSync(folder);
  const { TEMP, TMP } = process.env;
  Object.assign(process.env, { TEMP: folder, TMP: folder });
  try {
    return await during(folder);
  } finally {
    Object.assign(process.env, { TEMP, TMP });
  }
}
