"use strict";

/**
 * In: a provider and the name of a model. Out: a language model of the AI SDK (`LanguageModelV3`, which `ai@6` and `ai@7` take): thin over
 * the provider's `stream`. A model has no state of its own, so any number of its calls may be under way.
 *
 * @import { ProviderEvent } from "../../../index.js"
 * @import { CliCallOptions, CliLanguageModel, CliStreamPart } from "./index.d.cts"
 *
 * @typedef {{ stream(messages: readonly any[], options?: object): AsyncGenerator<ProviderEvent, void, undefined>,
 *   bindTools(tools: readonly any[]): { stream: Adapter["stream"] } }} Adapter
 */

const { WHOLE } = require("../face.cjs");
const { AS_TEXT } = require("../provider.cjs");
const { callError } = require("./errors.cjs");
const { contentOf, createParts } = require("./parts.cjs");
const { messagesOf } = require("./prompt.cjs");
const { settingsOf } = require("./settings.cjs");

/**
 * @param {object} parts
 * @param {string} parts.id the provider's
 * @param {string} parts.modelId
 * @param {boolean} parts.retries whether the provider makes further attempts by itself
 * @param {object} [parts.options] of every call
 * @param {() => Adapter} parts.adapter asked for at every call
 * @returns {CliLanguageModel}
 */
function createModel({ id, modelId, retries, options, adapter }) {
  const provider = `deep-factor.${id}`;
  const failure = (/** @type {unknown} */ error) => callError(error, { url: `cli:${id}/${modelId}`, modelId, retries });

  /**
   * @param {CliCallOptions} call
   * @param {boolean} partial whether the answer is told piece by piece
   */
  const start = (call, partial) => {
    const settings = settingsOf(call);
    const messages = messagesOf(call.prompt);
    if (settings.instruction !== undefined) messages.unshift({ role: "system", content: settings.instruction });
    const events = adapter()
      // Without tools, too: what the adapter remembers is somebody else's.
      .bindTools(settings.tools)
      .stream(messages, { ...options, ...settings.options, [AS_TEXT]: true, ...(partial ? {} : { [WHOLE]: true }) });
    return {
      settings,
      events,
      parts: createParts({ provider: id, settings, raw: partial && call.includeRawChunks === true }),
    };
  };

  return {
    specificationVersion: "v3",
    provider,
    modelId,
    // What is somewhere else is fetched by the AI SDK: not every CLI takes an address.
    supportedUrls: {},

    async doGenerate(call) {
      try {
        const { settings, events, parts } = start(call, false);
        /** @type {CliStreamPart[]} */
        const all = [];
        try {
          for await (const event of events) all.push(...parts.push(event));
        } catch (error) {
          all.push(...parts.fail(error));
        }
        const last = all.at(-1);
        const first = all.find((part) => part.type === "response-metadata");
        if (last?.type !== "finish") throw new Error("the provider ended its stream without a reply");
        const { finishReason, usage, providerMetadata } = last;
        const { type: _, ...response } = first ?? { type: "response-metadata" };
        return {
          content: contentOf(all),
          finishReason,
          usage,
          ...(providerMetadata ? { providerMetadata } : {}),
          response,
          warnings: settings.warnings,
        };
      } catch (error) {
        throw failure(error);
      }
    },

    async doStream(call) {
      try {
        const { settings, events, parts } = start(call, true);
        const next = reader(events, parts);
        /** @type {CliStreamPart[]} */
        const waiting = [];
        // A call that fails before it has said anything rejects, so that the AI SDK may ask again; and by then all warnings are there.
        for (let more = await next(); more !== undefined; more = await next()) {
          waiting.push(...more);
          if (more.some(({ type }) => type !== "raw")) break;
        }
        waiting.unshift({ type: "stream-start", warnings: [...settings.warnings] });
        return { stream: streamOf(waiting, next, events, { failure, signal: call.abortSignal }) };
      } catch (error) {
        throw failure(error);
      }
    },
  };
}

/**
 * The parts of a call as they come: those of one event at a time, `undefined` behind the last.
 *
 * @param {AsyncGenerator<ProviderEvent, void, undefined>} events
 * @param {ReturnType<typeof createParts>} parts
 * @returns {() => Promise<CliStreamPart[] | undefined>}
 */
function reader(events, parts) {
  return async () => {
    let next;
    try {
      next = await events.next();
    } catch (error) {
      return parts.fail(error);
    }
    if (next.done) return undefined;
    try {
      return parts.push(next.value);
    } catch (error) {
      // What an adapter of the caller's own tells may be of any shape; its call is not left running.
      await events.return(undefined);
      throw error;
    }
  };
}

/**
 * @param {CliStreamPart[]} first the first parts
 * @param {() => Promise<CliStreamPart[] | undefined>} next
 * @param {AsyncGenerator<ProviderEvent, void, undefined>} events what they are made of
 * @param {{ failure: (error: unknown) => unknown, signal: AbortSignal | undefined }} call
 * @returns {ReadableStream<CliStreamPart>}
 */
function streamOf(first, next, events, { failure, signal }) {
  return new ReadableStream({
    start(controller) {
      for (const part of first) controller.enqueue(part);
    },
    async pull(controller) {
      try {
        // Many an event makes no part.
        for (let parts = await next(); ; parts = await next()) {
          if (parts === undefined) return controller.close();
          for (const part of parts) controller.enqueue(part);
          if (parts.length > 0) return;
        }
      } catch (error) {
        if (signal?.aborted) return controller.error(error);
        controller.enqueue({ type: "error", error: failure(error) });
        controller.close();
      }
    },
    // Of the events: a generator would queue it behind the event that is waited for.
    async cancel() {
      await events.return(undefined);
    },
  });
}

module.exports = { createModel };
