"use strict";

/**
 * In: the path of a run log. Out: its run again, as events and as a message; or the whole file as text, a page or data.
 *
 * @import { AgentEvent, ProviderEvent, ProviderReply, ReplayedRun, RunLogInfo } from "../../index.js"
 *
 * @typedef {typeof import("./native.cjs")} Native
 * @typedef {RunLogInfo & { agent: boolean, reply?: ProviderReply, text?: string,
 *   error?: import("../../index.js").ProviderErrorInit }} Opened
 */

const { publicEvent } = require("./agent.cjs");
const { clip, fault, guard, providerError, unwrap } = require("./errors.cjs");
const { builtin } = require("./builtin.cjs");
const { describe } = require("./options.cjs");

const { resolve } = builtin("node:path");

const FORMATS = ["text", "html", "json"];

/**
 * @param {unknown} path
 * @returns {string} absolute
 */
function readPath(path) {
  if (typeof path === "string" && path !== "") return resolve(path);
  throw fault("INVALID_OPTION", `path must be the path of a run log, got ${describe(path)}`);
}

/**
 * @param {unknown} options
 * @param {readonly string[]} known
 * @returns {Record<string, unknown>}
 */
function readOptions(options, known) {
  if (options === undefined) return {};
  if (typeof options !== "object" || options === null) {
    throw fault("INVALID_OPTION", `options must be an object, got ${describe(options)}`);
  }
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw fault(
        "INVALID_OPTION",
        `unknown option "${key}": there are ${known.map((name) => `"${name}"`).join(", ")}`,
      );
    }
  }
  return /** @type {Record<string, unknown>} */ (options);
}

/**
 * @template TMessage
 * @param {Native} native
 * @param {(reply: ProviderReply, provider: string) => TMessage} toMessage
 * @param {unknown} path
 * @param {unknown} options
 * @returns {ReplayedRun<TMessage>}
 */
function replayRun(native, toMessage, path, options) {
  const { runId } = readOptions(options, ["runId"]);
  if (runId !== undefined && typeof runId !== "string") {
    throw fault("INVALID_OPTION", `runId must be a string, got ${describe(runId)}`);
  }
  const replay = new native.NativeReplay(readPath(path), runId);
  // Each is made when it is asked for: nobody has to wait for a promise that rejects and is not wanted.
  const opened = once(async () => /** @type {Opened} */ (unwrap(await guard(replay.open()))));
  const info = once(async () => {
    const { error: _error, agent: _agent, reply: _reply, text: _text, ...known } = await opened();
    return known;
  });
  const reply = once(async () => {
    const log = await opened();
    if (log.reply !== undefined) return toMessage(log.reply, log.header.provider);
    throw ending(log) ?? incomplete(log);
  });

  /** @returns {AsyncGenerator<ProviderEvent | AgentEvent, void, undefined>} */
  async function* events() {
    const log = await opened();
    for (let from = 0, batch = replay.batch(from); batch !== null; batch = replay.batch(from)) {
      const list = JSON.parse(batch);
      // An agent's run tells of its error by an event, and throws none.
      yield* log.agent ? list.map(publicEvent) : list;
      from += list.length;
    }
    const error = ending(log);
    if (error !== undefined) throw error;
  }

  return {
    get info() {
      return info();
    },
    get reply() {
      return reply();
    },
    [Symbol.asyncIterator]: events,
  };
}

/**
 * @template T
 * @param {() => Promise<T>} make
 * @returns {() => Promise<T>}
 */
function once(make) {
  /** @type {Promise<T> | undefined} */
  let made;
  return () => {
    made ??= make();
    return made;
  };
}

/**
 * What the run itself ended with, if that was no reply.
 *
 * @param {Opened} log
 */
function ending({ agent, outcome, error }) {
  if (agent) return undefined;
  if (error !== undefined) return providerError(error);
  // As an AbortController's own reason: which one the caller gave is not known.
  return outcome === "cancelled" ? new DOMException("This operation was aborted", "AbortError") : undefined;
}

/** @param {Opened} log */
function incomplete({ header, agent, events, text = "" }) {
  const why = agent ? "the run is an agent's: it has no reply of its own" : "the log ends before the run did";
  return providerError({
    code: "RUN_LOG_INCOMPLETE",
    category: "validation",
    message: clip(`${why}; it holds ${events} events of run ${header.runId}`),
    provider: header.provider,
    shouldRetry: false,
    shouldFallback: false,
    partial: { text, events },
  });
}

/**
 * @param {Native} native
 * @param {unknown} path
 * @param {unknown} options
 * @param {boolean} [colour]
 * @returns {Promise<string>}
 */
async function renderRunLog(native, path, options, colour = false) {
  const { format = "text", full = false } = readOptions(options, ["format", "full"]);
  if (typeof format !== "string" || !FORMATS.includes(format)) {
    throw fault("INVALID_OPTION", `format must be "text", "html" or "json", got ${describe(format)}`);
  }
  if (typeof full !== "boolean") throw fault("INVALID_OPTION", `full must be true or false, got ${describe(full)}`);
  const shown = JSON.stringify({ format, full, colour });
  return /** @type {string} */ (unwrap(await guard(native.showRunLog(readPath(path), shown))));
}

module.exports = { renderRunLog, replayRun };
