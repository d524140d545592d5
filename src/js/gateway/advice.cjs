"use strict";

/**
 * In: the advice of a provider's error, which is written for whoever made the provider. Out: what a client, or who started its gateway, can
 * do; nothing where that is nothing.
 */

/** What a client does whose request has a knob that can't be had. */
const LENIENT =
  "send the header `x-dfp-lenient: true` (for every call: start the gateway with `--lenient`), and it is left out here";

/** What `serve` and its clients have in the place of an option. */
const INSTEAD = /** @type {const} */ ([
  ['set `onUnsupported: "warn"`', LENIENT],
  [/set `cliPath`(?: to the file| to where it is)?$/, "see that it is on the gateway's PATH"],
  [/raise the `timeout` option(?: \(now (\d+) ms\))?/, "start the gateway with a longer --timeout"],
  ["lower `maxConcurrency`", "start the gateway with fewer --answers"],
  [/use `engine: "auto"`.*$/, "start the gateway with --engine auto"],
  ['set `engine: "print"`', "start the gateway with --engine print"],
  ["set `apiKey`, or the environment variable that `apiKeyEnv` names", "set the variable that --api-key-env names"],
  ["renew the key and set `apiKey`", "renew the gateway's API key"],
  ["`apiKey`", "the gateway's API key"],
  ["`baseURL`", "--base-url"],
  ["the key in `provider`, or ", ""],
  [/the `authType` option \([^)]*\), or /, ""],
  ["look at `stdoutTail`, and at the server's log", "look at the server's log"],
  ["look at `stderrTail` and `stdoutTail`, and run the CLI by hand", "run the CLI by hand"],
  [" and look at `stderrTail`", ""],
  ["pass LangChain messages, or objects with `role` and `content`", "give each message a role and a content"],
  ["a zod or JSON schema", "a JSON schema"],
  [/^correct the option$/, "correct it"],
]);

/** An option of a provider, or a field of its error. */
const OPTION = /`(?:[a-z]+[A-Z]\w*|authType|budget|cwd|dialect|engine|partial|provider|timeout|verbose)\b[^`]*`/;

/** @param {string} hint @returns {string | undefined} */
function adviceFor(hint) {
  const [first, ...others] = hint.split("; ");
  const parts = [first, ...others].map((part) => mended(part ?? "")).filter((part) => part !== "");
  return parts.length === 0 ? undefined : parts.join("; ");
}

/** @param {string} advice one sentence, or several ways of which one is enough */
function mended(advice) {
  let text = advice;
  for (const [option, instead] of INSTEAD) text = text.replace(option, instead);
  if (!OPTION.test(text)) return text;
  const ways = text.split(/, (?:or )?/).filter((way) => !OPTION.test(way));
  return ways.length < 2 ? ways.join("") : `${ways.slice(0, -1).join(", ")}, or ${ways.at(-1)}`;
}

/**
 * An error's message ends in its advice, as a sentence.
 *
 * @param {string} message
 * @param {string | undefined} hint
 * @returns {{ reason: string, end: string, hint: string | undefined }} `end`: what stands behind the reason
 */
function forClients(message, hint) {
  if (hint === undefined) return { reason: message, end: "", hint };
  const own = adviceFor(hint);
  const end = sentence(hint);
  if (!message.endsWith(end)) return { reason: message, end: "", hint: own };
  return { reason: message.slice(0, -end.length), end: own === undefined ? "" : sentence(own), hint: own };
}

/** @param {string} text */
const sentence = (text) => `. ${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;

module.exports = { LENIENT, adviceFor, forClients };
