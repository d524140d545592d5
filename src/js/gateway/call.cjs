"use strict";

/**
 * One call. In: what a client asked, as a provider takes it. Out: the blocks of the answer as they come, and what is known of the call for
 * the headers.
 *
 * @import { MessageInput, ProviderEvent, ToolInput } from "../../../index.js"
 * @import { Receiver } from "../blocks.cjs"
 * @import { Target } from "./models.cjs"
 *
 * @typedef {object} Asked a request, read
 * @property {string} model as the client wrote it
 * @property {boolean} stream
 * @property {MessageInput[]} messages
 * @property {ToolInput[]} tools
 * @property {Record<string, unknown>} options of the provider's call
 * @property {boolean} json the answer is a value
 * @property {boolean} oneCall at most one call of a tool is wanted
 * @property {boolean} shows whether reasoning is shown
 * @property {boolean} [wishesOff] whether the model is not to reason, where its provider has a way to say so
 * @property {string[]} ignored what was left out
 * @property {Record<string, unknown>} extra what goes over to an API as it is
 * @property {import("./refusal.cjs").Places} places
 * @property {ReadonlySet<string>} droppable options that are left out where a provider has nothing for them
 */

const { createBlocks } = require("../blocks.cjs");
const { EXTRA_BODY } = require("../choices.cjs");
const { WHOLE } = require("../face.cjs");
const { AS_TEXT } = require("../provider.cjs");
const { isProviderError, providerError } = require("../errors.cjs");
const { DROPPABLE } = require("./models.cjs");

/**
 * @typedef {Extract<ProviderEvent, { type: "rate_limit" }>} Limit
 *
 * @typedef {object} Facts what is known of a call so far
 * @property {string | undefined} runId
 * @property {string} model who answers, `provider/model`
 * @property {string | undefined} engine
 * @property {import("../../../index.js").RunInfo["session"]} session
 * @property {string[]} warnings
 * @property {import("../../../index.js").TokenUsage | undefined} usage
 * @property {Limit | undefined} limit
 * @property {string} plan whose windows it tells: of the provider that answers, or of a list's member
 * @property {import("../../../index.js").TokenUsage | undefined} sessionUsage
 * @property {number | undefined} costUsd
 */

/** The plan behind `model`, `provider/model`: a provider of the gateway has one. @param {string} model */
const planOf = (model) => model.split("/", 1)[0] ?? "";

/**
 * @param {Asked} call
 * @param {Target} target
 * @param {{ signal: AbortSignal, record: string | undefined, plans: import("./plans.cjs").Plans }} around
 * @param {Receiver} receiver is told the answer
 */
function begin(call, target, { signal, record, plans }, receiver) {
  const toolChoice = /** @type {unknown} */ (call.options.toolChoice);
  // A reply that does not fit is asked for again: what was said first is no part of the answer then.
  const whole = call.json || toolChoice === "any" || typeof toolChoice === "object";
  const { tools, json } = call;
  const blocks = createBlocks({ provider: target.ids[0] ?? "", tools, json, whole }, receiver);
  /** @type {import("./models.cjs").Droppable} */
  const droppable = {
    may: (option) => call.droppable.has(option),
    dropped(option) {
      const name = call.places.option(option) ?? option;
      if (!call.ignored.includes(name)) call.ignored.push(name);
    },
    wishesOff: call.wishesOff === true,
  };
  const events = target.asked.bindTools(tools).stream(call.messages, {
    ...call.options,
    signal,
    record,
    onUnsupported: "error",
    ...(Object.keys(call.extra).length === 0 ? {} : { [EXTRA_BODY]: call.extra }),
    [DROPPABLE]: droppable,
    [AS_TEXT]: true,
    ...(call.stream ? {} : { [WHOLE]: true }),
  });
  const answered = call.messages.some((message) => /** @type {{ role?: string }} */ (message).role === "assistant");
  /** @type {Facts} */
  const facts = {
    runId: undefined,
    model: target.names[0] ?? "",
    engine: undefined,
    session: answered ? undefined : "new",
    warnings: [],
    usage: undefined,
    limit: undefined,
    plan: planOf(target.names[0] ?? ""),
    sessionUsage: undefined,
    costUsd: undefined,
  };
  /** Whether pieces of a message that is not whole went out. */
  let open = false;
  /** Calls whose arguments went out in pieces and are not whole. @type {Set<string>} */
  const writing = new Set();

  return {
    facts,

    /** Reads the next event. @returns {Promise<boolean>} `false` behind the last */
    async next() {
      let next;
      try {
        next = await events.next();
      } catch (error) {
        if (signal.aborted) throw error;
        note(error);
        blocks.fail(error);
        return true;
      }
      if (next.done) return false;
      read(next.value);
      blocks.push(own(next.value));
      return true;
    },

    /** Ends what runs. */
    async leave() {
      await events.return(undefined);
    },
  };

  /** Who answered, by the provider's own id: a list knows its members by their models' names. @param {ProviderEvent} event @returns {ProviderEvent} */
  function own(event) {
    if (event.type !== "done" || event.reply.fallback === undefined) return event;
    const { fallback } = event.reply;
    const provider = target.ids[target.names.indexOf(fallback.provider)] ?? fallback.provider;
    return { ...event, reply: { ...event.reply, fallback: { ...fallback, provider } } };
  }

  /** What a failed call was, and used. @param {unknown} error */
  function note(error) {
    if (!isProviderError(error)) return;
    facts.runId ??= error.runId;
    facts.usage = error.usage ?? error.partial?.usage ?? facts.usage;
  }

  /** @param {ProviderEvent} event */
  function read(event) {
    switch (event.type) {
      case "start":
        facts.runId = event.runId;
        facts.engine = event.engine ?? (event.pid === undefined ? "api" : undefined);
        if (answered) facts.session = event.session ?? (event.continued ? "continued" : "replayed");
        break;
      case "fallback":
        // A provider may be a list itself: its members have plans of their own, and no names here but their places. The next one answers.
        if (target.names.length > 1 && event.provider === target.names[event.index]) {
          facts.model = target.names[event.index + 1] ?? facts.model;
          facts.plan = planOf(facts.model);
        } else facts.plan = `${planOf(facts.model)}/${event.index + 2}`;
        // Of the plan of who was passed over.
        facts.limit = undefined;
        break;
      case "warning":
        facts.warnings.push(event.code);
        break;
      case "rate_limit":
        facts.limit = event;
        plans.note(facts.plan, event);
        break;
      case "usage":
        facts.usage = event.usage;
        break;
      case "text_delta":
      case "thinking_delta":
        open ||= !whole && event.text !== "";
        break;
      case "message":
        open = false;
        break;
      case "tool_call_delta":
        if (!whole) writing.add(event.toolCallId);
        break;
      case "tool_call":
        writing.delete(event.toolCall.id);
        break;
      case "retry":
        // The pieces that went out belong to no message, and a client can't be told to forget them.
        if ((open || writing.size > 0) && call.stream) throw brokenOff(event.reason);
        break;
      case "done":
        facts.usage = event.reply.usage;
        facts.costUsd = event.reply.costUsd;
        facts.sessionUsage = event.reply.run?.sessionUsage;
        break;
      default:
    }
  }
}

/** @param {string} reason */
function brokenOff(reason) {
  return providerError({
    category: "network",
    code: "CONNECTION_LOST",
    message: `the answer broke off behind its beginning, and is asked for again: ${reason}. Send the request again`,
    provider: "",
    shouldRetry: true,
    shouldFallback: false,
    attempts: 1,
  });
}

module.exports = { begin };
