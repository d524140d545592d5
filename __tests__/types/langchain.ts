/** A strict consumer of `deep-factor-providers/langchain`. types.test.ts compiles this file as an ES module, as CommonJS, and for a bundler. */
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { type AIMessageChunk, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createClaudeCliProvider, createFallbackProvider, createOpenAiCompatibleProvider } from "deep-factor-providers";
import {
  ChatClaudeCli,
  type ChatClaudeCliFields,
  ChatCli,
  ChatCodexCli,
  ChatCopilotCli,
  ChatGeminiCli,
  ChatGrokCli,
  ChatOpenCodeCli,
  ChatQwenCli,
} from "deep-factor-providers/langchain";

const add = tool((args: unknown) => JSON.stringify(args), {
  name: "add",
  description: "adds",
  schema: { type: "object", properties: { a: { type: "number" } } },
});

const fields: ChatClaudeCliFields = {
  model: "sonnet",
  engine: "live",
  maxRetries: 1,
  temperature: 0,
  maxTokens: 1000,
  stop: ["x"],
  tags: ["a"],
  cache: true,
  profile: { maxInputTokens: 1_000_000 },
};

/** Each is a BaseChatModel of LangChain's. */
export const models: BaseChatModel[] = [
  new ChatClaudeCli(fields),
  new ChatClaudeCli(),
  new ChatCodexCli({ model: "gpt-5.5", engine: "live", toolForm: "namespace" }),
  new ChatCopilotCli({ provider: { baseUrl: "http://127.0.0.1:1/v1", model: "m" } }),
  new ChatGrokCli({ provider: { baseUrl: "http://127.0.0.1:1/v1", model: "m" } }),
  new ChatGeminiCli({ model: "gemini-2.5-pro" }),
  new ChatQwenCli({ authType: "openai" }),
  new ChatOpenCodeCli({ model: "openai/gpt-5.5" }),
  new ChatCli({ provider: createClaudeCliProvider() }),
  new ChatCli({ provider: createOpenAiCompatibleProvider({ model: "m" }), verbose: false }),
  new ChatCli({ provider: createFallbackProvider([createClaudeCliProvider()]) }),
];

export async function use(signal: AbortSignal): Promise<string> {
  await using model = new ChatClaudeCli({ model: "sonnet" });
  const withTools = model.bindTools([add], { tool_choice: "any", strict: true });
  const reply: AIMessageChunk = await withTools.invoke([new HumanMessage("hi")], {
    signal,
    timeout: 1000,
    model: "opus",
    reasoning: { effort: "low" },
    onUnsupported: "warn",
  });
  for await (const chunk of await withTools.stream("hi", { record: "run.jsonl" })) reply.concat(chunk);
  const replies: AIMessageChunk[] = await model.batch(["a", "b"], { maxConcurrency: 2 });
  const json = { type: "object", properties: { name: { type: "string" } } };
  const { name } = await model.withStructuredOutput<{ name: string }>(json).invoke("Who?");
  const { raw, parsed } = await model
    .withStructuredOutput<{ name: string }>(json, { includeRaw: true, method: "functionCalling" })
    .invoke("Who?");
  const size: number | undefined = model.profile.maxInputTokens;
  await model.prewarm({ tools: [add] });
  const { installed } = await model.health({ level: "version" });
  return [reply.text, replies.length, name, raw.text, parsed.name, size, installed].join();
}

// @ts-expect-error there is no such option
export const unknown = () => new ChatClaudeCli({ modle: "sonnet" });
// @ts-expect-error it is of another kind
export const wrong = () => new ChatClaudeCli({ maxRetries: "2" });
// @ts-expect-error a user's text is always a text here
export const documents = () => new ChatClaudeCli({ threadDocuments: "pass" });
// @ts-expect-error the provider is missing
export const bare = () => new ChatCli({});
// @ts-expect-error codex has no such option
export const foreign = () => new ChatCodexCli({ permissionMode: "plan" });
