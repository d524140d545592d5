/**
 * `run`. In: the arguments behind the command, and standard input. Out: the answer on standard output, progress on standard
 * error, and an exit code by the error's category.
 *
 * @import { InvokeOptions, LogRecord, ProviderEvent } from "../../index.js"
 * @import { CliProvider } from "./native-entry.mjs"
 */

import { fstatSync, readFileSync } from "node:fs";
import { parseCommandArgs } from "./cli-args.mjs";
import { factoryOf } from "./cli-doctor.mjs";
import { EXIT_CODES, UsageError } from "./cli-text.mjs";
import { ProviderError } from "./native-entry.mjs";

const OPTIONS = /** @type {const} */ ({
  provider: { type: "string" },
  model: { type: "string" },
  engine: { type: "string" },
  effort: { type: "string" },
  "system-prompt": { type: "string" },
  timeout: { type: "string" },
  record: { type: "string" },
  schema: { type: "string" },
  stream: { type: "boolean" },
  json: { type: "boolean" },
});

/** Whoever starts this program may have left standard input open for ever. */
const PATIENCE_MS = 2_000;

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 */
export async function run(args, signal) {
  const { values, positionals } = parseCommandArgs(args, OPTIONS);
  if (positionals.length > 1) {
    throw new UsageError(`unexpected argument "${positionals[1]}": put the prompt in quotes`);
  }
  const id = values.provider ?? "claude";
  const outputSchema = readSchema(values.schema);
  const provider = create(id, values);
  const prompt = [positionals[0] ?? "", await readInput(positionals.length > 0, signal)].map((part) => part.trim());
  const text = prompt.filter((part) => part !== "").join("\n\n");
  if (text === "") throw new UsageError("there is no prompt: give one as an argument, or over standard input");
  try {
    const options = { signal, record: values.record, outputSchema };
    if (values.stream) await stream(provider, text, values.json === true, options);
    else await ask(provider, text, values.json === true, options);
    return 0;
  } catch (error) {
    if (signal.aborted || !ProviderError.isInstance(error)) throw error;
    const failure = /** @type {import("../../index.js").ProviderError} */ (error);
    if (values.json) print(`${JSON.stringify({ error: failure })}\n`);
    tell(`${failure.code}: ${failure.message}`);
    return EXIT_CODES[failure.category] ?? EXIT_CODES.unknown;
  }
}

/**
 * @param {string} id
 * @param {{ model?: string | undefined, timeout?: string | undefined, "system-prompt"?: string | undefined,
 *   engine?: string | undefined, effort?: string | undefined,
 *   stream?: boolean | undefined }} values
 * @returns {CliProvider}
 */
function create(id, values) {
  const { model, timeout, engine, effort, "system-prompt": systemPrompt } = values;
  const reasoning = effort === undefined ? undefined : { effort };
  if (timeout !== undefined && !/^\d+$/.test(timeout)) {
    throw new UsageError(`--timeout must be a number of milliseconds, not "${timeout}"`);
  }
  const ms = timeout === undefined ? undefined : Number(timeout);
  // Records hold no text of the CLI's; the events of a stream do.
  const logger = (/** @type {LogRecord} */ record) => progress(record, values.stream === true);
  // A prompt of the command line is a user's text, whatever it looks like.
  const options = { model, engine, reasoning, timeout: ms, systemPrompt, logger, threadDocuments: "escape" };
  try {
    return factoryOf(id)(/** @type {{}} */ (options));
  } catch (error) {
    if (ProviderError.isInstance(error)) throw new UsageError(/** @type {Error} */ (error).message);
    throw error;
  }
}

/**
 * All of standard input; nothing from a terminal, unless there is no other prompt, or from a device.
 *
 * @param {boolean} hasPrompt
 * @param {AbortSignal} signal
 */
async function readInput(hasPrompt, signal) {
  if (process.stdin.isTTY) {
    if (hasPrompt) return "";
    tell("type the prompt, then press Ctrl-D");
  } else if (isDevice()) return "";
  const waiting = setTimeout(() => tell("reading standard input until it ends (`</dev/null` for none)"), PATIENCE_MS);
  const stop = () => process.stdin.destroy(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  try {
    /** @type {Buffer[]} */
    const chunks = [];
    for await (const chunk of process.stdin) chunks.push(chunk);
    return Buffer.concat(chunks).toString("utf8");
  } finally {
    clearTimeout(waiting);
    signal.removeEventListener("abort", stop);
  }
}

/** Whether standard input is `/dev/null` or the like, or closed: then nothing comes from there. */
function isDevice() {
  try {
    return fstatSync(0).isCharacterDevice();
  } catch {
    return true;
  }
}

/**
 * The JSON Schema in the file `--schema`.
 *
 * @param {string | undefined} file
 * @returns {object | undefined}
 */
function readSchema(file) {
  if (file === undefined) return undefined;
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(`--schema can't be read: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {CliProvider} provider
 * @param {string} text
 * @param {boolean} json
 * @param {InvokeOptions} options
 */
async function ask(provider, text, json, options) {
  // With updates, the records of the run come while it goes.
  const reply = await provider.invokeWithUpdates([text], () => {}, options);
  if (json) return print(`${JSON.stringify(reply)}\n`);
  const value = reply.response_metadata.structured_output;
  print(`${value === undefined ? reply.content : JSON.stringify(value, null, 2)}\n`);
}

/**
 * @param {CliProvider} provider
 * @param {string} text
 * @param {boolean} json
 * @param {InvokeOptions} options
 */
async function stream(provider, text, json, options) {
  const show = json ? (/** @type {ProviderEvent} */ event) => print(`${JSON.stringify(event)}\n`) : textPrinter();
  try {
    for await (const event of provider.stream([text], options)) show(event);
  } finally {
    for (const line of afterStream.splice(0)) tell(line);
  }
}

/** Prints messages piece by piece where the CLI tells pieces, whole where it does not, each on lines of its own. */
function textPrinter() {
  /** The piece printed last; of the message that goes on. */
  let last = "";
  let pieces = false;
  /** @param {string} piece */
  const put = (piece) => {
    if (piece === "") return;
    print(piece);
    last = piece;
  };
  const endLine = () => put(last === "" || last.endsWith("\n") ? "" : "\n");
  return (/** @type {ProviderEvent} */ event) => {
    if (event.type === "text_delta") {
      if (!pieces) endLine();
      pieces = true;
      put(event.text);
    } else if (event.type === "message") {
      if (!pieces) {
        endLine();
        put(event.content);
      }
      pieces = false;
    } else if (event.type === "warning") {
      tell(`warning: ${event.message}`);
    } else if (event.type === "done") endLine();
  };
}

/**
 * Lines that stand behind the events of a stream. A record is there as soon as it is made, an event when it is taken: the end of a
 * process may be known before its last events are printed.
 *
 * @type {string[]}
 */
const afterStream = [];

/**
 * What the run tells of itself, as lines for people. How it ends is shown by the answer or by the error.
 *
 * @param {LogRecord} record
 * @param {boolean} streams
 */
function progress({ provider, message, pid, fields }, streams) {
  if (message === "started") tell(`${provider} started (pid ${pid})`);
  else if (message === "tried again") tell(`${provider} is tried again in ${fields.delayMs} ms`);
  else if (message === "warned" && !streams) tell(`${provider} has a warning: ${fields.code} (--stream has its text)`);
  else if (message === "reported its limits" && fields.status !== "allowed")
    tell(`${provider} limit: ${fields.status}`);
  else if (message === "ended" && fields.exitCode === 0) {
    const line = `${provider} ended after ${fields.exitMs} ms`;
    if (streams) afterStream.push(line);
    else tell(line);
  }
}

/** @param {string} text */
function print(text) {
  process.stdout.write(text);
}

/** @param {string} line */
function tell(line) {
  process.stderr.write(`${line}\n`);
}
