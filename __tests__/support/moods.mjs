// @ts-check
/** The mood of a scripted server, which a test may change while it runs: it stands in a file beside the log of what the server was sent. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

/**
 * What a server's mood is now.
 * @param {string} log
 * @param {string} begun the one that it was started in
 */
export function moodOf(log, begun) {
  return existsSync(`${log}.mood`) ? readFileSync(`${log}.mood`, "utf8") : begun;
}

/**
 * Puts a server into another mood, at once: it never reads half of a word.
 * @param {string} log
 * @param {string} mood
 */
export function setMood(log, mood) {
  writeFileSync(`${log}.mood.new`, mood);
  renameSync(`${log}.mood.new`, `${log}.mood`);
}
