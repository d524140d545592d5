"use strict";

/**
 * In: requests, and what of them may vary. Out: whether two are the same, and in what they differ.
 *
 * @import { ScriptedRequest } from "./types.cjs"
 *
 * @typedef {readonly (RegExp | string)[] | ((request: ScriptedRequest) => unknown)} Match
 */

const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");

/** What stands for what may vary. */
const VARIES = "…";
/** How many differences are counted, and how many are told. */
const MOST_COUNTED = 50;
const MOST_TOLD = 3;
/** Characters of a value that are told. */
const SHOWN = 60;

/**
 * By what it says of itself: a test runner's may be of another realm.
 *
 * @param {unknown} value
 * @returns {value is RegExp}
 */
const isRegExp = (value) => Object.prototype.toString.call(value) === "[object RegExp]";

/**
 * @param {unknown} match the option
 * @returns {(request: ScriptedRequest) => unknown} what of a request is compared
 */
function readMatch(match) {
  if (match === undefined) return (request) => request;
  if (typeof match === "function") return (request) => match(structuredClone(request));
  if (!Array.isArray(match) || !match.every((one) => isRegExp(one) || (typeof one === "string" && one !== ""))) {
    const allowed = "an array of regular expressions and texts, or a function";
    throw fault("INVALID_OPTION", `match must be ${allowed}, got ${describe(match)}`);
  }
  const patterns = match.map((one) =>
    typeof one === "string" ? one : new RegExp(one.source, one.flags.includes("g") ? one.flags : `${one.flags}g`),
  );
  const blur = (/** @type {string} */ text) =>
    patterns.reduce((/** @type {string} */ all, one) => all.replaceAll(one, VARIES), text);
  return (request) => mapTexts(request, blur);
}

/**
 * @param {any} value
 * @param {(text: string) => string} map
 * @returns {any}
 */
function mapTexts(value, map) {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, map));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapTexts(item, map)]));
}

/**
 * A text that is the same for the same value, in whatever order its fields are.
 *
 * @param {unknown} value
 * @returns {string}
 */
function keyOf(value) {
  return JSON.stringify(value, (_, item) => {
    if (typeof item !== "object" || item === null || Array.isArray(item)) return item;
    return Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

/**
 * @typedef {{ path: string, tape: unknown, request: unknown }} Difference
 *
 * @param {any} tape
 * @param {any} request
 * @param {string} [path]
 * @param {Difference[]} [found]
 * @returns {Difference[]} the first first
 */
function differences(tape, request, path = "", found = []) {
  if (found.length >= MOST_COUNTED || keyOf(tape) === keyOf(request)) return found;
  /** @param {any} value @returns {value is Record<string, any>} */
  const isObject = (value) => typeof value === "object" && value !== null;
  if (!isObject(tape) || !isObject(request) || Array.isArray(tape) !== Array.isArray(request)) {
    found.push({ path, tape, request });
    return found;
  }
  for (const key of new Set([...Object.keys(tape), ...Object.keys(request)])) {
    const at = Array.isArray(tape) ? `${path}[${key}]` : `${path}${path === "" ? "" : "."}${key}`;
    differences(tape[key], request[key], at, found);
  }
  return found;
}

/** @param {readonly Difference[]} found */
function tell(found) {
  const told = found.slice(0, MOST_TOLD).map(({ path, tape, request }) => {
    const from = typeof tape === "string" && typeof request === "string" ? firstDifference(tape, request) : 0;
    return `${path || "the request"}: ${show(tape, from)} on the tape, ${show(request, from)} now`;
  });
  const more = found.length - told.length;
  return told.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/**
 * @param {string} one
 * @param {string} other
 */
function firstDifference(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  // Some of what is the same, to find the place by.
  return at < 20 ? 0 : at - 10;
}

/**
 * @param {unknown} value
 * @param {number} from
 */
function show(value, from) {
  if (value === undefined) return "nothing";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const piece = Array.from(text.slice(from, from + 2 * SHOWN))
    .slice(0, SHOWN)
    .join("");
  const cut = `${from > 0 ? "…" : ""}${piece}${from + piece.length < text.length ? "…" : ""}`;
  return typeof value === "string" ? JSON.stringify(cut) : cut;
}

module.exports = { differences, keyOf, mapTexts, readMatch, tell };
