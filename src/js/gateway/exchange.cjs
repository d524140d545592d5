"use strict";

/**
 * One request for an answer, from its body to the last byte. In: a face, a key, the body's JSON. Out: the answer, whole or as a stream.
 *
 * @import { ServerResponse } from "node:http"
 * @import { Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Key } from "./keys.cjs"
 * @import { Facts } from "./call.cjs"
 */

const { begin } = require("./call.cjs");
const { recordOf } = require("./record.cjs");
const { createCollector, createTelling } = require("./calls.cjs");
const { isoOf, word } = require("./plans.cjs");
const { refusalOf } = require("./refusal.cjs");

/** How long the head of a stream waits for the first piece: so long an error has a status of its own. */
const HOLD = 10_000;
/** How often a stream says that it is alive. */
const PING = 5_000;

/**
 * @typedef {object} House what all requests of a gateway share
 * @property {ReturnType<typeof import("./models.cjs").createModels>} models
 * @property {ReturnType<typeof import("./sealed.cjs").createSeals>} seals
 * @property {ReturnType<typeof import("./store.cjs").createStore>} store
 * @property {ReturnType<typeof import("./calls.cjs").createWithheld>} withheld
 * @property {ReturnType<typeof import("./queue.cjs").createQueues>} queues
 * @property {ReturnType<typeof import("./plans.cjs").createPlans>} plans
 * @property {boolean} lenient
 * @property {string | undefined} record
 */

/**
 * @param {House} house
 * @param {object} request
 * @param {Face} request.face
 * @param {Key} request.key
 * @param {Fields} request.body
 * @param {boolean} request.lenient
 * @param {string} request.requestId
 * @param {(figures: () => Record<string, unknown>) => void} request.tell says by what figures of the call can be had, as far as they are known
 * @param {ServerResponse} response
 * @param {AbortSignal} signal aborts when nobody waits for the answer any more
 * @returns {Promise<Record<string, unknown>>} figures for the log
 */
async function answer(house, { face, key, body, lenient, requestId, tell }, response, signal) {
  const target = house.models.find(Object.hasOwn(body, "model") ? body.model : undefined);
  const around = {
    isApi: target.isApi,
    lenient: lenient || house.lenient,
    seals: house.seals,
    stored: (/** @type {string} */ id) => house.store.get(key.name, id),
    item: (/** @type {string} */ id) => house.store.item(key.name, id),
  };
  const read = face.read(body, around);
  read.messages = house.withheld.restore(key.name, read.messages);
  tell(() => ({ model: target.names[0], stream: read.stream }));
  const release = await key.admit();
  /** @type {import("./queue.cjs").Place} */
  let place;
  try {
    place = await house.queues.enter(target.queue.name, target.queue.places, signal);
  } catch (error) {
    release({});
    throw error;
  }
  const { queuedMs } = place;
  const collector = read.stream ? undefined : createCollector();
  const stream = read.stream ? face.stream(read, around) : undefined;
  /** @type {() => void} */
  let start = () => {};
  const telling = createTelling({
    writer: /** @type {import("./faces.cjs").Writer} */ (stream ?? collector?.writer),
    oneCall: read.oneCall,
    start: () => start(),
    keep: (id, others) => house.withheld.keep(key.name, id, others),
  });
  /** @type {ReturnType<typeof begin>} */
  let call;
  try {
    call = begin(
      read,
      target,
      { signal, record: recordOf(house.record, key.name), plans: house.plans },
      telling.receiver,
    );
  } catch (error) {
    place.leave();
    release({});
    // Tools that can't be bound.
    throw refusalOf(error, read.places);
  }
  const keep = (/** @type {Fields | undefined} */ made) => {
    if (made === undefined || read.own.store !== true) return;
    const output = /** @type {Fields[]} */ (made.output);
    house.store.keep(key.name, made, [.../** @type {Fields[]} */ (read.own.items), ...output]);
  };
  const { facts } = call;
  const headers = () => ({
    ...headersOf(facts, read.ignored, queuedMs),
    ...house.plans.headers(face.plan, facts.plan),
  });
  const figures = () => ({ ...figuresOf(facts, read), ...(queuedMs > 0 ? { queuedMs } : {}) });
  tell(figures);
  try {
    if (stream !== undefined) {
      const begins = (/** @type {() => void} */ send) => {
        start = send;
      };
      const failed = await streamed(response, signal, {
        call,
        stream,
        telling,
        begins,
        read,
        keep,
        headers,
        requestId,
      });
      return { ...figures(), ...(failed === undefined ? {} : { code: failed }) };
    }
    while (await call.next());
    const end = collector?.end();
    if (collector === undefined || end === undefined) throw new Error(NO_REPLY);
    const made = face.whole(read, collector.content(), end, around);
    keep(/** @type {Fields} */ (made));
    const json = JSON.stringify(made);
    const length = Buffer.byteLength(json);
    response.writeHead(200, { "content-type": "application/json", "content-length": length, ...headers() });
    response.end(json);
    return figures();
  } catch (error) {
    if (signal.aborted) throw error;
    const refusal = refusalOf(error, read.places);
    throw Object.assign(refusal, { facts: headers(), cause: error });
  } finally {
    // Also where the client left: nothing of its call stays behind, and what it used counts.
    await call.leave().catch(() => {});
    place.leave();
    release({ tokens: facts.usage?.totalTokens, usd: facts.costUsd });
  }
}

const NO_REPLY = "the provider ended its stream without a reply";

/**
 * The answer as it comes.
 *
 * @param {ServerResponse} response
 * @param {AbortSignal} signal
 * @param {object} its
 * @param {ReturnType<typeof begin>} its.call
 * @param {import("./faces.cjs").Stream} its.stream
 * @param {ReturnType<typeof createTelling>} its.telling
 * @param {(send: () => void) => void} its.begins takes what is to be done before the first block
 * @param {import("./faces.cjs").Read} its.read
 * @param {(made: Fields | undefined) => void} its.keep
 * @param {() => Record<string, string>} its.headers
 * @param {string} its.requestId
 * @returns {Promise<string | undefined>} the code of what it failed with behind its head
 */
async function streamed(response, signal, { call, stream, telling, begins, read, keep, headers, requestId }) {
  const out = createOut(response, signal, stream.ping);
  const send = () => {
    if (response.headersSent) return;
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", ...headers() });
    out.start(stream.begin(call.facts.usage));
  };
  begins(send);
  let finished = false;
  try {
    for (let more = await out.first(call.next(), send); more; more = await call.next()) {
      await out.write(telling.take());
      if (finished || !telling.ended()) continue;
      finished = true;
      keep(stream.answer?.());
      out.stop();
      response.end();
    }
    if (!finished) throw new Error(NO_REPLY);
    return undefined;
  } catch (error) {
    // All has gone out: what is behind it (a run log that fails) is nobody's error here.
    if (finished) return undefined;
    if (signal.aborted || !response.headersSent) throw error;
    // The head is out: the vendor's own event, and no finish, which would make a success of it.
    const refusal = refusalOf(error, read.places);
    await out.write(telling.take() + stream.fail(refusal, requestId));
    response.end();
    return refusal.code;
  } finally {
    out.stop();
  }
}

/** @param {Facts} facts @param {{ stream: boolean, ignored: readonly string[] }} read */
function figuresOf({ runId, model, engine, session, warnings, usage }, { stream, ignored }) {
  return {
    ...{ runId, model, engine, session, stream },
    ...{ inputTokens: usage?.inputTokens, outputTokens: usage?.outputTokens, cacheHitShare: usage?.cacheHitShare },
    ...(ignored.length === 0 ? {} : { ignored: wordsOf(ignored) }),
    ...(warnings.length === 0 ? {} : { warnings: wordsOf(warnings) }),
  };
}

/**
 * What is known of a call, as headers: nothing in them is a text of a caller's or a model's.
 *
 * @param {Facts} facts
 * @param {readonly string[]} ignored
 * @param {number} queuedMs
 * @returns {Record<string, string>}
 */
function headersOf({ runId, model, engine, session, warnings, usage, sessionUsage, limit }, ignored, queuedMs) {
  /** @type {Record<string, string | undefined>} */
  const headers = {
    "x-dfp-run-id": runId,
    "x-dfp-model": encodeURI(model),
    "x-dfp-engine": engine,
    "x-dfp-session": session,
    "x-dfp-queued-ms": queuedMs > 0 ? String(queuedMs) : undefined,
    "x-dfp-ignored": ignored.length === 0 ? undefined : wordsOf(ignored),
    "x-dfp-warning": warnings.length === 0 ? undefined : wordsOf(warnings),
    "x-dfp-estimated": usage?.estimated ? "true" : undefined,
    "x-dfp-cache-hit": usage?.cacheHitShare?.toString(),
    "x-dfp-session-cache-hit": sessionUsage?.cacheHitShare?.toString(),
    "x-dfp-limit-status": limit && word(limit.status),
    "x-dfp-limit-resets-at": limit?.resetsAt === undefined ? undefined : isoOf(limit.resetsAt),
    "x-dfp-limit-utilization": limit?.utilization === undefined ? undefined : String(Number(limit.utilization)),
  };
  const known = Object.entries(headers).filter(([, value]) => value !== undefined && value !== "");
  return /** @type {Record<string, string>} */ (Object.fromEntries(known));
}

/** Names in a header. @param {readonly string[]} names */
const wordsOf = (names) => [...new Set(names)].map(word).slice(0, 32).join(",");

/**
 * A stream on its way to a client.
 *
 * @param {ServerResponse} response
 * @param {AbortSignal} signal
 * @param {() => string} ping
 */
function createOut(response, signal, ping) {
  /** @type {NodeJS.Timeout | undefined} */
  let held;
  /** @type {NodeJS.Timeout | undefined} */
  let pings;
  let last = 0;

  /** @param {string} text */
  const put = (text) => {
    last = Date.now();
    return response.write(text);
  };
  const beat = () => {
    // A client that does not read gets none: they would pile up.
    if (Date.now() - last >= PING / 2 && !response.writableNeedDrain) put(ping());
  };

  return {
    /**
     * Waits for the first event, and no longer than {@link HOLD} with the head.
     *
     * @template T
     * @param {Promise<T>} event
     * @param {() => void} send
     */
    async first(event, send) {
      held = setTimeout(send, HOLD);
      return await event;
    },

    /** @param {string} text behind the head */
    start(text) {
      clearTimeout(held);
      put(text);
      pings = setInterval(beat, PING / 2);
    },

    /** @param {string} text */
    async write(text) {
      if (text === "" || put(text)) return;
      // Taken no faster than it is read.
      await new Promise((resolve) => {
        const on = () => {
          response.off("drain", on);
          signal.removeEventListener("abort", on);
          resolve(undefined);
        };
        response.once("drain", on);
        signal.addEventListener("abort", on);
        if (signal.aborted) on();
      });
    },

    stop() {
      clearTimeout(held);
      clearInterval(pings);
    },
  };
}

module.exports = { answer };
