/**
 * That something goes on, for whoever watches: on the terminal of standard error, and nowhere else. In: what is waited for, and the
 * tokens so far. Out: one line, `⠋ claude 3 s · 120 tokens`, which is gone before anything else is printed.
 */

import { isColourful, painter } from "./colour.mjs";
import { setStatus, visibleLine, widthOf } from "./screen.mjs";

const FRAME_MS = 100;
const DOTS = [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"];
const DASHES = [..."|/-\\"];

/** @param {NodeJS.ProcessEnv} env */
function frames({ LC_ALL, LC_CTYPE, LANG, WT_SESSION }) {
  const isUnicode = process.platform === "win32" ? WT_SESSION : /utf-?8/i.test(LC_ALL || LC_CTYPE || LANG || "");
  return isUnicode ? DOTS : DASHES;
}

/** @param {number} ms */
export function elapsed(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

/** @param {number} count */
export const tokensText = (count) => `${count.toLocaleString("en-US")} ${count === 1 ? "token" : "tokens"}`;

/**
 * Begins at once.
 *
 * @param {string} label
 */
export function startSpinner(label) {
  const stream = process.stderr;
  const began = performance.now();
  if (stream.isTTY !== true || process.env.TERM === "dumb") return { tokens() {}, stop() {} };
  const all = frames(process.env);
  const paint = painter(isColourful(stream));
  let tokens = 0;
  let about = "";
  let turn = 0;
  let isShown = false;
  const draw = () => {
    const used = tokens > 0 ? ` · ${about}${tokensText(tokens)}` : "";
    const text = `${all[turn++ % all.length]} ${visibleLine(label)} ${elapsed(performance.now() - began)}${used}`;
    // One column stays free: some terminals begin a new line after the last one.
    stream.write(`\r\x1b[2K${paint("dim", text.slice(0, Math.max(widthOf(stream) - 1, 1)))}`);
    isShown = true;
  };
  const clear = () => {
    if (isShown) stream.write("\r\x1b[2K");
    isShown = false;
  };
  const timer = setInterval(draw, FRAME_MS);
  timer.unref();
  setStatus({ clear });
  // A second interrupt waits for nothing.
  process.once("exit", clear);
  draw();
  return {
    /**
     * @param {number} count used so far
     * @param {boolean} [isEstimated]
     */
    tokens(count, isEstimated = false) {
      tokens = count;
      about = isEstimated ? "about " : "";
    },
    stop() {
      clearInterval(timer);
      process.off("exit", clear);
      clear();
      setStatus(undefined);
    },
  };
}
