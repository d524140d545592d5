"use strict";

/**
 * In: LangChain's `BaseChatModel` in one of its builds, and this package's providers. Out: chat models over them.
 *
 * A thin layer: the provider reads the messages, makes the calls, and builds the answers. Here is what LangChain calls by other
 * names. A call's tools and choices come with the call, so one model serves any number at a time.
 *
 * @import { CliProvider } from "../../../index.js"
 * @import { Call, Init } from "./fields.cjs"
 * @import { Parts as StructuredParts } from "./structured.cjs"
 */

const { AS_TEXT, unbound } = require("../provider.cjs");
const { formatTools } = require("./bound-tools.cjs");
const { createChunker } = require("./chunks.cjs");
const { asBlocks, chunkOf, fieldsOf, resultOf, textOf } = require("./generations.cjs");
const { SERIALIZED, compact, readCall, readCliFields, readProviderFields } = require("./fields.cjs");
const { fingerprintOf, identityOf } = require("./identity.cjs");
const { profileOf, vendorOf } = require("./profiles.cjs");
const { everyProvider } = require("../registry.cjs");
const { priceName } = require("./sizes.cjs");
const { checkArguments } = require("./strict.cjs");
const { structured } = require("./structured.cjs");

/**
 * @typedef {object} Parts
 * @property {any} BaseChatModel
 * @property {any} AIMessageChunk
 * @property {any} ChatGenerationChunk
 * @property {any} [Validator] not in early versions of 0.3
 *
 * @typedef {(options?: any) => CliProvider<any>} Factory
 */

/** The classes an instance is of, by name: for `instanceof` between the ESM and the CommonJS build. */
const KINDS = Symbol.for("deep-factor-providers.chat-models");
/** Marks what a constructor of ours hands to that of its parent. */
const INIT = Symbol("init");

/**
 * @param {Parts & StructuredParts} parts
 * @param {Readonly<Record<string, unknown>>} factories by the names that the package exports them under
 */
function createChatModels(parts, factories) {
  const { AIMessage, AIMessageChunk, BaseChatModel, ChatGenerationChunk } = parts;

  class ChatCli extends BaseChatModel {
    static lc_name() {
      return "ChatCli";
    }

    /** @param {any} given */
    constructor(given) {
      /** @type {Init} */
      const init = given?.[INIT] ?? readProviderFields(given);
      super(init.base);
      const { provider, options, defaults, fields } = init;
      this.name = fields.name;
      this.lc_serializable = options !== undefined;
      this.lc_namespace = ["deep-factor-providers", "langchain"];
      /** The provider that makes the calls. */
      this.provider = provider;
      this.model = typeof options?.model === "string" && options.model !== "" ? options.model : undefined;
      this.temperature = defaults.temperature;
      this.maxTokens = defaults.maxTokens;
      this.stop = defaults.stop;
      this.streaming = defaults.streaming ?? false;
      hide(this, "_profile", defaults.profile);
      hide(this, "_fingerprint", options === undefined ? identityOf(provider) : () => fingerprintOf(options));
      // Nothing that is bound to the caller's own adapter is in these calls, and nothing here changes what that remembers.
      hide(this, "_adapter", unbound(provider));
      hide(this, "_bound", new WeakMap());
      hide(this, "_answered", undefined);
    }

    get [KINDS]() {
      return ["ChatCli"];
    }

    get lc_serializable_keys() {
      return [...SERIALIZED];
    }

    get callKeys() {
      return [...super.callKeys, "tools", "tool_choice", "strict", "outputSchema", "response_format", "model"];
    }

    /** The model's context size and abilities. Which model a CLI has chosen, or means by `sonnet`, is known from its first answer on. */
    get profile() {
      return profileOf(this.provider.id, this._answered ?? this.model, this._profile);
    }

    _llmType() {
      return "cli";
    }

    /** What makes two models different for a cache: no option's value is in it that could be a secret. */
    _identifyingParams() {
      if (typeof this._fingerprint === "function") hide(this, "_fingerprint", this._fingerprint());
      return compact({
        provider: this.provider.id,
        model: this.model,
        temperature: this.temperature,
        maxTokens: this.maxTokens,
        stop: this.stop,
        options: this._fingerprint,
      });
    }

    /** @param {any} options */
    _getSerializedCacheKeyParametersForCall({ signal: _, timeout: __, record: ___, ...options }) {
      return super._getSerializedCacheKeyParametersForCall(options);
    }

    /** @param {any} [options] */
    invocationParams(options = {}) {
      const call = readCall(options, this);
      return compact({
        model: call.model ?? this.model,
        temperature: call.temperature,
        max_tokens: call.maxOutputTokens,
        stop: call.stop,
        tools: options.tools,
        tool_choice: options.tool_choice,
      });
    }

    /** @param {any} options */
    getLsParams(options = {}) {
      const call = readCall(options, this);
      const model = call.model ?? this.model;
      return {
        ls_provider: vendorOf(this.provider.id, model),
        ls_model_name: priceName(model),
        ls_model_type: "chat",
        ls_temperature: call.temperature,
        ls_max_tokens: call.maxOutputTokens,
        ls_stop: call.stop,
      };
    }

    /**
     * A quarter of the characters, as where a backend reports no counts. LangChain's own loads a tokeniser's tables from the network,
     * and no CLI's model has that tokeniser.
     *
     * @param {string | (string | { type?: string, text?: string })[]} content
     */
    async getNumTokens(content) {
      const parts = typeof content === "string" ? [content] : content;
      const texts = parts.map((part) =>
        typeof part === "string" ? part : part.type === "text" ? (part.text ?? "") : "",
      );
      return Math.ceil(texts.join("").length / 4);
    }

    /**
     * @param {any[]} tools
     * @param {any} [kwargs]
     */
    bindTools(tools, kwargs = {}) {
      return this.withConfig({ ...kwargs, tools: formatTools(tools, parts.toJsonSchema) });
    }

    /**
     * @param {any} outputSchema
     * @param {any} [config]
     */
    withStructuredOutput(outputSchema, config) {
      return structured(parts, this, outputSchema, config);
    }

    /**
     * @param {any[]} messages
     * @param {any} options
     * @param {any} [runManager]
     */
    async _generate(messages, options, runManager) {
      if (this.streaming) return await this._generateByStream(messages, options, runManager);
      const message = await this._call(messages, options);
      return resultOf({ text: textOf(message), message });
    }

    /**
     * @param {any[]} messages
     * @param {any} options
     * @param {any} [runManager]
     */
    async *_streamResponseChunks(messages, options, runManager) {
      for await (const message of this._chunks(messages, options)) {
        const generation = new ChatGenerationChunk({ text: textOf(message), message });
        // First: LangChain gives it the run's id in between.
        yield generation;
        const place = { prompt: 0, completion: 0 };
        const chunk = { chunk: generation };
        await runManager?.handleLLMNewToken(generation.text, place, undefined, undefined, undefined, chunk);
      }
    }

    /**
     * The events of LangChain's newer streams, of chunks that tell what was thought from what was said.
     *
     * @param {any[]} messages
     * @param {any} options
     * @param {any} [runManager]
     */
    async *_streamChatModelEvents(messages, options, runManager) {
      const chunks = asBlocks(this._streamResponseChunks(messages, options, runManager), parts);
      yield* super._streamChatModelEvents.call({ _streamResponseChunks: () => chunks }, messages, options);
    }

    /**
     * As `CliProvider.prewarm`.
     *
     * @param {any} [options]
     */
    prewarm(options) {
      return this.provider.prewarm(options);
    }

    /**
     * As `CliProvider.health`.
     *
     * @param {any} [options]
     */
    health(options) {
      return this.provider.health(options);
    }

    /**
     * As `CliProvider.close`.
     *
     * @param {any} [options]
     */
    close(options) {
      return this.provider.close(options);
    }

    [Symbol.asyncDispose]() {
      return this.close();
    }

    /**
     * One call, whole.
     *
     * @param {any[]} messages
     * @param {any} options
     */
    async _call(messages, options) {
      const call = readCall(options, this);
      const answer = await this._adapterOf(options).invoke(messages, { ...call, [AS_TEXT]: true });
      // A message of its own: what another adapter answers is that adapter's, and perhaps of another build.
      const { id: message_id, tool_calls = [], ...fields } = fieldsOf(answer);
      const metadata = this._complete(compact({ ...fields.response_metadata, message_id }), call);
      const { structured_output: value, run } = metadata;
      const message = new AIMessage(
        compact({
          ...fields,
          // As in a stream (chunks.cjs): one that does not come again.
          id: run?.id ?? message_id,
          // Where an API answers by a schema, the text is the value: agents read it there.
          content: value === undefined ? fields.content : JSON.stringify(value),
          // An adapter's calls have no type (SPEC-01); LangChain's do.
          tool_calls: tool_calls.map((/** @type {object} */ made) => ({ ...made, type: "tool_call" })),
          response_metadata: metadata,
        }),
      );
      if (options.strict && !call.outputSchema) checkArguments(parts.Validator, message.tool_calls, options.tools);
      return message;
    }

    /**
     * One call, in pieces.
     *
     * @param {any[]} messages
     * @param {any} options
     */
    async *_chunks(messages, options) {
      const call = readCall(options, this);
      if (mayBeAskedAgain(call)) {
        yield chunkOf(AIMessageChunk, await this._call(messages, options));
        return;
      }
      const chunker = createChunker(AIMessageChunk, this.provider.id);
      for await (const event of this._adapterOf(options).stream(messages, { ...call, [AS_TEXT]: true })) {
        const chunk = chunker.push(event);
        if (chunk === undefined) continue;
        if (event.type === "done") {
          chunk.response_metadata = this._complete(chunk.response_metadata, call);
          // Not those of the chunk: of a call that came in pieces it has none.
          if (options.strict) checkArguments(parts.Validator, event.reply.toolCalls, options.tools);
        }
        yield chunk;
      }
    }

    /**
     * @param {any[]} messages
     * @param {any} options
     * @param {any} [runManager]
     */
    async _generateByStream(messages, options, runManager) {
      let whole;
      for await (const chunk of this._streamResponseChunks(messages, options, runManager)) {
        whole = whole === undefined ? chunk : whole.concat(chunk);
      }
      return resultOf(/** @type {any} */ (whole));
    }

    /**
     * The adapter with a call's tools. `bindTools` hands the same list to all calls of its runnable.
     *
     * @param {{ tools?: object[] }} options
     * @returns {CliProvider<any>}
     */
    _adapterOf({ tools }) {
      if (tools === undefined || tools.length === 0) return this._adapter;
      const known = this._bound.get(tools);
      if (known !== undefined) return known;
      const adapter = this._adapter.bindTools(formatTools(tools, parts.toJsonSchema));
      this._bound.set(tools, adapter);
      return adapter;
    }

    /**
     * @param {Record<string, any>} metadata
     * @param {Call} call
     * @returns {Record<string, any>}
     */
    _complete(metadata, call) {
      const model = metadata.model ?? call.model ?? this.model;
      // A name that says its context (`sonnet[1m]`) says more than the answer's; a fallback's answer is of any of its providers.
      if (!call.model && metadata.model && metadata.fallback === undefined && priceName(this.model) === this.model) {
        this._answered = metadata.model;
      }
      return compact({ ...metadata, model, model_name: priceName(model) });
    }
  }

  // A class for each CLI that was measured: of others it is not known what a framework would ask of them.
  const measured = [...everyProvider()].filter(({ versions }) => versions.length > 0);
  const own = measured.map(({ id, name }) => {
    const create = /** @type {Factory} */ (factories[`create${name}CliProvider`]);
    return [`Chat${name}Cli`, define(`Chat${name}Cli`, `${id}-cli`, create)];
  });
  /** @type {Record<string, any>} */
  const classes = { ChatCli, ...Object.fromEntries(own) };
  for (const model of Object.values(classes)) recognise(model);
  return classes;

  /**
   * A chat model that makes its provider.
   *
   * @param {string} name
   * @param {string} type
   * @param {Factory} create
   */
  function define(name, type, create) {
    const model = class extends ChatCli {
      static lc_name() {
        return name;
      }
      /** @param {any} [fields] */
      constructor(fields) {
        super({ [INIT]: readCliFields(fields, (options) => create({ ...options, threadDocuments: "escape" })) });
      }
      get [KINDS]() {
        return [...super[KINDS], name];
      }
      _llmType() {
        return type;
      }
    };
    Object.defineProperty(model, "name", { value: name });
    return model;
  }
}

/**
 * Whether a reply may be discarded and asked for again (by a schema, or for a call that has to be there): pieces of it can't be sent
 * before it is known to be the answer.
 *
 * @param {Call} call
 */
function mayBeAskedAgain({ outputSchema, toolChoice }) {
  return outputSchema !== undefined || toolChoice === "any" || typeof toolChoice === "object";
}

/**
 * An instance of either build is one: each has its own class of the same name. What somebody derives is only its own.
 *
 * @param {any} model a class
 */
function recognise(model) {
  const name = model.lc_name();
  Object.defineProperty(model, Symbol.hasInstance, {
    /** @param {any} value */
    value: function (value) {
      if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
      return this === model && typeof value === "object" && value !== null && value[KINDS]?.includes(name) === true;
    },
  });
}

/**
 * A property that printing and copying a model leave out.
 *
 * @param {object} model
 * @param {string} name
 * @param {unknown} value
 */
function hide(model, name, value) {
  Object.defineProperty(model, name, { value, configurable: true, writable: true, enumerable: false });
}

module.exports = { createChatModels };
