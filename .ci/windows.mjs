// @ts-check
/**
 * `npm run test:windows`: the addon on Windows, with the compiled fake and with the real claude.exe and codex.exe.
 *
 * In flows the working tree; out flow the results, and an error at the end if a test failed: cargo's tests of the library and of its
 * processes (`tests/integration/process`, the same ones as on Unix), `__tests__/windows`, and last the packages, packed and installed into an
 * empty project. On Windows itself they run with the Node, the addon and the CLIs that are there. On Linux x64 all is built for Windows
 * and run under Wine, in each Node of `windows/setup.mjs`: what that needs is set up in `.cache/windows`, and where it can't be, one line says
 * what is missing.
 *
 * Parts of names (of test files, `cargo`, `package`) as arguments run those alone; `--node 22` runs one Node alone; `--no-build` takes what
 * was built.
 */
import { spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { claudeBinary } from "../__tests__/support/claude.mjs";
import { installed, PACKAGES } from "../__tests__/support/installed.mjs";
import { fakeCli } from "../__tests__/support/processes.mjs";
import { shimOfScript } from "../__tests__/support/shims.mjs";
import { installPackages, SCRIPTS } from "./cross/installed.mjs";
import { PrepareError, ROOT, runMain } from "./prepare.mjs";
import { countCargo } from "./test.mjs";
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
const PLATFORM = "win32-x64-msvc";
/** The addon, where the loader looks for it. */
const ADDON = join(ROOT, `src/js/deep-factor-providers.${PLATFORM}.node`);
/** For one file: what takes longer hangs. */
const LIMIT_MS = 900_000;
/** The crates of the core, as the workspace names them. */
const ROOMS = [...readFileSync(join(ROOT, "Cargo.toml"), "utf8").matchAll(/^dfp-(\w+) = \{ path/gm)].map(
  ([, room]) => room,
);
/** Which of cargo's tests run: their program, and what is chosen there; and those of them that Wine can't run, and why. */
const CARGO = Object.freeze({
  ...Object.fromEntries(ROOMS.map((room) => [room, { program: `dfp_${room}`, names: [], notUnderWine: {} }])),
  record: {
    program: "dfp_record",
    names: [],
    notUnderWine: {
      "recorder::tests::what_is_settled_is_in_the_file_and_runs_may_share_it": "two who append at once lose lines",
    },
  },
  processes: {
    program: "integration",
    names: ["process::"],
    notUnderWine: {
      "process::crowd::sixty_ends_at_any_moment_leave_nobody":
        "a process that is killed while Wine loads it stays, with its pipes",
      "process::io::closing_stdout_is_not_exiting": "a pipe ends with its process, not when it is closed",
    },
  },
});

/** The programs of cargo's tests, once they are built: their files by their targets' names. @type {Map<string, string>} */
const testPrograms = new Map();

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */
/** @typedef {{ name: string, node: string[], env: NodeJS.ProcessEnv, file: (path: string) => string }} Machine */
/**
 * @typedef {object} Part
 * @property {string} name
 * @property {() => string[]} command makes what it needs
 * @property {NodeJS.ProcessEnv} env
 * @property {string} [cwd]
 * @property {(output: string) => Counts | undefined} [count] the tests in it; a part without any counts as one
 * @property {string[]} [left] those that are left out, and why
 */

await runMain(import.meta.url, async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { node: { type: "string" }, "no-build": { type: "boolean" } },
  });
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
  const room = mkdtempSync(join(tmpdir(), "dfp-windows-"));
  const chosen = machines.filter(({ name }) => !values.node || name.includes(` ${values.node}.`));
  try {
    const parts = [...cargoParts(chosen.slice(-1)), ...chosen.flatMap(nodeParts), ...packageParts(chosen, room)];
    for (const part of parts) {
      if (positionals.length > 0 && !positionals.some((name) => part.name.includes(name))) continue;
      const startedAt = performance.now();
      const { counts, output } = await runPart(part, join(room, "output"));
      for (const key of /** @type {const} */ (["passed", "failed", "skipped"])) total[key] += counts[key];
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
      console.log(`${counts.failed ? "FAILED" : "ok    "}  ${part.name}: ${summary(counts)} (${seconds} s)`);
      const skipped = output.split("\n").filter((line) => /# SKIP|\.\.\. ignored/.test(line));
      for (const line of [...skipped, ...(part.left ?? [])]) console.log(`        ${line.trim()}`);
      if (counts.failed) console.log(output);
    }
  } finally {
    if (wine) stopWine();
    rmSync(room, { recursive: true, force: true, maxRetries: 5 });
  }
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
  if (total.failed > 0) process.exitCode = 1;
});

/**
 * Cargo's own tests, which have nothing to do with the Node of a machine.
 * @param {Machine[]} machines
 * @returns {Part[]}
 */
function cargoParts(machines) {
  return machines.flatMap(({ name, node, env, file }) =>
    Object.entries(CARGO).map(([what, { program, names, notUnderWine }]) => {
      const left = process.platform === "win32" ? [] : Object.entries(notUnderWine);
      const skip = left.flatMap(([test]) => ["--skip", test]);
      return {
        name: `${name.replace(/, .*/, "")}  cargo ${what}`,
        command: () => [...node.slice(0, -1), file(cargoTests(program)), ...names, ...skip],
        env,
        count: countCargo,
        left: left.map(([test, why]) => `${test}: Wine: ${why}`),
      };
    }),
  );
}

/**
 * A program of cargo's tests, which is there, or is built with all others.
 * @param {string} name
 * @returns {string}
 */
function cargoTests(name) {
  if (testPrograms.size === 0) buildTests();
  const program = testPrograms.get(name);
  if (!program) throw new Error(`cargo has built no tests ${name}`);
  return program;
}

function buildTests() {
  const windows = process.platform === "win32";
  const tests = ["--lib", "--test", "integration", "--features", "fake-cli", ...(windows ? [] : ["--target", TARGET])];
  const output = cargo(
    ["test", "--no-run", "--message-format=json-render-diagnostics", ...tests],
    windows ? {} : setUpCompiler(),
  );
  for (const line of output.split("\n")) {
    const { executable, target } = line.startsWith("{") ? JSON.parse(line) : {};
    if (executable) testPrograms.set(target.name, executable);
  }
}

/**
 * The files of `__tests__/windows`, by Node's own runner.
 * @param {Machine} machine
 * @returns {Part[]}
 */
function nodeParts({ name, node, env, file }) {
  const files = readdirSync(TESTS).filter((path) => path.endsWith(".test.mjs"));
  return files.map((path) => ({
    name: `${name}  ${path}`,
    command: () => [...node, "--test-reporter=tap", file(join(TESTS, path))],
    env,
    count: countTap,
  }));
}

/**
 * What would be published, installed into an empty project.
 * @param {Machine[]} machines
 * @param {string} room
 * @returns {Part[]}
 */
function packageParts(machines, room) {
  const project = join(room, "project");
  return machines.flatMap(({ name, node, env, file }) =>
    SCRIPTS.map((script) => ({
      name: `${name}  package ${script}`,
      command: () => {
        if (!existsSync(project)) installPackages(room, PLATFORM, ADDON);
        return [...node, file(join(project, script))];
      },
      env,
      cwd: room,
    })),
  );
}

/** @param {string} output */
function countTap(output) {
  /** @param {string} name */
  const count = (name) => Number(new RegExp(`^# ${name} (\\d+)$`, "m").exec(output)?.[1] ?? 0);
  return { passed: count("pass"), failed: count("fail") + count("cancelled"), skipped: count("skipped") };
}

/** @param {Counts} counts */
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
  cargo(["build", "--lib", "--bin", "fake-cli", "--features", "fake-cli", "--target", TARGET], compiler);
  run(
    join(HOME, "bin/x86_64-w64-mingw32-strip"),
    ["-o", ADDON, built("deep_factor_providers.dll")],
    "strip does not work",
    ROOT,
  );
  return built("fake-cli.exe");
}

/**
 * @param {string[]} args
 * @param {Record<string, string>} variables
 */
function cargo(args, variables) {
  const { status, stdout, stderr } = spawnSync("cargo", args, {
    cwd: ROOT,
    env: { ...process.env, ...variables },
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`\`cargo ${args.join(" ")}\` fails:\n${stderr}`);
  return stdout;
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
 * Runs a part. Under Wine, Node can't have a pipe of this machine as its standard output (EBADF), so that is a file.
 * @param {Part} part
 * @param {string} out
 */
async function runPart({ command, env, cwd = ROOT, count, left = [] }, out) {
  const [program = "", ...args] = command();
  const handle = openSync(out, "w");
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", handle, handle] });
  const timer = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS);
  const end = await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(code ?? signal));
  });
  clearTimeout(timer);
  closeSync(handle);
  const output = readFileSync(out, "utf8");
  const counts = count?.(output) ?? { passed: end === 0 ? 1 : 0, failed: 0, skipped: 0 };
  // What ended early has no counts.
  const failed = end !== 0 && counts.failed === 0 ? 1 : counts.failed;
  return {
    counts: { ...counts, failed, skipped: counts.skipped + left.length },
    output: end === 0 ? output : `${output}\nended with ${end}`,
  };
}
