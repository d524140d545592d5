// @ts-check
/**
 * `npm run demo`: claude as the model of a small agent, from the question over a tool call to the answer.
 *
 * This file reads the command line, sees to it that everything is installed and built, and shows errors; the agent is in
 * demo.mjs, which can only be loaded once the package exists.
 */
import { parseArgs } from "node:util";
import { PrepareError, prepare, runMain } from "../../.ci/prepare.mjs";
import { createScreen } from "./screen.mjs";

const HELP = `npm run demo [-- options] ["question"]

Asks claude how long a file is. It answers with the help of a tool that counts
words. Offline by default: the real claude CLI, against a scripted API on
127.0.0.1, without a login, the network or costs.

  "question"      another question, such as "How long is Cargo.toml?"
  --live          ask your own claude, logged in and on PATH
  --engine NAME   live (one process for all steps), print (one for each), or
                  auto, the default: live where the CLI is known to serve it
  --model NAME    the model, such as sonnet
  --help          this text
`;

await runMain(import.meta.url, async () => {
  const screen = createScreen(process.stdout, process.env);
  try {
    const options = readOptions(process.argv.slice(2));
    if (options === "help") {
      process.stdout.write(HELP);
      return;
    }
    await prepare();
    const { runDemo } = await import("./demo.mjs");
    await runDemo(options, screen);
  } catch (error) {
    if (error instanceof PrepareError) throw error;
    screen.error(error);
    process.exitCode = 1;
  }
});

/**
 * @param {string[]} args
 * @returns {import("./demo.mjs").DemoOptions | "help"}
 */
function readOptions(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      live: { type: "boolean" },
      engine: { type: "string" },
      model: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return "help";
  const { live = false, engine, model } = values;
  if (engine !== undefined && engine !== "print" && engine !== "live" && engine !== "auto") {
    throw new Error(`--engine must be auto, live or print, not ${engine}`);
  }
  const question = positionals.join(" ").trim();
  return { live, ...(engine && { engine }), ...(model && { model }), ...(question && { question }) };
}
