/**
 * Messages that the native side has are not handed over again, and never taken for what they no longer are: after any change in place,
 * what arrives there is what encoding the thread afresh would give.
 */
import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import aiSdk from "../src/js/ai-sdk/prompt.cjs";
import knownModule from "../src/js/known.cjs";
import messages from "../src/js/messages.cjs";
import { type Packed, Shelf } from "./facade-native-side.js";
import { ALL } from "./support/harness.mjs";

afterEach(() => {
  vi.useRealTimers();
});

/** What a call of a thread comes to: the thread as the native side has it, as text, or the reason why there is none. */
type Outcome = { thread: string } | { error: string };

function outcome(action: () => unknown): Outcome {
  try {
    return { thread: JSON.stringify(action()) };
  } catch (error) {
    return { error: String(error) };
  }
}

/** A number for a content goes over as its text. */
const fresh = (thread: unknown) =>
  outcome(() =>
    JSON.parse(messages.encodeMessages(thread)).map((message: { content: unknown }) =>
      typeof message.content === "number" ? { ...message, content: String(message.content) } : message,
    ),
  );

function setup() {
  const shelves: Shelf[] = [];
  class Observed extends Shelf {
    constructor() {
      super();
      shelves.push(this);
    }
  }
  const known = knownModule.createKnown({ NativeShelf: Observed as never });
  /** Its run is the thread as it arrives. */
  const engine = { start: (shelf: Shelf, packed: Packed) => shelf.thread(...packed) } as never;
  const send = (thread: unknown) =>
    outcome(() => {
      const packed = known.pack(thread);
      return known.handOver(engine, packed, "[]", "{}");
    });
  /** How many messages had to be handed over for `thread`, which arrives as it is. */
  const cost = (thread: unknown) => {
    const before = shelves[0]?.handedOver ?? 0;
    expect(send(thread)).toEqual(fresh(thread));
    return (shelves[0]?.handedOver ?? 0) - before;
  };
  return { known, engine, send, cost, shelf: () => shelves[0] as Shelf, shelves };
}

const args = (n: number) => ({ path: `file-${n}`, lines: [n, { deep: [null, true, "x"] }] });

/** A loop's thread after `steps` steps. */
const THREADS = {
  langchain: (steps: number) => [
    new SystemMessage("be brief"),
    new HumanMessage([{ type: "text", text: "go" }]),
    ...Array.from({ length: steps }, (_, n) => [
      new AIMessage({ content: `step ${n}`, tool_calls: [{ id: `c${n}`, name: "read", args: args(n) }] }),
      new ToolMessage({ content: `result ${n}`, tool_call_id: `c${n}`, status: n % 2 ? "error" : "success" }),
    ]).flat(),
  ],
  plain: (steps: number) => [
    ["system", "be brief"],
    "go",
    ...Array.from({ length: steps }, (_, n) => [
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: `c${n}`, type: "function", function: { name: "read", arguments: JSON.stringify(args(n)) } }],
        additional_kwargs: { reasoning_details: [{ type: "reasoning.encrypted", data: `sealed ${n}` }] },
        response_metadata: { provider: "codex", model: "m", run: { login: "l" } },
      },
      { role: "tool", tool_call_id: `c${n}`, content: `result ${n}` },
    ]).flat(),
  ],
  aiSdk: (steps: number) =>
    aiSdk.messagesOf([
      { role: "system", content: "be brief" },
      { role: "user", content: [{ type: "text", text: "go" }] },
      ...Array.from({ length: steps }, (_, n) => [
        {
          role: "assistant" as const,
          content: [{ type: "tool-call" as const, toolCallId: `c${n}`, toolName: "read", input: args(n) }],
        },
        {
          role: "tool" as const,
          content: [
            {
              type: "tool-result" as const,
              toolCallId: `c${n}`,
              toolName: "read",
              output: { type: "text" as const, value: `result ${n}` },
            },
          ],
        },
      ]).flat(),
    ] as never),
};

describe.each(Object.entries(THREADS))("a loop of %s messages", (_, threadOf) => {
  it("hands over what is new", () => {
    const { cost } = setup();
    const whole: unknown[] = threadOf(40);
    expect(cost(whole.slice(0, 2))).toBe(2);
    const costs = Array.from({ length: 40 }, (_, n) => cost(whole.slice(0, 4 + 2 * n)));
    expect(costs).toEqual(costs.map(() => 2));
  });

  it("hands over what is new where every message is made anew", () => {
    const { cost } = setup();
    expect(cost(threadOf(0))).toBe(2);
    const costs = Array.from({ length: 40 }, (_, n) => cost(threadOf(n + 1)));
    expect(costs).toEqual(costs.map(() => 2));
  });

  it("hands over little where the thread's beginning is left out, or something is put into it", () => {
    const { cost } = setup();
    expect(cost(threadOf(20))).toBe(42);
    const [system, ...rest] = threadOf(21) as unknown[];
    expect(cost([system, ...rest.slice(3)])).toBe(2);
    expect(cost([system, "a note", ...(threadOf(22) as unknown[]).slice(5)])).toBe(3);
  });
});

describe("a message that is known", () => {
  it("is so in every thread and for every provider", () => {
    const { cost } = setup();
    const shared = new HumanMessage("shared");
    expect(cost([shared])).toBe(1);
    expect(cost([new SystemMessage("another thread"), shared, shared])).toBe(1);
  });

  it("may come twice in the thread that brings it", () => {
    const { cost } = setup();
    const twice = new HumanMessage("twice");
    expect(cost([twice, "between", twice])).toBe(2);
  });

  it("is looked at when the call is made, and never again", () => {
    const { known, engine } = setup();
    const message = { role: "user", content: [{ type: "text", text: "before" }] };
    const packed = known.pack([message]);
    (message.content[0] as { text: string }).text = "after";
    const thread = known.handOver(engine, packed, "[]", "{}");
    expect(thread).toEqual([{ type: "human", content: [{ type: "text", text: "before" }] }]);
  });

  it("is handed over whole where the native side has lost it", () => {
    const { cost, shelf } = setup();
    const thread = THREADS.langchain(3);
    expect(cost(thread)).toBe(8);
    shelf().clear();
    expect(cost(thread)).toBe(8);
    expect(cost(thread)).toBe(8);
    expect(cost(thread)).toBe(0);
  });
});

// biome-ignore lint/suspicious/noExplicitAny: whatever a caller may make of a message
type Loose = any;

/** Changes of a message in place. `any` is what a caller may come up with. */
const CHANGES: Record<string, (message: Loose, any: Loose) => unknown> = {
  "its content": (message, any) => (message.content = any),
  "its content, to a text": (message, any) => (message.content = String(any)),
  "a block's text": (message, any) => (blockOf(message).text = any),
  "a block's type": (message, any) => (blockOf(message).type = any),
  "a block, for another": (message, any) => blocksOf(message).splice(0, 1, any),
  "a block more": (message, any) => blocksOf(message).push(any),
  "a block less": (message) => blocksOf(message).pop(),
  "a block's keys, in another order": (message) => {
    const block = blockOf(message);
    const { type } = block;
    delete block.type;
    block.type = type;
  },
  "the calls": (message, any) => (message.tool_calls = any),
  "a call more": (message, any) => callsOf(message).push({ id: "new", name: "new", args: any }),
  "a call less": (message) => callsOf(message).pop(),
  "the calls' order": (message) => callsOf(message).reverse(),
  "a call's id": (message, any) => (callOf(message).id = any),
  "a call's name": (message, any) => (callOf(message).name = any),
  "a call's arguments": (message, any) => (callOf(message).args = any),
  "an argument": (message, any) => (argsOf(message).path = any),
  "an argument within an argument": (message, any) => (argsOf(message).lines[1].deep[2] = any),
  "an argument more": (message, any) => (argsOf(message).more = any),
  "an argument less": (message) => delete argsOf(message).path,
  "OpenAI's arguments": (message, any) => (callOf(message).function = { name: "f", arguments: any }),
  "OpenAI's calls": (message, any) => {
    message.tool_calls = undefined;
    message.additional_kwargs = { ...message.additional_kwargs, tool_calls: [{ id: "o", name: "o", args: any }] };
  },
  "whose result it is": (message, any) => (message.tool_call_id = any),
  "its status": (message, any) => (message.status = any ? "error" : "success"),
  "whether it failed": (message, any) => (message.is_error = any),
  "the reasoning": (message, any) => (message.additional_kwargs = { reasoning_details: any }),
  "a detail of the reasoning": (message, any) => {
    message.additional_kwargs ??= {};
    message.additional_kwargs.reasoning_details ??= [{}];
    message.additional_kwargs.reasoning_details[0].data = any;
  },
  "who reasoned": (message, any) => (reasonedBy(message).provider = any),
  "whose login reasoned": (message, any) => (reasonedBy(message).run = { login: any }),
  "which model reasoned": (message, any) => (reasonedBy(message).model = any),
  "its role": (message, any) => (message.role = any),
  "its type": (message, any) => (message.type = any),
  "who speaks": (message, any) => (message._getType = () => any),
  "its prototype": (message) => Object.setPrototypeOf(message, { _getType: () => "human" }),
  "a block's prototype": (message, any) => Object.setPrototypeOf(blockOf(message), { toJSON: () => any }),
  "the arguments' prototype": (message) => Object.setPrototypeOf(argsOf(message), null),
  "the calls' prototype": (message, any) =>
    Object.setPrototypeOf(callsOf(message), Object.create(Array.prototype, { toJSON: { value: () => any } })),
  "an argument's list's prototype": (message, any) =>
    Object.setPrototypeOf(argsOf(message).lines, Object.create(Array.prototype, { toJSON: { value: () => any } })),
  "a toJSON of its arguments": (message, any) =>
    Object.defineProperty(argsOf(message), "toJSON", { value: () => any, configurable: true }),
  "its content, to a getter": (message) => counted(message, "content"),
  "an argument, to a getter": (message) => counted(argsOf(message), "path"),
  "a block, to a proxy": (message) => {
    const text = { count: 0 };
    const get = (target: object, key: string, self: unknown) =>
      key === "text" ? `seen at ${clock.now} ${text.count}` : Reflect.get(target, key, self);
    blocksOf(message)[0] = new Proxy({ type: "text", text: "" }, { get });
  },
  "its serialised form": (message, any) => {
    message.lc = 1;
    message.id = ["langchain_core", "messages", "HumanMessage"];
    message.kwargs = { content: any };
  },
  "its stored form": (message, any) => {
    message.content = undefined;
    message.data = { content: any };
  },
  "bytes in it": (message) => (blockOf(message).data = BYTES),
  "a byte of them": () => (BYTES[0] = (BYTES[0] as number) + 1),
  "a blob in it": (message) => (blockOf(message).data = new Blob(["x"])),
  "a date in it": (message) => (argsOf(message).date = new Date(0)),
  "a date that is changed": (message) => {
    const { date } = argsOf(message);
    if (date instanceof Date) date.setTime(date.getTime() + 1);
  },
  "what calls itself a blob": (message) => (blockOf(message)[Symbol.toStringTag as never] = "Blob" as never),
  "a key that is none": (message, any) =>
    Object.defineProperty(argsOf(message), "__proto__", { value: any, enumerable: true, configurable: true }),
  "a key that is not counted": (message, any) =>
    Object.defineProperty(argsOf(message), "path", { value: any, enumerable: false }),
  "a circle": (message) => (argsOf(message).more = message),
  "what has no JSON": (message) => (argsOf(message).more = 1n),
  "what JSON leaves out": (message) => Object.assign(argsOf(message), { f: () => {}, s: Symbol("s"), u: undefined }),
  "a hole": (message) => (argsOf(message).lines = new Array(3)),
  "numbers that JSON has not": (message) => (argsOf(message).lines = [Number.NaN, Number.POSITIVE_INFINITY, -0]),
  "a wrapped text": (message, any) => (argsOf(message).path = Object.setPrototypeOf(new String(any), Object.prototype)),
  "a class's object": (message, any) =>
    (argsOf(message).more = new (class Own {
      value = any;
    })()),
  depth: (message) => {
    let deep: object = {};
    for (let n = 0; n < 200; n += 1) deep = { deep };
    argsOf(message).more = deep;
  },
};

const BYTES = Buffer.from("bytes");
const clock = { now: 0 };

/** A getter whose value another thing changes. */
const counted = (holder: object, key: string) =>
  Object.defineProperty(holder, key, { get: () => `at ${clock.now}`, enumerable: true, configurable: true });

/** Where a message says whose reasoning it has; it has some from now on. */
function reasonedBy(message: Loose): Loose {
  message.additional_kwargs = { reasoning_details: [{ type: "reasoning.encrypted", data: "sealed" }] };
  message.response_metadata ??= { provider: "codex", model: "m", run: { login: "l" } };
  return message.response_metadata;
}

/** A part of a message that there is from now on. */
function blocksOf(message: Loose): Loose[] {
  if (!Array.isArray(message.content)) message.content = [{ type: "text", text: "block" }];
  return message.content;
}

function blockOf(message: Loose): Loose {
  const blocks = blocksOf(message);
  if (typeof blocks[0] !== "object" || blocks[0] === null) blocks[0] = { type: "text", text: "block" };
  return blocks[0];
}

function callsOf(message: Loose): Loose[] {
  if (!Array.isArray(message.tool_calls)) message.tool_calls = [];
  return message.tool_calls;
}

function callOf(message: Loose): Loose {
  const calls = callsOf(message);
  if (typeof calls[0] !== "object" || calls[0] === null) calls[0] = { id: "c", name: "read", args: args(0) };
  return calls[0];
}

function argsOf(message: Loose): Loose {
  const call = callOf(message);
  if (typeof call.args !== "object" || call.args === null || !Array.isArray(call.args.lines)) call.args = args(0);
  if (call.args.lines[1]?.deep === undefined) call.args.lines = args(0).lines;
  return call.args;
}

/** Changes of the thread itself. */
const THREAD_CHANGES: Record<string, (thread: unknown[], at: number, any: unknown) => unknown> = {
  "a message more": (thread, at, any) => thread.splice(at, 0, { role: "user", content: any }),
  "a message less": (thread, at) => thread.splice(at, 1),
  "the order": (thread) => thread.reverse(),
  "a message twice": (thread, at) => thread.push(thread[at]),
  "a message for another": (thread, at, any) => (thread[at] = new HumanMessage(String(any))),
  "a copy of a message": (thread, at) => (thread[at] = copied(thread[at])),
  "a copy of all": (thread) => thread.splice(0, thread.length, ...thread.map(copied)),
};

function copied(message: unknown) {
  try {
    return JSON.parse(JSON.stringify(message));
  } catch {
    return message;
  }
}

/** Frozen objects and taken names refuse a change: then there is none. */
function attempt(change: () => unknown) {
  try {
    change();
  } catch {}
}

describe("whatever is changed in place", () => {
  it.each(Object.entries(CHANGES))("%s: what arrives is what the thread is then", (_, change) => {
    for (const any of ["other", "", 7, null, undefined, true, ["a"], { a: 1 }, [{ type: "text", text: "t" }]]) {
      for (const at of [0, 1, 2, 3, 4]) {
        const { send } = setup();
        const thread: Loose[] = [
          new HumanMessage([{ type: "text", text: "go" }]),
          ...(THREADS.plain(1) as Loose[]).slice(2),
          ...THREADS.langchain(1).slice(2),
        ];
        expect(send(thread)).toEqual(fresh(thread));
        for (const _ of [1, 2, 3]) {
          attempt(() => change(thread[at], any));
          clock.now += 1;
          expect(send(thread)).toEqual(fresh(thread));
          expect(send(thread)).toEqual(fresh(thread));
        }
      }
    }
  });

  it("one after the other", () => {
    const any = fc.oneof(fc.jsonValue(), fc.string(), fc.constant(undefined));
    const step = fc.oneof(
      fc.record({ change: fc.constantFrom(...Object.keys(CHANGES)), at: fc.nat(9), any }),
      fc.record({ reshape: fc.constantFrom(...Object.keys(THREAD_CHANGES)), at: fc.nat(9), any }),
    );
    const start = fc.constantFrom(...Object.values(THREADS));
    fc.assert(
      fc.property(start, fc.array(step, { maxLength: 12 }), (threadOf, steps) => {
        const { send } = setup();
        const thread: unknown[] = threadOf(3);
        expect(send(thread)).toEqual(fresh(thread));
        for (const step of steps) {
          const at = step.at % Math.max(thread.length, 1);
          if ("change" in step) attempt(() => CHANGES[step.change]?.(thread[at], step.any));
          else attempt(() => THREAD_CHANGES[step.reshape]?.(thread, at, step.any));
          clock.now += 1;
          expect(send(thread)).toEqual(fresh(thread));
        }
      }),
      { numRuns: ALL ? 300 : 100 },
    );
  });

  it("a toJSON of all objects counts", () => {
    const { send } = setup();
    const thread = [new HumanMessage([{ type: "text", text: "go" }])];
    expect(send(thread)).toEqual(fresh(thread));
    Object.defineProperty(Object.prototype, "toJSON", { value: () => "changed", configurable: true });
    try {
      expect(messages.encodeMessages(thread)).toContain("changed");
      const packed = setup().known.pack(thread);
      expect(packed.parts[0]).toMatchObject({ isKept: false });
    } finally {
      Reflect.deleteProperty(Object.prototype, "toJSON");
    }
    expect(send(thread)).toEqual(fresh(thread));
  });
});

describe("what is kept", () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");

  /** Until it is so: how long that takes is the garbage collector's affair. */
  async function until(isSo: () => boolean) {
    while (!isSo()) {
      collect();
      await turn();
    }
  }

  it("ends with the caller's messages, on the native side, too", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { cost, shelf } = setup();
    const stays = new HumanMessage("stays");
    let thread: unknown[] | undefined = [stays, ...THREADS.langchain(10), ...THREADS.plain(10)];
    expect(cost(thread)).toBe(thread.length);
    thread = undefined;
    vi.advanceTimersByTime(5 * 60_000);
    await until(() => shelf().kept.size <= 1);
    expect([...shelf().kept.values()]).toEqual([{ type: "human", content: "stays" }]);
    expect(cost([stays])).toBe(0);
  });

  it("is of the last threads, where messages are made anew", async () => {
    const { cost, shelf } = setup();
    for (let n = 0; n < 12; n += 1) expect(cost([`thread ${n}`])).toBe(1);
    await until(() => shelf().kept.size <= 8);
    expect(cost(["thread 4"])).toBe(0);
    expect(cost(["thread 3"])).toBe(1);
  });

  it("has a bound, and a thread that is longer is sent all the same", () => {
    const { send, shelf } = setup();
    const texts = Array.from({ length: 5 }, (_, n) => new HumanMessage(`${n}`.repeat(15 << 20)));
    for (const text of texts) expect("thread" in send([text])).toBe(true);
    const held = [...shelf().kept.values()].map((message) => (message as { content: string }).content[0]);
    expect(held).toEqual(["4"]);
    expect("thread" in send(texts)).toBe(true);
    expect(shelf().kept.size).toBe(0);
    expect("thread" in send(texts.slice(0, 2))).toBe(true);
    expect(shelf().kept.size).toBe(2);
  });
});
