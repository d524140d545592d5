// @ts-check
/** In: nothing. Out: what the figures of a run hang on: the machine, and the version of everything that took part. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import os from "node:os";
import { findClaude } from "../../__tests__/support/claude.mjs";
import { PEERS } from "./peers.mjs";

/** @typedef {{ cpu: string, cores: number, memoryGB: number, kernel: string, node: string }} Machine */

/** @returns {Machine} */
export function machine() {
  const [cpu] = os.cpus();
  return {
    cpu: cpu?.model.trim() ?? "unknown",
    cores: os.availableParallelism(),
    memoryGB: Math.round(os.totalmem() / 2 ** 30),
    kernel: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.version,
  };
}

/** @returns {Record<string, string>} */
export function versions() {
  const own = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return {
    [own.name]: own.version,
    claude: claudeVersion(),
    rustc: program("rustc", ["--version"]).replace(/^rustc (\S+).*$/s, "$1"),
    ...PEERS,
  };
}

function claudeVersion() {
  try {
    return findClaude("newest").version;
  } catch {
    return "none";
  }
}

/** @param {string} file @param {string[]} args */
function program(file, args) {
  try {
    return execFileSync(file, args, { encoding: "utf8" }).trim();
  } catch {
    return "none";
  }
}
