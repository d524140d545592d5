// @ts-check
/**
 * Asking a CLI one question, the ways there are. In: the CLI's path and environment. Out: a function that asks, and gives the
 * answer's text.
 *
 * The CLI is the compiled fake that answers at once, so what is left is what asking costs.
 */
import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fakeCli } from "../../__tests__/support/processes.mjs";
import { spec } from "./plain.mjs";

/** @typedef {{ ask: () => Promise<string>, close?: () => unknown }} Caller */
/** @typedef {import("./bench.mjs").Context} Context */

export const ANSWER = "Hello from the fake.";
const QUESTION = "Say hello.";
const STREAM = ["-p", "--output-format", "stream-json", "--verbose"];
const VARIABLE = "FAKE_CLI";

/** Reads its input, as the real one does, and answers in the format it is asked for. */
const ANSWERS = JSON.stringify(["readAll", { claude: { text: ANSWER } }]);
/** SPEC-01's call leaves its input open: nobody ever writes to it. */
const ANSWERS_UNASKED = JSON.stringify([{ claude: { text: ANSWER } }]);

/**
 * @param {{ maxConcurrency?: number }} options
 * @returns {Promise<Caller>}
 */
export async function ours(options = {}) {
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  const provider = createClaudeCliProvider({ cliPath: fakeCli(), env: { [VARIABLE]: ANSWERS }, ...options });
  return {
    ask: async () => (await provider.invoke([QUESTION])).content,
    close: () => provider.close(),
  };
}

/** SPEC-01's provider: the prompt in argv, all of the output is the answer. @returns {Caller} */
export function specExecFile() {
  const env = { ...process.env, [VARIABLE]: ANSWERS_UNASKED };
  const options = { timeout: 120_000, maxBuffer: 10 * 2 ** 20, encoding: /** @type {const} */ ("utf8"), env };
  return {
    ask: () =>
      new Promise((resolve, reject) => {
        const prompt = spec.messagesToXml([{ type: "human", content: QUESTION }]);
        execFile(fakeCli(), ["-p", prompt, "--no-input"], options, (error, stdout) => {
          if (error) return reject(error);
          spec.parseToolCalls(stdout);
          resolve(stdout.trim());
        });
      }),
  };
}

/** `spawn` with the prompt on stdin and events line by line. @returns {Caller} */
export function nodeSpawn() {
  const env = { ...process.env, [VARIABLE]: ANSWERS };
  return {
    async ask() {
      const child = spawn(fakeCli(), STREAM, { env, stdio: ["pipe", "pipe", "pipe"] });
      const closed = new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
      child.stderr.resume();
      child.stdin.on("error", () => {}).end(spec.messagesToXml([{ type: "human", content: QUESTION }]));
      let answer = "";
      for await (const line of createInterface({ input: child.stdout })) answer = resultOf(line) ?? answer;
      const code = await closed;
      if (code !== 0) throw new Error(`exit code ${code}`);
      spec.parseToolCalls(answer);
      return answer;
    },
  };
}

/** @param {Context} context @returns {Promise<Caller>} */
export async function execa({ peer }) {
  const { execa } = await peer("execa");
  const env = { [VARIABLE]: ANSWERS };
  return {
    async ask() {
      const input = spec.messagesToXml([{ type: "human", content: QUESTION }]);
      const { stdout } = await execa(fakeCli(), STREAM, { env, input, lines: true });
      const answer =
        stdout.map(resultOf).findLast((/** @type {string | undefined} */ text) => text !== undefined) ?? "";
      spec.parseToolCalls(answer);
      return answer;
    },
  };
}

/**
 * The floor: the program started by a small native one, which was started before and does nothing else. This process writes
 * it a line and reads the answer, which is whole when the program has exited.
 * @param {{ together?: boolean }} [options] whether many are to run at once; then their exits are not waited for
 * @returns {Caller}
 */
export function bare({ together = false } = {}) {
  const run = { spawn: { steps: [{ out: together ? `${ANSWER}\n` : ANSWER }], stdio: "inherit", wait: !together } };
  const scenario = [{ eachLine: together ? [run] : [run, { out: "\n" }] }];
  const env = { ...process.env, [VARIABLE]: JSON.stringify(scenario) };
  const child = spawn(fakeCli(), [], { env, stdio: ["pipe", "pipe", "inherit"] });
  /** @type {((line: string) => void)[]} */
  const waiting = [];
  createInterface({ input: child.stdout }).on("line", (line) => waiting.shift()?.(line));
  return {
    ask: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        child.stdin.write("\n");
      }),
    close: () => new Promise((resolve) => child.once("close", resolve).stdin.end()),
  };
}

/** @param {string} line @returns {string | undefined} */
function resultOf(line) {
  const event = JSON.parse(line);
  return event.type === "result" ? event.result : undefined;
}

/** @type {Record<"ours" | "spec" | "spawn" | "execa" | "floor", { title: string, kind: import("./bench.mjs").Kind, call: (context: Context) => Caller | Promise<Caller> }>} */
export const CALLERS = {
  ours: { title: "invoke", kind: "ours", call: () => ours({ maxConcurrency: 100 }) },
  spec: { title: "execFile, as in SPEC-01", kind: "plain", call: specExecFile },
  spawn: { title: "child_process.spawn", kind: "plain", call: nodeSpawn },
  execa: { title: "execa", kind: "plain", call: execa },
  floor: { title: "the bare program", kind: "floor", call: () => bare() },
};

/** Asks and sees to it that the answer is the right one. @param {Caller} caller */
export async function askOne(caller) {
  const answer = await caller.ask();
  if (answer !== ANSWER) throw new Error(`the answer is ${JSON.stringify(answer)}`);
}
