// @ts-check
/**
 * The small agent of agent.mjs with claude, codex, copilot or grok as its model: `node examples/agent-loop/main.mjs [options] ["question"]`.
 */
import { parseArgs } from "node:util";
import { PrepareError, prepare, runMain } from "../../.ci/prepare.mjs";

const HELP = `node examples/agent-loop/main.mjs [options] ["question"]

The loop of an agent over a model adapter, printing every update as it arrives.
Offline by default: the real CLI, against a scripted API on 127.0.0.1.

  "question"      arithmetic, such as "What is 17 + 25, and what is 6 * 9?"
  --provider NAME claude; codex or copilot: one process for all steps, with native tool calls; grok
  --context KIND  standard (messages) or xml (one message with the thread)
  --no-updates    call invoke instead of invokeWithUpdates
  --plan          ask for a plan instead of an answer
  --errors N      offline: let the first N requests fail
  --live          ask your own CLI, logged in and on PATH
  --model NAME    the model, such as sonnet
  --help          this text
`;

await runMain(import.meta.url, async () => {
  try {
    const options = readOptions(process.argv.slice(2));
    if (options === "help") {
      process.stdout.write(HELP);
      return;
    }
    await prepare();
    const { runAgentLoop } = await import("./run.mjs");
    await runAgentLoop(options, console.log);
  } catch (error) {
    if (error instanceof PrepareError) throw error;
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
});

/**
 * @param {string[]} args
 * @returns {import("./run.mjs").LoopOptions | "help"}
 */
function readOptions(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      provider: { type: "string", default: "claude" },
      context: { type: "string", default: "standard" },
      "no-updates": { type: "boolean" },
      plan: { type: "boolean" },
      errors: { type: "string", default: "0" },
      live: { type: "boolean" },
      model: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return "help";
  const { provider, context, model, live = false, plan = false } = values;
  if (context !== "standard" && context !== "xml") throw new Error(`--context is standard or xml, not ${context}`);
  if (provider !== "claude" && provider !== "codex" && provider !== "copilot" && provider !== "grok") {
    throw new Error(`--provider is claude, codex, copilot or grok, not ${provider}`);
  }
  const errors = Number(values.errors);
  if (!Number.isInteger(errors) || errors < 0) throw new Error(`--errors is a count, not ${values.errors}`);
  const question = positionals.join(" ").trim();
  const updates = !values["no-updates"];
  return { provider, context, updates, plan, errors, live, ...(model && { model }), ...(question && { question }) };
}
