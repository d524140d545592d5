// @ts-check
/**
 * What a CLI sends to the model by itself, in short: (a request's body) -> its size and the tools it offers.
 */

/**
 * @typedef {object} Shape
 * @property {number} bytes of the body, its paths, ports and ids replaced by constants
 * @property {string[]} tools the names of those it offers the model, in the order of the alphabet
 */

/**
 * @param {any} body as JSON
 * @param {string} text of it, the same in every run
 * @returns {Shape}
 */
export function shapeOf(body, text) {
  const offered = Array.isArray(body?.tools) ? body.tools : [];
  return { bytes: Buffer.byteLength(text), tools: offered.flatMap(namesOf).sort() };
}

/**
 * Anthropic's `{ name }`, the Responses API's `{ type, name }` or `{ type: "web_search" }`, chat completions'
 * `{ function: { name } }`, Gemini's `{ functionDeclarations: [{ name }] }` or `{ googleSearch: {} }`.
 * @param {any} tool
 * @returns {string[]}
 */
function namesOf(tool) {
  if (Array.isArray(tool?.functionDeclarations)) return tool.functionDeclarations.flatMap(namesOf);
  const name = tool?.name ?? tool?.function?.name ?? tool?.type ?? Object.keys(tool ?? {})[0];
  return name === undefined ? [] : [String(name)];
}
