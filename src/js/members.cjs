"use strict";

/**
 * In: one adapter of a fallback provider, ours or the caller's own. Out: the same with everything a fallback provider asks of
 * it: updates and events even where it can only `invoke`, and a circuit breaker that its failures are counted by.
 *
 * @import { InvokeUpdate, ModelInvocationUpdate, ProviderError, ProviderEvent, ToolInput } from "../../index.js"
 * @import { NativeBreaker } from "./native.cjs"
 * @import { QuotaChoice } from "./quota.cjs"
 *
 * @typedef {object} Adapter what an adapter may have; only `invoke` has to be there
 * @property {unknown} [id]
 * @property {(messages: readonly unknown[], options?: unknown) => unknown} invoke
 * @property {(messages: readonly unknown[], onUpdate: (update: ModelInvocationUpdate) => unknown, options?: unknown) => unknown} [invokeWithUpdates]
 * @property {(messages: readonly unknown[], options?: unknown) => AsyncIterable<ProviderEvent>} [stream]
 * @property {(tools: readonly ToolInput[]) => Adapter} [bindTools]
 * @property {(options?: unknown) => unknown} [close]
 *
 * @typedef {object} Health what all adapters that `bindTools` made of one member share
 * @property {NativeBreaker | null} breaker
 * @property {ProviderError | undefined} last how it failed last
 * @property {(error: ProviderError) => boolean} movesOn whether another member may do better
 *
 * @typedef {object} Failure why a member did not answer
 * @property {string} provider
 * @property {number} index
 * @property {ProviderError} error
 * @property {boolean} asked whether it was asked at all
 * @property {boolean} movesOn whether another member may do better
 *
 * @typedef {object} Member
 * @property {string} name
 * @property {number} index
 * @property {(quota: QuotaChoice | undefined) => number | undefined} maxWait how long its plan may be waited for, ms, by the call's own
 *   word or its own; `undefined`: not at all
 * @property {() => { ticket: number | undefined } | { failure: Failure }} admit whether it may be asked now
 * @property {(ticket: number | undefined) => void} succeeded
 * @property {(ticket: number | undefined) => void} passed what came of the call says nothing about it
 * @property {(ticket: number | undefined, reason: unknown) => Failure} failed
 * @property {(messages: readonly unknown[], options: unknown, signal: AbortSignal | undefined) => Promise<unknown>} invoke
 * @property {(messages: readonly unknown[], onUpdate: (update: InvokeUpdate) => Promise<void>, options: unknown, signal: AbortSignal | undefined) => Promise<unknown>} invokeWithUpdates
 * @property {(messages: readonly unknown[], options: unknown, signal: AbortSignal | undefined) => { events: AsyncIterable<ProviderEvent>, leave: () => void }} stream
 *   `leave` lets an event that is waited for be the end
 * @property {(tools: readonly ToolInput[]) => Member} bindTools
 * @property {(options?: unknown) => Promise<void>} close
 */

const { clip, isProviderError, providerError } = require("./errors.cjs");
const { eventsOf } = require("./answers.cjs");
const { sharedOf } = require("./provider.cjs");
const { DEFAULT_MAX_WAIT } = require("./quota.cjs");
const { unlessAborted } = require("./signals.cjs");
const { createUpdates } = require("./updates.cjs");

const OUTPUT = new Set([
  ...["text_delta", "thinking_delta", "message"],
  ...["tool_call_delta", "tool_call", "invalid_tool_call", "tool_result"],
]);

/**
 * The model's own text and calls, as opposed to news about a run.
 *
 * @param {ProviderEvent} event
 */
function isOutput(event) {
  return OUTPUT.has(event.type);
}

let runs = 0;

/**
 * @param {Adapter} adapter
 * @param {number} index
 * @param {Pick<Health, "breaker" | "movesOn">} rules
 * @returns {Member}
 */
function createMember(adapter, index, rules) {
  const quota = sharedOf(adapter)?.quota;
  return bind(adapter, { owner: adapter, name: nameOf(adapter), index, quota, health: { ...rules, last: undefined } });
}

/**
 * @param {Adapter} adapter the member with the tools it is to offer
 * @param {{ owner: Adapter, name: string, index: number, quota: QuotaChoice | undefined, health: Health }} identity `quota`: its own
 *   word on waiting; `undefined` for an adapter of the caller's
 * @returns {Member}
 */
function bind(adapter, identity) {
  const { owner, name, index, quota, health } = identity;
  const { breaker } = health;

  /**
   * @param {readonly unknown[]} messages
   * @param {unknown} options
   * @param {AbortSignal | undefined} signal
   */
  const invoke = async (messages, options, signal) => {
    const answer = adapter.invoke(messages, atOnce(options));
    // An adapter of ours is waited for until its process has ended. One that may not know signals is left.
    const message = await (typeof adapter.invokeWithUpdates === "function" ? answer : unlessAborted(answer, signal));
    return requireValue(message, options, name);
  };

  /** The next member is asked rather than waited for this one's plan. @param {unknown} options */
  const atOnce = (options) =>
    quota === undefined ? options : { .../** @type {object} */ (options ?? {}), quota: { wait: false } };

  return {
    name,
    index,

    maxWait(chosen) {
      if (quota === undefined) return undefined;
      const { wait, maxWaitMs = DEFAULT_MAX_WAIT } = chosen ?? quota;
      return wait ? maxWaitMs : undefined;
    },

    admit() {
      if (breaker === null) return { ticket: undefined };
      const now = Date.now();
      /** @type {{ ticket: number } | { wait: number }} */
      const admission = JSON.parse(breaker.admit(now));
      if ("ticket" in admission) return admission;
      const error = notAsked(name, health.last, admission.wait, now);
      return { failure: { provider: name, index, error, asked: false, movesOn: true } };
    },

    succeeded(ticket) {
      if (ticket !== undefined) breaker?.succeeded(ticket, Date.now());
    },

    passed(ticket) {
      if (ticket !== undefined) breaker?.passed(ticket, Date.now());
    },

    failed(ticket, reason) {
      const error = toProviderError(name, reason);
      health.last = error;
      if (ticket !== undefined && breaker !== null) {
        const now = Date.now();
        if (error.category === "quota") breaker.usedUp(ticket, now, error.resetsAt?.getTime());
        // A request that is refused for what it is says nothing about the provider, even where another may take it.
        else if (health.movesOn(error) && error.category !== "validation") breaker.failed(ticket, now);
        else breaker.passed(ticket, now);
      }
      return { provider: name, index, error, asked: true, movesOn: health.movesOn(error) };
    },

    invoke,

    async invokeWithUpdates(messages, onUpdate, options, signal) {
      if (typeof adapter.invokeWithUpdates === "function") {
        // An adapter of the caller's may tell the error it is about to throw. It is no output, and another member may answer.
        const told = (/** @type {ModelInvocationUpdate} */ update) =>
          update.type === "error" ? Promise.resolve() : onUpdate(update);
        return requireValue(await adapter.invokeWithUpdates(messages, told, atOnce(options)), options, name);
      }
      const message = await invoke(messages, options, signal);
      const updates = createUpdates();
      for (const event of eventsOf(message, messages)) {
        for (const update of updates.push(event)) await onUpdate(update);
      }
      return message;
    },

    stream(messages, options, signal) {
      // LangChain's models have a `stream`, too, of something else.
      if (typeof adapter.stream === "function" && typeof adapter.invokeWithUpdates === "function") {
        const iterator = adapter.stream(messages, atOnce(options))[Symbol.asyncIterator]();
        const leave = () => void iterator.return?.().catch(() => {});
        return { events: { [Symbol.asyncIterator]: () => iterator }, leave };
      }
      let leave = () => {};
      /** @type {Promise<typeof LEFT>} */
      const left = new Promise((resolve) => {
        leave = () => resolve(LEFT);
      });
      return { events: synthesised(left), leave };

      /** @param {Promise<typeof LEFT>} left */
      async function* synthesised(left) {
        const runId = `${name}-${++runs}`;
        yield/** @type {ProviderEvent} */ ({ type: "start", runId, provider: name, attempt: 1, queuedMs: 0 });
        const answer = invoke(messages, options, signal);
        // Whoever has left does not hear of its failure.
        answer.catch(() => {});
        const message = await Promise.race([answer, left]);
        if (message !== LEFT) yield* eventsOf(message, messages);
      }
    },

    bindTools: (tools) => bind(adapter.bindTools?.(tools) ?? adapter, identity),

    async close(options) {
      const { close, [Symbol.asyncDispose]: dispose } = /** @type {Partial<AsyncDisposable> & Adapter} */ (owner);
      await (close ? close.call(owner, options) : dispose?.call(owner));
    },
  };
}

const LEFT = Symbol("left");

/**
 * The answer of a call with an `outputSchema`, which an adapter of the caller's own may never have heard of: one without a value and
 * without calls is none.
 *
 * @param {unknown} message
 * @param {unknown} options
 * @param {string} provider
 */
function requireValue(message, options, provider) {
  const { outputSchema } = /** @type {{ outputSchema?: unknown }} */ (options ?? {});
  if (outputSchema === undefined) return message;
  const answer =
    /** @type {{ tool_calls?: unknown[], invalid_tool_calls?: unknown[], response_metadata?: Record<string, unknown> }} */ (
      message ?? {}
    );
  const calls = (answer.tool_calls?.length ?? 0) + (answer.invalid_tool_calls?.length ?? 0);
  if (calls > 0 || answer.response_metadata?.structured_output !== undefined) return message;
  throw providerError({
    category: "validation",
    code: "OUTPUT_INVALID",
    message: `${provider} answers without a value for \`outputSchema\`, which its adapter may not know`,
    provider,
    shouldRetry: false,
    shouldFallback: true,
    attempts: 1,
  });
}

/** @param {Adapter} adapter */
function nameOf(adapter) {
  if (typeof adapter.id === "string" && adapter.id !== "") return adapter.id;
  const name = Object.getPrototypeOf(adapter)?.constructor?.name;
  return typeof name === "string" && name !== "" && name !== "Object" ? name : "adapter";
}

/**
 * @param {string} provider
 * @param {unknown} reason what the adapter threw
 * @returns {ProviderError}
 */
function toProviderError(provider, reason) {
  if (isProviderError(reason)) return reason;
  const message = reason instanceof Error ? reason.message || reason.name : String(reason);
  return providerError(
    {
      category: "unknown",
      code: "UNKNOWN",
      message: clip(message),
      provider,
      shouldRetry: false,
      shouldFallback: true,
      attempts: 1,
    },
    { cause: reason },
  );
}

/**
 * The failure of a member that was not asked: its last one, which opened the breaker, as far as it still holds.
 *
 * @param {string} provider
 * @param {ProviderError | undefined} last
 * @param {number} until ms since the epoch
 * @param {number} now
 */
function notAsked(provider, last, until, now) {
  const why = last === undefined ? "" : `: ${last.message}`;
  const message = `not asked before ${new Date(until).toISOString()}, after it kept failing${why}`;
  return providerError({
    category: last?.category ?? "unknown",
    code: last?.code ?? "UNKNOWN",
    message: clip(message),
    provider,
    shouldRetry: last?.shouldRetry ?? false,
    shouldFallback: true,
    retryAfterMs: until - now,
    ...(last?.resetsAt === undefined ? {} : { resetsAt: last.resetsAt }),
  });
}

module.exports = { createMember, isOutput };
