// @ts-check
/**
 * The command `suite` with the real claude CLI on its PATH, and a scripted API.
 *
 * In: the folder of the results. Out: what the command prints, on this program's own streams, and its exit code.
 */
import { spawn } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { scriptedModel } from "./scripted-model.mjs";

const CLI = fileURLToPath(new URL("../../src/js/cli.mjs", import.meta.url));
const TASKS = fileURLToPath(new URL("tasks.yaml", import.meta.url));

/**
 * @param {{ out?: string | undefined, resume?: boolean | undefined, concurrency?: string | undefined }} options
 * @returns {Promise<number>} the exit code
 */
export async function runSuite({ out, resume, concurrency = "2" }) {
  const folder = out ?? (await mkdtemp(join(tmpdir(), "suite-")));
  const api = await startAnthropic(scriptedModel);
  const claude = isolateClaude({ baseUrl: api.url });
  try {
    const path = [dirname(claude.cliPath), process.env.PATH].join(delimiter);
    const args = ["suite", TASKS, "--out", folder, "--concurrency", concurrency, ...(resume ? ["--resume"] : [])];
    const child = spawn(process.execPath, [CLI, ...args], {
      stdio: "inherit",
      env: { ...process.env, ...claude.env, PATH: path },
    });
    return await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => resolve(code ?? 1));
    });
  } finally {
    await api.close();
    claude.cleanup();
  }
}
