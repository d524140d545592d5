/**
 * The provider that a command asks. In: options of the command line. Out: a provider, and how its threads begin.
 *
 * @import { LogRecord, MessageInput, ProviderError as Failure } from "../../../index.js"
 * @import { CliProvider } from "../native-entry.mjs"
 */

import { factoryOf, providerIds } from "../cli-doctor.mjs";
import { EXIT_CODES } from "../cli-text.mjs";
import { createOpenAiCompatibleProvider, ProviderError } from "../native-entry.mjs";
import { printJson, tell } from "./screen.mjs";
import { suggestion, UsageError } from "./usage.mjs";

export const PROVIDER_OPTIONS = /** @type {const} */ ({
  provider: { type: "string" },
  model: { type: "string" },
  engine: { type: "string" },
  effort: { type: "string" },
  "system-prompt": { type: "string" },
  timeout: { type: "string" },
  "base-url": { type: "string" },
  "api-key-env": { type: "string" },
});

/** Options that people look for, and that would be seen by everybody on the machine. */
const KEY_REASON =
  "a key on the command line is seen by every user of the machine. Put it into an environment variable, and name that with --api-key-env";
export const REFUSED = { "api-key": KEY_REASON, key: KEY_REASON };

/** @typedef {Partial<Record<keyof typeof PROVIDER_OPTIONS, string | undefined>>} Values */

/** What `--provider` calls an OpenAI-compatible API. */
export const API = "openai";
/** What only an API has. */
const OF_APIS = /** @type {const} */ (["base-url", "api-key-env"]);

/**
 * @param {Values} values
 * @param {(record: LogRecord) => void} logger
 * @param {Record<string, unknown>[]} [wishes] further options, the best first: the first that the provider takes are used; default: none
 * @returns {{ provider: CliProvider, begin: MessageInput[] }} `begin`: the messages before the user's first
 */
export function createProvider(values, logger, wishes = [{}]) {
  const { model, "system-prompt": systemPrompt } = values;
  const id = values.provider ?? (values["base-url"] === undefined ? "claude" : API);
  const reasoning = values.effort === undefined ? undefined : { effort: values.effort };
  const common = { model, reasoning, timeout: milliseconds(values.timeout), logger };
  if (id === API) {
    const begin = systemPrompt === undefined ? [] : [/** @type {const} */ (["system", systemPrompt])];
    return { provider: made(() => createApi(values, common)), begin };
  }
  const ids = [...providerIds(), API];
  if (!ids.includes(id)) {
    throw new UsageError(`unknown provider "${id}"${suggestion(id, ids) || ":"} there are ${ids.join(", ")}`);
  }
  const foreign = OF_APIS.find((name) => values[name] !== undefined);
  if (foreign !== undefined) {
    throw new UsageError(`${id} takes no --${foreign}, which is for an API: leave it out, or say --provider ${API}`);
  }
  const options = {
    ...common,
    engine: values.engine,
    systemPrompt,
    // A prompt of the command line is a user's text, whatever it looks like; and where no tools are, no text is a call.
    threadDocuments: "escape",
    textToolCalls: "off",
  };
  const provider = made(() => firstOf(wishes, (wish) => factoryOf(id)(/** @type {{}} */ ({ ...options, ...wish }))));
  return { provider, begin: [] };
}

/**
 * @param {Values} values
 * @param {{ model?: string | undefined }} common
 */
function createApi(values, { model, ...common }) {
  const { engine, "base-url": baseURL, "api-key-env": apiKeyEnv } = values;
  if (engine !== undefined) {
    throw new UsageError(`${API} takes no --engine, which is for CLIs (${providerIds().join(", ")}): leave it out`);
  }
  if (model === undefined) throw new UsageError(`${API} has no model of its own: name one with --model`);
  if (apiKeyEnv !== undefined && !/^[A-Za-z_][A-Za-z0-9_]*$/.test(apiKeyEnv)) {
    // Not repeated here: it may be the key itself.
    throw new UsageError("--api-key-env is no name of an environment variable: name the variable that holds the key");
  }
  return /** @type {CliProvider} */ (createOpenAiCompatibleProvider({ ...common, model, baseURL, apiKeyEnv }));
}

/**
 * The provider of a gateway. Its clients make further attempts, so it makes none.
 *
 * @param {string} id
 * @param {Pick<Values, "engine" | "timeout" | "base-url" | "api-key-env" | "model">} values
 * @param {{ keepAlive: number, maxProcesses: number | undefined, sessions: string | undefined, answers: number | undefined, inputEncoding: string | undefined, telemetry: import("../../../index.js").Telemetry | undefined }} kept
 *   how long a process is kept, ms, how many may rest, the folder that keeps replies, how many answers may be made at a time, how a CLI is told a thread in words, and who observes
 * @returns {CliProvider}
 */
export function createServed(id, values, { keepAlive, maxProcesses, sessions, answers, inputEncoding, telemetry }) {
  const common = { timeout: milliseconds(values.timeout), retry: false, maxConcurrency: answers, telemetry };
  if (id === API) {
    // The model of a name without one: an API has no default of its own.
    return made(() => createApi({ ...values, engine: undefined }, { ...common, model: values.model }));
  }
  const ids = [...providerIds(), API];
  if (!ids.includes(id)) {
    throw new UsageError(`unknown provider "${id}"${suggestion(id, ids) || ":"} there are ${ids.join(", ")}`);
  }
  const options = { ...common, engine: values.engine, inputEncoding };
  // One process of a CLI may serve all conversations, and a CLI without kept processes has none of these options.
  const rests = maxProcesses === undefined ? {} : { maxProcesses };
  const kept = sessions === undefined ? [] : [{ keepAlive, sessions: { store: sessions } }];
  const wishes = [...kept.map((wish) => ({ ...wish, ...rests })), ...kept, { keepAlive, ...rests }, { keepAlive }, {}];
  return made(() => firstOf(wishes, (wish) => factoryOf(id)(/** @type {{}} */ ({ ...options, ...wish }))));
}

/**
 * @template T
 * @template R
 * @param {T[]} all
 * @param {(one: T) => R} make
 */
function firstOf([one, ...others], make) {
  try {
    return make(/** @type {T} */ (one));
  } catch (error) {
    if (others.length === 0 || !ProviderError.isInstance(error)) throw error;
    return firstOf(others, make);
  }
}

/**
 * Options that a provider refuses are a wrong command line.
 *
 * @param {() => CliProvider} make
 */
function made(make) {
  try {
    return make();
  } catch (error) {
    if (ProviderError.isInstance(error)) throw new UsageError(/** @type {Error} */ (error).message);
    throw error;
  }
}

/** @param {string | undefined} timeout */
export function milliseconds(timeout) {
  if (timeout === undefined) return undefined;
  if (!/^\d+$/.test(timeout)) throw new UsageError(`--timeout must be a number of milliseconds, not "${timeout}"`);
  return Number(timeout);
}

/**
 * Says what a call failed with.
 *
 * @param {unknown} error anything that is no {@link Failure} is thrown again
 * @param {{ json?: boolean, labels?: string[] }} [options] `labels`: what the parts of the prompt are called on the command line
 * @returns {number} the exit code
 */
export function report(error, { json = false, labels = [] } = {}) {
  if (!ProviderError.isInstance(error)) throw error;
  const failure = /** @type {Failure} */ (error);
  if (json) printJson({ error: failure });
  const message = failure.message.replaceAll(/messages\[\d+\]\.content\[(\d+)\]/g, (at, index) => labels[index] ?? at);
  tell(`${failure.code}: ${message}`, { head: `${failure.code}:`, colour: "red" });
  return EXIT_CODES[failure.category] ?? EXIT_CODES.unknown;
}

/** @param {string} message */
export function warn(message) {
  tell(`warning: ${message}`, { head: "warning:", colour: "yellow" });
}
