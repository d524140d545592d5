// @ts-check
/**
 * An agent in one loop: ask the model, run the tools it calls, give it the results, until it answers without a call.
 *
 * In flow a question and where claude is to be found; out flows what happens, line by line as it happens, to a screen.
 */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createClaudeCliProvider } from "deep-factor-providers";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { countWords } from "./count-words.mjs";
import { formatJson } from "./screen.mjs";
import { scriptedModel } from "./scripted-model.mjs";

/**
 * @typedef {object} DemoOptions
 * @property {boolean} [live] the claude on PATH with its own login, instead of the one in node_modules with a scripted API
 * @property {"auto" | "print" | "live"} [engine] a process per step, or one for all of them
 * @property {string} [model]
 * @property {string} [question]
 */
/** @typedef {import("./screen.mjs").Screen} Screen */
/** @typedef {import("deep-factor-providers").CliProvider} CliProvider */
/** @typedef {{ input: number, output: number }} Tokens */

const TITLE = "claude as the model of an agent";
const QUESTION = "How many words has README.md, and which does it use most?";
const MAX_STEPS = 8;

/**
 * @param {DemoOptions} options
 * @param {Screen} screen
 */
export async function runDemo({ live = false, engine, model, question = QUESTION }, screen) {
  const settings = { ...(model && { model }), ...(engine && { engine }) };
  if (live) {
    screen.begin(TITLE, "the claude on your PATH, with your login");
    return converse(createClaudeCliProvider(settings), question, screen);
  }
  const api = await startAnthropic(scriptedModel);
  const claude = isolateClaude({ baseUrl: api.url });
  try {
    screen.begin(TITLE, `claude ${claude.version} from node_modules; its API is scripted: no login, no cost`);
    const provider = createClaudeCliProvider({ ...settings, cliPath: claude.cliPath, env: claude.env });
    await converse(provider, question, screen);
    if (api.violations.length > 0) throw new Error(`the scripted API is at fault: ${api.violations.join("; ")}`);
  } finally {
    await api.close();
    claude.cleanup();
  }
}

/**
 * The agent.
 * @param {CliProvider} provider closed at the end
 * @param {string} question
 * @param {Screen} screen
 */
async function converse(provider, question, screen) {
  const startedAt = performance.now();
  const agent = provider.bindTools([countWords]);
  /** @type {(HumanMessage | import("@langchain/core/messages").AIMessage | ToolMessage)[]} */
  const messages = [new HumanMessage(question)];
  /** @type {Tokens} */
  const total = { input: 0, output: 0 };
  let calls = 0;
  /** The processes that have answered. */
  const pids = new Set();
  screen.row("you", question, "strong");
  try {
    for (let step = 1; step <= MAX_STEPS; step++) {
      screen.step(`step ${step}`);
      const reply = await ask(agent, messages, total, screen);
      messages.push(reply);
      const { pid, engine } = /** @type {{ pid?: number, engine?: string }} */ (reply.response_metadata.run);
      pids.add(pid);
      if (!reply.tool_calls?.length) {
        screen.rule();
        const steps = `${step} ${step === 1 ? "step" : "steps"}, ${calls} tool ${calls === 1 ? "call" : "calls"}`;
        const processes = `${pids.size} ${pids.size === 1 ? "process" : "processes"} (${engine})`;
        return screen.note(`${steps}, ${processes}, ${describe(startedAt, total)}`);
      }
      for (const call of reply.tool_calls) {
        calls++;
        const result = await runTool(call);
        if (result.status === "error") screen.row("result", String(result.content), "bad");
        else screen.row("result", formatJson(JSON.parse(String(result.content))));
        messages.push(result);
      }
    }
    throw new Error(`no answer after ${MAX_STEPS} steps`);
  } finally {
    await provider.close();
  }
}

/**
 * One step: what the model says and calls is shown when it arrives.
 * @param {CliProvider} agent
 * @param {Parameters<CliProvider["invoke"]>[0]} messages
 * @param {Tokens} total counted up
 * @param {Screen} screen
 */
async function ask(agent, messages, total, screen) {
  const startedAt = performance.now();
  const tokens = { input: 0, output: 0 };
  const reply = await agent.invokeWithUpdates(messages, (update) => {
    switch (update.type) {
      case "assistant_message":
        return screen.row("claude", update.content, "good");
      case "tool_call":
        return screen.row("tool", `${update.toolCall.name} ${formatJson(update.toolCall.args)}`, "accent");
      case "final":
        tokens.input = update.usage?.inputTokens ?? 0;
        tokens.output = update.usage?.outputTokens ?? 0;
    }
  });
  total.input += tokens.input;
  total.output += tokens.output;
  screen.note(describe(startedAt, tokens));
  return reply;
}

/**
 * A tool that fails is told to the model, which may know better.
 * @param {{ name: string, args: Record<string, any>, id?: string }} call
 * @returns {Promise<ToolMessage>}
 */
async function runTool({ name, args, id = "" }) {
  try {
    if (name !== countWords.name) throw new Error(`there is no tool ${name}`);
    const content = await countWords.invoke(/** @type {any} */ (args));
    return new ToolMessage({ tool_call_id: id, content: String(content) });
  } catch (error) {
    const content = error instanceof Error ? error.message : String(error);
    return new ToolMessage({ tool_call_id: id, content, status: "error" });
  }
}

/**
 * @param {number} startedAt
 * @param {Tokens} tokens
 */
function describe(startedAt, { input, output }) {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(2);
  return `${seconds} s, ${input.toLocaleString("en")} tokens in, ${output.toLocaleString("en")} out`;
}
