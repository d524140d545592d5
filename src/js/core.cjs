"use strict";

/**
 * In: the addon, and what one build of LangChain has to offer. Out: everything the package exports.
 *
 * CommonJS, so that the ESM entries share this module (and `ProviderError`) with the CommonJS ones.
 *
 * @import { Limits, ToolCall } from "../../index.js"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {typeof import("./native.cjs")} Native
 */

const { ProviderError, fault, guard, unwrap } = require("./errors.cjs");
const { takeLogger } = require("./logger.cjs");
const { aiMessageBuilder, encodeMessages, toAIMessageJson, toolCall } = require("./messages.cjs");
const { describe, encodeOptions, requireString, workerEnv } = require("./options.cjs");
const { createProvider } = require("./provider.cjs");

/** @type {WeakMap<Native, number>} */
const owners = new WeakMap();

/**
 * The owner of this environment's child processes, with the one hook that ends them when the process is told to exit:
 * `process.exit()` waits for nothing asynchronous. It is the only listener this package puts on `process`.
 *
 * @param {Native} native
 */
function ownerOf(native) {
  const known = owners.get(native);
  if (known !== undefined) return known;
  const owner = native.attach();
  owners.set(native, owner);
  process.once("exit", () => native.killAll(owner));
  return owner;
}

/**
 * @template [TMessage = import("../../index.js").AIMessageJson]
 * @param {object} parts
 * @param {Native} parts.native
 * @param {(new (fields: Record<string, unknown>) => TMessage) | null} parts.AIMessage `null`: replies are AIMessage-shaped JSON
 * @param {ToJsonSchema | null} parts.toJsonSchema `null`: only schemas that convert themselves can be bound
 */
function createCore({ native, AIMessage, toJsonSchema }) {
  const owner = ownerOf(native);
  const toMessage = /** @type {ReturnType<typeof aiMessageBuilder<TMessage>>} */ (
    AIMessage === null ? toAIMessageJson : aiMessageBuilder(AIMessage)
  );

  return {
    ProviderError,

    /** @param {unknown} value */
    isModelAdapter(value) {
      try {
        return (
          typeof value === "object" &&
          value !== null &&
          "invoke" in value &&
          typeof value.invoke === "function" &&
          !("_generate" in value)
        );
      } catch {
        // A proxy or a getter that throws: whatever it is, it can't be invoked.
        return false;
      }
    },

    /** @param {unknown} [options] */
    createClaudeCliProvider(options) {
      const { log, rest } = takeLogger(options, describe);
      const json = encodeOptions(rest);
      unwrap(native.checkOptions("claude", json));
      const engine = new native.NativeProvider("claude", json, owner);
      return createProvider({ id: "claude", engine, toMessage, toJsonSchema, log });
    },

    /** @returns {Limits} */
    limits() {
      return JSON.parse(native.limits());
    },

    /** @param {unknown} messages */
    messagesToXml(messages) {
      return native.messagesToXml(encodeMessages(messages));
    },

    /** @param {unknown} messages */
    messagesToPrompt(messages) {
      return native.messagesToPrompt(encodeMessages(messages));
    },

    /**
     * @param {unknown} text
     * @returns {ToolCall[]}
     */
    parseToolCalls(text) {
      return JSON.parse(native.parseToolCalls(requireString("text", text))).map(toolCall);
    },

    /** @param {unknown} text */
    escapeXml(text) {
      return native.escapeXml(requireString("text", text));
    },

    /** @param {unknown} text */
    stripAnsi(text) {
      return native.stripAnsi(requireString("text", text));
    },

    /**
     * @param {unknown} file
     * @param {unknown} [args]
     * @param {unknown} [options]
     */
    async execFileAsync(file, args = [], options = undefined) {
      const program = requireString("file", file);
      if (!Array.isArray(args)) throw fault("INVALID_OPTION", `args must be an array, got ${describe(args)}`);
      const list = Array.from(args, (arg, index) => requireString(`args[${index}]`, arg));
      const answer = native.execFile(program, JSON.stringify(list), encodeOptions(options), owner, workerEnv());
      return /** @type {string} */ (unwrap(await guard(answer)));
    },
  };
}

module.exports = { createCore };
