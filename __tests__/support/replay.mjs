// @ts-check
/**
 * Fakes that print what a real CLI once printed.
 *
 * In flows the name of a recording (`__tests__/fixtures/recordings`); out flows a behaviour for `fake.mjs`: the same standard
 * output, standard error and exit code, or signal.
 */
import { existsSync, readFileSync } from "node:fs";
import { constants } from "node:os";

const RECORDINGS = new URL("../fixtures/recordings/", import.meta.url);

/**
 * @param {string} name `codex/err-401-json`
 * @param {Partial<import("./fake.mjs").Behaviour>} [over] what is to be different
 * @returns {import("./fake.mjs").Behaviour}
 */
export function replay(name, over = {}) {
  const read = (/** @type {string} */ kind) => {
    const file = new URL(`${name}.${kind}`, RECORDINGS);
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  };
  /** @type {{ exit_code: number }} */
  const { exit_code: code } = JSON.parse(read("meta.json"));
  const signal = Object.entries(constants.signals).find(([, number]) => number === -code)?.[0];
  return {
    stdout: read("stdout"),
    stderr: read("stderr"),
    ...(signal === undefined ? { code } : { signal: /** @type {NodeJS.Signals} */ (signal) }),
    ...over,
  };
}

/**
 * The recording's output with another answer in it.
 * @param {string} name a recording whose answer is one piece of text
 * @param {string} was that text
 * @param {string} text what it says instead
 */
export function answer(name, was, text) {
  const behaviour = replay(name);
  const inside = (/** @type {string} */ value) => JSON.stringify(value).slice(1, -1);
  return { ...behaviour, stdout: String(behaviour.stdout).replaceAll(inside(was), () => inside(text)) };
}
