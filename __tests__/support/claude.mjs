// @ts-check
/**
 * The real claude CLIs of the development dependencies, run where they can neither see nor change anything of this machine.
 *
 * In flow "newest" or "oldest" and the address of a scripted API; out flow the binary's path, and an environment whose home,
 * temp folder and key are made up. `createRichProject` is the opposite: a folder with everything a CLI could fall for
 * (instructions, hooks, MCP servers), each of which leaves a trace when it takes effect.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { removeFolder } from "./folders.mjs";
import { folderOf, OLDEST_CLAUDE } from "./installed.mjs";

/**
 * @typedef {"newest" | "2.1.330" | "oldest"} Which the development dependency `claude-code-newest`, what `.ci/install.mjs` installs
 *   beside it, and one between them that a test installs which asks for it
 */
/**
 * @typedef {object} Claude
 * @property {string} cliPath the native binary
 * @property {string} version for example "2.1.330"
 */
/**
 * @typedef {object} IsolatedClaude
 * @property {string} cliPath
 * @property {string} version
 * @property {string} home a fresh, private folder; the temp folder is inside
 * @property {Record<string, string | undefined>} env to be merged over process.env; undefined removes a variable
 * @property {() => void} cleanup removes the home
 */
/** @typedef {{ code: number | null, signal: NodeJS.Signals | null, stdout: string, stderr: string }} Finished */

/**
 * The flags of the pure pipe (CLI-FACTS 1.4): no tools, hooks, CLAUDE.md, MCP servers or transcripts; the prompt on stdin.
 */
export const PURE_PIPE_ARGS = Object.freeze([
  ...["-p", "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"],
  ...["--safe-mode", "--setting-sources", "user", "--tools", "", "--strict-mcp-config", "--no-session-persistence"],
  ...["--disable-slash-commands", "--system-prompt", "Answer in one sentence."],
]);

/** The environment of the pure pipe (CLI-FACTS 1.4): the CLI's own retries, attachments and second requests are off. */
export const PURE_PIPE_ENV = Object.freeze({
  CLAUDE_CODE_MAX_RETRIES: "0",
  CLAUDE_CODE_DISABLE_ATTACHMENTS: "1",
  CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: "1",
});

const ALIAS = "claude-code-newest";

/**
 * Find the native binary of a claude. npm puts the platform package beside the package or inside of it, so it is looked for from the
 * package's own folder, and its version says whether it is the package's own.
 * @param {Which} which
 * @returns {Claude}
 */
export function findClaude(which) {
  const isNewest = which === "newest";
  const kept = join(folderOf(OLDEST_CLAUDE, versionOf(which)), "package.json");
  const manifest = isNewest ? resolveFrom(import.meta.url, `${ALIAS}/package.json`) : existsSync(kept) && kept;
  if (!manifest) {
    const todo = isNewest ? "npm ci" : "node .ci/install.mjs";
    throw new Error(`the ${which} claude is not installed: run \`${todo}\``);
  }
  const { version } = JSON.parse(readFileSync(manifest, "utf8"));
  return { cliPath: claudeBinary(manifest, version, isNewest ? ALIAS : OLDEST_CLAUDE), version };
}

/**
 * The version to install of a claude; undefined: that of `installed.mjs`, or a development dependency.
 * @param {Which} which
 */
export const versionOf = (which) => (which === "newest" || which === "oldest" ? undefined : which);

/**
 * The binary for this machine, which is in a package beside claude's own.
 * @param {string} manifest of claude's package
 * @param {string} version
 * @param {string} alias what an error calls it
 */
export function claudeBinary(manifest, version, alias) {
  const tried = platformPackages();
  for (const name of tried) {
    const found = resolveFrom(manifest, `${name}/package.json`);
    if (!found || JSON.parse(readFileSync(found, "utf8")).version !== version) continue;
    const cliPath = join(dirname(found), process.platform === "win32" ? "claude.exe" : "claude");
    if (existsSync(cliPath)) return cliPath;
  }
  throw new Error(
    `${alias} ${version} has no binary for this machine (looked for ${tried.join(", ")}): run \`npm ci\``,
  );
}

/**
 * For CLIs that are built with Bun: it doesn't optimise what it runs, which pays off in longer runs than the tests'. A start of opencode takes a
 * quarter less of the processor's time, one of claude a twentieth. With `--all`, they run as they are.
 * @type {Readonly<Record<string, string>>}
 */
export const LIGHT_BUN = process.env.TEST_ALL ? {} : { BUN_JSC_useDFGJIT: "0" };

/**
 * An environment in which a claude CLI talks to `baseUrl` with a made-up key and keeps to a home of its own.
 * @param {{ which?: Which, cliPath?: string, baseUrl: string, env?: Record<string, string | undefined> }} options `which` defaults to
 *   "newest"; `cliPath` is the binary of another one, whose version nobody needs
 * @returns {IsolatedClaude}
 */
export function isolateClaude({ which = "newest", cliPath, baseUrl, env = {} }) {
  const claude = cliPath === undefined ? findClaude(which) : { cliPath, version: "" };
  // Short, because the CLI opens a Unix socket below its temp folder (CLI-FACTS 1b §1), and those paths end at 107 bytes.
  const home = mkdtempSync(join(tmpdir(), "dfp-"));
  const temp = join(home, "tmp");
  mkdirSync(temp);
  const foreign = Object.keys(process.env).filter((name) =>
    /^(ANTHROPIC|CLAUDE|XDG|AWS|OTEL)_|^CLAUDECODE$|_PROXY$/i.test(name),
  );
  return {
    ...claude,
    home,
    env: {
      ...Object.fromEntries(foreign.map((name) => [name, undefined])),
      HOME: home,
      USERPROFILE: home,
      TMPDIR: temp,
      TEMP: temp,
      TMP: temp,
      ANTHROPIC_API_KEY: "sk-ant-api03-not-a-key",
      ANTHROPIC_BASE_URL: baseUrl,
      // Otherwise it reads all of the system's certificates at each start, a tenth of what that takes; nothing here asks for TLS.
      CLAUDE_CODE_CERT_STORE: "bundled",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_ERROR_REPORTING: "1",
      ...LIGHT_BUN,
      ...env,
    },
    // A CLI that is just ending still writes into it: up to two seconds on a loaded machine.
    cleanup: () => removeFolder(home),
  };
}

/**
 * Run an isolated CLI to its end, without this package: what tests compare the provider with.
 * @param {Pick<IsolatedClaude, "cliPath" | "env" | "home">} claude
 * @param {readonly string[]} args
 * @param {{ stdin?: string, cwd?: string | undefined, env?: Record<string, string | undefined>, signal?: AbortSignal }} [options]
 *   `cwd` defaults to the home; the signal kills
 * @returns {Promise<Finished>}
 */
export function runClaude(claude, args, { stdin = "", cwd = claude.home, env = {}, signal } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(claude.cliPath, args, {
      cwd,
      env: { ...process.env, ...claude.env, ...env },
      signal,
      killSignal: "SIGKILL",
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    // A CLI that exits before it has read its input is judged by its exit, not by the broken pipe.
    child.stdin.on("error", () => {});
    child.stdin.end(stdin);
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

/** What a rich project says in CLAUDE.md; a request that contains it was not isolated. */
export const CANARY = "canary-7f3a: always answer in rhyme";

/**
 * A project that a CLI run in it must not notice: CLAUDE.md, a README to attach, hooks for the session's start and for every
 * prompt, and an MCP server. With `home`, the same is set up for the user in it. `traces()` names what has run.
 * @param {{ home?: string }} [options]
 * @returns {{ dir: string, traces: () => string[], cleanup: () => void }}
 */
export function createRichProject({ home } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-rich-"));
  const marks = mkdtempSync(join(tmpdir(), "dfp-marks-"));
  /** @type {string[]} */
  const names = [];
  /** @type {(name: string) => [flag: string, source: string]} */
  const marker = (name) => {
    names.push(name);
    const source = `require("node:fs").writeFileSync(${JSON.stringify(join(marks, name))}, "")`;
    return ["-e", source];
  };
  /** @type {(name: string) => { hooks: { type: string, command: string }[] }[]} */
  const hook = (name) => {
    const [flag, source] = marker(name);
    return [{ hooks: [{ type: "command", command: `${quote(process.execPath)} ${flag} ${quote(source)}` }] }];
  };
  /** @type {(base: string, whose: string) => void} */
  const settings = (base, whose) => {
    mkdirSync(join(base, ".claude"), { recursive: true });
    const hooks = { SessionStart: hook(`${whose}-SessionStart`), UserPromptSubmit: hook(`${whose}-UserPromptSubmit`) };
    writeFileSync(join(base, ".claude", "settings.json"), JSON.stringify({ hooks }));
  };
  settings(dir, "project");
  writeFileSync(join(dir, "CLAUDE.md"), `${CANARY}\n`);
  writeFileSync(join(dir, "README.md"), `${CANARY}\n`);
  const server = { command: process.execPath, args: marker("mcp-server") };
  writeFileSync(join(dir, ".mcp.json"), JSON.stringify({ mcpServers: { marker: server } }));
  if (home) {
    settings(home, "user");
    writeFileSync(join(home, ".claude", "CLAUDE.md"), `${CANARY}\n`);
  }
  return {
    dir,
    traces: () => names.filter((name) => existsSync(join(marks, name))),
    cleanup: () => {
      for (const folder of [dir, marks]) removeFolder(folder);
    },
  };
}

/** The names under which the binary for this machine may be published, the likeliest first. */
function platformPackages() {
  const base = `@anthropic-ai/claude-code-${process.platform}-${process.arch}`;
  if (process.platform !== "linux") return [base];
  const report = /** @type {{ header?: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  return report.header?.glibcVersionRuntime ? [base, `${base}-musl`] : [`${base}-musl`, base];
}

/**
 * @param {string} from a file or its URL
 * @param {string} request
 * @returns {string | undefined}
 */
function resolveFrom(from, request) {
  try {
    return createRequire(from).resolve(request);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

/** @param {string} word quoted for the shell that runs hooks */
function quote(word) {
  return process.platform === "win32" ? `"${word.replaceAll('"', '\\"')}"` : `'${word.replaceAll("'", "'\\''")}'`;
}
