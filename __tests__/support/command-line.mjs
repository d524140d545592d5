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

/** Runs the command line for each of the calls, anew within one process; prints the results. */
const SERIES = `
import { pathToFileURL } from "node:url";
const calls = JSON.parse(process.argv[1]);
const streams = ["stdout", "stderr"];
const written = streams.map((name) => process[name].write.bind(process[name]));
const env = { ...process.env };
const folder = process.cwd();
process.setMaxListeners(0);
for (const name of streams) process[name].setMaxListeners(0);
const results = [];
for (const [number, call] of calls.entries()) {
  const result = { code: 0, stdout: "", stderr: "" };
  for (const name of streams) {
    process[name].write = (chunk, ...more) => {
      result[name] += chunk;
      more.findLast((one) => typeof one === "function")?.();
      return true;
    };
  }
  process.argv = [process.execPath, call.program, ...call.args];
  process.chdir(call.cwd ?? folder);
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  for (const [name, value] of Object.entries(call.env ?? {})) {
    if (value === null) delete process.env[name];
    else process.env[name] = value;
  }
  process.exitCode = undefined;
  await import(pathToFileURL(call.program).href + "?" + number);
  result.code = process.exitCode ?? 0;
  results.push(result);
}
process.exitCode = 0;
written[0](JSON.stringify(results));
`;

/**
 * The same for several command lines, one after the other, each evaluated anew within one process, whose start is most of what a command
 * costs. Standard input is /dev/null. What a command keeps in a module stays: `--color`.
 * @param {readonly { args: readonly string[], env?: Record<string, string | undefined>, cwd?: string, program?: string }[]} calls
 *   with the path of another program that ends by itself, that one instead
 * @returns {Promise<{ code: number, stdout: string, stderr: string }[]>}
 */
export async function runCommands(calls) {
  const said = calls.map(({ env = {}, ...call }) => ({
    program: CLI,
    ...call,
    env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? null])),
  }));
  const words = ["--input-type=module", "-e", SERIES, "--", JSON.stringify(said)];
  const child = spawn(process.execPath, words, {
    env: { ...process.env, NO_COLOR: undefined, FORCE_COLOR: undefined },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  for (const name of /** @type {const} */ (["stdout", "stderr"])) {
    child[name].setEncoding("utf8").on("data", (text) => {
      output[name] += text;
    });
  }
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0) throw new Error(`the series ended with ${code}: ${output.stderr}${output.stdout}`);
  return JSON.parse(output.stdout);
}
