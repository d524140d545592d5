// @ts-check
/**
 * An agent that answers questions about a repository, and has its answer checked by another one on another provider.
 *
 * In flow a question, a folder, and who decides about calls; out flow what happens, as it happens, on a screen, and how the run
 * ended. `runAgent` does the work: what is here are its options, and how its events look.
 */
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createOpenAiCompatibleProvider,
  createQwenCliProvider,
  runAgent,
} from "deep-factor-providers";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { startOpenAi } from "../../__tests__/support/openai.mjs";
import { formatJson, plain } from "../demo/screen.mjs";
import { createFileTools } from "./file-tools.mjs";
import { scriptedClaude, scriptedReviewer } from "./scripted-models.mjs";

/** @typedef {import("../demo/screen.mjs").Screen} Screen */
/** @typedef {import("deep-factor-providers").AgentEvent} AgentEvent */
/** @typedef {import("deep-factor-providers").AgentResult} AgentResult */
/** @typedef {import("deep-factor-providers").CliProvider<unknown>} Provider */
/**
 * @typedef {object} ExampleOptions
 * @property {string} folder
 * @property {string} [question]
 * @property {boolean} [live] the CLIs on PATH with their own logins, instead of scripted APIs
 * @property {string} [model] of the live claude
 * @property {keyof typeof REVIEWERS} [reviewer] who reviews, live
 * @property {import("./consent.mjs").Ask} ask
 * @property {AbortSignal} [signal]
 */

export const REVIEWERS = {
  claude: createClaudeCliProvider,
  codex: createCodexCliProvider,
  gemini: createGeminiCliProvider,
  qwen: createQwenCliProvider,
};

const TITLE = "an agent for questions about a repository, and its reviewer";
const QUESTION = "Where is `createRunAgent`?";
const PROMPT =
  "You answer questions about the files of a folder, in two sentences, naming file and line. Have what you found checked by the reviewer before you answer. If a call is denied, do without.";
const REVIEW =
  "You check one claim about the files of a folder: read the place, then say in one sentence whether it holds.";
/** Of a tool's result, in lines. */
const SHOWN = 8;

/**
 * @param {ExampleOptions} options
 * @param {Screen} screen
 * @returns {Promise<AgentResult>}
 */
export async function runExample({ live = false, model, reviewer = "claude", ...options }, screen) {
  const tools = createFileTools(options.folder);
  if (live) {
    screen.begin(TITLE, `the claude on your PATH, with your login; ${reviewer} reviews`);
    const main = createClaudeCliProvider({ ...(model && { model }) });
    return converse(main, REVIEWERS[reviewer](), { ...options, tools }, screen);
  }
  const [anthropic, openai] = await Promise.all([startAnthropic(scriptedClaude), startOpenAi(scriptedReviewer)]);
  const claude = isolateClaude({ baseUrl: anthropic.url });
  try {
    screen.begin(
      TITLE,
      `claude ${claude.version} from node_modules and an OpenAI-compatible API; both APIs are scripted`,
    );
    const main = createClaudeCliProvider({ cliPath: claude.cliPath, env: claude.env });
    const second = createOpenAiCompatibleProvider({ baseURL: openai.url, model: "scripted" });
    const result = await converse(main, second, { ...options, tools }, screen);
    const violations = [...anthropic.violations, ...openai.violations];
    if (violations.length > 0) throw new Error(`the scripted APIs are at fault: ${violations.join("; ")}`);
    return result;
  } finally {
    await Promise.all([anthropic.close(), openai.close()]);
    claude.cleanup();
  }
}

/**
 * @param {Provider} provider closed at the end, as is the reviewer's
 * @param {Provider} second
 * @param {{ tools: ReturnType<typeof createFileTools>, question?: string, ask: import("./consent.mjs").Ask, signal?: AbortSignal }} options
 * @param {Screen} screen
 */
async function converse(provider, second, { tools, question = QUESTION, ask, signal }, screen) {
  // Names of files are free; for what is in them, somebody is asked. The reviewer needs no more than one look.
  const permissions = { allow: ["list_files"], ask };
  const reviewer = {
    provider: second,
    description: "checks a claim about one line of a file",
    systemPrompt: REVIEW,
    tools: tools.filter(({ name }) => name === "read_file"),
    permissions,
    limits: { maxSteps: 5 },
  };
  const startedAt = performance.now();
  screen.row("you", plain(question), "strong");
  try {
    const run = runAgent({
      provider,
      systemPrompt: PROMPT,
      prompt: question,
      tools,
      permissions,
      limits: { maxSteps: 20, maxRepeatedCalls: 3, timeoutMs: 10 * 60_000 },
      builtins: { handoff: { agents: { reviewer } } },
      onEvent: (event) => show(event, screen),
      signal,
    });
    const result = await run.result;
    screen.rule();
    screen.note(summary(result, performance.now() - startedAt));
    screen.note(tokens(result));
    if (result.error) screen.error(result.error);
    return result;
  } finally {
    await Promise.all([provider.close(), second.close()]);
  }
}

/**
 * @param {AgentEvent} event
 * @param {Screen} screen
 */
function show(event, screen) {
  const { agent } = event;
  const whose = agent ? `${agent}: ` : "";
  switch (event.type) {
    case "run_started":
      return screen.note(`${whose}${event.provider} may call ${event.tools.join(", ")}`);
    case "message":
      return screen.row(agent ?? event.type, plain(event.content), "good");
    case "tool_call":
      return screen.row("tool", `${whose}${event.toolCall.name} ${plain(formatJson(event.toolCall.args))}`, "accent");
    case "permission": {
      const reason = event.reason ? `: ${event.reason}` : "";
      return screen.row(
        event.allow ? "allowed" : "denied",
        plain(`${whose}${event.name}, by ${event.by}${reason}`),
        event.allow ? "dim" : "bad",
      );
    }
    case "deferred":
      return screen.row("handoff", `to ${event.to}`, "accent");
    case "tool_result":
      return screen.row("result", shorten(`${whose}${textOf(event.content)}`), event.isError ? "bad" : "plain");
    case "retry":
      return screen.note(`${whose}tried again: ${plain(event.reason)}`);
    case "warning":
      return screen.row("warning", plain(`${whose}${event.message}`), "bad");
    case "usage":
      return screen.note(`${whose}${tokens(event)}`);
    case "run_failed":
      return screen.row(event.status, `${whose}${plain(event.error?.message ?? "the run was ended")}`, "bad");
  }
}

/**
 * @param {AgentResult} result
 * @param {number} ms
 */
function summary(result, ms) {
  const { status, steps } = result;
  const calls = result.messages.filter((message) => message.getType() === "tool").length;
  const counts = `${steps} ${steps === 1 ? "step" : "steps"}, ${calls} tool ${calls === 1 ? "call" : "calls"}`;
  return `${status}: ${counts}, ${(ms / 1000).toFixed(2)} s`;
}

/** @param {{ usage: import("deep-factor-providers").TokenUsage, costUsd?: number }} spent */
function tokens({ usage, costUsd }) {
  const cost = costUsd === undefined ? "" : `, $${costUsd.toFixed(4)}`;
  return `${usage.inputTokens.toLocaleString("en")} tokens in, ${usage.outputTokens.toLocaleString("en")} out${cost}`;
}

/** @param {string | Record<string, unknown>[]} content */
function textOf(content) {
  return typeof content === "string" ? content : formatJson(content);
}

/** @param {string} text */
function shorten(text) {
  const lines = plain(text).split("\n");
  const more = lines.length > SHOWN ? [`(${lines.length - SHOWN} more lines)`] : [];
  return [...lines.slice(0, SHOWN), ...more].join("\n");
}
