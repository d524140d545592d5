"use strict";

/**
 * In: the events of a script's answer. Out: those of a run, and the reply they come to: what `src/text/fold.rs` and `src/provider/judge.rs` make of the
 * same events. A test holds the two against each other.
 *
 * @import { ProviderEvent, ProviderReply, TokenUsage } from "../../../index.js"
 * @import { ScriptedRequest, ScriptEvent } from "./types.cjs"
 */

const { adviceOf } = require("./codes.cjs");

const PIECES = new Set(["text_delta", "thinking_delta", "tool_call_delta"]);
/** The stop reasons of an answer that is as long as it may be. */
const LIMITS = new Set(["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"]);
const SILENT = "the model ended its turn behind a tool's result without a word: the answer is empty";

/**
 * @param {ScriptedRequest} request
 * @param {(event: ProviderEvent) => void} send
 * @param {{ partial: boolean }} wants whether pieces are sent
 */
function createFold(request, send, { partial }) {
  /** @type {ProviderReply} */
  const reply = { content: "", messages: [], toolCalls: [], invalidToolCalls: [], usage: nothing() };
  const taken = new Set(request.messages.flatMap((message) => (message.tool_calls ?? []).map(({ id }) => id)));
  /** @type {Map<string, string>} the ids that calls came with, and those that they have */
  const ids = new Map();
  /** @type {Map<string, string>} calls without a result, by the ids they came with: told once more, such a call is still one */
  const open = new Map();
  let pieces = "";
  let thinking = "";
  let received = "";
  let events = 0;
  /** @type {TokenUsage | undefined} */
  let usage;

  /** @param {any} event */
  const out = (event) => {
    events += 1;
    if (partial || !PIECES.has(event.type)) send(event);
  };

  /** @param {string} id */
  const unique = (id) => {
    let next = id;
    for (let number = 2; taken.has(next); number += 1) next = `${id}_${number}`;
    taken.add(next);
    ids.set(id, next);
    return next;
  };

  /** @param {ScriptEvent} event */
  function message(event) {
    const { id, content } = event;
    if (pieces === "" && content !== "") out({ type: "text_delta", ...(id && { messageId: id }), text: content });
    pieces = "";
    received += content;
    if (id) reply.messageId = id;
    if (content === "") return;
    const its = { ...(id && { id }), content };
    reply.messages.push(its);
    reply.content = content.trim();
    out({ type: "message", ...its });
  }

  return {
    /** @param {ScriptEvent} event no end */
    push(event) {
      switch (event.type) {
        case "text_delta":
          pieces += event.text;
          return out(event);
        case "thinking_delta":
          thinking += event.text;
          return out(event);
        case "message":
          return message(event);
        case "tool_call": {
          const { id, name, args } = event.toolCall;
          const its = JSON.stringify([name, args]);
          if (open.get(id) === its) return undefined;
          open.set(id, its);
          const toolCall = { ...event.toolCall, id: unique(id) };
          reply.toolCalls.push(toolCall);
          return out({ type: "tool_call", toolCall });
        }
        case "tool_result": {
          const toolCallId = ids.get(event.toolCallId) ?? event.toolCallId;
          open.delete(event.toolCallId);
          reply.toolCalls = reply.toolCalls.filter(({ id }) => id !== toolCallId);
          return out({ ...event, toolCallId });
        }
        case "invalid_tool_call":
          reply.invalidToolCalls.push(event.invalidToolCall);
          return out(event);
        case "usage":
          usage = event.usage;
          return event.usage.totalTokens === 0 ? undefined : out(event);
        case "session": {
          const { sessionId, model, permissionMode, version } = event;
          Object.assign(reply, defined({ sessionId, model, permissionMode, cliVersion: version }));
          return out(event);
        }
        default:
          return out(event);
      }
    },

    /** What an error tells of the answer so far. */
    partial: () => ({ text: received + pieces, events, ...(usage && { usage }) }),

    /**
     * @param {ScriptEvent} over
     * @returns {{ reply: ProviderReply } | { error: Record<string, unknown> }}
     */
    finish({ type: _, ...figures }) {
      const { stopReason, model = reply.model, costUsd, durationMs, numTurns, sessionId = reply.sessionId } = figures;
      Object.assign(reply, defined({ model, stopReason, costUsd, durationMs, numTurns, sessionId }));
      if (thinking !== "") Object.assign(reply, { thinking, reasoning: [{ type: "reasoning.text", text: thinking }] });
      const silent = reply.content === "" && reply.toolCalls.length === 0 && reply.invalidToolCalls.length === 0;
      const isCut = LIMITS.has(stopReason);
      if (silent && (isCut || request.messages.at(-1)?.type !== "tool")) {
        return { error: { ...adviceOf(isCut ? "MAX_TOKENS" : "EMPTY_RESPONSE"), message: whyEmpty(isCut, thinking) } };
      }
      if (silent) {
        reply.diagnostics = [SILENT];
        out({ type: "warning", code: "EMPTY_RESPONSE", message: SILENT });
      }
      reply.usage = usage ?? nothing();
      return { reply };
    },
  };
}

/** @returns {TokenUsage} */
const nothing = () => ({ inputTokens: 0, outputTokens: 0, totalTokens: 0 });

/** @param {Record<string, unknown>} fields */
const defined = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/**
 * @param {boolean} isCut
 * @param {string} thinking
 */
function whyEmpty(isCut, thinking) {
  if (isCut) return "the answer reached the limit of output tokens before its first word";
  const why = "the turn ended well, without a word and without a call";
  return thinking.trim() === "" ? why : `${why}: all that came is reasoning`;
}

module.exports = { createFold };
