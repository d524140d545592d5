/**
 * An answer while it comes. In: the events of a run. Out: its text on standard output, warnings on standard error, and the spinner
 * until the text begins.
 *
 * @import { ProviderEvent } from "../../../index.js"
 */

import { warn } from "./provider.mjs";
import { createPrinter } from "./screen.mjs";

/** As the library estimates tokens where none are reported. */
const CHARACTERS_PER_TOKEN = 4;

/**
 * Prints messages piece by piece where they come in pieces, whole where they do not, each on lines of its own.
 *
 * @param {{ tokens: (count: number, isEstimated?: boolean) => void, stop: () => void }} spinner
 */
export function createAnswer(spinner) {
  const printer = createPrinter();
  /** All that is printed. */
  let text = "";
  /** Where in it the attempt begins that may become the answer. */
  let begins = 0;
  let isInPieces = false;
  /** Those that came behind the beginning of the text. @type {string[]} */
  const warnings = [];
  /** What is thought, in characters: all that is known of a long silence. */
  let thought = 0;
  /** @param {string} piece */
  const put = (piece) => {
    if (piece === "") return;
    if (text === "") spinner.stop();
    printer.print(piece);
    text += piece;
  };
  const endLine = () => put(text === "" || text.endsWith("\n") ? "" : "\n");
  return {
    /** @param {ProviderEvent} event */
    show(event) {
      if (event.type === "text_delta") {
        if (!isInPieces) endLine();
        isInPieces = true;
        put(event.text);
      } else if (event.type === "message") {
        if (!isInPieces) {
          endLine();
          put(event.content);
        }
        isInPieces = false;
      } else if (event.type === "thinking_delta") {
        thought += event.text.length;
        spinner.tokens(Math.ceil(thought / CHARACTERS_PER_TOKEN), true);
      } else if (event.type === "retry" && text.length > begins) {
        endLine();
        isInPieces = false;
        begins = text.length;
        warn("the answer broke off, and begins again");
      } else if (event.type === "usage") spinner.tokens(event.usage.totalTokens);
      else if (event.type === "warning") {
        // Not in the middle of a line.
        if (text === "") warn(event.message);
        else warnings.push(event.message);
      }
    },
    /** Ends the last line, whatever came of the run; and gives what the last attempt has said. */
    end() {
      endLine();
      printer.end();
      for (const message of warnings.splice(0)) warn(message);
      return text.slice(begins).trim();
    },
  };
}
