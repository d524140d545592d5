// @ts-check
/**
 * What must be there before the demo or the checks can run: Node, Rust, the npm packages and the native addon.
 *
 * In flows the state of the working tree and of PATH; out flows a tree that is installed and built, or one sentence that says
 * what is missing and what to do. Needs nothing but Node, because it runs before anything is installed, and parses on old
 * versions of it, because those are what it reports.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync, utimesSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Clippy is a compiler that lints what it compiles. `cargo clippy` has it check only, so that all is compiled once more for the tests;
 * in this environment, the tests are compiled by it, and each crate once. The arguments are separated as clippy's driver wants them.
 */
export const LINTED = Object.freeze({
  RUSTC_WORKSPACE_WRAPPER: "clippy-driver",
  CLIPPY_ARGS: "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
});

/** What a person has to put right. The message is one sentence, ready to be shown. */
export class PrepareError extends Error {
  /** @override */
  name = "PrepareError";
}

/**
 * @typedef {object} PrepareOptions
 * @property {string} [root] the working tree
 * @property {boolean} [build] false leaves the addon alone
 * @property {string} [nodeVersion] as in process.version
 * @property {NodeJS.ProcessEnv} [env]
 * @property {(line: string) => void} [log] takes what is printed, progress and the output of a step that failed
 */

/**
 * Check the tools, install what package-lock.json says and build the addon; each only where needed.
 * @param {PrepareOptions} [options]
 * @returns {Promise<void>}
 * @throws {PrepareError}
 */
export async function prepare({
  root = ROOT,
  build = true,
  nodeVersion = process.version,
  env = process.env,
  log = console.log,
} = {}) {
  const missing = describeMissing([checkNode(root, nodeVersion), checkRust(root, env)]);
  if (missing) throw new PrepareError(missing);
  if (isInstallStale(root)) {
    // Development dependencies are named, because NODE_ENV=production would leave them out.
    const args = ["ci", "--include=dev", "--prefer-offline", "--no-audit", "--no-fund"];
    await step("Installing the npm packages", npm(args, env), { root, envs: [env], log });
  }
  if (build && isBuildStale(root)) {
    const startedAt = new Date();
    const note = " (some minutes the first time)";
    // Unoptimised, and compiled by clippy, as the tests have it: it is there in half of the time, and cargo's part of it serves them, too.
    // A clippy that is newer than this code may have something to say of it: that is for the tests, and the addon is built without.
    const envs = hasClippy(root, env) ? [{ ...env, ...LINTED }, env] : [env];
    await step("Building the native addon", npm(["run", "build:debug"], env), { root, envs, log, note });
    const addons = findAddons(root);
    if (addons.length === 0) {
      throw new PrepareError(
        `\`npm run build:debug\` left no addon for ${process.platform}-${process.arch} in src/js.`,
      );
    }
    // A copy may keep the time of cargo's own file, which is old when nothing had to be compiled.
    for (const addon of addons) utimesSync(addon, startedAt, startedAt);
  }
}

/** @typedef {{ what: string, todo: string }} Missing */

/**
 * @param {(Missing | undefined)[]} findings
 * @returns {string | undefined} one sentence, or undefined if nothing is missing
 */
function describeMissing(findings) {
  const missing = findings.flatMap((finding) => finding ?? []);
  if (missing.length === 0) return undefined;
  /** @type {(key: keyof Missing) => string} */
  const list = (key) => missing.map((finding) => finding[key]).join(" and ");
  return `${list("what")}: ${list("todo")}, then run this again.`;
}

/**
 * @param {string} root
 * @param {string} version
 * @returns {Missing | undefined}
 */
function checkNode(root, version) {
  const wanted = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines.node.replace(/^>=\s*/, "");
  if (isAtLeast(version, wanted)) return undefined;
  return {
    what: `Node ${version.replace(/^v/, "")} is too old`,
    todo: `install Node ${wanted} or newer from https://nodejs.org`,
  };
}

/**
 * @param {string} root
 * @param {NodeJS.ProcessEnv} env
 * @returns {Missing | undefined}
 */
function checkRust(root, env) {
  const [, wanted = ""] = /^rust-version\s*=\s*"([\d.]+)"/m.exec(readFileSync(join(root, "Cargo.toml"), "utf8")) ?? [];
  const { error, status, stdout, stderr } = spawnSync("cargo", ["--version"], { cwd: root, env, encoding: "utf8" });
  if (error) {
    return {
      what: "Rust is missing (no `cargo` on PATH)",
      todo: `install Rust ${wanted} or newer from https://rustup.rs and open a new terminal`,
    };
  }
  const [, version] = /^cargo (\d+\.\d+\.\d+)/.exec(stdout) ?? [];
  if (status !== 0 || !version) {
    const [reason = ""] = stderr.trim().split("\n");
    return { what: `Rust does not work (\`cargo --version\`: ${reason})`, todo: "run `rustup default stable`" };
  }
  if (isAtLeast(version, wanted)) return undefined;
  return {
    what: `Rust ${version} is too old`,
    todo: `update to ${wanted} or newer, for example by \`rustup update stable\``,
  };
}

/**
 * Whether clippy is there: rustup puts its name on PATH even where it isn't installed.
 * @param {string} root
 * @param {NodeJS.ProcessEnv} env
 */
function hasClippy(root, env) {
  return spawnSync("clippy-driver", ["--version"], { cwd: root, env }).status === 0;
}

/**
 * @param {string} version dotted numbers, perhaps with a leading v
 * @param {string} wanted
 */
export function isAtLeast(version, wanted) {
  const has = version.replace(/^v/, "").split(".").map(Number.parseFloat);
  for (const [index, needed] of wanted.split(".").map(Number.parseFloat).entries()) {
    const part = has[index] || 0;
    if (part !== needed) return part > needed;
  }
  return true;
}

/**
 * Whether node_modules is something else than what package-lock.json asks for. npm writes what it installed to
 * node_modules/.package-lock.json; the contents are compared, because a checkout sets file times as it likes. An optional
 * package may be absent: most are for other machines.
 * @param {string} root
 */
export function isInstallStale(root) {
  const installed = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed)) return true;
  /** @type {(path: string) => Record<string, { version?: string, integrity?: string, optional?: boolean }>} */
  const packages = (path) => JSON.parse(readFileSync(path, "utf8")).packages;
  const present = packages(installed);
  return Object.entries(packages(join(root, "package-lock.json"))).some(([path, wanted]) => {
    const found = present[path];
    if (path === "") return false;
    if (!found) return !wanted.optional;
    return found.version !== wanted.version || found.integrity !== wanted.integrity;
  });
}

/**
 * Whether the addon for this machine, or its generated loader, is missing or older than a source of the build. src/js is
 * JavaScript, which the addon does not contain.
 * @param {string} root
 */
export function isBuildStale(root) {
  const addons = findAddons(root);
  if (addons.length === 0 || !existsSync(join(root, "src", "js", "native.cjs"))) return true;
  const manifests = ["Cargo.toml", "Cargo.lock", "build.rs"].map((name) => join(root, name));
  const sources = [
    ...manifests.filter((path) => existsSync(path)),
    ...walk(join(root, "src"), join(root, "src", "js")),
  ];
  const builtAt = Math.min(...addons.map((path) => statSync(path).mtimeMs));
  return sources.some((path) => statSync(path).mtimeMs > builtAt);
}

/**
 * The addons for this machine that are in src/js.
 * @param {string} root
 */
export function findAddons(root) {
  const dir = join(root, "src", "js");
  const names = existsSync(dir) ? readdirSync(dir) : [];
  const ours = names.filter((name) => name.endsWith(".node") && name.includes(`.${process.platform}-${process.arch}`));
  return ours.map((name) => join(dir, name));
}

/**
 * @param {string} dir
 * @param {string} except a folder that is left out
 * @returns {string[]} all files below
 */
function walk(dir, except) {
  if (dir === except) return [];
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    return entry.isDirectory() ? walk(path, except) : [path];
  });
}

/**
 * The command line of npm: the very npm that runs this script, if one does.
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
export function npm(args, env) {
  const own = env.npm_execpath;
  return own && basename(own) === "npm-cli.js" ? [process.execPath, own, ...args] : ["npm", ...args];
}

/**
 * Run one long step: say what it is and how long it took, and show its output only if it fails.
 * @param {string} label
 * @param {string[]} command
 * @param {{ root: string, envs: NodeJS.ProcessEnv[], log: (line: string) => void, note?: string }} options
 *   `envs`: the environments that it is tried in, one after the other, until it succeeds; the last one's failure counts
 */
async function step(label, [file = "", ...args], { root, envs, log, note = "" }) {
  const startedAt = performance.now();
  log(`${label}${note} …`);
  /** @type {Awaited<ReturnType<typeof capture>>} */
  let end = { code: 0, output: "" };
  for (const env of envs) {
    end = await capture(file, args, { root, env });
    if (end.code === 0) break;
  }
  const { code, output } = end;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  if (code === 0) return log(`  done in ${seconds} s`);
  if (output.trim()) log(output.trimEnd());
  const shown = [basename(file), ...args.map((arg) => basename(arg))].join(" ");
  throw new PrepareError(`${label} failed after ${seconds} s (\`${shown}\`: ${code}); the reason is above.`);
}

/**
 * @param {string} file
 * @param {string[]} args
 * @param {{ root: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<{ code: number | string, output: string }>} `code`: the exit code, or what ended the process instead
 */
function capture(file, args, { root, env }) {
  return new Promise((resolve) => {
    // On Windows npm is a batch file, which only a shell can start; nothing here comes from outside.
    const shell = process.platform === "win32" && file === "npm";
    const child = spawn(file, args, { cwd: root, env, shell, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    }
    child.once("error", (error) => resolve({ code: "cannot be started", output: error.message }));
    child.once("close", (code, signal) => resolve({ code: code ?? `ended by ${signal}`, output }));
  });
}

/**
 * A package's command, started without a shell.
 * @param {string} root
 * @param {string} name
 * @param {string} command
 */
export function nodeBin(root, name, command) {
  const manifest = join(root, "node_modules", name, "package.json");
  const bin = existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")).bin : {};
  return [process.execPath, join(dirname(manifest), typeof bin === "string" ? bin : (bin[command] ?? command))];
}

/**
 * Run a script's main function: what a person has to put right is shown without a stack trace, and the exit code is 1.
 * @param {string} url import.meta.url of the script; nothing happens if it was imported
 * @param {() => Promise<unknown>} main
 */
export async function runMain(url, main) {
  const script = process.argv[1];
  if (!script || !existsSync(script) || realpathSync(script) !== fileURLToPath(url)) return;
  try {
    await main();
  } catch (error) {
    if (!(error instanceof PrepareError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

await runMain(import.meta.url, () => prepare());
