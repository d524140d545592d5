/** docs/agent.md says what the scenarios come to over every provider, and nothing else. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { scenarioTable } from "../support/agent-table.mjs";

const DOCUMENT = new URL("../../docs/agent.md", import.meta.url);

it("the table of docs/agent.md is that of the tests", () => {
  const table = scenarioTable();
  console.log(table);
  const [, kept] = /<!-- scenarios -->\n([^]*)\n<!-- end -->/.exec(readFileSync(DOCUMENT, "utf8")) ?? [];
  expect(kept?.trim()).toBe(table);
});
