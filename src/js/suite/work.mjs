/**
 * One task of a suite, done. In: the task, and an empty folder. Out: what became of it, its log, and the log's page.
 *
 * `claude-code` works in a copy of the task's files, with claude's own tools. A provider is asked through `runAgent`, without
 * tools; its answer is the file `answer.md` of the workspace. Then the task's check decides.
 *
 * @import { AgentExecutionResult, ProviderError as ProviderErrorType } from "../../../index.js"
 * @import { Task } from "./tasks.mjs"
 *
 * @typedef {"pass" | "fail" | "timeout" | "error"} Verdict `error`: the task could not be done, for a reason that is not the task
 *
 * @typedef {object} TaskResult
 * @property {1} version
 * @property {string} task
 * @property {string} fingerprint
 * @property {Verdict} verdict
 * @property {string} reason why it is no pass; empty for a pass
 * @property {string} provider
 * @property {string | undefined} model
 * @property {string} startedAt ISO 8601
 * @property {number} durationMs
 * @property {number | undefined} toolCalls
 * @property {number | undefined} tokens
 * @property {number | undefined} costUsd
 * @property {{ exitCode: number | null, output: string } | undefined} check
 */

import { cp, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { factoryOf } from "../cli-doctor.mjs";
import core from "../core.cjs";
import errors from "../errors.cjs";
import loader from "../load.cjs";
import {
  ClaudeCodeAdapter,
  createOpenAiCompatibleProvider,
  ProviderError,
  renderRunLog,
  runAgent,
} from "../native-entry.mjs";
import { CLAUDE_CODE } from "./tasks.mjs";

const { ownerOf } = core;

/** What is wrong with these is not the task: it is worth another try when that is mended. */
const NOT_THE_TASK = new Set([
  "quota",
  "rate_limit",
  "authentication",
  "network",
  "server",
  "not_found",
  "configuration",
]);

/**
 * @param {Task} task
 * @param {string} folder exists, and is empty
 * @param {{ signal: AbortSignal }} options
 * @returns {Promise<TaskResult>}
 */
export async function doTask(task, folder, { signal }) {
  const workspace = join(folder, "workspace");
  // Links stay what they are: a copy of what they lead to is no copy.
  if (task.files === undefined) await mkdir(workspace);
  else await cp(task.files, workspace, { recursive: true, verbatimSymlinks: true });
  const startedAt = new Date().toISOString();
  const began = performance.now();
  const work = task.provider === CLAUDE_CODE ? adapt : ask;
  const outcome = await work(task, { folder, workspace, signal }).catch(refusal);
  signal.throwIfAborted();
  const durationMs = Math.round(performance.now() - began);
  const checked = outcome.verdict === "pass" ? await check(task, workspace, signal) : undefined;
  const { verdict, reason } = checked?.failure ?? outcome;
  if (outcome.log !== undefined) await writeTimeline(join(folder, outcome.log), join(folder, "timeline.html"));
  return {
    version: 1,
    task: task.name,
    fingerprint: task.fingerprint,
    verdict,
    reason,
    provider: task.provider,
    model: outcome.model,
    startedAt,
    durationMs,
    toolCalls: outcome.toolCalls,
    tokens: outcome.tokens,
    costUsd: outcome.costUsd,
    check: checked?.report,
  };
}

/**
 * @typedef {{ folder: string, workspace: string, signal: AbortSignal }} Place
 * @typedef {{ verdict: Verdict, reason: string, model?: string | undefined, toolCalls?: number | undefined,
 *   tokens?: number | undefined, costUsd?: number | undefined, log?: string | undefined }} Outcome `log`: relative to the task's folder
 */

/**
 * What a config or an option that is refused comes to: the others of the suite go on.
 *
 * @param {unknown} error
 * @returns {Outcome}
 */
function refusal(error) {
  if (!ProviderError.isInstance(error)) throw error;
  return { ...verdictOfError(/** @type {ProviderErrorType} */ (error)), verdict: "error" };
}

/**
 * claude, at work for itself.
 *
 * @param {Task} task
 * @param {Place} place
 * @returns {Promise<Outcome>}
 */
async function adapt(task, { folder, workspace, signal }) {
  // The suite has a queue of its own: here, a task has its turn.
  const adapter = new ClaudeCodeAdapter({ cliPath: task.cliPath, saveLog: true, maxConcurrency: 1 });
  const prompt = task.promptFile === undefined ? { prompt: task.prompt } : { prompt_file: task.promptFile };
  const context = {
    workspaceDir: workspace,
    artifactsDir: join(folder, "artifacts"),
    config: /** @type {import("../../../index.js").ClaudeCodeConfig} */ ({ ...task.config, ...prompt }),
    timeout: task.timeout,
    signal,
  };
  const result = await adapter.execute(context);
  const { signal: _, ...past } = context;
  const log = adapter.normalizeLog(result, past);
  return {
    ...verdictOf(result),
    model: result.model,
    toolCalls: log.tool_calls.length,
    tokens: result.usage && log.usage.total_tokens,
    costUsd: result.costUsd,
    log: join("artifacts", "youbencha-log.json"),
  };
}

/**
 * @param {AgentExecutionResult} result
 * @returns {{ verdict: Verdict, reason: string }}
 */
function verdictOf({ status, errors }) {
  if (status === "success") return { verdict: "pass", reason: "" };
  const [error] = errors;
  const reason = error ? `${error.code ?? "failed"}: ${error.message}` : status;
  if (status === "timeout") return { verdict: "timeout", reason };
  return { verdict: NOT_THE_TASK.has(String(error?.context?.category)) ? "error" : "fail", reason };
}

/**
 * A provider, asked once.
 *
 * @param {Task} task
 * @param {Place} place
 * @returns {Promise<Outcome>}
 */
async function ask(task, { folder, workspace, signal }) {
  const log = "run.jsonl";
  const provider = providerOf(task);
  try {
    const limits = task.timeout > 0 ? { timeoutMs: task.timeout } : {};
    const run = runAgent({ provider, prompt: task.prompt ?? "", limits, signal, record: join(folder, log) });
    const result = await run.result;
    const { usage, costUsd } = result;
    const model = typeof task.options.model === "string" ? task.options.model : undefined;
    const known = { model, tokens: usage.inputTokens + usage.outputTokens, costUsd, toolCalls: 0, log };
    if (result.status === "completed") {
      await writeFile(join(workspace, "answer.md"), `${result.output}\n`);
      return { verdict: "pass", reason: "", ...known };
    }
    if (result.status === "limit") return { verdict: "timeout", reason: `longer than ${task.timeout} ms`, ...known };
    return { ...verdictOfError(result.error), ...known };
  } finally {
    await provider.close();
  }
}

/** @param {Task} task */
function providerOf({ provider, isApi, cliPath, options }) {
  if (isApi) return createOpenAiCompatibleProvider(/** @type {{ model: string }} */ (options));
  return factoryOf(provider)(/** @type {{}} */ ({ ...(cliPath !== undefined && { cliPath }), ...options }));
}

/**
 * @param {ProviderErrorType | undefined} error
 * @returns {{ verdict: Verdict, reason: string }}
 */
function verdictOfError(error) {
  if (!ProviderError.isInstance(error)) return { verdict: "error", reason: String(error ?? "it was cancelled") };
  const { code, message, category } = /** @type {ProviderErrorType} */ (error);
  const reason = `${code}: ${message}`;
  if (category === "timeout") return { verdict: "timeout", reason };
  return { verdict: NOT_THE_TASK.has(category) ? "error" : "fail", reason };
}

/**
 * Has the workspace judged by the task's own command. What it has started ends with it, also when this process is killed.
 *
 * @param {Task} task
 * @param {string} workspace
 * @param {AbortSignal} signal
 * @returns {Promise<{ report: TaskResult["check"], failure?: { verdict: Verdict, reason: string } } | undefined>}
 */
async function check({ check: command, checkTimeout }, workspace, signal) {
  if (command === undefined) return undefined;
  const native = loader.loadNative();
  const shell = new native.NativeShell(
    JSON.stringify({ command, cwd: workspace, timeout: checkTimeout }),
    ownerOf(native),
  );
  const end = () => shell.cancel();
  signal.addEventListener("abort", end, { once: true });
  try {
    if (signal.aborted) end();
    const run = await errors.guard(shell.run());
    signal.throwIfAborted();
    const { exitCode, timedOut, output } =
      /** @type {{ exitCode: number | null, timedOut: boolean, output: string }} */ (errors.unwrap(run));
    const report = { exitCode, output };
    if (timedOut)
      return { report, failure: { verdict: "fail", reason: `the check took longer than ${checkTimeout} ms` } };
    if (exitCode === 0) return { report };
    const why = exitCode === null ? "was ended by a signal" : `exited with ${exitCode}`;
    return { report, failure: { verdict: "fail", reason: `the check ${why}` } };
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/**
 * @param {string} log
 * @param {string} page
 */
async function writeTimeline(log, page) {
  // A task that failed before there was a run has none.
  if (!(await stat(log).catch(() => undefined))?.isFile()) return;
  await writeFile(page, await renderRunLog(log, { format: "html" }), { mode: 0o600 });
}
