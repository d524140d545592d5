// @ts-check
/** The command line as a shell starts it. In: arguments, standard input, variables. Out: what it printed, and its exit code. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

export const CLI = fileURLToPath(new URL("../../src/js/cli.mjs", import.meta.url));

/**
 * @param {string[]} args
 * @param {{ input?: string, env?: Record<string, string | undefined>, cwd?: string }} [options] without `input`, standard input is /dev/null
 */
export function startCommand(args, { input, env = {}, cwd } = {}) {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { ...process.env, NO_COLOR: undefined, FORCE_COLOR: undefined, ...env },
    cwd,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  for (const name of /** @type {const} */ (["stdout", "stderr"])) {
    child[name]?.setEncoding("utf8").on("data", (text) => {
      output[name] += text;
    });
  }
  if (input !== undefined) child.stdin?.end(input);
  /** @type {Promise<{ code: number | null, stdout: string, stderr: string }>} */
  const ended = new Promise((resolve) => child.once("close", (code) => resolve({ code, ...output })));
  return { child, ended, output };
}

/** @param {Parameters<typeof startCommand>} args */
export const runCommand = (...args) => startCommand(...args).ended;
