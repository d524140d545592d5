/**
 * The package in deep-factor-agent's place and in its hands, both ways. types.test.ts compiles this file with each kind of module
 * resolution and each TypeScript that is supported, and again with kinds of updates that must not be added.
 */
import type { BaseMessage } from "@langchain/core/messages";
import type { StructuredToolInterface } from "@langchain/core/tools";
import {
  type ApiProvider,
  type CliProvider,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createCopilotCliProvider,
  createFallbackProvider,
  createGeminiCliProvider,
  createGrokCliProvider,
  createOpenAiCompatibleProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  type FallbackProvider,
  type InvokeUpdate,
  isModelAdapter,
  type ModelAdapter,
  type ModelInvocationToolCall,
  type ModelInvocationUpdate,
  type UpdateUsage,
} from "deep-factor-providers";
import { ChatClaudeCli } from "deep-factor-providers/langchain";
import type * as agent from "./deep-factor-agent.js";
import { createDeepFactorAgent } from "./deep-factor-agent.js";

type Assignable<From, To> = [From] extends [To] ? true : false;
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function assertType<_T extends true>(): void;

// Our providers as the agent's model: as they are made, bound, and several as one.
const claude = createClaudeCliProvider();
const api = createOpenAiCompatibleProvider({ model: "m" });
const fallback = createFallbackProvider([claude, api]);
declare const tools: StructuredToolInterface[];
export const agents = [
  createDeepFactorAgent({ model: createClaudeCliProvider() }),
  createDeepFactorAgent({ model: claude.bindTools(tools), tools }),
  createDeepFactorAgent({ model: createCodexCliProvider({ outputFormat: "text" }) }),
  createDeepFactorAgent({ model: createGeminiCliProvider() }),
  createDeepFactorAgent({ model: createQwenCliProvider() }),
  createDeepFactorAgent({ model: createOpenCodeCliProvider() }),
  createDeepFactorAgent({ model: createCopilotCliProvider() }),
  createDeepFactorAgent({ model: createGrokCliProvider() }),
  createDeepFactorAgent({ model: api }),
  createDeepFactorAgent({ model: api.bindTools(tools) }),
  createDeepFactorAgent({ model: fallback }),
  createDeepFactorAgent({ model: fallback.bindTools(tools) }),
  createDeepFactorAgent({ model: new ChatClaudeCli() }),
  createDeepFactorAgent({ model: "anthropic:claude-sonnet-4-5" }),
];
export const described: agent.ModelAdapter = createCliProvider({
  ...{ providerId: "mine", command: "mine", defaultArgs: [], outputFormat: "text", promptStyle: "stdin" },
  ...{ maxTokens: 1000, timeout: 1000 },
});
assertType<Assignable<CliProvider, agent.ModelAdapter>>();
assertType<Assignable<ApiProvider, agent.ModelAdapter>>();
assertType<Assignable<FallbackProvider, agent.ModelAdapter>>();

// Each declaration stands in for the other.
assertType<Assignable<ModelAdapter, agent.ModelAdapter>>();
assertType<Assignable<agent.ModelAdapter, ModelAdapter>>();
assertType<Assignable<ModelInvocationUpdate, agent.ModelInvocationUpdate>>();
assertType<Assignable<agent.ModelInvocationUpdate, ModelInvocationUpdate>>();
assertType<Assignable<ModelInvocationToolCall, agent.ModelInvocationToolCall>>();
assertType<Assignable<agent.ModelInvocationToolCall, ModelInvocationToolCall>>();
assertType<Assignable<UpdateUsage, agent.TokenUsage>>();
assertType<Assignable<agent.TokenUsage, UpdateUsage>>();
assertType<Equal<keyof ModelAdapter, keyof agent.ModelAdapter>>();
assertType<Equal<ModelInvocationUpdate["type"], agent.ModelInvocationUpdate["type"]>>();
// A method's parameters may be wider or narrower, so what our providers tell is compared by itself: no error, and nothing more.
assertType<Assignable<InvokeUpdate, agent.ModelInvocationUpdate>>();
assertType<Equal<InvokeUpdate["type"], Exclude<agent.ModelInvocationUpdate["type"], "error">>>();

// The agent's loop, over ours and over its own; its screen, told by ours.
export async function step(
  model: unknown,
  thread: BaseMessage[],
  screen: (update: agent.ModelInvocationUpdate) => void,
) {
  if (!isModelAdapter(model)) return undefined;
  const bound: agent.ModelAdapter = model.bindTools?.(tools) ?? model;
  return bound.invokeWithUpdates ? bound.invokeWithUpdates(thread, screen) : bound.invoke(thread);
}
export async function told(thread: BaseMessage[], own: agent.ModelAdapter): Promise<string[]> {
  const lines: string[] = [];
  const screen = (update: agent.ModelInvocationUpdate) => void lines.push(lineOf(update));
  for (const provider of [claude, claude.bindTools(tools), api, fallback, createFallbackProvider([own, claude])]) {
    await provider.invokeWithUpdates(thread, screen);
  }
  return lines;
}
/** As README writes it. */
export async function answered(): Promise<string | undefined> {
  const { session_id, run } = (await claude.invoke(["hi"])).response_metadata;
  const reply = await fallback.bindTools(tools).invoke(["hi"]);
  return reply.response_metadata.session_id ?? reply.response_metadata.fallback?.provider ?? session_id ?? run?.id;
}
function lineOf(update: ModelInvocationUpdate): string {
  switch (update.type) {
    case "tool_call":
      return `${update.toolCall.name} ${update.toolCall.id} ${Object.keys(update.toolCall.args)}`;
    case "assistant_message":
      return update.content;
    case "usage":
      return `${update.usage.totalTokens} ${update.rawStopReason}`;
    case "error":
      return update.error;
    case "final":
      return `${update.content} ${update.usage?.cacheReadTokens}`;
    default:
      return update satisfies never;
  }
}
