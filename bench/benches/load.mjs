// @ts-check
/** What importing the package costs: time, memory, bytes on the disk. */
import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { goal } from "../harness/bench.mjs";
import { peerFolder } from "../harness/peers.mjs";

const MIB = 2 ** 20;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The addon of this machine. */
function addon() {
  const name = readdirSync(join(ROOT, "src/js")).find((name) => name.endsWith(".node"));
  if (!name) throw new Error("the addon is not built: run `npm run build`");
  return join(ROOT, "src/js", name);
}

/** @param {string} path @returns {number} bytes */
function size(path) {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.size;
  return readdirSync(path).reduce((sum, name) => sum + size(join(path, name)), 0);
}

/**
 * @param {string} statement what a fresh Node runs
 * @param {string} [cwd]
 */
function load(statement, cwd = ROOT) {
  const script = `const rss = process.memoryUsage.rss(), began = performance.now();
    ${statement};
    console.log(JSON.stringify({ load: performance.now() - began, rss: (process.memoryUsage.rss() - rss) / ${MIB} }));`;
  const options = { cwd, encoding: /** @type {const} */ ("utf8") };
  return JSON.parse(execFileSync(process.execPath, ["--input-type=module", "-e", script], options));
}

/**
 * @param {string} title
 * @param {import("../harness/bench.mjs").Kind} kind
 * @param {() => { statement: string, bytes: number }} what
 * @returns {import("../harness/bench.mjs").Contender}
 */
function contender(title, kind, what) {
  return {
    title,
    kind,
    prepare() {
      const { statement, bytes } = what();
      // Into the page cache.
      load(statement);
      return { measure: () => ({ ...load(statement), ...(bytes ? { disk: bytes / MIB } : {}) }) };
    },
  };
}

/** A package to compare with, by its own folder. @param {string} name @param {string} entry */
function other(name, entry) {
  return () => ({
    statement: `await import(${JSON.stringify(pathToFileURL(join(peerFolder(name), entry)).href)})`,
    bytes: size(peerFolder(name)),
  });
}

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "import",
  about:
    "A fresh Node imports it. On the disk: our addon, with what of the façade is shipped; of the others the package's own folder, without its dependencies and without the agent SDK's own CLI (390 MB).",
  figures: {
    load: { title: "import", unit: "ms" },
    rss: { title: "memory", unit: "MB" },
    disk: { title: "on the disk", unit: "MB" },
  },
  main: "load",
  cases: () => [{ name: "import" }],
  contenders: {
    ours: contender("deep-factor-providers/native", "ours", () => ({
      statement: 'await import("deep-factor-providers/native")',
      bytes: size(addon()),
    })),
    langchain: contender("deep-factor-providers, with LangChain's messages", "ours", () => ({
      statement: 'await import("deep-factor-providers")',
      bytes: size(addon()),
    })),
    messages: contender("@langchain/core/messages alone", "peer", () => ({
      statement: `await import(${JSON.stringify(pathToFileURL(esm("@langchain/core/messages")).href)})`,
      bytes: 0,
    })),
    execa: contender("execa", "plain", other("execa", "index.js")),
    sdk: contender("claude-agent-sdk", "peer", other("@anthropic-ai/claude-agent-sdk", "sdk.mjs")),
    provider: contender("ai-sdk-provider-claude-code", "peer", other("ai-sdk-provider-claude-code", "dist/index.js")),
    floor: contender("the addon alone (dlopen)", "floor", () => ({
      statement: `process.dlopen({ exports: {} }, ${JSON.stringify(addon())})`,
      bytes: size(addon()),
    })),
  },
  rounds: { full: 9, quick: 1 },
  peers: ["execa", "@anthropic-ai/claude-agent-sdk", "ai-sdk-provider-claude-code"],
  goals: (look) => [
    goal(
      "imported within 15 ms",
      look.median("import", "ours", "load"),
      (ms) => ms < 15,
      (ms) =>
        `${ms.toFixed(1)} ms; with LangChain's messages ${look.median("import", "langchain", "load").toFixed(0)} ms`,
    ),
    goal(
      "the addon under 12 MB, stripped",
      look.median("import", "floor", "disk"),
      (mb) => mb < 12,
      (mb) => `${mb.toFixed(1)} MB`,
    ),
  ],
};

/** The ESM file behind a name. @param {string} name */
function esm(name) {
  return createRequire(import.meta.url)
    .resolve(name)
    .replace(/\.cjs$/, ".js");
}
