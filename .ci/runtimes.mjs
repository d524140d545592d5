// @ts-check
/**
 * `npm run test:runtimes`: the addon on every runtime and in every test runner it is likely to meet.
 *
 * In flows the built tree; out flow a line per runtime and runner, and an error at the end if one of them failed. Runtimes and
 * runners come from npm and are kept in `.cache`; one that can't be had is skipped with a message, unless RUNTIMES_REQUIRED is set.
 */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { installed } from "../__tests__/support/installed.mjs";
import { createTag } from "../__tests__/support/processes.mjs";
import { nodeBin, PrepareError, ROOT, runMain } from "./prepare.mjs";

/** Every line that is supported, and the newest there is. */
const NODES = ["20.20.2", "22.23.3", "24.21.0", "26.10.0"];
/** Worker threads come and go this often on the oldest and on the newest, and enough to see a crash on those between. */
const ROUNDS = ["50", "20", "20", "50"];
const BUN = "1.4.5";
const DENO = "2.9.6";
const JEST = "30.5.2";
/** How often a runner loads the addon, uses it and goes away. */
const TIMES = 50;
/** For one of them: what takes longer hangs, also on a loaded machine. */
const LIMIT_MS = 600_000;

const USE = JSON.stringify(join(ROOT, ".ci/runtimes/use.cjs"));
/** A test file for Jest, which ends no world: in one process, calls that are left running would use up the places there are. */
const COMMONJS = `const api = require("deep-factor-providers/native");
const runtime = require(${USE});
test("loads, works, and closes", async () => {
  await runtime.use(api);
  await (await runtime.leaveRunning(api)).close();
});
`;

/** @typedef {(command: string[], cwd: string) => Promise<string>} Run */

class Skip extends Error {}

await runMain(import.meta.url, async () => {
  const temp = realpathSync(mkdtempSync(join(tmpdir(), "dfp-runtimes-")));
  let failed = 0;
  let skipped = 0;
  try {
    for (const [name, check] of checks(temp)) {
      const tag = createTag();
      const startedAt = performance.now();
      const took = () => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
      try {
        const said = await check((command, cwd) => run(command, cwd, { ...tag.env, DFP_NODE: process.execPath }));
        const left = tag.left();
        if (left.length > 0) throw new PrepareError(`left behind: ${left.join("; ")}`);
        console.log(`ok       ${name}: ${said} (${took()})`);
      } catch (error) {
        const required = Boolean(process.env.RUNTIMES_REQUIRED);
        const skip = error instanceof Skip && !required;
        skip ? skipped++ : failed++;
        console.log(`${skip ? "skipped" : "FAILED "}  ${name}: ${error instanceof Error ? error.message : error}`);
      }
    }
  } finally {
    rmSync(temp, { recursive: true, force: true, maxRetries: 5 });
  }
  console.log(`${failed} failed, ${skipped} skipped`);
  if (failed > 0) process.exitCode = 1;
});

/**
 * @param {string} temp
 * @returns {[name: string, check: (run: Run) => Promise<string>][]} each gives what it saw
 */
function checks(temp) {
  const smoke = join(ROOT, ".ci/smoke.mjs");
  const workers = join(ROOT, ".ci/runtimes/workers.mjs");
  const faces = join(ROOT, ".ci/runtimes/faces.mjs");
  /** @type {[string, (run: Run) => Promise<string>][]} */
  const nodes = NODES.flatMap((version, index) => [
    [`Node ${version}`, async (run) => run([await node(version), smoke], ROOT)],
    [`Node ${version}, the faces`, async (run) => run([await node(version), faces], ROOT)],
    [
      `Node ${version}, worker threads`,
      async (run) => run([await node(version), workers, ROUNDS[index] ?? "50"], ROOT),
    ],
  ]);
  const [bun, deno] = [`Bun ${BUN}`, `Deno ${DENO}`];
  /** @param {Run} run @param {string} script */
  const inBun = async (run, script) => run([join(await get(`@oven/bun-${system()}`, BUN), "bin/bun"), script], ROOT);
  /** @param {Run} run @param {string} script */
  const inDeno = async (run, script) => {
    const file = join(await get(`@deno/${system()}-glibc`, DENO), "deno");
    return run(
      [file, "run", "-A", "--no-lock", "--node-modules-dir=manual", script],
      project(temp, `deno-${basename(script)}`),
    );
  };
  return [
    ...nodes,
    [bun, (run) => inBun(run, smoke)],
    [`${bun}, the faces`, (run) => inBun(run, faces)],
    [deno, (run) => inDeno(run, smoke)],
    [`${deno}, the faces`, (run) => inDeno(run, faces)],
    [
      "node --test",
      async (run) => {
        const home = files(temp, "node-test", "test.mjs", esm("node:test", "test"));
        const said = await run([process.execPath, "--test", "--test-concurrency=2"], home);
        return counted(said, /^# pass (\d+)$/m);
      },
    ],
    ...["threads", "forks"].map(
      (pool) =>
        /** @type {[string, (run: Run) => Promise<string>]} */ ([
          `vitest, ${pool}`,
          async (run) => {
            const home = files(temp, `vitest-${pool}`, "test.mjs", esm("vitest", "test"));
            const command = [
              ...nodeBin(ROOT, "vitest", "vitest"),
              "run",
              `--pool=${pool}`,
              "--maxWorkers=2",
              "--testTimeout=60000",
            ];
            return counted(await run(command, home), /Tests\s+(\d+) passed/);
          },
        ]),
    ),
    [
      "Jest, in one process",
      async (run) => {
        const jest = join(await get("jest", JEST), "bin/jest.js");
        const home = files(temp, "jest", "test.cjs", COMMONJS);
        // In band, the addon is loaded fifty times by one process.
        const config = JSON.stringify({
          testMatch: ["**/*.test.cjs"],
          testTimeout: 60_000,
          haste: { enableSymlinks: false },
        });
        return counted(
          await run([process.execPath, jest, "--runInBand", "--config", config], home),
          /Tests:\s+(\d+) passed/,
        );
      },
    ],
  ];
}

/** As the packages of runtimes name this machine; they are only asked for where that is certain. */
function system() {
  if (process.platform !== "linux" || process.arch !== "x64") throw new Skip("is only tried on linux x64");
  return "linux-x64";
}

/** @param {string} version */
async function node(version) {
  if (process.versions.node === version) return process.execPath;
  return join(await get(`node-${system()}`, version), "bin/node");
}

/**
 * @param {string} name
 * @param {string} version
 */
async function get(name, version) {
  try {
    return await installed(name, version);
  } catch (error) {
    throw new Skip(`${name}@${version} can't be had: ${String(error).split("\n")[0]}`);
  }
}

/**
 * A folder with this package among its node_modules.
 * @param {string} temp
 * @param {string} name
 */
function project(temp, name) {
  const home = join(temp, name);
  mkdirSync(join(home, "node_modules"), { recursive: true });
  symlinkSync(ROOT, join(home, "node_modules/deep-factor-providers"), "junction");
  symlinkSync(join(ROOT, "node_modules/vitest"), join(home, "node_modules/vitest"), "junction");
  writeFileSync(join(home, "package.json"), JSON.stringify({ name, private: true }));
  return home;
}

/**
 * A project of many test files, each of which a runner gives a world of its own.
 * @param {string} temp
 * @param {string} name
 * @param {string} extension
 * @param {string} text
 */
function files(temp, name, extension, text) {
  const home = project(temp, name);
  for (let number = 0; number < TIMES; number++) writeFileSync(join(home, `n${number}.${extension}`), text);
  return home;
}

/**
 * @param {string} from
 * @param {string} name
 */
function esm(from, name) {
  return `import { ${name} } from ${JSON.stringify(from)};
import * as api from "deep-factor-providers/native";
import runtime from ${USE};
${name}("loads, works, and leaves a call running", async () => {
  await runtime.use(api);
  await runtime.leaveRunning(api);
});
`;
}

/**
 * @param {string} said
 * @param {RegExp} pattern
 */
function counted(said, pattern) {
  const [, passed = "no"] = pattern.exec(said) ?? [];
  if (Number(passed) !== TIMES) throw new PrepareError(`${passed} of ${TIMES} tests passed:\n${said.slice(-3000)}`);
  return `${TIMES} test files`;
}

/**
 * @param {string[]} command
 * @param {string} cwd
 * @param {Record<string, string>} env
 * @returns {Promise<string>} what it printed, on both streams
 */
function run([file = "", ...args], cwd, env) {
  const { NODE_OPTIONS, ...inherited } = process.env;
  return new Promise((resolve, reject) => {
    const options = { cwd, env: { ...inherited, NO_COLOR: "1", ...env }, timeout: LIMIT_MS, maxBuffer: 1 << 26 };
    const child = execFile(file, args, options, (error, stdout, stderr) => {
      const said = `${stdout}${stderr}`.trim();
      if (error) reject(new PrepareError(`ended with ${error.signal ?? error.code}:\n${said.slice(-3000)}`));
      else resolve(said);
    });
    child.stdin?.end();
  });
}
