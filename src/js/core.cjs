"use strict";

/**
 * In: the addon, and what one build of LangChain has to offer. Out: everything the package exports.
 *
 * CommonJS, so that the ESM entries share this module (and `ProviderError`) with the CommonJS ones. What many a program never
 * calls (agents, fallback, health, run logs) is read when it is first called: each file costs an import some 0.3 ms.
 *
 * @import { ErrorClassification, FallbackProvider, Limits, ParsedOutput, ProviderErrorInit, ToolCall } from "../../index.js"
 * @import { MessageClasses } from "./thread.cjs"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {typeof import("./native.cjs")} Native
 * @typedef {Exclude<Extract<keyof typeof import("../../index.js"), `create${string}CliProvider`>, "createCliProvider">} BuiltInFactory
 */

const { createClaudeCode } = require("./claude-code.cjs");
const { ProviderError, fault, guard, providerError, unwrap } = require("./errors.cjs");
const { takeLogger } = require("./logger.cjs");
const { createCopies } = require("./copies.cjs");
const { createKnown } = require("./known.cjs");
const { aiMessageBuilder, packMessages, toAIMessageJson, toolCall } = require("./messages.cjs");
const {
  describe,
  encodeConfig,
  encodeContext,
  encodeOptions,
  readParseOptions,
  requireString,
  workerEnv,
} = require("./options.cjs");
const { createProvider } = require("./provider.cjs");
const { quotaOf } = require("./quota.cjs");
const { registerTranslator } = require("./reasoning.cjs");
const { readRegistry } = require("./registry.cjs");

/** @type {WeakMap<Native, number>} */
const owners = new WeakMap();

/**
 * The owner of this environment's child processes, with the one hook that ends them when the process is asked to exit:
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
 * A function that is made when it is first called.
 *
 * @template {unknown[]} A
 * @template R
 * @param {() => (...args: A) => R} make
 * @returns {(...args: A) => R}
 */
function lazily(make) {
  /** @type {((...args: A) => R) | undefined} */
  let made;
  return (...args) => {
    made ??= make();
    return made(...args);
  };
}

/**
 * @template [TMessage = import("../../index.js").AIMessageJson]
 * @param {object} parts
 * @param {Native} parts.native
 * @param {(new (fields: Record<string, unknown>) => TMessage) | null} parts.AIMessage `null`: replies are AIMessage-shaped JSON
 * @param {ToJsonSchema | null} parts.toJsonSchema `null`: only schemas that convert themselves can be bound
 * @param {MessageClasses | null} [parts.messages] of the same LangChain; `null`: an agent's thread is plain objects
 */
function createCore({ native, AIMessage, toJsonSchema, messages = null }) {
  const owner = ownerOf(native);
  const known = createKnown(native);
  const copies = createCopies(AIMessage);
  if (AIMessage !== null) registerTranslator();
  const toMessage = /** @type {ReturnType<typeof aiMessageBuilder<TMessage>>} */ (
    AIMessage === null ? toAIMessageJson : aiMessageBuilder(AIMessage)
  );

  /**
   * What JavaScript itself does with a provider's options, and the rest for the native side.
   *
   * @param {unknown} options
   */
  const split = (options) => {
    const { log, rest } = takeLogger(options, describe);
    return { log, ...splitTelemetry(rest) };
  };

  /**
   * @param {unknown} options
   * @returns {{ rest: unknown, telemetry: import("./telemetry/index.cjs").Telemetry | undefined }}
   */
  const splitTelemetry = (options) => {
    if (typeof options !== "object" || options === null || !("telemetry" in options)) {
      return { rest: options, telemetry: undefined };
    }
    const { telemetry, ...rest } = options;
    return { rest, telemetry: readTelemetry(telemetry, rest) };
  };

  /**
   * Read where it is asked for: who has no telemetry loads none of it.
   *
   * @param {unknown} option
   * @param {unknown} [options]
   */
  const readTelemetry = (option, options) =>
    option === undefined || option === false
      ? undefined
      : require("./telemetry/index.cjs").readTelemetry(option, native, options);

  /**
   * The provider that `make` makes of the options that are the native side's.
   *
   * @param {unknown} options
   * @param {(rest: unknown) => import("./native.cjs").NativeProvider} make
   * @param {boolean} [isApi] an API, and no CLI
   */
  const provider = (options, make, isApi = false) => {
    // How many calls it makes at a time where `maxConcurrency` is not said.
    const otherwise = isApi ? 64 : 4;
    const { log, rest, telemetry } = split(options);
    const engine = make(rest);
    unwrap(engine.check());
    const { id } = engine;
    const [asked, quota] = [askedOf(id, rest), quotaOf(rest)];
    const { maxConcurrency: places = otherwise } = /** @type {{ maxConcurrency?: number }} */ (rest ?? {});
    const its = { log, telemetry, asked, options: rest, quota, places, isApi };
    return createProvider({ id, engine, known, copies, toMessage, toJsonSchema, ...its });
  };

  /** @param {string} id */
  const factory =
    (id) =>
    (/** @type {unknown} */ options = undefined) =>
      provider(options, (rest) => new native.NativeProvider(id, encodeOptions(rest), owner));

  const registry = readRegistry(native);
  const factories = /** @type {Record<BuiltInFactory, ReturnType<typeof factory>>} */ (
    Object.fromEntries(registry.map(({ id, name }) => [`create${name}CliProvider`, factory(id)]))
  );

  return {
    ProviderError,
    ...createClaudeCode(native, owner, splitTelemetry),

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

    ...factories,

    /**
     * @param {unknown} config
     * @param {unknown} [options]
     */
    createCliProvider: (config, options) =>
      provider(options, (rest) => native.NativeProvider.custom(encodeConfig(config), encodeOptions(rest), owner)),

    /** @param {unknown} agent */
    createAcpProvider(agent) {
      const { command, args, name, ...options } = Object(agent);
      // What is not said is no field.
      const config = Object.fromEntries(
        Object.entries({ command, args, name }).filter(([, value]) => value !== undefined),
      );
      return provider(options, (rest) => native.NativeProvider.acp(encodeConfig(config), encodeOptions(rest), owner));
    },

    /** @param {unknown} options */
    createOpenAiCompatibleProvider: (options) =>
      provider(options, (rest) => native.NativeProvider.api(encodeOptions(rest)), true),

    runAgent: lazily(() => {
      const { createRunAgent } = require("./agent.cjs");
      const { threadBuilder } = require("./thread.cjs");
      return createRunAgent({ native, thread: threadBuilder(toMessage, messages), toJsonSchema, readTelemetry });
    }),

    createFileCheckpoint: lazily(() => require("./file-checkpoint.cjs").createFileCheckpoints(native)),

    /**
     * @param {unknown} [providers]
     * @param {unknown} [options]
     */
    checkHealth(providers, options) {
      const everyKind = () => registry.map(({ id }) => factory(id)());
      return require("./health.cjs").checkHealth(providers, options, everyKind);
    },

    /** @returns {Limits} */
    limits() {
      return JSON.parse(native.limits());
    },

    /**
     * @param {unknown} adapters
     * @param {unknown} [options]
     * @returns {FallbackProvider<TMessage>}
     */
    createFallbackProvider(adapters, options) {
      const { rest, telemetry } = splitTelemetry(options);
      const provider = require("./fallback.cjs").createFallbackProvider(native, adapters, rest);
      return telemetry ? require("./telemetry/whole.cjs").observeFallback(provider, telemetry) : provider;
    },

    /**
     * @param {unknown} text
     * @param {unknown} [context]
     * @returns {ErrorClassification}
     */
    classifyError(text, context) {
      const answer = native.classifyError(requireString("text", text), encodeContext(context), Date.now());
      const found = providerError(/** @type {ProviderErrorInit} */ (unwrap(answer)));
      const { category, code, shouldRetry, shouldFallback, retryAfterMs, resetsAt, message } = found;
      return {
        category,
        code,
        shouldRetry,
        shouldFallback,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
        ...(resetsAt === undefined ? {} : { resetsAt }),
        message,
      };
    },

    /** @param {unknown} messages */
    messagesToXml(messages) {
      const { json, texts, plan } = packMessages(messages);
      return native.messagesToXml(json, texts, plan);
    },

    /** @param {unknown} messages */
    messagesToPrompt(messages) {
      const { json, texts, plan } = packMessages(messages);
      return native.messagesToPrompt(json, texts, plan);
    },

    /**
     * @param {unknown} text
     * @returns {ToolCall[]}
     */
    parseToolCalls(text) {
      return JSON.parse(native.parseToolCalls(requireString("text", text))).map(toolCall);
    },

    /**
     * @param {unknown} stdout
     * @param {unknown} [options]
     * @returns {ParsedOutput}
     */
    parseCliOutput(stdout, options) {
      const text = requireString("stdout", stdout);
      const { format, provider } = readParseOptions(options);
      const { toolCalls, error, ...parsed } = JSON.parse(native.parseCliOutput(text, format, provider));
      const when = error?.resetsAt === undefined ? {} : { resetsAt: new Date(error.resetsAt) };
      return { ...parsed, toolCalls: toolCalls.map(toolCall), ...(error ? { error: { ...error, ...when } } : {}) };
    },

    /**
     * @param {unknown} path
     * @param {unknown} [options]
     */
    replayRun: (path, options) => require("./replay.cjs").replayRun(native, toMessage, path, options),

    /**
     * @param {unknown} path
     * @param {unknown} [options]
     */
    renderRunLog: (path, options) => require("./replay.cjs").renderRunLog(native, path, options),

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

/**
 * Whom the calls of a provider ask, for telemetry.
 *
 * @param {string} provider
 * @param {unknown} options
 */
function askedOf(provider, options) {
  const { model, baseURL } = /** @type {{ model?: string, baseURL?: string }} */ (options ?? {});
  return { provider, model: model || undefined, baseURL };
}

module.exports = { createCore, ownerOf };
