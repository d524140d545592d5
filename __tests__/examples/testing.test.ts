// @change
/** The example of an agent's suite: it runs offline by its cassette, and the cassette is what a recording of the real CLI gives. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { removeFolder } from "../support/folders.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const VITEST = join(ROOT, "node_modules/vitest/vitest.mjs");
const CASSETTE = "crash.jsonl";

async function runSuite(env: Record<string, string>) {
  // In a thread: a process of its own for one file would only take longer.
  const args = ["run", "--root", "examples/testing", "--reporter=json", "--pool=threads"];
  const { stdout } = await promisify(execFile)(process.execPath, [VITEST, ...args], {
    cwd: ROOT,
    env: { ...process.env, ...env },
  });
  return JSON.parse(stdout.slice(stdout.indexOf("{")));
}

/** The lines of a cassette, without what is chance: times, tokens, and the CLI's news about itself. */
function linesOf(folder: string) {
  const lines = readFileSync(join(folder, CASSETTE), "utf8").trimEnd().split("\n");
  const parsed = lines.map((line) => JSON.parse(line.replace(/"ms":\d+,/, "")));
  return parsed
    .filter(({ event }) => !["other", "usage", "session"].includes(event?.type))
    .map(({ done, ...line }) => {
      return done === undefined ? line : { done: { ...done, costUsd: 0, model: "" } };
    });
}

it("passes without a CLI, and records what it plays", async () => {
  const folder = mkdtempSync(join(tmpdir(), "dfp-cassettes-"));
  onTestFinished(() => removeFolder(folder));
  expect(await runSuite({ RECORD: "", PATH: "" })).toMatchObject({ numPassedTests: 3, success: true });
  expect(await runSuite({ RECORD: "1", CASSETTES: folder })).toMatchObject({ numPassedTests: 3, success: true });
  expect(linesOf(folder)).toEqual(linesOf(join(ROOT, "examples/testing/cassettes")));
});
