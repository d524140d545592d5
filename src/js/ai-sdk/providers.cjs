"use strict";

/**
 * In: a CLI's id, the name of a model and options. Out: the AI SDK's providers over the CLIs, and a registry of them.
 *
 * Programs ask for `claudeCli("sonnet")` wherever they need a model, in each request of a server too. So equal models are one provider
 * below: one queue, and live sessions that a conversation's next request finds.
 *
 * @import { CliAiSdkProvider, CliLanguageModel, CliRegistry } from "./index.d.cts"
 * @import { Adapter } from "./model.cjs"
 *
 * @typedef {Adapter & { id: string, close(options?: { drain?: boolean }): Promise<void> }} Provider
 * @typedef {(options?: object) => Provider} Factory
 */

const { fault } = require("../errors.cjs");
const { describe, encodeOptions } = require("../options.cjs");
const { unbound } = require("../provider.cjs");
const { noSuchModel } = require("./errors.cjs");
const { createModel } = require("./model.cjs");

/** How many providers are kept. What is beyond ends when its calls have, and is made anew when it is asked again. */
const KEPT = 64;

/** The name of a CLI's own choice of a model, where a name has to be shown. */
const OWN_CHOICE = "default";

/** @type {WeakMap<object, number>} what JSON can't say of options is known by its identity */
const identities = new WeakMap();
let count = 0;

/** @param {unknown} value */
function identity(value) {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return 0;
  const known = identities.get(value) ?? ++count;
  identities.set(value, known);
  return known;
}

/**
 * A tracer and a meter are no options that JSON has.
 *
 * @param {unknown} telemetry
 */
function observersOf(telemetry) {
  const { tracer, meter } = /** @type {{ tracer?: unknown, meter?: unknown }} */ (
    typeof telemetry === "object" && telemetry !== null ? telemetry : {}
  );
  return [identity(tracer), identity(meter)];
}

/**
 * What a provider is made of, worked out once for all calls of a model: its options may be long (a whole environment).
 *
 * @typedef {{ key: string, make: () => Provider }} Recipe
 *
 * @param {string} id
 * @param {Factory} factory
 * @param {Record<string, unknown>} options
 * @returns {Recipe}
 */
function recipeOf(id, factory, { logger, ...options }) {
  return {
    key: JSON.stringify([id, encodeOptions(options), identity(logger), ...observersOf(options.telemetry)]),
    make: () => factory(logger === undefined ? options : { ...options, logger }),
  };
}

/** Providers by what they were made of. */
function createPool() {
  /** @type {Map<string, Provider>} the last one used comes last */
  const kept = new Map();
  return {
    /**
     * @param {Recipe} recipe
     * @returns {Provider}
     */
    get({ key, make }) {
      const known = kept.get(key) ?? make();
      kept.delete(key);
      kept.set(key, known);
      const [oldest] = kept.size > KEPT ? kept : [];
      if (oldest) {
        kept.delete(oldest[0]);
        void oldest[1].close({ drain: true }).catch(() => {});
      }
      return known;
    },

    /** @param {(id: string) => boolean} [which] */
    async close(which = () => true) {
      const ended = Array.from(kept).filter(([, provider]) => which(provider.id));
      for (const [key] of ended) kept.delete(key);
      await Promise.all(ended.map(([, provider]) => provider.close()));
    },
  };
}

/**
 * What the AI SDK asks of a provider: models by name, and a word for what it has none of.
 *
 * @template {(model?: string) => CliLanguageModel} T
 * @param {string} name
 * @param {T} languageModel
 * @param {() => Promise<void>} close
 */
function providerFields(name, languageModel, close) {
  /** @param {string} modelType */
  const none = (modelType) => (/** @type {string} */ modelId) => {
    throw noSuchModel(modelId, modelType, `${name} has language models only, and no ${modelType} "${modelId}"`);
  };
  return {
    specificationVersion: /** @type {const} */ ("v3"),
    languageModel,
    embeddingModel: none("embeddingModel"),
    textEmbeddingModel: none("embeddingModel"),
    imageModel: none("imageModel"),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** @param {Record<string, unknown>} core what the package exports */
function createFace(core) {
  /** @type {Map<string, Factory>} */
  const factories = new Map();
  for (const [name, factory] of Object.entries(core)) {
    const [, cli] = /^create(\w+)CliProvider$/.exec(name) ?? [];
    if (cli !== undefined) factories.set(cli.toLowerCase(), /** @type {Factory} */ (factory));
  }
  const ids = Array.from(factories.keys()).join(", ");
  const pool = createPool();
  /** @type {Map<string, CliAiSdkProvider<object>>} */
  const made = new Map();

  /**
   * @param {string} id
   * @param {ReturnType<typeof createPool>} among
   * @param {unknown} model
   * @param {unknown} given
   */
  function modelOf(id, among, model, given) {
    const factory = /** @type {Factory} */ (factories.get(id));
    if (model !== undefined && typeof model !== "string") {
      throw fault("INVALID_OPTION", `a model's name must be a string, got ${describe(model)}`);
    }
    if (given !== undefined && (typeof given !== "object" || given === null || Array.isArray(given))) {
      throw fault("INVALID_OPTION", `options must be an object, got ${describe(given)}`);
    }
    if (given !== undefined && "model" in given) {
      throw fault("INVALID_OPTION", `the model is the first argument: leave "model" out of the options`);
    }
    const { retry = false, ...rest } = /** @type {Record<string, unknown>} */ (given ?? {});
    const options = { ...rest, retry, ...(model ? { model } : {}) };
    const recipe = recipeOf(id, factory, options);
    const provider = () => among.get(recipe);
    // At once: what is wrong with the options is said here.
    provider();
    return createModel({ id, modelId: model || OWN_CHOICE, retries: retry !== false, adapter: provider });
  }

  /**
   * A provider of the AI SDK over one CLI.
   *
   * @param {string} id
   * @returns {CliAiSdkProvider<object>}
   */
  function ofCli(id) {
    const known = made.get(id);
    if (known) return known;
    /** @param {string} [model] @param {object} [options] */
    const languageModel = (model, options) => modelOf(id, pool, model, options);
    const close = () => pool.close((provider) => provider === id);
    const fields = providerFields(`the provider "${id}"`, languageModel, close);
    // Another function: the provider is no method of itself.
    const provider = Object.assign(/** @type {typeof languageModel} */ ((...args) => languageModel(...args)), fields);
    made.set(id, provider);
    return provider;
  }

  /**
   * A provider of the AI SDK over one that the caller has made. It stays the caller's to close.
   *
   * @param {Provider} own
   */
  function ofProvider(own) {
    const adapter = /** @type {Adapter} */ (unbound(/** @type {never} */ (own)));
    const id = typeof own.id === "string" ? own.id : "adapter";
    /** @param {string} [model] */
    const languageModel = (model) =>
      createModel({
        id,
        modelId: model || OWN_CHOICE,
        // What it does about failures is its own: the errors say how many attempts there were.
        retries: false,
        ...(model ? { options: { model } } : {}),
        adapter: () => adapter,
      });
    const close = () => own.close();
    const fields = providerFields(`the provider "${id}"`, languageModel, close);
    return Object.assign(/** @type {typeof languageModel} */ ((...args) => languageModel(...args)), fields);
  }

  /** @param {unknown} which */
  function cli(which) {
    if (typeof which === "string" && factories.has(which)) return ofCli(which);
    const own = /** @type {Partial<Provider> | null | undefined} */ (which);
    if (typeof own === "object" && typeof own?.stream === "function" && typeof own.bindTools === "function") {
      return ofProvider(/** @type {Provider} */ (own));
    }
    throw fault(
      "INVALID_OPTION",
      `cli() takes the id of a CLI (${ids}) or a provider of this package, got ${describe(which)}`,
    );
  }

  /**
   * @param {Record<string, object>} [options] by the CLI's id
   * @returns {CliRegistry}
   */
  function createCliRegistry(options = {}) {
    if (typeof options !== "object" || options === null) {
      throw fault(
        "INVALID_OPTION",
        `the options must be an object of options by the CLI's id, got ${describe(options)}`,
      );
    }
    for (const id of Object.keys(options)) {
      if (!factories.has(id)) throw fault("INVALID_OPTION", `there is no CLI "${id}": there are ${ids}`);
    }
    const among = createPool();
    const languageModel = (/** @type {string} */ name = "") => {
      const at = String(name).indexOf(":");
      const id = at < 0 ? String(name) : name.slice(0, at);
      if (!factories.has(id)) {
        throw noSuchModel(
          name,
          "languageModel",
          `there is no model "${name}": its name begins with a CLI (${ids}) and ":"`,
        );
      }
      return modelOf(
        id,
        among,
        at < 0 ? undefined : name.slice(at + 1),
        Object.hasOwn(options, id) ? options[id] : undefined,
      );
    };
    return providerFields("the registry", /** @type {never} */ (languageModel), () => among.close());
  }

  return {
    claudeCli: ofCli("claude"),
    codexCli: ofCli("codex"),
    copilotCli: ofCli("copilot"),
    grokCli: ofCli("grok"),
    cli,
    createCliRegistry,
  };
}

/** @type {WeakMap<object, ReturnType<typeof createFace>>} */
const faces = new WeakMap();

/**
 * One face for `import` and `require`.
 *
 * @param {Record<string, unknown>} core what the package exports
 */
function faceOf(core) {
  const face = faces.get(core) ?? createFace(core);
  faces.set(core, face);
  return face;
}

module.exports = { faceOf };
