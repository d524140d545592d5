/** examples/bench-suite as a person runs it: a success, a failure and a timeout, a log of each and a page of all. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { runSuite } from "../../examples/bench-suite/suite.mjs";
import { createWorkspace } from "../support/claude-code.mjs";

it("runs all tasks, each with its row, its result and its log", async () => {
  const out = createWorkspace();
  const said = vi.spyOn(console, "log").mockImplementation(() => {});
  const { rows, page } = await runSuite({ out, parallel: 3 });
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
  expect([page, text]).toEqual([join(out, "index.html"), expect.stringContaining(`the page: ${page}`)]);
  const links = [...readFileSync(page, "utf8").matchAll(/href="([^"]+)">([^<]+)<\/a><\/th><td class="(\w+)">/g)];
  expect(links.map(([, href, name, status]) => [href, name, status])).toEqual(
    rows.map(({ task, result }) => [`${task.name}/timeline.html`, task.name, result.status]),
  );
  const [fixed, missing, waited] = links.map(([, href]) => readFileSync(join(out, String(href)), "utf8"));
  expect(fixed).toMatch(/<bdi class="title">Edit<\/bdi> <bdi class="arg">[^<]*sum\.js<\/bdi>/);
  expect(fixed).toContain("sum.js adds now.");
  expect(missing).toContain('<bdi class="title">NOT_FOUND</bdi>');
  expect(waited).toMatch(/<span class="badge odd">timeout<\/span>[\s\S]*<bdi class="title">CLAUDE_TIMEOUT<\/bdi>/);
});
