"use strict";

/**
 * In: what `runAgent` was called with. Out: the `AgentRun` of index.d.ts. The run itself is native; here its events are handed
 * out; `agent-requests.cjs` answers what it asks for. It goes on whether or not anybody iterates.
 *
 * @import { AgentEvent, CheckpointStore } from "../../index.js"
 * @import { Prepared } from "./agent-options.cjs"
 * @import { Checkpoint } from "./checkpoint.cjs"
 * @import { ThreadBuilder } from "./thread.cjs"
 * @import { Telemetry } from "./telemetry/index.cjs"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {typeof import("./native.cjs")} Native
 * @typedef {import("./native.cjs").NativeAgent} NativeAgent
 * @typedef {import("./native.cjs").NativeAgentRun} NativeAgentRun
 */

const { createEvents, createListener } = require("./agent-events.cjs");
const { readAgentOptions } = require("./agent-options.cjs");
const { createRequests } = require("./agent-requests.cjs");
const { reasonOf } = require("./agent-tools.cjs");
const { openCheckpoint } = require("./checkpoint.cjs");
const { asStopped, closeCheckpoint, readFinished, unreadable } = require("./finished.cjs");
const { fault, guard, isProviderError, parseAnswer, providerError, unwrap } = require("./errors.cjs");
const { createHeartbeat } = require("./heartbeat.cjs");
const { workerEnv } = require("./options.cjs");
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
  // Whoever is not native waits for this.
  const stopped = new AbortController();
  const cancel = () => {
    run?.cancel();
    stopped.abort();
  };
  // Before anything is begun: a signal that can't be listened to leaves nothing behind.
  const unlisten = onAbort(signal, cancel);
  if (signal?.aborted) cancel();
  const start = () => agent.start(workerEnv(), stopped.signal.aborted);
  const began = Date.now();
  // At once, where nothing has to be looked up before.
  if (store === undefined) run = startedOr(unlisten, start);
  const listener = createListener(onEvent, cancel);
  const watch = observe(prepared);
  let ownRunId = runId;
  const heartbeat = createHeartbeat(prepared, () => ownRunId, listener.stop);
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
      for (const entry of parseAnswer(batch)) {
        if (requests.take(entry)) continue;
        const event = asStopped(publicEvent(entry), checkpoint);
        if (entry.parentRunId === undefined) ownRunId = entry.runId;
        // That it is completed is true when it is durable.
        if (checkpoint && event.type === "run_completed" && event.parentRunId === undefined) last = event;
        else report(event);
      }
    }
    const result = /** @type {any} */ (unwrap(await guard(run.result())));
    return await finish(asStopped(result, checkpoint), last);
  };

  /**
   * @param {any} result
   * @param {AgentEvent | undefined} last
   */
  const finish = async (result, last) => {
    const failed = await closeCheckpoint(checkpoint, result);
    if (failed === "stopped") {
      report(/** @type {any} */ ({ type: "run_failed", status: "cancelled", runId: result.runId }));
      const { structured: _, ...rest } = result;
      return withThread({ ...rest, status: "cancelled" }, undefined);
    }
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

  /** @param {any} finished as the store has it: what is no message there is no error of ours */
  const withFinishedThread = (finished) => {
    try {
      return withThread(finished, undefined);
    } catch (error) {
      throw unreadable(`a message in it is none: ${reasonOf(error)}`, error);
    }
  };

  /** @param {CheckpointStore} store */
  const goOn = async (store) => {
    heartbeat.begin("load", { kind: "checkpoint" });
    const opened = await openCheckpoint(store, runId, stopped.signal);
    heartbeat.end("load");
    if (opened === undefined) {
      report(/** @type {any} */ ({ type: "run_failed", status: "cancelled", runId }));
      return { ...nothing(thread.initial(prepared), runId), status: "cancelled" };
    }
    const { result, entries } = opened;
    watch?.resumes(entries);
    try {
      if (result !== undefined) {
        if (entries.length > 0) unwrap(agent.resume(JSON.stringify(entries)));
        const finished = readFinished(result);
        const { output, steps, usage, costUsd } = finished;
        const known = { output, steps, usage, ...(costUsd !== undefined && { costUsd }) };
        const whole = withFinishedThread(finished);
        report({ type: "run_completed", ...known, runId });
        return whole;
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

/**
 * @template T
 * @param {() => void} undo
 * @param {() => T} start
 */
function startedOr(undo, start) {
  try {
    return start();
  } catch (error) {
    undo();
    throw error;
  }
}

/**
 * What observes the run, from now on; `undefined` where there is no telemetry.
 *
 * @param {Prepared} prepared
 */
function observe({ telemetry, agents, encoded }) {
  if (telemetry === undefined) return undefined;
  const { observeAgent } = require("./telemetry/agent.cjs");
  const { quietly } = require("./telemetry/guard.cjs");
  const all = agents.map(({ name, model, shared: { id, asked } }) => {
    return { name, asked: { provider: id, model: undefined, ...asked, ...(model ? { model } : {}) } };
  });
  return quietly(() => observeAgent(telemetry, all, encoded));
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
  const known = isProviderError(error) ? error : fault("INTERNAL", reasonOf(error), error);
  return { ...nothing(messages, runId), status: "failed", error: known };
}

/**
 * What is known of a run that has done nothing.
 *
 * @param {unknown[]} messages
 * @param {string} runId
 */
function nothing(messages, runId) {
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
  return { runId, output: "", steps: 0, usage, messages };
}

/**
 * @param {any} entry
 * @returns {AgentEvent}
 */
function publicEvent(entry) {
  return entry.error ? { ...entry, error: providerError(entry.error) } : entry;
}

module.exports = { createRunAgent, publicEvent };
