/**
 * The APIs that a suite's file describes. In: the field `providers`. Out: the options of `createOpenAiCompatibleProvider`, by the name
 * that tasks call each by.
 *
 * Such a file is checked in and passed on, so no key stands in it: it names the environment variable that holds one.
 */

/** As a provider's id. */
const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;
/** What may hold a key. */
const SECRET = new Set(["apiKey", "headers"]);

/** @typedef {Record<string, unknown> & { baseURL: string, model: string }} ApiOptions */

/**
 * @param {unknown} written
 * @param {readonly string[]} taken names that are somebody's
 * @param {string[]} problems gets what is wrong
 * @returns {Map<string, ApiOptions>}
 */
export function readProviders(written, taken, problems) {
  /** @type {Map<string, ApiOptions>} */
  const found = new Map();
  if (written === undefined) return found;
  if (!isObject(written)) {
    problems.push("providers: must be an object of names, each with baseURL and model");
    return found;
  }
  for (const [name, block] of Object.entries(written)) {
    const at = `providers.${name}`;
    if (!NAME.test(name)) problems.push(`${at}: a name is small letters, digits and "-", at most 64`);
    if (taken.includes(name)) problems.push(`${at}: ${name} is a provider already`);
    if (!isObject(block)) {
      problems.push(`${at}: must be an object with baseURL and model`);
      continue;
    }
    for (const key of /** @type {const} */ (["baseURL", "model"])) {
      const value = block[key];
      if (typeof value !== "string" || value.trim() === "") {
        problems.push(`${at}.${key}: must be a text that is not empty`);
      }
    }
    checkSecrets(block, at, problems);
    found.set(name, /** @type {ApiOptions} */ (block));
  }
  return found;
}

/**
 * @param {Record<string, unknown>} options of an API
 * @param {string} at
 * @param {string[]} problems gets what could be a key
 */
export function checkSecrets(options, at, problems) {
  for (const key of Object.keys(options).filter((key) => SECRET.has(key))) {
    problems.push(`${at}.${key}: no key stands in this file; apiKeyEnv names the environment variable that holds it`);
  }
  const { baseURL } = options;
  if (typeof baseURL !== "string" || !URL.canParse(baseURL)) return;
  const { username, password } = new URL(baseURL);
  if (username || password) problems.push(`${at}.baseURL: no user and no password stand in this file`);
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
