/**
 * `run`. In: the arguments behind the command, and standard input. Out: the answer on standard output, progress on standard
 * error, and an exit code by the error's category.
 *
 * @import { InvokeOptions, LogRecord, MessageInput } from "../../index.js"
 * @import { CliProvider } from "./native-entry.mjs"
 */

import { readFileSync } from "node:fs";
import { createAnswer } from "./cli/answer.mjs";
import { FILE_OPTIONS, readFiles, unreadable } from "./cli/files.mjs";
import { readPrompt } from "./cli/input.mjs";
import { createProvider, PROVIDER_OPTIONS, REFUSED, report } from "./cli/provider.mjs";
import { print, printJson, tell } from "./cli/screen.mjs";
import { startSpinner } from "./cli/spinner.mjs";
import { parseCommandArgs } from "./cli-args.mjs";
import { UsageError } from "./cli-text.mjs";

const OPTIONS = /** @type {const} */ ({
  ...PROVIDER_OPTIONS,
  ...FILE_OPTIONS,
  record: { type: "string" },
  schema: { type: "string" },
  stream: { type: "boolean" },
  "no-stream": { type: "boolean" },
  json: { type: "boolean" },
});

/** @typedef {{ provider: CliProvider, thread: MessageInput[], json: boolean, options: InvokeOptions }} Call */

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 */
export async function run(args, signal) {
  const { values, positionals, tokens } = parseCommandArgs(args, OPTIONS, REFUSED);
  const json = values.json === true;
  const wantsStream = values.stream === true;
  if (wantsStream && values["no-stream"])
    throw new UsageError("--stream and --no-stream contradict each other: say one");
  const outputSchema = readSchema(values.schema);
  // A person reads along. A script gets the answer, whole or not at all, as JSON and a value always are.
  const isRead = process.stdout.isTTY === true && !json && outputSchema === undefined;
  const streams = wantsStream || (isRead && !values["no-stream"]);
  const progress = createProgress(streams);
  const { provider, begin } = createProvider(values, progress.log);
  const files = await readFiles(tokens);
  const text = await readPrompt(positionals, signal);
  const content = files.length === 0 ? text : [...files.map(({ part }) => part), { type: "text", text }];
  const options = { signal, record: values.record, outputSchema };
  try {
    const call = { provider, thread: [...begin, /** @type {const} */ (["user", content])], json, options };
    if (streams) await stream(call);
    else await ask(call);
    return 0;
  } catch (error) {
    if (signal.aborted) throw error;
    progress.end();
    return report(error, { json, labels: files.map(({ label }) => label) });
  } finally {
    progress.end();
  }
}

/**
 * The JSON Schema in the file `--schema`.
 *
 * @param {string | undefined} path
 * @returns {object | undefined}
 */
function readSchema(path) {
  if (path === undefined) return undefined;
  let text;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new UsageError(unreadable(`--schema ${path}`, error));
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`--schema ${path} is no JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {Call} call */
async function ask({ provider, thread, json, options }) {
  const spinner = startSpinner(provider.id);
  try {
    // With updates, the records of the run come while it goes.
    const reply = await provider.invokeWithUpdates(
      thread,
      (update) => {
        if (update.type === "usage") spinner.tokens(update.usage.totalTokens);
      },
      options,
    );
    spinner.stop();
    if (json) return printJson(reply);
    const value = reply.response_metadata.structured_output;
    if (value === undefined) print(`${reply.content}\n`);
    else printJson(value, 2);
  } finally {
    spinner.stop();
  }
}

/** @param {Call} call */
async function stream({ provider, thread, json, options }) {
  const spinner = startSpinner(provider.id);
  const answer = createAnswer(spinner);
  try {
    for await (const event of provider.stream(thread, options)) {
      if (json) {
        spinner.stop();
        printJson(event);
      } else answer.show(event);
    }
  } finally {
    spinner.stop();
    answer.end();
  }
}

/**
 * What the run tells of itself, as lines for people. How it ends is shown by the answer or by the error. On a terminal, the spinner
 * says that it runs.
 *
 * @param {boolean} streams
 */
function createProgress(streams) {
  const isTerminal = process.stderr.isTTY === true;
  /**
   * Lines that stand behind the events of a stream. A record is there as soon as it is made, an event when it is taken: the end of
   * a process may be known before its last events are printed.
   *
   * @type {string[]}
   */
  const afterwards = [];
  return {
    /** @param {LogRecord} record which holds no text of the CLI's; the events of a stream do */
    log({ provider, message, pid, fields }) {
      if (message === "started" && pid !== undefined && !isTerminal) tell(`${provider} started (pid ${pid})`);
      else if (message === "tried again") tell(`${provider} is tried again in ${fields.delayMs} ms`);
      else if (message === "warned" && !streams)
        tell(`${provider} has a warning: ${fields.code} (--stream has its text)`);
      else if (message === "reported its limits" && fields.status !== "allowed")
        tell(`${provider} limit: ${fields.status}`);
      else if (message === "ended" && fields.exitCode === 0 && !isTerminal) {
        const line = `${provider} ended after ${fields.exitMs} ms`;
        if (streams) afterwards.push(line);
        else tell(line);
      }
    },
    end() {
      for (const line of afterwards.splice(0)) tell(line);
    },
  };
}
