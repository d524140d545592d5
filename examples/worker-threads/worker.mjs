/**
 * A thread of the pool: runs one agent after the other, each from its checkpoint's last entry.
 *
 * In: `workerData`, and a message `{ id, prompt }` for each run, or `"stop"`. Out: a message `{ type: "beat" }` with what the run waits for
 * as long as it is under way, then one `{ type: "ended" }` with its result, or with what is to be done about its error.
 *
 * @typedef {{ baseURL: string, payments: string, dir: string, heartbeatInterval: number }} WorkerData
 *
 * @typedef {object} Ended
 * @property {"ended"} type
 * @property {{ output: string, resumed: number }} [value] `resumed`: turns of earlier attempts, which were not paid again
 * @property {ReturnType<typeof import("../fleet/retry.mjs").whatToDo>} [action] of a run that did not complete; neither: it was stopped
 * @property {string} [reason]
 */
import { parentPort, workerData } from "node:worker_threads";
import { createFileCheckpoint, createOpenAiCompatibleProvider, runAgent } from "deep-factor-providers/native";
import { whatToDo } from "../fleet/retry.mjs";

/** How long to leave a run alone that somebody else has locked, ms. A lock ends with its thread, so this is only how often to look. */
const LOCKED_MS = 1000;

const port = /** @type {import("node:worker_threads").MessagePort} */ (parentPort);
const { baseURL, payments, dir, heartbeatInterval } = /** @type {WorkerData} */ (workerData);
const provider = createOpenAiCompatibleProvider({ baseURL, apiKey: "not-a-key", model: "scripted", retry: false });
const checkpoint = createFileCheckpoint({ dir });
const stop = new AbortController();

const tools = [
  {
    name: "charge",
    // The service knows the key: a charge that was on its way when the thread ended is asked for once more.
    idempotent: true,
    schema: { type: "object", properties: { cents: { type: "integer" } }, required: ["cents"] },
    /** @param {any} args @param {{ idempotencyKey: string, signal: AbortSignal }} context */
    async execute({ cents }, { idempotencyKey, signal }) {
      const headers = { "idempotency-key": idempotencyKey };
      const response = await fetch(payments, { method: "POST", headers, body: `${cents}`, signal });
      if (!response.ok) throw new Error(`the payment was refused: HTTP ${response.status}`);
      return `charged ${cents}`;
    },
  },
];

/**
 * @param {{ id: string, prompt: string }} run
 * @returns {Promise<Ended>}
 */
async function attempt({ id, prompt }) {
  const { status, output, resumed, error } = await runAgent({
    ...{ provider, checkpoint, prompt, tools, heartbeatInterval },
    runId: id,
    signal: stop.signal,
    onHeartbeat: ({ waitingFor }) => port.postMessage({ type: "beat", waitingFor: waitingFor.map(({ kind }) => kind) }),
  }).result;
  if (status === "completed") return { type: "ended", value: { output, resumed: resumed?.steps ?? 0 } };
  if (status === "cancelled" || error === undefined) return { type: "ended" };
  return { type: "ended", action: whatToDo(error, LOCKED_MS), reason: `${error.code}: ${error.message}` };
}

port.on("message", async (message) => {
  if (message === "stop") stop.abort();
  else port.postMessage(await attempt(message));
});
