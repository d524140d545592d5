"use strict";

/**
 * Calls of tools on their way to a client, and the ones that it does not want: a client that takes one call at a time gets the first. The
 * others are kept, and when its result comes back they are answered beside it, as failed: so the process that made them goes on, where
 * it would have to be told the whole thread otherwise.
 *
 * @import { CliContent, CliStreamPart } from "../ai-sdk/index.d.cts"
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
 * The parts of an answer that are a client's: without what the CLI did by itself, and with no more calls than are wanted.
 *
 * @param {boolean} oneCall
 * @param {(id: string, others: Call[]) => void} keep
 */
function createFilter(oneCall, keep) {
  /** @type {string | undefined} */
  let first;
  /** @type {Call[]} */
  const others = [];
  /** Calls that went out and are none yet. @type {Set<string>} */
  const begun = new Set();
  /** Reasoning that only its API can read, which came with something else. @type {CliStreamPart[]} */
  let sealed = [];

  /** @param {CliStreamPart} part @returns {CliStreamPart[]} */
  return (part) => {
    switch (part.type) {
      case "tool-input-start":
        if (first === undefined || !oneCall) begun.add(part.id);
        first ??= part.id;
        return oneCall && part.id !== first ? [] : [part];
      case "tool-input-delta":
      case "tool-input-end":
        first ??= part.id;
        return oneCall && part.id !== first ? [] : [part];
      case "tool-call": {
        if (part.providerExecuted) return [];
        const { toolCallId: id, toolName: name, input: args } = part;
        hold(part.providerMetadata);
        begun.delete(id);
        first ??= id;
        if (!oneCall || id === first) return [part];
        others.push({ id, name, args });
        return [];
      }
      case "text-end":
        hold(part.providerMetadata);
        return [{ type: "text-end", id: part.id }];
      case "tool-result":
      case "response-metadata":
      case "raw":
        return [];
      case "finish":
        if (
          begun.size > 0 &&
          part.finishReason.unified !== "length" &&
          part.finishReason.unified !== "content-filter"
        ) {
          throw new Refusal(
            502,
            "upstream_error",
            "the model's call of a tool can't be read, and its beginning has gone out",
          );
        }
        if (first !== undefined && others.length > 0) keep(first, others);
        return [...sealed, part];
      default:
        return [part];
    }
  };

  /** A block of its own, at the end. @param {import("../ai-sdk/index.d.cts").CliProviderMetadata | undefined} providerMetadata */
  function hold(providerMetadata) {
    if (providerMetadata === undefined) return;
    sealed = [
      { type: "reasoning-start", id: "sealed" },
      { type: "reasoning-end", id: "sealed", providerMetadata },
    ];
  }
}

/**
 * An answer that comes whole, as APIs have it: what the model thought goes before what it said, and what is sealed is part of it.
 *
 * @param {CliContent[]} content
 * @returns {CliContent[]}
 */
function inOrder(content) {
  /** @type {Extract<CliContent, { type: "reasoning" }>[]} */
  const thoughts = [];
  for (const part of content) {
    if (part.type !== "reasoning") continue;
    const [first] = thoughts;
    if (part.text === "" && part.providerMetadata && first) first.providerMetadata ??= part.providerMetadata;
    else thoughts.push(part);
  }
  return [...thoughts, ...content.filter(({ type }) => type !== "reasoning")];
}

module.exports = { createFilter, createWithheld, inOrder };
