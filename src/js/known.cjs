"use strict";

/**
 * The messages that the native side has: an agent's thread grows by a message or two per step, and what was handed over is not handed
 * over again.
 *
 * In: the caller's thread, at each call. Out: the thread as the native side takes it, in which messages that are as they were are no
 * more than their numbers on a {@link NativeShelf}.
 *
 * A message is known again by being the same object, or, where an agent makes its messages anew at each step, by its place in a thread
 * that was sent lately. Whether it still is what it was is looked at each time, down to the last argument (`reading.cjs`): it may have
 * been changed in place. That costs no more than a look at each value, for a string that is still the same one is not looked into.
 *
 * What is kept ends with the caller's messages, but for the {@link MOST_RECENT} threads that were sent last, which are kept until no call
 * came for {@link RECENT_MS}. The native side holds at most {@link MOST_HELD}, and a thread that is longer only while it is sent.
 *
 * @import { NativeProvider, NativeRun, NativeShelf } from "./native.cjs"
 * @import { Reading } from "./reading.cjs"
 *
 * @typedef {object} Part a message of a thread
 * @property {Reading} reading a copy, if `isKept`
 * @property {boolean} isKept whether it may be known again
 * @property {number} size see `copyOf`
 * @property {string | undefined} json until it is handed over
 * @property {string} text beside the JSON
 * @property {Handle | undefined} handle
 *
 * @typedef {{ number: number, generation: number, size: number }} Handle a message on the shelf
 * @typedef {{ parts: Part[] }} Thread
 * @typedef {{ parts: (Part | undefined)[], size: number }} Sent
 */

const { fault } = require("./errors.cjs");
const { eachOf, encodeReading } = require("./messages.cjs");
const { copyOf, isSame, readMessage } = require("./reading.cjs");

/** About bytes on the native side. */
const MOST_HELD = 64 << 20;

const MOST_RECENT = 8;
/** About bytes of all recent threads. */
const MOST_RECENT_SIZE = 16 << 20;
const RECENT_MS = 5 * 60_000;

/** How far from its place a message is looked for: what was before it may be more, or less, than the last time. */
const NEAR = [0, 1, -1, 2, -2, 3, -3, 4, -4];

/** So many new messages one behind the other are of another thread: the next are not looked for. */
const MOST_NEW = 32;

/**
 * Where in a thread that was sent the messages of this one are looked for.
 *
 * @typedef {object} Search
 * @property {Sent | undefined} sent
 * @property {number} shift from a message's place here to that in `sent`
 * @property {Part | undefined} last the last message that was known
 * @property {number} lastIndex its place here
 * @property {number} news messages since then
 */

/** @typedef {ReturnType<typeof createKnown>} Known */

/**
 * @param {{ NativeShelf: new () => NativeShelf }} native
 */
function createKnown(native) {
  /** @type {WeakMap<object, Part>} */
  const ofMessage = new WeakMap();
  /** @type {Sent[]} the latest first */
  let recent = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let aging;

  /** @type {NativeShelf | undefined} */
  let shelf;
  let lastNumber = 0;
  /** What was put on the shelf in an earlier one is there no more. */
  let generation = 0;
  let held = 0;
  /** @type {number[]} */
  let released = [];
  /** @type {FinalizationRegistry<Handle>} */
  const gone = new FinalizationRegistry(release);

  /** @param {Handle} handle of a part that nobody has any more */
  function release(handle) {
    if (handle.generation !== generation) return;
    held -= handle.size;
    if (released.push(handle.number) === 1) queueMicrotask(sendReleased);
  }

  function sendReleased() {
    const numbers = released;
    released = [];
    shelf?.release(Uint32Array.from(numbers));
  }

  function forgetHeld() {
    generation += 1;
    held = 0;
    released = [];
    shelf?.clear();
  }

  /** @param {Part} part */
  const isHeld = ({ handle }) => handle?.generation === generation;

  /**
   * Reads the thread, all of it: what becomes of the messages afterwards is no part of it.
   *
   * @param {unknown} messages
   * @returns {Thread}
   */
  function pack(messages) {
    /** @type {Search} */
    const search = { sent: undefined, shift: 0, last: undefined, lastIndex: 0, news: 0 };
    const parts = eachOf(messages, (message, index) => {
      const reading = readMessage(message, index);
      const isObject = typeof message === "object" && message !== null;
      const own = isObject ? ofMessage.get(message) : undefined;
      const isOwn = own !== undefined && isSame(reading, own.reading);
      const known = isOwn ? own : nearby(reading, index, search);
      if (known !== undefined) {
        search.last = known;
        search.lastIndex = index;
        search.news = 0;
      } else search.news += 1;
      const part = known ?? newPart(reading, index);
      // One that was found by its place is likely to be made anew again; an entry of it would cost more than the look at that place.
      if (isObject && part.isKept && known === undefined) ofMessage.set(message, part);
      return part;
    });
    remember(parts);
    return { parts };
  }

  /**
   * @param {Reading} reading
   * @param {number} index
   * @param {Search} search
   * @returns {Part | undefined}
   */
  function nearby(reading, index, search) {
    if (search.news > MOST_NEW) return undefined;
    const { last, lastIndex } = search;
    return (
      (search.sent && inSent(search.sent, search.shift)) ??
      // Of the others, those that have what was known last.
      firstOf(recent, (sent) => {
        const isOther = sent !== search.sent && (index === 0 || (last !== undefined && sent.parts[lastIndex] === last));
        return isOther ? inSent(sent, 0) : undefined;
      })
    );

    /**
     * @param {Sent} sent
     * @param {number} shift
     */
    function inSent(sent, shift) {
      for (const step of NEAR) {
        const part = sent.parts[index + shift + step];
        if (part === undefined || !isSame(reading, part.reading)) continue;
        search.sent = sent;
        search.shift = shift + step;
        // The string that is there now is what the next look finds; the other may go.
        if (typeof reading.content === "string") part.reading.content = reading.content;
        return part;
      }
      return undefined;
    }
  }

  /** @param {Part[]} parts */
  function remember(parts) {
    const sent = { parts: parts.map((part) => (part.isKept ? part : undefined)), size: sizeOf(parts) };
    // What has grown to this thread is part of it.
    const others = recent.filter((old) => !old.parts.every((part, at) => part === sent.parts[at]));
    recent = [];
    let size = 0;
    for (const thread of [sent, ...others]) {
      size += thread.size;
      if (recent.length === MOST_RECENT || size > MOST_RECENT_SIZE) break;
      recent.push(thread);
    }
    if (aging !== undefined) aging.refresh();
    else {
      aging = setTimeout(forgetRecent, RECENT_MS);
      aging.unref?.();
    }
  }

  function forgetRecent() {
    recent = [];
    aging = undefined;
  }

  /**
   * Begins a run of the thread, which is made there of what the shelf holds, and of the rest, of which it keeps what may come again.
   *
   * @param {Pick<NativeProvider, "start">} engine
   * @param {Thread} thread
   * @param {[toolsJson: string, callJson: string, envJson?: string]} call
   * @returns {NativeRun}
   */
  function handOver(engine, { parts }, ...call) {
    shelf ??= new native.NativeShelf();
    const size = sizeOf(parts);
    const isNew = (/** @type {Part} */ part) => part.isKept && !isHeld(part);
    if (held + sizeOf(parts.filter(isNew)) > MOST_HELD) forgetHeld();
    for (const keep of [size <= MOST_HELD, false]) {
      const plan = new Uint32Array(3 * parts.length);
      let json = "";
      let texts = "";
      parts.forEach((part, index) => {
        const at = 3 * index;
        if (isHeld(part)) {
          plan[at] = /** @type {Handle} */ (part.handle).number;
          return;
        }
        const encoded = part.json === undefined ? encode(part.reading, index) : part;
        json += encoded.json;
        texts += encoded.text;
        plan[at + 1] = encoded.json?.length ?? 0;
        plan[at + 2] = encoded.text.length;
        if (keep && part.isKept) plan[at] = hold(part);
      });
      const run = engine.start(shelf, [json, texts, plan], ...call);
      if (run) return run;
      // It has not what it should have.
      forgetHeld();
    }
    throw fault("INTERNAL", "a thread that was handed over whole is not known");
  }

  /**
   * Notes that a message is put on the shelf.
   *
   * @param {Part} part
   * @returns {number} its number there
   */
  function hold(part) {
    lastNumber += 1;
    part.handle = { number: lastNumber, generation, size: part.size };
    gone.register(part, part.handle);
    held += part.size;
    part.json = undefined;
    part.text = "";
    return lastNumber;
  }

  return { pack, handOver };
}

/**
 * @param {Reading} reading
 * @param {number} index
 * @returns {Part}
 */
function newPart(reading, index) {
  const kept = copyOf(reading);
  const it = kept?.reading ?? reading;
  const { json, text } = encode(it, index);
  return { reading: it, isKept: kept !== undefined, size: kept?.size ?? 0, json, text, handle: undefined };
}

/**
 * @param {Reading} reading
 * @param {number} index
 */
function encode(reading, index) {
  /** @type {string[]} */
  const texts = [];
  const json = encodeReading(reading, index, { texts });
  return { json, text: texts[0] ?? "" };
}

/**
 * @template T, Found
 * @param {readonly T[]} all
 * @param {(one: T) => Found | undefined} find
 * @returns {Found | undefined}
 */
function firstOf(all, find) {
  for (const one of all) {
    const found = find(one);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** @param {readonly Part[]} parts */
function sizeOf(parts) {
  let size = 0;
  for (const part of parts) size += part.size;
  return size;
}

/**
 * @param {Thread} thread
 * @returns {string} JSON of it, texts and all
 */
function encodeThread({ parts }) {
  return `[${parts.map(({ reading }, index) => encodeReading(reading, index, {})).join(",")}]`;
}

module.exports = { createKnown, encodeThread };
