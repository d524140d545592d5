"use strict";

/**
 * What is observed from outside, as one span around it: a fallback provider, whose members' calls are spans below it, and the
 * Claude Code adapter.
 *
 * @import { AgentExecutionResult, FallbackMetadata, FallbackProvider, ProviderEvent } from "../../../index.js"
 * @import { Content } from "./content.cjs"
 * @import { Operation } from "./operation.cjs"
 * @import { Telemetry } from "./index.cjs"
 *
 * @typedef {{ content: Content, options?: unknown }} Call `options`: of the call, with its signal
 * @typedef {{ operation: Operation, waits: number, unlisten: () => void }} Reading `waits`: for how many events somebody waits
 */

const { onAbort } = require("../signals.cjs");
const { failureOf, usageAttributes } = require("./chat.cjs");
const { quietly } = require("./guard.cjs");
const { ATTR, OWN, companyOf } = require("./names.cjs");
const { forgotten } = require("./forgotten.cjs");
const { KIND, begin, known } = require("./operation.cjs");

/**
 * @template TMessage
 * @param {FallbackProvider<TMessage>} provider
 * @param {Telemetry} telemetry
 * @returns {FallbackProvider<TMessage>}
 */
function observeFallback(provider, telemetry) {
  const start = () =>
    begin(telemetry.tracer, `chat ${provider.id}`, {
      kind: KIND.internal,
      attributes: { [ATTR.operation]: "chat", [ATTR.provider]: provider.id },
    });

  /**
   * @template T
   * @param {unknown} options of the call
   * @param {() => Promise<T>} call
   * @returns {Promise<T>}
   */
  const around = async (options, call) => {
    const operation = start();
    try {
      const message = await operation.within(call);
      quietly(() => tell(operation, /** @type {any} */ (message)?.response_metadata?.fallback));
      operation.end(undefined);
      return message;
    } catch (error) {
      fail(operation, error, { content: telemetry.content, options });
      throw error;
    }
  };

  return {
    ...provider,
    invoke: (messages, options) => /** @type {any} */ (around(options, () => provider.invoke(messages, options))),
    invokeWithUpdates: (messages, onUpdate, options) =>
      /** @type {any} */ (around(options, () => provider.invokeWithUpdates(messages, onUpdate, options))),
    stream: (messages, options) =>
      observeStream(provider.stream(messages, options), { start, content: telemetry.content, options }),
    bindTools: (tools) => observeFallback(provider.bindTools(tools), telemetry),
  };
}

/**
 * The stream's span begins, as its call does, when it is first read.
 *
 * @param {AsyncGenerator<ProviderEvent, void, undefined>} events
 * @param {{ start: () => Operation } & Call} call
 * @returns {AsyncGenerator<ProviderEvent, void, undefined>}
 */
function observeStream(events, call) {
  /** @type {Reading | undefined} */
  let reading;
  const began = () => {
    if (reading !== undefined) return reading;
    reading = { operation: call.start(), waits: 0, unlisten: () => {} };
    const end = canceller(reading);
    forgotten(stream, end);
    // Whether or not anybody reads on.
    reading.unlisten = quietly(() => onAbort(/** @type {any} */ (call.options)?.signal, end)) ?? reading.unlisten;
    return reading;
  };
  /** @template T @param {() => T} work */
  const within = (work) => (reading === undefined ? work() : reading.operation.within(work));
  const left = () => {
    if (reading === undefined) return;
    reading.unlisten();
    cancel(reading.operation);
  };
  /** @type {AsyncGenerator<ProviderEvent, void, undefined>} */
  const stream = {
    ...events,
    async next() {
      const its = began();
      its.waits += 1;
      try {
        const step = await its.operation.within(() => events.next());
        if (!step.done) quietly(() => see(its.operation, step.value));
        else {
          its.unlisten();
          its.operation.end(undefined);
        }
        return step;
      } catch (error) {
        its.unlisten();
        fail(its.operation, error, call);
        throw error;
      } finally {
        its.waits -= 1;
      }
    },
    return: () => within(() => events.return()).finally(left),
    throw: (error) => within(() => events.throw(error)).finally(left),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return();
    },
  };
  return stream;
}

/**
 * Made here: it must not hold the stream that it is of. Who waits for the next event learns of an abort by that.
 *
 * @param {Reading} reading
 */
const canceller = (reading) => () => {
  if (reading.waits === 0) cancel(reading.operation);
};

/**
 * @param {Operation} operation
 * @param {ProviderEvent} event
 */
function see(operation, event) {
  if (event.type === "fallback") passed(operation, event);
  else if (event.type === "waiting") operation.event("waiting", { [OWN.until]: event.until });
  else if (event.type === "done") tell(operation, event.reply.fallback, false);
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
 * @param {unknown} error what the call is rejected with
 * @param {Call} call
 * @returns {Record<string, unknown>} what it came to, as attributes
 */
function fail(operation, error, { content, options }) {
  if (isAborted(options)) return cancel(operation);
  const failure = quietly(() => failureOf(error, content)) ?? { type: "_OTHER", message: undefined };
  const outcome = { [ATTR.errorType]: failure.type };
  operation.set(outcome);
  operation.end(failure);
  return outcome;
}

/**
 * Its caller has aborted or left it.
 *
 * @param {Operation} operation
 */
function cancel(operation) {
  const outcome = { [OWN.cancelled]: true };
  operation.set(outcome);
  operation.end(undefined);
  return outcome;
}

/** @param {unknown} options of a call, or its context */
const isAborted = (options) => quietly(() => /** @type {any} */ (options)?.signal?.aborted) === true;

/**
 * One run of the Claude Code adapter.
 *
 * @param {Telemetry} telemetry
 * @param {{ name: string, provider: string, model: string | undefined, prompt: unknown, context: unknown }} asked
 * @param {() => Promise<AgentExecutionResult>} work
 * @returns {Promise<AgentExecutionResult>}
 */
async function observeExecution(
  { tracer, metrics, content, agentName },
  { name, provider, model, prompt, context },
  work,
) {
  const labels = {
    [ATTR.operation]: "invoke_agent",
    [ATTR.provider]: companyOf(provider),
    ...(model && { [ATTR.requestModel]: model }),
  };
  const operation = begin(tracer, `invoke_agent ${agentName ?? name}`, {
    kind: KIND.client,
    attributes: {
      ...labels,
      [ATTR.agentName]: agentName ?? name,
      [ATTR.inputMessages]: quietly(() =>
        content.value([{ role: "user", parts: [{ type: "text", content: prompt }] }]),
      ),
    },
  });
  const began = Date.now();
  /** @param {Record<string, unknown>} outcome @param {AgentExecutionResult} [result] */
  const measure = (outcome, result) => {
    const all = { ...labels, ...(result?.model && { [ATTR.responseModel]: result.model }) };
    metrics?.duration.record((Date.now() - began) / 1000, known({ ...all, ...outcome }));
    if (result?.usage === undefined || result.usage.estimated) return;
    metrics?.tokens.record(result.usage.inputTokens, { ...all, [ATTR.tokenType]: "input" });
    metrics?.tokens.record(result.usage.outputTokens, { ...all, [ATTR.tokenType]: "output" });
  };
  try {
    const result = await operation.within(work);
    quietly(() => {
      operation.set({
        ...usageAttributes(result.usage),
        [ATTR.responseModel]: result.model,
        [ATTR.conversation]: result.sessionId,
        [ATTR.outputMessages]: content.output({ content: result.answer ?? "" }),
        [OWN.cost]: result.costUsd,
        [OWN.steps]: result.numTurns,
      });
    });
    measure(concluded(operation, result, content), result);
    return result;
  } catch (error) {
    measure(fail(operation, error, { content, options: context }));
    throw error;
  }
}

/**
 * @param {Operation} operation
 * @param {AgentExecutionResult} result
 * @param {Content} content
 */
function concluded(operation, result, content) {
  const [first] = result.status === "success" ? [] : result.errors;
  if (first === undefined) {
    operation.end(undefined);
    return {};
  }
  return fail(operation, { message: first.message, code: first.context?.code ?? first.code }, { content });
}

module.exports = { observeExecution, observeFallback };
