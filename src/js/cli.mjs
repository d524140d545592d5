#!/usr/bin/env node
/**
 * `deep-factor-providers`, the command line. In: arguments. Out: what the command prints, and its exit code.
 *
 * An interrupt ends what the command has started and waits for that; a second one does not wait.
 */

import { createRequire } from "node:module";
import { EXIT_CODES, HELP, NAME, USAGE_CODE, UsageError } from "./cli-text.mjs";

/** Loaded when asked for: what needs the addon can say so, and help needs none. */
const COMMANDS = {
  doctor: async () => (await import("./cli-doctor.mjs")).doctor,
  providers: async () => (await import("./cli-doctor.mjs")).providers,
  run: async () => (await import("./cli-run.mjs")).run,
  suite: async () => (await import("./cli-suite.mjs")).suite,
  log: async () => (await import("./cli-log.mjs")).log,
  completions: async () => (await import("./cli/completions.mjs")).completions,
};
/** 128 and the signal's number, as shells have it. */
const SIGNALS = /** @type {const} */ ({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 });
/** As if SIGPIPE had ended this program: whoever read its output has left. */
const NOBODY_READS = 141;

/** @param {string} name @returns {name is keyof typeof COMMANDS} */
const isCommand = (name) => Object.hasOwn(COMMANDS, name);

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 * @returns {Promise<number>} the exit code
 */
async function main([name = "", ...args], signal) {
  if (name === "-h" || name === "--help" || name === "help")
    return say(HELP[isCommand(args[0] ?? "") ? /** @type {keyof typeof COMMANDS} */ (args[0]) : ""]);
  if (name === "-v" || name === "--version") {
    return say(`${createRequire(import.meta.url)("../../package.json").version}\n`);
  }
  if (name === "") throw new UsageError(`there is no command: ${Object.keys(COMMANDS).join(", ")}`);
  if (!isCommand(name)) {
    const what = name.startsWith("-") ? "option" : "command";
    throw new UsageError(`unknown ${what} "${name}": there are ${Object.keys(COMMANDS).join(", ")}`);
  }
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  if (own.includes("--help") || own.includes("-h")) return say(HELP[name]);
  try {
    const command = await COMMANDS[name]();
    return await command(args, signal);
  } catch (error) {
    if (error instanceof UsageError) error.message += ` (${NAME} ${name} --help)`;
    throw error;
  }
}

/** @param {string} text */
function say(text) {
  process.stdout.write(text);
  return 0;
}

const interrupt = new AbortController();
/** @type {number | undefined} */
let interrupted;
/** @param {number} code */
function stop(code) {
  // At once the second time: the exit hook of the addon ends what is left.
  if (interrupted !== undefined) process.exit(interrupted);
  interrupted = code;
  interrupt.abort();
}
for (const [signal, code] of Object.entries(SIGNALS)) process.on(signal, () => stop(code));
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
    if (error.code !== "EPIPE") throw error;
    if (interrupted === undefined) stop(NOBODY_READS);
  });
}

try {
  process.exitCode = await main(process.argv.slice(2), interrupt.signal);
} catch (error) {
  if (error instanceof UsageError) {
    process.stderr.write(`${NAME}: ${error.message}\n`);
    process.exitCode = USAGE_CODE;
  } else if (!interrupt.signal.aborted) {
    process.stderr.write(`${NAME}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = EXIT_CODES.unknown;
  }
}
if (interrupted !== undefined) process.exitCode = interrupted;
