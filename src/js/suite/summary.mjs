/**
 * Results in a line, and as cells of a table.
 *
 * @import { TaskResult } from "./work.mjs"
 */

export const HEAD = ["TASK", "RESULT", "SECONDS", "CALLS", "TOKENS", "COST", "REASON"];
/** Of a reason, in a table; the task's `result.json` has it whole. */
const SHOWN = 100;

/** @param {TaskResult} result */
export function cells({ task, verdict, durationMs, toolCalls, tokens, costUsd, reason }) {
  const [line = ""] = reason.split("\n");
  return [
    task,
    verdict,
    (durationMs / 1000).toFixed(1),
    toolCalls === undefined ? "" : String(toolCalls),
    tokens?.toLocaleString("en") ?? "",
    dollars(costUsd),
    line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line,
  ];
}

/** @param {number | undefined} costUsd */
const dollars = (costUsd) => (costUsd === undefined ? "" : `$${costUsd.toFixed(4)}`);

/**
 * `2 of 3 passed, 12,345 tokens, $0.1200, 34.5 s of work`; what no task tells is left out.
 *
 * @param {readonly TaskResult[]} results
 */
export function summary(results) {
  /** @param {"tokens" | "costUsd" | "durationMs"} field */
  const sum = (field) => {
    const known = results.flatMap((result) => result[field] ?? []);
    return known.length > 0 ? known.reduce((total, value) => total + value, 0) : undefined;
  };
  const passed = results.filter(({ verdict }) => verdict === "pass").length;
  const tokens = sum("tokens")?.toLocaleString("en");
  return [
    `${passed} of ${results.length} passed`,
    tokens && `${tokens} tokens`,
    dollars(sum("costUsd")),
    `${((sum("durationMs") ?? 0) / 1000).toFixed(1)} s of work`,
  ]
    .filter(Boolean)
    .join(", ");
}
