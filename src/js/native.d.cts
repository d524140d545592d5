/**
 * What the addon exports (`src/binding/`), as the façade uses it. Everything crosses as JSON text; expected failures cross
 * as values, so that a rejected promise or a thrown error means a bug of the native side.
 *
 * Written by hand and found by TypeScript in place of the generated `native.cjs`.
 */

/** SPEC-01's `<thread>` of a normalised thread (`PackedThread` in `messages.cjs`). */
export function messagesToXml(messagesJson: string, texts: string, plan: Uint32Array): string;
/** SPEC-01's labelled text of a normalised thread. */
export function messagesToPrompt(messagesJson: string, texts: string, plan: Uint32Array): string;
/** JSON array of `{id, name, args}`. */
export function parseToolCalls(text: string): string;
/** `text` with XML's five special characters escaped. */
export function escapeXml(text: string): string;
/** `text` without terminal escape sequences. */
export function stripAnsi(text: string): string;

/** JSON of what the output comes to (`src/provider/output.rs`). */
export function parseCliOutput(stdout: string, format: "text" | "json" | "stream-json", provider?: string): string;
/** `{"ok": error}`, whatever the text; `{"err": …}` if the context is ill-typed. */
export function classifyError(text: string, contextJson: string, nowMs: number): string;
/** JSON `{"categories": [{category, shouldRetry, shouldFallback}], "codes": [{code, category, shouldFallback}]}`: all there are. */
export function errorCodes(): string;
/** `{"ok": whether members have breakers}` or `{"err": …}`. */
export function checkFallbackOptions(optionsJson: string): string;

/** Takes secrets out of text, as a run log does (`src/redact`). */
export class NativeRedactor {
  /** @param knownJson `{"env": {name: value}, "secrets": [value]}` */
  constructor(knownJson: string);
  /** Plain text without its secrets. */
  redact(text: string): string;
  /** JSON text without the secrets in its strings. */
  redactJson(json: string): string;
}

/** Whether a provider that keeps failing is asked (`src/model/retry.rs`). Every time is `Date.now()`. */
export class NativeBreaker {
  constructor(optionsJson: string);
  /** `{"ticket": number}` for a call that may go, or `{"wait": ms since the epoch}`. */
  admit(nowMs: number): string;
  /** It was answered. */
  succeeded(ticket: number, nowMs: number): void;
  /** It failed as another provider might not have. */
  failed(ticket: number, nowMs: number): void;
  /** A quota is used up, until then if that is known. */
  usedUp(ticket: number, nowMs: number, resetsAt?: number): void;
  /** It says nothing about the provider. */
  passed(ticket: number, nowMs: number): void;
  /** `"closed"`, `"open"` or `"half_open"`. */
  phase(nowMs: number): string;
}

/** Names a new owner of child processes: one per JavaScript environment. */
export function attach(): number;
/** Kills every process group of that owner, synchronously, and removes its runs' private folders. */
export function killAll(owner: number): void;

/** `Limits` of index.d.ts as JSON. */
export function limits(): string;

/** Where gateways of this process listen, all of them; `{"ok": null}`. */
export function noteGateways(addresses: string[]): Promise<string>;

/** Messages that may be handed over again by their numbers (`src/thread.rs`). */
export class NativeShelf {
  constructor();
  /** Keeps the messages of these numbers no longer. */
  release(numbers: Uint32Array): void;
  /** Keeps no message any longer. */
  clear(): void;
}

/** A provider whose requests `listener` answers (`src/binding/provider.rs`). It keeps nothing alive. */
export class NativeScript {
  constructor(optionsJson: string, listener: (messageJson: string) => void);
  /** The provider that asks it; its `check` tells what is wrong with the options. */
  provider(): NativeProvider;
  /** Lets go of the listener, once the provider is closed. */
  end(): void;
  /** Takes events of the answer to a request: `[{"text_delta": {…}}]`. */
  tell(number: number, eventsJson: string): void;
}

/** One provider, of a CLI or of an API, with its limits and what is known about its CLI. */
export class NativeProvider {
  constructor(kind: string, optionsJson: string, owner: number);
  /** The provider of a CLI that `configJson` describes. */
  static acp(configJson: string, optionsJson: string, owner: number): NativeProvider;
  static custom(configJson: string, optionsJson: string, owner: number): NativeProvider;
  /** That of an OpenAI-compatible API. */
  static api(optionsJson: string): NativeProvider;
  /** What the provider calls itself. */
  readonly id: string;
  /** `{"ok": null}`, or `{"err": …}` that names the option. Without the former, everything else throws. */
  check(): string;
  /**
   * Begins a run of a thread, some of whose messages may be on the shelf; `null` if there is no message of a number in the plan.
   *
   * @param packed the parts of a `PackedThread` in `messages.cjs`
   * @param callJson `{"events": boolean, "partial": boolean, "timeout"?: ms, "log"?: boolean,
   *   "record"?: {"path": absolute, "prompts": boolean}, "outputSchema"?: JSON Schema}`
   * @param envJson what the child inherits, and where an API's key and proxy are looked up, where that is not the process's
   *   environment (worker threads)
   */
  start(
    shelf: NativeShelf,
    packed: [messagesJson: string, texts: string, plan: Uint32Array],
    toolsJson: string,
    callJson: string,
    envJson?: string,
  ): NativeRun | null;
  /** The provider as an agent talks to it. */
  model(): NativeModel;
  /** The models of the login: `{"ok": ProviderModel[]}` or `{"err": …}`. No model is asked. */
  models(envJson?: string): Promise<string>;
  /**
   * Starts processes for the next calls and resolves when they have answered: `{"ok": null}` or `{"err": …}`.
   *
   * @param knownJson `{"system": text?, "tools": [spec…]?}`
   * @param envJson as for `start`
   */
  prewarm(knownJson: string, envJson?: string): Promise<string>;
  /**
   * @param levelJson `"command"`, `"version"`, `"auth"` or `"request"`, as JSON
   * @param envJson as for `start`
   */
  health(levelJson: string, envJson?: string): NativeHealth;
  /** Ends what is running and refuses what comes. Resolves when no process is left. */
  close(): Promise<void>;
  /** Refuses further calls from now on; those that run or wait go on. */
  refuseFurther(): void;
  /** Refuses further calls, and waits until those that run or wait have ended by themselves. */
  drain(): Promise<void>;
}

/** Whatever an agent can talk to. */
export class NativeModel {}

/** What `runAgent` is to run. */
export class NativeAgent {
  /** @param specJson as `src/agent/spec.rs` reads it */
  constructor(specJson: string);
  /** `{"ok": null}`, or `{"err": …}` that names the field. */
  check(): string;
  /** The model of the spec's next agent: `{"ok": null}`, or `{"err": …}` if it can't be called as the agent wants it. */
  addModel(model: NativeModel): string;
  /** The run goes on after these entries, a JSON array of texts, and what happens in it is kept: `{"ok": null}` or `{"err": …}`. */
  resume(entriesJson: string): string;
  /** Begins the run, once. `envJson` as for a provider's `start`; one that is `cancelled` already asks nobody. */
  start(envJson: string | undefined, cancelled: boolean): NativeAgentRun;
}

/** An agent's run under way. */
export class NativeAgentRun {
  /** The next batch of events, and of requests to this side, a JSON array; `null` when there are no more. */
  next(): Promise<string | null>;
  /** `{"ok": result}`, once everything the run has started has ended. */
  result(): Promise<string>;
  /** Answers `execute`: `{"content": string | blocks, "isError": boolean}`. Too late an answer is dropped. */
  complete(request: number, answerJson: string): void;
  /** Answers `ask`: `{"allow": boolean, "reason"?: string, "args"?: object}`. */
  decide(request: number, decisionJson: string): void;
  /** Answers `append`: `null`, or `{"locked": boolean, "message": string}`. */
  stored(request: number, answerJson: string): void;
  /** Ends the run. Does nothing when it is over. */
  cancel(): void;
}

/** Checkpoints in the files of one folder (`src/checkpoint.rs`). */
export class NativeCheckpoints {
  constructor(folder: string);
  /** Takes the run: `{"ok": {token, entries, result: string | null}}` or `{"err": …}`. */
  load(runId: string): Promise<string>;
  /** `{"ok": null}` when the entries, JSON texts, are on the disk, or `{"err": …}`. */
  append(runId: string, token: number, entries: string[]): Promise<string>;
  /** The run is finished, or given back: `{"ok": null}` or `{"err": …}`. */
  finish(runId: string, token: number, result?: string): Promise<string>;
}

/** A file that one process at a time has for itself (`src/checkpoint.rs`): until it gives it back or ends, in whichever way. */
export class NativeLock {
  constructor(path: string);
  /** `{"ok": true}`, `{"ok": false}` if somebody has it, or `{"err": …}`. */
  take(): Promise<string>;
  /** Gives it back; the file stays. */
  release(): void;
}

/** A budget that no provider has (`src/binding/errors.rs`): what a gateway's key may use. */
export class NativeBudget {
  /** @param name what `status` calls it; @param optionsJson `{"budget": …}` as a provider's option */
  constructor(name: string, optionsJson: string);
  /** `{"ok": null}`, or `{"err": …}` that names the option. */
  check(): string;
  /** Lets a request in: `{"ok": {window}}`, `{"ok": {usedUp: {limit, what, resetsAt}}}`, or `{"err": …}` where its store can't be used. */
  admit(): Promise<string>;
  /** Gives back what was let in as of this `window`. */
  giveBack(window: string): Promise<string>;
  /** Counts `{tokens?, costUsd?}`: `{"ok": true}`, or `{"ok": false}` where the store takes it only with the next request. */
  settle(usedJson: string): Promise<string>;
  /** `status` shows it no more. */
  close(): void;
}

/** A command line for the system's shell, supervised like every process (`src/process/start.rs`). */
export class NativeShell {
  /** @param commandJson `{"command": text, "cwd": absolute, "timeout": ms, 0 for none}`; `envJson` as for `NativeProvider.start` */
  constructor(commandJson: string, owner: number, envJson?: string);
  /** `{"ok": {exitCode: number | null, timedOut: boolean, output: text}}` or `{"err": …}`, when nothing of it is left. */
  run(): Promise<string>;
  /** Ends it. Does nothing when it is over. */
  cancel(): void;
}

/** Whether it can be the id of a run. */
export function isRunId(runId: string): boolean;
/** What every page of ours begins with, up to its body. */
export function pageHead(title: string): string;

/** One look at a provider's health under way. */
export class NativeHealth {
  /** `{"ok": HealthReport}`, `{"err": …}` of a closed provider, or `{"cancelled": true}`, once no process of it is left. */
  result(): Promise<string>;
  /** Ends the look. Does nothing when it is over. */
  cancel(): void;
}

/** `{"ok": {name, version, config: JSON Schema, log: JSON Schema}}`. */
export function claudeCodeFacts(): string;

/** The Claude Code adapter (`src/claude_code/`). */
export class NativeClaudeCode {
  /** @param node the host's version, for the log */
  constructor(optionsJson: string, owner: number, node: string);
  /** `{"ok": null}`, or `{"err": …}` that names the option. Without the former, everything else throws. */
  check(): string;
  /** `contextJson` is index.d.ts's `AgentExecutionContext` without its signal; `envJson` as for `NativeProvider.start`. */
  execute(contextJson: string, envJson?: string): NativeExecution;
  /** `{"ok": RunLog}` or `{"err": …}`. */
  normalizeLog(resultJson: string, contextJson: string): string;
  /** A look whether the CLI is there and says its version. */
  look(envJson?: string): NativeLook;
}

/** One run of it. */
export class NativeExecution {
  /** `{"ok": AgentExecutionResult}`, `{"err": …}` or `{"cancelled": true}`, once no process of it is left. */
  result(): Promise<string>;
  /** Ends the run. Does nothing when it is over. */
  cancel(): void;
}

/** One look. */
export class NativeLook {
  /** `{"ok": HealthReport}`. */
  result(): Promise<string>;
}

/** JSON `[{id, name, command, versions, models, pure, hands}]` of every built-in provider; `create${name}CliProvider` makes it. */
export function providers(): string;

/** One invocation under way. */
export class NativeRun {
  /** The next batch of events, a JSON array; `null` when there are no more. Only with `"events": true`. */
  next(): Promise<string | null>;
  /**
   * `{"ok": Reply}`, `{"err": …}` or `{"cancelled": true}`, once the run has ended. The reply's `content` is empty here: `takeText`
   * gives it. So are its `messages`, which the `done` event has.
   */
  result(): Promise<string>;
  /** The text of the answer, once, after `result`. */
  takeText(): string;
  /** The records since the last call, a JSON array; `null` if there are none. Only with `"log": true`. */
  takeLog(): string | null;
  /** The next records as soon as there are any, a JSON array of `LogRecord`; `null` when the run is over. */
  nextLog(): Promise<string | null>;
  /** Resolves when nobody needs to wait for whoever takes the events: the run has failed, was cancelled, or its time is up. */
  lost(): Promise<void>;
  /** Resolves what `lost` has promised. */
  unwatch(): void;
  /** Ends the run. Does nothing when it is over. */
  cancel(): void;
}

/** `{"ok": standard output}` or `{"err": …}`. */
export function execFile(
  file: string,
  argsJson: string,
  optionsJson: string,
  owner: number,
  envJson?: string,
): Promise<string>;

/** One run of a run log. `runId` picks it; the last that is no part of another otherwise. */
export class NativeReplay {
  constructor(path: string, runId?: string);
  /** `{"ok": RunLogInfo and what the run came to}` or `{"err": …}`. */
  open(): Promise<string>;
  /** Some events from that one on, a JSON array; `null` behind the last, and before `open`. */
  batch(from: number): string | null;
}

/** `{"ok": text}` or `{"err": …}`. `shownJson`: `{"format": "text" | "html" | "json", "colour": boolean, "full": boolean}`. */
export function showRunLog(path: string, shownJson: string): Promise<string>;
/** `{"ok": null}` or `{"err": …}`. `refusedJson`: `{"runId", "provider", "startedAt", "error"}`, the last a `ProviderError`. */
export function recordRefusedCall(path: string, refusedJson: string): Promise<string>;
/** Of this machine, and of the logs at these paths since a moment, ms since the epoch. */
export function machineStatus(paths: string[], since: number): Promise<string>;
