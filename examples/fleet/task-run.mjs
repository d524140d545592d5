/**
 * A run of a task by claude itself (`ClaudeCodeAdapter`), which is not repeated once it is finished.
 *
 * In: a task, the run's id, and a store of checkpoints. Out: the run's record, from the store if it is there. claude works for itself:
 * such a run has no steps that could be kept. One that was interrupted begins anew, in a fresh workspace; what was paid for it is lost.
 *
 * @import { AgentExecutionResult, CheckpointStore, ClaudeCodeAdapter } from "deep-factor-providers"
 * @import { Task } from "./tasks.mjs"
 *
 * @typedef {object} TaskRecord
 * @property {1} v the format
 * @property {string} fingerprint of the task
 * @property {"pass" | "fail" | "timeout"} verdict
 * @property {string} output the model's last message, or why there is none
 * @property {number} tokens
 * @property {number} costUsd US dollars, as claude estimates them
 * @property {number} attempts this one and those that were interrupted
 */
import { createHash } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

const VERSION = 1;
/** The id is a folder's name, too. */
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/;
/** With one of these the task was not done: no record is made of it, and the queue decides when it is tried again. */
const NOT_THE_TASK = new Set([
  ...["quota", "rate_limit", "authentication", "network", "server", "not_found", "configuration", "validation"],
]);

/**
 * @param {object} options
 * @param {ClaudeCodeAdapter} options.adapter
 * @param {Task} options.task
 * @param {string} options.runId
 * @param {CheckpointStore} options.checkpoint
 * @param {string} options.workspaces the folder of the workspaces, which is there
 * @param {AbortSignal} options.signal ends the attempt: the run is given back, and nothing of claude is left
 * @param {number} options.heartbeatInterval ms
 * @param {() => unknown} options.onHeartbeat called so often; what it throws ends the attempt
 * @param {number} [options.timeout] ms
 * @returns {Promise<TaskRecord>}
 * @throws what the store throws (`RUN_LOCKED`), the signal's reason, and an error with the fields of a `ProviderError` where the task
 *   could not be done
 */
export async function runTask(options) {
  const { task, runId, checkpoint, signal, heartbeatInterval, onHeartbeat } = options;
  if (!RUN_ID.test(runId)) throw refusal("INVALID_OPTION", `runId is none: ${JSON.stringify(runId)}`);
  const { leaseMs = 30_000 } = checkpoint;
  const fingerprint = createHash("sha256").update(JSON.stringify(task)).update(`${task.passes}`).digest("hex");
  const { token, entries, result } = await checkpoint.load(runId, { leaseMs });
  if (result !== undefined) return readRecord(result, runId, fingerprint);

  const lease = { token, leaseMs };
  const stop = new AbortController();
  const beat = async () => {
    try {
      await Promise.all([checkpoint.append(runId, [], lease), onHeartbeat()]);
    } catch (error) {
      // Somebody else may have the run by now.
      stop.abort(error);
    }
  };
  const timer = setInterval(beat, heartbeatInterval);
  /** @type {TaskRecord | undefined} */
  let record;
  try {
    // Durable before anything is paid: it tells the next attempt of this one.
    await checkpoint.append(runId, [JSON.stringify({ v: VERSION, type: "task_begun", fingerprint })], lease);
    const done = await attempt(options, AbortSignal.any([signal, stop.signal]));
    record = { v: VERSION, fingerprint, ...done, attempts: entries.length + 1 };
    return record;
  } finally {
    clearInterval(timer);
    const kept = checkpoint.finish(runId, record && JSON.stringify(record), lease);
    // A record that is not durable is none; what can't be given back runs out.
    await (record === undefined ? kept.catch(() => {}) : kept);
  }
}

/**
 * @param {Parameters<typeof runTask>[0]} options
 * @param {AbortSignal} signal
 */
async function attempt({ adapter, task, runId, workspaces, timeout = 300_000 }, signal) {
  const workspaceDir = join(workspaces, runId.replaceAll(":", "%3A"));
  // An attempt that was killed has left its own.
  await rm(workspaceDir, { recursive: true, force: true });
  await mkdir(workspaceDir, { mode: 0o700 });
  try {
    for (const [name, text] of Object.entries(task.files)) await writeFile(join(workspaceDir, name), text);
    // The run's id, so that the scripted model can tell runs from each other.
    const config = /** @type {const} */ ({
      prompt: `${task.prompt}\nThis is run ${runId}.`,
      permission_mode: "auto",
    });
    const done = await adapter.execute({ workspaceDir, config, timeout, signal });
    const failure = errorOf(done);
    if (failure !== undefined && NOT_THE_TASK.has(failure.category)) throw failure;
    const answer = done.answer ?? "";
    const passes = failure === undefined && (await task.passes(workspaceDir, answer));
    /** @type {TaskRecord["verdict"]} */
    const verdict = done.timedOut ? "timeout" : passes ? "pass" : "fail";
    const { usage, costUsd = 0 } = done;
    const tokens = usage?.totalTokens ?? 0;
    return { verdict, output: failure?.message ?? answer, tokens, costUsd };
  } finally {
    await rm(workspaceDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Why the run is no success, with the fields that `whatToDo` reads of a `ProviderError`.
 *
 * @param {AgentExecutionResult} result
 */
function errorOf({ status, errors: [record] }) {
  if (status === "success") return undefined;
  const { code, category, resets_at, retry_after_ms, should_retry } = /** @type {any} */ (record?.context ?? {});
  return Object.assign(new Error(record?.message ?? status), {
    code: code ?? record?.code,
    category: String(category ?? "unknown"),
    resetsAt: resets_at === undefined ? undefined : new Date(resets_at),
    retryAfterMs: retry_after_ms,
    shouldRetry: should_retry === true,
  });
}

/**
 * What stands in the store is data: none of it is run, asked for, or taken for a path.
 *
 * @param {string} text
 * @param {string} runId
 * @param {string} fingerprint
 * @returns {TaskRecord}
 */
function readRecord(text, runId, fingerprint) {
  /** @type {Partial<TaskRecord> | null} */
  let record = null;
  try {
    record = JSON.parse(text);
  } catch {
    // It is refused below.
  }
  const isRecord = record?.v === VERSION && ["pass", "fail", "timeout"].includes(record.verdict ?? "");
  if (!isRecord) throw refusal("CHECKPOINT_INVALID", `the record of "${runId}" can't be read by this version`);
  if (record?.fingerprint === fingerprint) return /** @type {TaskRecord} */ (record);
  throw refusal("CHECKPOINT_MISMATCH", `"${runId}" is finished, and was another task. Take a new id`);
}

/**
 * @param {string} code
 * @param {string} message
 */
const refusal = (code, message) =>
  Object.assign(new Error(message), { code, category: "validation", shouldRetry: false });
