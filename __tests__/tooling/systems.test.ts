/** Which things of a Unix the tests use is said by those that use them, so that they are left out elsewhere instead of failing. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { unsaid } from "../support/systems.mjs";

const TESTS = fileURLToPath(new URL("..", import.meta.url));

/** Files that only look as if they used it, and why. */
const ALLOWED: Record<string, string> = {
  "examples/agent-run.test.ts": "a path that is refused",
  "tooling/systems.test.ts": "texts that the rule is tried on",
};

it("a test file that uses what only a Unix has says so", () => {
  const files = readdirSync(TESTS, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(".test.ts"));
  const found = files.map((file) => [file, unsaid(readFileSync(`${TESTS}/${file}`, "utf8"))] as const);
  const silent = found.filter(([, words]) => words.length > 0);
  expect(silent.filter(([file]) => !(file in ALLOWED))).toEqual([]);
  expect(Object.keys(ALLOWED)).toEqual(silent.map(([file]) => file).filter((file) => file in ALLOWED));
});

it.each([
  ['process.kill(pid, "SIGTERM")', ["signals"]],
  ["process.kill(pid, 0)", []],
  ['child.kill("SIGKILL")', []],
  ['writeFileSync(path, "#!/bin/sh\\n", { mode: 0o755 })', ["scripts"]],
  ["expect(statSync(path).mode & 0o777)", ["modes"]],
  ['it.skipIf(lacks("modes"))("…", () => chmodSync(path, 0o600))', []],
  ["chmodSync(path, 0o600)", ["modes"]],
  ['symlinkSync(a, b, "junction")', []],
  ["symlinkSync(a, b)", ["links"]],
  ['readFileSync("/proc/self/stat")', ["procfs"]],
])("%s: %j", (text, words) => {
  expect(unsaid(text)).toEqual(words);
});
