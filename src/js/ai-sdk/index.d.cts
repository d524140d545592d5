/**
 * `deep-factor-providers/ai-sdk`: the CLIs as language models of the AI SDK (`ai` 6 and 7).
 *
 * The types are of the shapes of `LanguageModelV3` and `ProviderV3` and import none of the AI SDK's packages, nor does the code: the
 * face works with whichever copies of them a program has. Times are milliseconds.
 */

import type {
  ApiProvider,
  ClaudeCliProviderOptions,
  CliProvider,
  CodexCliProviderOptions,
  CopilotCliProviderOptions,
  FallbackProvider,
  GeminiCliProviderOptions,
  GlmCliProviderOptions,
  GrokCliProviderOptions,
  OpenCodeCliProviderOptions,
  QwenCliProviderOptions,
} from "../../../index.cjs";

// ---------------------------------------------------------------------------------------------------------------- models

/**
 * Options of a model: those of the provider below it, without what the model's call says itself.
 *
 * `retry` is `false` unless it is given: the AI SDK makes further attempts by itself (`maxRetries`). Where it is given, the provider makes
 * them, and its errors are not retryable, so that the two never multiply.
 */
export type CliModelOptions<Options> = Omit<Options, "model" | "threadDocuments">;

/** The options of each CLI's models, by its id. */
export interface CliModelOptionsById {
  claude: CliModelOptions<ClaudeCliProviderOptions>;
  codex: CliModelOptions<CodexCliProviderOptions>;
  gemini: CliModelOptions<GeminiCliProviderOptions>;
  qwen: CliModelOptions<QwenCliProviderOptions>;
  glm: CliModelOptions<GlmCliProviderOptions>;
  grok: CliModelOptions<GrokCliProviderOptions>;
  opencode: CliModelOptions<OpenCodeCliProviderOptions>;
  copilot: CliModelOptions<CopilotCliProviderOptions>;
}

/**
 * A provider of the AI SDK over one CLI: call it for a model, or hand it to `createProviderRegistry` and its kin.
 *
 * Models of one CLI with the same name and options share one provider of this package below, wherever they were made: its queue, its live
 * sessions, its `maxConcurrency`. They may be made anew for each request.
 */
export interface CliAiSdkProvider<Options> {
  /**
   * @param model the model, as the CLI names it. Default, and `""`: the CLI's own choice.
   * @throws {ProviderError} `INVALID_OPTION`, naming the option, for one that is unknown or ill-typed.
   */
  (model?: string, options?: Options): CliLanguageModel;
  readonly specificationVersion: "v3";
  /** The same as calling it. */
  languageModel(model?: string, options?: Options): CliLanguageModel;
  /** There are none: throws the AI SDK's `NoSuchModelError`. */
  embeddingModel(modelId: string): never;
  /** There are none: throws the AI SDK's `NoSuchModelError`. */
  textEmbeddingModel(modelId: string): never;
  /** There are none: throws the AI SDK's `NoSuchModelError`. */
  imageModel(modelId: string): never;
  /**
   * Ends what runs and what is kept of this CLI's models. A later call starts anew. Nothing has to be closed: what is idle does not keep
   * Node alive.
   */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The claude CLI: `claudeCli("sonnet")`. */
export const claudeCli: CliAiSdkProvider<CliModelOptionsById["claude"]>;

/** The codex CLI: `codexCli("gpt-5.5", { engine: "live" })`. */
export const codexCli: CliAiSdkProvider<CliModelOptionsById["codex"]>;

/** The grok CLI of xAI: `grokCli("grok-4.6")`. */
export const grokCli: CliAiSdkProvider<CliModelOptionsById["grok"]>;

/** The GitHub Copilot CLI: `copilotCli("gpt-5.5")`. */
export const copilotCli: CliAiSdkProvider<CliModelOptionsById["copilot"]>;

/**
 * Any CLI by its id: `cli("qwen")("qwen3-coder")`.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an id that there is not.
 */
export function cli<Id extends keyof CliModelOptionsById>(id: Id): CliAiSdkProvider<CliModelOptionsById[Id]>;
/**
 * A provider that the caller has made, a fallback provider, an OpenAI-compatible API or a CLI of one's own included. It keeps its options,
 * its `retry` too, and stays the caller's to close; a model's name is asked for per call.
 */
export function cli(
  provider: CliProvider<unknown> | ApiProvider<unknown> | FallbackProvider<unknown>,
): CliAiSdkProvider<never>;

/** All CLIs by name: what {@link createCliRegistry} makes, a provider of the AI SDK itself. */
export interface CliRegistry
  extends Pick<CliAiSdkProvider<never>, "specificationVersion" | "embeddingModel" | "imageModel"> {
  /**
   * @param id the CLI's id, and behind a colon the model as the CLI names it: `"claude:sonnet"`, `"opencode:openai/gpt-5.5"`; `"codex"`
   * is the CLI's own choice.
   * @throws the AI SDK's `NoSuchModelError` for a CLI that there is not.
   */
  languageModel(id: string): CliLanguageModel;
  /** There are none: throws the AI SDK's `NoSuchModelError`. */
  textEmbeddingModel(modelId: string): never;
  /** Ends what runs and what is kept of this registry's models. A later call starts anew. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A registry of all CLIs. What its models keep is its own, and ends with its `close()`.
 *
 * @param options of the models, by the CLI's id.
 * @throws {ProviderError} `INVALID_OPTION` for an id that there is not.
 */
export function createCliRegistry(
  options?: {
    readonly [Id in keyof CliModelOptionsById]?: CliModelOptionsById[Id] | undefined;
  },
): CliRegistry;

/** What may be said for one call, under `providerOptions.deepFactor`. */
export interface CliCallProviderOptions {
  /** How long the CLI may take, in ms, instead of the model's `timeout`; 0 for no limit. */
  timeout?: number | undefined;
  /** The file that the run is recorded in, or `{ path, prompts }`. */
  record?: string | { path: string; prompts?: boolean } | undefined;
  /** How much the model is to think, as the CLI names it, or `"off"`. */
  reasoning?: { effort: string } | "off" | undefined;
  /** How the API serves the answer: `"flex"`, `"priority"`, …; codex and OpenAI-compatible APIs. */
  serviceTier?: string | undefined;
  /** Whether the model answers in its fast mode: claude. */
  speed?: "fast" | "standard" | undefined;
  /** Whether the model may search the web: claude and codex. */
  webSearch?: boolean | undefined;
  /** What becomes of a setting that the CLI has nothing for: a warning, or an error that names it. Default: `"warn"`. */
  onUnsupported?: "warn" | "error" | undefined;
}

// -------------------------------------------------------------------------- the shapes of the AI SDK's LanguageModelV3

/** A language model of the AI SDK. `provider` is `"deep-factor.<id of the CLI>"`. */
export interface CliLanguageModel {
  readonly specificationVersion: "v3";
  readonly provider: string;
  readonly modelId: string;
  /** None: the AI SDK fetches what is somewhere else, since not every CLI takes an address. */
  readonly supportedUrls: Record<string, RegExp[]>;
  doGenerate(options: CliCallOptions): Promise<CliGenerateResult>;
  doStream(options: CliCallOptions): Promise<CliStreamResult>;
}

/** A message of the AI SDK's prompt. */
export interface CliPromptMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  /** Text, or the AI SDK's parts. */
  readonly content: unknown;
}

/** A function that the model may call, or a tool of some provider's, which is left out with a warning. */
export type CliFunctionTool = {
  readonly type: "function";
  readonly name: string;
  readonly description?: string | undefined;
  /** JSON Schema. */
  readonly inputSchema: unknown;
  readonly inputExamples?: readonly unknown[] | undefined;
  readonly strict?: boolean | undefined;
};

/** Settings of one call. */
export interface CliCallOptions {
  readonly prompt: readonly CliPromptMessage[];
  readonly tools?: readonly (CliFunctionTool | { readonly type: "provider"; readonly id: string })[] | undefined;
  readonly toolChoice?:
    | { readonly type: "auto" | "none" | "required" }
    | { readonly type: "tool"; readonly toolName: string }
    | undefined;
  readonly responseFormat?:
    | { readonly type: "text" }
    | {
        readonly type: "json";
        readonly schema?: object | undefined;
        readonly name?: string | undefined;
        readonly description?: string | undefined;
      }
    | undefined;
  readonly maxOutputTokens?: number | undefined;
  readonly temperature?: number | undefined;
  readonly stopSequences?: readonly string[] | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly seed?: number | undefined;
  /** Of `ai` 7. */
  readonly reasoning?: string | undefined;
  readonly includeRawChunks?: boolean | undefined;
  readonly abortSignal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  readonly providerOptions?: Readonly<Record<string, unknown>> | undefined;
}

/** By provider: here always `deepFactor`. */
export type CliProviderMetadata = Record<string, CliJsonObject>;

/** A JSON value. */
export type CliJson = null | string | number | boolean | CliJsonObject | CliJson[];

/** A JSON object. */
export interface CliJsonObject {
  [key: string]: CliJson | undefined;
}

/** A setting that could not be heeded, or something else to know. */
export type CliWarning =
  | { type: "unsupported"; feature: string; details?: string }
  | { type: "compatibility"; feature: string; details?: string }
  | { type: "other"; message: string };

/** Why the model stopped: in the AI SDK's words, and in the CLI's. */
export interface CliFinishReason {
  unified: "stop" | "length" | "content-filter" | "tool-calls" | "error" | "other";
  raw: string | undefined;
}

/** Tokens. What the CLI does not tell is `undefined`; `raw` is the provider's own count. */
export interface CliUsage {
  inputTokens: {
    total: number | undefined;
    noCache: number | undefined;
    cacheRead: number | undefined;
    cacheWrite: number | undefined;
  };
  outputTokens: { total: number | undefined; text: number | undefined; reasoning: number | undefined };
  raw?: CliJsonObject;
}

/** A call of a tool. One with `providerExecuted` was made and answered by the CLI itself. */
export interface CliToolCall {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  /** JSON text. */
  input: string;
  providerExecuted?: boolean;
  dynamic?: boolean;
  providerMetadata?: CliProviderMetadata;
}

/** What the CLI's own tool gave it. */
export interface CliToolResult {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  result: string;
  isError?: boolean;
  dynamic?: boolean;
}

/** A part of an answer. */
export type CliContent =
  | { type: "text"; text: string; providerMetadata?: CliProviderMetadata }
  | { type: "reasoning"; text: string; providerMetadata?: CliProviderMetadata }
  | CliToolCall
  | CliToolResult;

/** What an answer says of itself. */
export interface CliResponseMetadata {
  id?: string;
  timestamp?: Date;
  modelId?: string;
}

/** An answer that came whole. */
export interface CliGenerateResult {
  content: CliContent[];
  finishReason: CliFinishReason;
  usage: CliUsage;
  providerMetadata?: CliProviderMetadata;
  response?: CliResponseMetadata;
  warnings: CliWarning[];
}

/** A part of an answer's stream. */
export type CliStreamPart =
  | { type: "stream-start"; warnings: CliWarning[] }
  | ({ type: "response-metadata" } & CliResponseMetadata)
  | { type: "text-start"; id: string }
  | { type: "text-delta"; id: string; delta: string }
  | { type: "text-end"; id: string; providerMetadata?: CliProviderMetadata }
  | { type: "reasoning-start"; id: string }
  | { type: "reasoning-delta"; id: string; delta: string }
  | { type: "reasoning-end"; id: string; providerMetadata?: CliProviderMetadata }
  | { type: "tool-input-start"; id: string; toolName: string }
  | { type: "tool-input-delta"; id: string; delta: string }
  | { type: "tool-input-end"; id: string }
  | CliToolCall
  | CliToolResult
  | { type: "finish"; finishReason: CliFinishReason; usage: CliUsage; providerMetadata?: CliProviderMetadata }
  /** An event of the provider, where `includeRawChunks` asks for it. */
  | { type: "raw"; rawValue: unknown }
  | { type: "error"; error: unknown };

/** An answer that comes piece by piece. */
export interface CliStreamResult {
  stream: ReadableStream<CliStreamPart>;
}
