"use strict";

/**
 * In: what answers requests. Out: the engine of a provider, as `NativeProvider` of the native side is one.
 *
 * A plain call is answered here, without the addon. What the native side decides for every provider (an agent's run, structured output,
 * further attempts, budgets, a run log) it decides for this one, too: it asks the script as it would ask a server
 * (`src/exchange/script.rs`).
 *
 * @import { NativeProvider, NativeScript } from "../native.cjs"
 * @import { Known } from "../known.cjs"
 * @import { Answer, ScriptedRequest, ScriptEvent } from "./types.cjs"
 *
 * @typedef {typeof import("../native.cjs")} Native
 */

const { unwrap } = require("../errors.cjs");
const { createKnown, encodeThread } = require("../known.cjs");
const { adviceOf } = require("./codes.cjs");
const { startRun } = require("./run.cjs");

/** Options of a provider that a plain call needs no addon for. */
const PLAIN = new Set(["id", "model", "timeout"]);

/** @param {[string, unknown]} option */
const isPlainOption = ([name, value]) => PLAIN.has(name) || (name === "retry" && value === false);

const CLOSED = { code: "CLOSED", message: "the provider was closed" };
const EMPTY = { code: "EMPTY_PROMPT", message: "there is nothing to send: no message has any text" };
const OK = JSON.stringify({ ok: null });

/**
 * @param {Record<string, unknown> & { id: string }} options for the native side
 * @param {Answer} answer
 * @param {() => Native} load the addon
 */
function createEngine(options, answer, load) {
  const { id, timeout: limit = 120_000 } = /** @type {{ id: string, timeout?: number }} */ (options);
  const isPlain = Object.entries(options).every(isPlainOption);
  /** @type {Set<ReturnType<typeof startRun>>} */
  const runs = new Set();
  let refuses = false;
  /** @type {{ provider: NativeProvider, end: () => void } | undefined} */
  let native;

  const nativeSide = () => {
    native ??= createNativeSide(load(), options, answer);
    return native;
  };

  const shelved = createKnown(shelves(load));

  const refused = (/** @type {{ code: string, message: string }} */ why) =>
    JSON.stringify({ err: { ...adviceOf(why.code), ...why, provider: id } });
  const closed = () => refused(CLOSED);

  /** A provider's engine. */
  const engine = {
    id,

    check: () => (isPlain ? OK : nativeSide().provider.check()),

    model: () => nativeSide().provider.model(),

    models: async () => (refuses ? closed() : nativeSide().provider.models()),

    prewarm: async () => (refuses ? closed() : OK),

    /** @param {string} level JSON */
    health(level) {
      const answering = level === '"request"' ? { answering: true } : {};
      const report = { provider: id, installed: true, authenticated: true, ...answering, problems: [], timingsMs: {} };
      return { result: async () => (refuses ? closed() : JSON.stringify({ ok: report })), cancel() {} };
    },

    refuseFurther() {
      refuses = true;
      native?.provider.refuseFurther();
    },

    async drain() {
      engine.refuseFurther();
      await Promise.all([...[...runs].map((run) => run.result()), native?.provider.drain()]);
    },

    async close() {
      engine.refuseFurther();
      for (const run of runs) run.cancel();
      await native?.provider.close();
      native?.end();
    },
  };

  /**
   * Begins a run. Only that of a call that is not plain needs the thread on the native side.
   *
   * @type {Known["handOver"]}
   */
  function handOver(_engine, thread, tools, json, env) {
    const { events, partial, timeout = limit, ...call } = JSON.parse(json);
    if (!isPlain || needsNative(call)) return shelved.handOver(nativeSide().provider, thread, tools, json, env);
    const request = requestOf(JSON.parse(encodeThread(thread)), JSON.parse(tools), {});
    const why = refuses ? CLOSED : request.messages.some(saysSomething) ? undefined : EMPTY;
    const run = why ? refusedRun(refused(why)) : startRun(id, request, answer, { events, partial, timeout });
    runs.add(run);
    run.result().then(() => runs.delete(run));
    return run;
  }

  return {
    engine: /** @type {NativeProvider} */ (/** @type {unknown} */ (engine)),
    known: { ...shelved, handOver },
  };
}

/** @param {ScriptedRequest["messages"][number]} message */
const saysSomething = ({ type, content, tool_calls: calls }) =>
  type === "tool" || calls !== undefined || (typeof content === "string" ? content.trim() !== "" : content.length > 0);

/**
 * The addon's shelves, for threads that go to it. On its own: what was sent lately is kept for minutes, and must not hold a script.
 *
 * @param {() => Native} load
 */
function shelves(load) {
  return {
    get NativeShelf() {
      return load().NativeShelf;
    },
  };
}

/** @param {Record<string, any>} call */
function needsNative({ record, outputSchema, quota, choices, log }) {
  return (
    record !== undefined || outputSchema !== undefined || quota?.wait === true || choices !== undefined || log === true
  );
}

/**
 * A run of a provider that was closed.
 *
 * @param {string} result
 * @returns {ReturnType<typeof startRun>}
 */
function refusedRun(result) {
  const nothing = async () => null;
  const run = { next: nothing, result: async () => result, takeText: () => "", lost: async () => {}, unwatch() {} };
  return { ...run, nextLog: nothing, takeLog: () => null, cancel() {} };
}

/**
 * @param {any[]} messages of the native form
 * @param {any[]} tools
 * @param {Record<string, unknown>} options
 * @returns {ScriptedRequest}
 */
function requestOf(messages, tools, options) {
  return { messages: messages.map(messageOf), tools, options };
}

/**
 * A message in the one form that a script sees: text wherever there is nothing else, and no field that says nothing.
 *
 * @param {any} message
 */
function messageOf({ type, content, tool_calls: calls, tool_call_id: id, is_error: failed }) {
  const isText = (/** @type {any} */ block) => typeof block === "string" || block?.type === "text";
  const joined = (/** @type {any} */ block) => (typeof block === "string" ? block : block.text);
  const whole = Array.isArray(content) && content.every(isText) ? content.map(joined).join("") : content;
  const its = { type, content: whole, ...(calls?.length > 0 && { tool_calls: calls.map(callOf) }) };
  return { ...its, ...(type === "tool" && { tool_call_id: id ?? "" }), ...(failed && { is_error: true }) };
}

/** @param {any} call */
const callOf = ({ name, args, id }) => ({ name, args, id });

/**
 * The native provider that asks `answer`.
 *
 * @param {Native} native
 * @param {Record<string, unknown>} options
 * @param {Answer} answer
 */
function createNativeSide(native, options, answer) {
  // Whoever loads the addon says so once.
  require("../core.cjs").ownerOf(native);
  /** @type {Map<number, AbortController>} requests under way */
  const open = new Map();
  /** @type {NativeScript} */
  const script = new native.NativeScript(JSON.stringify(options), (json) => {
    const { number, request, left } = JSON.parse(json);
    if (left) return open.get(number)?.abort();
    const controller = new AbortController();
    open.set(number, controller);
    const { messages, tools, options } = request;
    tell(number, answer(requestOf(messages, tools, options), controller.signal)).finally(() => open.delete(number));
  });

  /**
   * @param {number} number
   * @param {AsyncGenerator<ScriptEvent, void, undefined>} events
   */
  async function tell(number, events) {
    let isOver = false;
    /** @param {ScriptEvent} event */
    const one = ({ type, ...fields }) => {
      isOver ||= type === "over" || type === "failed";
      script.tell(number, JSON.stringify([{ [type]: fields }]));
    };
    try {
      for await (const event of events) one(event.type === "failed" ? { ...event, cause: undefined } : event);
      if (!isOver) one({ type: "over" });
    } catch (error) {
      one({ type: "failed", ...adviceOf("INTERNAL"), message: String(error) });
    }
  }

  const provider = script.provider();
  unwrap(provider.check());
  return { provider, end: () => script.end() };
}

module.exports = { createEngine, requestOf };
