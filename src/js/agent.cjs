"use strict";

/**
 * In: what `runAgent` was called with. Out: the `AgentRun` of index.d.ts. The run itself is native; here its requests are answered
 * (tools are run, the caller is asked) and its events are handed out. It goes on whether or not anybody iterates.
 *
 * @import { AgentEvent, CheckpointStore, ToolCall } from "../../index.js"
 * @import { Prepared, Who } from "./agent-options.cjs"
 * @import { Checkpoint } from "./checkpoint.cjs"
 * @import { Heartbeat } from "./heartbeat.cjs"
 * @import { ThreadBuilder } from "./thread.cjs"
 * @import { Telemetry } from "./telemetry/index.cjs"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {typeof import("./native.cjs")} Native
 * @typedef {import("./native.cjs").NativeAgent} NativeAgent
 * @typedef {import("./native.cjs").NativeAgentRun} NativeAgentRun
 *
 * @typedef {{ request: number, who: number, toolCall: ToolCall, runId: string, agent?: string }} OfCall
 * @typedef {OfCall & { type: "execute", idempotencyKey: string }} Execute
 * @typedef {OfCall & { type: "ask", interrupted: boolean }} Ask
 * @typedef {{ type: "append", request: number, entry: string }} Append
 * @typedef {{ type: "phase", phase: "queue" | "model" | "quota" | "none", until?: number, runId: string, agent?: string }} Phase
 * @typedef {Execute | Ask | Append | Phase | { type: "abandon", request: number }
 *   | { type: "log", who: number, records: never[] }} Request
 */

const { readAgentOptions } = require("./agent-options.cjs");
const { reasonOf, runTool } = require("./agent-tools.cjs");
const { openCheckpoint } = require("./checkpoint.cjs");
const { fault, guard, isProviderError, providerError, unwrap } = require("./errors.cjs");
const { createHeartbeat } = require("./heartbeat.cjs");
const { unlessOver } = require("./life.cjs");
const { describe, workerEnv } = require("./options.cjs");
const { onAbort } = require("./signals.cjs");

/**
 * @template TMessage
 * @param {object} parts
 * @param {Native} parts.native
 * @param {ThreadBuilder<TMessage>} parts.thread
 * @param {ToJsonSchema | null} parts.toJsonSchema
 * @param {(option: unknown, options?: unknown) => Telemetry | undefined} parts.readTelemetry
 */
function createRunAgent({ native, thread, toJsonSchema, readTelemetry }) {
  return (/** @type {unknown} */ options) => {
    const prepared = readAgentOptions(options, toJsonSchema, native.isRunId, readTelemetry);
    const agent = new native.NativeAgent(prepared.spec);
    unwrap(agent.check());
    for (const { shared } of prepared.agents) unwrap(agent.addModel(shared.engine.model()));
    return follow(agent, prepared, thread);
  };
}

/**
 * @template TMessage
 * @param {NativeAgent} agent
 * @param {Prepared} prepared
 * @param {ThreadBuilder<TMessage>} thread
 */
function follow(agent, prepared, thread) {
  const { signal, onEvent, checkpoint: store, runId = "" } = prepared;
  const events = createEvents();
  /** @type {NativeAgentRun | undefined} */
  let run;
  let cancelled = false;
  const cancel = () => {
    cancelled = true;
    run?.cancel();
  };
  const listener = createListener(onEvent, cancel);
  const watch = observe(prepared);
  let ownRunId = runId;
  const heartbeat = createHeartbeat(prepared, () => ownRunId, listener.stop);
  const unlisten = onAbort(signal, cancel);
  const began = Date.now();
  const start = () => agent.start(workerEnv(), cancelled || signal?.aborted === true);
  // At once, where nothing has to be looked up before.
  if (store === undefined) run = start();
  /** @type {ReturnType<typeof createRequests> | undefined} */
  let requests;
  /** @type {Checkpoint | undefined} */
  let checkpoint;

  /** @param {AgentEvent} event */
  const report = (event) => {
    watch?.event(event);
    events.push(event);
    listener.tell(event);
  };

  /** @param {NativeAgentRun} run */
  const go = async (run) => {
    requests = createRequests(run, prepared.agents, { heartbeat, checkpoint, watch });
    /** @type {AgentEvent | undefined} */
    let last;
    for (let batch = await guard(run.next()); batch !== null; batch = await guard(run.next())) {
      for (const entry of JSON.parse(batch)) {
        if (requests.take(entry)) continue;
        const event = publicEvent(entry);
        if (entry.parentRunId === undefined) ownRunId = entry.runId;
        // That it is completed is true when it is durable.
        if (checkpoint && event.type === "run_completed" && event.parentRunId === undefined) last = event;
        else report(event);
      }
    }
    const result = /** @type {any} */ (unwrap(await guard(run.result())));
    return await finish(result, last);
  };

  /**
   * @param {any} result
   * @param {AgentEvent | undefined} last
   */
  const finish = async (result, last) => {
    const failed = await closeCheckpoint(checkpoint, result);
    if (failed !== undefined) {
      if (last) report({ type: "run_failed", status: "failed", error: failed, runId: result.runId });
      const { structured: _, ...rest } = result;
      return withThread({ ...rest, status: "failed" }, failed);
    }
    if (last) report(last);
    return withThread(result, result.error && providerError(result.error));
  };

  /**
   * @param {any} result
   * @param {unknown} error
   */
  const withThread = ({ messages, error: _, ...fields }, error) => ({
    ...fields,
    ...(error !== undefined && { error }),
    messages: [...thread.initial(prepared), ...messages.map(thread.message)],
  });

  /** @param {CheckpointStore} store */
  const goOn = async (store) => {
    heartbeat.begin("load", { kind: "checkpoint" });
    const opened = await openCheckpoint(store, runId);
    heartbeat.end("load");
    const { result, entries } = opened;
    try {
      if (result !== undefined) {
        if (entries.length > 0) unwrap(agent.resume(JSON.stringify(entries)));
        const finished = readFinished(result);
        const { output, steps, usage, costUsd } = finished;
        const known = { output, steps, usage, ...(costUsd !== undefined && { costUsd }) };
        report({ type: "run_completed", ...known, runId });
        return withThread(finished, undefined);
      }
      unwrap(agent.resume(JSON.stringify(entries)));
      checkpoint = opened;
      run = start();
    } catch (error) {
      if (result === undefined) await opened.close(undefined);
      throw error;
    }
    opened.hold(() => run?.cancel());
    return await go(run);
  };

  const settle = async () => {
    const going = run === undefined ? goOn(/** @type {CheckpointStore} */ (store)) : go(run);
    const result = await going.catch(async (error) => {
      await checkpoint?.close(undefined);
      const broken = failed(error, thread.initial(prepared), runId);
      // Nothing was begun that could have said so itself.
      if (run === undefined)
        report(/** @type {any} */ ({ type: "run_failed", status: "failed", error: broken.error, runId }));
      return broken;
    });
    heartbeat.stop();
    requests?.end();
    events.end();
    const thrown = await listener.settled(result.status === "completed", limit(prepared, began));
    unlisten();
    const error =
      thrown && fault("CALLBACK_FAILED", `${thrown.callback} threw: ${reasonOf(thrown.reason)}`, thrown.reason);
    const final = error === undefined ? result : { ...result, status: "failed", error };
    watch?.ended(final);
    return final;
  };

  return { result: settle(), [Symbol.asyncIterator]: events.iterate };
}

/** The format of a finished run's result. */
const RESULT_VERSION = 1;

/**
 * The run has ended: it is finished, or its checkpoint is given back to whoever goes on.
 *
 * @param {Checkpoint | undefined} checkpoint
 * @param {any} result of the native side
 * @returns {Promise<any>} what the store failed of, a `ProviderError`
 */
async function closeCheckpoint(checkpoint, result) {
  if (checkpoint === undefined) return undefined;
  const isFinished = result.status === "completed" && checkpoint.failure() === undefined;
  try {
    await checkpoint.close(isFinished ? JSON.stringify({ v: RESULT_VERSION, result }) : undefined);
  } catch (error) {
    return error;
  }
  return checkpoint.failure();
}

/**
 * @param {string} text
 * @returns {any} the result of a run that was finished before
 */
function readFinished(text) {
  /** @type {{ v?: unknown, result?: any }} */
  let finished;
  try {
    finished = JSON.parse(text);
  } catch (error) {
    throw fault("CHECKPOINT_INVALID", `the result in the checkpoint can't be read: ${reasonOf(error)}`, error);
  }
  const { v, result } = finished ?? {};
  if (typeof v === "number" && v > RESULT_VERSION) {
    const known = `and this package knows versions up to ${RESULT_VERSION}`;
    throw fault("CHECKPOINT_INVALID", `the result in the checkpoint is of version ${v}, ${known}`);
  }
  if (v === RESULT_VERSION && Array.isArray(result?.messages)) {
    // All of it is of earlier attempts.
    const { steps, usage, costUsd, resumed } = result;
    const toolCalls = result.messages.filter((/** @type {any} */ { type }) => type === "tool").length;
    const all = { steps, toolCalls: Math.max(toolCalls, resumed?.toolCalls ?? 0), usage };
    return { ...result, resumed: costUsd === undefined ? all : { ...all, costUsd } };
  }
  throw fault("CHECKPOINT_INVALID", "the result in the checkpoint can't be read: it is none");
}

/**
 * What observes the run, from now on; `undefined` where there is no telemetry.
 *
 * @param {Prepared} prepared
 */
function observe({ telemetry, agents, encoded }) {
  if (telemetry === undefined) return undefined;
  const { observeAgent } = require("./telemetry/agent.cjs");
  const all = agents.map(({ name, model, shared: { id, asked } }) => {
    return { name, asked: { provider: id, model: undefined, ...asked, ...(model ? { model } : {}) } };
  });
  return observeAgent(telemetry, all, encoded);
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
 * @param {string} runId
 */
function failed(error, messages, runId) {
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
  const known = isProviderError(error) ? error : fault("INTERNAL", reasonOf(error), error);
  return { status: "failed", runId, output: "", steps: 0, usage, error: known, messages };
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
  /** @type {{ reason: unknown, callback: string } | undefined} */
  let thrown;
  /** @type {Promise<void>[]} */
  const open = [];
  /**
   * @param {unknown} reason
   * @param {string} [callback] which of the caller's functions it was
   */
  const stop = (reason, callback = "onEvent") => {
    thrown ??= { reason, callback };
    cancel();
  };
  return {
    stop,
    /** @param {AgentEvent} event */
    tell(event) {
      if (onEvent === undefined || thrown) return;
      try {
        const answer = onEvent(event);
        if (answer instanceof Promise)
          open.push(
            answer.then(
              () => {},
              (reason) => stop(reason),
            ),
          );
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
 * @param {{ heartbeat: Heartbeat, checkpoint: Checkpoint | undefined, watch: ReturnType<typeof observe> }} parts
 */
function createRequests(run, agents, { heartbeat, checkpoint, watch }) {
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
      heartbeat.end(`request ${request}`);
    });
  };

  /** @param {number} request */
  const abandon = (request) => {
    const reason = new DOMException("the run does not wait for this call any more", "AbortError");
    open.get(request)?.abort(reason);
    open.delete(request);
    heartbeat.end(`request ${request}`);
  };

  /**
   * @param {"tool" | "permission"} kind
   * @param {OfCall} request
   */
  const waitFor = (kind, { request, toolCall: { id, name }, agent }) => {
    const ofAgent = agent === undefined ? {} : { agent };
    heartbeat.begin(`request ${request}`, { kind, toolName: name, toolCallId: id, ...ofAgent });
  };

  /** @param {Execute} asked */
  const execute = (asked) => {
    const { request, who, toolCall, runId, idempotencyKey } = asked;
    waitFor("tool", asked);
    begin(request, async (signal) => {
      const tool = agents[who]?.tools.get(toolCall.name);
      const context = { signal, toolCallId: toolCall.id, runId, idempotencyKey };
      // Native offers the model these very tools.
      if (tool === undefined) return;
      const work = () => runTool(tool, toolCall, context);
      run.complete(request, await (watch === undefined ? work() : watch.tool(runId, toolCall, work)));
    });
  };

  /** @param {Ask} asked */
  const ask = (asked) => {
    const { request, who, toolCall, runId, agent, interrupted } = asked;
    waitFor("permission", asked);
    begin(request, async (signal) => {
      const context = { signal, runId, agent, ...(interrupted && { interrupted }) };
      run.decide(request, await decide(agents[who]?.ask, toolCall, context));
    });
  };

  /** @param {Append} asked */
  const append = async ({ request, entry }) => {
    heartbeat.begin(`request ${request}`, { kind: "checkpoint" });
    const answer = await checkpoint?.keep(entry);
    heartbeat.end(`request ${request}`);
    run.stored(request, answer ?? "null");
  };

  /** @param {Phase} change */
  const enter = ({ phase, until, runId, agent }) => {
    if (phase === "none") return heartbeat.end(runId);
    const ofAgent = agent === undefined ? {} : { agent };
    heartbeat.begin(runId, { kind: phase, ...(until !== undefined && { until: new Date(until) }), ...ofAgent });
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
        case "append":
          append(request);
          return true;
        case "phase":
          enter(request);
          return true;
        case "abandon":
          abandon(request.request);
          return true;
        case "log": {
          const { shared } = /** @type {Who} */ (agents[request.who]);
          for (const record of request.records) {
            watch?.record(request.who, record);
            shared.log?.(record);
          }
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
