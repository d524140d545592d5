/**
 * A suite, done: every task in a folder of its own, some at a time. In: the tasks, and the folder of the results. Out: a result per
 * task, kept in its folder; a task whose result is there is finished, and is not done again.
 *
 * @import { Suite, Task } from "./tasks.mjs"
 * @import { TaskResult } from "./work.mjs"
 *
 * @typedef {{ type: "began", task: Task } | { type: "ended", task: Task, result: TaskResult, kept: boolean }} SuiteEvent `kept`: it was
 * finished before
 */

import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../cli-text.mjs";
import { LOCK, lockFolder } from "./lock.mjs";
import { writeIndex } from "./page.mjs";
import { doTask } from "./work.mjs";

/** Stands in the folder of results, and says that it is one. */
const MARK = "suite.json";
const RESULT = "result.json";

/**
 * @param {Suite} suite
 * @param {{ out: string, concurrency: number, resume: boolean, signal: AbortSignal,
 *   onEvent: (event: SuiteEvent) => void }} options
 * @returns {Promise<{ results: TaskResult[], page: string }>} in the order of the tasks; without those that an abort left undone
 */
export async function runSuite(suite, options) {
  const close = await open(options.out, options.resume, suite);
  try {
    return await runTasks(suite, options);
  } finally {
    close();
  }
}

/**
 * @param {Suite} suite
 * @param {Parameters<typeof runSuite>[1]} options
 */
async function runTasks(suite, { out, concurrency, signal, onEvent }) {
  /** @type {Map<Task, TaskResult>} */
  const results = new Map();
  /** @type {Task[]} */
  const waiting = [];
  for (const task of suite.tasks) {
    const kept = await finished(task, join(out, task.name));
    if (kept === undefined) waiting.push(task);
    else {
      results.set(task, kept);
      onEvent({ type: "ended", task, result: kept, kept: true });
    }
  }
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const worker = async () => {
    for (let task = waiting.shift(); task !== undefined && !stop.aborted; task = waiting.shift()) {
      onEvent({ type: "began", task });
      const result = await finish(task, join(out, task.name), { signal: stop });
      results.set(task, result);
      onEvent({ type: "ended", task, result, kept: false });
    }
  };
  const workers = Array.from({ length: Math.min(concurrency, waiting.length) }, async () => {
    try {
      await worker();
    } catch (error) {
      // What was begun ends before this function does: nothing of it is left behind.
      failed.abort(error);
      throw error;
    }
  });
  const ends = await Promise.allSettled(workers);
  const inOrder = suite.tasks.flatMap((task) => results.get(task) ?? []);
  const page = await writeIndex(out, suite, inOrder);
  for (const end of ends) if (end.status === "rejected" && !signal.aborted) throw end.reason;
  return { results: inOrder, page };
}

/**
 * Sees to it that `out` is a folder of results, and nobody else's for now: a new one, or with `resume` one that was begun.
 *
 * @param {string} out
 * @param {boolean} resume
 * @param {Suite} suite
 * @returns {Promise<() => void>} gives it back
 */
async function open(out, resume, suite) {
  await mkdir(out, { recursive: true });
  await requireOurs(out, resume);
  const close = await lockFolder(out, MARK);
  try {
    // Somebody may have begun, and ended, since.
    await requireOurs(out, resume);
    const mark = { version: 1, title: suite.title, pid: process.pid, tasks: suite.tasks.map(({ name }) => name) };
    await replace(join(out, MARK), `${JSON.stringify(mark, null, 2)}\n`);
    return close;
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * @param {string} out
 * @param {boolean} resume
 */
async function requireOurs(out, resume) {
  const names = (await readdir(out)).filter((name) => name !== LOCK);
  const isOurs = names.includes(MARK);
  if (names.length > 0 && !isOurs) {
    throw new UsageError(`--out is a folder with other things in it, which are left alone: ${out}. Name a new one`);
  }
  if (isOurs && !resume) {
    throw new UsageError(`--out has results already: ${out}. Add --resume to go on there, or name a new folder`);
  }
}

/**
 * The result of a task that is finished. One that was changed since is not, nor one that could not be done.
 *
 * @param {Task} task
 * @param {string} folder
 * @returns {Promise<TaskResult | undefined>}
 */
async function finished(task, folder) {
  try {
    const result = /** @type {TaskResult} */ (JSON.parse(await readFile(join(folder, RESULT), "utf8")));
    const same = result.version === 1 && result.fingerprint === task.fingerprint;
    return same && result.verdict !== "error" ? result : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {Task} task
 * @param {string} folder
 * @param {{ signal: AbortSignal }} options
 */
async function finish(task, folder, options) {
  const found = await lstat(folder).catch(() => undefined);
  // What an earlier attempt has left; a link is taken away, and what it leads to stays.
  if (found) await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  const result = await doTask(task, folder, options);
  await replace(join(folder, RESULT), `${JSON.stringify(result, null, 2)}\n`);
  return result;
}

/**
 * Writes a file whole or not at all.
 *
 * @param {string} path
 * @param {string} text
 */
async function replace(path, text) {
  const fresh = `${path}.new`;
  await rm(fresh, { force: true });
  await writeFile(fresh, text, { mode: 0o600, flag: "wx" });
  await rename(fresh, path);
}
