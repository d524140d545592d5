/**
 * The arguments of a command, read by `node:util`. What is wrong with them becomes one line.
 *
 * @import { ParseArgsConfig } from "node:util"
 */

import { parseArgs } from "node:util";
import { UsageError } from "./cli-text.mjs";

/**
 * @template {NonNullable<ParseArgsConfig["options"]>} T
 * @param {string[]} args
 * @param {T} options
 */
export function parseCommandArgs(args, options) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // "Unknown option '--x'. To specify a positional argument …": the first sentence of the first line says it.
    const [line = ""] = error.message.split("\n");
    const [sentence = line] = line.split(/\. (?=[A-Z])/);
    throw new UsageError(sentence.replace(/^[A-Z]/, (letter) => letter.toLowerCase()).replace(/\.$/, ""));
  }
}
