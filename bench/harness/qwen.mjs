// @ts-check
/** The bare qwen, started as ours is: no tools of its own, in a private folder. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SYSTEM } from "./setting.mjs";

const EXCLUDED = ["read_file", "edit", "run_shell_command", "get_goal", "update_goal"];

/** @typedef {{ cliPath: string, model: string, env: Record<string, string | undefined>, [name: string]: any }} Options */

/**
 * @param {Options} options
 * @param {string[]} protocol the flags of what it speaks
 */
export function startQwen({ cliPath, model, env, authType }, protocol) {
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const cwd = join(folder, "empty");
  mkdirSync(cwd);
  const flags = ["--auth-type", authType, "--bare", "--system-prompt", SYSTEM, "--exclude-tools", ...EXCLUDED];
  const own = { QWEN_RUNTIME_DIR: join(folder, "runtime"), QWEN_CODE_NO_RELAUNCH: "true" };
  const child = spawn(cliPath, [...flags, "--model", model, ...protocol], {
    cwd,
    env: { ...process.env, ...env, ...own },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const closed = new Promise((resolve) => child.once("close", resolve));
  return {
    child,
    cwd,
    /** Waits for its end, and takes the folder away. */
    async gone() {
      await closed;
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
