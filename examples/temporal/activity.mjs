/**
 * An agent's run as a Temporal activity. The workflow's side is an ordinary `proxyActivities`:
 *
 *   const { runAgentActivity } = proxyActivities({ heartbeatTimeout: "1 minute", scheduleToCloseTimeout: "7 days" });
 *   await runAgentActivity({ runId: "invoice-7", prompt: "Pay invoice 7." });
 *
 * Temporal delivers an activity as often as it takes, and the checkpoints make that cheap: a later attempt, on whichever worker, goes on
 * after the run's last entry. The store has to be one that all workers reach (`../fleet/redis-store.mjs`, `../fleet/postgres-store.mjs`).
 *
 * @import { AgentHeartbeat, AgentTool, CheckpointStore, CliProvider, ProviderError } from "deep-factor-providers"
 */
import { createRequire } from "node:module";
import { runAgent } from "deep-factor-providers/native";
import { whatToDo } from "../fleet/retry.mjs";

const { ApplicationFailure, Context } = createRequire(import.meta.url)("@temporalio/activity");

/** How often there is a sign of life where the activity has no `heartbeatTimeout`, ms. */
const HEARTBEAT_MS = 10_000;
/** The shortest interval that `runAgent` takes, ms. */
const SHORTEST_MS = 10;

/**
 * What a worker registers: `Worker.create({ activities: createAgentActivities({ provider, checkpoint, tools }), … })`.
 *
 * @param {object} parts
 * @param {CliProvider<any>} parts.provider
 * @param {CheckpointStore} parts.checkpoint
 * @param {readonly AgentTool[]} [parts.tools]
 */
export function createAgentActivities({ provider, checkpoint, tools = [] }) {
  const { leaseMs = 30_000 } = checkpoint;
  return {
    /**
     * @param {{ runId: string, prompt: string }} run `runId` is the workflow's choice: the same one goes on with the same run
     * @returns {Promise<{ output: string, steps: number, resumed: number, tokens: number }>} `resumed`: turns of earlier attempts
     */
    async runAgentActivity({ runId, prompt }) {
      const context = Context.current();
      const { heartbeatTimeoutMs = 3 * HEARTBEAT_MS } = context.info;
      const { status, output, steps, usage, resumed, error } = await runAgent({
        ...{ provider, checkpoint, tools, runId, prompt },
        signal: context.cancellationSignal,
        // Temporal passes on as many of them as it needs, and says with their answers that the activity is cancelled.
        heartbeatInterval: Math.max(SHORTEST_MS, Math.floor(heartbeatTimeoutMs / 3)),
        onHeartbeat: (beat) => context.heartbeat(detailsOf(beat)),
      }).result;
      if (status === "completed") return { output, steps, resumed: resumed?.steps ?? 0, tokens: usage.totalTokens };
      if (error !== undefined) throw failureOf(error, leaseMs);
      // The workflow asked for nothing when a worker is shut down: another one goes on.
      const { message } = context.cancellationSignal.reason;
      if (message === "WORKER_SHUTDOWN") throw ApplicationFailure.create({ message, type: message });
      return await context.cancelled;
    },
  };
}

/**
 * A sign of life as plain data, for Temporal's page of pending activities.
 *
 * @param {AgentHeartbeat} beat
 */
function detailsOf({ runId, waitingFor }) {
  const texts = waitingFor.map(({ since, until, ...wait }) => ({
    ...wait,
    since: since.toISOString(),
    ...(until && { until: until.toISOString() }),
  }));
  return { runId, waitingFor: texts };
}

/**
 * What Temporal is to do about an error: the retry policy's `nonRetryableErrorTypes` may name our codes, too.
 *
 * @param {ProviderError} error
 * @param {number} leaseMs of the checkpoints' store
 */
export function failureOf(error, leaseMs) {
  const { code, category, provider, message } = error;
  const action = whatToDo(error, leaseMs);
  return ApplicationFailure.create({
    ...{ message, type: code, cause: error, nonRetryable: action.do === "bury" },
    details: [{ category, provider }],
    // 0 would be none.
    ...(action.do === "delay" && { nextRetryDelay: Math.max(1, action.until - Date.now()) }),
  });
}
