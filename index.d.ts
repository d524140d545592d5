/**
 * deep-factor-providers: the coding-agent CLI you are logged in to as the model of a TypeScript agent.
 *
 * This file is the contract of the package `deep-factor-providers`, for `import` and for `require`. The same without
 * LangChain is `deep-factor-providers/native`. Times are milliseconds and sizes bytes everywhere, unless a name says otherwise.
 */

/// <reference lib="esnext.disposable" />

// LangChain is an optional peer: these names stay unresolved for who uses only `deep-factor-providers/native`, which takes
// from this file nothing that needs them.
// @ts-ignore
import type { AIMessage, BaseMessage } from "@langchain/core/messages";
// @ts-ignore
import type { StructuredToolInterface } from "@langchain/core/tools";

// ------------------------------------------------------------------------------------------------------ the model adapter

/**
 * What an agent needs of a model (SPEC-01): the least that `BaseChatModel` and a CLI have in common. A structural copy of
 * SPEC-01's interface as deep-factor-agent has extended it, so an agent that declares its own takes our providers and we take its
 * adapters.
 */
export interface ModelAdapter {
  /** Sends the thread, resolves to the model's answer. */
  invoke(messages: BaseMessage[]): Promise<AIMessage>;
  /** As `invoke`, telling what happens meanwhile. */
  invokeWithUpdates?(messages: BaseMessage[], onUpdate: (update: ModelInvocationUpdate) => void): Promise<AIMessage>;
  /** An adapter that lets the model call these tools. The calls are the caller's to run. */
  bindTools?(tools: StructuredToolInterface[]): ModelAdapter;
}

/**
 * Whether `value` is a {@link ModelAdapter}: an object with a callable `invoke` and, unlike LangChain's `BaseChatModel`, no
 * `_generate`. Never throws, whatever it is given.
 */
export function isModelAdapter(value: unknown): value is ModelAdapter;

/**
 * A CLI as a model.
 *
 * @typeParam TMessage what `invoke` resolves to: an `AIMessage` of the caller's own `@langchain/core`, in the build (ESM or
 * CommonJS) this package was loaded in.
 */
export interface CliProvider<TMessage = AIMessage> {
  /** Which provider this is: `"claude"`, `"codex"`, or a config's `providerId`. */
  readonly id: string;

  /**
   * Sends the thread to the CLI and resolves to its answer: `content` is text without the tool calls in it, `tool_calls` are
   * `{ name, args, id }` for the caller to run, `usage_metadata` is always there (measured, or estimated and marked), and
   * `response_metadata` is a {@link ProviderResponseMetadata}.
   *
   * With {@link InvokeOptions.outputSchema}, `response_metadata.structured_output` is the value, unless the answer calls tools.
   *
   * @param messages the thread, in any mix of the forms of {@link MessageInput}. It is not changed.
   * @throws {ProviderError} when the run fails, or when messages or options are wrong. An aborted call rejects with the
   * signal's own reason instead, after the CLI has been ended.
   */
  invoke<TSchema extends OutputSchema | undefined = undefined>(
    messages: readonly MessageInput[],
    options?: InvokeOptions<TSchema>,
  ): Promise<WithStructured<TMessage, TSchema>>;

  /**
   * As `invoke`, telling what happens meanwhile.
   *
   * @param onUpdate gets every update, in order, before the promise settles. If it returns a promise, that is awaited before
   * the next update comes. If it throws or rejects, the run is cancelled and the call rejects with that very error.
   */
  invokeWithUpdates<TSchema extends OutputSchema | undefined = undefined>(
    messages: readonly MessageInput[],
    onUpdate: (update: InvokeUpdate) => void | Promise<void>,
    options?: InvokeOptions<TSchema>,
  ): Promise<WithStructured<TMessage, TSchema>>;

  /**
   * Everything that happens in a run, as it happens. The run starts when the first event is asked for and goes on as fast as
   * events are taken. Leaving early (`break`, `return()`) cancels it and waits for its end.
   *
   * A failed run throws its {@link ProviderError} (an aborted one, the signal's reason) from the iterator, so `done` is the
   * last event of a run that succeeded and only of such a run.
   */
  stream(messages: readonly MessageInput[], options?: InvokeOptions): AsyncGenerator<ProviderEvent, void, undefined>;

  /**
   * An adapter of its own that offers these tools to the model and has everything the original has. What it has bound never
   * changes, so two agents may share one provider. The original remembers the last tools too, as SPEC-01 has it:
   * `provider.bindTools(tools)` and then `provider.invoke(messages)` uses them. `bindTools([])` gives an adapter without tools, and
   * takes away those that the original remembers.
   *
   * @throws {ProviderError} `INVALID_TOOL`, naming the tool: no name, a name twice, arguments where none are looked for, a schema
   * that is not JSON Schema and can't be turned into it, a function without a schema, or a tool that a vendor's API runs itself.
   */
  bindTools(tools: readonly ToolInput[]): CliProvider<TMessage>;

  /**
   * Starts a live process for the next call ahead of it (as many as `spares`, if that is more) and resolves when it has answered: a call
   * right behind it does not wait for the CLI to start. With what that call will have, `options`, or what `bindTools` and the last call
   * had, the process knows its system prompt and its tools already. Where calls are made in print form, or `maxProcesses` leaves no
   * room, it resolves and starts nothing. A process that no call takes ends after 30 minutes, or with `close()`.
   * codex's live engine has one process for all conversations, whatever their tools; it is started if it does not run. qwen's processes
   * are started with a system prompt and tools: where those are not known, nothing is.
   *
   * @throws {ProviderError} `INVALID_OPTION` or `INVALID_TOOL`, naming the field; as a call where the CLI can't be started, ends instead
   * of answering, or takes no live sessions (`LIVE_UNSUPPORTED`, with `engine: "live"`).
   */
  prewarm(options?: PrewarmOptions): Promise<void>;

  /**
   * The models that the login has, as its CLI or API lists them: what can be given as `model`, with what is told of each. No model is
   * asked, so nothing is paid. A live process that runs is asked; else one is started, and stays as after `prewarm()`. claude tells the
   * list when a process starts: the answer is that of the last start. Afterwards a `MODEL_NOT_FOUND` names the models there are.
   *
   * claude, codex, opencode and copilot (with a GitHub login) have a list; so have agents that speak ACP, among them gemini and grok, and
   * APIs with `GET /models`. A `createCliProvider` has the `models` of its config.
   *
   * @throws {ProviderError} `UNSUPPORTED_OPTION` where the CLI or the API has no list, with the reason; as a call where it can't be
   * started or has no login. An aborted question rejects with the signal's reason; a process that it has started stays.
   */
  models(options?: ModelsOptions): Promise<ProviderModel[]>;

  /**
   * How the provider is: four separate facts, each found out in the environment and the folder its runs have. Never rejects
   * because a CLI is missing, logged out or silent: that is what the report is for.
   *
   * @throws {ProviderError} `INVALID_OPTION` for a level that there is not, `CLOSED` for a closed provider. An aborted look
   * rejects with the signal's reason, when what it started has ended.
   */
  health(options?: HealthOptions): Promise<HealthReport>;

  /**
   * Ends what is running, for every adapter of this provider. Resolves when no process of it is left. May be called again;
   * any other call afterwards rejects with code `CLOSED`. A provider that is idle need not be closed: it does not keep Node
   * alive, and only live processes are kept, for `keepAlive`. With `drain`, what runs or waits comes to its end first.
   *
   * @throws {ProviderError} `INVALID_OPTION` for an option that there is not.
   */
  close(options?: CloseOptions): Promise<void>;

  /** {@link CliProvider.close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Options of one call. Other keys are ignored: LangChain's run configuration may be passed as it is. */
export interface InvokeOptions<TSchema extends OutputSchema | undefined = OutputSchema | undefined> {
  /** Aborting ends the CLI; the call then rejects with the signal's reason. One listener per call, always removed. */
  readonly signal?: AbortSignal | undefined;
  /** How long the CLI may take, in ms, instead of the provider's `timeout`. 0 is no limit; at most 2147483647. */
  readonly timeout?: number | undefined;
  /** Whether the call waits for a plan that is used up, instead of the provider's `quota`. See {@link QuotaOptions}. */
  readonly quota?: false | QuotaOptions | undefined;
  /** Where the run is recorded: a file, for {@link replayRun} and `npx deep-factor-providers log`. See {@link RecordOptions}. */
  readonly record?: string | RecordOptions | undefined;
  /** The model of this call, as the CLI or the API names it. Default, and `""`: the provider's `model`. */
  readonly model?: string | undefined;
  /** How this call thinks. Default: the provider's `reasoning`. */
  readonly reasoning?: ReasoningOptions | "off" | undefined;
  /** Which tools the model is to call. Default: `"auto"`, or what an API's options say. */
  readonly toolChoice?: ToolChoice | undefined;
  /** The most tokens this answer may have. One that hits the limit fails with `MAX_TOKENS`, its text as `partial`. */
  readonly maxOutputTokens?: number | undefined;
  /** Texts, none of them empty, before which the answer ends. `[]` is none. */
  readonly stop?: readonly string[] | undefined;
  /** How freely the model chooses its words, from 0 to 2. */
  readonly temperature?: number | undefined;
  /**
   * Whether the model may search the web with the CLI's own tool, beside the caller's: claude's `WebSearch`, codex's `web_search`. Others
   * refuse it. A search is told as a `tool_call` event with its `tool_result`, and is never among a reply's calls. Default: the provider's
   * `webSearch`.
   */
  readonly webSearch?: boolean | undefined;
  /**
   * How the API serves the answer, later and cheaper or sooner and dearer: codex and OpenAI-compatible APIs. The answer's own is
   * `response_metadata.service_tier`, where the server tells it. A tier that is not served is told by a `warning` `UNSUPPORTED_OPTION`; codex in print form warns by itself. Default:
   * the provider's `serviceTier`.
   */
  readonly serviceTier?: string | undefined;
  /**
   * Whether the model answers in its fast mode, which costs more: claude, models that have one (2.1.332: opus, fable). Where the CLI leaves
   * it out, as it does silently for the others, a `warning` `UNSUPPORTED_OPTION` says so. Default: the provider's `speed`.
   */
  readonly speed?: "fast" | "standard" | undefined;
  /** What becomes of a choice that can't be had. Default: the provider's `onUnsupported`. */
  readonly onUnsupported?: OnUnsupported | undefined;
  /**
   * What the answer has to be: the schema of an object (`type: "object"` at its top), in zod 3, zod 4 (mini, too) or JSON Schema of at
   * most 256 KiB and 64 levels; a `$ref` may lead into the schema itself only. The reply's `structured`, and the message's
   * `response_metadata.structured_output`, is the value, always held against the schema. An answer that calls tools is returned as its
   * calls, without a value. One that does not fit is asked for once more, with the reasons (a `retry` event; the tokens of both count);
   * then the call fails with `OUTPUT_INVALID`. docs/guide/structured-output.md says who is told how. Default: the answer is text.
   */
  readonly outputSchema?: TSchema;
}

/**
 * How a model thinks. `"off"` in its place: not at all. claude, codex, gemini, grok, opencode, copilot, agents over ACP and APIs have that,
 * each for the models that can; others refuse it. A model that reasons all the same is told by a `warning` `UNSUPPORTED_OPTION`.
 */
export interface ReasoningOptions {
  /**
   * How much, in the word of the CLI or the API: claude takes `"low"`, `"medium"`, `"high"`, `"xhigh"` and `"max"`; what others take
   * is the model's to know. Letters, digits, `-` and `_`.
   */
  readonly effort?: string | undefined;
}

/**
 * Which tools the model is to call: whichever it likes (`"auto"`), none (`"none"`: none are offered), at least one (`"any"`), or this
 * one. Where nothing native says so, it is asked for in words. A reply without the call is asked for once more, and then fails with
 * `TOOL_CHOICE_UNMET`, the text as `partial`.
 */
export type ToolChoice = "auto" | "none" | "any" | { readonly name: string };

/**
 * What becomes of a choice that the provider can't have (docs/reference/providers.md): the call is refused with `UNSUPPORTED_OPTION` before
 * anything starts, or it is made without, with a `warning` event of that code. Default: `"warn"` for `temperature`, `stop` and
 * `maxOutputTokens`, `"error"` for the rest.
 */
export type OnUnsupported = "error" | "warn";

/** The schema of an answer: zod, JSON Schema, or the AI SDK's `jsonSchema()`. */
export type OutputSchema = object;

/**
 * What a model writes by a schema: the side of zod that is parsed, so that a field with a default may be missing and a date is a
 * string. `schema.parse(value)` makes the other side of it, and checks what JSON Schema has no word for. `unknown` for JSON Schema.
 */
export type StructuredOutput<TSchema = unknown> = TSchema extends { readonly _zod: { readonly input: infer Input } }
  ? Input
  : TSchema extends { readonly _input: infer Input }
    ? Input
    : TSchema extends { readonly "~standard": { readonly types?: { readonly input: infer Input } | undefined } }
      ? Input
      : unknown;

/**
 * A message with what a provider says of it, and with the value of {@link InvokeOptions.outputSchema}, which is not there where it calls
 * tools.
 */
export type WithStructured<TMessage = AIMessage, TSchema = undefined> = TMessage & {
  response_metadata: ProviderResponseMetadata;
} & (TSchema extends object ? { response_metadata: { structured_output?: StructuredOutput<TSchema> } } : unknown);

/**
 * Waiting for a plan that is used up. A call that fails for that reason (category `quota`), where the provider has said when the plan is
 * there again, waits until then, tells so by a `waiting` event, and asks again; later calls of the same provider and model wait with it,
 * without asking first. Meanwhile there is no process and no place in the queue taken, and neither `timeout` nor `retry` count. An abort or
 * `close()` ends it at once. In a {@link FallbackProvider}, the next member is asked first (docs/reference/errors.md).
 */
export interface QuotaOptions {
  /** Whether it waits. Default: `false`, the error is thrown as it comes. */
  readonly wait?: boolean | undefined;
  /** How long a call may wait in all, in ms; what would take longer fails at once. Default: 21600000 (6 hours). */
  readonly maxWaitMs?: number | undefined;
}

/**
 * How much a provider may be used in a window of time (docs/reference/budgets.md). What is used up is refused with `BUDGET_EXCEEDED` before anything
 * starts. At least one of the limits is given.
 */
export interface BudgetOptions {
  /** So many attempts at an answer: processes, turns, or HTTP requests; further attempts of one call count, too. They are counted before they begin. */
  readonly requests?: number | undefined;
  /** So many tokens, input and output together, cached ones included. Counted when they are known: the calls under way may pass it. */
  readonly tokens?: number | undefined;
  /**
   * So many US dollars, as the provider tells them. Counted when they are known. A provider that tells none (codex, gemini, APIs) counts
   * nothing, and says so by a `warning` event `BUDGET_COST_UNKNOWN`, once.
   */
  readonly costUsd?: number | undefined;
  /** As {@link PlanBudgetOptions.plan}. */
  readonly plan?: number | undefined;
  /** How long a window is. It begins with its first request; the first one behind its end begins the next. A `"day"` is 24 hours. */
  readonly per: "minute" | "hour" | "day";
  /**
   * A file in which all count together that name it with the same `per`: providers, processes, worker threads. Its folder exists; it is made
   * with mode 0600.
   * Relative to the process's working folder. Default: the provider object counts for itself, in memory.
   */
  readonly store?: string | undefined;
}

/** A {@link BudgetOptions} of the login's plan alone, which has windows of its own. */
export interface PlanBudgetOptions {
  /**
   * Of each window of the plan at most this share, above 0 and up to 1. At `0.8`, calls are refused while the last answer has told of a
   * window that 80 % of it or more are used, until that window ends (`resetsAt`). Nothing is asked to find out: a provider counts what its
   * own answers tell (claude, codex), and a window without an end does not count.
   */
  readonly plan: number;
}

/**
 * Where a provider keeps what a caller can't send back, so that a conversation goes on as it was after a restart (docs/concepts/engines.md).
 * Several processes and providers may share a folder. Nobody finds or reads a reply there without the conversation up to it, its system prompt,
 * tools, environment and login.
 */
export interface SessionsOptions {
  /**
   * A folder of yours alone, for this alone; it is made with mode 0700, its files with 0600. Relative to the process's working folder. One that
   * is a link, another user's, or writable for others is refused by the first call, with `INVALID_OPTION`. It takes 256 MiB at most: then the
   * replies that were unused for longest go. You may remove it at any time.
   */
  readonly store: string;
  /** How long a reply that nobody uses is kept, in ms; up to 366 days. Default: 7 days. */
  readonly maxAge?: number | undefined;
}

/** Another login than the CLI's default one. Its files are the CLI's business: none is read, copied or moved. */
export interface LoginOptions {
  /**
   * The folder of the login, which exists; relative to the process's working folder. It is given to the CLI as `CLAUDE_CONFIG_DIR` (claude),
   * `CODEX_HOME` (codex), `GEMINI_CLI_HOME` (gemini), `XDG_DATA_HOME` (opencode) or `COPILOT_HOME` (copilot); of grok it is the `GROK_HOME` whose `auth.json` is the login.
   */
  readonly configDir: string;
}

/**
 * One message of a thread, recognised by its shape: of LangChain 0.3 or 1.x (any copy of it), serialised by LangChain, OpenAI-style,
 * a pair of role and content, or a bare string (the user's). `user`, `assistant` and `developer` are `human`, `ai` and
 * `system`; a type that nobody knows is kept by its name.
 *
 * Blocks of text are text, joined as LangChain's `text` joins them; what an `ai` message thought is left out. Images and files (of
 * LangChain, OpenAI, Anthropic, the AI SDK, Google and MCP; base64, a URL, `Uint8Array` or `ArrayBuffer`) go over natively where the
 * provider takes them, and are refused with `UNSUPPORTED_CONTENT` elsewhere, and where they are too large (docs/reference/providers.md): they never
 * become text, and nothing is fetched or read for them.
 */
export type MessageInput =
  | string
  | readonly [role: string, content: unknown]
  | LangChainMessage
  | PlainMessage
  | SerializedMessage
  | StoredMessage;

/** A LangChain message: `HumanMessage` and its kin. `tool_calls`, `tool_call_id` and `status` are read where it has them. */
export interface LangChainMessage {
  /** Text or content blocks. */
  readonly content: unknown;
  /** `"human"`, `"ai"`, `"system"`, `"tool"`, … */
  _getType(): string;
}

/** A message as plain data. */
export interface PlainMessage {
  /** Who speaks, in LangChain's words or OpenAI's. It, or `role`, has to be there; `type` is looked at first. */
  readonly type?: string | undefined;
  /** Who speaks, in OpenAI's words or LangChain's. */
  readonly role?: string | undefined;
  /** Text, or content blocks; any other JSON value is its JSON text. */
  readonly content?: unknown;
  /** Calls the model made: `{ id, name, args }`, or OpenAI's `{ id, function: { name, arguments } }`. */
  readonly tool_calls?: readonly object[] | null | undefined;
  /** Which call a tool message answers. */
  readonly tool_call_id?: string | undefined;
  /** `"error"` for a tool that failed. */
  readonly status?: string | undefined;
}

/** What `JSON.stringify` makes of a LangChain message. */
export interface SerializedMessage {
  readonly lc: number;
  readonly type: string;
  /** Ends with the class name: `["langchain_core", "messages", "HumanMessage"]`. */
  readonly id: readonly string[];
  readonly kwargs: object;
}

/** What LangChain's `mapChatMessagesToStoredMessages` makes of a message. */
export interface StoredMessage {
  readonly type: string;
  readonly data: object;
}

/** A tool to bind: a LangChain tool (zod 3, zod 4 or JSON Schema), a plain object, or OpenAI's form. It is never run. */
export type ToolInput = PlainTool | { readonly type: "function"; readonly function: PlainTool };

/** A tool as plain data. Every LangChain tool is one, too. */
export interface PlainTool {
  /** Not empty, and once among the tools of a `bindTools`. */
  readonly name: string;
  /** What it does, for the model. Default: nothing. */
  readonly description?: string | undefined;
  /**
   * Its arguments, as JSON Schema, zod 3 or zod 4 (mini, too), or the AI SDK's `jsonSchema()`. Default: an object without properties.
   * The model gets the side that it writes: what has a default may be missing, and what JSON Schema has no word for is open.
   */
  readonly schema?: unknown;
  /** OpenAI's name of `schema`, read where that is missing. */
  readonly parameters?: unknown;
  /** The name that MCP and the AI SDK have for it, read where those are missing. */
  readonly inputSchema?: unknown;
  /** Anthropic's name, read last. */
  readonly input_schema?: unknown;
}

/** A call of a tool that the model asks for. */
export interface ToolCall {
  /** The tool's name as it was bound. */
  name: string;
  /** The arguments. They are what the model wrote: not checked against the schema. */
  args: Record<string, unknown>;
  /** Unique within the thread. */
  id: string;
}

/** Something that looked like a tool call and could not be read. */
export interface InvalidToolCall {
  /** The tool's name; `null` if none could be read. */
  name: string | null;
  /** The text as the model wrote it. */
  args: string;
  /** The call's id; `null` if none could be read. */
  id: string | null;
  /** Why it could not be read. */
  error: string;
}

/** The `response_metadata` of an answer. What the CLI did not tell is left out. */
export interface ProviderResponseMetadata {
  /** The provider's id, `"claude"`. */
  provider: string;
  /** The model that answered, as the CLI names it. */
  model?: string;
  /** The same, by LangChain's name for it. */
  model_name?: string;
  /** Where the message has reasoning: the name by which LangChain 1 makes `contentBlocks` of it. */
  model_provider?: "deep-factor-providers";
  /** The CLI's id of the session. */
  session_id?: string;
  /** The answer as a value that fits {@link InvokeOptions.outputSchema}. */
  structured_output?: unknown;
  /** Why the model stopped, in the provider's words (`"end_turn"`). */
  stop_reason?: string;
  /** The CLI's permission mode. */
  permission_mode?: string;
  /** The cost in US dollars, as the CLI estimates it: for a subscription, what the API would have cost. */
  cost?: number;
  /** The same as `cost`. */
  cost_usd?: number;
  /** The CLI's own clock, ms. */
  duration_ms?: number;
  /** Turns the CLI took. */
  num_turns?: number;
  /** Calls of tools of its own that the CLI did not permit (claude, qwen). */
  permission_denials?: { tool_name: string; tool_use_id: string; tool_input: unknown }[];
  /** `true` where the CLI reported no token counts and they are a quarter of the characters; otherwise left out. */
  usage_estimated?: true;
  /** Share of the input that was read from the API's prompt cache, 0 to 1; left out where the provider does not tell. */
  cache_hit_share?: number;
  /** The service tier of the answer, where its API tells it; claude's where it is not the usual one. */
  service_tier?: string;
  /** The speed of the answer, as claude's API tells it, where the fast mode was on. */
  speed?: string;
  /** claude live, from 2.1.330 on, where less than half of what was cached was found: the CLI's own words about it, in one line. */
  cache_miss?: string;
  /** Output of the CLI that was no event. */
  diagnostics?: string[];
  /** The CLI's version. */
  cli_version?: string;
  /** Only in answers of a {@link FallbackProvider}: who gave it, and why others did not. */
  fallback?: FallbackMetadata;
  /** Which run it was, and when things happened in it. */
  run?: RunInfo;
}

// ---------------------------------------------------------------------------------------------------------- the claude CLI

/**
 * Which text of an answer is a tool call, in print form, where the model gets tools as text. Native calls are calls with
 * each of them; an API and a run with callbacks have no others, and a live session only those that `"unquoted"` finds. See
 * docs/concepts/tool-calls.md.
 *
 * - `"unquoted"` (default): a block that ends the message, if no call in it was brought by the thread: the same name with the same
 *   arguments stands in no text of the system's, a user's or a tool's, however it is quoted or escaped there. Any name counts, bound
 *   or not: of one that is not, the agent answers that there is none. What else looks like calls is text; where it may have been meant as
 *   calls, there is a `warning` event `TOOL_CALLS_AS_TEXT`, which `response_metadata.diagnostics` has as well.
 * - `"marked"` (default where the user has the CLI read by itself, which nobody sees): with tools bound, a block that ends the
 *   message, if every id in it begins with the random mark that the prompt asks for.
 * - `"lenient"`: whatever {@link parseToolCalls} finds, as SPEC-01 has it, also without bound tools. A model that quotes a block
 *   of calls makes them.
 * - `"off"`: none. Bound tools are not shown to the model in print form (a `warning` event `TOOLS_NOT_CALLABLE`).
 */
export type TextToolCalls = "unquoted" | "marked" | "lenient" | "off";

/**
 * What becomes, in print form with `inputEncoding: "xml"`, of a thread whose only message is a user's, and whose text is one whole
 * `<thread>` document (`<event …>` elements with text, nothing before or behind).
 *
 * - `"pass"` (default): `invoke`, `invokeWithUpdates` and `stream` send it byte for byte, as SPEC-01 has it for agents that
 *   write threads themselves.
 * - `"escape"`: it is a text like any other. To be set by whoever hands a person's text to an adapter as the only message.
 *
 * `runAgent`, the command line and the live engine always take it for a text.
 */
export type ThreadDocuments = "pass" | "escape";

/** Options of {@link createClaudeCliProvider}. */
export interface ClaudeCliProviderOptions extends CliProviderOptions {
  /**
   * How the prompt reaches the CLI. `"arg"` is SPEC-01's argument of `-p`: visible in `ps`, and limited by the system (128 KiB
   * on Linux; a longer one fails with `PROMPT_TOO_LONG`). Default: `"stdin"`.
   */
  promptStyle?: "stdin" | "arg" | undefined;
  /** The CLI's `--output-format`. Only `"stream-json"` tells what happens while it happens. Default: `"stream-json"`. */
  outputFormat?: "text" | "json" | "stream-json" | undefined;
  /** Adds SPEC-01's `--no-input`, which no released claude knows; stdin is never left open either way. Default: `false`. */
  noInput?: boolean | undefined;
  /**
   * Whose account is used. `"inherit"`: as in the user's terminal. `"subscription"`: the CLI's login, API keys in the
   * environment and in `env`, which would win over it and be billed, being dropped. Default: `"inherit"`.
   */
  auth?: "inherit" | "subscription" | undefined;
  /** The system prompt, in place of the short one that says what a thread is; `null` keeps the CLI's own. */
  systemPrompt?: string | null | undefined;
  /** The CLI's `--permission-mode`. Default: not given. */
  permissionMode?: "default" | "plan" | "acceptEdits" | "bypassPermissions" | "auto" | "dontAsk" | "manual" | undefined;
  /**
   * Whether the CLI's own tools (shell, files, web, MCP servers) are off, which makes it a pure model: prompt in, answer out,
   * without side effects. Default: `true`.
   */
  disableBuiltInTools?: boolean | undefined;
  /**
   * The CLI's `--verbose`, which `"stream-json"` needs and gets anyway. Default: `true` with `"json"`, which otherwise shows only the
   * last part of an answer that claude gave in several (claude 2.1.197, 2.1.330), `false` with `"text"`.
   */
  verbose?: boolean | undefined;
  /** Whether the CLI tells its answer piece by piece (`--include-partial-messages`). Default: only for `stream()`. */
  includePartialMessages?: boolean | undefined;
  /** How long the CLI may print nothing, in ms, before it fails with `IDLE_TIMEOUT`. Default: no limit; 120000 when live. */
  idleTimeout?: number | undefined;
  /** How many runs of this provider may be under way; further ones wait. Processes that rest count apart (`maxProcesses`). Default: 4. */
  maxConcurrency?: number | undefined;
  /** How often the CLI itself may ask the API again. Default: 0, so that it does not multiply with `retry`. */
  maxRetries?: number | undefined;
  /**
   * `"print"`: one process per call, the whole thread as one prompt, tools by instruction. `"live"`: one process per
   * conversation, native tool calls, only the new part of a thread sent. `"auto"`: live where the installed CLI is known to serve it and
   * the other options allow it, print otherwise; decided by what the file is, before anything starts. `run.engine` of a reply says which
   * it was, `health()` which it would be and why. Default: `"auto"`. See docs/concepts/engines.md.
   */
  engine?: "print" | "live" | "auto" | undefined;
  /**
   * Live engine: how long a session is kept for its thread's next call, in ms; 0 ends it with the call. Default: 60000; 300000 with
   * `engine: "live"`.
   */
  keepAlive?: number | undefined;
  /**
   * Live engine: how many processes may rest between the calls of their conversations, spares included, beside those that work. One takes
   * about 200 MB (qwen: 280), and all of them a third of the machine's memory at most. Beyond that, the answered conversation that was unused for longest
   * ends first, and one that waits for a tool's result last; its next call goes to another process, with the `warning`
   * `SESSION_EXPIRED`. Default: 20.
   */
  maxProcesses?: number | undefined;
  /**
   * Live engine: how many processes are kept started ahead, from the first call or `prewarm()` on. When two calls in a row had the same
   * system prompt and tools, they are sent these ahead. Default: 0.
   */
  spares?: number | undefined;
  /**
   * How long the API keeps the beginning of a thread for its next call, which is then cheaper: `"5m"` or `"1h"`, whose writing costs more. Default:
   * the CLI's own, an hour with a plan and five minutes with a key (claude 2.1.332). What was written is `cacheWrite5mTokens` and
   * `cacheWrite1hTokens` of a reply's usage.
   */
  promptCache?: { readonly ttl: "5m" | "1h" } | undefined;
  /**
   * Live engine: keeps what the API was told beside the messages (signed thinking, ids, effort) in a folder, for other processes and the next
   * start ({@link SessionsOptions}). Default: in memory, until the provider is closed.
   */
  sessions?: SessionsOptions | undefined;
}

/** How a call that failed is made again. `timeout` counts for each attempt. */
export interface RetryOptions {
  /** Attempts in all, the first included; 1 to 100. Default: 3. */
  maxAttempts?: number | undefined;
  /** Wait before the second attempt, in ms; it doubles before each further one. Default: 500. */
  baseDelayMs?: number | undefined;
  /** The longest wait, in ms. What the provider asks for (`retryAfterMs`) may be longer and is never shortened. Default: 30000. */
  maxDelayMs?: number | undefined;
  /** Share of the wait that is left to chance, 0 to 1; `true` is the default, `false` 0. It only shortens. Default: 0.25. */
  jitter?: number | boolean | undefined;
  /** No attempt begins later than this after the first, in ms; 0 for no limit. Default: 120000. */
  maxElapsedMs?: number | undefined;
}

/**
 * The claude CLI (`claude -p`) as a model, with the login of the user's terminal: one process per conversation where the installed CLI is
 * known to serve that, one per call otherwise ({@link ClaudeCliProviderOptions.engine}).
 * Nothing is started here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createClaudeCliProvider(options?: ClaudeCliProviderOptions): CliProvider;

// ------------------------------------------------------------------------------------------------------------ other CLIs

/** How a CLI is started that runs elsewhere. There is no shell in between, except the launcher's own. */
export interface LaunchOptions {
  /** The launcher: a command found in `PATH`, or a path. */
  command: string;
  /** Its arguments, which stand before the CLI's command line: `["exec", "-i", "box"]`. Default: none. */
  args?: readonly string[] | undefined;
  /**
   * How the variables go along that the package and `env` set. `"inherit"`: the launcher hands on its environment, as bwrap and unshare do; for a
   * command that is called `wsl`, their names are added to `WSLENV`.
   * `"arguments"`: `env NAME=value …` stands before the CLI; a variable whose name says that it is a secret is refused, for others can read a
   * command line. A list: the launcher's arguments for one variable, with `{name}` and `{value}`, in the place of an argument `"{env}"` of
   * `args`: `["--env", "{name}"]` has docker and podman take the value from their own environment. Default: `"inherit"`.
   */
  env?: "inherit" | "arguments" | readonly string[] | undefined;
  /**
   * Whether the folder for temporary files has the same path on the other side, and can be read there. `"none"`: a provider that gets files in
   * each of its forms is refused with `UNSUPPORTED_OPTION` when it is made, a call that hands over a file with the same code, a thread that no
   * process knows is told in words, and the CLI can't call tools in the middle of a turn. Default: `"none"`.
   */
  files?: "none" | "shared" | undefined;
  /**
   * `"posix"`: the CLI's command line is one argument, quoted for a POSIX shell, which the launcher has read it. Default: `"posix"` for a
   * command that is called `ssh`, which joins its arguments, and else `"none"`.
   */
  quoting?: "none" | "posix" | undefined;
}

/** What every CLI takes, a CLI of one's own included. docs/reference/providers.md says what each one does with it. */
export interface CliProviderOptions {
  /** The model, as the CLI names it. Default, and `""`: the CLI's own. */
  model?: string | undefined;
  /**
   * The CLI: a command found in `PATH`, whose empty and relative folders are skipped, or a path. Default: the provider's command, found in
   * `PATH` or where its installers put it ({@link CliProviderOptions.cliSearch}).
   */
  cliPath?: string | undefined;
  /**
   * Where the provider's command is looked for, and the interpreter of a script: `"everywhere"` is `PATH`, and then the places of the vendor's
   * installers and of the usual managers (Homebrew, npm, nvm, fnm, volta, asdf, mise, pnpm, Bun, winget, scoop); `"path"` is `PATH` alone.
   * Default: `"everywhere"`. See docs/reference/options.md.
   */
  cliSearch?: "everywhere" | "path" | undefined;
  /**
   * A command before the CLI's own command line: the CLI runs elsewhere (`docker exec`, `ssh`, `wsl`, `bwrap`, `sudo -u`). `cliPath` is its name
   * there, which is not looked for here. See docs/guide/deploy.md.
   */
  launch?: LaunchOptions | undefined;
  /**
   * How long one attempt may take, in ms from its place among `maxConcurrency` on: what has to be started for it counts, waiting for a place
   * does not. What it has used where another engine turns out not to serve it is gone from it. Default: 120000.
   */
  timeout?: number | undefined;
  /** How many bytes the CLI may print in one run; beyond, it fails with `OUTPUT_LIMIT`. Default: 10485760 (10 MiB). */
  maxBuffer?: number | undefined;
  /** How the thread is written: SPEC-01's `<thread>` XML or its labelled text. Default: `"xml"`. See docs/concepts/tool-calls.md. */
  inputEncoding?: "xml" | "text" | undefined;
  /** Whether a lone user message that is one whole `<thread>` document goes out as it is. See {@link ThreadDocuments}. */
  threadDocuments?: ThreadDocuments | undefined;
  /** Which text of an answer is a tool call, where calls are written as text. Default: `"unquoted"`. See {@link TextToolCalls}. */
  textToolCalls?: TextToolCalls | undefined;
  /** The working folder. Default: an empty private one; with the CLI's own tools on, the process's own. */
  cwd?: string | undefined;
  /** Environment variables, merged over the process's own; `undefined` takes one away. */
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Further arguments for the CLI, as they are. One that it refuses is an error. Default: none. */
  extraArgs?: readonly string[] | undefined;
  /** How long the CLI may print nothing, in ms, before it fails with `IDLE_TIMEOUT`. Default: no limit. */
  idleTimeout?: number | undefined;
  /** How long the CLI has to end by itself when asked to, in ms, before it is killed; and to exit after its last event. Default: 2000. */
  killGrace?: number | undefined;
  /** How many runs of this provider may be under way; further ones wait. Default: 4. */
  maxConcurrency?: number | undefined;
  /**
   * How a call that failed for a passing reason (`shouldRetry`) is made again; `false` for never. Default: two further
   * attempts, except after `TIMEOUT` and `IDLE_TIMEOUT`, which are limits the caller set: those are tried again only where
   * `retry` is given. Never once the caller has been given output of the attempt.
   */
  retry?: false | RetryOptions | undefined;
  /** How the model thinks, where a call does not say. Default: the CLI's own way. */
  reasoning?: ReasoningOptions | "off" | undefined;
  /** The most tokens an answer may have, where a call does not say. Default: the CLI's own limit. */
  maxOutputTokens?: number | undefined;
  /** Texts before which an answer ends, where a call does not say. Default: none. */
  stop?: readonly string[] | undefined;
  /** From 0 to 2, where a call does not say. Default: the model's own. */
  temperature?: number | undefined;
  /** Whether the model may search the web, where a call does not say; claude and codex. See {@link InvokeOptions.webSearch}. Default: `false`. */
  webSearch?: boolean | undefined;
  /** How the API serves answers, where a call does not say; codex and APIs. See {@link InvokeOptions.serviceTier}. Default: the API's own. */
  serviceTier?: string | undefined;
  /** Whether the model answers in its fast mode, where a call does not say; claude. See {@link InvokeOptions.speed}. Default: `"standard"`. */
  speed?: "fast" | "standard" | undefined;
  /**
   * How the bound tools are offered; claude and copilot, live. `search: true`: the model is told their names alone, and fetches those that it
   * needs with the CLI's own search; their calls come natively. For catalogues of hundreds of tools: 500 take 12 KB of a request instead of 150.
   * Each search costs one more request. A call in print form tells all tools, with a warning. Default: all tools are declared.
   */
  tools?: { readonly search?: boolean | undefined } | undefined;
  /** What becomes of choices that can't be had. See {@link OnUnsupported}. */
  onUnsupported?: OnUnsupported | undefined;
  /** Whether a call whose plan is used up waits until it is there again. Default: it fails. See {@link QuotaOptions}. */
  quota?: false | QuotaOptions | undefined;
  /** How much may be used in a window of time, at least one of its limits. Default: `false`, no limit. See {@link BudgetOptions}. */
  budget?: false | BudgetOptions | PlanBudgetOptions | undefined;
  /**
   * Another login than the CLI's default one, for CLIs that have a variable for its folder; refused for others. Sessions, breakers and
   * what was learnt of the CLI are never shared between logins.
   */
  login?: LoginOptions | undefined;
  /** Gets records of what runs do. Default: none. */
  logger?: Logger | undefined;
  /** Spans and metrics of its calls, for OpenTelemetry. See {@link Telemetry}. Default: `false`. */
  telemetry?: Telemetry | undefined;
}

/** Options of {@link createCodexCliProvider}. `timeout` can't be 0: without a network, codex waits for ever. */
export interface CodexCliProviderOptions extends CliProviderOptions {
  /** The instructions, in place of the short ones that say what a thread is; `null` keeps the CLI's own. */
  systemPrompt?: string | null | undefined;
  /** Whether the CLI's own tools (shell, web search, sub-agents) and project files are off. Default: `true`. */
  disableBuiltInTools?: boolean | undefined;
  /** What its shell may do, once the built-in tools are on. Default: `"read-only"`, which it always is while they are off. */
  sandbox?: "read-only" | "workspace-write" | "danger-full-access" | undefined;
  /** Leaves `~/.codex/config.toml` out, with its MCP servers and model providers; the login stays. Default: `false`. */
  ignoreUserConfig?: boolean | undefined;
  /** Accepted without effect, for agents that pass what they gave codex themselves: its output is always read as JSON lines. */
  outputFormat?: "jsonl" | "text" | undefined;
  /** Accepted without effect: codex never asks for a Git repository here. */
  skipGitRepoCheck?: boolean | undefined;
  /**
   * `"live"` serves all conversations with one process, `codex app-server`: native tool calls, text piece by piece, only what is new
   * sent. Needs codex 0.150 or newer (`LIVE_UNSUPPORTED`). `"print"`: one process per call. `"auto"`: live where the installed version was
   * measured (0.150.0 and 0.169.0) and the other options allow it, print otherwise. Default: `"auto"`. See docs/concepts/engines.md, "Which engine".
   */
  engine?: "print" | "live" | "auto" | undefined;
  /**
   * Live engine: how long, in ms, a conversation is kept for its next call, and the process for any. 0: not at all. Default: 60000; 300000
   * with `engine: "live"`.
   */
  keepAlive?: number | undefined;
  /**
   * Live engine: how tools are offered to the model, each as a function, or all in a namespace, which is the vendor's documented way
   * around codex's own tool mode. `doctor codex --request --engine live` says which one the API takes. Default: `"functions"`.
   */
  toolForm?: "functions" | "namespace" | undefined;
  /**
   * Live engine: keeps what the API was told beside the messages (sealed reasoning, ids) in a folder, for other processes and the next
   * start ({@link SessionsOptions}). Default: in memory, until the provider is closed.
   */
  sessions?: SessionsOptions | undefined;
}

/**
 * The codex CLI as a model, with the user's login: one process for all conversations (`codex app-server`) where the installed version is
 * known to serve that, else, or with `engine: "print"`, one per call without memory (`codex exec`). Measured with 0.169.0, live also with 0.150.0.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createCodexCliProvider(options?: CodexCliProviderOptions): CliProvider;

/** Options of {@link createGeminiCliProvider}. */
export interface GeminiCliProviderOptions extends CliProviderOptions {
  /** The CLI's `--output-format`. Only `"stream-json"` tells what happens while it happens. Default: `"stream-json"`. */
  outputFormat?: "text" | "json" | "stream-json" | undefined;
  /** The system prompt, in place of the short one that says what a thread is; `null` keeps the CLI's own. */
  systemPrompt?: string | null | undefined;
  /** Whether the CLI's own tools are off. Default: `true`. */
  disableBuiltInTools?: boolean | undefined;
  /** How often the CLI itself may ask the API again, with its own tools off. Default: 0 (its own default is 9). */
  maxRetries?: number | undefined;
  /**
   * `"print"`: one process per call. `"warm"`: one process, `gemini --acp`, serves many calls and remembers none of them; an installed
   * CLI that can't is `LIVE_UNSUPPORTED`. `"auto"`: warm where the installed version was measured (0.61.0) and the other options allow it,
   * print otherwise. Default: `"auto"`. See docs/concepts/engines.md, "Which engine".
   */
  engine?: "print" | "warm" | "auto" | undefined;
  /** Warm engine: how long, in ms, the process is kept for the next call. Default: 60000; 300000 with `engine: "warm"`. */
  keepAlive?: number | undefined;
}

/**
 * The gemini CLI as a model, without memory, with the user's login: one process for many calls where the installed version is known to
 * serve that, one per call otherwise ({@link GeminiCliProviderOptions.engine}). Measured with 0.61.0.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createGeminiCliProvider(options?: GeminiCliProviderOptions): CliProvider;

/** Options of {@link createQwenCliProvider}. */
export interface QwenCliProviderOptions extends CliProviderOptions {
  /** The CLI's `--output-format`. Only `"stream-json"` tells what happens while it happens. Default: `"stream-json"`. */
  outputFormat?: "text" | "json" | "stream-json" | undefined;
  /**
   * Which of its logins the CLI uses (`--auth-type`): `"openai"`, `"qwen-oauth"`, …. Default: what its environment says (`OPENAI_API_KEY`,
   * `OPENAI_BASE_URL` and `OPENAI_MODEL`, say); which one the user's settings choose it reads with `disableBuiltInTools: false` only.
   */
  authType?: string | undefined;
  /** `null` keeps the CLI's own system prompt. A text would be an argument, visible to others: put it into the thread. */
  systemPrompt?: null | undefined;
  /** Whether the CLI's own tools, memory and project files are off. Default: `true`. */
  disableBuiltInTools?: boolean | undefined;
  /** Whether the CLI tells its answer piece by piece. Default: only for `stream()`. */
  includePartialMessages?: boolean | undefined;
  /**
   * `"live"` keeps one process for a conversation: native tool calls, which wait in it for their results, and only what is new sent. Of
   * qwen 0.24.4 (`LIVE_UNSUPPORTED` otherwise). `"warm"`: one process, `qwen --acp`, serves many calls and remembers none of them;
   * of qwen 0.15.10 (`LIVE_UNSUPPORTED` otherwise). `"print"`: one process per call. `"auto"` is live with 0.24.4, warm with 0.15.10, and
   * print with others or where the options want it. Default: `"auto"`. See docs/concepts/engines.md, "Which engine".
   */
  engine?: "print" | "live" | "warm" | "auto" | undefined;
  /**
   * Live engine: how long, in ms, a conversation is kept for its next call; warm engine: how long the process is. 0: not at all. Default:
   * 60000; 300000 with `engine: "live"` or `"warm"`.
   */
  keepAlive?: number | undefined;
  /**
   * Live engine: how many processes may rest between the calls of their conversations, spares included, beside those that work. One takes
   * about 200 MB (qwen: 280), and all of them a third of the machine's memory at most. Beyond that, the answered conversation that was unused for longest
   * ends first, and one that waits for a tool's result last; its next call goes to another process, with the `warning`
   * `SESSION_EXPIRED`. Default: 20.
   */
  maxProcesses?: number | undefined;
  /**
   * Live engine: how many processes are kept started ahead, with the system prompt and the tools that two calls in a row had. Default: 0.
   */
  spares?: number | undefined;
}

/**
 * The qwen CLI as a model, with the user's login: one process per conversation, one for many calls without memory, or one per call
 * ({@link QwenCliProviderOptions.engine}). Measured with 0.15.10 and 0.24.4.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createQwenCliProvider(options?: QwenCliProviderOptions): CliProvider;

/**
 * Options of {@link createGlmCliProvider}. The prompt is an argument: visible in `ps`, and limited by the system (128 KiB on
 * Linux; a longer one fails with `PROMPT_TOO_LONG`).
 */
export interface GlmCliProviderOptions extends CliProviderOptions {
  /**
   * `"flag"`: the prompt is the value of `--prompt`, as the CLI's source has it. `"arg"`: a bare argument, CLI-ADAPTER-PROTOCOL's
   * form, which that source takes for its interactive mode. Default: `"flag"`.
   */
  promptStyle?: "flag" | "arg" | undefined;
  /** It has one engine: a process per call. See docs/concepts/engines.md, "Which engine". */
  engine?: "print" | undefined;
}

/**
 * The ax-glm CLI as a model, by its source and CLI-ADAPTER-PROTOCOL; it was never run.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createGlmCliProvider(options?: GlmCliProviderOptions): CliProvider;

/** A model API of one's own that grok asks in place of xAI's: no login is needed, and none is sent there. */
export interface GrokModelApi {
  /** What it speaks. Default: `"openai"`, which most servers speak. */
  readonly type?: "openai" | "anthropic" | undefined;
  /** Its address: `"http://127.0.0.1:11434/v1"`. */
  readonly baseUrl: string;
  /** Its key. It is in no error and in no run log. Default: the word `none`. */
  readonly apiKey?: string | undefined;
  /** Which of OpenAI's protocols. Default: `"completions"`. */
  readonly wireApi?: "completions" | "responses" | undefined;
  /** The model, where the option `model` names none. One of the two is needed. */
  readonly model?: string | undefined;
}

/** Options of {@link createGrokCliProvider}. */
export interface GrokCliProviderOptions extends CliProviderOptions {
  /**
   * Which program it is: `"xai"`, xAI's own (`@xai-official/grok`), or `"ax"`, the `ax-grok` of CLI-ADAPTER-PROTOCOL, which takes
   * `promptStyle` and neither `systemPrompt` nor `provider`, and was never run. Default: `"ax"` where `cliPath` is a file called
   * `ax-grok`, else `"xai"`.
   */
  dialect?: "xai" | "ax" | undefined;
  /** With `dialect: "ax"`, and refused otherwise: as in {@link GlmCliProviderOptions}, with its limit. */
  promptStyle?: "flag" | "arg" | undefined;
  /** The system prompt, in place of the short one that says what a thread is; `null` for none. */
  systemPrompt?: string | null | undefined;
  /** A model API of one's own. Default: xAI's. */
  provider?: GrokModelApi | undefined;
  /**
   * `"print"`: one process per call. `"warm"`: one process, `grok agent stdio`, serves many calls and remembers none of them; an installed
   * CLI that can't is `LIVE_UNSUPPORTED`. `"auto"`: warm where the installed version was measured (1.0.41) and the other options allow it,
   * print otherwise. Default: `"auto"`; with `dialect: "ax"`, which has no other, `"print"`. See docs/concepts/engines.md, "Which engine".
   */
  engine?: "print" | "warm" | "auto" | undefined;
  /** Warm engine: how long, in ms, the process is kept for the next call. Default: 60000; 300000 with `engine: "warm"`. */
  keepAlive?: number | undefined;
}

/**
 * The grok CLI of xAI as a model, without memory, with the user's login or `XAI_API_KEY`: one process for many calls where the installed
 * version is known to serve that, one per call otherwise ({@link GrokCliProviderOptions.engine}). Measured with 1.0.41, over model APIs of
 * one's own; not with a login.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createGrokCliProvider(options?: GrokCliProviderOptions): CliProvider;

/** Options of {@link createOpenCodeCliProvider}. `timeout` can't be 0: opencode retries for ever, in silence. */
export interface OpenCodeCliProviderOptions extends CliProviderOptions {
  /** The model behind its provider's name: `"openai/gpt-5.5"`. Only that provider is enabled then. Default, and `""`: the CLI's own. */
  model?: `${string}/${string}` | "" | undefined;
  /** The system prompt, in place of the short one that says what a thread is; `null` keeps the CLI's own. */
  systemPrompt?: string | null | undefined;
  /** Whether the CLI's own tools and project files are off. Default: `true`. */
  disableBuiltInTools?: boolean | undefined;
  /** Leaves the user's opencode.json out, with its MCP servers and providers; logins stay. Default: `true`. */
  ignoreUserConfig?: boolean | undefined;
  /** Further configuration, as in opencode.json: `{ provider: { … } }`. Its `agent` is ours while the tools are off. */
  config?: Readonly<Record<string, unknown>> | undefined;
  /**
   * `"live"` serves all conversations with one process, `opencode serve`: native tool calls, text piece by piece, only what is new sent.
   * Measured with 1.18.34; of other versions it is tried first whether they keep what is written into their sessions; `LIVE_UNSUPPORTED`
   * names what they don't. `"print"`: one process per call. `"auto"`: live where the installed version is known to do that and the other
   * options allow it, print otherwise. Default: `"auto"`. See docs/concepts/engines.md, "Which engine".
   */
  engine?: "print" | "live" | "auto" | undefined;
  /**
   * Live engine: how long, in ms, a conversation is kept for its next call, and the process (400 MB and more) for any. 0: not at all.
   * Default: 60000; 300000 with `engine: "live"`.
   */
  keepAlive?: number | undefined;
}

/**
 * The opencode CLI as a model, with the user's login: one process for all conversations (`opencode serve`) where the installed version is
 * known to serve that, else, or with `engine: "print"`, one per call without memory (`opencode run`). Measured with 1.18.34.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createOpenCodeCliProvider(options?: OpenCodeCliProviderOptions): CliProvider;

/** A model API of one's own that the copilot CLI asks in place of GitHub's: no GitHub login is needed, and no plan is charged. */
export interface CopilotModelApi {
  /** What it speaks. `"azure"`: the resource's address. Default: `"openai"`, which most servers speak. */
  readonly type?: "openai" | "azure" | "anthropic" | undefined;
  /** Its address: `"http://127.0.0.1:11434/v1"`. */
  readonly baseUrl: string;
  /** Its key. It is in no error and in no run log. Default: none, whatever the environment says of another API. */
  readonly apiKey?: string | undefined;
  /** Which of OpenAI's protocols. Default: `"completions"`. */
  readonly wireApi?: "completions" | "responses" | undefined;
  /** The model, where the option `model` names none. One of the two is needed. */
  readonly model?: string | undefined;
}

/** Options of {@link createCopilotCliProvider}. */
export interface CopilotCliProviderOptions extends CliProviderOptions {
  /**
   * The system prompt, in place of our short one. In print form it stands behind 7 KB of Copilot's own; `null` means those alone. With the CLI's own tools on, one makes it run in a home without the user's settings.
   */
  systemPrompt?: string | null | undefined;
  /** Whether the CLI's own tools, instructions, hooks and MCP servers are off. Default: `true`. */
  disableBuiltInTools?: boolean | undefined;
  /** A model API of one's own. Default: GitHub's, or what the variables `COPILOT_PROVIDER_*` say. */
  provider?: CopilotModelApi | undefined;
  /**
   * `"live"` serves all conversations with one process, `copilot --headless`: our system prompt alone, native tool calls whose arguments come
   * piece by piece, usage of each response. Measured with 1.0.102; of other versions, those that speak the same protocol. `"print"`: one
   * process per call, with 7 KB of Copilot's own instructions. `"auto"`: live where the installed version is known to do that and the other
   * options allow it, print otherwise. Default: `"auto"`. See docs/concepts/engines.md, "Which engine".
   */
  engine?: "print" | "live" | "auto" | undefined;
  /**
   * Live engine: how long, in ms, a conversation whose calls wait is kept for their results, and the process (260 MB) for any call. 0: not at
   * all. Default: 60000; 300000 with `engine: "live"`.
   */
  keepAlive?: number | undefined;
}

/**
 * The GitHub Copilot CLI as a model, with the user's login: one process for all conversations (`copilot --headless`) where the installed
 * version is known to serve that, else, or with `engine: "print"`, one per call without memory. Measured with 1.0.102, over model APIs of one's own; not with a login: what a
 * plan is charged for a call is not known here.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createCopilotCliProvider(options?: CopilotCliProviderOptions): CliProvider;

/** A CLI as data (CLI-ADAPTER-PROTOCOL, "Adding New Providers"): `command defaultArgs modelArgs`, and the prompt. */
export interface CliProviderConfig {
  /** What it is called in events and errors: letters, digits, `-`, `_`, `.`. That of a provider we have gets its error rules. */
  readonly providerId: string;
  /** The program: a command found in `PATH`, or a path. */
  readonly command: string;
  /** What it always gets. */
  readonly defaultArgs: readonly string[];
  /**
   * What it prints: the answer alone; one JSON value with the answer in `content`, `text`, `response`, …; or JSON lines, the
   * events of CLI-ADAPTER-PROTOCOL and claude's included.
   */
  readonly outputFormat: "text" | "json" | "stream-json";
  /** How it gets the prompt: over standard input, or as its last argument (visible in `ps`, 128 KiB at most on Linux). */
  readonly promptStyle: "stdin" | "arg";
  /** The models the option `model` may name. Default, and `[]`: any. */
  readonly models?: readonly { readonly modelId: string; readonly name: string }[];
  /** The model where `model` is not given: one of `models`, if there are any. Without either no model is passed to the CLI. */
  readonly defaultModel?: string;
  /** How many tokens an answer may have. For those who choose between providers: it is not passed to the CLI. */
  readonly maxTokens: number;
  /** How long one run may take, ms; 0 for no limit. The option `timeout` wins. */
  readonly timeout: number;
  /** Environment variables, merged over the process's own; `undefined` takes one away. The option `env` wins. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** What its error texts mean, asked in order and before our own rules. */
  readonly errorRules?: readonly CliErrorRule[] | undefined;
  /** What makes it print its version. Default: `["--version"]`. */
  readonly versionArgs?: readonly string[] | undefined;
  /** The arguments that pass the model: `{model}` stands for it, or it comes last. Default: it is not passed. */
  readonly modelArgs?: readonly string[] | undefined;
}

/** What an error text of a CLI means. */
export type CliErrorRule = {
  /** A regular expression without look-around, case ignored. Of a `RegExp`, the source counts. */
  readonly pattern: string | RegExp;
  /** What to do about it. Default: the code's own advice. */
  readonly hint?: string | undefined;
} & (
  | { readonly code: ProviderErrorCode; readonly category?: undefined }
  | { readonly category: ErrorCategory; readonly code?: undefined }
);

/** Options of {@link createAcpProvider}. */
export interface AcpProviderOptions extends Omit<CliProviderOptions, "cliPath" | "engine"> {
  /** The program that is the agent, looked up on PATH, or its path: `"kimi"`. */
  readonly command: string;
  /** Its arguments, those that make it speak the protocol included: `["acp"]`. Default: none. */
  readonly args?: readonly string[] | undefined;
  /** What it is called in events and errors: letters, digits, `-`, `_`, `.`. Default: `"acp"`. */
  readonly name?: string | undefined;
  /**
   * `"live"`: sessions are kept, and sent what is new; the agent calls your tools by MCP, which it has to take over HTTP. `"warm"`: each call
   * has a session of its own, which is sent all of the thread, and your tools are asked for in words. `"auto"`: kept sessions, and one of its
   * own for a call with tools where the agent takes no such servers, or `cwd` is given. Default: `"auto"`.
   */
  engine?: "live" | "warm" | "auto" | undefined;
  /** How long a session or a process without a call is kept, ms; 0 ends it with its call. Default: 300,000. */
  keepAlive?: number | undefined;
}

/**
 * Any agent that speaks the Agent Client Protocol (version 1) as a model: one process for many calls. It is an agent that answers: its
 * instructions and its tools stay its own (a health report says `pure: false`). It is given no files, no terminal, and no permission but to
 * call the tools that you have bound. `model` and `reasoning.effort` are told to its sessions where it offers a choice of them.
 *
 * @throws {ProviderError} `INVALID_CONFIG` for what starts it; `INVALID_OPTION` for an option that is unknown or ill-typed.
 */
export function createAcpProvider(options: AcpProviderOptions): CliProvider;

/** Options of {@link createCliProvider}. */
export interface CustomCliProviderOptions extends CliProviderOptions {
  /** It has one engine: a process per call. See docs/concepts/engines.md, "Which engine". */
  engine?: "print" | undefined;
}

/**
 * A CLI of one's own as a model, described as data. It runs in an empty private folder unless `cwd` says otherwise.
 *
 * @throws {ProviderError} `INVALID_CONFIG` or `INVALID_OPTION`, naming the field, what was given and what is allowed.
 */
export function createCliProvider(config: CliProviderConfig, options?: CustomCliProviderOptions): CliProvider;
// ------------------------------------------------------------------------------------------------------ several as one

/** Options of {@link createFallbackProvider}. */
export interface FallbackProviderOptions {
  /** When a member that keeps failing is left alone for a while; `false` for never. Default: as {@link BreakerOptions} says. */
  breaker?: false | BreakerOptions | undefined;
  /**
   * Whether the next member is asked after a rate limit, too, once the attempts of the one that has it are used up or the wait is
   * longer than its `retry` allows. `false`: it ends the search, as its `shouldFallback` says. Default: `true`.
   */
  fallbackOnRateLimit?: boolean | undefined;
  /** A span around each call, with those of the members' own telemetry below it. See {@link Telemetry}. Default: `false`. */
  telemetry?: Telemetry | undefined;
}

/**
 * A member's circuit breaker. Closed: it is asked. Open: it is passed over. Half open, once its time is over: one call goes
 * to it, and closes the breaker or opens it again. A used-up quota opens it at once, until `resetsAt`. Only failures
 * after which the next member is asked count; aborts, and requests that are refused for what they are, don't.
 */
export interface BreakerOptions {
  /** So many failures in a row open it; 1 to 1000. Default: 5. */
  failureThreshold?: number | undefined;
  /** Failures older than this, in ms, are forgotten. Default: 600000. */
  windowMs?: number | undefined;
  /** How long it stays open, in ms; also, how long it waits for word of the one call it let through. Default: 30000. */
  resetMs?: number | undefined;
}

/**
 * Several providers as one. Everything is as in {@link CliProvider}, with each member asked in turn as long as
 * `shouldFallback` says that another may do better, and as long as the caller was given nothing of the failing one: no update,
 * no text and no tool call in a stream. An abort never moves on.
 */
export interface FallbackProvider<TMessage = AIMessage>
  extends Pick<
    CliProvider<TMessage>,
    "invoke" | "invokeWithUpdates" | "stream" | "close" | typeof Symbol.asyncDispose
  > {
  readonly id: "fallback";
  /** An adapter of its own, over the members' own adapters with these tools. Their breakers are shared. */
  bindTools(tools: readonly ToolInput[]): FallbackProvider<TMessage>;
}

/** Who answered, in `response_metadata.fallback` and in the reply of a stream's `done`. */
export interface FallbackMetadata {
  /** The member's `id`; for an adapter without one, its class name or `"adapter"`. */
  provider: string;
  /** Its place in the list, from 0. */
  index: number;
  /** Those before it, and why they did not answer. */
  skipped: { provider: string; code: ProviderErrorCode; message: string }[];
}

/**
 * One provider made of several, asked in this order: ours, or any object with `invoke` (an adapter that only has that is given
 * updates and events made of its answer, and is left, not cancelled, on an abort). An error that is no {@link ProviderError}
 * counts as `unknown`, which moves on.
 *
 * If none answers, the call rejects with one error: `code` is the last one's, `category` too unless they differ (then
 * `"unknown"`), `reasons` are all attempts of all members, and `cause` is an `AggregateError` of the members' errors. Where a
 * single member was asked, its own error comes through.
 *
 * @throws {ProviderError} `INVALID_OPTION` for an empty list, a member without `invoke`, or an option that is wrong.
 */
export function createFallbackProvider(
  adapters: readonly ModelAdapter[],
  options?: FallbackProviderOptions,
): FallbackProvider;

// ------------------------------------------------------------------------------------------------------------------ models

/** Options of {@link CliProvider.models}. */
export interface ModelsOptions {
  /** Aborting ends the wait for the list. */
  readonly signal?: AbortSignal | undefined;
}

/** A model that a login has. What its CLI or API does not tell is left out. */
export interface ProviderModel {
  /** The name that the option `model` takes: an alias (`"sonnet"`), a full name, or `"provider/model"` (opencode). */
  id: string;
  /** The name for people. */
  name?: string;
  /** The source's own words; with a key, claude's have the price. */
  description?: string;
  /** The model's full name, where `id` is an alias. */
  resolvesTo?: string;
  /** `true` for the one that answers where no `model` is chosen. */
  isDefault?: true;
  /** What `reasoning.effort` may be. */
  efforts?: string[];
  /** The effort that counts where none is chosen. */
  defaultEffort?: string;
  /** Whether it takes `reasoning: "off"`, where that is none of its efforts (claude 2.1.332). */
  reasoningOff?: boolean;
  /** What `serviceTier` may be beside the usual tier, as codex lists it: it sends `"flex"` of any model as well (from 0.169). */
  serviceTiers?: string[];
  /** What `speed` may be (claude). Not every login has the fast mode of a model. */
  speeds?: ("fast" | "standard")[];
  /** What the model takes: `"text"`, `"image"`, `"pdf"`, `"audio"`, … */
  inputModalities?: string[];
  /** The limit of a request and its answer together, in tokens. */
  contextWindow?: number;
  /** The limit of an answer, in tokens. */
  maxOutputTokens?: number;
  /** US dollars for a million tokens. */
  price?: { input?: number; output?: number; cacheRead?: number; cacheWrite?: number };
}

// ------------------------------------------------------------------------------------------------------------------ health

/**
 * How far to look; each level includes those before it. `"command"`: is the program there (nothing is started). `"version"`:
 * which version is it. `"auth"`: is it logged in, where the CLI can tell (claude, codex). `"request"`: does it answer; one
 * tiny request, which is billed like any other and may take 60 s.
 */
export type HealthLevel = "command" | "version" | "auth" | "request";

/** Options of {@link CliProvider.health} and {@link checkHealth}. */
export interface HealthOptions {
  /** How far to look. Default: `"auth"`. */
  readonly level?: HealthLevel | undefined;
  /** Aborting ends what the look has started; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** How a provider is. A command of the CLI that takes longer than 20 s is ended and counts as no answer. */
export interface HealthReport {
  /** The provider's id. */
  provider: string;
  /** Whether the program is there, on the `PATH` its runs have or where its installers put it, and can be executed. */
  installed: boolean;
  /** The file that would be executed. */
  path?: string;
  /** Where it is not there: the places beside `PATH` that were searched, and the files there that may be another user's. */
  searched?: string[];
  /** The version it says it has. */
  version?: string;
  /** Whether that is one of the versions this package was measured with. */
  versionTested?: boolean;
  /**
   * Whether the CLI says that it is logged in; `"unknown"` where it was not asked or can't tell. A CLI does not ask its API
   * for that, so an expired login may count as one, and codex does not count the key of a model provider of your own. An
   * answer, or its refusal, at level `"request"` settles it.
   */
  authenticated: boolean | "unknown";
  /** The folder of its login, where the option `login` names one. */
  login?: string;
  /**
   * Which kind of login is in effect, where the CLI tells (claude, codex), and of an API with a key; `why` says how that is known, in
   * words and without a secret. `"plan"`: the vendor's, of a person or a company. `"key"`: a key of its API. `"gateway"`: somebody between,
   * that is a cloud (Bedrock, Vertex, Foundry) or the server that a base URL names (`ANTHROPIC_BASE_URL`), whatever the CLI has beside it.
   */
  signedInBy?: { kind: "plan" | "key" | "gateway"; why: string };
  /**
   * Which engine the next call will use and why, in words; only of a CLI that has more than one. `"untried"`: nothing is known of the
   * file, so the first call tries the handshake for 2 s at most.
   */
  engine?: { uses: "print" | "live" | "warm" | "untried"; why: string };
  /** Whether it has answered. Only at level `"request"`. */
  answering?: boolean;
  /** How the model was offered a tool that it called (codex's option `toolForm`). Only at level `"request"`, of codex with `engine: "live"`. */
  toolForm?: "functions" | "namespace";
  /**
   * `false` where it is no model alone, but an agent whose own tools may act: one of {@link createAcpProvider}, a CLI with
   * `disableBuiltInTools: false`, one of which no flag against its tools is known (glm, a CLI of one's own). Left out for a model.
   */
  pure?: false;
  /** What is wrong or worth knowing, in the order in which it was found. */
  problems: HealthProblem[];
  /** What each fact took, in ms. What was not asked is left out. */
  timingsMs: { command?: number; version?: number; auth?: number; request?: number };
}

/** Something wrong with a provider, or worth knowing. */
export interface HealthProblem {
  /**
   * The code of the error a call would fail with, or a code of health's own: `VERSION_NOT_MEASURED`; `VERSION_UNKNOWN` and
   * `LOGIN_UNKNOWN`, where the CLI was asked and gave no answer; `KEY_BEATS_LOGIN`, where an API key in the environment is
   * used and billed although there is a login; `LOGIN_ENDED`, where the vendor serves a kind of login no more that the CLI may have
   * (gemini's personal ones); `TOOL_FORM`, where codex's live engine needs another `toolForm`; `USER_SETTINGS`, for what the
   * user's settings of the CLI (claude's `~/.claude/settings.json`, codex's `config.toml`, …), or those of the machine's owner, set that
   * beats the environment or changes calls.
   */
  code:
    | ProviderErrorCode
    | (
        | "VERSION_NOT_MEASURED"
        | "VERSION_UNKNOWN"
        | "LOGIN_UNKNOWN"
        | "KEY_BEATS_LOGIN"
        | "LOGIN_ENDED"
        | "TOOL_FORM"
        | "USER_SETTINGS"
      );
  /** `"error"`: calls will fail. `"warning"`: they may go well. */
  severity: "error" | "warning";
  /** What is wrong. */
  message: string;
  /** What to do about it. */
  hint: string;
}

/**
 * The health of several providers, a few at a time. Reports come in the order of the providers.
 *
 * @param providers whose. Default: one of each built-in kind, with default options.
 * @throws {ProviderError} `INVALID_OPTION` for something that has no `health`, and as {@link CliProvider.health}.
 */
export function checkHealth(
  providers?: readonly Pick<CliProvider<unknown>, "health">[],
  options?: HealthOptions,
): Promise<HealthReport[]>;

// --------------------------------------------------------------------------------------------------- updates and events

/**
 * What `invokeWithUpdates` tells. Errors are no update: the call rejects. That a call waits for its plan is told by `stream()`. There
 * will be no further kinds: agents that declare these as their own take our providers.
 */
export type InvokeUpdate =
  /** A message of the model, whole: trimmed, not empty, tool calls taken out. */
  | { type: "assistant_message"; content: string }
  /** The model calls a tool that is the caller's to run. Calls that the CLI runs itself are no updates. */
  | { type: "tool_call"; toolCall: ToolCall }
  /** Tokens used so far. */
  | { type: "usage"; usage: UpdateUsage; rawStopReason?: string }
  /** The end: last update, once. `content` is that of an `assistant_message` reported before; without text there is none. */
  | { type: "final"; content?: string; usage?: UpdateUsage; rawStopReason?: string };

/** What an agent hears of any {@link ModelAdapter}: an {@link InvokeUpdate}, or the error that an adapter of its own is about to throw. */
export type ModelInvocationUpdate = InvokeUpdate | { type: "error"; error: string; rawStopReason?: string };

/** The agent's name of {@link ToolCall}, as a `tool_call` update has it. */
export type ModelInvocationToolCall = ToolCall;

/** Token counts of an update. They mean the same as those of `usage_metadata`. */
export interface UpdateUsage {
  /** Everything the model read, cache reads and writes included. */
  inputTokens: number;
  /** Everything it wrote, reasoning included. */
  outputTokens: number;
  /** The sum of both. */
  totalTokens: number;
  /** Of the input: read from the prompt cache. */
  cacheReadTokens?: number;
  /** Of the input: written into the prompt cache. */
  cacheWriteTokens?: number;
}

/** Token counts of an event, a reply or an error. */
export interface TokenUsage extends UpdateUsage {
  /** Of the output: reasoning. */
  reasoningTokens?: number;
  /** Of `cacheWriteTokens`: kept for five minutes. Absent where nothing was, or the provider does not tell (claude does). */
  cacheWrite5mTokens?: number;
  /** Of `cacheWriteTokens`: kept for an hour. Absent where nothing was, or the provider does not tell (claude does). */
  cacheWrite1hTokens?: number;
  /** Share of the input that was read from the prompt cache, 0 to 1 in thousandths: `cacheReadTokens` of `inputTokens`. */
  cacheHitShare?: number;
  /** `true` where the provider reported nothing and the counts are a quarter of the characters. */
  estimated?: true;
}

/** What `stream` yields. New kinds may be added: ignore what you don't know. */
export type ProviderEvent =
  /**
   * The process is on its way. First event of every attempt; `attempt` counts from 1, `queuedMs` is the wait for a place. Of a CLI: which
   * `engine` makes it and, of a live one, how its session knows the thread (`session`, `continued`), as in {@link RunInfo}.
   */
  | {
      type: "start";
      runId: string;
      provider: string;
      pid?: number;
      attempt: number;
      queuedMs: number;
      engine?: "print" | "live" | "warm";
      continued?: boolean;
      session?: RunInfo["session"];
    }
  /** The CLI identified itself. */
  | { type: "session"; sessionId?: string; model?: string; permissionMode?: string; version?: string }
  /**
   * A piece of the answer, verbatim. The pieces of a message, joined, are the message; those of a response that broke off, and that
   * the CLI asked for again, belong to none.
   */
  | { type: "text_delta"; messageId?: string; text: string }
  /** A piece of the model's reasoning. */
  | { type: "thinking_delta"; messageId?: string; text: string }
  /** A message of the model, whole and verbatim. */
  | { type: "message"; id?: string; content: string }
  /**
   * A piece of the arguments of a call that the model is writing, as JSON text; joined, the pieces of a call are its arguments as the model
   * wrote them. The `tool_call` of this id comes later, and only it is a call: where an answer breaks off, or the arguments can't be read,
   * there is none. Of claude's live engine and of APIs that stream, for tools of the caller's; other CLIs tell arguments whole (codex 0.169.0,
   * qwen 0.24.4). Not where the pieces of texts are left out, and not in run logs.
   */
  | { type: "tool_call_delta"; toolCallId: string; name: string; delta: string }
  /** The model calls a tool. It is the caller's to run unless a `tool_result` follows: `reply.toolCalls` has those that are. */
  | { type: "tool_call"; toolCall: ToolCall }
  /** What was meant as a tool call and can't be read as one: in a text, or a native one with arguments that are not JSON. */
  | { type: "invalid_tool_call"; invalidToolCall: InvalidToolCall }
  /** The CLI ran a tool of its own, and this came back. A call with a result is not the caller's to run. */
  | { type: "tool_result"; toolCallId: string; content: string; isError: boolean }
  /** Tokens used so far. */
  | { type: "usage"; usage: TokenUsage; rawStopReason?: string }
  /** A subscription's limit: `"allowed"`, `"allowed_warning"` or `"rejected"`; `resetsAt` is ms since the epoch, `utilization` 0 to 1. */
  | { type: "rate_limit"; status: string; resetsAt?: number; limitType?: string; utilization?: number }
  /**
   * It is tried again, by the CLI itself or by this package; `attempt` counts the further ones from 1, `delayMs` is the wait before.
   * By `"provider"`: messages and pieces before it are not the answer's. So is a reply asked for again that does not fit its
   * {@link InvokeOptions.outputSchema}.
   */
  | {
      type: "retry";
      by: "cli" | "provider";
      attempt: number;
      maxAttempts?: number;
      delayMs: number;
      reason: string;
      httpStatus?: number;
    }
  /** The plan is used up, and the call waits until this moment, in ms since the epoch. Only with `quota: { wait: true }`. */
  | { type: "waiting"; until: number; reason: string }
  /** A member of a {@link FallbackProvider} did not answer, or was not asked; the next is asked now. */
  | { type: "fallback"; provider: string; index: number; code: ProviderErrorCode; message: string }
  /** Something to know that is no failure. */
  | { type: "warning"; code: string; message: string }
  /** The run succeeded. Last event. */
  | { type: "done"; reply: ProviderReply }
  /** Output of a kind that is not known, as it came. */
  | { type: "other"; kind: string; raw: unknown };

/** All that a run came to. What the CLI did not tell is left out. */
export interface ProviderReply {
  /** The answer: the last message, trimmed, tool calls taken out. */
  content: string;
  /** All messages of the model, in order, tool calls taken out. */
  messages: { id?: string; content: string }[];
  /** Calls for the caller to run. */
  toolCalls: ToolCall[];
  /** What looked like calls and could not be read. */
  invalidToolCalls: InvalidToolCall[];
  /** The answer as a value that fits {@link InvokeOptions.outputSchema}, or the schema of a flag among `extraArgs`. */
  structured?: unknown;
  /** The model's reasoning: its `thinking_delta`s, joined. */
  thinking?: string;
  /** The same block by block, with what only its API can read: signatures, encrypted reasoning. */
  reasoning?: ReasoningDetail[];
  /** Tokens, measured or estimated. */
  usage: TokenUsage;
  /** The API's id of the last message. */
  messageId?: string;
  /** The model that answered. */
  model?: string;
  /** The CLI's id of the session. */
  sessionId?: string;
  /** Why the model stopped, in the provider's words. */
  stopReason?: string;
  /** The CLI's permission mode. */
  permissionMode?: string;
  /** The CLI's version. */
  cliVersion?: string;
  /** US dollars, as the CLI estimates them. */
  costUsd?: number;
  /** The CLI's own clock, ms. */
  durationMs?: number;
  /** Turns the CLI took. */
  numTurns?: number;
  /** Calls of tools of its own that the CLI did not permit (claude, qwen). */
  permissionDenials?: PermissionDenial[];
  /** claude live, from 2.1.330 on, where less than half of what was cached was found: the CLI's own words about it, in one line. */
  cacheMiss?: string;
  /** The service tier of the answer, where its API tells it; claude's where it is not the usual one. */
  serviceTier?: string;
  /** The speed of the answer, as claude's API tells it, where the fast mode was on. */
  speed?: string;
  /** Output that was no event. */
  diagnostics?: string[];
  /** Only from a {@link FallbackProvider}: who gave it, and why others did not. */
  fallback?: FallbackMetadata;
  /** Which run it was, and when things happened in it. */
  run?: RunInfo;
}

/**
 * A block of a model's reasoning, as an object of OpenRouter's `reasoning_details`. `signature` and `data` are sealed: they mean something
 * to the API alone that gave them, and go back to it with the message (docs/reference/providers.md).
 */
export type ReasoningDetail = {
  /** By what its API knows it again. */
  id?: string | null;
  /** Whose it is: `"anthropic-claude-v1"`, `"openai-responses-v1"`, or what a server says. */
  format?: string | null;
  /** A server's own count of its blocks. */
  index?: number;
} & (
  | { type: "reasoning.text"; text: string; signature?: string | null }
  | { type: "reasoning.summary"; summary: string }
  | { type: "reasoning.encrypted"; data: string }
);

/** Which run it was, and when things happened in its last attempt. Times are ms; what is not known is left out. */
export interface RunInfo {
  /** The run's id, as in the `start` event. */
  id: string;
  /** The process's id; it may be another process's by now. */
  pid?: number;
  /** Which engine of a CLI made the call; in an error, that of the last attempt. Missing where none was made. */
  engine?: "print" | "live" | "warm";
  /** The CLI's file, as it was found; missing for an API. */
  cliPath?: string;
  /** The folder of the login that served it, where the option `login` names one. */
  login?: string;
  /** Waiting for a free place, before the start. */
  queuedMs?: number;
  /** What starting the process took. */
  spawnMs?: number;
  /** From the process's start to its first byte of standard output. */
  firstByteMs?: number;
  /** From the process's start to the first event read from it. */
  firstEventMs?: number;
  /** From the process's start to its exit. */
  exitMs?: number;
  /** Live engine: whether the process knew the thread's beginning. Times count from the call's beginning then. */
  continued?: boolean;
  /**
   * Live engine: how the session knows the thread. `"new"`: there was no reply yet. `"continued"`: it was there from the beginning.
   * `"restored"`: another session got the thread in messages of the CLI's own, as if it had been there. `"replayed"`: another session
   * was told the thread as text.
   */
  session?: "new" | "continued" | "restored" | "replayed";
  /** Live engine: what all answers of the CLI's session have used so far, this one included. */
  sessionUsage?: TokenUsage;
}

/** An `AIMessage` as plain data: what `deep-factor-providers/native` answers. It can be sent back in a thread as it is. */
export interface AIMessageJson {
  type: "ai";
  /** The API's id of the message. */
  id?: string;
  /** The answer's text, tool calls taken out. */
  content: string;
  /** Calls for the caller to run. */
  tool_calls: ToolCall[];
  /** What looked like calls and could not be read. */
  invalid_tool_calls: { type: "invalid_tool_call"; name?: string; args: string; id?: string; error: string }[];
  /** Tokens; `input_tokens` includes cache reads and writes. */
  usage_metadata: {
    input_tokens: number;
    output_tokens: number;
    total_tokens: number;
    input_token_details?: {
      cache_read?: number;
      cache_creation?: number;
      /** Of `cache_creation`: kept for five minutes. */
      ephemeral_5m_input_tokens?: number;
      /** Of `cache_creation`: kept for an hour. */
      ephemeral_1h_input_tokens?: number;
    };
    output_token_details?: { reasoning?: number };
  };
  /** What is known of the run. */
  response_metadata: ProviderResponseMetadata;
  /** The model's reasoning, where it showed any: the text, and the blocks. `content` never holds any of it. */
  additional_kwargs: { reasoning_content?: string; reasoning_details?: ReasoningDetail[] };
}

// ------------------------------------------------------------------------------------------------------------------ errors

/** The ten categories of CLI-ADAPTER-PROTOCOL. They decide `shouldRetry` and `shouldFallback`. */
export type ErrorCategory =
  | "quota"
  | "rate_limit"
  | "authentication"
  | "validation"
  | "network"
  | "server"
  | "timeout"
  | "not_found"
  | "configuration"
  | "unknown";

/** Finer than the category and stable: programs may match on it. */
export type ProviderErrorCode =
  /** The account's credit is used up. */
  | "CREDIT_EXHAUSTED"
  /** A session, weekly or plan limit is reached; it resets at a known time. */
  | "USAGE_LIMIT"
  /** The API says that a quota is exceeded. */
  | "QUOTA_EXCEEDED"
  /** The provider's option `budget` is used up until `resetsAt`; nothing was started. */
  | "BUDGET_EXCEEDED"
  /** Too many requests just now. */
  | "RATE_LIMITED"
  /** The service has no capacity just now. */
  | "OVERLOADED"
  /** The CLI has no login and no key. */
  | "NOT_LOGGED_IN"
  /** The login is expired or revoked. */
  | "TOKEN_EXPIRED"
  /** The API key is refused. */
  | "INVALID_API_KEY"
  /** The account may not do this. */
  | "PERMISSION_DENIED"
  /** The credentials are refused. */
  | "AUTHENTICATION_FAILED"
  /** The API refuses the request. */
  | "INVALID_REQUEST"
  /** The thread is longer than the model's context. */
  | "CONTEXT_LENGTH"
  /** The request has more bytes than are accepted. */
  | "REQUEST_TOO_LARGE"
  /** The prompt does not fit the way it is handed to the CLI. */
  | "PROMPT_TOO_LONG"
  /** There is nothing to send. */
  | "EMPTY_PROMPT"
  /** The CLI took the prompt for a command of its own. */
  | "PROMPT_INTERCEPTED"
  /** The messages can't be read. */
  | "INVALID_MESSAGES"
  /** A message holds an image, a file or another block that the provider can't take; nothing was started. Falls back. */
  | "UNSUPPORTED_CONTENT"
  /** An option asks for what the provider can't do; nothing was started. Falls back. */
  | "UNSUPPORTED_OPTION"
  /** The model did not make the call that `toolChoice` asks for. Falls back. */
  | "TOOL_CHOICE_UNMET"
  /** A tool can't be bound. */
  | "INVALID_TOOL"
  /** The model's safeguards refused. */
  | "REFUSAL"
  /** The answer hit the output limit. */
  | "MAX_TOKENS"
  /** The CLI's own limit of turns is reached. */
  | "MAX_TURNS"
  /** The CLI's own limit of cost is reached. */
  | "BUDGET_EXHAUSTED"
  /** The file is not a run log, or of a newer version. */
  | "INVALID_RUN_LOG"
  /** The run log has no reply: it ends before the run did. */
  | "RUN_LOG_INCOMPLETE"
  /** The API can't be reached. */
  | "CONNECTION_FAILED"
  /** The connection broke in the middle. */
  | "CONNECTION_LOST"
  /** The provider's side failed. */
  | "SERVER_ERROR"
  /** What came back is not what the protocol says. */
  | "MALFORMED_RESPONSE"
  /** The reply does not fit the schema that was asked for, also when asked once more. */
  | "OUTPUT_INVALID"
  /** The CLI ended well and said nothing. */
  | "EMPTY_RESPONSE"
  /** The CLI died, by a signal or with output cut short. */
  | "CRASHED"
  /** The wall-clock limit passed. */
  | "TIMEOUT"
  /** Nothing came for too long. */
  | "IDLE_TIMEOUT"
  /** The CLI gave up waiting for the API. */
  | "REQUEST_TIMEOUT"
  /** The CLI is not installed, or not where it was said to be. */
  | "CLI_NOT_FOUND"
  /** The model does not exist or is not yours to use. */
  | "MODEL_NOT_FOUND"
  /** Something that was asked for does not exist. */
  | "NOT_FOUND"
  /** A limit of the agent's run is reached. */
  | "AGENT_LIMIT"
  /** The model gave no plan, though one was required. */
  | "PLANNER_OUTPUT_MISSING"
  /** The model gave no report, though one was required. */
  | "COMPLETION_REPORT_MISSING"
  /** Another process is at work on the run of that id. */
  | "RUN_LOCKED"
  /** The checkpoint is of a run with other options. */
  | "CHECKPOINT_MISMATCH"
  /** The checkpoint can't be read, or is of a newer version. */
  | "CHECKPOINT_INVALID"
  /** The checkpoint's store failed: the run does not go on unrecorded. */
  | "CHECKPOINT_FAILED"
  /** A function of the caller's threw. */
  | "CALLBACK_FAILED"
  /** An option is unknown, ill-typed or contradicts another. */
  | "INVALID_OPTION"
  /** The CLI's file can't be executed. */
  | "CLI_NOT_EXECUTABLE"
  /** The program that the CLI's first line names is missing. */
  | "INTERPRETER_NOT_FOUND"
  /** The working folder does not exist. */
  | "CWD_NOT_FOUND"
  /** The operating system refused to start the CLI. */
  | "SPAWN_FAILED"
  /** The installed CLI does not know a flag that is needed. */
  | "UNSUPPORTED_FLAG"
  /** The CLI does not trust the working folder. */
  | "UNTRUSTED_WORKSPACE"
  /** The CLI's own configuration is wrong. */
  | "INVALID_CONFIG"
  /** What the Claude Code adapter was called with is wrong; `problems` lists it by field. */
  | "CLAUDE_INVALID_CONFIG"
  /** The installed CLI takes no live sessions. */
  | "LIVE_UNSUPPORTED"
  /** The CLI did not come for the tools it was to call. */
  | "CALLBACKS_UNAVAILABLE"
  /** The CLI printed more than maxBuffer bytes. */
  | "OUTPUT_LIMIT"
  /** The provider was closed. */
  | "CLOSED"
  /** A bug of this package. */
  | "INTERNAL"
  /** The CLI failed and gave no reason that is known. */
  | "UNKNOWN";

/** What a {@link ProviderError} carries besides its message. What is not known is left out. */
export interface ProviderErrorFields {
  /** The category, which decides about trying again. */
  readonly category: ErrorCategory;
  /** The stable code. */
  readonly code: ProviderErrorCode;
  /** The provider's id; empty where none was involved (messages, tools or options that can't be read). */
  readonly provider: string;
  /** Whether the same provider may be asked again. */
  readonly shouldRetry: boolean;
  /** Whether another provider may do better. */
  readonly shouldFallback: boolean;
  /** What to do about it. */
  readonly hint?: string;
  /** Wait this long before trying again, ms. */
  readonly retryAfterMs?: number;
  /** When a limit ends. */
  readonly resetsAt?: Date;
  /** The CLI's exit code. */
  readonly exitCode?: number;
  /** The signal the CLI died of, `"SIGKILL"`. */
  readonly signal?: string;
  /** HTTP status of the API's answer, as the CLI reports it. */
  readonly httpStatus?: number;
  /** The end of what the CLI printed. */
  readonly stdoutTail?: string;
  /** Head and tail of what the CLI printed as errors. */
  readonly stderrTail?: string;
  /** What had arrived when it failed. */
  readonly partial?: PartialReply;
  /** Tokens that were used all the same. */
  readonly usage?: TokenUsage;
  /** How many attempts were made; 0 if the call was refused before any. */
  readonly attempts: number;
  /** Why each attempt failed. */
  readonly reasons: readonly AttemptFailure[];
  /**
   * Where several fields of what was given may be wrong (`CLAUDE_INVALID_CONFIG`): all that are. Where a CLI was found nowhere
   * (`CLI_NOT_FOUND`): each place beside `PATH` that was searched, with what is there.
   */
  readonly problems?: readonly { readonly field: string; readonly message: string }[];
  /** The run's id, as in the `start` event. */
  readonly runId?: string;
  /** Which run it was, and when things happened in its last attempt. */
  readonly run?: RunInfo;
}

/** What a {@link ProviderError} is made of: its fields, with `resetsAt` in any form `new Date` reads. */
export interface ProviderErrorInit extends Omit<ProviderErrorFields, "resetsAt" | "attempts" | "reasons"> {
  /** For people: the reason first, then what to do. */
  readonly message: string;
  /** When a limit ends: a date, ms since the epoch, or an ISO string. */
  readonly resetsAt?: Date | number | string;
  /** Default: 0. */
  readonly attempts?: number;
  /** Default: none. */
  readonly reasons?: readonly AttemptFailure[];
}

/** An error's cause as plain data. */
export interface ErrorCause {
  name: string;
  message: string;
  /** Of an `AggregateError`: what it holds. */
  errors?: (ErrorCause | string)[];
}

/** What had arrived when a run failed. */
export interface PartialReply {
  /** The answer's text so far. */
  text: string;
  /** How many events had come. */
  events: number;
  /** Tokens, if the CLI had reported any. */
  usage?: TokenUsage;
}

/** Why one attempt failed. */
export interface AttemptFailure {
  /** Whose attempt, where several providers were asked. */
  provider?: string;
  /** Which attempt, from 1; 0 for a provider that was not asked because its breaker was open. */
  attempt: number;
  /** Its code. */
  code: ProviderErrorCode;
  /** Its message. */
  message: string;
}

/**
 * Everything that goes wrong, except an abort. One class, whichever way the package was loaded; {@link ProviderError.isInstance}
 * knows those of other copies of the package, too. `message` is complete in itself: at most 480 characters, reason first.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the constructor sets every field
export class ProviderError extends Error {
  constructor(init: ProviderErrorInit, options?: { cause?: unknown });
  /** Whether `value` is a ProviderError of any copy of this package. */
  static isInstance(value: unknown): value is ProviderError;
  readonly name: "ProviderError";
  /** All of it as plain data, for logs: `new ProviderError(JSON.parse(JSON.stringify(error)))` says the same again. */
  toJSON(): ProviderErrorFields & {
    name: "ProviderError";
    message: string;
    cause?: ErrorCause | string;
  };
}

export interface ProviderError extends ProviderErrorFields {}

/** What is known beside an error text. All of it is optional, and `null` is the same as nothing. */
export interface ErrorContext {
  /** Whose words they are (`"claude"`): its own wordings are looked for first. Default: those of all CLIs are. */
  provider?: string | null | undefined;
  /** The exit code. */
  exitCode?: number | null | undefined;
  /** The signal it died of, `"SIGTERM"`. */
  signal?: string | null | undefined;
  /** The HTTP status. */
  httpStatus?: number | null | undefined;
}

/** What an error text means. */
export interface ErrorClassification {
  category: ErrorCategory;
  code: ProviderErrorCode;
  shouldRetry: boolean;
  shouldFallback: boolean;
  /** Wait this long before trying again, ms. A rate limit always has it. */
  retryAfterMs?: number;
  /** When the limit ends. */
  resetsAt?: Date;
  /** The reason, in one line without keys or tokens, then what to do; at most 480 characters. */
  message: string;
}

/**
 * What an error text of a CLI or an API means: the verdicts of this package, for texts that came another way. The whole text is
 * taken for an error message, so don't ask about answers. Never throws, whatever the text is.
 *
 * @throws {ProviderError} `INVALID_OPTION`, by name, if `text` is no string or `context` is ill-typed.
 */
export function classifyError(text: string, context?: ErrorContext): ErrorClassification;

// ---------------------------------------------------------------------------------------------------- limits and records

/** What is known of the next call, for `prewarm`. */
export interface PrewarmOptions {
  /** The text of the thread's system messages; "" says that it has none. Default: what the last call had. */
  system?: string | undefined;
  /** The tools. Default: those that are bound, or those of the last call. */
  tools?: readonly ToolInput[] | undefined;
}

/** Options of `close`. */
export interface CloseOptions {
  /**
   * Lets the calls that run or wait end by themselves before everything is ended; further calls are refused with `CLOSED` from
   * now on, also the next turn of a `runAgent`. `close()` without it, called meanwhile, ends them. Default: false.
   */
  drain?: boolean | undefined;
}

/** What runs, waits and rests, of all providers of this process, worker threads included. */
export interface Limits {
  /** All together. `limit` is what the providers of this process may have, added up: the highest `maxConcurrency` of each CLI and API; at least 4. */
  processWide: { limit: number; running: number; waiting: number };
  /** By the CLI's file or the API's base URL, where any runs or waits. */
  perBinary: Record<string, { running: number; waiting: number }>;
  /** The CLIs' processes that are there now, in the order of their ids. */
  processes: ProcessStatus[];
  /** What each provider last said of each limit of its plan, also where that window is over. */
  rateLimits: RateLimitWindow[];
  /** What was used of the budgets that calls have asked of, in the order in which their providers were made. */
  budgets: BudgetStatus[];
}

/** What was used of a provider's {@link BudgetOptions} when it was last counted. */
export interface BudgetStatus {
  /** The provider's id, or `key NAME` of a gateway's key. */
  provider: string;
  per: "minute" | "hour" | "day";
  /** The file in which others count, too. What they have counted since is not in here. */
  store?: string;
  limits: { requests?: number; tokens?: number; costUsd?: number; plan?: number };
  requests: number;
  tokens: number;
  /** US dollars, as far as they are known. */
  costUsd: number;
  /** How many answers have told no cost. */
  callsWithoutCost: number;
  /** When the window ends, ms since the epoch; none where it had ended. */
  resetsAt?: number;
  /** When it was counted, ms since the epoch. */
  at: number;
}

/** A process of a CLI. */
export interface ProcessStatus {
  pid: number;
  /** The provider's id. */
  provider: string;
  engine: "print" | "live" | "warm";
  /**
   * `working`: a call is under way in it. `resting`: it keeps conversations for their next calls. `spare`: it is being started, or was
   * started ahead (`prewarm`, `spares`), and no call has reached it.
   */
  state: "working" | "resting" | "spare";
  /** When it was started, ms since the epoch. */
  startedAt: number;
  /** Resident memory, bytes; not known outside of Linux. */
  memoryBytes?: number;
  /** The CLI's ids of the conversations it has had, the latest last, at most 8. */
  conversations: string[];
  /** What all answers in it have used, as far as it was told: `cacheHitShare` is that of its conversations. */
  usage?: TokenUsage;
}

/** What a provider last said of a limit of its plan, as its `rate_limit` events do. */
export interface RateLimitWindow {
  /** The provider's id. */
  provider: string;
  /** The folder of the login whose plan it is, if the option `login` names one. */
  login?: string;
  /** `five_hour`, `seven_day`, …; not every provider names it. */
  limitType?: string;
  /** `allowed`, `allowed_warning` or `rejected`. */
  status: string;
  /** When the window ends, ms since the epoch. */
  resetsAt?: number;
  /** Share used, 0 to 1. */
  utilization?: number;
  /** When it was said, ms since the epoch. */
  at: number;
}

/** How much a record matters. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** What a {@link Logger} gets. Neither prompts nor environment values nor anything the model wrote is in it. */
export interface LogRecord {
  level: LogLevel;
  /** When, ms since the epoch. */
  time: number;
  /** What: `"started"`, `"first byte"`, `"ended"`, `"failed"`, `"tried again"`, …; one of few, the figures are in `fields`. */
  message: string;
  /** The provider's id. */
  provider: string;
  /** The run's id, as in the `start` event. */
  runId: string;
  /** The process's id. */
  pid?: number;
  /** Figures and names: `flags` (names only), `exitCode`, `exitMs`, `code`, …. */
  fields: Record<string, unknown>;
}

/**
 * Gets every record, as soon as there is one: a function, or an object with a method per level (`console`, winston's loggers).
 * pino's and bunyan's are called as they want it, `logger.info({ provider, runId, cliPid, fields }, message)`. What it throws is
 * dropped.
 */
export type Logger = ((record: LogRecord) => void) | Record<LogLevel, (record: LogRecord) => void>;

/** What runs, waits and rests now. A look at the memory of a process takes some 10 µs. */
export function limits(): Limits;

// ---------------------------------------------------------------------------------------------------------------- functions

/**
 * A thread as SPEC-01's `<thread>` XML, well-formed whatever the messages hold. A single message that begins with `<thread>`
 * comes back byte for byte, whatever follows; an adapter asks for more ({@link ThreadDocuments}). Content blocks are their JSON, as
 * SPEC-01 has it.
 *
 * @throws {ProviderError} `INVALID_MESSAGES`, naming the message and the field; `UNSUPPORTED_CONTENT` for bytes, which JSON has no
 * word for.
 */
export function messagesToXml(messages: readonly MessageInput[]): string;

/**
 * A thread as SPEC-01's labelled text: `[System]`, `[User]`, `[Assistant]`, `[Tool Result]`. Content blocks are their JSON. It has
 * no calls, and a text in it can look like further turns; what an adapter sends with `inputEncoding: "text"` is unambiguous
 * (docs/concepts/tool-calls.md).
 *
 * @throws {ProviderError} `INVALID_MESSAGES`, naming the message and the field; `UNSUPPORTED_CONTENT` for bytes.
 */
export function messagesToPrompt(messages: readonly MessageInput[]): string;

/** Options of {@link parseCliOutput}. */
export interface ParseCliOutputOptions {
  /** What the CLI was asked to print. */
  readonly format: "text" | "json" | "stream-json";
  /** Whose output it is, `"codex"`. Default: nobody's in particular, read as CLI-ADAPTER-PROTOCOL has it. */
  readonly provider?: string | undefined;
}

/** What a CLI's output comes to. What it does not tell is left out. */
export interface ParsedOutput {
  /** The answer: the last message, trimmed, tool calls taken out. Never from an error, a warning, an echo or a tool's result. */
  content: string;
  /** All messages of the model, in order, tool calls taken out. */
  messages: { id?: string; content: string }[];
  /** Calls for the caller to run. */
  toolCalls: ToolCall[];
  /** Tokens, as measured by the CLI. */
  usage?: TokenUsage;
  /** The model that answered. */
  model?: string;
  /** The CLI's id of the session. */
  sessionId?: string;
  /** Whether the output tells of a failure. */
  isError: boolean;
  /** The failure. */
  error?: ParsedOutputError;
  /** Whatever was odd about the output; at most 51. */
  diagnostics: string[];
  /** Lines that could not be read, counted from 1. */
  parseErrors: { line: number; message: string }[];
}

/** The failure that an output tells of. The fields mean the same as those of {@link ProviderError}. */
export interface ParsedOutputError {
  category: ErrorCategory;
  code: ProviderErrorCode;
  /** The reason, in the provider's words. */
  message: string;
  hint?: string;
  shouldRetry: boolean;
  shouldFallback: boolean;
  retryAfterMs?: number;
  resetsAt?: Date;
  httpStatus?: number;
}

/**
 * Reads what a CLI has printed on standard output. Never throws for what the text is: JSON that is none, cut or foreign lines
 * are `diagnostics`. Which tools were bound is not known here: calls in text are what {@link parseToolCalls} finds.
 *
 * @throws {ProviderError} `INVALID_OPTION` if `stdout` is no string or `options` are wrong.
 */
export function parseCliOutput(stdout: string, options: ParseCliOutputOptions): ParsedOutput;

/**
 * The tool calls a model wrote into its text as JSON, `[]` if there are none, quoted ones included: SPEC-01's. Ids that are
 * missing become `call_0`, `call_1`, ….
 *
 * @throws {ProviderError} `INVALID_OPTION` if `text` is no string.
 */
export function parseToolCalls(text: string): ToolCall[];

/**
 * `text` for XML content and attributes: `&`, `<`, `>`, `"` and `'` escaped, what XML 1.0 forbids replaced by U+FFFD.
 *
 * @throws {ProviderError} `INVALID_OPTION` if `text` is no string.
 */
export function escapeXml(text: string): string;

/**
 * `text` without the escape sequences that colour terminals.
 *
 * @throws {ProviderError} `INVALID_OPTION` if `text` is no string.
 */
export function stripAnsi(text: string): string;

/** Options of {@link execFileAsync}. */
export interface ExecFileOptions {
  /** How long the program may take, ms; 0 for no limit. Default: no limit. */
  timeout?: number | undefined;
  /** How many bytes it may print. Default: 1 MiB, as in Node. */
  maxBuffer?: number | undefined;
  /** The folder it runs in. Default: Node's. */
  cwd?: string | undefined;
  /** Merged over Node's own environment; `undefined` removes a variable. */
  env?: Record<string, string | undefined> | undefined;
}

/**
 * Runs a program, without a shell and off Node's thread, and resolves to what it printed. It gets no input, and is ended with
 * all its descendants when it takes too long.
 *
 * @throws {ProviderError} when it can't be started, exits with another code than 0, takes too long or prints too much.
 */
export function execFileAsync(file: string, args?: readonly string[], options?: ExecFileOptions): Promise<string>;

// --------------------------------------------------------------------------------------------------------------- telemetry

/**
 * Whether spans and metrics of runs go to OpenTelemetry (docs/reference/telemetry.md): `true` to whatever SDK is registered with
 * `@opentelemetry/api`, an optional peer that is loaded then and only then. Off, nothing is loaded and nothing is observed.
 *
 * @throws {ProviderError} `INVALID_OPTION` where an option is wrong, or the peer can't be loaded.
 */
export type Telemetry = boolean | TelemetryOptions;

/** Where telemetry goes, and what is in it. With a `tracer` or a `meter`, nothing is loaded, and only what is set is used. */
export interface TelemetryOptions {
  /** A `Tracer` of `@opentelemetry/api`: makes the spans. Default, without `meter` either: that of the registered SDK. */
  readonly tracer?: { startSpan(name: string): object; startActiveSpan(...args: never[]): unknown } | undefined;
  /** A `Meter` of `@opentelemetry/api`: makes the metrics. Default, without `tracer` either: that of the registered SDK. */
  readonly meter?: { createHistogram(name: string): object; createCounter(name: string): object } | undefined;
  /**
   * Whether prompts, answers, and arguments and results of tools are in the spans: not at all (`"none"`), without what looks like a
   * secret, as in a run log (`"redacted"`), or as they are (`"full"`). Default: `"none"`.
   */
  readonly content?: "none" | "redacted" | "full" | undefined;
  /** What the run's own agent is called in `invoke_agent {name}`. Not empty. Default: the provider's id. */
  readonly agentName?: string | undefined;
}

// --------------------------------------------------------------------------------------------------------------- the agent

/**
 * A tool that an agent's model may call, with what runs it: a LangChain tool, or a plain object with `execute`.
 *
 * The arguments have been checked against the schema. What it gives goes to the model: a string as it is; content blocks
 * (`{ type: "text" | "image" | … }[]`) and tool messages (`{ content, status }`) for what they are; nothing as an empty text; anything else
 * as JSON. What it throws goes to the model as an error, and is none of the run.
 */
export type AgentTool = PlainTool &
  ResumableTool &
  (
    | {
        /**
         * Runs it. `args` are what the schema says (of zod: what it makes of them, with its defaults), so they may be declared as such: `({ path }: { path: string }) => …` (a type,
         * not an interface).
         */
        execute(args: Record<string, unknown>, context: ToolContext): unknown;
      }
    | {
        /** LangChain's: called with the arguments and `{ signal }`. */
        invoke(args: never, config?: never): unknown;
      }
  );

/**
 * What becomes of a call of a tool that had begun and not ended when its run was interrupted. `"rerun"`: it runs once more, with the same
 * {@link ToolContext.idempotencyKey}. `"ask"`: `permissions.ask` is asked, with `interrupted: true`. `"fail"`: the model gets an error,
 * that it is unknown whether it happened.
 */
export type OnResume = "rerun" | "ask" | "fail";

/** What a resumed run has to know of a tool. */
export interface ResumableTool {
  /** Running it twice does what running it once does. Default: `false`. */
  readonly idempotent?: boolean | undefined;
  /** Default: `"rerun"` where it is `idempotent`, otherwise `"fail"`. */
  readonly onResume?: OnResume | undefined;
}

/** What a tool gets besides its arguments. */
export interface ToolContext {
  /** Aborted when nobody waits for the result any more: the run was cancelled, or has ended. */
  readonly signal: AbortSignal;
  /** The call's id. */
  readonly toolCallId: string;
  /** The run's id. */
  readonly runId: string;
  /**
   * Names this call, and the same call again when the run is resumed: `runId`, the step and the number of the call in it
   * (`job-7/2.1`). What takes such a key (a payment, a message queue) does it once.
   */
  readonly idempotencyKey: string;
}

/** One agent: a model, and what it may do. */
export interface AgentOptions {
  /**
   * What answers: a provider of this package, in any engine, or an adapter its `bindTools` made (whose bound tools do not count
   * here). Not a copy of one, not a {@link FallbackProvider}, not an adapter of one's own.
   */
  readonly provider: CliProvider<unknown>;
  /** What stands before the thread as a system message. Default: nothing. */
  readonly systemPrompt?: string | undefined;
  /** What the model may call. Default: nothing but the built-in tools that are on. */
  readonly tools?: readonly AgentTool[] | undefined;
  /** Who decides whether a call may run. Default: what is in `tools` may. */
  readonly permissions?: AgentPermissions | undefined;
  /** How far it may go. */
  readonly limits?: AgentLimits | undefined;
  /** Which way the model's calls come. Default: `"auto"`. */
  readonly toolCalls?: AgentToolCalls | undefined;
  /** The model of all its calls. This and what follows are as in {@link InvokeOptions}, and the provider's where they are not given. */
  readonly model?: string | undefined;
  /** How they think. */
  readonly reasoning?: ReasoningOptions | "off" | undefined;
  /** The most tokens each answer may have. */
  readonly maxOutputTokens?: number | undefined;
  /** Texts before which each answer ends. */
  readonly stop?: readonly string[] | undefined;
  /** From 0 to 2. */
  readonly temperature?: number | undefined;
  /** Whether its model may search the web by itself: no permission is asked for a search, and no limit counts it. */
  readonly webSearch?: boolean | undefined;
  /** How the API serves its answers. */
  readonly serviceTier?: string | undefined;
  /** Whether its model answers in the fast mode. */
  readonly speed?: "fast" | "standard" | undefined;
  /** What becomes of choices that can't be had. */
  readonly onUnsupported?: OnUnsupported | undefined;
}

/**
 * Which way a model's calls come.
 *
 * - `"turns"`: the model ends its turn with the calls it makes, and is asked again with all their results. Every provider can
 *   do that.
 * - `"callbacks"`: the CLI calls the tools itself in the middle of one run, over a server on 127.0.0.1 (see docs/reference/mcp-bridge.md),
 *   and hears of each result as soon as it is there. codex, gemini (without `cwd`), qwen, and claude, which then runs in print
 *   form, unless its `engine` is `"live"`. With any other provider it is an `INVALID_OPTION`. The CLI's run counts as running
 *   for `maxConcurrency` while a tool is at work; an agent it hands a task to takes turns with it in that one place, if no other
 *   is free.
 * - `"auto"`: turns of a live engine; callbacks for gemini, and for codex and qwen where they are asked in print form; turns for all
 *   others, and for every run with a `checkpoint`.
 */
export type AgentToolCalls = "auto" | "turns" | "callbacks";

/**
 * Whether a call of the caller's tools may run. `deny` wins over everything, `allow` over `ask`. Where `allow` is given, what it
 * does not name is asked about, or denied where there is no `ask`. A denied call is answered to the model as an error.
 */
export interface AgentPermissions {
  /** Allowed without asking: names, in which `*` stands for anything, or regular expressions. */
  readonly allow?: readonly (string | RegExp)[] | undefined;
  /** Never allowed. */
  readonly deny?: readonly (string | RegExp)[] | undefined;
  /**
   * Asked about each call the lists do not settle, which waits meanwhile; others go on. If it throws, or says something else,
   * the call is denied. Its arguments have been checked; those it gives in their place are checked again.
   */
  readonly ask?:
    | ((
        call: ToolCall,
        context: PermissionContext,
      ) => boolean | PermissionDecision | Promise<boolean | PermissionDecision>)
    | undefined;
}

/** What was decided about a call. */
export interface PermissionDecision {
  /** Whether it may run. */
  readonly allow: boolean;
  /** Why; the model gets it, where it may not. */
  readonly reason?: string | undefined;
  /** Arguments it runs with in place of the model's. */
  readonly args?: Readonly<Record<string, unknown>> | undefined;
}

/** What `ask` gets besides the call. */
export interface PermissionContext {
  /** Aborted when the decision does not matter any more. */
  readonly signal: AbortSignal;
  /** The run's id. */
  readonly runId: string;
  /** Whose call it is; left out for the run's own agent. */
  readonly agent?: string | undefined;
  /** `true`: its tool had begun when an earlier attempt at the run was interrupted; whether it may run once more ({@link OnResume}). */
  readonly interrupted?: boolean | undefined;
}

/** How far a run may go. A run that reaches a limit ends with status `"limit"`: what runs is aborted, every call has its answer. */
export interface AgentLimits {
  /**
   * How often the model may be asked; 1 to 1000000. A call in the last answer is not run. Where tools are called back in the middle of a run,
   * a call that comes when all before it are answered counts as a new answer. Default: 50.
   */
  readonly maxSteps?: number | undefined;
  /** How many calls there may be, denied and failed ones included, `completion-report` and `planner-output` not. Default: no limit. */
  readonly maxToolCalls?: number | undefined;
  /** How long it may take, in ms, tools and questions included. Default: no limit. */
  readonly timeoutMs?: number | undefined;
  /**
   * US dollars, as the provider estimates them, from which on the model is not asked again. Agents a task was handed to count.
   * Where a provider does not tell, there is a `warning` event `COST_UNKNOWN`. Default: no limit.
   */
  readonly maxCostUsd?: number | undefined;
  /** How often the same tool may be called with the same arguments. Default: no limit. */
  readonly maxRepeatedCalls?: number | undefined;
}

/** The run's own tools, which are off unless switched on. They are always permitted, and their names are then taken. */
export interface AgentBuiltins {
  /**
   * `completion-report`: the model says what it has done, once; a second report is refused. `"required"`: a run that would end
   * without is reminded once, then fails with `COMPLETION_REPORT_MISSING`. Default: `false`.
   */
  readonly completionReport?: boolean | "required" | undefined;
  /**
   * `planner-output`: the model hands over its plan; the last one counts. `"required"` as for `completionReport`, with
   * `PLANNER_OUTPUT_MISSING`. Default: `false`.
   */
  readonly plannerOutput?: boolean | "required" | undefined;
  /** `handoff`: the model gives a task to another agent and gets its answer. Default: off. */
  readonly handoff?: HandoffOptions | undefined;
}

/** Whom a task may be handed to. */
export interface HandoffOptions {
  /** By the names the model calls them. */
  readonly agents: Readonly<Record<string, HandoffAgent>>;
  /**
   * How deep handoffs may nest: with 1, an agent a task was handed to can't hand it on; with 2, it can, to any of these; up to 10.
   * Default: 1.
   */
  readonly maxDepth?: number | undefined;
}

/**
 * An agent that a task may be handed to. It has a run of its own, which sees nothing of the other's thread, and ends with it.
 * What it answers is the call's result; what it fails of is an error the model gets, not one of the run.
 */
export interface HandoffAgent extends AgentOptions {
  /** What it is good for, for the model. */
  readonly description?: string | undefined;
}

/** Options of {@link runAgent}. Either `prompt` or `messages` has to be there. */
export type RunAgentOptions<
  TMessage = BaseMessage,
  TSchema extends OutputSchema | undefined = OutputSchema | undefined,
> = AgentOptions & {
  /** The run's own tools. Default: none. */
  readonly builtins?: AgentBuiltins | undefined;
  /**
   * Gets every event at once, in order. The first thing it throws, or rejects with, ends the run, which then has failed with
   * `CALLBACK_FAILED`. A promise it gives is not waited for before the next event, only before `result`.
   */
  readonly onEvent?: ((event: AgentEvent) => unknown) | undefined;
  /** Aborting cancels the run. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Where the run is recorded: its events as one run, each turn of its model and each agent a task is handed to as a part of it
   * (`parentRunId`), all in one file. A path that can't be written to fails the run with `INVALID_OPTION` before anything is
   * started. See {@link RecordOptions}.
   */
  readonly record?: string | RecordOptions | undefined;
  /**
   * What the run is called, in its events and for {@link checkpoint}: 1 to 128 letters, digits and `._:@-`, the first a letter or a
   * digit. Default: an id of its own.
   */
  readonly runId?: string | undefined;
  /**
   * Where the run is kept while it is under way, so that one that is started again under its `runId` (which it needs), in another
   * process too, goes on after the last entry: turns that were paid are not asked again, tools that have ended do not run again. A run that has completed
   * gives its result at once. Tool calls come with the end of a turn then (`toolCalls: "callbacks"` is refused). See docs/guide/checkpoints.md.
   *
   * The run fails with `RUN_LOCKED` where another is at work on it, `CHECKPOINT_MISMATCH` where it was begun with other options,
   * `CHECKPOINT_INVALID` where what is kept can't be read, and `CHECKPOINT_FAILED` where the store fails. Default: nothing is kept.
   */
  readonly checkpoint?: CheckpointStore | undefined;
  /**
   * Called every `heartbeatInterval` while the run is under way, whether or not the model says anything. What it throws, or rejects
   * with, ends the run with `CALLBACK_FAILED`, so that one that has lost its queue's lock stops.
   */
  readonly onHeartbeat?: ((beat: AgentHeartbeat) => unknown) | undefined;
  /** ms between two heartbeats, at least 10. Default: 10000. */
  readonly heartbeatInterval?: number | undefined;
  /**
   * What the run's last word has to be, as {@link InvokeOptions.outputSchema}; its steps before may say what they like. The value is
   * {@link AgentResult.structured}. Agents that a task is handed to answer in text.
   */
  readonly outputSchema?: TSchema;
  /** Spans and metrics of the run, its turns and its tools. See {@link Telemetry}. Default: that of `provider`. */
  readonly telemetry?: Telemetry | undefined;
} & (
    | {
        /** What the agent is to do. Not empty. */
        readonly prompt: string;
        readonly messages?: undefined;
      }
    | {
        /** The thread so far. */
        readonly messages: readonly (MessageInput | TMessage)[];
        readonly prompt?: undefined;
      }
  );

/** That a run is alive. */
export interface AgentHeartbeat {
  /** The run's id. */
  runId: string;
  /** All that is waited for just now, the oldest first; empty between two of them. */
  waitingFor: AgentWait[];
}

/** Something that a run waits for. */
export interface AgentWait {
  /**
   * `"queue"`: a place among `maxConcurrency`, or the start of the process. `"model"`: its answer. `"quota"`: its plan, which is used up,
   * where the provider's `quota` waits. `"tool"`, `"permission"`: the caller's functions. `"checkpoint"`: its store.
   */
  kind: "queue" | "model" | "quota" | "tool" | "permission" | "checkpoint";
  /** Since when. */
  since: Date;
  /** Until when, of `"quota"`. */
  until?: Date;
  /** Of `"tool"` and `"permission"`. */
  toolName?: string;
  /** Likewise. */
  toolCallId?: string;
  /** The agent a task was handed to; left out for the run's own. */
  agent?: string;
}

/**
 * Where runs are kept: {@link createFileCheckpoint}, or functions over a database (examples/fleet has Redis and Postgres). All of
 * it is text, which the store keeps as it is (a column of type `text`, not `jsonb`).
 *
 * Whoever has loaded a run holds its lease: nobody else may load it until `finish`, or until the lease was not renewed for
 * `leaseMs`. Each `load` that takes a lease gives a greater `token` than all before it, and what comes with a smaller one is refused:
 * a process that stood still for too long can't write behind the back of the one that has gone on, and asks the store again before it
 * begins a tool. Where nobody has, it goes on: a lease
 * that has run out and was not taken still is the last one's. Checking the token and writing are one atomic step. To refuse, a function throws an error whose `code` is `"RUN_LOCKED"`; whatever else it throws is its failure.
 */
export interface CheckpointStore {
  /** How long a lease lasts that is not renewed, in ms, from 100 on; it is renewed three times in that time. Default: 30000. */
  readonly leaseMs?: number | undefined;
  /**
   * Takes the run, or makes it. Of a finished one it gives the result, and nobody holds it.
   *
   * @throws an error with the code `"RUN_LOCKED"` if somebody else holds it.
   */
  load(runId: string, options: { readonly leaseMs: number }): Promise<LoadedCheckpoint>;
  /**
   * Adds entries in their order, all or none, and renews the lease; without entries, it only renews it. Durable when it resolves.
   *
   * @throws an error with the code `"RUN_LOCKED"` if the lease is not that of the last `load`.
   */
  append(runId: string, entries: readonly string[], lease: CheckpointLease): Promise<void>;
  /**
   * The run is finished with `result`, or, without one, given back to whoever goes on with it. Entries of a finished run may be
   * dropped; what a later call's options are is then not compared.
   *
   * @throws an error with the code `"RUN_LOCKED"` if the lease is not that of the last `load`.
   */
  finish(runId: string, result: string | undefined, lease: CheckpointLease): Promise<void>;
}

/** What a store holds of a run. */
export interface LoadedCheckpoint {
  /** The fencing token: a whole number, greater with every lease of the run. */
  readonly token: number;
  /** All entries, in their order. */
  readonly entries: readonly string[];
  /** Of a finished run. */
  readonly result?: string | undefined;
}

/** The lease of a run. */
export interface CheckpointLease {
  /** As `load` has given it. */
  readonly token: number;
  /** How long it lasts from now on, in ms. */
  readonly leaseMs: number;
}

/**
 * Keeps runs in files, one for each, of this machine's own disk: lines of JSON, each on the disk before the run goes on. A file is its
 * owner's alone (0600, in a folder that is made 0700 and may be written by nobody else), and no link is followed. A line has a checksum: one
 * that was damaged is refused with `CHECKPOINT_INVALID`. Who is at work on a run has its file locked, and the operating system gives the
 * lock back however the process ends. Files are not deleted: those of finished runs may be; a run whose file is removed ends with `RUN_LOCKED`.
 *
 * @param options.dir the folder, made where there is none.
 * @throws {ProviderError} `INVALID_OPTION` at once.
 */
export function createFileCheckpoint(options: { readonly dir: string }): CheckpointStore;

/** What of a result earlier attempts at the run have brought: it is part of the result's own figures. */
export interface ResumedRun {
  /** Turns of the run's own agent that were not asked again. */
  steps: number;
  /** Tool calls that had ended, handoffs included. */
  toolCalls: number;
  /** Tokens of those turns, and of ones that failed. */
  usage: TokenUsage;
  /** US dollars, likewise. */
  costUsd?: number;
}

/** A run under way. It goes on whether or not anybody looks. */
export interface AgentRun<TMessage = BaseMessage, TStructured = unknown> extends AsyncIterable<AgentEvent> {
  /**
   * What the run came to, when everything it started has ended, but for tools that do not heed their signal. Never rejects: a
   * run that failed says so in `status` and `error`.
   */
  readonly result: Promise<AgentResult<TMessage, TStructured>>;
  /**
   * The events, from the first one on, whenever it is asked for and however often. Leaving the loop early does not end the run:
   * `signal` does.
   */
  [Symbol.asyncIterator](): AsyncGenerator<AgentEvent, void, undefined>;
}

/** What a run came to. */
export interface AgentResult<TMessage = BaseMessage, TStructured = unknown> {
  /**
   * `"completed"`: the model had its last word. `"failed"`: `error` says why. `"cancelled"`: the signal was aborted. `"limit"`:
   * `limit` was reached.
   */
  status: "completed" | "failed" | "cancelled" | "limit";
  /** The run's id. */
  runId: string;
  /** The model's last word; what it said last, if the run did not get so far. */
  output: string;
  /** The whole thread, from the system prompt to the last answer. Every call in it has its result. */
  messages: TMessage[];
  /** How often the model was asked. */
  steps: number;
  /** Tokens of all turns, those of agents a task was handed to included. */
  usage: TokenUsage;
  /** US dollars, likewise, as far as the providers report them. */
  costUsd?: number;
  /** What the model reported: `summary`, `outcome`, and whatever else it wrote. */
  completionReport?: CompletionReport;
  /** What the model planned. */
  plannerOutput?: PlannerOutput;
  /** The last word as a value that fits {@link RunAgentOptions.outputSchema}; there whenever that is given and the run is completed. */
  structured?: TStructured;
  /** Of a run that goes on from its checkpoint: what of these figures earlier attempts have brought. */
  resumed?: ResumedRun;
  /** Which limit was reached. */
  limit?: keyof AgentLimits;
  /** Why it failed, or was stopped by a limit. */
  error?: ProviderError;
}

/** The arguments of `completion-report`. */
export interface CompletionReport {
  summary: string;
  outcome?: "success" | "partial" | "failure";
  [key: string]: unknown;
}

/** The arguments of `planner-output`. */
export interface PlannerOutput {
  plan: string;
  steps?: string[];
  [key: string]: unknown;
}

/** Which run an event is of. */
export interface AgentEventOrigin {
  /** The run's id. */
  runId: string;
  /** The name of the agent a task was handed to; left out for the run's own agent. */
  agent?: string;
  /** The run that handed it the task. */
  parentRunId?: string;
}

/** What happens in a run, the runs it hands tasks to included. New kinds may be added: ignore what you don't know. */
export type AgentEvent = AgentEventOrigin &
  /** First, with the names of the tools the model may call. */
  (
    | { type: "run_started"; provider: string; tools: string[]; resumed?: ResumedRun }
    /** A piece of what the model says, verbatim. */
    | { type: "text_delta"; text: string }
    /** What the model said, whole: trimmed, not empty, tool calls taken out. */
    | { type: "message"; content: string }
    /** The model calls a tool. */
    | { type: "tool_call"; toolCall: ToolCall }
    /** What was decided about a call, and by what; `args` are there where `ask` replaced them. Calls that can't run have none. */
    | {
        type: "permission";
        toolCallId: string;
        name: string;
        allow: boolean;
        by: "allow" | "deny" | "ask" | "builtin" | "default";
        reason?: string;
        args?: Record<string, unknown>;
      }
    /** The answer to a call, as the model gets it: exactly one for each. `content` is text or content blocks. */
    | {
        type: "tool_result";
        toolCallId: string;
        name: string;
        content: string | Record<string, unknown>[];
        isError: boolean;
      }
    /** What a turn of the model has used; `model`: the one that answered, where the provider says it and the turn has not failed. */
    | { type: "usage"; usage: TokenUsage; costUsd?: number; model?: string }
    /** As in {@link ProviderEvent}. */
    | { type: "rate_limit"; status: string; resetsAt?: number; limitType?: string; utilization?: number }
    /** A turn is tried again, as in {@link ProviderEvent}. */
    | {
        type: "retry";
        by: "cli" | "provider";
        attempt: number;
        maxAttempts?: number;
        delayMs: number;
        reason: string;
        httpStatus?: number;
      }
    /** The model's plan is used up, and the turn waits for it, as in {@link ProviderEvent}. */
    | { type: "waiting"; until: number; reason: string }
    /**
     * Something to know that is no failure: those of {@link ProviderEvent}; `INVALID_TOOL_CALL`, which the model gets back;
     * `COST_UNKNOWN`; `CHECKPOINT_CHANGED`, the run goes on with another model or more tools; `AGENT_UNAVAILABLE`, a task can't be handed to that agent as things are.
     */
    | { type: "warning"; code: string; message: string }
    /** A call waits for the agent `to`, whose run has begun. */
    | { type: "deferred"; toolCallId: string; action: "handoff"; to: string; childRunId: string }
    /** Last, of a run that completed. */
    | { type: "run_completed"; output: string; steps: number; usage: TokenUsage; costUsd?: number }
    /** Last, of any other run; a cancelled one has no error. */
    | {
        type: "run_failed";
        status: "failed" | "cancelled" | "limit";
        limit?: keyof AgentLimits;
        error?: ProviderError;
      }
  );

/**
 * Runs an agent: asks the model, runs the tools it calls, tells it what came of them, until it is done. Begins at once. What
 * the model does wrong (a tool that there is not, arguments that do not fit, a call that is denied or fails) it gets back; it
 * ends the run only through a limit. A provider whose CLI is missing fails the run before anything is started.
 *
 * @throws {ProviderError} at once, naming the field: `INVALID_OPTION`, `INVALID_MESSAGES`, or `INVALID_TOOL` for a tool that
 * can't be run, a schema that is none, or the name of a built-in tool that is on.
 */
export function runAgent<TSchema extends OutputSchema | undefined = undefined>(
  options: RunAgentOptions<BaseMessage, TSchema>,
): AgentRun<BaseMessage, StructuredOutput<TSchema>>;
// ---------------------------------------------------------------------------------------------------------------- run logs

/**
 * Where and how a run is recorded; a path alone is `{ path }`. docs/guide/run-log.md describes the file.
 *
 * A path that can't be written to rejects the call with `INVALID_OPTION` before anything is started. A log that fails later
 * (a full disk, a folder gone) is a `warning` event, code `RUN_LOG_FAILED`, and the run goes on. When the call settles, all of
 * the run is in the file.
 */
export interface RecordOptions {
  /**
   * The file, relative to the working folder. A new one is its owner's alone (0600). Runs are appended to one that is a run
   * log; any other existing file is left alone and refused.
   */
  readonly path: string;
  /**
   * The thread's messages too. By default the log holds of the prompt how long it is, its SHA-256 and the tools' names. Secrets
   * (API keys and tokens by their shape, values of environment variables with secret names) are `[redacted]` either way.
   */
  readonly prompts?: boolean | undefined;
}

/** Options of {@link replayRun}. */
export interface ReplayOptions {
  /** Which run of the file; by default the last one that is no part of another. */
  readonly runId?: string | undefined;
}

/**
 * A recorded run: an async iterable of its events, as `stream` yields them; of an agent's run, those of `runAgent`. It can be
 * iterated again, and the file is read once, when something is asked of it.
 *
 * Iterating throws at the end what the run threw: its {@link ProviderError}, or an AbortError for a run that was aborted. Where
 * the log ends before the run did (its process was killed), iterating ends with the last event that is there. An
 * agent's run never throws, and has no `reply`: its turns, which are runs of the same file (`runIds`), have one each.
 */
export interface ReplayedRun<TMessage = AIMessage> {
  /** The events, from the first. */
  [Symbol.asyncIterator](): AsyncGenerator<ProviderEvent | AgentEvent, void, undefined>;
  /**
   * The answer: the very message the run gave, but for secrets. Rejects with what the run threw, and with code
   * `RUN_LOG_INCOMPLETE` where the log has no reply; `partial` has the text that is there.
   */
  readonly reply: Promise<TMessage>;
  /** What is known of the run, and what of the file could not be read. */
  readonly info: Promise<RunLogInfo>;
}

/** What is known of a recorded run. */
export interface RunLogInfo {
  /** The line that begins the run. */
  header: RunLogHeader;
  /** How the run ended; `"unknown"` where the log ends before it did. */
  outcome: "replied" | "failed" | "cancelled" | "unknown";
  /** Whether all of the run is there. */
  complete: boolean;
  /** How many events there are. */
  events: number;
  /** The runs of the file, in the order in which they began. */
  runIds: string[];
  /** Lines of the file that could not be read, from 1: the last one, if it was being written when the process was killed. */
  problems: { line: number; message: string }[];
}

/** The line that begins a run. Its schema is docs/schemas/run-recording.schema.json. */
export interface RunLogHeader {
  format: "deep-factor-run";
  version: number;
  /** As in the `start` event. */
  runId: string;
  /** The run that this one is part of. */
  parentRunId?: string;
  /** The provider's id. */
  provider: string;
  /** ms since the epoch. */
  startedAt: number;
  /** What was asked: figures, and the messages (`thread`) only with {@link RecordOptions.prompts}. */
  prompt?: { messages: number; characters: number; sha256: string; tools: string[]; thread?: unknown[] };
  /** Of this package. */
  packageVersion: string;
  /** Node's words for it, `"linux-x64"`. */
  platform: string;
}

/**
 * Reads a run log again. Nothing is started.
 *
 * @param path a file that the option `record` of a call or of `runAgent` has written.
 * @throws {ProviderError} `INVALID_OPTION` at once; `NOT_FOUND` and `INVALID_RUN_LOG` (no run log, or of a newer version) when
 * something is asked of it.
 */
export function replayRun(path: string, options?: ReplayOptions): ReplayedRun;

/** Options of {@link renderRunLog}. */
export interface RenderRunLogOptions {
  /** `"text"` (default): a timeline. `"html"`: a page of its own, without scripts. `"json"`: the timeline as data. */
  readonly format?: "text" | "html" | "json" | undefined;
  /** `"text"`: long arguments, results and prompts whole. Default `false`. */
  readonly full?: boolean | undefined;
}

/**
 * A run log, or a stored log of the Claude Code adapter, for people: what `deep-factor-providers log` prints. All that is
 * foreign in it is escaped; control characters and those that change the direction of text are made visible.
 *
 * @throws {ProviderError} `NOT_FOUND`, `INVALID_RUN_LOG` or `INVALID_OPTION`.
 */
export function renderRunLog(path: string, options?: RenderRunLogOptions): Promise<string>;

// ---------------------------------------------------------------------------------------------------- the Claude Code adapter

/** What a run of {@link ClaudeCodeAdapter} is to do: `prompt` or `prompt_file`, and how. docs/reference/claude-code-adapter.md has the rules. */
export type ClaudeCodeConfig = ClaudeCodeSettings &
  (
    | {
        /** The prompt, 1 to 1,000,000 characters that are not only white space. */
        prompt: string;
        prompt_file?: undefined;
      }
    | {
        /** A UTF-8 file of the workspace that holds it: relative, without `..`, not over a link that leads out. */
        prompt_file: string;
        prompt?: undefined;
      }
  );

/** What a {@link ClaudeCodeConfig} has beside its prompt. */
export interface ClaudeCodeSettings {
  /** One of the agents the CLI knows, those in the workspace's `.claude/agents` included. Letters, digits, `-`, `_`; at most 100. */
  agent_name?: string | undefined;
  /** A model's name or alias, as the CLI takes it: `"sonnet"`, `"claude-opus-4-8[1m]"`. Default: the CLI's own choice. */
  model?: string | undefined;
  /** Added to the CLI's own system prompt; at most 10,000 characters. */
  append_system_prompt?: string | undefined;
  /**
   * `"auto"`: edits in the workspace need no answer. `"plan"`: nothing is changed. `"ask"`: whatever needs an answer is denied,
   * for there is nobody to give it. Default: what the user's and the project's settings say.
   */
  permission_mode?: "auto" | "plan" | "ask" | undefined;
  /** Tools that need no permission, as the CLI names them: `"Read"`, `"Bash(git *)"`, `"mcp__files__*"`. */
  allowed_tools?: readonly string[] | undefined;
  /** Replaces the CLI's own system prompt; at most 50,000 characters. */
  system_prompt?: string | undefined;
  /** The longest answer, tokens, 1 to 200,000. */
  max_tokens?: number | undefined;
  /** 0 to 1. The CLI has no way to set it: it is accepted, and a warning says that it was not applied. */
  temperature?: number | undefined;
}

/** Options of a {@link ClaudeCodeAdapter}. */
export interface ClaudeCodeAdapterOptions {
  /** The CLI: a name for PATH, or a path. Default: `"claude"`. */
  cliPath?: string | undefined;
  /** Merged over Node's own environment; `undefined` removes a variable. A context's `env` wins over it. */
  env?: Record<string, string | undefined> | undefined;
  /** `"subscription"` drops API keys, which beat a login, from the environment and from every `env`. Default: `"inherit"`. */
  auth?: "inherit" | "subscription" | undefined;
  /** From SIGTERM to SIGKILL, and from the CLI's last event to its exit, ms. Default: 2000. */
  killGrace?: number | undefined;
  /** How many runs of one CLI there may be at a time; others wait. Default: 4. */
  maxConcurrency?: number | undefined;
  /** How often the CLI itself tries an API request again, 0 to 15. Default: 0, so that failures are reported at once. */
  maxRetries?: number | undefined;
  /** Whether the normalised log is written to `artifactsDir`, as `youbencha-log.json`. Default: false. */
  saveLog?: boolean | undefined;
  /** A span and metrics of each run, for OpenTelemetry. See {@link Telemetry}. Default: `false`. */
  telemetry?: Telemetry | undefined;
}

/** One run: where, what, for how long. */
export interface AgentExecutionContext {
  /** The folder the CLI works in: absolute, and there. */
  workspaceDir: string;
  /** The repository it is a copy of, for the log: absolute, and there. */
  repoDir?: string | undefined;
  /**
   * Where copies of all output go: `stdout.log`, `stderr.log`, `events.jsonl` (a {@link ProviderEvent} a line), mode 0600,
   * complete whatever becomes of the run. Absolute; made where it is missing.
   */
  artifactsDir?: string | undefined;
  /** What to do. */
  config: ClaudeCodeConfig;
  /** How long it may take, ms from the start of the process; 0 for no limit. Default: 300000. */
  timeout?: number | undefined;
  /** Merged over the environment; `undefined` removes a variable. */
  env?: Record<string, string | undefined> | undefined;
  /** Ends the run. `execute` then rejects with the signal's reason, when nothing of the run is left. */
  signal?: AbortSignal | undefined;
}

/** Something that went wrong, or that should be known. */
export interface ErrorRecord {
  /** For people; never empty. */
  message: string;
  /** ISO 8601. */
  timestamp: string;
  /**
   * `CLAUDE_CLI_NOT_FOUND`, `CLAUDE_AUTH_FAILED`, `CLAUDE_TIMEOUT`, `CLAUDE_RATE_LIMIT`, `CLAUDE_OUTPUT_TRUNCATED`,
   * `ARTIFACTS_INCOMPLETE`, or another {@link ProviderErrorCode}.
   */
  code?: string;
  /** What else is known: `code` (the {@link ProviderErrorCode}), `category`, `http_status`, `retry_after_ms`, …. */
  context?: Record<string, unknown>;
}

/** A call of a tool that was not permitted. */
export interface PermissionDenial {
  toolName: string;
  toolUseId: string;
  toolInput: unknown;
}

/** What became of a run. `status` is `"success"` exactly if `exitCode` is 0, and `"timeout"` exactly if `timedOut`. */
export interface AgentExecutionResult {
  /** The CLI's own where it is not 0; else 128 + signal, 127 (no CLI), 126 (not executable), 124 (timeout) or 1. */
  exitCode: number;
  status: "success" | "failed" | "timeout";
  /**
   * Standard output, then standard error. Of more than 10 MiB the beginning and the end, around one line
   * `[OUTPUT TRUNCATED: … bytes left out]`.
   */
  output: string;
  /** What went wrong; of a success at most that some of the output is left out. */
  errors: ErrorRecord[];
  /** What should be known beside: `TEMPERATURE_NOT_APPLIED`, what the CLI warns of. */
  warnings: ErrorRecord[];
  /** When the process was started, ISO 8601. */
  startedAt: string;
  /** `startedAt` and `durationMs`. */
  completedAt: string;
  /** ms, by a clock that never jumps. */
  durationMs: number;
  timedOut: boolean;
  /** Whether something is left out of `output`. */
  truncated: boolean;
  /** Standard error alone, at most 32 KiB. */
  stderr: string;
  /** The signal the CLI died of, `"SIGKILL"`. */
  signal?: string;
  /** The prompt that was sent. */
  prompt: string;
  /** The last message of the model. */
  answer?: string;
  /** The model that answered. */
  model?: string;
  /** The CLI's version. */
  cliVersion?: string;
  /** The CLI's id of the session. */
  sessionId?: string;
  /** Tokens, as the CLI counts them. */
  usage?: TokenUsage;
  /** US dollars, as the CLI estimates them. */
  costUsd?: number;
  /** Turns taken. */
  numTurns?: number;
  /** Calls of tools that were not permitted. */
  permissionDenials: PermissionDenial[];
  /** Paths of the copies, if there was an `artifactsDir`; `log` with `saveLog`. */
  artifacts?: { stdout: string; stderr: string; events: string; log?: string };
}

/** One message of a {@link RunLog}. */
export interface RunLogMessage {
  role: "user" | "assistant" | "system";
  content: string;
  /** ISO 8601, where it is known. */
  timestamp?: string;
  /** The call a subagent works for. */
  parent_tool_use_id?: string;
}

/** One call of a tool of a {@link RunLog}, with its result. */
export interface RunLogToolCall {
  /** The API's id of the call. */
  id: string;
  name: string;
  /** JSON text. */
  arguments: string;
  /** What came back, as text (content blocks as JSON); absent if nothing did. */
  result?: string;
  /** Whether the tool failed, or was not permitted. */
  is_error?: boolean;
  /** `true` where it was not permitted. */
  denied?: boolean;
  /** ISO 8601, where it is known. */
  timestamp?: string;
  /** The call a subagent works for. */
  parent_tool_use_id?: string;
}

/** What happened in a run, in the same shape whatever happened. {@link runLogSchema} is its JSON Schema. */
export interface RunLog {
  /** Of this shape. */
  version: "1.0.0";
  /** `version` is the CLI's, or `"unknown"`. */
  agent_info: { name: "claude-code"; version: string; adapter_version: string; agent_name?: string };
  /** `name` is the model that answered, the config's if the run ended before, or `"unknown"`; `requested` the config's. */
  model_info: { name: string; provider: "anthropic"; requested?: string };
  execution: {
    started_at: string;
    completed_at: string;
    duration_ms: number;
    exit_code: number;
    status: "success" | "failed" | "timeout";
    timed_out: boolean;
    truncated: boolean;
    session_id?: string;
    num_turns?: number;
    /** The CLI's own word. */
    permission_mode?: string;
  };
  /** The prompt first, then what was said, in order. */
  messages: RunLogMessage[];
  /** In order of the calls. */
  tool_calls: RunLogToolCall[];
  /** As the CLI counts them, cached ones included; 0 where it reported nothing. `total_tokens` is the sum. */
  usage: {
    input_tokens: number;
    output_tokens: number;
    total_tokens: number;
    cache_read_tokens?: number;
    cache_write_tokens?: number;
    cost_usd?: number;
  };
  errors: ErrorRecord[];
  warnings: ErrorRecord[];
  environment: {
    os: string;
    arch: string;
    node_version: string;
    working_directory: string;
    repo_directory?: string;
  };
}

/**
 * claude at work in a workspace: with its own tools, and with the settings, instructions and agents of the user and the project.
 * For suites that compare agents. An adapter has no state: any number of runs may go on at a time.
 */
export class ClaudeCodeAdapter {
  /**
   * Nothing is started here.
   *
   * @throws {ProviderError} `INVALID_OPTION` for an option that is unknown or ill-typed.
   */
  constructor(options?: ClaudeCodeAdapterOptions);
  readonly name: "claude-code";
  /** Of the adapter, MAJOR.MINOR.PATCH. */
  readonly version: string;
  /** Whether the CLI is there and says its version. Never rejects because of what the CLI does. */
  checkAvailability(): Promise<boolean>;
  /**
   * Runs the CLI. A run that fails is a result like any other; of one that is over, nothing is left running.
   *
   * @throws {ProviderError} `CLAUDE_INVALID_CONFIG`, with every violation of context and config in `problems`, before anything is started.
   */
  execute(context: AgentExecutionContext): Promise<AgentExecutionResult>;
  /**
   * The log of a run, from what its result holds: also of one that was stored as JSON.
   *
   * @throws {ProviderError} `INVALID_OPTION` if `result` is none.
   */
  normalizeLog(result: AgentExecutionResult, context: AgentExecutionContext): RunLog;
}

/**
 * The adapter of this name, as the data model of the Claude Code adapter has it.
 *
 * @throws {ProviderError} `INVALID_OPTION` for another name, or for options that are wrong.
 */
export function getAgentAdapter(type: "claude-code", options?: ClaudeCodeAdapterOptions): ClaudeCodeAdapter;

/** The constants of the adapter's data model, as its document writes them. */
export const claudeCodeConstants: {
  readonly DEFAULT_TIMEOUT_MS: 300_000;
  readonly MAX_OUTPUT_SIZE: 10_485_760;
  readonly MAX_PROMPT_LENGTH: 1_000_000;
  readonly CLAUDE_CLI_COMMAND: "claude";
  readonly PRINT_MODE_FLAG: "-p";
  readonly MODEL_FLAG: "--model";
  readonly AGENTS_FLAG: "--agents";
  readonly MODEL_PATTERN: RegExp;
  readonly VERSION_PATTERN: RegExp;
  readonly INPUT_TOKENS_PATTERN: RegExp;
  readonly OUTPUT_TOKENS_PATTERN: RegExp;
  readonly TOOL_CALL_PATTERN: RegExp;
  readonly ANSI_CODE_PATTERN: RegExp;
  readonly ERROR_CODES: {
    readonly CLI_NOT_FOUND: "CLAUDE_CLI_NOT_FOUND";
    readonly AUTH_FAILED: "CLAUDE_AUTH_FAILED";
    readonly TIMEOUT: "CLAUDE_TIMEOUT";
    readonly RATE_LIMIT: "CLAUDE_RATE_LIMIT";
    readonly OUTPUT_TRUNCATED: "CLAUDE_OUTPUT_TRUNCATED";
    readonly INVALID_CONFIG: "CLAUDE_INVALID_CONFIG";
  };
};

/**
 * The data model's schema of a {@link ClaudeCodeConfig}, made by the caller's own zod (3 or 4): `claudeCodeConfigZod(z)`.
 *
 * @param z what `import { z } from "zod"` gives
 */
export function claudeCodeConfigZod(z: object): {
  parse(value: unknown): ClaudeCodeConfig;
  safeParse(value: unknown): { success: true; data: ClaudeCodeConfig } | { success: false; error: Error };
};

/** The JSON Schema of a {@link ClaudeCodeConfig} (docs/schemas/claude-code-config.schema.json). */
export const claudeCodeConfigSchema: Readonly<Record<string, unknown>>;

/** The JSON Schema of a {@link RunLog} (docs/schemas/run-log.schema.json). */
export const runLogSchema: Readonly<Record<string, unknown>>;

// --------------------------------------------------------------------------------------------------- OpenAI-compatible APIs

/**
 * An HTTP API that speaks OpenAI's chat completions, as a model: everything a {@link CliProvider} does, with the same events,
 * errors, retries, limits and records. What is different: tool calls are native, nothing is started, and a `start` event has no
 * `pid`. docs/reference/openai-compatible.md says what is sent and how errors are reported.
 *
 * In its {@link HealthReport}, `installed` says whether the server answers at all, `path` where it is, and `authenticated`
 * whether it lists its models (`GET /models`) to this key: `"unknown"` where it has no such list.
 *
 * @typeParam TMessage as for {@link CliProvider}
 */
export interface ApiProvider<TMessage = AIMessage> extends CliProvider<TMessage> {
  /**
   * As {@link CliProvider.bindTools}. A name that the API does not allow (`[a-zA-Z0-9_-]{1,64}`) goes over as one that it does;
   * calls come back under the caller's name.
   */
  bindTools(tools: readonly ToolInput[]): ApiProvider<TMessage>;
}

/** Options of {@link createOpenAiCompatibleProvider}. */
export interface OpenAiCompatibleProviderOptions {
  /** The model's name at the API. */
  model: string;
  /**
   * What `/chat/completions` is added to: an http or https URL without a password; a query (`?api-version=…`) is kept. A proxy
   * of the system or of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) is used, except to loopback
   * addresses. Redirects are not followed. Default: `"https://api.openai.com/v1"`.
   */
  baseURL?: string | undefined;
  /** The key, sent as `Authorization: Bearer …`. Never part of an error, an event or a record. Default: see `apiKeyEnv`. */
  apiKey?: string | undefined;
  /**
   * The environment variable that holds the key, read at every call; a call without it fails with `NOT_LOGGED_IN`. Not together
   * with `apiKey`. Default: `"OPENAI_API_KEY"` without `baseURL`, otherwise none: no key is sent to a server of one's own unless
   * it is named.
   */
  apiKeyEnv?: string | undefined;
  /** Further headers, over those sent anyway, `authorization` included. Values of names like `x-api-key` are kept secret. */
  headers?: Readonly<Record<string, string>> | undefined;
  /** Sent as `OpenAI-Organization`. */
  organization?: string | undefined;
  /** Sent as `OpenAI-Project`. */
  project?: string | undefined;
  /** Whether the answer is asked for piece by piece. `false` for servers that can't. Default: `true`. */
  stream?: boolean | undefined;
  /** 0 to 2. Default: the server's. So for all of these that are not given: they are not sent. */
  temperature?: number | undefined;
  /** 0 to 1, sent as `top_p`. */
  topP?: number | undefined;
  /** The most tokens an answer may have. One that hits the limit fails with `MAX_TOKENS`, its text as `partial`. */
  maxTokens?: number | undefined;
  /** The same as `maxTokens`, by the name that it has everywhere else. Not both. */
  maxOutputTokens?: number | undefined;
  /** Under which name `maxTokens` is sent: newer models want `"max_completion_tokens"`. Default: `"max_tokens"`. */
  maxTokensField?: "max_tokens" | "max_completion_tokens" | undefined;
  /** Where the answer is to stop. */
  stop?: string | readonly string[] | undefined;
  /** A whole number, for answers that repeat. */
  seed?: number | undefined;
  /** Sent as `reasoning_effort`: `"low"`, `"medium"`, `"high"`, or what the server knows. */
  reasoningEffort?: string | undefined;
  /** `reasoning.effort` is the same as `reasoningEffort`, by the name that it has everywhere else; `"off"` is the effort `"none"`. Not both. */
  reasoning?: ReasoningOptions | "off" | undefined;
  /** Refused, or left out with a warning by `onUnsupported: "warn"`: an API has no search of its own. */
  webSearch?: boolean | undefined;
  /** Sent as `service_tier`. */
  serviceTier?: string | undefined;
  /** Refused likewise: an API has no such field. */
  speed?: "fast" | "standard" | undefined;
  /** An API has all choices but `webSearch` and `speed`. */
  onUnsupported?: OnUnsupported | undefined;
  /**
   * The field of the model's messages in which the server takes back what the model has thought, where it takes that at all:
   * OpenRouter takes `"reasoning_details"`, DeepSeek's models that think between tool calls want `"reasoning_content"`, and its older ones
   * refuse it. Only what this provider said itself is sent. Default: none is. `"reasoning_content"` is in every message of the model's then, as
   * `" "` where there is nothing to send: DeepSeek and Kimi refuse a thread in which it is missing.
   */
  sendReasoning?: "reasoning_content" | "reasoning" | "reasoning_details" | undefined;
  /** Whether the model may call several tools at once. Sent only with tools, as is `toolChoice`. */
  parallelToolCalls?: boolean | undefined;
  /** Which tools the model is to call; a name is the caller's own. */
  toolChoice?: "auto" | "none" | "required" | { readonly name: string } | undefined;
  /**
   * Further fields of the request's body, over those sent anyway; `null` takes one away (`{ stream_options: null }` for servers
   * that refuse it). Not `messages`, `tools` and `stream`.
   */
  extraBody?: Readonly<Record<string, unknown>> | undefined;
  /** What the provider calls itself in events, errors and records. Default: `"openai"`. */
  id?: string | undefined;
  /** How long one request may take, in ms, waiting for a free place not counted; 0 for no limit. Default: 120000. */
  timeout?: number | undefined;
  /** How long the server may send nothing, in ms, before the call fails with `IDLE_TIMEOUT`. Default: no limit. */
  idleTimeout?: number | undefined;
  /** How many bytes an answer may have; beyond, it fails with `OUTPUT_LIMIT`. Default: 10485760 (10 MiB). */
  maxBuffer?: number | undefined;
  /** How many requests to this `baseURL` may be under way; further ones wait. Default: 64. */
  maxConcurrency?: number | undefined;
  /**
   * How a call that failed for a passing reason is made again, as {@link ClaudeCliProviderOptions.retry}. A server's
   * `retry-after` header is honoured.
   */
  retry?: false | RetryOptions | undefined;
  /** Whether a call whose plan is used up waits until it is there again. Default: it fails. See {@link QuotaOptions}. */
  quota?: false | QuotaOptions | undefined;
  /** How much may be used in a window of time, at least one of its limits. Default: `false`, no limit. See {@link BudgetOptions}. */
  budget?: false | BudgetOptions | PlanBudgetOptions | undefined;
  /** Gets records of what runs do. Default: none. */
  logger?: Logger | undefined;
  /** Spans and metrics of its calls, for OpenTelemetry. See {@link Telemetry}. Default: `false`. */
  telemetry?: Telemetry | undefined;
}

/**
 * An OpenAI-compatible API as a model. Nothing is sent here.
 *
 * @throws {ProviderError} `INVALID_OPTION`, naming the option, what was given and what is allowed.
 */
export function createOpenAiCompatibleProvider(options: OpenAiCompatibleProviderOptions): ApiProvider;
