/**
 * The one door to a terminal or a pipe. In: what a model, a CLI, a file's name or this program says. Out: the same on standard output and
 * standard error; where those are terminals, no character of it steers the terminal or turns a line around.
 *
 * A pipe gets every byte as it came: what reads it is a program, and may want them.
 */

import { isColourful, painter } from "./colour.mjs";

/** @import { Colour } from "./colour.mjs" */

/** Controls, and what changes the direction of text or has no width. */
const UNSEEN = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;
/** Joiners belong to emoji and to Persian words. */
const HARMLESS = new Set(["\n", "\t", "\u200c", "\u200d"]);

/**
 * `text` with what can't be seen made visible, as `log show` has it: ESC is `␛`, U+202E is `‹U+202E›`. Nothing vanishes: a sequence
 * without its first character is text.
 *
 * @param {string} text
 */
export function visible(text) {
  return text.replaceAll("\r\n", "\n").replace(UNSEEN, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (HARMLESS.has(char)) return char;
    // The Unicode block of their pictures is in their order.
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "␡" : `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}

/**
 * The same as a part of one line: a table's cell, a name.
 *
 * @param {string} text
 */
export const visibleLine = (text) => visible(text).replaceAll("\n", "␊").replaceAll("\t", "␉");

/**
 * The columns of a terminal, 80 where it tells none; of what is none, 0: as many as it takes.
 *
 * @param {{ isTTY?: boolean, columns?: number }} stream
 */
export const widthOf = (stream) => (stream.isTTY ? stream.columns || 80 : 0);

/**
 * JSON whose every character can be seen: the same value, written with escapes.
 *
 * @param {unknown} value
 * @param {number} [indent]
 */
export function visibleJson(value, indent) {
  return JSON.stringify(value, null, indent).replace(UNSEEN, (char) =>
    HARMLESS.has(char)
      ? char
      : Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join(
          "",
        ),
  );
}

/** What is on the last line of the terminal for a while, and makes room for what is printed. @type {{ clear: () => void } | undefined} */
let status;

/** @param {typeof status} shown `undefined`: nothing any more */
export function setStatus(shown) {
  status = shown;
}

/**
 * Prints pieces of a text on standard output, a piece being cut anywhere.
 */
export function createPrinter() {
  const isTerminal = process.stdout.isTTY === true;
  /** What may be half of something: a carriage return, or of a character outside the BMP the first half. */
  let held = "";
  return {
    /** @param {string} piece */
    print(piece) {
      const text = held + piece;
      held = isTerminal ? (/[\r\ud800-\udbff]$/.exec(text)?.[0] ?? "") : "";
      write(text.slice(0, text.length - held.length));
    },
    /** Prints what is held back. */
    end() {
      write(held);
      held = "";
    },
  };
  /** @param {string} text */
  function write(text) {
    if (text === "") return;
    status?.clear();
    process.stdout.write(isTerminal ? visible(text) : text);
  }
}

/** @param {string} text a whole one */
export function print(text) {
  const { print, end } = createPrinter();
  print(text);
  end();
}

/**
 * Prints what was made of visible parts: painted, in columns.
 *
 * @param {string} text
 * @param {{ write: (text: string) => unknown }} [stream] default: standard output
 */
export function printShown(text, stream = process.stdout) {
  status?.clear();
  stream.write(text);
}

/**
 * @param {unknown} value
 * @param {number} [indent]
 */
export function printJson(value, indent) {
  printShown(`${process.stdout.isTTY ? visibleJson(value, indent) : JSON.stringify(value, null, indent)}\n`);
}

/** As wide as help is in a pipe, where nobody knows of a width. */
const HELP_COLUMNS = 100;

/** @param {string} text of a command */
export function printHelp(text) {
  printShown(wrapHelp(text, widthOf(process.stdout) || HELP_COLUMNS));
}

/**
 * A line on standard error; on a terminal, wrapped between words.
 *
 * @param {string} line
 * @param {{ head?: string, colour?: Colour, whole?: boolean }} [style] `head`: what the line begins with, in this colour; default: all of
 *   it; `whole`: not wrapped, for it is copied into a shell
 */
export function tell(line, { head, colour, whole = false } = {}) {
  status?.clear();
  const stream = process.stderr;
  if (!stream.isTTY && colour === undefined) {
    stream.write(`${line}\n`);
    return;
  }
  const shown = stream.isTTY ? wrapText(visible(line), whole ? 0 : widthOf(stream)) : line;
  const part = head ?? shown;
  const paint = painter(isColourful(stream));
  const painted =
    colour !== undefined && shown.startsWith(part) ? paint(colour, part) + shown.slice(part.length) : shown;
  stream.write(`${painted}\n`);
}

/**
 * `text` in lines of at most `columns` characters, broken between words. What stands behind a term ("--json    the reports") stays in
 * its column, or stands below the term where there is little room.
 *
 * @param {string} text
 * @param {number} [columns] default: as wide as it is
 */
export function wrapText(text, columns = 0) {
  if (columns <= 0) return text;
  return text
    .split("\n")
    .flatMap((line) => wrap(line, columns))
    .join("\n");
}

/**
 * The same of a help text, whose paragraphs and descriptions are broken for a width of their own.
 *
 * @param {string} text
 * @param {number} [columns]
 */
export function wrapHelp(text, columns = 0) {
  const lines = text.split("\n");
  return columns <= 0 || lines.every((line) => lengthOf(line) <= columns)
    ? text
    : wrapText(joined(lines).join("\n"), columns);
}

/** As deep as a line stands that goes on with what stands behind a term. */
const DEEP = 12;

/**
 * Lines that were broken for a width of their own as one: those of a paragraph, and those of a description.
 *
 * @param {string[]} lines
 */
function joined(lines) {
  /** @type {string[]} */
  const all = [];
  for (const line of lines) {
    const before = all.at(-1) ?? "";
    const lead = line.search(/\S/);
    const isTerm = /^ {2}-/.test(before) && !GAP.test(before);
    const goesOn = lead === 0 ? /^\S.*[^:]$/.test(before) : lead >= DEEP && !GAP.test(line) && !isTerm;
    if (before !== "" && goesOn) all[all.length - 1] = `${before} ${line.trim()}`;
    else all.push(line);
  }
  return all;
}

/** Between a term and what is said of it. */
const GAP = /\S( {2,})(?=\S)/;

/**
 * @param {string} line
 * @param {number} columns
 */
function wrap(line, columns) {
  const lead = Math.max(line.search(/\S/), 0);
  const half = columns / 2;
  if (lengthOf(line) <= columns && lead <= half) return [line];
  const gap = GAP.exec(line);
  const column = gap === null ? lead : gap.index + 1 + (gap[1] ?? "").length;
  if (column <= half) return flow(line.slice(column), line.slice(0, column), " ".repeat(column), columns);
  const below = " ".repeat(Math.min(lead, 2) + 4);
  if (gap === null) return flow(line.trim(), below, below, columns);
  const term = line.slice(0, gap.index + 1).trim();
  const margin = " ".repeat(Math.min(lead, 4));
  return [...flow(term, margin, `${margin}  `, columns), ...flow(line.slice(column), below, below, columns)];
}

/**
 * @param {string} text
 * @param {string} first what the first line begins with
 * @param {string} next what further lines begin with
 * @param {number} columns
 */
function flow(text, first, next, columns) {
  const lines = [];
  let line = first;
  let isEmpty = true;
  for (let word of text.split(" ")) {
    if (!isEmpty && lengthOf(line) + 1 + lengthOf(word) > columns) {
      lines.push(line);
      line = next;
      isEmpty = true;
    }
    // A path, a hash: what fits on no line goes on in the next.
    for (
      let room = columns - lengthOf(line);
      isEmpty && room > 0 && lengthOf(word) > room;
      room = columns - lengthOf(line)
    ) {
      const chars = Array.from(word);
      lines.push(line + chars.slice(0, room).join(""));
      word = chars.slice(room).join("");
      line = next;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}

/** @param {string} text */
const lengthOf = (text) => Array.from(text).length;
