/**
 * `log show` and `log html`. In: the arguments behind the command. Out: a run log as text, data or a page, and an exit code.
 */

import { randomBytes } from "node:crypto";
import { lstat, open, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { print, printShown, tell } from "./cli/screen.mjs";
import { suggestion } from "./cli/usage.mjs";
import { parseCommandArgs } from "./cli-args.mjs";
import { EXIT_CODES, isColourful, UsageError } from "./cli-text.mjs";
import native from "./native.cjs";
import { ProviderError } from "./native-entry.mjs";
import replay from "./replay.cjs";

const ACTIONS = { show, html };

/** @param {string} name @returns {name is keyof typeof ACTIONS} */
const isAction = (name) => Object.hasOwn(ACTIONS, name);

/**
 * @param {string[]} args
 * @returns {Promise<number>}
 */
export async function log([action = "", ...args]) {
  if (!isAction(action)) {
    throw new UsageError(
      action === ""
        ? "say what to do: show or html"
        : `unknown action "${action}"${suggestion(action, Object.keys(ACTIONS)) || ":"} there are show, html`,
    );
  }
  try {
    return await ACTIONS[action](args);
  } catch (error) {
    if (!ProviderError.isInstance(error)) throw error;
    const failure = /** @type {import("../../index.js").ProviderError} */ (error);
    tell(`${failure.code}: ${failure.message}`, { head: failure.code, colour: "red" });
    return EXIT_CODES[failure.category] ?? EXIT_CODES.unknown;
  }
}

/** @param {string[]} args */
async function show(args) {
  const { values, positionals } = parseCommandArgs(args, { json: { type: "boolean" }, full: { type: "boolean" } });
  const options = { format: values.json ? "json" : "text", full: values.full ?? false };
  // Painted there, and made visible.
  printShown(await replay.renderRunLog(native, theFile(positionals), options, isColourful(process.stdout)));
  return 0;
}

/** @param {string[]} args */
async function html(args) {
  const { values, positionals } = parseCommandArgs(args, {
    output: { type: "string", short: "o" },
    force: { type: "boolean" },
  });
  const file = theFile(positionals);
  const page = await replay.renderRunLog(native, file, { format: "html" });
  if (values.output === undefined || values.output === "-") {
    print(page);
    return 0;
  }
  try {
    await writePage(values.output, page, values.force ?? false);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`the page can't be written: ${error instanceof Error ? error.message : error}`);
  }
  return 0;
}

/** What every page of ours says of itself (src/record/runlog/html). */
const MARK = '<meta name="generator" content="deep-factor-providers">';

/**
 * Writes a page whole or not at all, as private as the log it is made of. A file that is there and no page of ours is left alone
 * unless `force` says otherwise; a link is never followed.
 *
 * @param {string} path
 * @param {string} page
 * @param {boolean} force
 */
async function writePage(path, page, force) {
  const found = await lstat(path).catch((error) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  // A terminal, /dev/null.
  if (found?.isCharacterDevice()) return await writeFile(path, page);
  if (found?.isDirectory()) throw new UsageError(`the page can't be written: ${path} is a folder`);
  if (found && !force && !(found.isFile() && (await isPage(path)))) {
    throw new UsageError(`${path} exists and is no page of ours: it is left alone. Name another file, or add --force`);
  }
  const fresh = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}`);
  try {
    await writeFile(fresh, page, { mode: 0o600, flag: "wx" });
    await rename(fresh, path);
  } catch (error) {
    await rm(fresh, { force: true });
    throw error;
  }
}

/** @param {string} path */
async function isPage(path) {
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1024), 0, 1024, 0);
    return buffer.subarray(0, bytesRead).includes(MARK);
  } finally {
    await file.close();
  }
}

/** @param {string[]} positionals */
function theFile([file, ...more]) {
  if (file === undefined) throw new UsageError("name the file of a run log");
  if (more.length > 0) throw new UsageError(`unexpected argument "${more[0]}": one file at a time`);
  return file;
}
