/**
 * The arguments of a command, read by `node:util`. What is wrong with them becomes one line: the reason, then what to do.
 *
 * @import { ParseArgsConfig } from "node:util"
 */

import { parseArgs } from "node:util";
import { chooseColour } from "./cli/colour.mjs";
import { suggestion, UsageError } from "./cli/usage.mjs";

/** @typedef {NonNullable<ParseArgsConfig["options"]>} Options */

/** What every command takes. */
const COMMON = /** @type {const} */ ({ color: { type: "string" } });

/**
 * @template {Options} T
 * @param {string[]} args
 * @param {T} options
 * @param {Record<string, string>} [refused] options that there are not, for a reason of their own
 */
export function parseCommandArgs(args, options, refused = {}) {
  const all = { ...options, ...COMMON };
  check(args, all, refused);
  const parsed = parseArgs({ args, options: all, allowPositionals: true, strict: true, tokens: true });
  chooseColour(/** @type {{ color?: string }} */ (parsed.values).color);
  return parsed;
}

/**
 * As `strict` would, whose messages are another with each version of Node and know of no other option.
 *
 * @param {string[]} args
 * @param {Options} options
 * @param {Record<string, string>} refused
 */
function check(args, options, refused) {
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true });
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const { name, rawName, value, inlineValue } = token;
    const reason = Object.hasOwn(refused, name) ? refused[name] : undefined;
    if (reason !== undefined) throw new UsageError(`there is no option ${rawName}: ${reason}`);
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (option === undefined) {
      const known = [...Object.keys(options), "help"].map((other) => `--${other}`);
      throw new UsageError(`unknown option '${rawName}'${suggestion(rawName, known)}`);
    }
    if (option.type === "boolean") {
      if (inlineValue) throw new UsageError(`${rawName} takes no value, and got "${value}": leave out "=${value}"`);
    } else if (value === undefined) {
      throw new UsageError(`${rawName} has no value: write ${rawName} VALUE`);
    } else if (!inlineValue && value.length > 1 && value.startsWith("-")) {
      throw new UsageError(
        `${rawName} has no value, as "${value}" looks like an option: write --${name}=${value} if it is none`,
      );
    }
  }
}
