/**
 * `deep-factor-providers/native`: the package without LangChain. As `deep-factor-providers`, except that answers are plain
 * {@link AIMessageJson} objects, and that a tool's schema has to be JSON Schema or able to
 * convert itself (zod 4's `toJSONSchema()` method).
 */

import type {
  AcpProviderOptions,
  AgentRun as AgentRunOf,
  AIMessageJson,
  ApiProvider as ApiProviderOf,
  ClaudeCliProviderOptions,
  CliProviderConfig,
  CliProvider as CliProviderOf,
  CodexCliProviderOptions,
  CopilotCliProviderOptions,
  CustomCliProviderOptions,
  FallbackProvider as FallbackProviderOf,
  FallbackProviderOptions,
  GeminiCliProviderOptions,
  GlmCliProviderOptions,
  GrokCliProviderOptions,
  MessageInput,
  ModelInvocationUpdate,
  OpenAiCompatibleProviderOptions,
  OpenCodeCliProviderOptions,
  OutputSchema,
  PlainMessage,
  QwenCliProviderOptions,
  ReplayedRun as ReplayedRunOf,
  ReplayOptions,
  RunAgentOptions,
  StructuredOutput,
  ToolInput,
} from "../../index.cjs";

export type {
  AcpProviderOptions,
  AgentBuiltins,
  AgentEvent,
  AgentEventOrigin,
  AgentExecutionContext,
  AgentExecutionResult,
  AgentHeartbeat,
  AgentLimits,
  AgentOptions,
  AgentPermissions,
  AgentResult,
  AgentTool,
  AgentWait,
  AIMessageJson,
  AttemptFailure,
  BreakerOptions,
  CheckpointLease,
  CheckpointStore,
  ClaudeCliProviderOptions,
  ClaudeCodeAdapterOptions,
  ClaudeCodeConfig,
  CliErrorRule,
  CliProviderConfig,
  CliProviderOptions,
  CodexCliProviderOptions,
  CompletionReport,
  CopilotCliProviderOptions,
  CopilotModelApi,
  CustomCliProviderOptions,
  ErrorCategory,
  ErrorClassification,
  ErrorContext,
  ErrorRecord,
  ExecFileOptions,
  FallbackMetadata,
  FallbackProviderOptions,
  GeminiCliProviderOptions,
  GlmCliProviderOptions,
  GrokCliProviderOptions,
  GrokModelApi,
  HandoffAgent,
  HandoffOptions,
  HealthLevel,
  HealthOptions,
  HealthProblem,
  HealthReport,
  InvalidToolCall,
  InvokeOptions,
  InvokeUpdate,
  LangChainMessage,
  Limits,
  LoadedCheckpoint,
  Logger,
  LogLevel,
  LogRecord,
  MessageInput,
  ModelInvocationToolCall,
  ModelInvocationUpdate,
  OnResume,
  OnUnsupported,
  OpenAiCompatibleProviderOptions,
  OpenCodeCliProviderOptions,
  OutputSchema,
  ParseCliOutputOptions,
  ParsedOutput,
  ParsedOutputError,
  PartialReply,
  PermissionContext,
  PermissionDecision,
  PermissionDenial,
  PlainMessage,
  PlainTool,
  PlannerOutput,
  ProviderErrorCode,
  ProviderErrorFields,
  ProviderErrorInit,
  ProviderEvent,
  ProviderReply,
  ProviderResponseMetadata,
  QwenCliProviderOptions,
  ReasoningOptions,
  RecordOptions,
  RenderRunLogOptions,
  ReplayOptions,
  ResumableTool,
  ResumedRun,
  RetryOptions,
  RunAgentOptions,
  RunInfo,
  RunLog,
  RunLogHeader,
  RunLogInfo,
  RunLogMessage,
  RunLogToolCall,
  SerializedMessage,
  StoredMessage,
  StructuredOutput,
  TokenUsage,
  ToolCall,
  ToolChoice,
  ToolContext,
  ToolInput,
  UpdateUsage,
  WithStructured,
} from "../../index.cjs";
export {
  ClaudeCodeAdapter,
  checkHealth,
  classifyError,
  claudeCodeConfigSchema,
  claudeCodeConfigZod,
  claudeCodeConstants,
  createFileCheckpoint,
  escapeXml,
  execFileAsync,
  getAgentAdapter,
  limits,
  messagesToPrompt,
  messagesToXml,
  ProviderError,
  parseCliOutput,
  parseToolCalls,
  renderRunLog,
  runLogSchema,
  stripAnsi,
} from "../../index.cjs";

/** A CLI as a model whose answers are plain data. */
export type CliProvider = CliProviderOf<AIMessageJson>;

/** What an agent needs of a model, without LangChain. */
export interface ModelAdapter {
  /** Sends the thread, resolves to the model's answer. */
  invoke(messages: readonly MessageInput[]): Promise<AIMessageJson>;
  /** As `invoke`, telling what happens meanwhile. */
  invokeWithUpdates?(
    messages: readonly MessageInput[],
    onUpdate: (update: ModelInvocationUpdate) => void,
  ): Promise<AIMessageJson>;
  /** An adapter that lets the model call these tools. The calls are the caller's to run. */
  bindTools?(tools: readonly ToolInput[]): ModelAdapter;
}

/** Whether `value` is an object with a callable `invoke` and no `_generate`. Never throws, whatever it gets. */
export function isModelAdapter(value: unknown): value is ModelAdapter;

/**
 * The claude CLI (`claude -p`) as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createClaudeCliProvider(options?: ClaudeCliProviderOptions): CliProvider;

/**
 * The codex CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createCodexCliProvider(options?: CodexCliProviderOptions): CliProvider;

/**
 * The gemini CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createGeminiCliProvider(options?: GeminiCliProviderOptions): CliProvider;

/**
 * The qwen CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createQwenCliProvider(options?: QwenCliProviderOptions): CliProvider;

/**
 * The ax-glm CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createGlmCliProvider(options?: GlmCliProviderOptions): CliProvider;

/**
 * The grok CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createGrokCliProvider(options?: GrokCliProviderOptions): CliProvider;

/**
 * The opencode CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createOpenCodeCliProvider(options?: OpenCodeCliProviderOptions): CliProvider;

/**
 * The copilot CLI as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createCopilotCliProvider(options?: CopilotCliProviderOptions): CliProvider;

/**
 * A CLI of one's own as a model, described as data. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_CONFIG` or `INVALID_OPTION`, naming the field, what it holds and what is allowed.
 */
export function createCliProvider(config: CliProviderConfig, options?: CustomCliProviderOptions): CliProvider;

/**
 * An agent that speaks the Agent Client Protocol as a model. Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_CONFIG` or `INVALID_OPTION`, naming the field, what it holds and what is allowed.
 */
export function createAcpProvider(options: AcpProviderOptions): CliProvider;

/** An OpenAI-compatible API as a model whose answers are plain data. */
export type ApiProvider = ApiProviderOf<AIMessageJson>;

/**
 * An OpenAI-compatible API as a model. Nothing is sent here.
 *
 * @throws {ProviderError} `INVALID_OPTION`, naming the option, what it holds and what is allowed.
 */
export function createOpenAiCompatibleProvider(options: OpenAiCompatibleProviderOptions): ApiProvider;

/** Several providers as one, whose answers are plain data. */
export type FallbackProvider = FallbackProviderOf<AIMessageJson>;

/**
 * One provider made of several, asked in this order.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an empty list, a member without `invoke`, or an option that is wrong.
 */
export function createFallbackProvider(
  adapters: readonly ModelAdapter[],
  options?: FallbackProviderOptions,
): FallbackProvider;

/** A message of an agent's thread as plain data: the model's as `invoke` gives them, the others as they were sent. */
export type AgentMessageJson = AIMessageJson | PlainMessage;

/** An agent's run under way, whose messages are plain data. */
export type AgentRun<TStructured = unknown> = AgentRunOf<AgentMessageJson, TStructured>;

/**
 * Runs an agent, as `deep-factor-providers` does, with messages as plain data.
 *
 * @throws {ProviderError} at once, naming the field, for options that are wrong.
 */
export function runAgent<TSchema extends OutputSchema | undefined = undefined>(
  options: RunAgentOptions<AgentMessageJson, TSchema>,
): AgentRun<StructuredOutput<TSchema>>;
/** A recorded run whose reply is plain data. */
export type ReplayedRun = ReplayedRunOf<AIMessageJson>;

/**
 * Reads a run log again. Nothing is started.
 *
 * @throws {ProviderError} `INVALID_OPTION` at once; `NOT_FOUND` and `INVALID_RUN_LOG` when something is asked of it.
 */
export function replayRun(path: string, options?: ReplayOptions): ReplayedRun;
