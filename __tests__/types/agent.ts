/**
 * A strict consumer with LangChain: an agent that copied SPEC-01's interface word for word. types.test.ts compiles this file
 * as an ES module, as CommonJS, and for a bundler.
 */
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { AIMessage, BaseMessage } from "@langchain/core/messages";
import { HumanMessage } from "@langchain/core/messages";
import type { StructuredToolInterface } from "@langchain/core/tools";
import { tool } from "@langchain/core/tools";
import type * as api from "deep-factor-providers";
import {
  type ApiProvider,
  type CliProvider,
  classifyError,
  createClaudeCliProvider,
  createCodexCliProvider,
  createFallbackProvider,
  createFileCheckpoint,
  createOpenAiCompatibleProvider,
  escapeXml,
  execFileAsync,
  isModelAdapter,
  limits,
  messagesToPrompt,
  messagesToXml,
  type OpenAiCompatibleProviderOptions,
  ProviderError,
  parseToolCalls,
  runAgent,
  stripAnsi,
} from "deep-factor-providers";
import * as native from "deep-factor-providers/native";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function assertType<_T extends true>(): void;

// What the agent's terminal passes to codex.
assertType<Equal<api.ModelInvocationToolCall, api.ToolCall>>();
assertType<Equal<native.ModelInvocationToolCall, api.ToolCall>>();
export const codex = () => createCodexCliProvider({ outputFormat: "jsonl", skipGitRepoCheck: true, model: "" });
export const quiet = () => createCodexCliProvider({ outputFormat: "text" });
export const live = () => createCodexCliProvider({ engine: "live", keepAlive: 60_000, toolForm: "namespace" });
// @ts-expect-error codex has no such format
export const wrong = () => createCodexCliProvider({ outputFormat: "json" });

// SPEC-01, "ModelAdapter Interface", literally.
export interface ModelAdapter {
  invoke(messages: BaseMessage[]): Promise<AIMessage>;
  bindTools?(tools: StructuredToolInterface[]): ModelAdapter;
}

interface DeepFactorAgentSettings {
  model: BaseChatModel | ModelAdapter | string;
}

// The provider is the agent's `model`, and each interface takes what was made for the other.
const provider = createClaudeCliProvider();
export const settings: DeepFactorAgentSettings = { model: provider };
export const ours: api.ModelAdapter = provider;
export const theirs: ModelAdapter = ours;
export const back: api.ModelAdapter = theirs;
export const bound: ModelAdapter = provider.bindTools([]);

// SPEC-01's agent loop, as it stands there.
export class Agent {
  private modelOrString: BaseChatModel | ModelAdapter | string;
  private resolvedModel: BaseChatModel | ModelAdapter | null = null;

  constructor(options: DeepFactorAgentSettings) {
    this.modelOrString = options.model;
  }

  async step(messages: BaseMessage[], tools: StructuredToolInterface[]): Promise<AIMessage> {
    if (typeof this.modelOrString === "string") throw new TypeError("no model");
    this.resolvedModel = this.modelOrString;
    const model = this.resolvedModel.bindTools?.(tools) ?? this.resolvedModel;
    return model.invoke(messages);
  }
}

export function guarded(value: unknown): ModelAdapter | undefined {
  if (!isModelAdapter(value)) return undefined;
  assertType<Equal<typeof value, api.ModelAdapter>>();
  return value;
}

export async function everything(signal: AbortSignal): Promise<void> {
  const options: api.ClaudeCliProviderOptions = {
    model: "sonnet",
    cliPath: "claude",
    cliSearch: "path",
    launch: {
      command: "docker",
      args: ["exec", "-i", "{env}", "box"],
      env: ["--env", "{name}"],
      files: "none",
      quoting: "none",
    },
    timeout: 120_000,
    maxBuffer: 10 * 1024 * 1024,
    inputEncoding: "xml",
    textToolCalls: "lenient",
    threadDocuments: "escape",
    promptStyle: "stdin",
    outputFormat: "stream-json",
    noInput: false,
    cwd: "/tmp",
    env: { A: "1", B: undefined },
    auth: "subscription",
    extraArgs: ["--betas"],
    systemPrompt: null,
    permissionMode: "plan",
    disableBuiltInTools: true,
    verbose: true,
    includePartialMessages: true,
    idleTimeout: 60_000,
    killGrace: 2000,
    maxConcurrency: 4,
    maxRetries: 0,
    retry: { maxAttempts: 5, baseDelayMs: 500, maxDelayMs: 30_000, jitter: true, maxElapsedMs: 0 },
  };
  createClaudeCliProvider({ retry: false });
  // @ts-expect-error there is no retry without saying how
  createClaudeCliProvider({ retry: true });
  createClaudeCliProvider({ ...options, env: process.env });
  // @ts-expect-error an option nobody knows
  createClaudeCliProvider({ modell: "sonnet" });
  // @ts-expect-error there is no such place
  createClaudeCliProvider({ cliSearch: "home" });
  // @ts-expect-error a launcher has a name
  createClaudeCliProvider({ launch: { args: ["exec"] } });
  // @ts-expect-error an option of the wrong type
  createClaudeCliProvider({ timeout: "10s" });

  await using cli = createClaudeCliProvider(options);
  assertType<Equal<typeof cli, CliProvider<AIMessage>>>();

  // Tools: LangChain's, plain ones, OpenAI's.
  const weather = tool(async () => "", {
    name: "weather",
    schema: { type: "object", properties: {} },
    description: "tells it",
  });
  const schema = { type: "object" } as const;
  const adapter = cli.bindTools([
    weather,
    { name: "plain", schema },
    { type: "function", function: { name: "openai" } },
  ]);
  assertType<Equal<typeof adapter, CliProvider<AIMessage>>>();
  // @ts-expect-error a tool without a name
  cli.bindTools([{ description: "nameless" }]);

  // Messages, in every form.
  const langchain: BaseMessage[] = [new HumanMessage("hi")];
  const thread: api.MessageInput[] = [
    ...langchain,
    "hi",
    ["user", "hi"],
    { role: "user", content: "hi" },
    { type: "tool", content: [{ type: "text", text: "42" }], tool_call_id: "c1", status: "error" },
    { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: { content: "hi" } },
    { type: "human", data: { content: "hi" } },
  ];
  // @ts-expect-error a thread is an array
  await adapter.invoke("hi");

  const message = await adapter.invoke(thread, { signal, timeout: 5000 });
  assertType<Equal<typeof message, api.WithStructured>>();
  assertType<Equal<typeof message.response_metadata.fallback, api.FallbackMetadata | undefined>>();
  thread.push(message);

  const updates: string[] = [];
  await adapter.invokeWithUpdates(
    langchain,
    async (update) => {
      switch (update.type) {
        case "assistant_message":
          updates.push(update.content);
          break;
        case "tool_call":
          updates.push(update.toolCall.name);
          break;
        case "usage":
          updates.push(String(update.usage.totalTokens + (update.usage.cacheReadTokens ?? 0)));
          break;
        case "final":
          updates.push(update.content ?? "", update.rawStopReason ?? "");
          break;
        default:
          update satisfies never;
      }
    },
    { signal },
  );

  for await (const event of adapter.stream(langchain)) {
    assertType<Equal<typeof event, api.ProviderEvent>>();
    if (event.type === "text_delta") updates.push(event.text);
    if (event.type === "done") {
      updates.push(event.reply.content, event.reply.thinking ?? "");
      for (const detail of event.reply.reasoning ?? []) {
        if (detail.type === "reasoning.text") updates.push(detail.text, detail.signature ?? "");
        if (detail.type === "reasoning.summary") updates.push(detail.summary);
        if (detail.type === "reasoning.encrypted") updates.push(detail.data, detail.id ?? "");
      }
    }
    if (event.type === "waiting") assertType<Equal<typeof event.until, number>>();
    if (event.type === "other") assertType<Equal<typeof event.raw, unknown>>();
  }

  try {
    await execFileAsync("claude", ["--version"], { timeout: 5000, maxBuffer: 1024 });
  } catch (error) {
    if (error instanceof ProviderError) {
      assertType<Equal<typeof error.code, api.ProviderErrorCode>>();
      assertType<Equal<typeof error.category, api.ErrorCategory>>();
      assertType<Equal<typeof error.resetsAt, Date | undefined>>();
      if (error.code === "CLI_NOT_FOUND" && error.shouldFallback) updates.push(error.hint ?? error.message);
      // @ts-expect-error a code nobody has
      if (error.code === "NOPE") updates.push("never");
    }
    if (ProviderError.isInstance(error)) assertType<Equal<typeof error, ProviderError>>();
  }

  // Several logins, and plans that are waited for.
  createClaudeCliProvider({ login: { configDir: "/logins/a" }, quota: { wait: true, maxWaitMs: 60_000 } });
  // @ts-expect-error a login has a folder
  createClaudeCliProvider({ login: {} });
  await adapter.invoke(thread, { quota: false });
  // @ts-expect-error a wait in ms
  await adapter.invoke(thread, { quota: { wait: true, maxWaitMs: "1h" } });

  createClaudeCliProvider({
    budget: { requests: 100, tokens: 1_000_000, costUsd: 0.5, per: "hour", store: "/budgets/a" },
  });
  createClaudeCliProvider({ budget: false });
  createClaudeCliProvider({ budget: { plan: 0.8 } });
  // @ts-expect-error a window has a length
  createClaudeCliProvider({ budget: { requests: 100 } });
  // @ts-expect-error of three
  createClaudeCliProvider({ budget: { requests: 100, per: "week" } });

  // Limits, records, and which run it was.
  const { processWide, perBinary, processes, rateLimits, budgets } = limits();
  assertType<Equal<(typeof budgets)[number]["resetsAt"], number | undefined>>();
  assertType<Equal<(typeof processes)[number]["state"], "working" | "resting" | "spare">>();
  assertType<Equal<(typeof rateLimits)[number]["resetsAt"], number | undefined>>();
  updates.push(`${processWide.limit} ${processWide.running} ${perBinary["/bin/claude"]?.waiting}`);
  assertType<Equal<typeof native.limits, typeof limits>>();
  createClaudeCliProvider({ logger: console });
  createClaudeCliProvider({
    logger: ({ level, time, message, provider, runId, pid, fields: { exitCode } }) => {
      assertType<Equal<typeof level, "debug" | "info" | "warn" | "error">>();
      updates.push(`${time} ${message} ${provider} ${runId} ${pid} ${exitCode}`);
    },
  });
  // @ts-expect-error not a logger
  createClaudeCliProvider({ logger: { info() {} } });
  const run = new ProviderError({
    category: "unknown",
    code: "UNKNOWN",
    message: "m",
    provider: "p",
    shouldRetry: false,
    shouldFallback: true,
  }).run;
  assertType<Equal<typeof run, api.RunInfo | undefined>>();

  // Several as one: ours, the agent's own, and such a one again.
  const several = createFallbackProvider([cli, theirs], { breaker: { failureThreshold: 3, windowMs: 1, resetMs: 1 } });
  const agents: ModelAdapter = createFallbackProvider([several], { breaker: false });
  const answer = await several.bindTools([weather]).invoke(thread, { signal });
  assertType<Equal<typeof answer, api.WithStructured>>();
  for await (const event of several.stream(thread)) {
    if (event.type === "fallback") updates.push(event.provider, event.code, event.message);
    if (event.type === "done") updates.push(...(event.reply.fallback?.skipped ?? []).map((it) => it.code));
  }
  await several.close();
  updates.push(several.id satisfies "fallback", String(agents));
  // @ts-expect-error a member that can't be asked
  createFallbackProvider([{}]);

  const verdict = classifyError("boom", { provider: "claude", exitCode: null, signal: "SIGTERM", httpStatus: 500 });
  assertType<Equal<typeof verdict, api.ErrorClassification>>();
  updates.push(verdict.code, verdict.category, String(verdict.resetsAt?.getTime()));

  const texts: string[] = [messagesToXml(thread), messagesToPrompt(langchain), escapeXml("<"), stripAnsi("x")];
  updates.push(...texts, ...parseToolCalls("").map((call) => `${call.name}${call.id}${JSON.stringify(call.args)}`));

  // The native entry's answers go into a thread of either; its errors are the same.
  const json = await native.createClaudeCliProvider().invoke(langchain);
  assertType<Equal<typeof json, api.WithStructured<api.AIMessageJson>>>();
  await adapter.invoke([json]);
  const error: ProviderError = new native.ProviderError(
    new ProviderError({
      category: "unknown",
      code: "UNKNOWN",
      message: "m",
      provider: "p",
      shouldRetry: false,
      shouldFallback: true,
    }),
  );
  updates.push(error.message);
}

export async function askApi(options: OpenAiCompatibleProviderOptions): Promise<string> {
  const provider: ApiProvider = createOpenAiCompatibleProvider({
    ...options,
    model: "m",
    headers: { "x-title": "t" },
    toolChoice: { name: "t" },
    extraBody: { top_k: 1 },
  });
  const bound: ApiProvider = provider.bindTools([{ name: "t", parameters: { type: "object" } }]);
  const adapter: ModelAdapter = bound;
  const message = await bound.invoke(["hi"], { timeout: 1 });
  assertType<Equal<typeof message, api.WithStructured>>();
  // @ts-expect-error: a model has to be named
  createOpenAiCompatibleProvider({ baseURL: "http://127.0.0.1/v1" });
  // @ts-expect-error: there is no such choice
  createOpenAiCompatibleProvider({ model: "m", toolChoice: "some" });
  await using closed = provider;
  return closed.id + String(message.content) + String(adapter === bound);
}

// An agent: LangChain tools and plain ones, everything that can be said, and what comes of it.
export async function agent(search: StructuredToolInterface): Promise<string> {
  const run = runAgent({
    provider: provider.bindTools([]),
    systemPrompt: "Be brief.",
    messages: [new HumanMessage("hi"), ["user", "there"], "you"],
    tools: [
      search,
      tool(({ n }: { n: number }) => n, { name: "n", schema: { type: "object" } as const }),
      {
        name: "plain",
        execute: async ({ a }: { a: string }, { signal, toolCallId }) => [a, signal.aborted, toolCallId],
      },
    ],
    permissions: {
      allow: ["read_*", /^list/],
      deny: [/secret/i],
      ask: async ({ name, args }, { signal, agent: who }) =>
        name === who ? signal.aborted : { allow: false, reason: "no", args: { ...args } },
    },
    limits: { maxSteps: 5, maxToolCalls: 9, timeoutMs: 1000, maxCostUsd: 0.5, maxRepeatedCalls: 2 },
    builtins: {
      completionReport: "required",
      plannerOutput: true,
      handoff: { agents: { reviewer: { provider, description: "reviews", limits: { maxSteps: 2 } } }, maxDepth: 2 },
    },
    onEvent: (event) => console.log(event.type, event.runId, event.agent),
    signal: new AbortController().signal,
  });
  for await (const event of run) {
    if (event.type === "permission")
      assertType<Equal<typeof event.by, "allow" | "deny" | "ask" | "builtin" | "default">>();
    if (event.type === "run_failed" && event.error) throw event.error;
  }
  const { status, messages, limit, error, completionReport, plannerOutput, costUsd } = await run.result;
  assertType<Equal<typeof messages, BaseMessage[]>>();
  assertType<Equal<typeof status, "completed" | "failed" | "cancelled" | "limit">>();
  // @ts-expect-error: there has to be something to do
  runAgent({ provider });
  // @ts-expect-error: one or the other
  runAgent({ provider, prompt: "hi", messages: [] });
  // @ts-expect-error: nothing would run it
  runAgent({ provider, prompt: "hi", tools: [{ name: "t" }] });
  // @ts-expect-error: an adapter of one's own is none
  runAgent({ provider: theirs, prompt: "hi" });
  return `${limit} ${error?.code} ${completionReport?.summary} ${plannerOutput?.steps?.length} ${costUsd ?? 0}`;
}

// What a call chooses for itself, in every way of asking; a fallback provider and an API take the same.
const choices: api.InvokeOptions = {
  model: "opus",
  reasoning: { effort: "a word of the model's own" },
  toolChoice: { name: "calculator" },
  maxOutputTokens: 100,
  stop: ["END"],
  temperature: 0,
  onUnsupported: "warn",
};
export const chosen = () => [
  provider.invoke([], choices),
  provider.invokeWithUpdates([], () => {}, { toolChoice: "any" }),
  provider.stream([], { toolChoice: "none", reasoning: { effort: "low" } }),
  createFallbackProvider([provider]).invoke([], choices),
  native
    .createClaudeCliProvider({ reasoning: { effort: "max" }, stop: [], onUnsupported: "error" })
    .invoke([], choices),
  runAgent({ provider, prompt: "go", model: "opus", reasoning: { effort: "low" }, temperature: 0.5, stop: ["END"] }),
  runAgent({ provider, prompt: "go", webSearch: true, reasoning: "off" }),
  provider.invoke(["hi"], { webSearch: false, serviceTier: "flex", speed: "fast" }),
  runAgent({ provider, prompt: "go", serviceTier: "a word of the server's own", speed: "standard" }),
];
// @ts-expect-error "fast" or "standard"
export const hasty = () => provider.invoke([], { speed: true });
// @ts-expect-error true or false
export const searching = () => provider.invoke([], { webSearch: "live" });
export const catalogue = () => native.createClaudeCliProvider({ tools: { search: true }, webSearch: true });
// @ts-expect-error an object
export const declared = () => createCodexCliProvider({ tools: "search" });
export const choosable: api.ToolChoice[] = ["auto", "none", "any", { name: "calculator" }];
// @ts-expect-error it is an object: `reasoning: { effort: "low" }`
export const effort = () => provider.invoke([], { reasoning: "low" });
// @ts-expect-error LangChain's word for it is "any" here
export const required = () => provider.invoke([], { toolChoice: "required" });
// @ts-expect-error texts, even if it is one
export const stop = () => provider.invoke([], { stop: "END" });
// @ts-expect-error an agent that had to call a tool each time would never end
export const endless = () => runAgent({ provider, prompt: "go", toolChoice: "any" });
/** A value's type is the schema's, also beside the metadata of LangChain's messages, which may be anything. */
export async function structured(provider: CliProvider): Promise<string> {
  const outputSchema = {} as { _zod: { input: { name: string } } };
  const value = (await provider.invoke(["hi"], { outputSchema })).response_metadata.structured_output;
  const name: string | undefined = value?.name;
  // @ts-expect-error the schema has no such field
  value?.nam;
  return name ?? "";
}

// Runs that survive: any object with the three functions is a store.
const kept: string[] = [];
export const memory: api.CheckpointStore = {
  load: async () => ({ token: 1, entries: kept }),
  append: async (_, entries) => void kept.push(...entries),
  finish: async (runId: string, result: string | undefined, { token }) => void [runId, result, token],
};
export const durable = runAgent({
  provider,
  prompt: "Go.",
  runId: "job-1",
  checkpoint: createFileCheckpoint({ dir: "runs" }),
  heartbeatInterval: 1000,
  onHeartbeat: ({ waitingFor }) => waitingFor.map(({ kind, since }) => [kind, since.getTime()]),
  tools: [
    { name: "pay", onResume: "ask", idempotent: false, execute: (_, { idempotencyKey }) => idempotencyKey.length },
  ],
  permissions: { ask: (_, { interrupted }) => interrupted !== true },
});
durable.result.then(({ resumed }) => assertType<Equal<typeof resumed, api.ResumedRun | undefined>>());
// @ts-expect-error it is one of three words
export const often: api.OnResume = "often";
