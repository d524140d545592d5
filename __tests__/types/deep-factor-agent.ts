/**
 * deep-factor-agent's own declarations, as far as a model meets them (its `providers/types.ts` and `types.ts`, read 2026-11): a
 * fact that this package answers to. It changes when the agent does, and never to make a test pass.
 */
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { AIMessage, BaseMessage } from "@langchain/core/messages";
import type { StructuredToolInterface } from "@langchain/core/tools";

export interface TokenUsage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
}

export interface ModelInvocationToolCall {
  name: string;
  id: string;
  args: Record<string, unknown>;
}

export type ModelInvocationUpdate =
  | { type: "tool_call"; toolCall: ModelInvocationToolCall }
  | { type: "assistant_message"; content: string }
  | { type: "usage"; usage: TokenUsage; rawStopReason?: string }
  | { type: "error"; error: string; rawStopReason?: string }
  | { type: "final"; content?: string; usage?: TokenUsage; rawStopReason?: string };

export interface ModelAdapter {
  invoke(messages: BaseMessage[]): Promise<AIMessage>;
  invokeWithUpdates?(messages: BaseMessage[], onUpdate: (update: ModelInvocationUpdate) => void): Promise<AIMessage>;
  bindTools?(tools: StructuredToolInterface[]): ModelAdapter;
}

export interface DeepFactorAgentSettings<TTools extends StructuredToolInterface[] = StructuredToolInterface[]> {
  model: BaseChatModel | ModelAdapter | string;
  tools?: TTools;
}

export declare function createDeepFactorAgent<TTools extends StructuredToolInterface[] = StructuredToolInterface[]>(
  settings: DeepFactorAgentSettings<TTools>,
): object;
