import { execFileSync, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isBuildStale, isInstallStale, type PrepareOptions, prepare } from "../../.ci/prepare.mjs";
import { createFakes, type Fakes } from "../support/fake.mjs";
import { lacks } from "../support/systems.mjs";

const ADDON = `deep-factor-providers.${process.platform}-${process.arch}-test.node`;
const LOCK = {
  "": { version: "0.1.0" },
  "node_modules/a": { version: "1.0.0", integrity: "sha512-a" },
  "node_modules/other-machine": { version: "2.0.0", integrity: "sha512-o", optional: true },
};

let root: string;
let fakes: Fakes;
let lines: string[];

function write(path: string, text: string, secondsAgo = 0): void {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
  const time = Date.now() / 1000 - secondsAgo;
  utimesSync(join(root, path), time, time);
}

function writeLock(path: string, packages: object): void {
  write(path, JSON.stringify({ lockfileVersion: 3, packages }));
}

/** A tree with sources and a lock file, nothing installed, nothing built. */
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "dfp-prepare-"));
  fakes = createFakes();
  lines = [];
  write("package.json", JSON.stringify({ engines: { node: ">=20" } }));
  write("Cargo.toml", '[package]\nrust-version = "1.88"\n', 60);
  write("Cargo.lock", "", 60);
  write("src/lib.rs", "", 60);
  write("src/js/index.mjs", "", 60);
  writeLock("package-lock.json", LOCK);
});

afterEach(() => {
  fakes.cleanup();
  rmSync(root, { recursive: true });
});

function install(): void {
  const { "node_modules/a": a } = LOCK;
  writeLock("node_modules/.package-lock.json", { "node_modules/a": a });
}

function built(secondsAgo = 0): void {
  write(`src/js/${ADDON}`, "", secondsAgo);
  write("src/js/native.cjs", "", secondsAgo);
}

/** Run with only fakes on PATH: a cargo of that version, and an npm with that body. */
function run(options: PrepareOptions & { cargo?: string; npm?: string } = {}): Promise<void> {
  const { cargo = "cargo 1.95.0 (abc 2026-01-01)", npm, ...rest } = options;
  if (cargo) fakes.shell("cargo", cargo.startsWith("cargo") ? `echo "${cargo}"` : cargo);
  if (npm) fakes.shell("npm", npm);
  return prepare({ root, env: { PATH: fakes.dir }, log: (line) => lines.push(line), ...rest });
}

describe.skipIf(lacks("scripts"))("prepare", () => {
  it("does nothing, and says nothing, when everything is there", async () => {
    install();
    built();
    await run({ npm: "exit 9" });
    expect(lines).toEqual([]);
  });

  it("says in one sentence what is missing and what to do", async () => {
    await expect(run({ cargo: "", nodeVersion: "v18.20.1" })).rejects.toThrow(
      /^Node 18\.20\.1 is too old and Rust is missing \(no `cargo` on PATH\): install Node 20 or newer from https:\/\/nodejs\.org and install Rust 1\.88 or newer from https:\/\/rustup\.rs and open a new terminal, then run this again\.$/,
    );
    expect(lines).toEqual([]);
  });

  it.each([
    [
      "cargo 1.87.9 (abc)",
      "Rust 1.87.9 is too old: update to 1.88 or newer, for example by `rustup update stable`, then run this again.",
    ],
    [
      'echo "error: no default toolchain" >&2; exit 1',
      "Rust does not work (`cargo --version`: error: no default toolchain): run `rustup default stable`, then run this again.",
    ],
  ])("turns down %s", async (cargo, message) => {
    await expect(run({ cargo })).rejects.toThrow(new RegExp(`^${message.replace(/[.*()]/g, "\\$&")}$`));
  });

  it("installs and builds, says so with times, and is content afterwards", async () => {
    const npm = `
echo "$@" >> calls
case "$1" in
  ci) /bin/mkdir -p node_modules && /bin/cp saved node_modules/.package-lock.json ;;
  run) /bin/touch -d 2001-01-01 src/js/${ADDON} && echo > src/js/native.cjs ;;
esac`;
    writeLock("saved", { "node_modules/a": LOCK["node_modules/a"] });
    await run({ npm });
    await run({ npm });
    expect(readFileSync(join(root, "calls"), "utf8")).toBe(
      "ci --include=dev --prefer-offline --no-audit --no-fund\nrun build:debug\n",
    );
    expect(lines).toEqual([
      "Installing the npm packages …",
      expect.stringMatching(/^ {2}done in \d+\.\d s$/),
      "Building the native addon (some minutes the first time) …",
      expect.stringMatching(/^ {2}done in \d+\.\d s$/),
    ]);
    // The addon that cargo left untouched counts as built now.
    expect(statSync(join(root, "src/js", ADDON)).mtimeMs).toBeGreaterThan(Date.now() - 60_000);
  });

  it("has clippy compile the addon, as the tests do, and the compiler alone where clippy finds fault", async () => {
    install();
    fakes.shell("clippy-driver", "exit 0");
    await run({
      npm: `
echo "$RUSTC_WORKSPACE_WRAPPER" >> calls
[ -z "$RUSTC_WORKSPACE_WRAPPER" ] || exit 1
echo > src/js/${ADDON}
echo > src/js/native.cjs`,
    });
    expect(readFileSync(join(root, "calls"), "utf8")).toBe("clippy-driver\n\n");
    expect(lines).toEqual([
      "Building the native addon (some minutes the first time) …",
      expect.stringMatching(/^ {2}done in \d+\.\d s$/),
    ]);
  });

  it("runs by itself where nothing is installed, and exits 1 without a stack trace", () => {
    for (const name of ["prepare.mjs", "test.mjs"]) {
      mkdirSync(join(root, ".ci"), { recursive: true });
      const source = fileURLToPath(new URL(`../../.ci/${name}`, import.meta.url));
      writeFileSync(join(root, ".ci", name), readFileSync(source));
    }
    const env = { PATH: fakes.dir };
    for (const name of ["prepare.mjs", "test.mjs"]) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, ".ci", name)], {
        env,
        encoding: "utf8",
      });
      expect({ name, status, stdout, stderr }).toEqual({
        name,
        status: 1,
        stdout: "",
        stderr: expect.stringMatching(/^Rust is missing .*, then run this again\.\n$/),
      });
    }
    expect(existsSync(join(root, "node_modules"))).toBe(false);
  });
});

describe("isInstallStale", () => {
  it("compares what is installed with what is locked", () => {
    expect(isInstallStale(root)).toBe(true);
    install();
    expect(isInstallStale(root)).toBe(false);
    writeLock("package-lock.json", { ...LOCK, "node_modules/a": { version: "1.0.0", integrity: "sha512-b" } });
    expect(isInstallStale(root)).toBe(true);
    writeLock("package-lock.json", { ...LOCK, "node_modules/b": { version: "1.0.0" } });
    expect(isInstallStale(root)).toBe(true);
  });
});

describe("isBuildStale", () => {
  it.each(["src/new/deep/file.rs", "Cargo.toml", "Cargo.lock", "build.rs"])("is stale after a change of %s", (path) => {
    built(10);
    expect(isBuildStale(root)).toBe(false);
    write(path, "changed");
    expect(isBuildStale(root)).toBe(true);
  });
});

describe.skipIf(lacks("scripts", "modes"))(".ci/run", () => {
  it.each([
    ["what every change has to pass", [], "--ci"],
    ["what guards a release", ["--all"], "--all"],
  ])("runs %s at the root, from any folder, as CI and without stdin", (_, args, level) => {
    const script = fileURLToPath(new URL("../../.ci/run", import.meta.url));
    write(".ci/run", readFileSync(script, "utf8"));
    fakes.shell("npm", 'echo "$PWD $CI $*"; exec /bin/cat');
    const env = { PATH: `${fakes.dir}:/usr/bin:/bin` };
    // A file, not a pipe, which breaks when the script lets go of it.
    write("typed", "typed");
    const stdin = openSync(join(root, "typed"), "r");
    const output = execFileSync("bash", [join(root, ".ci/run"), ...args], {
      cwd: tmpdir(),
      env,
      stdio: [stdin, "pipe", "inherit"],
      encoding: "utf8",
    });
    closeSync(stdin);
    expect(output).toMatch(new RegExp(`^.*dfp-prepare-\\w+ true test -- ${level}\n$`));
    expect(statSync(script).mode & 0o111).toBe(0o111);
  });
});
