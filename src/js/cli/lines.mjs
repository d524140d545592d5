/**
 * Lines of a person or of a pipe. In: standard input. Out: one line at a time, when it is asked for.
 *
 * On a terminal, what is typed while nobody asks is not shown where the answer stands, but in the next line.
 */

import { createInterface } from "node:readline";
import { Writable } from "node:stream";

/** How many lines are remembered. */
export const HISTORY_LINES = 1_000;

/**
 * @param {object} options
 * @param {string[]} options.history the newest first
 * @param {() => void} options.onInterrupt Ctrl-C on the terminal, which is then no signal
 */
export function createLines({ history, onInterrupt }) {
  const screen = [process.stdout, process.stderr].find((stream) => stream.isTTY);
  const isTerminal = process.stdin.isTTY === true && screen !== undefined;
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
  const deliver = (/** @type {string | undefined} */ line) => {
    const taker = waiting;
    waiting = undefined;
    if (output) output.isDrawn = taker === undefined && output.isDrawn;
    if (taker) taker(line);
    else if (line !== undefined) queue.push(line);
  };
  lines.on("line", deliver);
  lines.on("close", () => {
    isOver = true;
    // What comes next, a shell's prompt, stands on a line of its own.
    if (isTerminal && waiting) screen?.write("\n");
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
        if (isTerminal) screen?.write(`${prompt}${line}\n`);
        return Promise.resolve(line);
      }
      if (isOver) return Promise.resolve(undefined);
      return new Promise((resolve) => {
        waiting = resolve;
        if (output === undefined) return;
        output.isDrawn = true;
        lines.setPrompt(prompt);
        lines.prompt(true);
      });
    },
    /** Takes away what is typed, and asks again. */
    restart() {
      lines.write(null, { ctrl: true, name: "e" });
      lines.write(null, { ctrl: true, name: "u" });
      lines.prompt();
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
