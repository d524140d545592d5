/**
 * `log show` and `log html`. In: the words behind the command. Out: a run log as text, data or a page, and an exit code.
 */

import { writeFile } from "node:fs/promises";
import { EXIT_CODES, isColourful, UsageError } from "./cli-text.mjs";
import { parseWords } from "./cli-words.mjs";
import native from "./native.cjs";
import { ProviderError } from "./native-entry.mjs";
import replay from "./replay.cjs";

const ACTIONS = { show, html };

/** @param {string} name @returns {name is keyof typeof ACTIONS} */
const isAction = (name) => Object.hasOwn(ACTIONS, name);

/**
 * @param {string[]} words
 * @returns {Promise<number>}
 */
export async function log([action = "", ...words]) {
  if (!isAction(action)) {
    throw new UsageError(
      action === "" ? "say what to do: show or html" : `unknown action "${action}": there are show, html`,
    );
  }
  try {
    return await ACTIONS[action](words);
  } catch (error) {
    if (!ProviderError.isInstance(error)) throw error;
    const failure = /** @type {import("../../index.js").ProviderError} */ (error);
    process.stderr.write(`${failure.code}: ${failure.message}\n`);
    return EXIT_CODES[failure.category] ?? EXIT_CODES.unknown;
  }
}

/** @param {string[]} words */
async function show(words) {
  const { values, positionals } = parseWords(words, { json: { type: "boolean" }, full: { type: "boolean" } });
  const options = { format: values.json ? "json" : "text", full: values.full ?? false };
  process.stdout.write(await replay.renderRunLog(native, theFile(positionals), options, isColourful(process.stdout)));
  return 0;
}

/** @param {string[]} words */
async function html(words) {
  const { values, positionals } = parseWords(words, { output: { type: "string", short: "o" } });
  const page = await replay.renderRunLog(native, theFile(positionals), { format: "html" });
  if (values.output === undefined || values.output === "-") process.stdout.write(page);
  else {
    try {
      // As private as the log it is made of.
      await writeFile(values.output, page, { mode: 0o600 });
    } catch (error) {
      throw new UsageError(`the page can't be written: ${error instanceof Error ? error.message : error}`);
    }
  }
  return 0;
}

/** @param {string[]} positionals */
function theFile([file, ...more]) {
  if (file === undefined) throw new UsageError("name the file of a run log");
  if (more.length > 0) throw new UsageError(`unexpected argument "${more[0]}": one file at a time`);
  return file;
}
