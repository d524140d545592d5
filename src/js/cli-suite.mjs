/**
 * `suite`. In: the arguments behind the command. Out: progress on standard error, the results on standard output and in a folder, and
 * an exit code.
 *
 * @import { TaskResult } from "./suite/work.mjs"
 */

import { resolve } from "node:path";
import { print, printJson, printShown, tell, visibleLine } from "./cli/screen.mjs";
import { parseCommandArgs } from "./cli-args.mjs";
import { providerIds } from "./cli-doctor.mjs";
import { isColourful, painter, table, UsageError, widthOf } from "./cli-text.mjs";
import { runSuite } from "./suite/run.mjs";
import { cells, HEAD, summary } from "./suite/summary.mjs";
import { readSuite } from "./suite/tasks.mjs";

const OPTIONS = /** @type {const} */ ({
  out: { type: "string" },
  concurrency: { type: "string" },
  resume: { type: "boolean" },
  json: { type: "boolean" },
});
/** As many as a provider runs at a time by default. */
const CONCURRENCY = "4";
const COLOURS = /** @type {const} */ ({ pass: "green", fail: "red", timeout: "red", error: "yellow" });

/**
 * @param {string[]} args
 * @param {AbortSignal} signal
 */
export async function suite(args, signal) {
  const { values, positionals } = parseCommandArgs(args, OPTIONS);
  const [file, more] = positionals;
  if (file === undefined) throw new UsageError("name the file of the tasks");
  if (more !== undefined) throw new UsageError(`unexpected argument "${more}": one file at a time`);
  if (values.out === undefined) throw new UsageError("say with --out which folder gets the results");
  const { concurrency = CONCURRENCY } = values;
  if (!/^[1-9]\d{0,3}$/.test(concurrency)) {
    throw new UsageError(`--concurrency must be a whole number from 1 to 9999, not "${concurrency}"`);
  }
  const tasks = await readSuite(file, providerIds());
  const progress = createProgress(tasks.tasks.length);
  const { results, page } = await runSuite(tasks, {
    out: resolve(values.out),
    concurrency: Number(concurrency),
    resume: values.resume === true,
    signal,
    onEvent: progress.show,
  });
  progress.end();
  if (values.json) printJson(results);
  else {
    printShown(`${format(results)}\n\n`);
    print(`${page}\n`);
  }
  if (signal.aborted) tell("interrupted: --resume does the rest");
  return results.length === tasks.tasks.length && results.every(({ verdict }) => verdict === "pass") ? 0 : 1;
}

/** @param {TaskResult[]} results */
function format(results) {
  const rows = results.map((result) => ({
    cells: cells(result),
    colours: [undefined, COLOURS[result.verdict]],
  }));
  return `${table(HEAD, rows, painter(isColourful(process.stdout)), widthOf(process.stdout))}\n\n${summary(results)}`;
}

/**
 * A line per finished task; on a terminal, below them one that says what goes on.
 *
 * @param {number} total
 */
function createProgress(total) {
  const out = process.stderr;
  const isLive = out.isTTY === true && process.env.TERM !== "dumb";
  const paint = painter(isColourful(out));
  /** @type {Set<string>} */
  const running = new Set();
  let done = 0;
  const clear = () => {
    if (isLive) printShown("\r\x1b[2K", out);
  };
  const state = () => {
    if (!isLive) return;
    const text = `${done} of ${total} done; running: ${[...running].join(", ") || "none"}`;
    printShown(text.slice(0, Math.max(widthOf(out) - 1, 1)), out);
  };
  return {
    /** @param {import("./suite/run.mjs").SuiteEvent} event */
    show(event) {
      clear();
      const name = visibleLine(event.task.name);
      if (event.type === "began") running.add(name);
      else {
        running.delete(name);
        done++;
        const { verdict, durationMs } = event.result;
        const when = event.kept ? "done before" : `${(durationMs / 1000).toFixed(1)} s`;
        printShown(`[${done}/${total}] ${name}: ${paint(COLOURS[verdict], verdict)} (${when})\n`, out);
      }
      state();
    },
    end: clear,
  };
}
