/**
 * `deep-factor-providers/native`: the package without LangChain. As `deep-factor-providers`, except that answers are plain
 * {@link AIMessageJson} objects, and that a tool's schema has to be JSON Schema or able to
 * convert itself (zod 4's `toJSONSchema()` method).
 */

import type {
  AIMessageJson,
  ClaudeCliProviderOptions,
  CliProvider as CliProviderOf,
  MessageInput,
  ToolInput,
} from "../../index.cjs";

export type {
  AIMessageJson,
  AttemptFailure,
  ClaudeCliProviderOptions,
  ErrorCategory,
  ExecFileOptions,
  InvalidToolCall,
  InvokeOptions,
  InvokeUpdate,
  LangChainMessage,
  Limits,
  Logger,
  LogLevel,
  LogRecord,
  MessageInput,
  PartialReply,
  PlainMessage,
  PlainTool,
  ProviderErrorCode,
  ProviderErrorFields,
  ProviderErrorInit,
  ProviderEvent,
  ProviderReply,
  ProviderResponseMetadata,
  RunInfo,
  SerializedMessage,
  StoredMessage,
  TokenUsage,
  ToolCall,
  ToolInput,
  UpdateUsage,
} from "../../index.cjs";
export {
  escapeXml,
  execFileAsync,
  limits,
  messagesToPrompt,
  messagesToXml,
  ProviderError,
  parseToolCalls,
  stripAnsi,
} from "../../index.cjs";

/** A CLI as a model whose answers are plain data. */
export type CliProvider = CliProviderOf<AIMessageJson>;

/** What an agent needs of a model, without LangChain. */
export interface ModelAdapter {
  /** Sends the thread, resolves to the model's answer. */
  invoke(messages: readonly MessageInput[]): Promise<AIMessageJson>;
  /** An adapter that lets the model call these tools. The calls are the caller's to run. */
  bindTools?(tools: readonly ToolInput[]): ModelAdapter;
}

/** Whether `value` is an object with a callable `invoke` and no `_generate`. Never throws, whatever it is given. */
export function isModelAdapter(value: unknown): value is ModelAdapter;

/**
 * The claude CLI (`claude -p`) as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createClaudeCliProvider(options?: ClaudeCliProviderOptions): CliProvider;
