import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type Check,
  countCargo,
  countPlain,
  countVitest,
  formatSummary,
  listChecks,
  runChecks,
} from "../../.ci/test.mjs";

const node = (source: string) => [process.execPath, "-e", source];

async function run(checks: Check[], options: { verbose?: boolean; timeoutMs?: number } = {}) {
  let text = "";
  const results = await runChecks(checks, {
    ...options,
    write: (part) => {
      text += part;
    },
  });
  return { results, text: text.replace(/\d+\.\d s/g, "T s") };
}

const rule = (title: string) => `\n${`── ${title} `.padEnd(80, "─")}\n`;

describe("runChecks", () => {
  it("goes on after a failure, shows only what failed and how to run it alone", async () => {
    const { results, text } = await run([
      { name: "good", command: node("console.log('quiet')") },
      {
        name: "bad",
        command: node("console.log('reason'); process.exit(3)"),
        repeat: "npm run bad",
        env: { ALL: "1", FLAGS: "-D warnings" },
      },
      { name: "gone", command: ["no-such-command-here", "--flag"] },
      // The exit code has the last word.
      {
        name: "counted",
        command: node("console.log('Tests  3 passed (3)'); process.exit(1)"),
        repeat: "counted",
        count: countVitest,
      },
      { name: "last", command: node("process.exit(process.env.OWN === 'yes' ? 0 : 1)"), env: { OWN: "yes" } },
    ]);
    expect(text).toBe(
      [
        `${rule("1/5 good")}ok in T s\n`,
        `${rule("2/5 bad")}reason\nFAILED (3) in T s\nagain, alone: ALL=1 FLAGS='-D warnings' npm run bad\n`,
        `${rule("3/5 gone")}FAILED (cannot be started: spawn no-such-command-here ENOENT) in T s\n`,
        "again, alone: no-such-command-here --flag\n",
        `${rule("4/5 counted")}Tests  3 passed (3)\nFAILED (1) in T s\nagain, alone: counted\n`,
        `${rule("5/5 last")}ok in T s\n`,
      ].join(""),
    );
    expect(results.map(({ ms, ...result }) => result)).toEqual([
      { name: "good", ok: true, passed: 1, failed: 0, skipped: 0 },
      { name: "bad", ok: false, passed: 0, failed: 1, skipped: 0 },
      { name: "gone", ok: false, passed: 0, failed: 1, skipped: 0 },
      { name: "counted", ok: false, passed: 3, failed: 1, skipped: 0 },
      { name: "last", ok: true, passed: 1, failed: 0, skipped: 0 },
    ]);
  });

  it("starts early what waits for others, and reports it when it is its turn", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-ci-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const file = JSON.stringify(join(folder, "early"));
    const waits = `while (!require("fs").existsSync(${file}));`;
    const checks = [
      { name: "needs it", command: node(waits) },
      { name: "early", command: node(`require("fs").writeFileSync(${file}, ""); console.log("here")`), early: true },
    ];
    const { results, text } = await run(checks, { verbose: true });
    expect(text).toBe(`${rule("1/2 needs it")}ok in T s\n${rule("2/2 early")}here\nok in T s\n`);
    expect(results.map(({ ok }) => ok)).toEqual([true, true]);
  });

  it("starts a check as soon as the one that it names has ended, beside those whose turn it is", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-ci-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const file = (name: string) => JSON.stringify(join(folder, name));
    /** Fails where the check before it has not ended. */
    const behind = (before: string, name: string) => ({
      name,
      command: node(`require("fs").statSync(${file(before)}); require("fs").writeFileSync(${file(name)}, "")`),
      early: before,
    });
    const checks = [
      { name: "first", command: node(`require("fs").writeFileSync(${file("first")}, "")`) },
      { name: "needs it", command: node(`while (!require("fs").existsSync(${file("last")}));`) },
      behind("first", "beside"),
      behind("beside", "last"),
    ];
    const { results } = await run(checks, { timeoutMs: 60_000 });
    expect(results.map(({ name, ok }) => [name, ok])).toEqual([
      ["first", true],
      ["needs it", true],
      ["beside", true],
      ["last", true],
    ]);
  });

  it("ends a check that takes too long, even one that only waits for a process it left behind", {
    timeout: 30_000,
  }, async () => {
    const grandchild =
      "require('child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000)'], { stdio: 'inherit' })";
    const slow = { name: "slow", command: node(grandchild), repeat: "npm run slow" };
    const { results, text } = await run([slow], { timeoutMs: 300 });
    expect(text).toBe(`${rule("1/1 slow")}FAILED (still running after T s) in T s\nagain, alone: npm run slow\n`);
    expect(results[0]).toMatchObject({ ok: false, failed: 1 });
  });
});

describe("listChecks", () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const names = (options: { ci?: boolean; all?: boolean }) => listChecks(root, options).map(({ name }) => name);

  it("adds with --ci what every change has to pass and with --all what guards a release, and takes nothing away", () => {
    const daily = names({});
    expect(daily).toEqual([
      "cargo fmt",
      "biome",
      "dependencies",
      "cargo clippy",
      "cargo test",
      "build",
      "packages",
      "tsc",
      "vitest",
    ]);
    const added = (options: { ci?: boolean; all?: boolean }) => {
      expect(names(options).filter((name) => daily.includes(name))).toEqual(daily);
      return names(options).filter((name) => !daily.includes(name));
    };
    expect(added({ ci: true })).toEqual(["cargo doc", "package"]);
    expect(added({ all: true })).toEqual([
      "cargo doc",
      "package",
      "bench",
      "rehearsal",
      "runtimes",
      "other platforms",
      "Windows",
    ]);
  });
});

describe("counting", () => {
  it("takes what a check says of itself", () => {
    expect(countPlain("ok  one\n3 passed, 1 failed, 2 skipped\n")).toEqual({ passed: 3, failed: 1, skipped: 2 });
    expect(countPlain("skipped: Wine is only set up on Linux x64.\n")).toBeUndefined();
  });

  it("adds up cargo's test binaries", () => {
    const output = `
running 2 tests
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
`;
    expect(countCargo(output)).toEqual({ passed: 5, failed: 4, skipped: 1 });
    expect(countCargo("error: could not compile")).toBeUndefined();
  });

  it("reads vitest's line of tests, not of files", () => {
    const output = " Test Files  1 failed | 2 passed (3)\n      Tests  1 failed | 20 passed | 3 todo (24)\n";
    expect(countVitest(output)).toEqual({ passed: 20, failed: 1, skipped: 3 });
    expect(countVitest(" Test Files  1 failed (1)\n      Tests  no tests\n")).toBeUndefined();
  });
});

describe("formatSummary", () => {
  it("closes with a table and the totals", () => {
    expect(
      formatSummary([
        { name: "cargo fmt", ok: true, ms: 412, passed: 1, failed: 0, skipped: 0 },
        { name: "vitest", ok: false, ms: 65_432, passed: 120, failed: 2, skipped: 3 },
      ]),
    ).toBe(`
${"─".repeat(80)}
ok      cargo fmt     0.4 s  1 passed
FAILED  vitest       65.4 s  120 passed, 2 failed, 3 skipped

121 passed, 2 failed
`);
  });
});
