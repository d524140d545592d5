"use strict";

/**
 * In: what `runAgent` was called with. Out: the `AgentRun` of index.d.ts. The run itself is native; here its requests are answered
 * (tools are run, the caller is asked) and its events are handed out. It goes on whether or not anybody iterates.
 *
 * @import { AgentEvent, ToolCall } from "../../index.js"
 * @import { Prepared, Who } from "./agent-options.cjs"
 * @import { ThreadBuilder } from "./thread.cjs"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {typeof import("./native.cjs")} Native
 * @typedef {import("./native.cjs").NativeAgentRun} NativeAgentRun
 *
 * @typedef {{ type: "execute", request: number, who: number, toolCall: ToolCall, runId: string }} Execute
 * @typedef {{ type: "ask", request: number, who: number, toolCall: ToolCall, runId: string, agent?: string }} Ask
 * @typedef {Execute | Ask | { type: "abandon", request: number } | { type: "log", who: number, records: never[] }} Request
 */

const { readAgentOptions } = require("./agent-options.cjs");
const { reasonOf, runTool } = require("./agent-tools.cjs");
const { fault, guard, isProviderError, providerError, unwrap } = require("./errors.cjs");
const { unlessOver } = require("./life.cjs");
const { describe, workerEnv } = require("./options.cjs");
const { onAbort } = require("./signals.cjs");

/**
 * @template TMessage
 * @param {object} parts
 * @param {Native} parts.native
 * @param {ThreadBuilder<TMessage>} parts.thread
 * @param {ToJsonSchema | null} parts.toJsonSchema
 */
function createRunAgent({ native, thread, toJsonSchema }) {
  return (/** @type {unknown} */ options) => {
    const prepared = readAgentOptions(options, toJsonSchema);
    const agent = new native.NativeAgent(prepared.spec);
    unwrap(agent.check());
    for (const { shared } of prepared.agents) unwrap(agent.addModel(shared.engine.model()));
    return follow(agent.start(workerEnv(), prepared.signal?.aborted === true), prepared, thread);
  };
}

/**
 * @template TMessage
 * @param {NativeAgentRun} run
 * @param {Prepared} prepared
 * @param {ThreadBuilder<TMessage>} thread
 */
function follow(run, prepared, thread) {
  const { signal, onEvent } = prepared;
  const events = createEvents();
  const requests = createRequests(run, prepared.agents);
  const listener = createListener(onEvent, () => run.cancel());
  const cancel = () => run.cancel();
  const unlisten = onAbort(signal, cancel);
  const began = Date.now();

  const go = async () => {
    for (let batch = await guard(run.next()); batch !== null; batch = await guard(run.next())) {
      for (const entry of JSON.parse(batch)) {
        if (requests.take(entry)) continue;
        const event = publicEvent(entry);
        events.push(event);
        listener.tell(event);
      }
    }
    const { messages, ...fields } = /** @type {any} */ (unwrap(await guard(run.result())));
    if (fields.error) fields.error = providerError(fields.error);
    return { ...fields, messages: [...thread.initial(prepared), ...messages.map(thread.message)] };
  };

  const settle = async () => {
    const result = await go().catch((error) => failed(error, thread.initial(prepared)));
    requests.end();
    events.end();
    const thrown = await listener.settled(result.status === "completed", limit(prepared, began));
    unlisten();
    if (thrown === undefined) return result;
    const error = fault("CALLBACK_FAILED", `onEvent threw: ${reasonOf(thrown.reason)}`, thrown.reason);
    return { ...result, status: "failed", error };
  };

  return { result: settle(), [Symbol.asyncIterator]: events.iterate };
}

/**
 * What ends a run from outside: the caller's signal, the end of a provider, the run's own time.
 *
 * @param {Prepared} prepared
 * @param {number} began ms since the epoch
 */
function limit({ signal, agents, timeoutMs }, began) {
  const time = new AbortController();
  const left = timeoutMs === undefined ? undefined : Math.max(0, began + timeoutMs - Date.now());
  const timer = left === undefined ? undefined : setTimeout(() => time.abort(), left);
  const ends = agents.map(({ shared }) => shared.life.signal);
  return { signals: [signal, time.signal, ...ends], done: () => clearTimeout(timer) };
}

/**
 * The result of a run that the native side broke: `result` never rejects.
 *
 * @param {unknown} error
 * @param {unknown[]} messages
 */
function failed(error, messages) {
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
  const known = isProviderError(error) ? error : fault("INTERNAL", reasonOf(error), error);
  return { status: "failed", runId: "", output: "", steps: 0, usage, error: known, messages };
}

/**
 * @param {any} entry
 * @returns {AgentEvent}
 */
function publicEvent(entry) {
  return entry.error ? { ...entry, error: providerError(entry.error) } : entry;
}

/** Every event of the run, for as many readers as there are, each from the first on. */
function createEvents() {
  /** @type {AgentEvent[]} */
  const all = [];
  let over = false;
  /** @type {(() => void)[]} */
  let waiting = [];
  const wake = () => {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  };
  return {
    /** @param {AgentEvent} event */
    push(event) {
      all.push(event);
      wake();
    },
    end() {
      over = true;
      wake();
    },
    async *iterate() {
      for (let index = 0; ; index++) {
        while (index >= all.length) {
          if (over) return;
          await new Promise((resolve) => waiting.push(() => resolve(undefined)));
        }
        yield/** @type {AgentEvent} */ (all[index]);
      }
    },
  };
}

/**
 * The caller's `onEvent`: called with each event at once, in order. The first thing it throws, or rejects with, ends the run.
 *
 * @param {((event: AgentEvent) => unknown) | undefined} onEvent
 * @param {() => void} cancel
 */
function createListener(onEvent, cancel) {
  /** @type {{ reason: unknown } | undefined} */
  let thrown;
  /** @type {Promise<void>[]} */
  const open = [];
  /** @param {unknown} reason */
  const stop = (reason) => {
    thrown ??= { reason };
    cancel();
  };
  return {
    /** @param {AgentEvent} event */
    tell(event) {
      if (onEvent === undefined || thrown) return;
      try {
        const answer = onEvent(event);
        if (answer instanceof Promise) open.push(answer.then(() => {}, stop));
      } catch (reason) {
        stop(reason);
      }
    },
    /**
     * What it has thrown. It is waited for where the run is completed, until `ended` aborts: what ends a run ends this, too.
     *
     * @param {boolean} completed
     * @param {{ signals: (AbortSignal | undefined)[], done: () => void }} ended
     */
    async settled(completed, { signals, done }) {
      // What has failed already is known by then.
      await new Promise((resolve) => setImmediate(resolve));
      const all = completed && !thrown ? Promise.all(open) : undefined;
      await unlessOver(all, signals).catch(() => {});
      done();
      return thrown;
    },
  };
}

/**
 * Answers what the native side asks for.
 *
 * @param {NativeAgentRun} run
 * @param {readonly Who[]} agents
 */
function createRequests(run, agents) {
  /** @type {Map<number, AbortController>} */
  const open = new Map();

  /**
   * @param {number} request
   * @param {(signal: AbortSignal) => Promise<void>} answer never rejects
   */
  const begin = (request, answer) => {
    const controller = new AbortController();
    open.set(request, controller);
    // Not at once: what is taken back in the same batch shall not begin.
    queueMicrotask(async () => {
      if (!controller.signal.aborted) await answer(controller.signal);
      open.delete(request);
    });
  };

  /** @param {number} request */
  const abandon = (request) => {
    const reason = new DOMException("the run does not wait for this call any more", "AbortError");
    open.get(request)?.abort(reason);
    open.delete(request);
  };

  /** @param {Execute} request */
  const execute = ({ request, who, toolCall, runId }) => {
    begin(request, async (signal) => {
      const tool = agents[who]?.tools.get(toolCall.name);
      const context = { signal, toolCallId: toolCall.id, runId };
      // Native offers the model these very tools.
      if (tool) run.complete(request, await runTool(tool, toolCall, context));
    });
  };

  /** @param {Ask} request */
  const ask = ({ request, who, toolCall, runId, agent }) => {
    begin(request, async (signal) => {
      run.decide(request, await decide(agents[who]?.ask, toolCall, { signal, runId, agent }));
    });
  };

  return {
    /**
     * @param {{ type: string }} entry
     * @returns {boolean} whether it was a request, which the caller does not see
     */
    take(entry) {
      const request = /** @type {Request} */ (entry);
      switch (request.type) {
        case "execute":
          execute(request);
          return true;
        case "ask":
          ask(request);
          return true;
        case "abandon":
          abandon(request.request);
          return true;
        case "log": {
          const { shared } = /** @type {Who} */ (agents[request.who]);
          for (const record of request.records) shared.log?.(record);
          return true;
        }
        default:
          return false;
      }
    },
    /** The run is over: what still goes on is aborted. */
    end() {
      for (const request of open.keys()) abandon(request);
    },
  };
}

/**
 * Asks the caller. Whatever is no clear yes is a no.
 *
 * @param {((call: object, context: object) => unknown) | undefined} ask
 * @param {ToolCall} call
 * @param {object} context
 * @returns {Promise<string>} JSON of the decision
 */
async function decide(ask, { name, args, id }, context) {
  try {
    const answer = await ask?.({ name, args, id }, context);
    if (typeof answer === "boolean") return JSON.stringify({ allow: answer });
    if (typeof answer !== "object" || answer === null || !("allow" in answer) || typeof answer.allow !== "boolean") {
      throw new TypeError(`it must return true, false or { allow, reason?, args? }, and returned ${describe(answer)}`);
    }
    const {
      allow,
      reason,
      args: replaced,
    } = /** @type {{ allow: boolean, reason?: unknown, args?: unknown }} */ (answer);
    if (replaced !== undefined && describe(replaced) !== "an object") {
      throw new TypeError(`its args must be an object, and are ${describe(replaced)}`);
    }
    const decision = { allow, reason: reason === undefined ? undefined : String(reason), args: replaced };
    return JSON.stringify(decision);
  } catch (error) {
    return JSON.stringify({ allow: false, reason: `permissions.ask failed: ${reasonOf(error)}` });
  }
}

module.exports = { createRunAgent, publicEvent };
