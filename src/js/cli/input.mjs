/** What comes over standard input. In: an argument as prompt, or none. Out: the prompt. */

import { fstatSync } from "node:fs";
import { tell } from "./screen.mjs";
import { UsageError } from "./usage.mjs";

/** Whoever starts this program may have left standard input open for ever. */
const PATIENCE_MS = 2_000;

/**
 * The argument, with what comes over standard input behind it; `-` is standard input alone.
 *
 * @param {string[]} positionals
 * @param {AbortSignal} signal
 */
export async function readPrompt(positionals, signal) {
  const [argument = "-", more] = positionals;
  if (more !== undefined) throw new UsageError(`unexpected argument "${more}": put the prompt in quotes`);
  const isPrompt = argument !== "-";
  const parts = [isPrompt ? argument : "", await readInput(isPrompt, signal)].map((part) => part.trim());
  const text = parts.filter((part) => part !== "").join("\n\n");
  if (text === "") throw new UsageError("there is no prompt: give one as an argument, or over standard input");
  return text;
}

/**
 * All of standard input; nothing from a terminal, unless there is no other prompt, or from a device.
 *
 * @param {boolean} hasPrompt
 * @param {AbortSignal} signal
 */
async function readInput(hasPrompt, signal) {
  if (process.stdin.isTTY) {
    if (hasPrompt) return "";
    tell("type the prompt, then press Ctrl-D");
  } else if (isDevice()) return "";
  const waiting = setTimeout(() => tell("reading standard input until it ends (`</dev/null` for none)"), PATIENCE_MS);
  const stop = () => process.stdin.destroy(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  try {
    /** @type {Buffer[]} */
    const chunks = [];
    for await (const chunk of process.stdin) chunks.push(chunk);
    return Buffer.concat(chunks).toString("utf8");
  } finally {
    clearTimeout(waiting);
    signal.removeEventListener("abort", stop);
  }
}

/** Whether standard input is `/dev/null` or the like, or closed: then nothing comes from there. */
function isDevice() {
  try {
    return fstatSync(0).isCharacterDevice();
  } catch {
    return true;
  }
}
