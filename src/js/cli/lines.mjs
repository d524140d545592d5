/**
 * Lines of a person or of a pipe. In: standard input. Out: one line at a time, when it is asked for.
 *
 * On a terminal, what is typed while nobody asks is not shown where the answer stands, but in the next line.
 */

import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { printShown, visible } from "./screen.mjs";

/** Asks the terminal to say what is pasted, and what is typed: xterm's bracketed paste, which others have, too. */
const PASTES = { on: "\x1b[?2004h", off: "\x1b[?2004l" };

/** How many lines are remembered. */
export const HISTORY_LINES = 1_000;

/**
 * @param {object} options
 * @param {string[]} options.history the newest first
 * @param {string} options.more the prompt before a further line of what is pasted
 * @param {() => void} options.onInterrupt Ctrl-C on the terminal, which is then no signal
 */
export function createLines({ history, more, onInterrupt }) {
  const screen = [process.stdout, process.stderr].find((stream) => stream.isTTY);
  const isTerminal = process.stdin.isTTY === true && screen !== undefined;
  // One that is dumb shows an escape as text; readline knows that, too.
  const takesEscapes = isTerminal && process.env.TERM !== "dumb";
  const output = screen === undefined || !isTerminal ? undefined : new Curtain(screen);
  const lines = createInterface({
    input: process.stdin,
    ...(output && { output, history, historySize: HISTORY_LINES, removeHistoryDuplicates: true }),
    terminal: isTerminal,
    crlfDelay: Number.POSITIVE_INFINITY,
  });
  /** @type {string[]} */
  const queue = [];
  let isOver = false;
  /** @type {((line: string | undefined) => void) | undefined} */
  let waiting;
  /** What the line was asked for with. */
  let asked = "";
  const deliver = (/** @type {string | undefined} */ line) => {
    const taker = waiting;
    waiting = undefined;
    if (output) output.isDrawn = taker === undefined && output.isDrawn;
    if (taker) taker(line);
    else if (line !== undefined) queue.push(line);
  };
  let isPasting = false;
  /** Lines that were pasted, before the one that stands there now: together they are one. @type {string[]} */
  let pasted = [];
  lines.on("line", (line) => {
    pasted.push(line);
    if (!isPasting) deliver(pasted.splice(0).join("\n"));
    else if (waiting) {
      lines.setPrompt(more);
      lines.prompt();
    }
  });
  const hear = (/** @type {unknown} */ _, /** @type {{ name?: string }} */ { name }) => {
    if (name === "paste-start" || name === "paste-end") isPasting = name === "paste-start";
  };
  const take = () => {
    if (!takesEscapes || screen === undefined) return;
    process.stdin.on("keypress", hear);
    printShown(PASTES.on, screen);
  };
  const giveBack = () => {
    if (!takesEscapes || screen === undefined) return;
    process.stdin.off("keypress", hear);
    printShown(PASTES.off, screen);
  };
  take();
  process.once("exit", giveBack);
  lines.on("close", () => {
    isOver = true;
    process.off("exit", giveBack);
    giveBack();
    // What comes next, a shell's prompt, stands on a line of its own.
    if (isTerminal && waiting && screen) printShown("\n", screen);
    deliver(undefined);
  });
  lines.on("SIGINT", onInterrupt);
  return {
    isTerminal,
    /**
     * @param {string} prompt shown on a terminal
     * @returns {Promise<string | undefined>} `undefined`: there are no more
     */
    next(prompt) {
      const line = queue.shift();
      if (line !== undefined) {
        // It was typed while nobody asked.
        if (isTerminal && screen) printShown(`${prompt}${visible(line)}\n`, screen);
        return Promise.resolve(line);
      }
      if (isOver) return Promise.resolve(undefined);
      return new Promise((resolve) => {
        waiting = resolve;
        asked = prompt;
        if (output === undefined) return;
        output.isDrawn = true;
        lines.setPrompt(pasted.length > 0 ? more : prompt);
        lines.prompt(true);
      });
    },
    /** Takes away what is typed, and asks again. */
    restart() {
      isPasting = false;
      pasted = [];
      lines.setPrompt(asked);
      lines.write(null, { ctrl: true, name: "e" });
      lines.write(null, { ctrl: true, name: "u" });
      lines.prompt();
    },
    /**
     * The terminal is another program's meanwhile.
     *
     * @template T
     * @param {() => Promise<T>} work
     * @returns {Promise<T>}
     */
    async lend(work) {
      giveBack();
      lines.pause();
      process.stdin.setRawMode(false);
      try {
        return await work();
      } finally {
        process.stdin.setRawMode(true);
        lines.resume();
        take();
      }
    },
    close: () => lines.close(),
  };
}

/** The terminal, or nothing: what is written while it is not drawn is dropped. */
class Curtain extends Writable {
  isDrawn = false;
  #screen;

  /** @param {NodeJS.WriteStream} screen */
  constructor(screen) {
    super({ decodeStrings: false });
    this.#screen = screen;
    screen.on("resize", () => this.emit("resize"));
  }

  get columns() {
    return this.#screen.columns;
  }

  /**
   * @override
   * @param {string} chunk
   * @param {BufferEncoding} _
   * @param {() => void} done
   */
  _write(chunk, _, done) {
    if (this.isDrawn) this.#screen.write(chunk);
    done();
  }
}
