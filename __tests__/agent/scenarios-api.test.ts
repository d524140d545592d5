/** The same scenarios over an OpenAI-compatible API; and SCENARIOS.md says what they come to over every provider, and nothing else. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { API } from "../support/agent-api.mjs";
import { testScenarios } from "../support/agent-suite.mjs";
import { scenarioTable } from "../support/agent-table.mjs";

testScenarios([API]);

const DOCUMENT = new URL("SCENARIOS.md", import.meta.url);

it("the table of SCENARIOS.md is that of the tests", () => {
  const table = scenarioTable();
  console.log(table);
  const [, kept] = /<!-- scenarios -->\n([\s\S]*)\n<!-- end -->/.exec(readFileSync(DOCUMENT, "utf8")) ?? [];
  expect(kept?.trim()).toBe(table);
});
