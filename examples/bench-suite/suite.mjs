// @ts-check
/**
 * A suite: every task in a fresh workspace, some at a time, each with its result, its artifacts and its normalised log.
 *
 * In flow the tasks of tasks.mjs; out flow a folder per task, a table, and a page with a timeline of each task. A task that fails or takes too long is a row like any
 * other: `execute` throws only for a context that is wrong.
 */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { ClaudeCodeAdapter } from "deep-factor-providers";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { writePage } from "./page.mjs";
import { scriptedModel, TASKS } from "./tasks.mjs";

/**
 * @typedef {import("./tasks.mjs").Task} Task
 * @typedef {import("deep-factor-providers").AgentExecutionResult} Result
 * @typedef {import("deep-factor-providers").RunLog} RunLog
 * @typedef {{ task: Task, result: Result, log: RunLog, wrong: string | undefined }} Row
 */

/** @param {{ out?: string, parallel: number }} options */
export async function runSuite({ out, parallel }) {
  const folder = out === undefined ? await mkdtemp(join(tmpdir(), "bench-suite-")) : resolve(out);
  const api = await startAnthropic(scriptedModel);
  const claude = isolateClaude({ baseUrl: api.url });
  try {
    // The limit is the adapter's: all tasks are handed over at once, and wait in its queue.
    const options = { cliPath: claude.cliPath, env: claude.env, maxConcurrency: parallel, saveLog: true };
    const adapter = new ClaudeCodeAdapter(options);
    if (!(await adapter.checkAvailability())) throw new Error(`${claude.cliPath} does not answer`);
    console.log(`claude ${claude.version}, ${TASKS.length} tasks, ${parallel} at a time; its API is scripted`);
    const rows = await Promise.all(TASKS.map((task) => runTask(adapter, task, join(folder, task.name))));
    const page = await writePage(folder, HEAD, rows.map(cells));
    console.log(`\n${table(rows)}\n\nresults and logs: ${folder}\nthe page: ${page}`);
    return { rows, page };
  } finally {
    await api.close();
    claude.cleanup();
  }
}

/**
 * @param {ClaudeCodeAdapter} adapter
 * @param {Task} task
 * @param {string} folder
 * @returns {Promise<Row>}
 */
async function runTask(adapter, task, folder) {
  const workspaceDir = join(folder, "workspace");
  const artifactsDir = join(folder, "artifacts");
  await mkdir(workspaceDir, { recursive: true });
  for (const [name, content] of Object.entries(task.files)) {
    await mkdir(dirname(join(workspaceDir, name)), { recursive: true });
    await writeFile(join(workspaceDir, name), content);
  }
  const context = { workspaceDir, artifactsDir, config: task.config, timeout: task.timeout };
  const result = await adapter.execute(context);
  const { output: _, ...summary } = result;
  await writeFile(join(folder, "result.json"), `${JSON.stringify(summary, null, 2)}\n`);
  const wrong = result.status === "success" ? await task.verdict(workspaceDir) : result.errors[0]?.code;
  console.log(`${task.name}: ${result.status}`);
  return { task, result, log: adapter.normalizeLog(result, context), wrong };
}

const HEAD = ["task", "status", "exit", "seconds", "calls", "tokens", "what is wrong"];

/** @param {Row} row */
function cells({ task, result, log, wrong }) {
  return [
    task.name,
    result.status,
    String(result.exitCode),
    (result.durationMs / 1000).toFixed(1),
    String(log.tool_calls.length),
    log.usage.total_tokens.toLocaleString("en"),
    wrong ?? "",
  ];
}

/** @param {Row[]} rows */
function table(rows) {
  const all = [HEAD, ...rows.map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (/** @type {string[]} */ row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [line(HEAD), line(widths.map((width) => "─".repeat(width))), ...all.slice(1).map(line)].join("\n");
}
