// @ts-check
/**
 * The Claude Code adapter over a real claude CLI and a scripted API, in a workspace of its own, for one test.
 *
 * In flow a script of answers and what the workspace holds; out flow the adapter, a way to run it that checks the log of every
 * result against the published schema, and the recorded requests. All of it is gone with the test.
 */
import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ClaudeCodeAdapter, runLogSchema } from "deep-factor-providers";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";
import { removeFolder } from "./folders.mjs";
import { withClaude } from "./harness.mjs";

/**
 * @typedef {import("deep-factor-providers").AgentExecutionContext} Context
 * @typedef {import("deep-factor-providers").AgentExecutionResult} Result
 */

const logSchema = z.fromJSONSchema(/** @type {any} */ (runLogSchema));

/**
 * A folder with these files, gone with the test.
 * @param {Record<string, string | Uint8Array>} [files]
 */
export function createWorkspace(files = {}) {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "dfp-ws-")));
  onTestFinished(() => removeFolder(dir));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), content);
  }
  return dir;
}

/**
 * What is true of every result, whatever became of the run; and its log, which fits the schema.
 * @param {ClaudeCodeAdapter} adapter
 * @param {Result} result
 * @param {Context} context
 */
export function logOf(adapter, result, context) {
  expect(result.status === "timeout").toBe(result.timedOut);
  expect(result.status === "success").toBe(result.exitCode === 0);
  expect(Date.parse(result.completedAt) - Date.parse(result.startedAt)).toBe(result.durationMs);
  // What a suite stores and reads again makes the same log.
  const log = adapter.normalizeLog(JSON.parse(JSON.stringify(result)), context);
  expect(logSchema.safeParse(log).error).toBeUndefined();
  expect(log.usage.total_tokens).toBe(log.usage.input_tokens + log.usage.output_tokens);
  return log;
}

/**
 * @param {import("./harness.mjs").Setup & {
 *   files?: Record<string, string | Uint8Array>,
 *   options?: import("deep-factor-providers").ClaudeCodeAdapterOptions,
 * }} setup `files` are those of the workspace
 */
export async function withAdapter({ files, options = {}, ...setup }) {
  const { api, home, options: cli } = await withClaude(setup);
  const workspace = createWorkspace(files);
  const adapter = new ClaudeCodeAdapter({ cliPath: cli.cliPath, env: cli.env, ...options });
  return {
    api,
    home,
    workspace,
    adapter,
    /**
     * @param {import("deep-factor-providers").ClaudeCodeConfig} config
     * @param {Partial<Context>} [more]
     */
    async run(config, more = {}) {
      const context = { workspaceDir: workspace, ...more, config: { model: "sonnet", ...config } };
      const result = await adapter.execute(context);
      return { result, log: logOf(adapter, result, context) };
    },
  };
}

/**
 * A call as the API writes it.
 * @param {string} id
 * @param {string} name
 * @param {object} input
 */
export const use = (id, name, input) => ({ type: "tool_use", id, name, input });
