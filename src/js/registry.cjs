"use strict";

/**
 * In: the native side's registry of providers, once. Out: what frameworks and telemetry ask of a provider that is not in its answers.
 * The facts stand with their provider (`src/provider/<id>`), and nowhere here.
 *
 * @typedef {object} Registered
 * @property {string} id
 * @property {string} name as in `create<name>CliProvider`
 * @property {string} command the program that is looked up on PATH
 * @property {string[]} versions that were measured; none where only a document was at hand
 * @property {Models} models
 * @property {boolean} pure whether it is a model alone, unless options turn the CLI's own tools on
 * @property {("images" | "documents" | "resultImages" | "reasoning")[]} hands what it hands over beside text, in one engine at least
 * @property {boolean} dropsChoices whether its CLI leaves out by itself what the model does not have: an effort, no reasoning
 *
 * @typedef {object} Models
 * @property {string | null} vendor LangChain's and LangSmith's name for who makes them; `null` where that depends on the model
 * @property {string | null} company the same in OpenTelemetry's conventions
 * @property {string | null} names what they are called, a regular expression
 * @property {string[]} aliases what the CLI itself calls a family of them
 * @property {{ model: string, maxInputTokens: number, maxOutputTokens?: number }[]} sizes
 * @property {boolean} takesImageUrls
 */

/** @type {Map<string, Registered>} */
const known = new Map();

/**
 * @param {{ providers(): string }} native
 * @returns {Registered[]}
 */
function readRegistry(native) {
  if (known.size === 0) for (const one of JSON.parse(native.providers())) known.set(one.id, one);
  return [...known.values()];
}

/** @param {string} id of a provider */
const registered = (id) => known.get(id);

const everyProvider = () => known.values();

module.exports = { everyProvider, readRegistry, registered };
