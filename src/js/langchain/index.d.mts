/**
 * `deep-factor-providers/langchain`: the providers as LangChain's chat models, for `createAgent`, LangGraph and whatever else asks for
 * a `BaseChatModel`. docs/guide/langchain.md says what is native, what is emulated, and what differs from an API's model.
 *
 * Needs `@langchain/core` (>=0.3 <2), of which the classes are the caller's own, in the build (ESM or CommonJS) that this entry is
 * loaded in.
 */

/// <reference lib="esnext.disposable" />

import type { BaseLanguageModelInput } from "@langchain/core/language_models/base";
import {
  BaseChatModel,
  type BaseChatModelCallOptions,
  type BaseChatModelParams,
  type BindToolsInput,
  type LangSmithParams,
} from "@langchain/core/language_models/chat_models";
import type { AIMessageChunk, BaseMessage } from "@langchain/core/messages";
import type { ChatGenerationChunk, ChatResult } from "@langchain/core/outputs";
import type { Runnable } from "@langchain/core/runnables";
import type {
  ClaudeCliProviderOptions,
  CliProvider,
  CloseOptions,
  CodexCliProviderOptions,
  CopilotCliProviderOptions,
  GeminiCliProviderOptions,
  GrokCliProviderOptions,
  HealthOptions,
  HealthReport,
  OnUnsupported,
  OpenCodeCliProviderOptions,
  PrewarmOptions,
  QwenCliProviderOptions,
  ReasoningOptions,
  RecordOptions,
} from "deep-factor-providers";

/**
 * LangChain's own options of a chat model: `callbacks`, `tags`, `metadata`, `cache`, `verbose`, `disableStreaming`, … Its
 * `maxConcurrency` is the provider's.
 */
type BaseFields = Omit<
  BaseChatModelParams,
  "maxConcurrency" | "maxRetries" | "onFailedAttempt" | "disableStreaming"
> & {
  /** Whether `stream()` gives the answer whole. Default: `false`. */
  disableStreaming?: boolean;
};

/** What every chat model here takes beside its provider's options. */
export interface ChatCliFields {
  /** The model's name in traces. Default: the class's. */
  name?: string;
  /** Of each call that does not say otherwise. Default: the backend's. Refused or left out where it has none. */
  temperature?: number;
  /** The longest answer, tokens. Default: the backend's. */
  maxTokens?: number;
  /** Texts that end the answer. Default: none. */
  stop?: string | readonly string[];
  /** Whether `invoke` gets its answer piece by piece, for the callbacks. Default: `false`; a handler that wants pieces gets them. */
  streaming?: boolean;
  /** What {@link ChatCli.profile} says instead: the context size of a model that is not known here. */
  profile?: ChatCliProfile;
}

/** What a chat model makes of its provider's options: `verbose` is LangChain's, and a user's text is always a text. */
type Flat<Options> = Omit<Options, "verbose" | "threadDocuments" | "maxRetries"> & {
  /**
   * How many further attempts a call may have: the provider's `retry: { maxAttempts: maxRetries + 1 }`. Not together with `retry`.
   * LangChain itself makes none here. Default: 2.
   */
  maxRetries?: number;
};

/** Options of {@link ChatClaudeCli}: those of `createClaudeCliProvider`, and LangChain's. */
export type ChatClaudeCliFields = BaseFields & ChatCliFields & Flat<ClaudeCliProviderOptions>;
/** Options of {@link ChatCodexCli}: those of `createCodexCliProvider`, and LangChain's. */
export type ChatCodexCliFields = BaseFields & ChatCliFields & Flat<CodexCliProviderOptions>;
/** Options of {@link ChatGeminiCli}: those of `createGeminiCliProvider`, and LangChain's. */
export type ChatGeminiCliFields = BaseFields & ChatCliFields & Flat<GeminiCliProviderOptions>;
/** Options of {@link ChatQwenCli}: those of `createQwenCliProvider`, and LangChain's. */
export type ChatQwenCliFields = BaseFields & ChatCliFields & Flat<QwenCliProviderOptions>;
/** Options of {@link ChatOpenCodeCli}: those of `createOpenCodeCliProvider`, and LangChain's. */
export type ChatOpenCodeCliFields = BaseFields & ChatCliFields & Flat<OpenCodeCliProviderOptions>;
/** Options of {@link ChatCopilotCli}: those of `createCopilotCliProvider`, and LangChain's. */
export type ChatCopilotCliFields = BaseFields & ChatCliFields & Flat<CopilotCliProviderOptions>;
/** Options of {@link ChatGrokCli}: those of `createGrokCliProvider`, and LangChain's. */
export type ChatGrokCliFields = BaseFields & ChatCliFields & Flat<GrokCliProviderOptions>;

/** What a chat model needs of a provider: that of any factory of this package, `createFallbackProvider`'s included. */
export type ChatProvider = Pick<CliProvider<unknown>, "invoke" | "stream" | "close" | typeof Symbol.asyncDispose> & {
  readonly id: string;
  bindTools(tools: readonly object[]): ChatProvider;
} & Partial<Pick<CliProvider<unknown>, "prewarm" | "health">>;

/** Options of {@link ChatCli}. */
export type ChatCliProviderFields = BaseFields &
  ChatCliFields & {
    /** Makes the calls. What it has bound itself is left alone and not used. */
    provider: ChatProvider;
  };

/** Options of one call, beside LangChain's `signal`, `timeout`, `callbacks`, … */
export interface ChatCliCallOptions extends BaseChatModelCallOptions {
  /** The tools of this call, as `bindTools` has made them. */
  tools?: object[];
  /**
   * Whether the arguments of calls have to fit the tools' schemas: the call of the model fails with `MALFORMED_RESPONSE` otherwise.
   * Without it, a tool checks what it is given, and the model hears of it. Default: `false`.
   */
  strict?: boolean;
  /** OpenAI's way of asking for an answer by a schema; `withStructuredOutput` is LangChain's. */
  response_format?: { type: "text" } | { type: "json_schema"; json_schema: { schema: object; [key: string]: unknown } };
  /** Another model for this call, as the CLI names it. */
  model?: string;
  /** The longest answer, tokens. */
  maxTokens?: number;
  /** How hard the model thinks in this call. Default: the model's `reasoning`. */
  reasoning?: ReasoningOptions | "off";
  /** How the API serves this call: codex and OpenAI-compatible APIs. Default: the model's `serviceTier`. */
  serviceTier?: string;
  /** The same by OpenAI's name. */
  service_tier?: string;
  /** Whether the model answers in its fast mode: claude. Default: the model's `speed`. */
  speed?: "fast" | "standard";
  /** Whether the model may search the web in this call: claude and codex. Default: the model's `webSearch`. */
  webSearch?: boolean;
  /** What becomes of a choice of this call that can't be had. Default: the model's `onUnsupported`. */
  onUnsupported?: OnUnsupported;
  /** The sampling temperature. */
  temperature?: number;
  /** Where the run is recorded, for `replayRun` and `npx deep-factor-providers log`. */
  record?: string | RecordOptions;
}

/**
 * What a model can do, in the words of LangChain's `ModelProfile`. Sizes are tokens, as the CLI itself counts them, of models for which it
 * has named them; of any other they are left out, and `profile` of the constructor has them. Which model `sonnet` means, or the CLI chooses
 * by itself, is known from its first answer on.
 */
export interface ChatCliProfile {
  maxInputTokens?: number;
  maxOutputTokens?: number;
  imageInputs?: boolean;
  imageUrlInputs?: boolean;
  pdfInputs?: boolean;
  audioInputs?: boolean;
  videoInputs?: boolean;
  imageToolMessage?: boolean;
  pdfToolMessage?: boolean;
  reasoningOutput?: boolean;
  imageOutputs?: boolean;
  audioOutputs?: boolean;
  videoOutputs?: boolean;
  toolCalling?: boolean;
  toolChoice?: boolean;
  structuredOutput?: boolean;
}

/**
 * Any provider of this package as a chat model: one of one's own CLI, an API, several as one. Every other class here is one of
 * these.
 *
 * Calls may be made at the same time; each has its own tools and choices. An aborted call rejects with its signal's reason, any
 * other failure is a `ProviderError`.
 */
export class ChatCli extends BaseChatModel<ChatCliCallOptions, AIMessageChunk> {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields: ChatCliProviderFields);
  /** Makes the calls. */
  readonly provider: ChatProvider;
  /** The model that was chosen, as the CLI names it. */
  model: string | undefined;
  temperature: number | undefined;
  maxTokens: number | undefined;
  stop: string[] | undefined;
  streaming: boolean;
  /** Context size and abilities. Sizes are those of the vendor's present models where `model` does not say it. */
  get profile(): ChatCliProfile;
  /**
   * @throws {ProviderError} `INVALID_TOOL`, naming the tool; also for a tool that an API would run by itself.
   */
  bindTools(
    tools: BindToolsInput[],
    kwargs?: Partial<ChatCliCallOptions>,
  ): Runnable<BaseLanguageModelInput, AIMessageChunk, ChatCliCallOptions>;
  getLsParams(options: this["ParsedCallOptions"]): LangSmithParams;
  /** As `CliProvider.prewarm`: the next call does not wait for the CLI to start. */
  prewarm(options?: PrewarmOptions): Promise<void>;
  /** As `CliProvider.health`. */
  health(options?: HealthOptions): Promise<HealthReport>;
  /** Ends what is running, and processes that are kept. A model that is idle need not be closed: it does not keep Node alive. */
  close(options?: CloseOptions): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
  _llmType(): string;
  _generate(messages: BaseMessage[], options: this["ParsedCallOptions"]): Promise<ChatResult>;
  _streamResponseChunks(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
  ): AsyncGenerator<ChatGenerationChunk>;
}

/** The claude CLI as a chat model: `new ChatClaudeCli({ model: "sonnet" })`, with the login of the user's terminal. */
export class ChatClaudeCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatClaudeCliFields);
}

/** The codex CLI as a chat model. */
export class ChatCodexCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatCodexCliFields);
}

/** The gemini CLI as a chat model. */
export class ChatGeminiCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatGeminiCliFields);
}

/** The qwen CLI as a chat model. */
export class ChatQwenCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatQwenCliFields);
}

/** The opencode CLI as a chat model. */
export class ChatOpenCodeCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatOpenCodeCliFields);
}

/** The GitHub Copilot CLI as a chat model. */
export class ChatCopilotCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatCopilotCliFields);
}

/** The grok CLI of xAI as a chat model. */
export class ChatGrokCli extends ChatCli {
  /** @throws {ProviderError} `INVALID_OPTION`, naming the option. */
  constructor(fields?: ChatGrokCliFields);
}
