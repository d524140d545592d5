/** examples/bench-suite as a person runs it: a success, a failure and a timeout, and a log of each. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { runSuite } from "../../examples/bench-suite/suite.mjs";
import { createWorkspace } from "../support/claude-code.mjs";

it("runs all tasks, each with its row, its result and its log", async () => {
  const out = createWorkspace();
  const said = vi.spyOn(console, "log").mockImplementation(() => {});
  const rows = await runSuite({ out, parallel: 3 });
  const text = said.mock.calls.flat().join("\n");
  said.mockRestore();
  expect(rows.map(({ task, result, wrong }) => [task.name, result.status, wrong])).toEqual([
    ["fix-the-sum", "success", undefined],
    ["no-such-agent", "failed", "NOT_FOUND"],
    ["wait-for-ever", "timeout", "CLAUDE_TIMEOUT"],
  ]);
  for (const { task, log } of rows) {
    expect(text).toMatch(new RegExp(`^${task.name} +${log.execution.status} `, "m"));
    const stored = readFileSync(join(out, task.name, "artifacts", "youbencha-log.json"), "utf8");
    expect(JSON.parse(stored)).toEqual(log);
  }
});
