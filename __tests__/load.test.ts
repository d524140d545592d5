/** What a person reads where there is no addon for their machine, or one that does not load. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { explainLoad, PLATFORMS } from "../src/js/load-error.cjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** As the generated loader fails: the last attempt is the error's cause, each with the one before as its own. */
function failure(...attempts: string[]): Error {
  const chain = attempts.reduce<Error | undefined>(
    (cause, message) => new Error(message, cause && { cause }),
    undefined,
  );
  return new Error("Cannot find native binding. npm has a bug related to optional dependencies.", { cause: chain });
}

const NOT_THERE = [
  "Cannot find module './deep-factor-providers.linux-x64-gnu.node'\nRequire stack:\n- /app/native.cjs",
  "Cannot find module 'deep-factor-providers-linux-x64-gnu'",
  "Cannot find module 'deep-factor-providers-wasm32-wasi'",
];
const LINUX = {
  platform: "linux",
  arch: "x64",
  libc: "gnu",
  glibc: "2.36",
  installed: [] as string[],
  version: "1.2.3",
} as const;
const REINSTALL = "remove node_modules and install again on this machine";

describe("explainLoad", () => {
  it.each([
    [
      "left out",
      failure(...NOT_THERE),
      LINUX,
      "MODULE_NOT_FOUND",
      "the native addon for this machine (linux x64, glibc 2.36), deep-factor-providers-linux-x64-gnu, is not installed: it is " +
        'an optional dependency, left out by "--omit=optional" or "--no-optional", or by a lock file made on another machine. ' +
        'Run "npm install --include=optional" (with -g for a global one). Where a lock file leaves it out, run "npm install ' +
        '--include=optional deep-factor-providers@1.2.3", which adds it there; with another package manager, remove node_modules and ' +
        "the lock file and install again.",
    ],
    [
      "node_modules of a Mac in a container",
      failure(...NOT_THERE),
      { ...LINUX, installed: ["darwin-arm64"] },
      "MODULE_NOT_FOUND",
      "the native addon for this machine (linux x64, glibc 2.36), deep-factor-providers-linux-x64-gnu, is not installed: " +
        "deep-factor-providers-darwin-arm64 is there instead, so node_modules was installed for another machine: " +
        `${REINSTALL}, or let your package manager install for both.`,
    ],
    [
      "an old system",
      failure(
        ...NOT_THERE.slice(0, 1),
        "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.28' not found (required by /app/x.node)",
        ...NOT_THERE.slice(2),
      ),
      { ...LINUX, glibc: "2.17", installed: ["linux-x64-gnu"] },
      "ERR_DLOPEN_FAILED",
      "the native addon of deep-factor-providers needs glibc 2.28, and this machine is older (linux x64, glibc 2.17): use a " +
        "newer system, for a container an image such as node:22-bookworm.",
    ],
    [
      "a glibc build on Alpine",
      failure("Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by /app/x.node)"),
      { ...LINUX, libc: "musl" as const, glibc: undefined, installed: ["linux-x64-gnu"] },
      "ERR_DLOPEN_FAILED",
      "the native addon of deep-factor-providers that is installed was built for another C library than this machine's " +
        `(linux x64, musl), which needs deep-factor-providers-linux-x64-musl: ${REINSTALL}.`,
    ],
    [
      "another processor's",
      failure("dlopen(/app/x.node, 0x0001): tried: '/app/x.node' (mach-o file, but is an incompatible architecture)"),
      {
        platform: "darwin",
        arch: "arm64",
        libc: undefined,
        glibc: undefined,
        installed: ["darwin-arm64"],
        version: "1.2.3",
      },
      "ERR_DLOPEN_FAILED",
      "the native addon of deep-factor-providers that is installed was built for another machine than this one (darwin arm64): " +
        `${REINSTALL}.`,
    ],
    [
      "an unsupported machine",
      failure("Unsupported OS: freebsd, architecture: x64"),
      { platform: "freebsd", arch: "x64", libc: undefined, glibc: undefined, installed: [], version: "1.2.3" },
      "MODULE_NOT_FOUND",
      "deep-factor-providers has no native addon for this machine (freebsd x64): it is built for Linux (glibc or musl), macOS " +
        "and Windows, each on x64 and arm64.",
    ],
    [
      "an unsupported processor",
      failure("Unsupported architecture on Linux: riscv64"),
      { ...LINUX, arch: "riscv64" },
      "MODULE_NOT_FOUND",
      "deep-factor-providers has no native addon for this machine (linux riscv64, glibc 2.36): it is built for Linux (glibc or " +
        "musl), macOS and Windows, each on x64 and arm64.",
    ],
    [
      "Node's permission model",
      failure("Cannot load native addon because loading addons is disabled."),
      { ...LINUX, installed: ["linux-x64-gnu"] },
      "ERR_DLOPEN_FAILED",
      "Node's permission model forbids the native addon of deep-factor-providers (linux x64, glibc 2.36): add --allow-addons, or leave out " +
        "--permission and --no-addons.",
    ],
    [
      "an archive of Electron",
      failure("/opt/My App/app.asar/node_modules/x/x.node: cannot open shared object file: Not a directory"),
      { ...LINUX, installed: ["linux-x64-gnu"] },
      "ERR_DLOPEN_FAILED",
      "the native addon of deep-factor-providers lies inside of the archive /opt/My App/app.asar, from which the system can't load it " +
        '(linux x64, glibc 2.36): name it in asarUnpack, "**/node_modules/deep-factor-providers*/**" (docs/guide/deploy.md).',
    ],
    [
      "a Mac's quarantine",
      failure(
        "dlopen(/app/x y.node, 0x0001): tried: '/app/x y.node' (code signature in <C444527A> '/app/x y.node' not valid for use in process: " +
          "library load disallowed by system policy)",
      ),
      {
        platform: "darwin",
        arch: "arm64",
        libc: undefined,
        glibc: undefined,
        installed: ["darwin-arm64"],
        version: "1.2.3",
      },
      "ERR_DLOPEN_FAILED",
      "macOS keeps the native addon of deep-factor-providers in quarantine, as it does with files that a browser or an archive has brought " +
        "(darwin arm64): run \"xattr -d com.apple.quarantine '/app/x y.node'\".",
    ],
    [
      "any other reason",
      failure(
        "/app/x.node: cannot open shared object file: Operation not permitted\nmore",
        "Cannot find module 'wasi'",
      ),
      { ...LINUX, installed: ["linux-x64-gnu"] },
      "ERR_DLOPEN_FAILED",
      "the native addon deep-factor-providers-linux-x64-gnu is installed and does not load (linux x64, glibc 2.36): " +
        "/app/x.node: cannot open shared object file: Operation not permitted",
    ],
  ])("%s", (_, error, machine, code, message) => {
    expect(explainLoad(error, machine)).toEqual(Object.assign(new Error(message, { cause: error }), { code }));
  });

  it("knows the platforms that are published", () => {
    expect([...PLATFORMS].sort()).toEqual(readdirSync(join(ROOT, "npm")).sort());
  });
});

/** The package as it is installed, without an addon, in a project of its own. */
function installWithout(): { project: string; ours: string } {
  const project = mkdtempSync(join(tmpdir(), "dfp-load-"));
  onTestFinished(() => rmSync(project, { recursive: true, force: true }));
  const ours = join(project, "node_modules/deep-factor-providers");
  mkdirSync(join(ours, "src/js"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(ours, "package.json"));
  for (const file of readdirSync(join(ROOT, "src/js")).filter((name) => /\.[cm]js$/.test(name))) {
    cpSync(join(ROOT, "src/js", file), join(ours, "src/js", file));
  }
  cpSync(join(ROOT, "src/js/cli"), join(ours, "src/js/cli"), { recursive: true });
  return { project, ours };
}

const LOAD = `import("deep-factor-providers/native").then(() => console.log("loaded"), ({ code, message }) => console.log(code + " " + message))`;

function run(project: string, source: string): string {
  const args = ["--input-type=module", "-e", source];
  return execFileSync(process.execPath, args, { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

describe("a package that is really incomplete", () => {
  it("names the platform package that is missing, the same for import and require", () => {
    const { project } = installWithout();
    const required = `import { createRequire } from "node:module"; try { createRequire(process.cwd() + "/x.js")("deep-factor-providers/native") } catch ({ code, message }) { console.log(code + " " + message) }`;
    const said = run(project, LOAD);
    expect(said).toMatch(
      /^MODULE_NOT_FOUND the native addon for this machine \(.+\), deep-factor-providers-\S+, is not installed: it is an optional dependency/,
    );
    expect(run(project, required)).toBe(said);
  });

  it("says of a broken addon that it is another machine's", () => {
    const { project, ours } = installWithout();
    const { name } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const addon = readdirSync(join(ROOT, "src/js")).find((file) => file.endsWith(".node")) ?? "";
    expect(addon).toContain(name);
    writeFileSync(
      join(ours, "src/js", addon),
      "no addon at all, and longer than a header of any kind of executable is",
    );
    expect(run(project, LOAD)).toMatch(
      /^ERR_DLOPEN_FAILED the native addon .* built for another machine than this one/,
    );
  });

  it("the command line says it in one line and still helps", () => {
    const { project, ours } = installWithout();
    const cli = (...args: string[]) => {
      try {
        const script = join(ours, "src/js/cli.mjs");
        return execFileSync(process.execPath, [script, ...args], { cwd: project, encoding: "utf8", stdio: "pipe" });
      } catch (error) {
        const { status, stderr } = error as { status: number; stderr: string };
        return `${status} ${stderr}`;
      }
    };
    expect(cli("--help")).toMatch(/^Use the coding-agent CLIs/);
    expect(cli("doctor")).toMatch(/^1 deep-factor-providers: the native addon for this machine \(.+\n$/);
  });
});
