"use strict";

/**
 * In: the events of one call. Out: the parts of the AI SDK's stream, and, of the same parts, the content of an answer that comes whole.
 *
 * @import { ProviderEvent, ProviderReply, TokenUsage } from "../../../index.js"
 * @import { Block, Receiver, Sealed } from "../blocks.cjs"
 * @import { CliContent, CliStreamPart, CliUsage, CliWarning } from "./index.d.cts"
 * @import { Settings } from "./settings.cjs"
 */

const { createBlocks } = require("../blocks.cjs");
const { known } = require("./settings.cjs");
const { METADATA } = require("./words.cjs");

/**
 * Makes the parts of one call, without `stream-start`, event by event. What the provider warns of goes into `warnings`.
 *
 * @param {{ provider: string, settings: Settings, raw?: boolean }} call
 */
function createParts({ provider, settings, raw = false }) {
  const { whole, json, tools, warnings } = settings;
  /** What goes out with the event at hand. @type {CliStreamPart[]} */
  let out = [];
  /** @type {Receiver} */
  const receiver = {
    begin(id, model) {
      out.push({ type: "response-metadata", timestamp: new Date(), ...known({ id, modelId: model }) });
    },
    open: (block) => out.push(opening(block)),
    piece(block, delta) {
      out.push({ type: block.kind === "call" ? "tool-input-delta" : `${block.kind}-delta`, id: block.id, delta });
    },
    close({ kind, id }, sealed) {
      out.push(kind === "call" ? { type: "tool-input-end", id } : { type: `${kind}-end`, id, ...metadataOf(sealed) });
    },
    call({ id, name, input }, sealed) {
      out.push({ type: "tool-call", toolCallId: id, toolName: name, input, ...metadataOf(sealed) });
    },
    executed({ id, name, args }, { content, isError }) {
      const call = { toolCallId: id, toolName: name, dynamic: true };
      out.push({ type: "tool-call", ...call, input: JSON.stringify(args), providerExecuted: true });
      out.push({ type: "tool-result", ...call, result: content, ...(isError ? { isError } : {}) });
    },
    finish({ reason, raw, usage, who, reply, error }) {
      const metadata = reply
        ? replyMetadata(reply, who)
        : plain({
            provider: error?.provider,
            error: { code: error?.code, message: error?.message },
            run: error?.run,
          });
      out.push({
        type: "finish",
        finishReason: { unified: reason, raw },
        usage: usageOf(usage),
        providerMetadata: { [METADATA]: metadata },
      });
    },
  };
  const blocks = createBlocks({ provider, tools, json, whole }, receiver);

  return {
    /**
     * @param {ProviderEvent} event
     * @returns {CliStreamPart[]}
     */
    push(event) {
      out = raw ? [{ type: "raw", rawValue: event }] : [];
      if (event.type === "warning") warnings.push(warningOf(event));
      blocks.push(event);
      return out;
    },

    /**
     * What the call failed with: parts, where the AI SDK has a finish reason for it. Throws every other error.
     *
     * @param {unknown} error
     * @returns {CliStreamPart[]}
     */
    fail(error) {
      out = [];
      blocks.fail(error);
      return out;
    },
  };
}

/** @param {Block} block @returns {CliStreamPart} */
function opening({ kind, id, name = "" }) {
  return kind === "call" ? { type: "tool-input-start", id, toolName: name } : { type: `${kind}-start`, id };
}

/** Sealed reasoning as metadata of a part: `prompt.cjs` reads it there. @param {Sealed | undefined} sealed */
const metadataOf = (sealed) => (sealed ? { providerMetadata: { [METADATA]: plain(sealed) } } : {});

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
  ["reasoning", "reasoning"],
  ["reasoning.effort", "reasoning"],
  ["toolChoice", "toolChoice"],
  ["outputSchema", "responseFormat"],
]);

/**
 * @param {{ code: string, message: string }} event
 * @returns {CliWarning}
 */
function warningOf({ code, message }) {
  const [, option = ""] = code === "UNSUPPORTED_OPTION" ? (/[`"]([\w.]+)[`":]/.exec(message) ?? []) : [];
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
