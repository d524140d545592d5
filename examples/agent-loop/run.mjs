// @ts-check
/**
 * Puts the small agent together: a provider, a calculator and, unless it runs live, a scripted API.
 *
 * In flow the command line's options; out flow the updates as JSON, one a line, then the answer.
 */
import { tool } from "@langchain/core/tools";
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  createCopilotCliProvider,
  createGrokCliProvider,
} from "deep-factor-providers";
import { z } from "zod";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { isolateCli } from "../../__tests__/support/clis.mjs";
import { startOpenAi } from "../../__tests__/support/openai.mjs";
import { SmallAgent } from "./agent.mjs";
import { OPERATORS, scriptedCompletions, scriptedModel, scriptedResponses } from "./scripted-model.mjs";

/**
 * @typedef {object} LoopOptions
 * @property {"claude" | "codex" | "copilot" | "grok"} [provider] claude by default
 * @property {"standard" | "xml"} [context]
 * @property {boolean} [updates] true by default
 * @property {boolean} [plan]
 * @property {number} [errors] how many requests the scripted API turns down first
 * @property {boolean} [live]
 * @property {string} [model]
 * @property {string} [question]
 */

const QUESTION = "What is 17 + 25, and what is 6 * 9?";

/** @type {Record<string, (a: number, b: number) => number>} */
const ARITHMETIC = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b };

const calculate = tool(({ a, operator, b }) => String(ARITHMETIC[operator]?.(a, b)), {
  name: "calculate",
  description: "Calculates with two numbers.",
  schema: z.object({ a: z.number(), operator: z.enum(OPERATORS), b: z.number() }),
});

/**
 * @param {LoopOptions} options
 * @param {(line: string) => void} print
 */
export async function runAgentLoop(options, print) {
  const { provider = "claude", live = false, model } = options;
  const settings = model === undefined ? {} : { model };
  if (provider === "claude") {
    return live ? converse(createClaudeCliProvider(settings), options, print) : offlineClaude(settings, options, print);
  }
  if (!live) return offlineOpenAi(provider, settings, options, print);
  if (provider === "grok") return converse(createGrokCliProvider(settings), options, print);
  const create = provider === "codex" ? createCodexCliProvider : createCopilotCliProvider;
  await converse(create({ ...settings, ...LIVE }), options, print);
}

/** One process for all steps. */
const LIVE = /** @type {const} */ ({ engine: "live" });

/** A status that neither a CLI nor a provider repeats by itself, so that the agent has to. @param {number} index */
const refusal = (index) => ({ error: { status: 403, message: `scripted refusal ${index + 1}` } });

/**
 * @param {{ model?: string }} settings
 * @param {LoopOptions} options
 * @param {(line: string) => void} print
 */
async function offlineClaude(settings, options, print) {
  const { errors = 0 } = options;
  const api = await startAnthropic((request, index) => (index < errors ? refusal(index) : scriptedModel(request)));
  const claude = isolateClaude({ baseUrl: api.url });
  try {
    const provider = createClaudeCliProvider({ ...settings, cliPath: claude.cliPath, env: claude.env });
    await converse(provider, options, print);
  } finally {
    await api.close();
    claude.cleanup();
  }
}

/**
 * @param {"codex" | "copilot" | "grok"} name
 * @param {{ model?: string }} settings
 * @param {LoopOptions} options
 * @param {(line: string) => void} print
 */
async function offlineOpenAi(name, settings, options, print) {
  const { errors = 0 } = options;
  const answer = name === "grok" ? scriptedCompletions : scriptedResponses;
  const api = await startOpenAi((request, index) => (index < errors ? refusal(index) : answer(request)));
  const cli = await isolateCli(name, api.url);
  const more = { ...cli.options, ...settings, ...LIVE };
  const own = /** @type {const} */ ({ baseUrl: api.url, apiKey: "not-a-key", wireApi: "responses" });
  try {
    const create = {
      codex: () => createCodexCliProvider(more),
      copilot: () => createCopilotCliProvider({ ...more, provider: own }),
      grok: () => createGrokCliProvider({ ...cli.options, ...settings }),
    };
    await converse(create[name](), options, print);
  } finally {
    await api.close();
    cli.cleanup();
  }
}

/**
 * @param {import("deep-factor-providers").CliProvider} provider closed at the end
 * @param {LoopOptions} options
 * @param {(line: string) => void} print
 */
async function converse(provider, { context = "standard", updates = true, plan = false, question = QUESTION }, print) {
  const agent = new SmallAgent({
    model: provider,
    tools: [calculate],
    context,
    mode: plan ? "plan" : "act",
    ...(updates && { onUpdate: (update) => print(JSON.stringify(update)) }),
    onError: (problem) => print(`failed: ${problem}`),
  });
  try {
    const { text, steps, toolCalls } = await agent.run(question);
    print(text);
    print(`(steps: ${steps}, tool calls: ${toolCalls})`);
  } finally {
    await provider.close();
  }
}
