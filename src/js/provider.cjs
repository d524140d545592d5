"use strict";

/**
 * In: a native provider. Out: the `CliProvider` of index.d.ts. Its methods are closures, so that one taken from the object
 * (or an object spread over another, as SPEC-01's plain adapter allows) works.
 *
 * @import { CliProvider, ProviderReply } from "../../index.js"
 * @import { Known } from "./known.cjs"
 * @import { Life } from "./life.cjs"
 * @import { Log } from "./logger.cjs"
 * @import { NativeProvider } from "./native.cjs"
 * @import { QuotaChoice } from "./quota.cjs"
 * @import { ToJsonSchema } from "./tools.cjs"
 */

const { fault, guard, unwrap } = require("./errors.cjs");
const { isWhole } = require("./face.cjs");
const { createLife, readCloseOptions } = require("./life.cjs");
const { encodeKnown } = require("./prewarm.cjs");
const { describe, workerEnv } = require("./options.cjs");
const { AS_TEXT, runForEvents, runWithListener, start } = require("./run.cjs");
const { encodeTools } = require("./tools.cjs");
const { createUpdates } = require("./updates.cjs");

/**
 * What all adapters of one provider share.
 *
 * @template TMessage
 * @typedef {object} Shared
 * @property {string} id
 * @property {NativeProvider} engine
 * @property {Known} known
 * @property {ReturnType<typeof import("./copies.cjs").createCopies>} copies
 * @property {(reply: Omit<ProviderReply, "messages">, provider: string) => TMessage} toMessage
 * @property {ToJsonSchema | null} toJsonSchema
 * @property {Log | undefined} [log] the user's logger
 * @property {import("./telemetry/index.cjs").Telemetry | undefined} [telemetry] observes its calls
 * @property {import("./telemetry/chat.cjs").Asked | undefined} [asked] whom its calls ask, for telemetry
 * @property {unknown} [options] of the provider: what telemetry's redactor has to know
 * @property {number} [places] `maxConcurrency`, said or not
 * @property {boolean} [isApi] an API, and no CLI
 * @property {QuotaChoice} quota whether its calls wait for a plan that is used up
 * @property {Life} life
 */

/**
 * Whose adapter an object is. A copy of one is nobody's.
 *
 * @type {WeakMap<object, Shared<any>>}
 */
const adapters = new WeakMap();

/**
 * @param {unknown} value
 * @returns {Shared<any> | undefined} what the adapter is made of; `undefined` for anything else
 */
function sharedOf(value) {
  return typeof value === "object" && value !== null ? adapters.get(value) : undefined;
}

/**
 * An adapter without tools. One of ours stays as it is; another kind forgets what it has bound.
 *
 * @template TMessage
 * @param {CliProvider<TMessage>} provider
 * @returns {CliProvider<TMessage>}
 */
function unbound(provider) {
  const shared = sharedOf(provider);
  if (shared === undefined) return provider.bindTools([]);
  return createAdapter(
    shared,
    () => "[]",
    () => {},
  );
}

/**
 * @template TMessage
 * @param {Omit<Shared<TMessage>, "life">} parts
 * @returns {CliProvider<TMessage>}
 */
function createProvider(parts) {
  const shared = { ...parts, life: createLife() };
  let bound = "[]";
  // SPEC-01: `provider.bindTools(t); provider.invoke(m)` uses t. Only this first adapter remembers.
  return createAdapter(
    shared,
    () => bound,
    (tools) => {
      bound = tools;
    },
  );
}

/**
 * @template TMessage
 * @param {Shared<TMessage>} shared
 * @param {() => string} tools
 * @param {(tools: string) => void} onBind
 * @returns {CliProvider<TMessage>}
 */
function createAdapter(shared, tools, onBind) {
  const { id, engine, copies, toMessage, toJsonSchema, life } = shared;

  /** @type {CliProvider<TMessage>} */
  const adapter = {
    id,

    async invoke(messages, options) {
      const run = start(shared, { messages, options, tools: tools() }, { events: false, partial: false });
      try {
        const reply = await run.settled();
        reply.content = run.text();
        run.watch?.end({ reply });
        return /** @type {any} */ (toMessage(reply, id));
      } finally {
        run.unlisten();
      }
    },

    async invokeWithUpdates(messages, onUpdate, options) {
      if (typeof onUpdate !== "function") {
        throw fault("INVALID_OPTION", `onUpdate must be a function, got ${describe(onUpdate)}`);
      }
      const updates = createUpdates();
      const asked = { messages, options, tools: tools() };
      /** @type {ProviderReply | undefined} */
      let reply;
      /** @param {import("../../index.js").ProviderEvent} event */
      function* answers(event) {
        for (const update of updates.push(event)) yield onUpdate(update);
        if (event.type === "done") reply = event.reply;
      }
      await life.track(runWithListener(shared, asked, answers));
      if (reply === undefined) throw fault("INTERNAL", "the run succeeded without a reply");
      return /** @type {any} */ (toMessage(reply, id));
    },

    stream(messages, options) {
      return runForEvents(shared, { messages, options, tools: tools() }, { partial: !isWhole(options) });
    },

    bindTools(list) {
      const encoded = encodeTools(list, toJsonSchema);
      copies.look(list, "tools");
      onBind(encoded);
      return createAdapter(
        shared,
        () => encoded,
        () => {},
      );
    },

    async prewarm(options) {
      unwrap(await guard(engine.prewarm(encodeKnown(options, tools(), toJsonSchema), workerEnv())));
    },

    models: async (options) => require("./listed-models.cjs").listModels(engine, options),

    health: (options) => require("./health.cjs").health(engine, options),

    close,
    [Symbol.asyncDispose]: () => close(),
  };

  /** @param {import("../../index.js").CloseOptions} [options] */
  async function close(options) {
    if (readCloseOptions(options).drain) {
      // At once: a call that is made behind this one is refused.
      engine.refuseFurther();
      await guard(engine.drain());
      await life.drained();
    }
    life.close();
    await guard(engine.close());
  }

  adapters.set(adapter, shared);
  return adapter;
}

module.exports = { AS_TEXT, createProvider, sharedOf, unbound };
