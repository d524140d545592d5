// @ts-check
/**
 * `node examples/agent-run/main.mjs`: an agent for questions about a repository, with a person who permits and another agent who
 * reviews.
 *
 * This file reads the command line, sees to it that everything is installed and built, and shows errors; the agent is in
 * agent.mjs, which can only be loaded once the package exists.
 */
import { parseArgs } from "node:util";
import { PrepareError, prepare, ROOT, runMain } from "../../.ci/prepare.mjs";
import { createScreen } from "../demo/screen.mjs";
import { createConsent } from "./consent.mjs";

const HELP = `node examples/agent-run/main.mjs [options] ["question"]

Answers a question about the files of a folder. You are asked before the agent
reads in files; what it found is checked by a second agent on another provider.
Offline by default: the real claude CLI and an OpenAI-compatible provider,
against scripted APIs on 127.0.0.1, without a login, the network or costs.

  "question"       offline, with what to look for in quotes: "Where is 'main'?"
  --folder PATH    what the question is about, this repository by default;
                   nothing outside of it can be read
  --yes            allow all calls without asking
  --live           ask your own claude, logged in and on PATH
  --model NAME     its model, such as sonnet
  --reviewer NAME  who reviews, live: claude, codex, gemini or qwen
  --help           this text
`;

await runMain(import.meta.url, async () => {
  const screen = createScreen(process.stdout, process.env);
  try {
    const args = readArgs(process.argv.slice(2));
    if (args === "help") {
      process.stdout.write(HELP);
      return;
    }
    await prepare();
    const { REVIEWERS, runExample } = await import("./agent.mjs");
    const { yes, reviewer, ...options } = args;
    if (!isOneOf(reviewer, REVIEWERS)) {
      throw new Error(`--reviewer must be one of ${Object.keys(REVIEWERS).join(", ")}, not ${reviewer}`);
    }
    const controller = new AbortController();
    // The second time, Ctrl-C does what it always does.
    const interrupt = () => controller.abort();
    process.once("SIGINT", interrupt);
    const ask = createConsent({ input: process.stdin, output: process.stdout, yes, onInterrupt: interrupt });
    const { status } = await runExample({ ...options, reviewer, ask, signal: controller.signal }, screen);
    process.off("SIGINT", interrupt);
    if (status !== "completed") process.exitCode = 1;
  } catch (error) {
    if (error instanceof PrepareError) throw error;
    screen.error(error);
    process.exitCode = 1;
  }
});

/** @param {string[]} args */
function readArgs(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      folder: { type: "string", default: ROOT },
      yes: { type: "boolean", default: false },
      live: { type: "boolean", default: false },
      model: { type: "string" },
      reviewer: { type: "string", default: "claude" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return "help";
  const { folder, yes, live, model, reviewer } = values;
  const question = positionals.join(" ").trim();
  return { folder, yes, live, reviewer, ...(model && { model }), ...(question && { question }) };
}

/**
 * @template {object} T
 * @param {string} name
 * @param {T} all
 * @returns {name is Extract<keyof T, string>}
 */
function isOneOf(name, all) {
  return Object.hasOwn(all, name);
}
