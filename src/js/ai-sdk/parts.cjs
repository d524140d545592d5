"use strict";

/**
 * In: the events of one call. Out: the parts of the AI SDK's stream, and, of the same parts, the content of an answer that comes whole.
 *
 * Calls go out with the reply, not when the model makes them: only then is it known which of them are the caller's to run. What a model
 * writes of their arguments goes out as it comes (`tool-input-delta`). None of them is made here of a text; what the native side found to
 * be a call is one.
 *
 * @import { InvalidToolCall, ProviderError, ProviderEvent, ProviderReply, TokenUsage, ToolCall } from "../../../index.js"
 * @import { CliContent, CliFinishReason, CliProviderMetadata, CliStreamPart, CliUsage, CliWarning } from "./index.d.cts"
 * @import { Settings } from "./settings.cjs"
 */

const { isProviderError } = require("../errors.cjs");
const { known } = require("./settings.cjs");
const { METADATA } = require("./words.cjs");

/** Failures that the AI SDK has a finish reason for: what had come by then is the answer, and the reason says what it is. */
const FINISHED = /** @type {const} */ ({ MAX_TOKENS: "length", REFUSAL: "content-filter" });

/**
 * Makes the parts of one call, without `stream-start`, event by event. What the provider warns of goes into `warnings`.
 *
 * Nothing here waits, so a call costs one turn for each event and none for each part.
 *
 * @param {{ provider: string, settings: Settings, raw?: boolean }} call
 */
function createParts({ provider, settings, raw = false }) {
  const { whole, json, tools, warnings } = settings;
  /** What goes out with the event at hand. @type {CliStreamPart[]} */
  let out = [];
  const blocks = createBlocks((part) => out.push(part));
  /** @type {Map<string, ToolCall>} calls that the CLI may still answer itself */
  const held = new Map();
  /** Calls whose arguments came piece by piece, and whether they are whole. @type {Map<string, boolean>} */
  const written = new Map();
  /** The model and the session, as the CLI names them before it answers. */
  let model = /** @type {string | undefined} */ (undefined);
  let named = false;
  let said = false;
  /** Whether pieces came of a message that has no id, and is not whole yet. */
  let unnamed = false;

  return {
    /**
     * @param {ProviderEvent} event
     * @returns {CliStreamPart[]}
     */
    push(event) {
      out = raw ? [{ type: "raw", rawValue: event }] : [];
      read(event);
      return out;
    },

    /**
     * What the call failed with: parts, where the AI SDK has a finish reason for it. Throws every other error.
     *
     * @param {unknown} error
     * @returns {CliStreamPart[]}
     */
    fail(error) {
      const unified = isProviderError(error) ? FINISHED[/** @type {keyof typeof FINISHED} */ (error.code)] : undefined;
      if (unified === undefined) throw error;
      out = [];
      metadata(undefined);
      cutShort(/** @type {ProviderError} */ (error), unified);
      return out;
    },
  };

  /** Once, before anything else. @param {string | undefined} id */
  function metadata(id) {
    if (named) return;
    named = true;
    out.push({ type: "response-metadata", timestamp: new Date(), ...known({ id, modelId: model }) });
  }

  /** @param {ProviderEvent} event */
  function read(event) {
    switch (event.type) {
      case "session":
        model = event.model ?? model;
        break;
      case "warning":
        warnings.push(warningOf(event));
        break;
      case "thinking_delta":
        metadata(event.messageId);
        blocks.push("reasoning", event.messageId, event.text);
        break;
      case "text_delta":
        if (whole) break;
        said = true;
        unnamed ||= event.messageId === undefined && event.text !== "";
        metadata(event.messageId);
        blocks.push("text", event.messageId, event.text);
        break;
      case "message": {
        if (whole) break;
        const told = event.id === undefined ? unnamed : blocks.holdsMessage(event.id);
        unnamed = false;
        if (event.content.trim() !== "" && !told) {
          said = true;
          metadata(event.id);
          blocks.push("text", event.id, event.content.trim());
        }
        blocks.end();
        break;
      }
      case "tool_call_delta":
        if (whole) break;
        metadata(undefined);
        blocks.close();
        if (!written.has(event.toolCallId)) {
          written.set(event.toolCallId, false);
          out.push({ type: "tool-input-start", id: event.toolCallId, toolName: event.name });
        }
        out.push({ type: "tool-input-delta", id: event.toolCallId, delta: event.delta });
        break;
      case "tool_call":
        held.set(event.toolCall.id, event.toolCall);
        endInput(event.toolCall.id);
        break;
      case "tool_result": {
        const call = held.get(event.toolCallId);
        held.delete(event.toolCallId);
        if (call === undefined) break;
        metadata(undefined);
        blocks.close();
        out.push(...executed(call, event));
        break;
      }
      case "done":
        finish(event.reply);
        break;
      default:
    }
  }

  /** The arguments of this call are whole, if they came in pieces. @param {string} id */
  function endInput(id) {
    if (written.get(id) !== false) return;
    written.set(id, true);
    out.push({ type: "tool-input-end", id });
  }

  /** @param {ProviderReply} reply */
  function finish(reply) {
    // Also of one that came to nothing: its answer broke off, or it can't be read.
    for (const id of written.keys()) endInput(id);
    model = reply.model ?? model;
    metadata(reply.messageId);
    if (reply.thinking && !blocks.holds("reasoning")) blocks.push("reasoning", reply.messageId, reply.thinking);
    const text = whole ? answerOf(reply, json) : said ? "" : reply.content;
    if (text !== "") blocks.push("text", reply.messageId, text);
    const unreadable = reply.invalidToolCalls.filter((call) => mayBeMended(call, tools));
    const calls = [
      ...reply.toolCalls.map(({ id, name, args }) => ({ id, name, input: JSON.stringify(args) })),
      ...unreadable.map(({ id, name, args }) => ({ id: id ?? `invalid_${name}`, name: String(name), input: args })),
    ];
    const who = reply.fallback?.provider ?? provider;
    const sealed = sealedReasoning(reply, who);
    const takesSeal = blocks.isOpen() || calls.length === 0;
    if (sealed && takesSeal && !blocks.isOpen()) blocks.open("reasoning", reply.messageId);
    blocks.close(sealed);
    for (const [index, call] of calls.entries())
      out.push(...called(call, written.has(call.id), takesSeal || index > 0 ? undefined : sealed));
    const asks = calls.length > 0;
    out.push({
      type: "finish",
      finishReason: { unified: asks ? "tool-calls" : finishOf(reply.stopReason), raw: reply.stopReason },
      usage: usageOf(reply.usage),
      providerMetadata: { [METADATA]: replyMetadata(reply, who) },
    });
  }

  /**
   * @param {ProviderError} error
   * @param {CliFinishReason["unified"]} unified
   */
  function cutShort(error, unified) {
    const { code, message, partial, usage } = error;
    if (!said && partial?.text) blocks.push("text", undefined, partial.text);
    for (const id of written.keys()) endInput(id);
    blocks.close();
    out.push({
      type: "finish",
      finishReason: { unified, raw: code },
      usage: usageOf(usage ?? partial?.usage),
      providerMetadata: { [METADATA]: plain({ provider: error.provider, error: { code, message }, run: error.run }) },
    });
  }
}

/**
 * The text and reasoning blocks of one stream: one is open at a time, and a block is of one message.
 *
 * @param {(part: CliStreamPart) => void} send
 */
function createBlocks(send) {
  let count = 0;
  /** @type {{ kind: "text" | "reasoning", id: string, message: string | undefined, ended: boolean } | undefined} */
  let current;
  /** @type {Set<string>} of which kind, and of which message, something was told */
  const told = new Set();

  const blocks = {
    isOpen: () => current !== undefined,

    /** @param {CliProviderMetadata} [providerMetadata] */
    close(providerMetadata) {
      if (current === undefined) return;
      const { kind, id } = current;
      current = undefined;
      send({ type: `${kind}-end`, id, ...(providerMetadata ? { providerMetadata } : {}) });
    },

    /** The message is whole: what comes next is another block. This one stays open for what the reply has to say of it. */
    end() {
      if (current) current.ended = true;
    },

    /**
     * @param {"text" | "reasoning"} kind
     * @param {string | undefined} message
     */
    open(kind, message) {
      blocks.close();
      const id = `${kind}-${++count}`;
      current = { kind, id, message, ended: false };
      told.add(kind).add(`${kind} ${message ?? ""}`);
      send({ type: `${kind}-start`, id });
    },

    /**
     * @param {"text" | "reasoning"} kind
     * @param {string | undefined} message
     * @param {string} delta
     */
    push(kind, message, delta) {
      if (delta === "") return;
      if (current?.kind !== kind || current.message !== message || current.ended) blocks.open(kind, message);
      if (current) send({ type: `${kind}-delta`, id: current.id, delta });
    },

    /** Whether anything of this kind was told. @param {"text" | "reasoning"} kind */
    holds: (kind) => told.has(kind),

    /** Whether this message's text was told piece by piece. @param {string} message */
    holdsMessage: (message) => told.has(`text ${message}`),
  };
  return blocks;
}

/**
 * The reasoning that only the API that gave it can read, on its way through the caller's messages (`prompt.cjs` reads it there).
 *
 * @param {ProviderReply & { reasoning?: readonly object[] }} reply
 * @param {string} provider
 * @returns {CliProviderMetadata | undefined}
 */
function sealedReasoning({ reasoning, model, run }, provider) {
  if (!reasoning?.length) return undefined;
  const { login } = /** @type {{ login?: string }} */ (run ?? {});
  return {
    [METADATA]: plain({
      reasoningDetails: reasoning,
      provider,
      model,
      run: login === undefined ? undefined : { login },
    }),
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
 * A call for the caller to run.
 *
 * @param {{ id: string, name: string, input: string }} call `input` is JSON text
 * @param {boolean} written its arguments came piece by piece
 * @param {CliProviderMetadata} [providerMetadata]
 * @returns {CliStreamPart[]}
 */
function called({ id, name, input }, written, providerMetadata) {
  const metadata = providerMetadata ? { providerMetadata } : {};
  /** @type {CliStreamPart[]} */
  const whole = [
    { type: "tool-input-start", id, toolName: name },
    { type: "tool-input-delta", id, delta: input },
    { type: "tool-input-end", id },
  ];
  return [...(written ? [] : whole), { type: "tool-call", toolCallId: id, toolName: name, input, ...metadata }];
}

/**
 * A call that the CLI has run by itself, and what came back.
 *
 * @param {ToolCall} call
 * @param {{ content: string, isError: boolean }} result
 * @returns {CliStreamPart[]}
 */
function executed({ id, name, args }, { content, isError }) {
  const call = { toolCallId: id, toolName: name, dynamic: true };
  return [
    { type: "tool-call", ...call, input: JSON.stringify(args), providerExecuted: true },
    { type: "tool-result", ...call, result: content, ...(isError ? { isError } : {}) },
  ];
}

/**
 * Whether a call that can't be read is told to the AI SDK, which has the model write it again: of a tool that it has, and with
 * arguments that nobody can take for JSON, so that it can't come to be run as it is.
 *
 * @param {InvalidToolCall} call
 * @param {Settings["tools"]} tools
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

/** @type {Record<string, CliFinishReason["unified"]>} */
const FINISH = {
  max_tokens: "length",
  length: "length",
  MAX_TOKENS: "length",
  model_context_window_exceeded: "length",
  refusal: "content-filter",
  content_filter: "content-filter",
  SAFETY: "content-filter",
};

/**
 * @param {string | undefined} stopReason
 * @returns {CliFinishReason["unified"]}
 */
function finishOf(stopReason) {
  return (stopReason !== undefined && Object.hasOwn(FINISH, stopReason) && FINISH[stopReason]) || "stop";
}

/**
 * @param {TokenUsage | undefined} usage
 * @returns {CliUsage}
 */
function usageOf(usage) {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens } = /** @type {TokenUsage} */ (
    usage ?? {}
  );
  const cached = cacheReadTokens !== undefined || cacheWriteTokens !== undefined;
  return {
    inputTokens: {
      total: inputTokens,
      noCache: cached ? inputTokens - (cacheReadTokens ?? 0) - (cacheWriteTokens ?? 0) : undefined,
      cacheRead: cacheReadTokens,
      cacheWrite: cacheWriteTokens,
    },
    outputTokens: {
      total: outputTokens,
      text: reasoningTokens === undefined ? undefined : outputTokens - reasoningTokens,
      reasoning: reasoningTokens,
    },
    ...(usage ? { raw: plain(usage) } : {}),
  };
}

/** What of a reply is not its metadata, because it stands elsewhere. */
const ELSEWHERE = [
  "content",
  "messages",
  "toolCalls",
  "invalidToolCalls",
  "thinking",
  "reasoning",
  "structured",
  "usage",
];

/**
 * What else is known of an answer.
 *
 * @param {ProviderReply} reply
 * @param {string} provider
 */
function replyMetadata(reply, provider) {
  /** @type {Partial<ProviderReply> & Record<string, unknown>} */
  const facts = { ...reply };
  for (const field of ELSEWHERE) delete facts[field];
  const { invalidToolCalls, usage } = reply;
  return plain({
    provider,
    ...facts,
    ...(invalidToolCalls.length > 0 ? { invalidToolCalls } : {}),
    ...(usage.estimated ? { usageEstimated: true } : {}),
  });
}

/**
 * As JSON has it.
 *
 * @param {object} value
 */
function plain(value) {
  return JSON.parse(JSON.stringify(value));
}

/** The AI SDK's names of options of ours, as they stand in the message that one was left out. */
const SETTINGS = new Map([
  ["temperature", "temperature"],
  ["maxOutputTokens", "maxOutputTokens"],
  ["stop", "stopSequences"],
  ["reasoning.effort", "reasoning"],
  ["toolChoice", "toolChoice"],
  ["outputSchema", "responseFormat"],
]);

/**
 * @param {{ code: string, message: string }} event
 * @returns {CliWarning}
 */
function warningOf({ code, message }) {
  const [, option = ""] = code === "UNSUPPORTED_OPTION" ? (/[`"]([\w.]+)[`"]/.exec(message) ?? []) : [];
  const feature = SETTINGS.get(option);
  if (feature !== undefined) return { type: "unsupported", feature, details: message };
  return { type: "other", message: `${code}: ${message}` };
}

/**
 * The content of an answer, of the parts of its stream.
 *
 * @param {readonly CliStreamPart[]} parts
 * @returns {CliContent[]}
 */
function contentOf(parts) {
  /** @type {CliContent[]} */
  const content = [];
  /** @type {Map<string, Extract<CliContent, { text: string }>>} */
  const open = new Map();
  for (const part of parts) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const block = {
          type: part.type === "text-start" ? /** @type {const} */ ("text") : /** @type {const} */ ("reasoning"),
          text: "",
        };
        open.set(part.id, block);
        content.push(block);
        break;
      }
      case "text-delta":
      case "reasoning-delta": {
        const block = open.get(part.id);
        if (block) block.text += part.delta;
        break;
      }
      case "text-end":
      case "reasoning-end": {
        const block = open.get(part.id);
        if (block && part.providerMetadata) block.providerMetadata = part.providerMetadata;
        break;
      }
      case "tool-call":
      case "tool-result":
        content.push(part);
        break;
      default:
    }
  }
  return content;
}

module.exports = { contentOf, createParts };
