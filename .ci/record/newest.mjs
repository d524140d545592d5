// @ts-check
/**
 * The newest version of a CLI: (its name, a folder) -> the binary, installed there from npm.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { claudeBinary } from "../../__tests__/support/claude.mjs";
import { CLIS } from "../../__tests__/support/clis.mjs";
import { npm, unpacked } from "../../__tests__/support/installed.mjs";
import { cliOf } from "./run.mjs";

/** @typedef {import("./run.mjs").SetName} SetName */

const CLAUDE = "@anthropic-ai/claude-code";

/**
 * @param {SetName} set
 * @param {string} dir an empty folder
 * @returns {Promise<string>} the binary's path
 */
export async function installNewest(set, dir) {
  const isClaude = set === "claude-newest" || set === "claude-oldest";
  const name = isClaude ? CLAUDE : CLIS[cliOf(set)].package;
  writeFileSync(join(dir, "package.json"), JSON.stringify({ private: true }));
  await npm(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", `${name}@latest`], dir);
  const folder = join(dir, "node_modules", name);
  const manifest = join(folder, "package.json");
  const { version, engines, bin } = JSON.parse(readFileSync(manifest, "utf8"));
  // claude's binary has a runtime of its own, whatever its package says of Node.
  const needed = isClaude ? undefined : tooOld(engines?.node, process.versions.node);
  if (needed) throw new Error(`${name} ${version} needs Node ${needed}, and this is ${process.versions.node}`);
  if (isClaude) return claudeBinary(manifest, version, CLAUDE);
  // What the package starts by, which a version may have moved; npm makes only that executable.
  const [started = CLIS[cliOf(set)].file] = typeof bin === "string" ? [bin] : Object.values(bin ?? {});
  const path = join(folder, started);
  return CLIS[cliOf(set)].isPacked ? unpacked(path) : path;
}

/**
 * The wanted version of Node if `node` is older: its first number decides.
 * @param {string | undefined} wanted `engines.node`
 * @param {string} node
 */
export function tooOld(wanted, node) {
  const least = /(\d+)/.exec(wanted ?? "")?.[1];
  return least !== undefined && Number.parseInt(node, 10) < Number(least) ? wanted : undefined;
}
