"use strict";

/**
 * Calls of tools on their way to a client, and the ones that it does not want: a client that takes one call at a time gets the first. The
 * others are kept, and when its result comes back they are answered beside it, as failed: so the process that made them goes on, where
 * it would have to be told the whole thread otherwise.
 *
 * @import { Block, End, Receiver, Sealed } from "../blocks.cjs"
 * @import { Content, Writer } from "./faces.cjs"
 *
 * @typedef {{ id: string, name: string, args: string }} Call `args` is JSON text
 */

const { Refusal } = require("./refusal.cjs");

/** Most answers whose further calls are remembered. */
const MOST_KEPT = 1000;

const NOT_RUN = "not run: one call at a time";

function createWithheld() {
  /** @type {Map<string, Call[]>} by the key's name and the call that went out */
  const kept = new Map();
  const nameOf = (/** @type {string} */ key, /** @type {string} */ id) => `${key}\0${id}`;

  return {
    /** @param {string} key @param {string} id of the call that went out @param {Call[]} others */
    keep(key, id, others) {
      kept.set(nameOf(key, id), others);
      for (const oldest of kept.keys()) {
        if (kept.size <= MOST_KEPT) break;
        kept.delete(oldest);
      }
    },

    /**
     * The thread with them and their results.
     *
     * @param {string} key
     * @param {any[]} messages
     * @returns {any[]} a message that was not in `messages` has the place of the one before it
     */
    restore(key, messages) {
      if (kept.size === 0) return messages;
      return messages.flatMap((message) => {
        if (message.role === "assistant" && message.tool_calls?.length === 1) {
          const others = kept.get(nameOf(key, message.tool_calls[0].id)) ?? [];
          return [others.length === 0 ? message : { ...message, tool_calls: [...message.tool_calls, ...others] }];
        }
        const others = message.role === "tool" ? (kept.get(nameOf(key, message.tool_call_id)) ?? []) : [];
        return [
          message,
          ...others.map(({ id }) => ({
            role: "tool",
            tool_call_id: id,
            content: NOT_RUN,
            status: "error",
            at: message.at,
          })),
        ];
      });
    },
  };
}

/**
 * Tells a face the blocks of an answer that are a client's: without what the CLI did by itself, and with no more calls than are wanted. It
 * is a call's receiver.
 *
 * @param {object} answer
 * @param {Writer} answer.writer
 * @param {boolean} answer.oneCall
 * @param {() => void} [answer.start] before the first block
 * @param {(id: string, others: Call[]) => void} answer.keep
 */
function createTelling({ writer, oneCall, start = () => {}, keep }) {
  let text = "";
  let ended = false;
  /** The id of the first call. @type {string | undefined} */
  let first;
  /** @type {Call[]} */
  const others = [];
  /** Calls that went out and are none yet. @type {Set<string>} */
  const begun = new Set();
  /** Reasoning that only its API can read, which came with something else. @type {Sealed | undefined} */
  let held;

  /** Whether it is a block of a call that the client does not want. @param {Block} block */
  const isLeft = ({ kind, id }) => {
    if (kind !== "call") return false;
    first ??= id;
    return oneCall && id !== first;
  };

  return {
    /** What was written since it was last taken. */
    take() {
      const taken = text;
      text = "";
      return taken;
    },

    /** Whether the answer has come to its end. */
    ended: () => ended,

    /** @type {Receiver} */
    receiver: {
      open(block) {
        if (isLeft(block)) return;
        if (block.kind === "call") begun.add(block.id);
        start();
        text += writer.open(block);
      },
      piece(block, delta) {
        if (!isLeft(block)) text += writer.piece(block, delta);
      },
      close(block, sealed) {
        if (isLeft(block)) return;
        // Of a block that is no reasoning it becomes one of its own, at the end.
        if (block.kind === "text") held = sealed ?? held;
        text += writer.close(block, block.kind === "reasoning" ? sealed : undefined);
      },
      call({ id, name, input }, sealed) {
        held = sealed ?? held;
        begun.delete(id);
        first ??= id;
        if (!oneCall || id === first) writer.call?.({ id, name, input });
        else others.push({ id, name, args: input });
      },
      finish(end) {
        if (begun.size > 0 && end.reason !== "length" && end.reason !== "content-filter") {
          const message = "the model's call of a tool can't be read, and its beginning has gone out";
          throw new Refusal(502, "upstream_error", message);
        }
        if (first !== undefined && others.length > 0) keep(first, others);
        start();
        if (held !== undefined) {
          /** @type {Block} */
          const block = { kind: "reasoning", id: "sealed", ended: true };
          text += writer.open(block) + writer.close(block, held);
        }
        text += writer.finish(end);
        ended = true;
      },
    },
  };
}

/**
 * Collects the blocks of an answer that comes whole, as APIs have them: what the model thought goes before what it said, what is sealed is
 * part of it, and calls come last.
 */
function createCollector() {
  /** @type {Map<Block, Content>} */
  const blocks = new Map();
  /** @type {Content[]} */
  const calls = [];
  /** @type {End | undefined} */
  let end;

  return {
    /** @type {Writer} */
    writer: {
      open(block) {
        if (block.kind !== "call") blocks.set(block, { kind: block.kind, id: block.id, text: "" });
        return "";
      },
      piece(block, delta) {
        const content = blocks.get(block);
        if (content) content.text += delta;
        return "";
      },
      close(block, sealed) {
        const content = blocks.get(block);
        if (content && sealed) content.sealed = sealed;
        return "";
      },
      call({ id, name, input }) {
        calls.push({ kind: "call", id, name, text: input });
      },
      finish(last) {
        end = last;
        return "";
      },
    },

    end: () => end,

    /** @returns {Content[]} */
    content() {
      const all = [...blocks.values()];
      /** @type {Content[]} */
      const thoughts = [];
      for (const block of all) {
        if (block.kind !== "reasoning") continue;
        const [first] = thoughts;
        if (block.text === "" && block.sealed && first) first.sealed ??= block.sealed;
        else thoughts.push(block);
      }
      return [...thoughts, ...all.filter(({ kind }) => kind === "text"), ...calls];
    },
  };
}

module.exports = { createCollector, createTelling, createWithheld };
