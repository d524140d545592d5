#!/usr/bin/env node
/**
 * `deep-factor-providers`, the command line. In: arguments. Out: what the command prints, and its exit code.
 *
 * An interrupt ends what the command has started and waits for that; a second one does not wait.
 */

import { createRequire } from "node:module";
import { printHelp, tell } from "./cli/screen.mjs";
import { suggestion } from "./cli/usage.mjs";
import { EXIT_CODES, HELP, NAME, NOBODY_READS_CODE, SIGNAL_CODES, USAGE_CODE, UsageError } from "./cli-text.mjs";

/** Loaded when asked for: what needs the addon can say so, and help needs none. */
const COMMANDS = {
  doctor: async () => (await import("./cli-doctor.mjs")).doctor,
  providers: async () => (await import("./cli-doctor.mjs")).providers,
  run: async () => (await import("./cli-run.mjs")).run,
  chat: async () => (await import("./cli/chat.mjs")).chat,
  serve: async () => (await import("./cli/serve.mjs")).serve,
  suite: async () => (await import("./cli-suite.mjs")).suite,
  status: async () => (await import("./cli/status.mjs")).status,
  log: async () => (await import("./cli-log.mjs")).log,
  completions: async () => (await import("./cli/completions.mjs")).completions,
};
/** @param {string} name @returns {name is keyof typeof COMMANDS} */
const isCommand = (name) => Object.hasOwn(COMMANDS, name);

/** Commands that end by a signal as they are meant to: they say themselves with which code, and hear of a second one. */
const ENDED_BY_SIGNAL = new Set(["serve"]);

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 * @param {AbortSignal} second aborts with the second signal
 * @returns {Promise<number>} the exit code
 */
async function main([name = "", ...args], signal, second) {
  if (name === "-h" || name === "--help" || name === "help") {
    const [about = ""] = args.filter((arg) => arg !== "-h" && arg !== "--help");
    if (about !== "" && !isCommand(about)) throw unknown(about);
    return say(HELP[/** @type {keyof typeof HELP} */ (about)]);
  }
  if (name === "-v" || name === "--version") {
    return say(`${createRequire(import.meta.url)("../../package.json").version}\n`);
  }
  if (name === "") throw new UsageError(`there is no command: ${Object.keys(COMMANDS).join(", ")}`);
  if (!isCommand(name)) throw unknown(name);
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  if (own.includes("--help") || own.includes("-h")) return say(HELP[name]);
  try {
    const command = await COMMANDS[name]();
    return await command(args, signal, second);
  } catch (error) {
    if (error instanceof UsageError) error.message += ` (${NAME} ${name} --help)`;
    throw error;
  }
}

/** @param {string} name of no command */
function unknown(name) {
  const what = name.startsWith("-") ? "option" : "command";
  const known = Object.keys(COMMANDS);
  const meant = suggestion(name, [...known, "help", "--help", "--version"]) || ":";
  return new UsageError(`unknown ${what} "${name}"${meant} there are ${known.join(", ")}`);
}

/** @param {string} text */
function say(text) {
  printHelp(text);
  return 0;
}

/** How an error begins. */
const HEAD = /** @type {const} */ ({ head: `${NAME}:`, colour: "red" });
const interrupt = new AbortController();
const again = new AbortController();
const endsItself = ENDED_BY_SIGNAL.has(process.argv[2] ?? "");
/** @type {number | undefined} */
let interrupted;
/** @param {number} code */
function stop(code) {
  if (interrupted !== undefined) {
    // At once the second time: the exit hook of the addon ends what is left.
    if (!endsItself || again.signal.aborted) process.exit(interrupted);
    again.abort();
    return;
  }
  interrupted = code;
  interrupt.abort();
}
for (const [signal, code] of Object.entries(SIGNAL_CODES)) process.on(signal, () => stop(code));
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
    // The end of its log is not the gateway's: a pipe that nobody reads, a full disk, a terminal that was closed.
    if (endsItself) return;
    if (error.code !== "EPIPE") throw error;
    if (interrupted === undefined) stop(NOBODY_READS_CODE);
  });
}

try {
  process.exitCode = await main(process.argv.slice(2), interrupt.signal, again.signal);
} catch (error) {
  if (error instanceof UsageError) {
    tell(`${NAME}: ${error.message}`, HEAD);
    process.exitCode = USAGE_CODE;
  } else if (!interrupt.signal.aborted) {
    tell(`${NAME}: ${error instanceof Error ? error.message : String(error)}`, HEAD);
    process.exitCode = EXIT_CODES.unknown;
  }
}
if (interrupted !== undefined && !endsItself) process.exitCode = interrupted;
