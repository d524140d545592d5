"use strict";

/**
 * The blocks of an answer: texts, reasoning and calls, each with a beginning, pieces and an end. In: the events of one call. Out: calls of a
 * {@link Receiver}, which writes them as its face has them (the parts of the AI SDK's stream, the gateway's HTTP).
 *
 * A call is told as whole with the reply, not when the model makes it: only then is it known which calls are the caller's to run. What a
 * model writes of a call's arguments is a piece as it comes. No call is made here of a text; what the native side found to be a call is one.
 *
 * @import { InvalidToolCall, ProviderEvent, ProviderReply, TokenUsage, ToolCall, ToolInput } from "../../index.js"
 *
 * @typedef {object} Block
 * @property {"text" | "reasoning" | "call"} kind
 * @property {string} id of a call: the call's
 * @property {string} [name] of a call's tool
 * @property {string | undefined} [message] the id of the message that a text or reasoning is of
 * @property {boolean} ended whether it takes no further pieces, though it may not be closed yet
 *
 * @typedef {{ reasoningDetails: readonly object[], provider: string, model?: string, run?: { login: string } }} Sealed reasoning that only the API
 *   that gave it can read, and whose it is
 * @typedef {{ id: string, name: string, input: string }} Call `input` is JSON text
 * @typedef {"stop" | "length" | "content-filter" | "tool-calls"} Reason
 *
 * @typedef {object} End
 * @property {Reason} reason
 * @property {string | undefined} raw the provider's own word for it; behind a failure, the error's code
 * @property {TokenUsage | undefined} usage
 * @property {string} who the provider that answered
 * @property {ProviderReply} [reply]
 * @property {import("../../index.js").ProviderError} [error] what cut the answer short
 *
 * @typedef {object} Receiver
 * @property {(id: string | undefined, model: string | undefined) => void} [begin] once, before anything else
 * @property {(block: Block) => void} open
 * @property {(block: Block, delta: string) => void} piece
 * @property {(block: Block, sealed?: Sealed) => void} close
 * @property {(call: Call, sealed?: Sealed) => void} call a call for the caller to run, behind its block
 * @property {(call: ToolCall, result: { content: string, isError: boolean }) => void} [executed] a call that the CLI has run by itself
 * @property {(end: End) => void} finish
 */

const { isProviderError } = require("./errors.cjs");

/** Failures with which an answer ends, and is one: what had come by then is the answer. @type {Record<string, Reason>} */
const CUT_SHORT = { MAX_TOKENS: "length", REFUSAL: "content-filter" };

/**
 * Reads the events of one call. Nothing here waits, so a call costs one turn for each event.
 *
 * @param {object} call
 * @param {string} call.provider
 * @param {readonly ToolInput[]} call.tools
 * @param {boolean} call.json whether the answer is a value
 * @param {boolean} call.whole whether only the reply's text counts: what was said before may have been asked for again
 * @param {Receiver} receiver
 */
function createBlocks({ provider, tools, json, whole }, receiver) {
  let count = 0;
  /** The text or reasoning that is open: there is one at a time. @type {Block | undefined} */
  let current;
  /** Of which kind, and of which message, something was told. @type {Set<string>} */
  const told = new Set();
  /** Calls that the CLI may still answer itself. @type {Map<string, ToolCall>} */
  const held = new Map();
  /** Calls whose arguments came piece by piece. @type {Map<string, Block>} */
  const written = new Map();
  /** The model, as the CLI names it before it answers. */
  let model = /** @type {string | undefined} */ (undefined);
  let begun = false;
  let said = false;
  /** Whether pieces came of a message that has no id, and is not whole yet. */
  let unnamed = false;

  return {
    /** @param {ProviderEvent} event */
    push(event) {
      switch (event.type) {
        case "session":
          model = event.model ?? model;
          break;
        case "thinking_delta":
          begin(event.messageId);
          push("reasoning", event.messageId, event.text);
          break;
        case "text_delta":
          if (whole) break;
          said = true;
          unnamed ||= event.messageId === undefined && event.text !== "";
          begin(event.messageId);
          push("text", event.messageId, event.text);
          break;
        case "message": {
          if (whole) break;
          const isTold = event.id === undefined ? unnamed : told.has(`text ${event.id}`);
          unnamed = false;
          const text = isTold ? "" : event.content.trim();
          if (text !== "") {
            said = true;
            begin(event.id);
            push("text", event.id, text);
          }
          // What comes next is another block. This one stays open for what the reply has to say of it.
          if (current) current.ended = true;
          break;
        }
        case "tool_call_delta":
          if (whole) break;
          begin(undefined);
          close();
          write(event.toolCallId, event.name, event.delta);
          break;
        case "tool_call":
          held.set(event.toolCall.id, event.toolCall);
          endWritten(event.toolCall.id);
          break;
        case "tool_result": {
          const call = held.get(event.toolCallId);
          held.delete(event.toolCallId);
          if (call === undefined) break;
          begin(undefined);
          close();
          receiver.executed?.(call, event);
          break;
        }
        case "done":
          finish(event.reply);
          break;
        default:
      }
    },

    /**
     * What the call failed with: the end of its answer, if it is one. Throws every other error.
     *
     * @param {unknown} error
     */
    fail(error) {
      const reason = isProviderError(error) && Object.hasOwn(CUT_SHORT, error.code) ? CUT_SHORT[error.code] : undefined;
      if (reason === undefined) throw error;
      const { code, partial, usage, provider: who } = /** @type {import("../../index.js").ProviderError} */ (error);
      begin(undefined);
      if (!said && partial?.text) push("text", undefined, partial.text);
      for (const id of written.keys()) endWritten(id);
      close();
      receiver.finish({ reason, raw: code, usage: usage ?? partial?.usage, who, error: /** @type {any} */ (error) });
    },
  };

  /** @param {string | undefined} id of the first message */
  function begin(id) {
    if (begun) return;
    begun = true;
    receiver.begin?.(id, model);
  }

  /** @param {"text" | "reasoning"} kind @param {string | undefined} message */
  function open(kind, message) {
    close();
    /** @type {Block} */
    const block = { kind, id: `${kind}-${++count}`, message, ended: false };
    current = block;
    told.add(kind).add(`${kind} ${message ?? ""}`);
    receiver.open(block);
  }

  /** @param {"text" | "reasoning"} kind @param {string | undefined} message @param {string} delta */
  function push(kind, message, delta) {
    if (delta === "") return;
    if (current?.kind !== kind || current.message !== message || current.ended) open(kind, message);
    receiver.piece(/** @type {Block} */ (current), delta);
  }

  /** @param {Sealed} [sealed] */
  function close(sealed) {
    if (current === undefined) return;
    const block = current;
    current = undefined;
    receiver.close(block, sealed);
  }

  /** A piece of a call's arguments. @param {string} id @param {string} name @param {string} delta */
  function write(id, name, delta) {
    let block = written.get(id);
    if (block === undefined) {
      block = { kind: "call", id, name, ended: false };
      written.set(id, block);
      receiver.open(block);
    }
    receiver.piece(block, delta);
  }

  /** The arguments of this call are whole, if they came in pieces. @param {string} id */
  function endWritten(id) {
    const block = written.get(id);
    if (block === undefined || block.ended) return;
    block.ended = true;
    receiver.close(block);
  }

  /** @param {ProviderReply} reply */
  function finish(reply) {
    // Also of one that came to nothing: its answer broke off, or it can't be read.
    for (const id of written.keys()) endWritten(id);
    model = reply.model ?? model;
    begin(reply.messageId);
    if (reply.thinking && !told.has("reasoning")) push("reasoning", reply.messageId, reply.thinking);
    const text = whole ? answerOf(reply, json) : said ? "" : reply.content;
    if (text !== "") push("text", reply.messageId, text);
    const unreadable = reply.invalidToolCalls.filter((call) => mayBeMended(call, tools));
    const calls = [
      ...reply.toolCalls.map(({ id, name, args }) => ({ id, name, input: JSON.stringify(args) })),
      ...unreadable.map(({ id, name, args }) => ({ id: id ?? `invalid_${name}`, name: String(name), input: args })),
    ];
    const who = reply.fallback?.provider ?? provider;
    const sealed = sealedReasoning(reply, who);
    const takesSeal = current !== undefined || calls.length === 0;
    if (sealed && takesSeal && current === undefined) open("reasoning", reply.messageId);
    close(sealed);
    for (const [index, call] of calls.entries()) {
      if (!written.has(call.id)) {
        /** @type {Block} */
        const block = { kind: "call", id: call.id, name: call.name, ended: false };
        receiver.open(block);
        receiver.piece(block, call.input);
        block.ended = true;
        receiver.close(block);
      }
      receiver.call(call, takesSeal || index > 0 ? undefined : sealed);
    }
    const reason = calls.length > 0 ? "tool-calls" : reasonOf(reply.stopReason);
    receiver.finish({ reason, raw: reply.stopReason, usage: reply.usage, who, reply });
  }
}

/**
 * The reasoning that only the API that gave it can read, on its way through the caller's messages.
 *
 * @param {ProviderReply & { reasoning?: readonly object[] }} reply
 * @param {string} provider
 * @returns {Sealed | undefined}
 */
function sealedReasoning({ reasoning, model, run }, provider) {
  if (!reasoning?.length) return undefined;
  const { login } = /** @type {{ login?: string }} */ (run ?? {});
  return {
    reasoningDetails: reasoning,
    provider,
    ...(model === undefined ? {} : { model }),
    ...(login === undefined ? {} : { run: { login } }),
  };
}

/**
 * The answer as JSON text. A value that was checked against the schema goes before what the model wrote around it.
 *
 * @param {ProviderReply & { structured?: unknown }} reply
 * @param {boolean} json
 */
function answerOf({ content, structured }, json) {
  if (!json) return content;
  if (structured !== undefined) return JSON.stringify(structured);
  const [, fenced] = /^```(?:json)?\s*\n([\s\S]*?)\n?```$/i.exec(content) ?? [];
  return fenced ?? content;
}

/**
 * Whether a call that can't be read is told to the caller, whose framework has the model write it again: of a tool that it has, and with
 * arguments that nobody can take for JSON, so that it can't come to be run as it is.
 *
 * @param {InvalidToolCall} call
 * @param {readonly ToolInput[]} tools
 */
function mayBeMended({ name, args }, tools) {
  if (!tools.some((tool) => "name" in tool && tool.name === name)) return false;
  try {
    JSON.parse(args);
    return false;
  } catch {
    return args.trim() !== "";
  }
}

/** @type {Record<string, Reason>} */
const REASONS = {
  max_tokens: "length",
  length: "length",
  MAX_TOKENS: "length",
  model_context_window_exceeded: "length",
  refusal: "content-filter",
  content_filter: "content-filter",
  SAFETY: "content-filter",
};

/** @param {string | undefined} stopReason @returns {Reason} */
function reasonOf(stopReason) {
  return (stopReason !== undefined && Object.hasOwn(REASONS, stopReason) && REASONS[stopReason]) || "stop";
}

module.exports = { createBlocks };
