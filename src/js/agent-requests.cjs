"use strict";

/**
 * What the native side of an agent run asks for: tools are run, the caller is asked for permission, entries are stored, what is waited
 * for is noted, records are logged.
 *
 * @import { ProviderReply, ToolCall } from "../../index.js"
 * @import { Who } from "./agent-options.cjs"
 * @import { Checkpoint } from "./checkpoint.cjs"
 * @import { Heartbeat } from "./heartbeat.cjs"
 *
 * @typedef {import("./native.cjs").NativeAgentRun} NativeAgentRun
 * @typedef {ReturnType<typeof import("./telemetry/agent.cjs").observeAgent>} Watch what observes the run
 *
 * @typedef {{ request: number, who: number, toolCall: ToolCall, runId: string, agent?: string }} OfCall
 * @typedef {OfCall & { type: "execute", idempotencyKey: string }} Execute
 * @typedef {OfCall & { type: "ask", interrupted: boolean }} Ask
 * @typedef {{ type: "append", request: number, entry: string }} Append
 * @typedef {{ type: "phase", phase: "queue" | "model" | "quota" | "none", until?: number, runId: string, agent?: string }} Phase
 * @typedef {{ type: "turn_over", reply?: ProviderReply, error?: unknown, runId: string }} TurnOver
 * @typedef {Execute | Ask | Append | Phase | { type: "abandon", request: number }
 *   | { type: "log", who: number, records: never[] } | TurnOver} Request
 */

const { reasonOf, runTool } = require("./agent-tools.cjs");
const { describe } = require("./options.cjs");

/**
 * Answers what the native side asks for.
 *
 * @param {NativeAgentRun} run
 * @param {readonly Who[]} agents
 * @param {{ heartbeat: Heartbeat, checkpoint: Checkpoint | undefined, watch: Watch | undefined }} parts
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
      const may = checkpoint?.mayBegin() ?? true;
      // A run that may not go on ends by the checkpoint's own failure.
      if (may !== true && !((await may) && !signal.aborted)) return;
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
    const answer = await checkpoint?.keep(watch?.stamped(entry) ?? entry);
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
        case "turn_over":
          watch?.turn(request.runId, request);
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

module.exports = { createRequests };
