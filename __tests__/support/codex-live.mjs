// @ts-check
/**
 * The real codex in live form against the scripted API: what the tests of its processes and those of its contents share.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { ToolMessage } from "@langchain/core/messages";
import { createCodexCliProvider } from "deep-factor-providers";
import { onTestFinished } from "vitest";
import { LIVE_CODEX, OLDEST_LIVE_CODEX } from "./clis.mjs";
import { sharing, withCli } from "./harness.mjs";

/** The versions to try. */
export const VERSIONS = process.env.TEST_ALL ? [LIVE_CODEX, OLDEST_LIVE_CODEX] : [LIVE_CODEX];

const schema = { type: "object", properties: { n: { type: "number" } } };
/** A tool. */
export const step = { name: "step", description: "Takes a step", schema };
/** The model's call of it. @param {string} id @param {number} n */
export const call = (id, n) => ({ call: "step", id, args: { n } });
/** What it returned. @param {string} id @param {string} content */
export const result = (id, content) => new ToolMessage({ tool_call_id: id, content });

/**
 * codex of a version, live.
 * @param {string} version
 * @param {Parameters<typeof withCli>[1]["script"]} script
 */
export async function withCodex(version, script) {
  const cli = await withCli("codex", { version, script });
  const create = (/** @type {object} */ more = {}) => {
    const provider = createCodexCliProvider({ ...cli.options, engine: "live", retry: false, ...more });
    onTestFinished(() => provider.close());
    return provider;
  };
  return { ...cli, create };
}

/**
 * The same, with one process for all tests of a `describe` that say nothing of its options.
 * @param {string} version
 */
export function sharingCodex(version) {
  return sharing(async (answer, until) => {
    /** @param {object} request @param {number} index */
    const script = (request, index) => answer(index, request);
    const { api, options } = await withCli("codex", { version, script, until });
    const provider = createCodexCliProvider({ ...options, engine: "live", retry: false });
    until(() => provider.close());
    return { api, create: () => provider.bindTools([]) };
  });
}

/** The files of a folder with their sizes and times, links not followed. @param {string} folder */
export function filesIn(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => [path, statSync(path).size, statSync(path).mtimeMs]);
}

/** One transparent pixel. */
export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
