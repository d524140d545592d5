"use strict";

/**
 * A run without the addon: what `NativeRun` of the native side is to a provider, over a script's answer.
 *
 * @import { Answer, ScriptedRequest, ScriptEvent } from "./types.cjs"
 *
 * @typedef {{ events: boolean, partial: boolean, timeout: number }} Wants `timeout`: ms, 0 for no limit
 * @typedef {ReturnType<typeof startRun>} ScriptedRun
 */

const { builtin } = require("../builtin.cjs");
const { after } = require("./clock.cjs");
const { adviceOf } = require("./codes.cjs");
const { createFold } = require("./fold.cjs");

/** Ends the answer from outside. */
const LEFT = Symbol("left");

/**
 * @param {string} provider its id
 * @param {ScriptedRequest} request
 * @param {Answer} answer
 * @param {Wants} wants
 */
function startRun(provider, request, answer, wants) {
  const runId = builtin("node:crypto").randomUUID();
  const controller = new AbortController();
  /** @type {unknown[]} */
  let waiting = [];
  let text = "";
  /** @type {string | undefined} JSON of the result */
  let result;
  let wake = () => {};
  /** @type {Promise<void>} */
  let news = renewed();
  let end = (/** @type {string} */ _) => {};
  /** @type {Promise<string>} */
  const ended = new Promise((resolve) => {
    end = resolve;
  });
  let unwatch = () => {};
  /** @type {Promise<void>} */
  const unwatched = new Promise((resolve) => {
    unwatch = resolve;
  });
  let leave = () => {};
  /** @type {Promise<typeof LEFT>} */
  const left = new Promise((resolve) => {
    leave = () => resolve(LEFT);
  });

  /** @returns {Promise<void>} resolves when something has come */
  function renewed() {
    return new Promise((resolve) => {
      wake = resolve;
    });
  }

  /** @param {unknown} event */
  const send = (event) => {
    if (!wants.events || result !== undefined) return;
    waiting.push(event);
    wake();
  };
  const fold = createFold(request, send, wants);

  /** @param {unknown} value */
  const settle = (value) => {
    if (result !== undefined) return;
    stopClock();
    result = JSON.stringify(value);
    end(result);
    wake();
    leave();
    controller.abort();
  };

  /** @param {Record<string, any>} error */
  const fail = ({ type: _, cause: _cause, ...error }) =>
    settle({
      err: { provider, attempts: 1, reasons: [], runId, ...error, partial: { ...error.partial, ...fold.partial() } },
    });

  const stopClock =
    wants.timeout === 0
      ? () => {}
      : after(wants.timeout, () =>
          fail({
            ...adviceOf("TIMEOUT"),
            message: `no whole answer within ${wants.timeout} ms, the limit of the option \`timeout\``,
          }),
        );

  /** @param {ScriptEvent} over */
  const finish = (over) => {
    const judged = fold.finish(over);
    if ("error" in judged) return fail(judged.error);
    const reply = { ...judged.reply, run: { id: runId } };
    text = reply.content;
    send({ type: "done", reply });
    settle({ ok: { ...reply, content: "", messages: [] } });
  };

  const work = async () => {
    send({ type: "start", runId, provider, attempt: 1, queuedMs: 0 });
    const events = answer(request, controller.signal);
    for (;;) {
      // A script that does not look at its signal is left where it is.
      const next = await Promise.race([events.next(), left]);
      if (next === LEFT || result !== undefined) return;
      const event = next.done ? { type: "over" } : next.value;
      if (event.type === "failed") return fail(event);
      if (event.type === "over") return finish(event);
      fold.push(event);
    }
  };
  work().catch((error) => fail({ ...adviceOf("INTERNAL"), message: String(error?.message ?? error) }));

  return {
    async next() {
      while (waiting.length === 0 && result === undefined) await news;
      news = renewed();
      if (waiting.length === 0) return null;
      const batch = JSON.stringify(waiting);
      waiting = [];
      return batch;
    },
    result: () => ended,
    takeText() {
      const taken = text;
      text = "";
      return taken;
    },
    lost: async () => {
      // A run that has succeeded waits for its consumer.
      const failed = ended.then((json) => ("ok" in JSON.parse(json) ? unwatched : undefined));
      await Promise.race([failed, unwatched]);
    },
    unwatch: () => unwatch(),
    nextLog: () => Promise.resolve(null),
    takeLog: () => null,
    cancel: () => settle({ cancelled: true }),
  };
}

module.exports = { startRun };
