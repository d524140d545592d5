// @ts-check
/**
 * `npm test`: the checks of the project, one after the other.
 *
 * In flows the working tree; out flow a heading, a verdict and a time per check, the output of those that failed with the
 * command that repeats each alone, and at the end a table and the line `N passed, N failed`. A failing check doesn't keep the
 * next from running.
 *
 * `--ci` adds what every change has to pass: the wide tables, the documentation build, and the package in all package managers.
 * `--all` adds what guards a release: the tests against the optimised addon and with every version of the real CLIs, the benches at their
 * smallest, a release to a registry of its own, the other runtimes, and the other platforms as far as this machine can say something of them.
 * `--verbose` streams all output.
 */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { stripVTControlCharacters } from "node:util";
import { LINTED, nodeBin, npm, prepare, ROOT, runMain } from "./prepare.mjs";

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */
/**
 * @typedef {object} Check
 * @property {string} name
 * @property {string[]} command
 * @property {string} [repeat] how a person runs it alone; default: `command`, which then has to be readable
 * @property {Record<string, string>} [env] beside the environment of all checks
 * @property {boolean | string} [early] it is started before its turn, beside others: before all of them, because it waits for the network
 *   while they compute, or as soon as the check of this name has ended
 * @property {(output: string) => Counts | undefined} [count] the tests in it; a check without any counts as one test
 */
/** @typedef {Counts & { name: string, ms: number, ok: boolean }} Result */
/**
 * @typedef {object} RunOptions
 * @property {(text: string) => void} [write]
 * @property {boolean} [verbose]
 * @property {string} [root]
 * @property {number} [timeoutMs] a check that takes longer has failed
 */

const TIMEOUT_MS = 30 * 60_000;
const WIDTH = 80;

/**
 * The checks, the cheap ones first.
 * @param {string} root
 * @param {{ ci?: boolean, all?: boolean }} [options] `ci`: those of continuous integration too; `all`: those that guard a release, too
 * @returns {Check[]}
 */
export function listChecks(root, { ci = false, all = false } = {}) {
  /** @type {(script: string) => { command: string[], repeat: string }} */
  const script = (name) => ({ command: npm(["run", name], process.env), repeat: `npm run ${name}` });
  /** @type {(name: string, bin: string, ...args: string[]) => { command: string[], repeat: string }} */
  const bin = (name, bin, ...args) => ({
    command: [...nodeBin(root, name, bin), ...args],
    repeat: ["npx", bin, ...args].join(" "),
  });
  /** @type {(check: Check) => Check[]} */
  const release = (check) => (all ? [check] : []);
  /** @type {(check: Check) => Check[]} */
  const change = (check) => (ci || all ? [check] : []);
  return [
    { name: "cargo fmt", command: ["cargo", "fmt", "--check"] },
    { name: "biome", ...bin("@biomejs/biome", "biome", "ci", "--colors=off") },
    { name: "dependencies", ...script("test:dependencies") },
    {
      name: "cargo clippy",
      command: ["cargo", "test", "--all-targets", "--no-run"],
      repeat: "cargo clippy --all-targets -- -D warnings",
      env: LINTED,
    },
    {
      name: "cargo test",
      command: ["cargo", "test", "--no-fail-fast"],
      // Many of the tests wait for processes: with a test per core, cores would be idle. A property is shown 256 cases each time, and
      // before a release what seldom comes by chance.
      env: {
        ...LINTED,
        RUST_TEST_THREADS: String(2 * availableParallelism()),
        ...(all && { PROPTEST_CASES: "2000", FUZZ_SECONDS: "10" }),
      },
      count: countCargo,
    },
    // This and what follows, without vitest, goes on beside cargo's tests, many of which wait.
    ...change({ name: "cargo doc", command: ["node", ".ci/doc.mjs"], early: "cargo clippy" }),
    // What cargo has just compiled for its own tests is most of the unoptimised addon.
    {
      name: "build",
      ...script(all ? "build" : "build:debug"),
      ...(all ? {} : { env: LINTED, early: "cargo clippy" }),
    },
    // What waits for the network, while all of the above computes.
    { name: "packages", command: ["node", ".ci/install.mjs"], env: levelOf({ ci, all }), early: true },
    { name: "tsc", ...bin("typescript", "tsc", "-p", "tsconfig.json"), early: "build" },
    {
      name: "vitest",
      ...bin("vitest", "vitest", "run"),
      env: { ...LINTED, ...levelOf({ ci, all }) },
      count: countVitest,
    },
    // It goes on beside what stands before it, for every change with the addon of the tests: what is packed is the same, and an optimised
    // build takes as long as the tests.
    ...change({ name: "package", ...script("test:package"), early: "build" }),
    ...release({ name: "bench", ...script("bench:smoke") }),
    ...release({ name: "rehearsal", ...script("test:rehearsal") }),
    ...release({ name: "runtimes", ...script("test:runtimes") }),
    ...release({ name: "other platforms", ...script("test:cross"), count: countPlain }),
    ...release({ name: "Windows", ...script("test:windows"), count: countPlain }),
  ];
}

/**
 * Which tests run, as vitest.config.mjs and the tests themselves read it.
 * @param {{ ci: boolean, all: boolean }} level
 * @returns {Record<string, string>}
 */
function levelOf({ ci, all }) {
  if (all) return { TEST_ALL: "1" };
  return ci ? { TEST_CHANGE: "1" } : {};
}

/**
 * Run checks in order. Never rejects because of a check.
 * @param {Check[]} checks
 * @param {RunOptions} [options]
 * @returns {Promise<Result[]>}
 */
export async function runChecks(checks, options = {}) {
  const { write = (text) => process.stdout.write(text), verbose = false } = options;
  /** @type {Result[]} */
  const results = [];
  /** @type {(check: Check, onText: (text: string) => void) => ReturnType<typeof execute>} */
  const start = ({ command, env }, onText) => execute(command, { ...options, env, onText });
  const silent = () => {};
  // The output of what is started early is written when it is its turn.
  /** @type {Map<Check, ReturnType<typeof execute>>} */
  const begun = new Map();
  /** @type {(check: Check, onText: (text: string) => void) => ReturnType<typeof execute>} */
  const begin = (check, onText) => {
    const known = begun.get(check);
    if (known) return known;
    const end = start(check, onText);
    begun.set(check, end);
    void end.then(() => beginAll(check.name));
    return end;
  };
  const beginAll = (/** @type {boolean | string} */ when) => {
    for (const check of checks) if (check.early === when) void begin(check, silent);
  };
  beginAll(true);
  for (const [index, check] of checks.entries()) {
    write(`\n${`── ${index + 1}/${checks.length} ${check.name} `.padEnd(WIDTH, "─")}\n`);
    const startedAt = performance.now();
    const { end, output } = await begin(check, verbose && !check.early ? write : silent);
    if (verbose && check.early) write(output);
    const ms = performance.now() - startedAt;
    const result = { name: check.name, ms, ...judge(end, check.count?.(stripVTControlCharacters(output))) };
    results.push(result);
    if (!result.ok && !verbose && output) write(output.endsWith("\n") ? output : `${output}\n`);
    write(`${result.ok ? "ok" : `FAILED (${end === 0 ? "failed tests" : end})`} in ${seconds(ms)}\n`);
    if (!result.ok) write(`again, alone: ${howToRepeat(check)}\n`);
  }
  return results;
}

/**
 * The command line that runs a check alone, for a POSIX shell.
 * @param {Check} check
 */
function howToRepeat({ command, repeat = command.join(" "), env = {} }) {
  const variables = Object.entries(env).map(([name, value]) =>
    /[^\w.-]/.test(value) ? `${name}='${value}'` : `${name}=${value}`,
  );
  return [...variables, repeat].join(" ");
}

/**
 * The verdict on a check. Its exit code has the last word: a test runner may crash after all of its tests passed.
 * @param {number | string} end
 * @param {Counts} [counts]
 */
function judge(end, counts) {
  const { passed, failed, skipped } = counts ?? { passed: end === 0 ? 1 : 0, failed: 0, skipped: 0 };
  const ok = end === 0 && failed === 0;
  return { ok, passed, failed: ok ? 0 : Math.max(failed, 1), skipped };
}

/**
 * The closing table.
 * @param {Result[]} results
 */
export function formatSummary(results) {
  const width = Math.max(...results.map(({ name }) => name.length));
  const rows = results.map(({ name, ok, ms, passed, failed, skipped }) => {
    const counts = [
      `${passed} passed`,
      ...(failed ? [`${failed} failed`] : []),
      ...(skipped ? [`${skipped} skipped`] : []),
    ];
    return `${ok ? "ok    " : "FAILED"}  ${name.padEnd(width)}  ${seconds(ms).padStart(8)}  ${counts.join(", ")}`;
  });
  /** @type {(key: "passed" | "failed") => number} */
  const total = (key) => results.reduce((sum, result) => sum + result[key], 0);
  return `\n${"─".repeat(WIDTH)}\n${rows.join("\n")}\n\n${total("passed")} passed, ${total("failed")} failed\n`;
}

/**
 * The tests that cargo reports, one line per test binary.
 * @param {string} output
 * @returns {Counts | undefined}
 */
export function countCargo(output) {
  const lines = Array.from(output.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm));
  if (lines.length === 0) return undefined;
  /** @type {(group: number) => number} */
  const sum = (group) => lines.reduce((total, line) => total + Number(line[group]), 0);
  return { passed: sum(1), failed: sum(2), skipped: sum(3) };
}

/**
 * The tests that vitest reports, as in `Tests  1 failed | 11 passed | 2 skipped (14)`.
 * @param {string} output
 * @returns {Counts | undefined}
 */
export function countVitest(output) {
  const lines = Array.from(output.matchAll(/^\s*Tests\s+(.*\d.*)$/gm), ([, line = ""]) => line);
  if (lines.length === 0) return undefined;
  /** @type {(word: RegExp) => number} */
  const sum = (word) => lines.reduce((total, line) => total + Number(word.exec(line)?.[1] ?? 0), 0);
  return {
    passed: sum(/(\d+) passed/),
    failed: sum(/(\d+) failed/),
    skipped: sum(/(\d+) skipped/) + sum(/(\d+) todo/),
  };
}

/**
 * What a check says of itself in its last line, `N passed, N failed, N skipped`.
 * @param {string} output
 * @returns {Counts | undefined}
 */
export function countPlain(output) {
  const [, passed, failed, skipped] = /^(\d+) passed, (\d+) failed, (\d+) skipped$/m.exec(output) ?? [];
  return passed === undefined
    ? undefined
    : { passed: Number(passed), failed: Number(failed), skipped: Number(skipped) };
}

/**
 * Run one command in a process group of its own, so that all of it can be ended, without stdin and colours.
 * @param {string[]} command
 * @param {RunOptions & { env?: Record<string, string> | undefined, onText: (text: string) => void }} options
 * @returns {Promise<{ end: number | string, output: string }>} `end`: the exit code, or why there is none
 */
function execute([file = "", ...args], { env: own, onText, root = ROOT, timeoutMs = TIMEOUT_MS }) {
  return new Promise((resolve) => {
    const windows = process.platform === "win32";
    const { FORCE_COLOR, ...inherited } = process.env;
    const env = { ...inherited, CI: "true", NO_COLOR: "1", CARGO_TERM_COLOR: "never", ...own };
    // `npm test` on a machine without a network may do without further runtimes; continuous integration may not.
    if (inherited.CI) Object.assign(env, { RUNTIMES_REQUIRED: "1" });
    const child = spawn(file, args, {
      cwd: root,
      env,
      detached: !windows,
      shell: windows && file === "npm",
      stdio: ["ignore", "pipe", "pipe"],
    });
    const kill = () => {
      for (const stream of [child.stdout, child.stderr]) stream.destroy();
      try {
        if (windows || child.pid === undefined) child.kill();
        else process.kill(-child.pid, "SIGKILL");
      } catch (error) {
        // Nothing of the group is left.
        if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ESRCH") throw error;
      }
    };
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
        onText(text);
      });
    }
    /** @type {(signal: NodeJS.Signals) => void} */
    const interrupt = (signal) => {
      process.stdout.write(output);
      process.stderr.write(`\ninterrupted by ${signal}\n`);
      process.exit(signal === "SIGINT" ? 130 : 143);
    };
    process.once("SIGINT", interrupt).once("SIGTERM", interrupt).once("exit", kill);
    const timer = setTimeout(() => {
      kill();
      settle(`still running after ${seconds(timeoutMs)}`);
    }, timeoutMs);
    /** @type {(end: number | string) => void} */
    const settle = (end) => {
      clearTimeout(timer);
      process.off("SIGINT", interrupt).off("SIGTERM", interrupt).off("exit", kill);
      resolve({ end, output });
    };
    child.once("error", (error) => settle(`cannot be started: ${error.message}`));
    child.once("close", (code, signal) => settle(code ?? `ended by ${signal}`));
  });
}

/** @param {number} ms */
function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

await runMain(import.meta.url, async () => {
  // The build is one of the checks, so that it is reported like the others.
  await prepare({ build: false });
  const has = (/** @type {string} */ flag) => process.argv.includes(flag);
  const results = await runChecks(listChecks(ROOT, { ci: has("--ci"), all: has("--all") }), {
    verbose: has("--verbose"),
  });
  process.stdout.write(formatSummary(results));
  process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;
});
