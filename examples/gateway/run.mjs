// @ts-check
/**
 * In flows a question for each of two clients: OpenAI's in JavaScript, and Anthropic's in Python where that is there. Out flows what they do
 * with a tool, over one gateway to the real claude CLI and a scripted API, and how many processes it took: one for each conversation.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createGateway } from "deep-factor-providers/gateway";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { installed } from "../../__tests__/support/installed.mjs";
import { pythonWith, runPython } from "../../__tests__/support/python.mjs";
import { loop } from "./client.mjs";

/** What the model says: a call for each number behind the first, then the sum. */
const STEPS = [
  [1, 2],
  [3, 3],
  [6, 4],
];

/** @param {(line: string) => void} print */
export async function runGateway(print) {
  const api = await startAnthropic((_, index) => said(index % (STEPS.length + 1)));
  const claude = isolateClaude({ baseUrl: api.url });
  const pids = new Set();
  const provider = createClaudeCliProvider({
    cliPath: claude.cliPath,
    env: claude.env,
    model: "sonnet",
    engine: "live",
    retry: false,
    logger: ({ pid }) => void (pid !== undefined && pids.add(pid)),
  });
  const gateway = await createGateway({ providers: { claude: provider }, port: 0 });
  const ask = { model: "claude/sonnet", question: "What is 1 + 2 + 3 + 4?" };
  try {
    const { OpenAI } = createRequire(join(await installed("openai"), "package.json"))("openai");
    print("openai, in JavaScript");
    await loop(new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.token }), { ...ask, print });
    print(`${pids.size} process`);
    const python = await pythonWith("anthropic");
    if (python === undefined) return print("anthropic, in Python: neither is here");
    print("anthropic, in Python");
    const program = fileURLToPath(new URL("client.py", import.meta.url));
    const variables = { ANTHROPIC_BASE_URL: gateway.url, ANTHROPIC_API_KEY: String(gateway.token) };
    const told = await runPython(python, [program, ask.model, `Once more: ${ask.question}`], variables);
    for (const line of told.trim().split("\n")) print(line);
    print(`${pids.size} processes: one for each conversation`);
  } finally {
    await gateway.close();
    await provider.close();
    await api.close();
    claude.cleanup();
  }
}

/** @param {number} step */
function said(step) {
  const numbers = STEPS[step];
  if (numbers === undefined) return { text: "It is 10." };
  const [a, b] = numbers;
  return { content: [{ type: "tool_use", id: `toolu_${step}`, name: "mcp__df__add", input: { a, b } }] };
}
