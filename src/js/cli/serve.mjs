/**
 * `serve`. In: the arguments behind the command. Out: a gateway that listens until a signal ends it; where it is and where its token is, on
 * standard output; for whom it is, what to set in clients and each request, on standard error.
 *
 * @import { LogRecord } from "../../../index.js"
 * @import { Gateway, GatewayOptions } from "../gateway/index.mjs"
 */

import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseCommandArgs } from "../cli-args.mjs";
import { NAME, UsageError } from "../cli-text.mjs";
import creation from "../gateway/create.cjs";
import guard from "../gateway/guard.cjs";
import { createGateway } from "../gateway/index.mjs";
import models from "../gateway/models.cjs";
import state from "../gateway/state.cjs";
import { ProviderError } from "../native-entry.mjs";
import { unreadable } from "./files.mjs";
import { linesOf } from "./gateway.mjs";
import { observed } from "./otel.mjs";
import { API, createServed, REFUSED, warn } from "./provider.mjs";
import { print, printJson, tell, visible } from "./screen.mjs";

const OPTIONS = /** @type {const} */ ({
  provider: { type: "string", multiple: true },
  port: { type: "string" },
  host: { type: "string" },
  "host-name": { type: "string", multiple: true },
  socket: { type: "string" },
  "i-am-the-only-user": { type: "boolean" },
  "token-file": { type: "string" },
  "token-env": { type: "string" },
  "no-token": { type: "boolean" },
  "print-token": { type: "boolean" },
  keys: { type: "string" },
  alias: { type: "string", multiple: true },
  model: { type: "string", multiple: true },
  engine: { type: "string" },
  timeout: { type: "string" },
  "keep-alive": { type: "string" },
  processes: { type: "string" },
  sessions: { type: "string" },
  "input-encoding": { type: "string" },
  "base-url": { type: "string" },
  "api-key-env": { type: "string" },
  answers: { type: "string" },
  concurrency: { type: "string" },
  "requests-per-minute": { type: "string" },
  "tokens-per-day": { type: "string" },
  "usd-per-day": { type: "string" },
  "max-body": { type: "string" },
  lenient: { type: "boolean" },
  record: { type: "string" },
  drain: { type: "string" },
  json: { type: "boolean" },
  log: { type: "string" },
});

const TOKEN_VARIABLE = "DEEP_FACTOR_GATEWAY_TOKEN";
const KEEP_ALIVE = 300_000;
/** What the vendors say, as a file of this package. */
const TERMS = fileURLToPath(new URL("../../../docs/reference/terms.md", import.meta.url));

/** How a thread is told in words (`inputEncoding`). */
const ENCODINGS = ["xml", "text"];

/** The CLIs that have the option `sessions`. */
const KEEPS_REPLIES = ["claude", "codex"];

/** What an API would be asked for by a name without a model; such a name is refused. */
const UNNAMED = "unnamed";

/** What it ends with when answers were cut short. */
const CUT_CODE = 143;

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 * @param {AbortSignal} second
 * @returns {Promise<number>}
 */
export async function serve(args, signal, second) {
  const { values, positionals } = parseCommandArgs(args, OPTIONS, {
    ...REFUSED,
    token:
      "it would be seen by every user of the machine. Put it into an environment variable, and name that with --token-env",
  });
  if (positionals.length > 0) throw new UsageError(`unexpected argument "${positionals[0]}"`);
  const names = values.provider ?? ["claude"];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new UsageError(`--provider ${twice} is there twice: say it once`);
  for (const option of /** @type {const} */ (["base-url", "api-key-env"])) {
    if (values[option] !== undefined && !names.includes(API)) {
      throw new UsageError(`--${option} is for an API: leave it out, or say --provider ${API}`);
    }
  }
  if (values.host !== undefined && !guard.isLoopback(values.host) && !values["i-am-the-only-user"]) {
    throw new UsageError(
      `--host ${values.host} can be reached by others: leave it out, or say --i-am-the-only-user if you are`,
    );
  }
  if (values["print-token"] && values["no-token"]) {
    throw new UsageError("--no-token and --print-token contradict each other: say one");
  }
  // Before any CLI is started: what is in the environment goes on to it.
  const token = tokenOf(values);
  const keepAlive = count(values["keep-alive"], "keep-alive") ?? KEEP_ALIVE;
  const inputEncoding = values["input-encoding"];
  if (inputEncoding !== undefined && !ENCODINGS.includes(inputEncoding)) {
    throw new UsageError(`--input-encoding must be ${ENCODINGS.join(" or ")}, not "${inputEncoding}"`);
  }
  if (values.sessions !== undefined && values.sessions.trim() === "") {
    throw new UsageError("--sessions must be the path of a folder");
  }
  if (values.sessions !== undefined && !names.some((name) => KEEPS_REPLIES.includes(name))) {
    throw new UsageError(
      `--sessions is for ${KEEPS_REPLIES.join(" and ")}: leave it out, or name one of them with --provider`,
    );
  }
  const { telemetry, end } = observed(process.env);
  const kept = {
    keepAlive,
    maxProcesses: count(values.processes, "processes"),
    sessions: values.sessions,
    inputEncoding,
    telemetry,
  };
  const named = values.model ?? [];
  // Clients may name the model in each request: it is only a name without one that needs it.
  const model = modelOfApi(named);
  const own = { ...values, model: model ?? UNNAMED };
  const answers = count(values.answers, "answers");
  const providers = Object.fromEntries(names.map((name) => [name, createServed(name, own, { ...kept, answers })]));
  const api = providers[API];
  if (api !== undefined && model === undefined) models.WITHOUT_MODEL.add(api);
  /** @type {GatewayOptions} */
  const options = {
    providers,
    host: values.host,
    hostNames: values["host-name"],
    port: count(values.port, "port"),
    socketPath: values.socket,
    consent: values["i-am-the-only-user"] ? creation.CONSENT : undefined,
    token,
    tokenFile: values["token-file"],
    keys: values.keys === undefined ? undefined : keysIn(values.keys),
    aliases: aliasesOf(values.alias ?? []),
    models: named,
    answers,
    lenient: values.lenient,
    limits: {
      concurrency: count(values.concurrency, "concurrency"),
      requestsPerMinute: count(values["requests-per-minute"], "requests-per-minute"),
      tokensPerDay: count(values["tokens-per-day"], "tokens-per-day"),
      usdPerDay: amount(values["usd-per-day"], "usd-per-day"),
      bodyBytes: count(values["max-body"], "max-body"),
    },
    drainMs: count(values.drain, "drain"),
    record: values.record,
    logger: logOf(values.log),
    telemetry,
  };
  const gateway = await opened(options);
  try {
    announce(gateway, names, values);
    // Beside the first requests, which need not wait for it.
    void state
      .createState(providers)
      .look()
      .then(tellState, () => {});
    await aborted(signal);
    tell("ending: waits for the answers under way; a second signal does not");
    second.addEventListener("abort", () => void gateway.close());
    await gateway.close({ drain: true });
    return creation.wasCut(gateway) ? CUT_CODE : 0;
  } finally {
    await gateway.close();
    await Promise.all(Object.values(providers).map((provider) => provider.close()));
    await end();
  }
}

/**
 * @param {{ "token-env"?: string | undefined, "no-token"?: boolean | undefined, socket?: string | undefined }} values
 * @returns {string | false | undefined}
 */
function tokenOf({ "token-env": variable, "no-token": none, socket }) {
  if (none) {
    if (variable !== undefined) throw new UsageError("--no-token and --token-env contradict each other: say one");
    if (socket === undefined)
      throw new UsageError("--no-token is only with --socket, whose mode is the key: leave it out");
    return false;
  }
  const name = variable ?? TOKEN_VARIABLE;
  const token = process.env[name];
  // A CLI gets the environment: it is not to find the key of what it serves.
  delete process.env[name];
  if (token === undefined) {
    if (variable === undefined) return undefined;
    throw new UsageError("--token-env names a variable that is not set");
  }
  if (token.length < creation.LEAST_TOKEN) {
    throw new UsageError(
      `the token in ${variable === undefined ? name : "the variable of --token-env"} must have ${creation.LEAST_TOKEN} characters or more`,
    );
  }
  return token;
}

/** The model by which an API answers a name without one: the first `--model` of it. @param {readonly string[]} models */
function modelOfApi(models) {
  const own = models.find((name) => name.startsWith(`${API}/`));
  return own === undefined ? models.find((name) => !name.includes("/")) : own.slice(API.length + 1);
}

/** @param {string} path */
function keysIn(path) {
  let text;
  try {
    if (process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
      throw new UsageError(`--keys ${path} can be read by others: chmod 600 ${path}`);
    }
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(unreadable(`--keys ${path}`, error));
  }
  try {
    const { keys } = JSON.parse(text);
    if (Array.isArray(keys)) return keys;
  } catch {
    // Its text is not repeated: it holds secrets.
  }
  throw new UsageError(`--keys ${path} must hold JSON: { "keys": [{ "name", "token", "limits" }] }`);
}

/** @param {readonly string[]} given */
function aliasesOf(given) {
  return Object.fromEntries(
    given.map((alias) => {
      const [, name, targets] = /^([^=]+)=(.+)$/.exec(alias) ?? [];
      if (name === undefined || targets === undefined) {
        throw new UsageError(`--alias must be NAME=TARGET[,TARGET…], not "${alias}"`);
      }
      return [name, targets.split(",")];
    }),
  );
}

/** @param {string | undefined} value @param {string} name */
function count(value, name) {
  if (value === undefined) return undefined;
  if (!/^\d{1,15}$/.test(value)) throw new UsageError(`--${name} must be a whole number, not "${value}"`);
  return Number(value);
}

/** @param {string | undefined} value @param {string} name */
function amount(value, name) {
  if (value === undefined) return undefined;
  if (!/^\d+(\.\d+)?$/.test(value)) throw new UsageError(`--${name} must be a number, not "${value}"`);
  return Number(value);
}

/** How the command line calls an option of the gateway. */
const FLAGS = new Map([
  ["hostNames", "--host-name"],
  ["answers", "--answers"],
  ["socketPath", "--socket"],
  ["tokenFile", "--token-file"],
  ["token", "the token"],
  ["aliases", "--alias"],
  ["drainMs", "--drain"],
  ["limits.bodyBytes", "--max-body"],
  ["limits.requestsPerMinute", "--requests-per-minute"],
  ["limits.tokensPerDay", "--tokens-per-day"],
  ["limits.usdPerDay", "--usd-per-day"],
  ["limits.concurrency", "--concurrency"],
]);

/** @param {GatewayOptions} options */
async function opened(options) {
  try {
    return await createGateway(options);
  } catch (error) {
    await Promise.all(Object.values(options.providers).map((provider) => provider.close()));
    if (!ProviderError.isInstance(error)) throw error;
    const { message } = /** @type {Error} */ (error);
    throw new UsageError(message.replace(/the options? "([^"]+)"/, (_, name) => FLAGS.get(name) ?? `--${name}`));
  }
}

/**
 * @param {Gateway} gateway
 * @param {readonly string[]} providers
 * @param {{ json?: boolean | undefined, "print-token"?: boolean | undefined, "i-am-the-only-user"?: boolean | undefined, model?: string[] | undefined }} values
 */
function announce({ url, socketPath, token, tokenFile }, providers, values) {
  const shown = values["print-token"] ? token : undefined;
  tell(`for you alone: your own logins, on your own machine. What the vendors say of that: ${TERMS}`);
  if (values["i-am-the-only-user"])
    warn("others may reach this address: whoever has the token uses your logins, and you answer for it");
  if (values.json) {
    printJson({
      event: "listening",
      url: socketPath ? null : url,
      socket: socketPath ?? null,
      tokenFile: tokenFile ?? null,
      ...(shown === undefined ? {} : { token: shown }),
      pid: process.pid,
      providers,
    });
    return;
  }
  print(
    `${url}\n${shown ?? tokenFile ?? (socketPath ? "no token: the socket is yours alone" : "the token is the one that was given")}\n`,
  );
  if (socketPath !== undefined) return;
  const listed = providers.flatMap((name) =>
    name === API && !values.model ? [`${name}/<model>`] : [name, `${name}/<model>`],
  );
  const key = tokenFile === undefined ? "…" : `"$(cat ${tokenFile})"`;
  tell(`OpenAI's clients:     OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY=${key}`, { whole: true });
  tell(`Anthropic's clients:  ANTHROPIC_BASE_URL=${url} ANTHROPIC_API_KEY=${key}`, { whole: true });
  tell(`models:               ${listed.join(", ")} (${NAME} serve --help has more)`);
}

/** @param {Awaited<ReturnType<ReturnType<typeof state.createState>["look"]>>} providers */
function tellState(providers) {
  for (const line of providers.flatMap(linesOf)) tell(visible(line));
}

/** @param {string | undefined} form */
function logOf(form = "text") {
  if (form === "text") return show;
  if (form === "json") return (/** @type {LogRecord} */ record) => tell(JSON.stringify(record), { whole: true });
  throw new UsageError(`--log must be text or json, not "${form}"`);
}

/** What goes on, a line for each request. @param {LogRecord} record */
function show({ time, message, fields }) {
  const { requestId, key, path, status, code, model, session, ms, reason, queuedMs, ignored, warnings } = fields;
  const { inputTokens, outputTokens } = fields;
  const words = [
    ...[new Date(time).toISOString(), requestId, key],
    ...[path, status === 0 ? message : status, code, model, session, `${ms} ms`],
    queuedMs === undefined ? "" : `waited ${queuedMs} ms`,
    inputTokens === undefined ? "" : `${inputTokens} in, ${outputTokens} out`,
    ignored === undefined ? "" : `left out: ${ignored}`,
    warnings === undefined ? "" : `warnings: ${warnings}`,
    reason,
  ];
  tell(words.filter((word) => word !== undefined && word !== "").join("  "));
}

/** @param {AbortSignal} signal */
function aborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
