"use strict";

/**
 * In: the events, the records and the tools of an agent's run. Out: one tree of spans: `invoke_agent {name}`, below it a
 * `chat {model}` for each turn and an `execute_tool {tool}` for each call, and below the call that handed a task on, the run of that
 * agent.
 *
 * @import { AgentEvent, LogRecord, ToolCall } from "../../../index.js"
 * @import { Asked, Chat, Outcome } from "./chat.cjs"
 * @import { Operation } from "./operation.cjs"
 * @import { Telemetry } from "./index.cjs"
 *
 * One agent at work.
 * @typedef {object} Run
 * @property {Operation} operation
 * @property {Asked} asked
 * @property {ReadonlySet<string>} tools the names that its model may call
 * @property {boolean} closed
 * @property {Chat | undefined} chat the turn that goes on
 * @property {number} since when what goes on now has begun, ms since the epoch
 * @property {Map<string, { call: ToolCall, time: number, tool?: ReturnType<typeof beginTool> }>} calls without a result yet
 */

const { beginChat, failureOf, usageAttributes } = require("./chat.cjs");
const { quietly } = require("./guard.cjs");
const { ATTR, OWN, companyOf } = require("./names.cjs");
const { KIND, begin } = require("./operation.cjs");
const { beginTool, hasRun } = require("./tool.cjs");

/** A span as a checkpoint's first entry has it: a `traceparent` of version 00. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const FIRST_ENTRY = '"type":"run"';

/** What is no news of a turn. */
const BETWEEN = new Set([
  "run_started",
  "permission",
  "tool_call",
  "tool_result",
  "deferred",
  "usage",
  "run_completed",
  "run_failed",
]);

/**
 * @param {Telemetry} telemetry
 * @param {readonly { name: string | undefined, asked: Asked }[]} agents the run's own first
 * @param {string} thread JSON of the normalised thread
 */
function observeAgent(telemetry, agents, thread) {
  const { tracer } = telemetry;
  /** @type {Map<string, Run>} by the run's id */
  const runs = new Map();
  /** @type {Map<string, Operation>} calls that wait for another agent's run, by its id */
  const handed = new Map();
  const own = /** @type {{ asked: Asked }} */ (agents[0]);
  const root = start(telemetry.agentName ?? own.asked.provider, own.asked);
  root.operation.set(quietly(() => telemetry.content.input(() => thread)) ?? {});
  /** @type {string | undefined} */
  let rootId;

  /**
   * @param {string} name
   * @param {Asked} asked
   * @param {Operation} [parent]
   * @returns {Run}
   */
  function start(name, asked, parent) {
    const attributes = {
      [ATTR.operation]: "invoke_agent",
      [ATTR.agentName]: name,
      [ATTR.provider]: companyOf(asked.provider),
      [ATTR.requestModel]: asked.model || undefined,
    };
    const operation = begin(tracer, `invoke_agent ${name}`, { kind: KIND.internal, attributes, parent });
    return { operation, asked, tools: new Set(), closed: false, chat: undefined, since: Date.now(), calls: new Map() };
  }

  /** @param {Extract<AgentEvent, { type: "run_started" }>} event */
  function opened({ runId, agent, parentRunId, resumed, tools }) {
    if (parentRunId === undefined) {
      rootId = runId;
      runs.set(runId, root);
    } else {
      const asked = agents.find(({ name }) => name === agent)?.asked ?? own.asked;
      runs.set(runId, start(agent ?? asked.provider, asked, handed.get(runId) ?? runs.get(parentRunId)?.operation));
    }
    const run = /** @type {Run} */ (runs.get(runId));
    run.tools = new Set(tools);
    run.operation.set({ [OWN.runId]: runId, [OWN.resumed]: resumed === undefined ? undefined : true });
  }

  /** @param {Run} run */
  const turn = (run) => {
    run.chat ??= beginChat(telemetry, run.asked, { parent: run.operation, startTime: run.since });
    return run.chat;
  };

  /** @param {AgentEvent} event */
  function take(event) {
    if (event.type === "run_started") opened(event);
    const run = runs.get(event.runId);
    if (run === undefined) return;
    if (!BETWEEN.has(event.type)) turn(run);
    switch (event.type) {
      case "tool_call":
        run.calls.set(event.toolCall.id, { call: event.toolCall, time: Date.now() });
        break;
      case "deferred": {
        const open = run.calls.get(event.toolCallId);
        if (open === undefined) break;
        open.tool = beginTool(telemetry, open.call, { parent: run.operation, startTime: open.time });
        handed.set(event.childRunId, open.tool.operation);
        break;
      }
      case "tool_result": {
        const open = run.calls.get(event.toolCallId);
        run.calls.delete(event.toolCallId);
        // One that JavaScript has run has ended its own.
        if (open !== undefined) {
          const isKnown = run.tools.has(event.name) || hasRun(event.name, event);
          const where = { parent: run.operation, startTime: open.time, isKnown };
          const tool = open.tool ?? beginTool(telemetry, open.call, where);
          tool.end(event);
        }
        run.since = Date.now();
        break;
      }
      case "run_completed":
        if (event.runId !== rootId) close(run, { ...event, status: "completed" });
        break;
      case "run_failed":
        if (event.runId !== rootId) close(run, { error: event.error, status: event.status });
        break;
    }
  }

  /**
   * @param {Run} run
   * @param {any} result an `AgentResult`, or what an event has of it
   */
  function close(run, { status, output, steps, usage, costUsd, error }) {
    const failure = error === undefined ? undefined : failureOf(error, telemetry.content);
    const cancelled = status === "cancelled";
    run.chat?.end({ ...(error === undefined ? {} : { error }), cancelled });
    for (const { tool } of run.calls.values()) tool?.end({ content: "", isError: true });
    run.operation.set({
      ...usageAttributes(usage),
      [ATTR.outputMessages]: output === undefined ? undefined : telemetry.content.output({ content: output }),
      [OWN.cost]: costUsd,
      [OWN.steps]: steps,
      [OWN.status]: status,
      [OWN.cancelled]: cancelled || undefined,
      [ATTR.errorType]: failure?.type,
    });
    run.operation.end(failure);
    run.closed = true;
  }

  /** @param {string} entry */
  function stamp(entry) {
    if (!entry.includes(FIRST_ENTRY) || JSON.parse(entry).type !== "run") return entry;
    const { traceId, spanId, traceFlags = 0 } = root.operation.place();
    const trace = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
    if (!TRACEPARENT.test(trace)) return entry;
    // The rest stays as it is written: a number may be larger than JavaScript's.
    return `${entry.slice(0, entry.lastIndexOf("}"))},"trace":"${trace}"}`;
  }

  return {
    /** @param {AgentEvent} event */
    event: (event) => quietly(() => take(event)),

    /** A turn is over. @param {string} runId @param {Pick<Outcome, "reply" | "error">} outcome */
    turn: (runId, outcome) =>
      quietly(() => {
        const run = runs.get(runId);
        if (run === undefined) return;
        turn(run).end(outcome);
        run.chat = undefined;
        run.since = Date.now();
      }),

    /** An entry as it is to be kept: the first says which span the run began in. @param {string} entry @returns {string} */
    stamped: (entry) => quietly(() => stamp(entry)) ?? entry,

    /** The run goes on behind these entries: its span is linked to the one that it began in. @param {readonly string[]} entries */
    resumes: ([first]) =>
      quietly(() => {
        const { trace } = JSON.parse(first ?? "{}");
        const [, traceId = "", spanId = "", flags = ""] = TRACEPARENT.exec(trace) ?? [];
        if (traceId === "") return;
        root.operation.link({ context: { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true } });
      }),

    /** @param {number} who @param {LogRecord} record */
    record: (who, record) =>
      quietly(() => {
        const { asked } = agents[who] ?? own;
        const at = [...runs.values()].findLast((run) => run.asked === asked);
        if (at === undefined) return;
        // The end of a print form's process may be known behind the turn that it was.
        if (at.chat !== undefined || record.message === "started" || record.message === "continued")
          turn(at).record(record);
      }),

    /**
     * Runs a tool where its span is the active one.
     *
     * @template T
     * @param {string} runId
     * @param {ToolCall} call
     * @param {() => Promise<T>} work
     * @returns {Promise<T>}
     */
    async tool(runId, call, work) {
      const run = runs.get(runId) ?? root;
      const tool = quietly(() => beginTool(telemetry, call, { parent: run.operation }));
      if (tool === undefined) return work();
      run.calls.delete(call.id);
      const answer = await tool.operation.within(work);
      quietly(() => tool.end(JSON.parse(String(answer))));
      return answer;
    },

    /** @param {any} result the run's `AgentResult` */
    ended: (result) =>
      quietly(() => {
        // What broke off without a last event of its own.
        for (const run of runs.values()) if (run !== root && !run.closed) close(run, { status: result.status });
        close(root, result);
      }),
  };
}

module.exports = { observeAgent };
