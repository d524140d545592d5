"use strict";

/**
 * In: a file, and a provider that may be recorded. Out: a provider that answers from the file, or records into it.
 *
 * @import { CliProvider } from "../../../index.js"
 * @import { Parts } from "./scripted.cjs"
 * @import { Answer, ScriptedRequest } from "./types.cjs"
 * @import { Tape } from "./tape.cjs"
 */

const { builtin } = require("../builtin.cjs");
const { fault, providerError } = require("../errors.cjs");
const { readCloseOptions } = require("../life.cjs");
const { describe } = require("../options.cjs");
const { withoutBytes } = require("./assets.cjs");
const { mapTexts, readMatch } = require("./compare.cjs");
const { adviceOf } = require("./codes.cjs");
const { createPlayer } = require("./player.cjs");
const { createRecorder } = require("./recorder.cjs");
const { createAnswering, readOptions, withExtra } = require("./scripted.cjs");
const { lastOf } = require("./script.cjs");
const { formatTape, parseTape } = require("./tape.cjs");

const NAMES = ["provider", "mode", "match"];
const MODES = ["replay", "record", "auto"];
/** What the redactor leaves in the place of a secret. */
const REDACTED = "[redacted";

/**
 * @param {unknown} given
 * @returns {string} absolute
 */
function readFile(given) {
  const { fileURLToPath } = builtin("node:url");
  if (given instanceof URL && given.protocol === "file:") return fileURLToPath(given);
  if (typeof given === "string" && given !== "" && !given.includes("\0")) return builtin("node:path").resolve(given);
  throw fault("INVALID_OPTION", `file must be a path or a file: URL, got ${describe(given)}`);
}

/**
 * @param {unknown} mode
 * @returns {string}
 */
function readMode(mode) {
  if (mode === undefined) return ["", "0", "false"].includes(process.env.RECORD ?? "") ? "replay" : "record";
  if (typeof mode === "string" && MODES.includes(mode)) return mode;
  throw fault("INVALID_OPTION", `mode must be one of ${MODES.join(", ")}, got ${describe(mode)}`);
}

/**
 * @param {unknown} provider
 * @param {string} why it is needed
 * @returns {CliProvider<any>}
 */
function readProvider(provider, why) {
  const made = typeof provider === "function" ? provider() : provider;
  const { stream, bindTools } = /** @type {Record<string, unknown>} */ (Object(made));
  if (typeof stream === "function" && typeof bindTools === "function") return /** @type {CliProvider<any>} */ (made);
  throw fault(
    "INVALID_OPTION",
    `provider must be a provider, or a function that makes one, ${why}; got ${describe(made)}`,
  );
}

/**
 * @param {string} file
 * @returns {string | undefined} `undefined`: there is none
 */
function textOf(file) {
  try {
    return builtin("node:fs").readFileSync(file, "utf8");
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code === "ENOENT") return undefined;
    throw fault("INVALID_OPTION", `the cassette can't be read: ${message}`, error);
  }
}

/**
 * @param {Parts} parts
 * @returns {(file: unknown, options?: unknown) => CliProvider<any>}
 */
function cassetteFactory(parts) {
  return (given, options) => {
    const file = readFile(given);
    const { provider, mode: chosen, match } = readOptions(options, NAMES);
    const mode = readMode(chosen);
    const compared = readMatch(match);
    const text = mode === "record" ? undefined : textOf(file);
    if (mode === "replay" && text === undefined) {
      throw fault("INVALID_OPTION", `there is no cassette ${file}: run it once with RECORD=1, or mode: "record"`);
    }
    /** @type {Tape} */
    const tape = text === undefined ? { provider: "cassette", calls: [] } : parseTape(text, file);
    const before = [...tape.calls];
    /** @type {Map<string, Buffer>} */
    const files = new Map();
    const redact = createRedactor(parts);
    const plain = (/** @type {ScriptedRequest} */ request) => redact(withoutBytes(request, files));
    // Where no secret was taken out, none has to be to compare.
    const isRedacted = text?.includes(REDACTED) === true;
    const seen = isRedacted ? plain : (/** @type {ScriptedRequest} */ request) => withoutBytes(request, new Map());
    const player = createPlayer(before, (request) => compared(seen(request)));
    /** @type {CliProvider<any> | undefined} */
    let recorded;
    /** @type {Answer | undefined} */
    let recorder;
    const record = () => {
      recorded ??= readProvider(provider, "to record");
      recorder ??= createRecorder(recorded, tape.calls, plain);
      return recorder;
    };
    if (mode === "record" || text === undefined) {
      record();
      tape.provider = recorded?.id ?? tape.provider;
    }

    /** @type {Answer} */
    async function* answer(request, signal) {
      const known = mode === "record" ? undefined : player.take(request, signal);
      if (known !== undefined) yield* known;
      else if (mode === "replay") yield player.refuse(request, file);
      else yield* record()(request, signal);
    }

    const adapter = createAnswering(parts, answer, { id: tape.provider, timeout: 0, retry: false });
    const { close: closeAdapter } = adapter;

    /** @param {unknown} closing */
    const finish = async (closing) => {
      const { drain } = readCloseOptions(closing);
      await closeAdapter(drain ? { drain } : undefined);
      await recorded?.close(drain ? { drain } : undefined);
      if (tape.calls.length > before.length || mode === "record") write(file, tape, files, redact);
      const left = mode === "replay" ? player.unplayed() : [];
      if (left.length > 0) throw unplayed(file, left, before.length);
    };
    /** @type {Promise<void> | undefined} once: what is left is told to whoever closes first */
    let closed;
    const close = (/** @type {unknown} */ closing) => {
      if (closed !== undefined) return closed.catch(() => {});
      closed = finish(closing);
      return closed;
    };
    return withExtra(adapter, { close, [Symbol.asyncDispose]: () => close(undefined) });
  };
}

/**
 * Takes secrets out of all texts of a value, by the table of the addon.
 *
 * @param {Parts} parts
 * @returns {<T>(value: T) => T}
 */
function createRedactor({ load }) {
  /** @type {import("../native.cjs").NativeRedactor | undefined} */
  let redactor;
  return (value) => {
    redactor ??= new (load().NativeRedactor)(JSON.stringify({ env: definedEnv(), secrets: [] }));
    const its = redactor;
    return mapTexts(value, (text) => its.redact(text));
  };
}

const definedEnv = () => Object.fromEntries(Object.entries(process.env).filter(([, value]) => value !== undefined));

/**
 * @param {string} file
 * @param {readonly { number: number, request: ScriptedRequest }[]} left
 * @param {number} all
 */
function unplayed(file, left, all) {
  const first = /** @type {(typeof left)[number]} */ (left[0]);
  const which = `call ${first.number}, ${lastOf(first.request)}`;
  const message = `${left.length} of the ${all} calls of ${file} were not made, the first is ${which}: record it anew if that is right`;
  const advice = /** @type {NonNullable<ReturnType<typeof adviceOf>>} */ (adviceOf("INVALID_REQUEST"));
  return providerError({ ...advice, message, provider: "" });
}

/**
 * Whole or not at all: written beside, and put into the old one's place.
 *
 * @param {string} file
 * @param {Tape} tape
 * @param {Map<string, Buffer>} files
 * @param {<T>(value: T) => T} redact
 */
function write(file, tape, files, redact) {
  const fs = builtin("node:fs");
  const { dirname, join } = builtin("node:path");
  const temporary = `${file}.${process.pid}.tmp`;
  const text = formatTape({
    ...tape,
    calls: tape.calls.map((call) => ({
      ...call,
      events: redact(call.events),
      ...(call.end && { end: redact(call.end) }),
    })),
  });
  try {
    fs.mkdirSync(dirname(file), { recursive: true });
    const folder = `${file.replace(/\.[^./\\]*$/, "")}.assets`;
    const used = [...files].filter(([name]) => text.includes(`asset:${name}`));
    if (used.length > 0) fs.mkdirSync(folder, { recursive: true });
    for (const [name, bytes] of used) fs.writeFileSync(join(folder, name), bytes);
    fs.writeFileSync(temporary, text);
    fs.renameSync(temporary, file);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw fault("INVALID_OPTION", `the cassette can't be written: ${/** @type {Error} */ (error).message}`, error);
  }
}

module.exports = { cassetteFactory };
