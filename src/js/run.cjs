"use strict";

/**
 * In: what a caller asks a provider. Out: the run, with its reply, or the events and then the reply.
 *
 * Cancelling is explicit and awaited: whichever way a caller leaves (abort, `break`, an exception), nobody learns of it before
 * the native run has ended.
 *
 * @import { ProviderEvent, ProviderReply } from "../../index.js"
 * @import { Log } from "./logger.cjs"
 * @import { Thread } from "./known.cjs"
 * @import { Shared } from "./provider.cjs"
 *
 * @typedef {object} Asked
 * @property {unknown} messages
 * @property {unknown} options of the call
 * @property {string} tools as they were when the caller called, encoded
 */

const { guard, parseAnswer, providerError, unwrap } = require("./errors.cjs");
const { encodeThread } = require("./known.cjs");
const { unlessOver } = require("./life.cjs");
const { readCallOptions, workerEnv } = require("./options.cjs");
const { readOutputSchema } = require("./output-schema.cjs");
const { onAbort } = require("./signals.cjs");

/**
 * In a call's options, for the faces: a lone user message that is a whole thread document is a text like any other. There a
 * user's text is a user's text, whatever `threadDocuments` says of the provider.
 */
const AS_TEXT = Symbol("as text");

/**
 * Reads what the caller has asked, all of it, and begins the run.
 *
 * @param {Shared<any>} shared
 * @param {Asked} asked
 * @param {{ events: boolean, partial: boolean }} wants
 */
function start(shared, { messages, options, tools }, wants) {
  const { engine, known, copies, toJsonSchema } = shared;
  const { signal, ...ofCall } = readCallOptions(options);
  const outputSchema = readOutputSchema(options, toJsonSchema);
  const thread = known.pack(messages);
  copies.look(messages, "messages");
  // Not throwIfAborted(): signals are recognised by shape, and older polyfills have no such method.
  if (signal?.aborted) throw signal.reason;
  const watch = observed(shared, thread, options, wants.partial);
  const log = watch === undefined ? shared.log : both(watch.record, shared.log);
  /** @type {import("./native.cjs").NativeRun | undefined} */
  let started;
  const cancel = () => started?.cancel();
  // Listened to first: a signal that can't be has begun nothing.
  const unlisten = begun(() => onAbort(signal, cancel), watch);
  const run = begun(
    () => {
      const documents = !isText(options);
      const call = JSON.stringify({ ...wants, ...ofCall, outputSchema, documents, log: log ? true : undefined });
      return known.handOver(engine, thread, tools, call, workerEnv());
    },
    watch,
    unlisten,
  );
  started = run;
  const deliver = log && inOrder(log);
  const logged = deliver === undefined ? Promise.resolve() : follow(run, deliver);
  // Whether or not anybody reads on.
  if (watch) logged.then(() => signal?.aborted && watch.end({ cancelled: true }));
  /** @type {Promise<void> | undefined} */
  let lost;
  /**
   * @template T
   * @param {Promise<T>} promise
   */
  const afterRecords = async (promise) => {
    const value = await guard(promise);
    // What goes on in the same tick is delivered before it.
    const records = deliver && run.takeLog();
    if (records) deliver(records);
    return value;
  };
  // Once for each batch of events: without a logger nothing comes between.
  const settle = deliver === undefined ? guard : afterRecords;
  return {
    next: () => settle(run.next()),
    signal,
    /** Whether a run log is written, which may fail behind the last event. */
    isRecorded: ofCall.record !== undefined,
    cancel,
    /** @returns {Promise<void>} when nobody needs to wait for the caller's own function any more */
    lost() {
      lost ??= guard(run.lost());
      return lost;
    },
    async ended() {
      const result = await settle(run.result());
      await logged;
      watch?.end({ cancelled: true });
      return result;
    },
    /** The reply but for its text and its messages; throws what the run failed with. */
    async settled() {
      const result = await settle(run.result());
      await logged;
      // The caller has turned away: what came of the run, good or bad, is no longer the answer.
      if (signal?.aborted) {
        watch?.end({ cancelled: true });
        throw signal.reason;
      }
      try {
        return /** @type {ProviderReply} */ (unwrap(result));
      } catch (error) {
        watch?.end({ error });
        throw error;
      }
    },
    text: () => run.takeText(),
    watch,
    unlisten() {
      if (lost) run.unwatch();
      unlisten();
    },
  };
}

/**
 * What observes a run; `undefined` where there is no telemetry.
 *
 * @param {Pick<Shared<any>, "id" | "telemetry" | "asked">} shared
 * @param {Thread} thread
 * @param {unknown} options of the call
 * @param {boolean} streams
 */
function observed({ id, telemetry, asked = { provider: id, model: undefined } }, thread, options, streams) {
  if (telemetry === undefined) return undefined;
  const { beginChat } = require("./telemetry/chat.cjs");
  const { quietly } = require("./telemetry/guard.cjs");
  const choices = /** @type {Record<string, unknown>} */ (options ?? {});
  const json = choices.outputSchema !== undefined;
  return quietly(() => beginChat(telemetry, asked, { streams, choices, json, messages: () => encodeThread(thread) }));
}

/** @param {unknown} options */
function isText(options) {
  return typeof options === "object" && options !== null && AS_TEXT in options;
}

/**
 * @template T
 * @param {() => T} start
 * @param {import("./telemetry/chat.cjs").Chat | undefined} watch learns of a run that can't be started
 * @param {() => void} [undo] takes back what was begun before it
 */
function begun(start, watch, undo) {
  try {
    return start();
  } catch (error) {
    undo?.();
    watch?.end({ error });
    throw error;
  }
}

/**
 * @param {Log} first
 * @param {Log | undefined} second
 * @returns {Log}
 */
function both(first, second) {
  return (record) => {
    first(record);
    second?.(record);
  };
}

/** The error of a call whose answer was there in time, and whose caller took it too late. */
function late() {
  return providerError({
    category: "timeout",
    code: "TIMEOUT",
    message: "onUpdate had not settled when the call's `timeout` had passed: its result is ignored from now on",
    provider: "",
    shouldRetry: false,
    shouldFallback: false,
    attempts: 1,
  });
}

/**
 * Hands batches of records on in the order in which they were taken: a promise of one may settle behind the next one, which was
 * taken without a promise.
 *
 * @param {Log} log
 * @returns {(json: string) => void}
 */
function inOrder(log) {
  /** @type {Map<number, Parameters<Log>[0][]>} */
  const waiting = new Map();
  let next = 0;
  return (json) => {
    const { batch, records } = JSON.parse(json);
    waiting.set(batch, records);
    for (let due = waiting.get(next); due; due = waiting.get(next)) {
      waiting.delete(next++);
      for (const record of due) log(record);
    }
  };
}

/**
 * Delivers every record as soon as there is one. Resolves with the run.
 *
 * @param {import("./native.cjs").NativeRun} run
 * @param {(json: string) => void} deliver
 */
async function follow(run, deliver) {
  for (let records = await guard(run.nextLog()); records !== null; records = await guard(run.nextLog())) {
    deliver(records);
  }
}

/**
 * The events of one run, which starts at the first `next()`. Pulled: nothing is read ahead but the batch at hand.
 *
 * @param {Shared<any>} shared
 * @param {Asked} asked
 * @param {{ partial: boolean }} wants
 * @returns {AsyncGenerator<ProviderEvent, void, undefined>}
 */
function runForEvents(shared, asked, { partial }) {
  let left = false;
  let cancel = () => {};
  const generator = generate();

  /** @returns {AsyncGenerator<ProviderEvent, void, undefined>} */
  async function* generate() {
    const run = start(shared, asked, { events: true, partial });
    cancel = run.cancel;
    let open = true;
    if (run.watch) {
      const { forgotten } = require("./telemetry/forgotten.cjs");
      forgotten(stream, leaver(run.watch));
    }
    try {
      // Behind the last event there is nothing to wait for, but with a run log, which may have failed.
      let last = false;
      for (let batch = await run.next(); batch !== null && !left; batch = last ? null : await run.next()) {
        for (const event of parseAnswer(batch)) {
          if (run.signal?.aborted) break;
          last = event.type === "done" && !run.isRecorded;
          run.watch?.event(event);
          yield event;
        }
      }
      if (left) return;
      open = false;
      await run.settled();
      run.watch?.end({ reply: {} });
    } finally {
      run.unlisten();
      if (open) {
        cancel();
        await run.ended();
      }
    }
  }

  const stream = leavable(generator, () => {
    left = true;
    cancel();
  });
  return stream;
}

/** Made here: it must not hold the stream that it is of. @param {import("./telemetry/chat.cjs").Chat} watch */
const leaver = (watch) => () => void watch.end({ cancelled: true });

/**
 * The events of one run, each handed to a function that is waited for: not beyond an abort, the run's timeout or the provider's
 * end. What it answers afterwards is ignored.
 *
 * @param {Shared<any>} shared
 * @param {Asked} asked
 * @param {(event: ProviderEvent) => Iterable<unknown>} answers what the caller's function answers to an event, one by one
 */
async function runWithListener(shared, asked, answers) {
  const run = start(shared, asked, { events: true, partial: false });
  let open = true;
  try {
    let stuck = false;
    for (let batch = await run.next(); batch !== null && !stuck; batch = await run.next()) {
      for (const event of parseAnswer(batch)) {
        if (run.signal?.aborted || stuck) break;
        run.watch?.event(event);
        for (const answer of answers(event)) {
          stuck = !(await unlessOver(answer, [run.signal, shared.life.signal], run.lost));
          if (stuck) break;
        }
      }
      if (stuck) break;
    }
    if (stuck) run.cancel();
    open = false;
    await run.settled();
    run.watch?.end(stuck ? { error: late() } : { reply: {} });
    if (stuck) throw late();
  } finally {
    run.unlisten();
    if (open) {
      run.cancel();
      await run.ended();
    }
  }
}

/**
 * `generator`, informed at once when its consumer leaves: by itself it queues a `return` behind a `next` that is under way, which
 * `leave` is to bring back.
 *
 * @template T
 * @param {AsyncGenerator<T, void, undefined>} generator
 * @param {() => void} leave
 * @returns {AsyncGenerator<T, void, undefined>}
 */
function leavable(generator, leave) {
  return {
    next: () => generator.next(),
    return() {
      leave();
      return generator.return();
    },
    throw(error) {
      leave();
      return generator.throw(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return();
    },
  };
}

module.exports = { AS_TEXT, inOrder, leavable, runForEvents, runWithListener, start };
