"use strict";

/**
 * In: the options of `createGateway`, as the caller wrote them. Out: all of them, checked, with their defaults.
 *
 * @import { Provider } from "./models.cjs"
 */

const { fault } = require("../errors.cjs");
const { describe } = require("../options.cjs");
const { isObject } = require("./fields.cjs");
const { isHostName, isLoopback } = require("./guard.cjs");
const { OWN_KEY } = require("./keys.cjs");

/** The words by which the caller says that another address than loopback is for him alone. */
const CONSENT = /** @type {const} */ ("I am the only user");
const PORT = 7421;
const LEAST_TOKEN = 16;

const DEFAULTS = {
  bodyBytes: 32 * 1024 * 1024,
  headersTimeoutMs: 10_000,
  ttlMs: 30 * 60_000,
  maxResponses: 1000,
  maxBytes: 128 * 1024 * 1024,
  drainMs: 10_000,
};

const NAMES = new Set([
  ...[
    "providers",
    "host",
    "hostNames",
    "port",
    "socketPath",
    "token",
    "tokenFile",
    "keys",
    "consent",
    "aliases",
    "answers",
    "models",
    "lenient",
  ],
  ...["allowedOrigins", "limits", "store", "drainMs", "logger", "record", "telemetry"],
]);
const LIMITS = new Set([
  "concurrency",
  "requestsPerMinute",
  "tokensPerDay",
  "usdPerDay",
  "budget",
  "bodyBytes",
  "headersTimeoutMs",
]);
const KEY_LIMITS = new Set(["concurrency", "requestsPerMinute", "tokensPerDay", "usdPerDay", "budget"]);
const STORE = new Set(["ttlMs", "maxResponses", "maxBytes"]);

/** @param {string} name @param {string} must @param {unknown} value */
const wrong = (name, must, value) =>
  fault("INVALID_OPTION", `the option "${name}" must be ${must}, got ${describe(value)}`);

/** @param {unknown} given */
function readOptions(given) {
  if (!isObject(given)) throw fault("INVALID_OPTION", `options must be an object, got ${describe(given)}`);
  onlyThese(given, NAMES, "");
  const options = /** @type {Record<string, any>} */ (given);
  const { token, socketPath, host = "127.0.0.1", consent } = options;
  const text = (/** @type {string} */ name) => optional(options[name], name, "a text", isText);
  if (token !== undefined && token !== false && !isToken(token)) {
    throw fault(
      "INVALID_OPTION",
      `the option "token" must be false, or a text of ${LEAST_TOKEN} characters or more without spaces`,
    );
  }
  if (token === false && socketPath === undefined) {
    throw fault(
      "INVALID_OPTION",
      'the option "token" may be false only with "socketPath": elsewhere every user of the machine could ask',
    );
  }
  if (!isText(host)) throw wrong("host", "a text", host);
  if (consent !== undefined && consent !== CONSENT) throw wrong("consent", `"${CONSENT}"`, consent);
  if (socketPath === undefined && !isLoopback(host) && consent === undefined) {
    throw fault(
      "INVALID_OPTION",
      `the option "host" must be 127.0.0.1, ::1 or localhost: others can reach "${host}". Who is alone there says so with consent: "${CONSENT}"`,
    );
  }
  return {
    providers: providersOf(options.providers),
    host,
    hostNames: hostsOf(options.hostNames),
    port: whole(options.port, "port", 0, 65535) ?? PORT,
    socketPath: text("socketPath"),
    token: /** @type {string | false | undefined} */ (token),
    tokenFile: optional(
      options.tokenFile,
      "tokenFile",
      "a path, or false",
      (value) => value === false || isText(value),
    ),
    keys: keysOf(options.keys, token),
    aliases: aliasesOf(options.aliases),
    models: textsOf(options.models, "models"),
    answers: whole(options.answers, "answers", 1, 1024),
    lenient: optional(options.lenient, "lenient", "true or false", (value) => typeof value === "boolean") ?? false,
    allowedOrigins: textsOf(options.allowedOrigins, "allowedOrigins"),
    limits: limitsOf(options.limits, LIMITS, "limits"),
    store: {
      ttlMs: whole(groupOf(options.store, STORE, "store").ttlMs, "store.ttlMs", 1) ?? DEFAULTS.ttlMs,
      maxResponses: whole(options.store?.maxResponses, "store.maxResponses", 0) ?? DEFAULTS.maxResponses,
      maxBytes: whole(options.store?.maxBytes, "store.maxBytes", 0) ?? DEFAULTS.maxBytes,
    },
    drainMs: whole(options.drainMs, "drainMs", 0, 2 ** 31 - 1) ?? DEFAULTS.drainMs,
    record: text("record"),
    telemetry: options.telemetry,
  };
}

/** @typedef {ReturnType<typeof readOptions>} Options */

/** @param {unknown} value @returns {value is string} */
const isText = (value) => typeof value === "string" && value !== "";
/** @param {unknown} value @returns {value is string} */
const isToken = (value) => typeof value === "string" && value.length >= LEAST_TOKEN && /^[\x21-\x7e]+$/.test(value);

/**
 * @param {unknown} value
 * @param {string} name
 * @param {string} must
 * @param {(value: unknown) => boolean} fits
 * @returns {any}
 */
function optional(value, name, must, fits) {
  if (value === undefined || fits(value)) return value;
  throw wrong(name, must, value);
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {number} least
 * @param {number} [most]
 * @returns {number | undefined}
 */
function whole(value, name, least, most = Number.MAX_SAFE_INTEGER) {
  const fits = (/** @type {unknown} */ it) => Number.isSafeInteger(it) && Number(it) >= least && Number(it) <= most;
  return optional(
    value,
    name,
    `a whole number from ${least}${most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`}`,
    fits,
  );
}

/** @param {object} given @param {Set<string>} names @param {string} within */
function onlyThese(given, names, within) {
  const unknown = Object.keys(given).find((name) => !names.has(name));
  if (unknown === undefined) return;
  throw fault("INVALID_OPTION", `unknown option "${within}${unknown.slice(0, 80)}"; allowed: ${[...names].join(", ")}`);
}

/**
 * @param {unknown} value
 * @param {Set<string>} names
 * @param {string} name
 * @returns {Record<string, any>}
 */
function groupOf(value, names, name) {
  if (value === undefined) return {};
  if (!isObject(value)) throw wrong(name, "an object", value);
  onlyThese(value, names, `${name}.`);
  return value;
}

/** @param {unknown} value @param {Set<string>} names @param {string} name */
function limitsOf(value, names, name) {
  const given = groupOf(value, names, name);
  const usd = optional(
    given.usdPerDay,
    `${name}.usdPerDay`,
    "a number above 0",
    (it) => Number.isFinite(it) && Number(it) > 0,
  );
  return {
    concurrency: whole(given.concurrency, `${name}.concurrency`, 1),
    requestsPerMinute: whole(given.requestsPerMinute, `${name}.requestsPerMinute`, 1),
    tokensPerDay: whole(given.tokensPerDay, `${name}.tokensPerDay`, 1),
    usdPerDay: /** @type {number | undefined} */ (usd),
    // Its fields are checked where it is made.
    budget: optional(given.budget, `${name}.budget`, "an object { requests, tokens, costUsd, per, store }", isObject),
    bodyBytes: whole(given.bodyBytes, `${name}.bodyBytes`, 1) ?? DEFAULTS.bodyBytes,
    headersTimeoutMs:
      whole(given.headersTimeoutMs, `${name}.headersTimeoutMs`, 1, 2 ** 31 - 1) ?? DEFAULTS.headersTimeoutMs,
  };
}

/** @param {unknown} value @param {string} name @returns {readonly string[]} */
function textsOf(value, name) {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every(isText)) return value;
  throw wrong(name, "an array of texts", value);
}

/** @param {unknown} value @returns {readonly string[]} */
function hostsOf(value) {
  const names = textsOf(value, "hostNames");
  if (names.every(isHostName)) return names;
  throw wrong("hostNames", "names or addresses as a client writes them, without a scheme and a port", value);
}

/** @param {unknown} value @returns {Readonly<Record<string, Provider>>} */
function providersOf(value) {
  if (!isObject(value) || Object.keys(value).length === 0) {
    throw wrong(
      "providers",
      "an object of at least one provider, such as { claude: createClaudeCliProvider() }",
      value,
    );
  }
  for (const [name, provider] of Object.entries(value)) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
      throw fault(
        "INVALID_OPTION",
        `the option "providers" has a name that is none: letters, digits, ".", "_" and "-", got ${describe(name)}`,
      );
    }
    const { stream, bindTools } = /** @type {Partial<Provider>} */ (provider ?? {});
    if (typeof stream !== "function" || typeof bindTools !== "function")
      throw wrong(`providers.${name}`, "a provider", provider);
  }
  return /** @type {any} */ (value);
}

/** @param {unknown} value @returns {Readonly<Record<string, readonly string[]>>} */
function aliasesOf(value) {
  if (value === undefined) return {};
  if (!isObject(value)) throw wrong("aliases", "an object of arrays of models", value);
  for (const [name, targets] of Object.entries(value)) {
    if (!/^[\x21-\x7e]{1,200}$/.test(name))
      throw fault("INVALID_OPTION", 'the option "aliases" has a name that is no printable ASCII');
    if (!Array.isArray(targets) || targets.length === 0 || !targets.every(isText)) {
      throw wrong(`aliases.${name}`, "an array of at least one model", targets);
    }
  }
  return /** @type {any} */ (value);
}

/** @param {unknown} value @param {unknown} own the gateway's own token */
function keysOf(value, own) {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong("keys", "an array of { name, token, limits }", value);
  /** @type {Map<string, string>} */
  const taken = new Map();
  /** No text of it: it may be a secret. @param {string} text @param {string} at */
  const once = (text, at) => {
    const before = text === own ? "the gateway's own token" : taken.get(text);
    if (before !== undefined) throw fault("INVALID_OPTION", `the option "${at}" must be another than ${before}`);
    taken.set(text, at);
  };
  return value.map((key, index) => {
    const at = `keys[${index}]`;
    const { name, token, limits } = groupOf(key ?? 0, new Set(["name", "token", "limits"]), at);
    if (!isText(name) || !/^[\x20-\x7e]{1,64}$/.test(name) || name === OWN_KEY)
      throw wrong(`${at}.name`, `a name of 1 to 64 printable ASCII characters, and not "${OWN_KEY}"`, name);
    // Not repeated here: it is a secret.
    if (!isToken(token))
      throw fault(
        "INVALID_OPTION",
        `the option "${at}.token" must be a text of ${LEAST_TOKEN} characters or more without spaces`,
      );
    once(`name ${name}`, `${at}.name`);
    once(token, `${at}.token`);
    const its = limits === undefined ? undefined : limitsOf(limits, KEY_LIMITS, `${at}.limits`);
    return {
      name,
      token,
      limits: its && Object.fromEntries(Object.entries(its).filter(([, limit]) => limit !== undefined)),
    };
  });
}

module.exports = { CONSENT, LEAST_TOKEN, readOptions };
