/**
 * A report that is looked at again and again, in its place on a terminal. In: the report, and keys. Out: as much of it as there are rows,
 * and a last line that says what is left out and how it is seen. The shell's own lines are there again afterwards.
 */

import { emitKeypressEvents } from "node:readline";
import { printShown, widthOf } from "./screen.mjs";

/** The cursor goes home, and what is below the last line is taken away; the alternate screen keeps the shell's own lines. */
const SCREEN = {
  enter: "\x1b[?1049h\x1b[?25l",
  home: "\x1b[H",
  clearLine: "\x1b[K",
  clearRest: "\x1b[J",
  leave: "\x1b[?25h\x1b[?1049l",
};

/** How far a key goes, in lines and in screens. @type {Record<string, { lines?: number, screens?: number }>} */
const KEYS = {
  up: { lines: -1 },
  down: { lines: 1 },
  pageup: { screens: -1 },
  pagedown: { screens: 1 },
  space: { screens: 1 },
  home: { lines: Number.NEGATIVE_INFINITY },
  end: { lines: Number.POSITIVE_INFINITY },
};

/**
 * @param {string} note what the last line says in any case
 */
export function openPager(note) {
  const out = process.stdout;
  const input = process.stdin.isTTY === true ? process.stdin : undefined;
  /** @type {string[]} */
  let lines = [];
  let top = 0;
  const draw = () => {
    const page = pageOf(lines, {
      top,
      rows: out.rows || 24,
      columns: widthOf(out),
      canScroll: input !== undefined,
      note,
    });
    top = page.top;
    const drawn = page.shown.map((line) => line + SCREEN.clearLine).join("\r\n");
    printShown(SCREEN.home + drawn + SCREEN.clearRest);
  };
  /** @param {string | undefined} _ @param {{ name?: string, ctrl?: boolean }} key */
  const press = (_, { name = "", ctrl }) => {
    // A terminal that hands over single keys makes no signal of this one.
    if (ctrl && name === "c") return void process.kill(process.pid, "SIGINT");
    const way = Object.hasOwn(KEYS, name) ? KEYS[name] : undefined;
    if (way === undefined) return;
    top += (way.lines ?? 0) + (way.screens ?? 0) * Math.max((out.rows || 24) - 1, 1);
    draw();
  };
  const leave = () => {
    printShown(SCREEN.leave);
    input?.setRawMode(false);
  };
  printShown(SCREEN.enter);
  // A second interrupt waits for nothing.
  process.once("exit", leave);
  if (input !== undefined) {
    emitKeypressEvents(input);
    input.setRawMode(true).on("keypress", press).resume();
  }
  return {
    /** @param {string} text of visible parts */
    show(text) {
      lines = text.split("\n");
      draw();
    },
    close() {
      process.off("exit", leave);
      input?.off("keypress", press).pause();
      leave();
    },
  };
}

/**
 * What of `lines` is on the screen. Pure.
 *
 * @param {string[]} lines
 * @param {{ top: number, rows: number, columns: number, canScroll: boolean, note: string }} screen `top`: the first line that is wanted
 */
export function pageOf(lines, { top, rows, columns, canScroll, note }) {
  const clip = (/** @type {string} */ line) => Array.from(line).slice(0, columns).join("");
  const room = Math.max(rows - 1, 1);
  if (lines.length + 1 < room) return { top: 0, shown: [...lines, "", clip(note)] };
  const last = Math.max(lines.length - room, 0);
  const first = Math.min(Math.max(top, 0), last);
  const seen = lines.slice(first, first + room);
  const how = canScroll ? "arrow and page keys scroll" : "make the window higher";
  const left = last === 0 ? "" : `lines ${first + 1} to ${first + seen.length} of ${lines.length}: ${how}; `;
  return { top: first, shown: [...seen, clip(left + note)] };
}
