/**
 * Whether and in which colours the command line prints. In: `--color`, the environment, a stream. Out: a function that paints.
 *
 * What decides, the first that says something: `--color=always | never`; `NO_COLOR` (no-color.org); `FORCE_COLOR`
 * (force-color.org; `0` and `false` are no); the stream: colours on a terminal that is not dumb.
 */

import { UsageError } from "./usage.mjs";

const CHOICES = ["auto", "always", "never"];

/** What `--color` says. */
let choice = "auto";

/** @param {string | undefined} when what stands behind `--color`; `undefined` without it */
export function chooseColour(when) {
  if (when === undefined) return;
  if (!CHOICES.includes(when)) throw new UsageError(`--color must be auto, always or never, not "${when}"`);
  choice = when;
}

/**
 * Whether colours are welcome on this stream.
 *
 * @param {{ isTTY?: boolean }} stream
 */
export function isColourful(stream) {
  if (choice !== "auto") return choice === "always";
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0" && FORCE_COLOR !== "false";
  return stream.isTTY === true && TERM !== "dumb";
}

const DARK = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 };
/** Yellow, and what is faint, can't be read on white. */
const LIGHT = { ...DARK, yellow: 35, dim: 90 };

/** Whether the terminal says that its background is light: the last figure of `COLORFGBG` is 7 or 9 to 15. */
function isLight() {
  const background = Number(process.env.COLORFGBG?.split(";").at(-1) || "0");
  return background === 7 || (background >= 9 && background <= 15);
}

/** @typedef {keyof typeof DARK} Colour */
/** @typedef {(colour: Colour, text: string) => string} Paint */

/**
 * @param {boolean} colourful
 * @returns {Paint}
 */
export function painter(colourful) {
  const colours = isLight() ? LIGHT : DARK;
  return (colour, text) => (colourful && text !== "" ? `\x1b[${colours[colour]}m${text}\x1b[0m` : text);
}
