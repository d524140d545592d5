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
const { contentOf, partsOf } = require("./parts.cjs");
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
      parts: partsOf(events, { provider: id, settings, raw: partial && call.includeRawChunks === true }),
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
        const { settings, parts } = start(call, false);
        /** @type {CliStreamPart[]} */
        const all = [];
        for await (const part of parts) all.push(part);
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
      /** @type {CliStreamPart[]} */
      const waiting = [];
      try {
        const { settings, events, parts } = start(call, true);
        // A call that fails before it has said anything rejects, so that the AI SDK may ask again; and by then all warnings are there.
        let next = await parts.next();
        for (; !next.done && next.value.type === "raw"; next = await parts.next()) waiting.push(next.value);
        waiting.unshift({ type: "stream-start", warnings: [...settings.warnings] });
        if (!next.done) waiting.push(next.value);
        return { stream: streamOf(waiting, parts, events, { failure, signal: call.abortSignal }) };
      } catch (error) {
        throw failure(error);
      }
    },
  };
}

/**
 * @param {CliStreamPart[]} waiting the first parts
 * @param {AsyncGenerator<CliStreamPart, void, undefined>} parts
 * @param {AsyncGenerator<ProviderEvent, void, undefined>} events what they are made of
 * @param {{ failure: (error: unknown) => unknown, signal: AbortSignal | undefined }} call
 * @returns {ReadableStream<CliStreamPart>}
 */
function streamOf(waiting, parts, events, { failure, signal }) {
  return new ReadableStream({
    async pull(controller) {
      const part = waiting.shift();
      if (part) return controller.enqueue(part);
      try {
        const next = await parts.next();
        if (next.done) controller.close();
        else controller.enqueue(next.value);
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
