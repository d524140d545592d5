/**
 * `deep-factor-providers/testing`: providers for tests, without a CLI, a login or a network.
 *
 * Answers are messages of the LangChain that is installed, as with `deep-factor-providers`, and AIMessage-shaped JSON where none is.
 * What a script waits for are real milliseconds: fake timers of a test runner don't hold it up. Times are milliseconds.
 */

// LangChain is an optional peer: the name stays unresolved for who has none.
// @ts-ignore
import type { AIMessage } from "@langchain/core/messages";
import type {
  BudgetOptions,
  CliProvider,
  FallbackProvider,
  Logger,
  ProviderError,
  ProviderErrorCode,
  ProviderErrorInit,
  QuotaOptions,
  ReasoningOptions,
  RetryOptions,
  Telemetry,
  TokenUsage,
  ToolCall,
  ToolChoice,
  ToolInput,
} from "../../../index.cjs";

// ---------------------------------------------------------------------------------------------------------------- scripts

/** The error of a scripted reply: a code, the fields of an error with one, or an error. What its code advises is filled in. */
export type ScriptedError =
  | ProviderErrorCode
  | ({ readonly code: ProviderErrorCode } & Partial<Omit<ProviderErrorInit, "code">>)
  | ProviderError;

/** A reply of a script. One without any text, call or error is an `EMPTY_RESPONSE`, as with a model. */
export interface ScriptedReply {
  /** The answer's text. Default: the `deltas`, joined. With `error`, what had come before the failure. */
  text?: string | undefined;
  /** The calls that the model makes. `args` are `{}` unless given; an `id` is made where there is none: `call_1`, `call_2`, … */
  toolCalls?: readonly { name: string; args?: Record<string, unknown>; id?: string }[] | undefined;
  /** The model's reasoning. */
  reasoning?: string | undefined;
  /** The tokens. `totalTokens` is the sum unless given. Default: estimated of the texts, and marked so. */
  usage?: Partial<TokenUsage> | undefined;
  /** The call fails with this error, behind the text if there is one. */
  error?: ScriptedError | undefined;
  /** How long the model takes before its first word. */
  delayMs?: number | undefined;
  /** The pieces in which the text comes, each behind its own `delayMs` if it has one. Default: one piece. */
  deltas?: readonly (string | { text: string; delayMs?: number })[] | undefined;
  /** The model that answers. Default: the provider's `model`. */
  model?: string | undefined;
  /** Why the model stopped. Default: `"stop"`, or `"tool_calls"`. */
  stopReason?: string | undefined;
}

/** A message of a request, whatever class the caller's was of. Text blocks have become one text. */
export interface ScriptedMessage {
  /** `"system"`, `"human"`, `"ai"`, `"tool"`, or another type of the caller's. */
  type: string;
  /** Text, or content blocks where there is more than text. */
  content: string | unknown[];
  /** The calls of the model's message, if it has any. */
  tool_calls?: ToolCall[];
  /** Of a tool's message: the call that it answers. */
  tool_call_id?: string;
  /** `true` where the tool failed. */
  is_error?: true;
}

/** What a provider was asked. */
export interface ScriptedRequest {
  /** The thread. */
  messages: ScriptedMessage[];
  /** The tools that the model may call; `schema` is JSON Schema. */
  tools: { name: string; description?: string; schema: Record<string, unknown> }[];
  /** What the call chooses for the model; what it does not choose is no field. */
  options: {
    model?: string;
    reasoning?: ReasoningOptions;
    maxOutputTokens?: number;
    stop?: string[];
    temperature?: number;
    toolChoice?: ToolChoice;
    /** JSON Schema. */
    outputSchema?: unknown;
  };
}

/** A reply: its text, its fields, or the error that the call fails with. */
export type ScriptedAnswer = string | ScriptedReply | ProviderError;

/**
 * A function that answers requests. `index` counts them from 0. What it throws fails the call with `CALLBACK_FAILED`, so an assertion in it
 * is seen.
 */
export type ScriptFunction = (request: ScriptedRequest, index: number) => ScriptedAnswer | Promise<ScriptedAnswer>;

/**
 * What answers: one entry for each request in the order of their coming, or a function for all. A request beyond the list fails with
 * `INVALID_REQUEST`, which says which request it is.
 */
export type Script = readonly (ScriptedAnswer | ScriptFunction)[] | ScriptFunction;

/** Options of {@link createScriptedProvider}: those of a provider that don't concern a process. */
export interface ScriptedProviderOptions {
  /** What the provider calls itself: up to 64 letters, digits and `-`, `_`, `.`. Default: `"scripted"`. */
  id?: string | undefined;
  /** The model that answers. Default: `"scripted"`. */
  model?: string | undefined;
  /** Limit of a call, ms; 0 for no limit. Default: 120000. */
  timeout?: number | undefined;
  /** Limit of silence, ms; 0 for no limit. Default: 0. */
  idleTimeout?: number | undefined;
  /** Further attempts where the script fails; each takes the script's next reply. Default: `false`, none. */
  retry?: false | RetryOptions | undefined;
  /** Whether a call whose plan is used up waits for it. Default: it does not. */
  quota?: false | QuotaOptions | undefined;
  /** How much may be used in a window of time. Default: no limit. */
  budget?: BudgetOptions | undefined;
  /** Calls at a time. Default: 64. */
  maxConcurrency?: number | undefined;
  /** Gets the records of its calls. */
  logger?: Logger | undefined;
  /** Spans and metrics of its calls. Default: none. */
  telemetry?: Telemetry | undefined;
}

/** A provider without a process. It goes wherever a provider goes. */
export interface ScriptedProvider<TMessage = AIMessage> extends CliProvider<TMessage> {
  /** All requests that came, the first first. Adapters that `bindTools` made share them. */
  readonly requests: ScriptedRequest[];
  bindTools(tools: readonly ToolInput[]): ScriptedProvider<TMessage>;
}

/**
 * A provider whose answers a script gives. It starts no process and opens no connection, and has all that a provider has: events, pieces,
 * abort, timeouts, structured output with its second try, budgets, `close()` and `await using`. A plain call does not load the addon; an
 * agent's run, `outputSchema`, a call's choices and the options beyond `id`, `model` and `timeout` do.
 *
 * @throws {ProviderError} `INVALID_OPTION`, naming the reply or the option.
 */
export function createScriptedProvider(script: Script, options?: ScriptedProviderOptions): ScriptedProvider;

// -------------------------------------------------------------------------------------------------------------- cassettes

/** What a cassette records: a provider of this package, of the entry without LangChain, or a fallback provider. */
export type RecordedProvider = CliProvider<unknown> | FallbackProvider<unknown>;

/** Options of {@link createCassetteProvider}. */
export interface CassetteOptions {
  /**
   * What is recorded: a provider, or a function that makes it, which is called only to record. `close()` of the cassette closes it. Not
   * needed for `"replay"`.
   */
  provider?: RecordedProvider | (() => RecordedProvider) | undefined;
  /**
   * `"replay"`: plays the file, and asks nobody. `"record"`: asks the provider, and writes the file anew at `close()`. `"auto"`: plays what is
   * there, asks for the rest, and adds it. Default: `"record"` where the environment has `RECORD=1`, else `"replay"`.
   */
  mode?: "replay" | "record" | "auto" | undefined;
  /**
   * What of a request may vary, such as dates and paths: patterns whose matches count as the same, in all texts of a request; or a function
   * that returns what is compared.
   */
  match?: readonly (RegExp | string)[] | ((request: ScriptedRequest) => unknown) | undefined;
}

/**
 * A provider that records the calls of another one into a file, and plays them back without it: no process, no network, no waiting.
 *
 * The file is lines of JSON: each call's messages, tools and options, every event with its time, and its end. Secrets are taken out, ids are
 * counted, images lie in the folder `<name>.assets` beside it. It is written whole at `close()`.
 *
 * It is strict: a request that is not there fails with `INVALID_REQUEST`, which tells the nearest one and what differs, and `close()` fails
 * with the same code where calls were not made. Conversations may come in any order, the calls of one only in theirs. One file belongs to one
 * provider at a time. While recording, reasoning that an API seals does not go back to it.
 *
 * @param file a path, or a `file:` URL.
 * @throws {ProviderError} `INVALID_OPTION`: an option is wrong, there is no such file, or it can't be read, with the line.
 */
export function createCassetteProvider(file: string | URL, options?: CassetteOptions): CliProvider;

// ---------------------------------------------------------------------------------------------------------------- doubles

/** What a double was asked, by one process or in one turn of a session. */
export interface ScriptedCliRequest {
  /** `"print"`: a process of its own; `"live"`: a turn of a session. */
  form: "print" | "live";
  /** The process's arguments. */
  args: string[];
  /** The folder that the process runs in. */
  cwd: string;
  /** The system prompt, where it came by an argument or by the session's protocol. */
  system?: string;
  /** What the user says: the whole prompt, or what is new in the session. */
  input: string;
  /** The tools that were declared to the session, by name. */
  tools: string[];
  /** The results that came back in this turn, by the ids of their calls. */
  toolResults: { id: string; content: string; isError?: true }[];
}

/** A function that answers what a double is asked; `messages` are those of {@link ScriptedCliRequest.input} and its results. */
export type ScriptedCliFunction = (
  request: ScriptedCliRequest & ScriptedRequest,
  index: number,
) => ScriptedAnswer | Promise<ScriptedAnswer>;

/** A program in the place of a CLI. */
export interface ScriptedCli {
  /** The program, for a provider's `cliPath`. */
  readonly path: string;
  /** All that it was asked. */
  readonly requests: ScriptedCliRequest[];
  /** Removes the program. Its processes are those of whoever started them. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * A program that is started in the place of a CLI, with its arguments and its protocol, and answers by a script: for tests of what happens
 * around a process. It is a Node process in a private temporary folder; everything else is this package's real work.
 *
 * The double of `"claude"` speaks print form in all formats, where calls are written into the text, and the live protocol (`engine: "live"`),
 * where they are native calls. Errors that claude tells are told so: `RATE_LIMITED`, `OVERLOADED`, `SERVER_ERROR`, `INVALID_REQUEST`,
 * `INVALID_API_KEY`, `NOT_LOGGED_IN`, `MODEL_NOT_FOUND`, `USAGE_LIMIT`. With any other, the process ends with the error's `exitCode` (default: 1),
 * and its `stderrTail` or message on standard error.
 *
 * @param name `"claude"`.
 * @throws {ProviderError} `INVALID_OPTION`.
 */
export function scriptedCli(
  name: "claude",
  script: readonly (ScriptedAnswer | ScriptedCliFunction)[] | ScriptedCliFunction,
): Promise<ScriptedCli>;
