"use strict";

/**
 * What is observed from outside, as one span around it: a fallback provider, whose members' calls are spans below it, and the
 * Claude Code adapter.
 *
 * @import { AgentExecutionResult, FallbackMetadata, FallbackProvider, ProviderEvent } from "../../../index.js"
 * @import { Operation } from "./operation.cjs"
 * @import { Telemetry } from "./index.cjs"
 */

const { failureOf, quietly, usageAttributes } = require("./chat.cjs");
const { ATTR, OWN, companyOf } = require("./names.cjs");
const { KIND, begin } = require("./operation.cjs");

/**
 * @template TMessage
 * @param {FallbackProvider<TMessage>} provider
 * @param {Telemetry} telemetry
 * @returns {FallbackProvider<TMessage>}
 */
function observeFallback(provider, { tracer }) {
  const start = () =>
    begin(tracer, `chat ${provider.id}`, {
      kind: KIND.internal,
      attributes: { [ATTR.operation]: "chat", [ATTR.provider]: provider.id },
    });

  /**
   * @template T
   * @param {(operation: Operation) => Promise<T>} call
   * @returns {Promise<T>}
   */
  const around = async (call) => {
    const operation = start();
    try {
      const message = await operation.within(() => call(operation));
      const { response_metadata: metadata } = /** @type {{ response_metadata?: { fallback?: FallbackMetadata } }} */ (
        message ?? {}
      );
      quietly(() => tell(operation, metadata?.fallback));
      operation.end(undefined);
      return message;
    } catch (error) {
      quietly(() => fail(operation, error));
      throw error;
    }
  };

  return {
    ...provider,
    invoke: (messages, options) => /** @type {any} */ (around(() => provider.invoke(messages, options))),
    invokeWithUpdates: (messages, onUpdate, options) =>
      /** @type {any} */ (around(() => provider.invokeWithUpdates(messages, onUpdate, options))),
    stream(messages, options) {
      const operation = start();
      const events = provider.stream(messages, options);
      const ended = () => operation.end(undefined);
      return {
        ...events,
        async next() {
          try {
            const step = await operation.within(() => events.next());
            quietly(() => see(operation, step));
            return step;
          } catch (error) {
            quietly(() => fail(operation, error));
            throw error;
          }
        },
        return: () => operation.within(() => events.return()).finally(ended),
        throw: (error) => operation.within(() => events.throw(error)).finally(ended),
        [Symbol.asyncIterator]() {
          return this;
        },
        async [Symbol.asyncDispose]() {
          await this.return();
        },
      };
    },
    bindTools: (tools) => observeFallback(provider.bindTools(tools), /** @type {Telemetry} */ ({ tracer })),
  };
}

/**
 * @param {Operation} operation
 * @param {IteratorResult<ProviderEvent, void>} step
 */
function see(operation, step) {
  if (step.done) operation.end(undefined);
  else if (step.value.type === "fallback") passed(operation, step.value);
  else if (step.value.type === "waiting") operation.event("waiting", { [OWN.until]: step.value.until });
  else if (step.value.type === "done") tell(operation, step.value.reply.fallback, false);
}

/**
 * @param {Operation} operation
 * @param {{ provider: string, code: string }} member
 */
function passed(operation, { provider, code }) {
  operation.event("fallback", { [OWN.fallbackProvider]: provider, [OWN.code]: code });
}

/**
 * @param {Operation} operation
 * @param {FallbackMetadata | undefined} fallback
 * @param {boolean} [skipped] whether those before are news
 */
function tell(operation, fallback, skipped = true) {
  if (skipped) for (const member of fallback?.skipped ?? []) passed(operation, member);
  operation.set({ [OWN.fallbackProvider]: fallback?.provider, [OWN.fallbackIndex]: fallback?.index });
}

/**
 * @param {Operation} operation
 * @param {unknown} error
 */
function fail(operation, error) {
  const failure = failureOf(error);
  operation.set({ [ATTR.errorType]: failure.type });
  operation.end(failure);
}

/**
 * One run of the Claude Code adapter.
 *
 * @param {Telemetry} telemetry
 * @param {{ name: string, model: string | undefined, prompt: unknown }} asked
 * @param {() => Promise<AgentExecutionResult>} work
 * @returns {Promise<AgentExecutionResult>}
 */
async function observeExecution({ tracer, metrics, content, agentName }, { name, model, prompt }, work) {
  const labels = {
    [ATTR.operation]: "invoke_agent",
    [ATTR.provider]: companyOf(name),
    ...(model && { [ATTR.requestModel]: model }),
  };
  const operation = begin(tracer, `invoke_agent ${agentName ?? name}`, {
    kind: KIND.client,
    attributes: {
      ...labels,
      [ATTR.agentName]: agentName ?? name,
      [ATTR.inputMessages]: content.value([{ role: "user", parts: [{ type: "text", content: prompt }] }]),
    },
  });
  const began = Date.now();
  /** @param {string | undefined} type @param {AgentExecutionResult} [result] */
  const measure = (type, result) => {
    const all = { ...labels, ...(result?.model && { [ATTR.responseModel]: result.model }) };
    metrics?.duration.record((Date.now() - began) / 1000, { ...all, ...(type && { [ATTR.errorType]: type }) });
    if (result?.usage === undefined) return;
    metrics?.tokens.record(result.usage.inputTokens, { ...all, [ATTR.tokenType]: "input" });
    metrics?.tokens.record(result.usage.outputTokens, { ...all, [ATTR.tokenType]: "output" });
  };
  try {
    const result = await operation.within(work);
    quietly(() => {
      const [first] = result.status === "success" ? [] : result.errors;
      const type = first && String(first.context?.code ?? first.code ?? "_OTHER");
      operation.set({
        ...usageAttributes(result.usage),
        [ATTR.responseModel]: result.model,
        [ATTR.conversation]: result.sessionId,
        [ATTR.outputMessages]: content.output({ content: result.answer ?? "" }),
        [ATTR.errorType]: type,
        [OWN.cost]: result.costUsd,
        [OWN.steps]: result.numTurns,
      });
      operation.end(first && { type: String(type), message: first.message });
      measure(type, result);
    });
    return result;
  } catch (error) {
    quietly(() => {
      fail(operation, error);
      measure(failureOf(error).type);
    });
    throw error;
  }
}

module.exports = { observeExecution, observeFallback };
