"use strict";

/**
 * In: adapters of any kind, the first choice first. Out: one adapter that asks the next where the one before could not answer,
 * and tells who did and why the others did not.
 *
 * Which failures are another provider's chance is the errors' own word (`shouldFallback`), and whether a provider is asked at
 * all is its circuit breaker's (`src/model/retry.rs`). Here is only the order of asking; how a member is asked is in `members.cjs`.
 *
 * @import { FallbackMetadata, FallbackProvider, InvokeUpdate, ProviderError, ProviderEvent } from "../../index.js"
 * @import { Life } from "./life.cjs"
 * @import { Failure, Member } from "./members.cjs"
 * @import { QuotaChoice, Wait } from "./quota.cjs"
 *
 * @typedef {typeof import("./native.cjs")} Native
 */

const { fault, unwrap } = require("./errors.cjs");
const { createLife, readCloseOptions, unlessOver } = require("./life.cjs");
const { createMember, isOutput } = require("./members.cjs");
const { describe, encodeOptions, readCallOptions } = require("./options.cjs");
const { earliest, sleepUntil } = require("./quota.cjs");
const { leavable } = require("./run.cjs");
const { FALLBACK, verdict } = require("./verdict.cjs");

/**
 * @template TMessage
 * @param {Native} native
 * @param {unknown} adapters
 * @param {unknown} options
 * @returns {FallbackProvider<TMessage>}
 */
function createFallbackProvider(native, adapters, options) {
  const json = encodeOptions(options);
  const guarded = unwrap(native.checkFallbackOptions(json)) === true;
  const { fallbackOnRateLimit = true } = /** @type {{ fallbackOnRateLimit?: boolean }} */ (JSON.parse(json));
  /** A member rejects with a rate limit once its own attempts are used up, or the wait is too long. @param {ProviderError} error */
  const movesOn = (error) => error.shouldFallback || (fallbackOnRateLimit && error.category === "rate_limit");
  if (!Array.isArray(adapters) || adapters.length === 0) {
    const description = Array.isArray(adapters) ? "an empty one" : describe(adapters);
    throw fault("INVALID_OPTION", `adapters must be an array of at least one model adapter, got ${description}`);
  }
  const members = Array.from(adapters, (adapter, index) => {
    if (typeof adapter !== "object" || adapter === null || typeof adapter.invoke !== "function") {
      throw fault("INVALID_OPTION", `adapters[${index}] must have an invoke function, got ${describe(adapter)}`);
    }
    return createMember(adapter, index, { breaker: guarded ? new native.NativeBreaker(json) : null, movesOn });
  });
  return createAdapter(members, { closed: false, ...createLife() });
}

/**
 * @template TMessage
 * @param {readonly Member[]} members
 * @param {{ closed: boolean } & Life} life what all adapters of one provider share
 * @returns {FallbackProvider<TMessage>}
 */
function createAdapter(members, life) {
  /** @param {unknown} options */
  const prepare = (options) => {
    if (life.closed) throw fault("CLOSED", "the provider was closed. Create a new provider");
    return readCallOptions(options);
  };

  return {
    id: FALLBACK,

    invoke: (messages, options) => /** @type {any} */ (life.track(invoke(messages, options))),

    invokeWithUpdates: (messages, onUpdate, options) =>
      /** @type {any} */ (life.track(invokeWithUpdates(messages, onUpdate, options))),

    stream: (messages, options) => createStream(members, () => prepare(options), messages, options, life.signal),

    bindTools(tools) {
      return createAdapter(
        members.map((member) => member.bindTools(tools)),
        life,
      );
    },

    close,
    [Symbol.asyncDispose]: () => close(),
  };

  /**
   * @param {readonly unknown[]} messages
   * @param {unknown} options
   * @returns {Promise<TMessage>}
   */
  async function invoke(messages, options) {
    const { signal, quota } = prepare(options);
    const ask = createCourse(members, { signal, quota, closing: life.signal });
    for (;;) {
      const member = ask.next();
      if ("until" in member) {
        await ask.park(member);
        continue;
      }
      try {
        const message = await member.invoke(messages, options, signal);
        return /** @type {TMessage} */ (annotate(message, ask.answered(member)));
      } catch (error) {
        ask.failed(member, error, true);
      }
    }
  }

  /**
   * @param {readonly unknown[]} messages
   * @param {(update: InvokeUpdate) => unknown} onUpdate
   * @param {unknown} options
   * @returns {Promise<TMessage>}
   */
  async function invokeWithUpdates(messages, onUpdate, options) {
    const { signal, quota } = prepare(options);
    if (typeof onUpdate !== "function") {
      throw fault("INVALID_OPTION", `onUpdate must be a function, got ${describe(onUpdate)}`);
    }
    const ask = createCourse(members, { signal, quota, closing: life.signal });
    for (;;) {
      const member = ask.next();
      if ("until" in member) {
        await ask.park(member);
        continue;
      }
      const relay = createRelay(onUpdate, [signal, life.signal]);
      try {
        const message = await member.invokeWithUpdates(messages, relay.push, options, signal);
        await relay.flush();
        return /** @type {TMessage} */ (annotate(message, ask.answered(member)));
      } catch (error) {
        if (relay.refused) {
          ask.left(member);
          throw relay.refused.reason;
        }
        ask.failed(member, error, !relay.delivered);
      }
    }
  }

  /** @param {unknown} [options] */
  async function close(options) {
    const { drain } = readCloseOptions(options);
    life.closed = true;
    // The members go on meanwhile: a call may need the next of them.
    if (drain) await life.drained();
    life.close();
    const results = await Promise.allSettled(members.map((member) => member.close(drain ? { drain } : undefined)));
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }
}

/**
 * One call's way through the members.
 *
 * @param {readonly Member[]} members
 * @param {{ signal: AbortSignal | undefined, quota: QuotaChoice | undefined, closing: AbortSignal }} call
 */
function createCourse(members, { signal, quota, closing }) {
  let position = 0;
  /** @type {Failure[]} */
  const skipped = [];
  /** How many of them are of earlier rounds, after which all plans were waited for. */
  let earlier = 0;
  let waited = 0;
  /** @type {number | undefined} the breaker's ticket of the member that is being asked */
  let ticket;

  /** Those that were passed over since the last look, for events. */
  const reported = { count: 0 };

  return {
    /**
     * The next member to ask; or, where the plans of all are used up, until when they are waited for (`park`).
     *
     * @returns {Member | Wait}
     * @throws when there is none left, or the caller has turned away
     */
    next() {
      if (signal?.aborted) throw signal.reason;
      for (; position < members.length; position++) {
        const member = /** @type {Member} */ (members[position]);
        const admission = member.admit();
        if ("failure" in admission) {
          skipped.push(admission.failure);
          continue;
        }
        ticket = admission.ticket;
        position++;
        return member;
      }
      const round = skipped.slice(earlier);
      const failures = round.map(({ index, error }) => ({ error, maxWaitMs: members[index]?.maxWait(quota) }));
      const wait = earliest(failures, { now: Date.now(), waited });
      if (wait === undefined) throw verdict(round, true);
      return wait;
    },

    /**
     * Waits, and begins anew with the first member.
     *
     * @param {Wait} wait
     * @param {AbortSignal} [leaving] aborts when the caller has left
     */
    async park({ until }, leaving) {
      const began = Date.now();
      await sleepUntil(until, [signal, closing, leaving]);
      if (closing.aborted) throw fault("CLOSED", "the provider was closed. Create a new provider");
      waited += Date.now() - began;
      position = 0;
      earlier = skipped.length;
    },

    /**
     * @param {Member} member
     * @returns {FallbackMetadata}
     */
    answered(member) {
      member.succeeded(ticket);
      return {
        provider: member.name,
        index: member.index,
        skipped: skipped.map(({ provider, error }) => ({ provider, code: error.code, message: error.message })),
      };
    },

    /** The caller went away: no word about the member. @param {Member} member */
    left(member) {
      member.passed(ticket);
    },

    /**
     * Goes on, or throws what the caller is to get.
     *
     * @param {Member} member
     * @param {unknown} error
     * @param {boolean} mayGoOn whether the caller got nothing of this member yet
     */
    failed(member, error, mayGoOn) {
      if (signal?.aborted) {
        member.passed(ticket);
        throw signal.reason;
      }
      if (isAbort(error)) {
        member.passed(ticket);
        throw error;
      }
      const failure = member.failed(ticket, error);
      skipped.push(failure);
      if (!failure.movesOn || !mayGoOn) throw verdict(skipped.slice(earlier), false);
    },

    /** Members passed over since this was asked last. */
    news() {
      const fresh = skipped.slice(reported.count);
      reported.count = skipped.length;
      return fresh;
    },
  };
}

/**
 * An abort that is none of ours: of a signal inside the caller's own adapter.
 *
 * @param {unknown} error
 */
function isAbort(error) {
  return error instanceof Error && error.name === "AbortError";
}

/**
 * Updates of one member on their way to the caller, one at a time even if the member waits for none. Token counts wait for the
 * first output, so that nothing at all was reported of a member that failed without any.
 *
 * @param {(update: InvokeUpdate) => unknown} onUpdate
 * @param {readonly (AbortSignal | undefined)[]} signals what ends the waiting for it
 */
function createRelay(onUpdate, signals) {
  /** @type {InvokeUpdate[]} */
  let held = [];
  /** @type {Promise<void>} */
  let last = Promise.resolve();
  const relay = {
    /** Whether the caller got anything. */
    delivered: false,
    /** @type {{ reason: unknown } | undefined} what the caller's own function threw */
    refused: undefined,

    /**
     * @param {InvokeUpdate} update
     * @returns {Promise<void>} once the caller has taken it
     */
    push(update) {
      held.push(update);
      return update.type === "usage" ? Promise.resolve() : relay.flush();
    },

    /** @returns {Promise<void>} */
    flush() {
      const updates = held;
      held = [];
      relay.delivered ||= updates.length > 0;
      last = last.then(() => deliver(updates));
      // A member that does not wait for its updates has no ear for this either; flush() at the end has.
      last.catch(() => {});
      return last;
    },
  };

  /** @param {InvokeUpdate[]} updates */
  async function deliver(updates) {
    for (const update of updates) {
      try {
        await unlessOver(onUpdate(update), signals);
      } catch (reason) {
        relay.refused = { reason };
        throw reason;
      }
    }
  }
  return relay;
}

/**
 * The events of the members in turn. What is news about a run goes out at once; a member whose text or calls went out is the
 * last to be asked.
 *
 * @param {readonly Member[]} members
 * @param {() => { signal?: AbortSignal | undefined, quota?: QuotaChoice | undefined }} prepare
 * @param {readonly unknown[]} messages
 * @param {unknown} options
 * @param {AbortSignal} closing aborts when the provider is closed
 * @returns {AsyncGenerator<ProviderEvent, void, undefined>}
 */
function createStream(members, prepare, messages, options, closing) {
  let left = false;
  let leaveMember = () => {};
  const generator = generate();

  /** @returns {AsyncGenerator<ProviderEvent, void, undefined>} */
  async function* generate() {
    const { signal, quota } = prepare();
    const ask = createCourse(members, { signal, quota, closing });
    for (;;) {
      const member = ask.next();
      yield* passedOver(ask);
      if ("until" in member) {
        yield { type: "waiting", ...member };
        const leaving = new AbortController();
        leaveMember = () => leaving.abort();
        if (!left) await ask.park(member, leaving.signal);
        if (left) return;
        continue;
      }
      let delivered = false;
      let settled = false;
      const run = member.stream(messages, options, signal);
      leaveMember = run.leave;
      try {
        for await (const event of run.events) {
          if (left) return;
          delivered ||= isOutput(event);
          if (event.type !== "done") {
            yield event;
            continue;
          }
          settled = true;
          yield { ...event, reply: { ...event.reply, fallback: ask.answered(member) } };
        }
        if (settled || left) return;
        throw fault("INTERNAL", `${member.name} ended its stream without a reply`);
      } catch (error) {
        if (settled || left) throw error;
        settled = true;
        ask.failed(member, error, !delivered);
      } finally {
        if (!settled) ask.left(member);
      }
    }
  }

  /** @param {ReturnType<typeof createCourse>} ask */
  function* passedOver(ask) {
    for (const { provider, index, error } of ask.news()) {
      const { code, message } = error;
      yield/** @type {ProviderEvent} */ ({ type: "fallback", provider, index, code, message });
    }
  }

  return leavable(generator, () => {
    left = true;
    leaveMember();
  });
}

/**
 * The answer, saying whose it is. In place: it stays the very message the member made, of the member's own class.
 *
 * @param {unknown} message
 * @param {FallbackMetadata} fallback
 */
function annotate(message, fallback) {
  if (typeof message === "object" && message !== null) {
    const metadata = "response_metadata" in message ? message.response_metadata : undefined;
    // Not an assignment: a message that is frozen is the adapter's business, and still the answer.
    Reflect.set(message, "response_metadata", { .../** @type {object} */ (metadata), fallback });
  }
  return message;
}

module.exports = { createFallbackProvider };
