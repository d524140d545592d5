/**
 * A native side that plays scripts: what the façade's tests run on. The same over the real addon is in the tests of the CLIs.
 */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { afterEach, beforeEach } from "vitest";
import type { CliProvider, ProviderReply } from "../index.js";
import coreModule from "../src/js/core.cjs";

/** One run: batches of events, then a result. Where `hangs`, the run goes on until it is cancelled. */
export interface Script {
  batches?: object[][];
  result?: object;
  hangs?: boolean;
}

/** What `src/model/thread.rs` makes of threads: messages are known by their numbers as long as they are not released. */
export class Shelf {
  kept = new Map<number, object>();
  /** How many messages came with their JSON. */
  handedOver = 0;

  /** `null` if there is no message of a number. */
  thread(json: string, texts: string, plan: Uint32Array): object[] | null {
    const news = new Map<number, object>();
    const thread: object[] = [];
    let [at, textAt] = [0, 0];
    for (let entry = 0; entry < plan.length; entry += 3) {
      const [number = 0, length = 0, textLength = 0] = plan.subarray(entry, entry + 3);
      if (length === 0) {
        const known = this.kept.get(number) ?? news.get(number);
        if (known === undefined) return null;
        thread.push(known);
        continue;
      }
      const message = JSON.parse(json.slice(at, at + length));
      if (typeof message.content === "number") message.content = texts.slice(textAt, textAt + textLength);
      else if (textLength > 0) throw new Error("a text is too many");
      at += length;
      textAt += textLength;
      if (number !== 0) news.set(number, message);
      thread.push(message);
      this.handedOver += 1;
    }
    if (at !== json.length || textAt !== texts.length) throw new Error("lengths that are not those of the strings");
    for (const [number, message] of news) this.kept.set(number, message);
    return thread;
  }

  release(numbers: Uint32Array) {
    for (const number of numbers) this.kept.delete(number);
  }

  clear() {
    this.kept.clear();
  }
}

export type Packed = [json: string, texts: string, plan: Uint32Array];

/** A thread that is handed over whole. */
export const unpack = (...packed: Packed) => new Shelf().thread(...packed);

export function nativeSide(...scripts: Script[]) {
  const log: unknown[] = [];
  class NativeRun {
    #batches: object[][];
    #result: object;
    #text = "";
    #over: Promise<void>;
    #end = () => {};
    #unwatch = () => {};
    constructor({ batches = [], result = { ok: REPLY }, hangs = false }: Script) {
      this.#batches = [...batches];
      this.#result = result;
      this.#over = hangs ? new Promise((resolve) => (this.#end = resolve)) : Promise.resolve();
    }
    async next() {
      const batch = this.#batches.shift();
      if (batch) return JSON.stringify(batch);
      await this.#over;
      return null;
    }
    async result() {
      await this.#over;
      // A run ends some time after it was told to; whoever doesn't wait for it settles before this is logged.
      await new Promise((resolve) => setImmediate(resolve));
      log.push("ended");
      const { ok } = this.#result as { ok?: ProviderReply };
      if (ok === undefined) return JSON.stringify(this.#result);
      this.#text = ok.content;
      return JSON.stringify({ ok: { ...ok, content: "", messages: [] } });
    }
    takeText() {
      return this.#text;
    }
    async nextLog() {
      return null;
    }
    // Nothing but the call's own end, an abort or close() ends the waiting for a listener here.
    async lost() {
      await new Promise<void>((resolve) => {
        this.#unwatch = resolve;
      });
    }
    unwatch() {
      this.#unwatch();
    }
    takeLog() {
      return null;
    }
    cancel() {
      log.push("cancel");
      this.#batches = [];
      this.#result = { cancelled: true };
      this.#end();
    }
  }
  const native = {
    attach: () => 7,
    providers: () => '[{"id":"claude","name":"Claude"},{"id":"codex","name":"Codex"}]',
    killAll: (owner: number) => log.push(["killAll", owner]),
    claudeCodeFacts: () => '{"ok":{"name":"claude-code","version":"0","config":{},"log":{}}}',
    limits: () => '{"processWide":{"limit":4,"running":0,"waiting":0},"perBinary":{}}',
    NativeShelf: Shelf,
    NativeProvider: class {
      #given: unknown[];
      constructor(...given: unknown[]) {
        this.#given = given;
      }
      get id() {
        return this.#given[0];
      }
      check() {
        const isBad = String(this.#given[1]).includes("bad");
        if (isBad) return JSON.stringify({ err: { ...FAILURE, code: "INVALID_OPTION" } });
        log.push(["provider", ...this.#given]);
        return '{"ok":null}';
      }
      start(shelf: Shelf, packed: Packed, tools: string, call: string) {
        const thread = shelf.thread(...packed);
        if (thread === null) return null;
        log.push(["start", thread, JSON.parse(tools), JSON.parse(call)]);
        return new NativeRun(scripts.shift() ?? {});
      }
      refuseFurther() {
        log.push("refuse further");
      }
      async drain() {
        log.push("drain");
      }
      async close() {
        log.push("close");
      }
    },
    messagesToXml: (...packed: [string, string, Uint32Array]) => `xml:${JSON.stringify(unpack(...packed))}`,
    messagesToPrompt: (...packed: [string, string, Uint32Array]) => `text:${JSON.stringify(unpack(...packed))}`,
    parseToolCalls: (text: string) => text,
    escapeXml: (text: string) => `escaped:${text}`,
    stripAnsi: (text: string) => `stripped:${text}`,
    execFile: async (...given: string[]) =>
      JSON.stringify(given[0] === "fail" ? { err: FAILURE } : { ok: given.slice(0, 3).join(" ") }),
  };
  return { native: native as never, log };
}

export const USAGE = { inputTokens: 5, outputTokens: 2, totalTokens: 7 };
export const REPLY: ProviderReply = {
  content: "hi",
  messages: [{ content: "hi" }],
  toolCalls: [],
  invalidToolCalls: [],
  usage: USAGE,
};
export const FAILURE = {
  category: "server",
  code: "CRASHED",
  message: "the CLI died",
  provider: "claude",
  shouldRetry: true,
  shouldFallback: true,
  attempts: 1,
  reasons: [],
};

export function setup(...scripts: Script[]) {
  const { native, log } = nativeSide(...scripts);
  const core = coreModule.createCore({ native, AIMessage: AIMessage as never, toJsonSchema: null });
  const provider = core.createClaudeCliProvider({ model: "opus" }) as unknown as CliProvider;
  log.length = 0;
  return { core, provider, log };
}

export const thread = [new HumanMessage("hello")];
export const started = (tools: object[], call: object) => ["start", [{ type: "human", content: "hello" }], tools, call];
export const ALONE = { events: false, partial: false, documents: true };

export const EVENTS: object[][] = [
  [{ type: "start", runId: "r", provider: "claude", attempt: 1, queuedMs: 0 }],
  [
    { type: "text_delta", text: "let me" },
    { type: "message", content: " let me look\n" },
    { type: "tool_call", toolCall: { id: "t0", name: "Read", args: { path: "x" } } },
    { type: "message", content: "  " },
  ],
  [
    { type: "message", content: "hi" },
    { type: "usage", usage: { ...USAGE, reasoningTokens: 1 }, rawStopReason: "end_turn" },
    { type: "done", reply: { ...REPLY, stopReason: "end_turn" } },
  ],
];

// Each scripted native side is one more to attach to, with an exit hook of its own.
let hooks: NodeJS.ExitListener[] = [];
beforeEach(() => {
  hooks = process.listeners("exit");
});
afterEach(() => {
  for (const hook of process.listeners("exit")) if (!hooks.includes(hook)) process.removeListener("exit", hook);
});
