// @ts-check
/**
 * `npm run test:windows`: the addon on Windows, with the compiled fake and with the real claude.exe and codex.exe.
 *
 * In flows the working tree; out flow the results of `__tests__/windows`, and an error at the end if a test failed. On Windows itself
 * Node runs them with the addon and the CLIs that are there. On Linux x64 the addon is built for Windows and run under Wine, in each Node of
 * `windows/setup.mjs`: what that needs is set up in `.cache/windows`, and where it can't be, one line says what is missing.
 *
 * Names of test files as arguments run those alone; `--node 22` runs one Node alone; `--no-build` takes what was built.
 */
import { spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { claudeBinary } from "../__tests__/support/claude.mjs";
import { installed, PACKAGES } from "../__tests__/support/installed.mjs";
import { fakeCli } from "../__tests__/support/processes.mjs";
import { shimOfScript } from "../__tests__/support/shims.mjs";
import { PrepareError, ROOT, runMain } from "./prepare.mjs";
import {
  HOME,
  NODES,
  nodeFile,
  npmPackage,
  run,
  setUpCompiler,
  setUpWine,
  stopWine,
  TARGET,
  WINE_FILE,
  windowsPath,
  wineVariables,
} from "./windows/setup.mjs";

const TESTS = join(ROOT, "__tests__/windows");
/** The addon, where the loader looks for it. */
const ADDON = join(ROOT, "src/js/deep-factor-providers.win32-x64-msvc.node");
/** For one file: what takes longer hangs. */
const LIMIT_MS = 900_000;

/** @typedef {{ name: string, node: string[], env: NodeJS.ProcessEnv, file: (path: string) => string }} Machine */

await runMain(import.meta.url, async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { node: { type: "string" }, "no-build": { type: "boolean" } },
  });
  const all = readdirSync(TESTS).filter((name) => name.endsWith(".test.mjs"));
  const files = all.filter((name) => positionals.length === 0 || positionals.some((part) => name.includes(part)));
  const wine = process.platform !== "win32";
  /** @type {Machine[]} */
  let machines;
  try {
    machines = wine ? await underWine(Boolean(values["no-build"])) : [await here()];
  } catch (error) {
    // Continuous integration says which steps it can do without.
    if (!(error instanceof PrepareError) || process.env.WINDOWS_REQUIRED) throw error;
    console.log(`skipped: ${error.message}`);
    return;
  }
  const total = { passed: 0, failed: 0, skipped: 0 };
  try {
    for (const machine of machines.filter(({ name }) => !values.node || name.includes(` ${values.node}.`))) {
      for (const file of files) {
        const startedAt = performance.now();
        const { counts, output } = await runFile(machine, join(TESTS, file));
        for (const key of /** @type {const} */ (["passed", "failed", "skipped"])) total[key] += counts[key];
        const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
        console.log(
          `${counts.failed ? "FAILED" : "ok    "}  ${machine.name}  ${file}: ${summary(counts)} (${seconds} s)`,
        );
        for (const line of output.split("\n")) if (/# SKIP/.test(line)) console.log(`        ${line.trim()}`);
        if (counts.failed) console.log(output);
      }
    }
  } finally {
    if (wine) stopWine();
  }
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
  if (total.failed > 0) process.exitCode = 1;
});

/** @param {{ passed: number, failed: number, skipped: number }} counts */
function summary({ passed, failed, skipped }) {
  return `${passed} passed${failed ? `, ${failed} failed` : ""}${skipped ? `, ${skipped} skipped` : ""}`;
}

/**
 * Windows itself.
 * @returns {Promise<Machine>}
 */
async function here() {
  const codex = await installed("@openai/codex");
  const modules = join(codex, "../..");
  const manifest = join(ROOT, "node_modules/claude-code-newest/package.json");
  const { version } = JSON.parse(readFileSync(manifest, "utf8"));
  return {
    name: `Windows, Node ${process.versions.node}`,
    node: [process.execPath],
    file: (path) => path,
    env: {
      ...process.env,
      DFP_FAKE_CLI: fakeCli(),
      DFP_CLAUDE: claudeBinary(manifest, version, "claude-code-newest"),
      DFP_CODEX_EXE: codexProgram(join(modules, "@openai/codex-win32-x64")),
      DFP_CODEX_SHIM: join(modules, ".bin/codex.cmd"),
      DFP_CODEX_JS: join(codex, "bin/codex.js"),
    },
  };
}

/**
 * Each Node under Wine.
 * @param {boolean} isBuilt
 * @returns {Promise<Machine[]>}
 */
async function underWine(isBuilt) {
  if (process.platform !== "linux" || process.arch !== "x64") {
    throw new PrepareError("Wine is only set up on Linux x64.");
  }
  mkdirSync(HOME, { recursive: true });
  const compiler = setUpCompiler();
  setUpWine();
  const fake = isBuilt ? built("fake-cli.exe") : build(compiler);
  const clis = realClis();
  const variables = wineVariables();
  return Object.entries(NODES).map(([major, version]) => ({
    name: `Wine, Node ${version}`,
    node: [WINE_FILE, nodeFile(/** @type {any} */ (major))],
    file: windowsPath,
    env: { ...variables, DFP_WINE: "8", DFP_FAKE_CLI: windowsPath(fake), ...clis },
  }));
}

/** @param {string} name */
function built(name) {
  return join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), TARGET, "debug", name);
}

/**
 * The addon, where the loader looks for it, and the fake.
 * @param {Record<string, string>} compiler
 * @returns {string} the fake's path
 */
function build(compiler) {
  const args = ["build", "--lib", "--bin", "fake-cli", "--features", "fake-cli", "--target", TARGET];
  const { status, stderr } = spawnSync("cargo", args, {
    cwd: ROOT,
    env: { ...process.env, ...compiler },
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`the addon can't be built for Windows (cargo ${args.join(" ")}):\n${stderr}`);
  run(
    join(HOME, "bin/x86_64-w64-mingw32-strip"),
    ["-o", ADDON, built("deep_factor_providers.dll")],
    "strip does not work",
    ROOT,
  );
  return built("fake-cli.exe");
}

/** The real CLIs, as npm installs them on Windows, with npm's shim. */
function realClis() {
  const modules = join(HOME, "npm/node_modules");
  const { version } = JSON.parse(readFileSync(join(ROOT, "node_modules/claude-code-newest/package.json"), "utf8"));
  const codex = PACKAGES["@openai/codex"];
  const claude = join(modules, `@anthropic-ai/claude-code-win32-x64-${version}`);
  npmPackage(`@anthropic-ai/claude-code-win32-x64@${version}`, claude);
  npmPackage(`@openai/codex@${codex}`, join(modules, "@openai/codex"));
  npmPackage(`@openai/codex@${codex}-win32-x64`, join(modules, "@openai/codex-win32-x64"));
  const shim = join(HOME, "npm/codex.cmd");
  writeFileSync(shim, shimOfScript("node_modules\\@openai\\codex\\bin\\codex.js"));
  return {
    DFP_CLAUDE: windowsPath(join(claude, "claude.exe")),
    DFP_CODEX_EXE: windowsPath(codexProgram(join(modules, "@openai/codex-win32-x64"))),
    DFP_CODEX_SHIM: windowsPath(shim),
    DFP_CODEX_JS: windowsPath(join(modules, "@openai/codex/bin/codex.js")),
  };
}

/** @param {string} folder of its package */
function codexProgram(folder) {
  const program = join(folder, "vendor/x86_64-pc-windows-msvc/bin/codex.exe");
  return existsSync(program) ? program : "";
}

/**
 * Runs one file by Node's own runner. Under Wine, Node can't have a pipe of this machine as its standard output (EBADF), so that is a file.
 * @param {Machine} machine
 * @param {string} path
 */
async function runFile({ node: [program = "", ...before], env, file }, path) {
  const out = join(tmpdir(), `dfp-windows-${process.pid}.tap`);
  const handle = openSync(out, "w");
  const args = [...before, "--test-reporter=tap", file(path)];
  const child = spawn(program, args, { cwd: ROOT, env, stdio: ["ignore", handle, handle] });
  const timer = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS);
  const end = await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(code ?? signal));
  });
  clearTimeout(timer);
  closeSync(handle);
  const output = readFileSync(out, "utf8");
  rmSync(out);
  /** @param {string} name */
  const count = (name) => Number(new RegExp(`^# ${name} (\\d+)$`, "m").exec(output)?.[1] ?? 0);
  const counts = { passed: count("pass"), failed: count("fail") + count("cancelled"), skipped: count("skipped") };
  // A file that ended early has no counts.
  const failed = end !== 0 && counts.failed === 0 ? 1 : counts.failed;
  return { counts: { ...counts, failed }, output: failed && end !== 0 ? `${output}\nended with ${end}` : output };
}
