// @change
/**
 * What the real claude CLI, newest and oldest, does when the API fails, and what is made of it: the reason first, once, without waiting.
 * And every event of a run, and what ends one early.
 */
import { createServer } from "node:net";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  createClaudeCliProvider,
  type ErrorCategory,
  ProviderError,
  type ProviderErrorCode,
  type ProviderEvent,
} from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import type { Script } from "../support/anthropic.mjs";
import { ALL, createProvider, RUNS, sampleOf, sharedRun, VERSIONS, withClaude } from "../support/harness.mjs";
import { markIn, writeToolCalls } from "../support/model.mjs";

interface Case {
  answer: Exclude<Script, (...args: never) => unknown>[number];
  category: ErrorCategory;
  code: ProviderErrorCode;
  /** How the message begins. */
  says: RegExp;
  /** What else is known. */
  more?: object;
  /** Requests of the CLI, newest and oldest, where not one each: it asks once more on its own, differently. */
  requests?: readonly [newest: number, oldest: number];
  /** What became of the first request, where it is not answered. */
  outcome?: "aborted";
  options?: object;
}

const error = (status: number, message: string, headers?: Record<string, string>) => ({
  error: { status, message, ...(headers ? { headers } : {}) },
});

const CASES: Record<string, Case> = {
  "400": {
    answer: error(400, "messages: first message must use the user role"),
    category: "validation",
    code: "INVALID_REQUEST",
    says: /^API Error: 400 messages: first message must use the user role\. /,
    more: { httpStatus: 400 },
    requests: [3, 1],
  },
  "400, the thread too long": {
    answer: error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    category: "validation",
    code: "CONTEXT_LENGTH",
    says: /^Prompt is too long/,
    more: { httpStatus: 400 },
  },
  "401": {
    answer: error(401, "invalid x-api-key"),
    category: "authentication",
    code: "INVALID_API_KEY",
    says: /^Invalid API key/,
    more: { httpStatus: 401 },
  },
  "403": {
    answer: error(403, "Your organization has disabled this"),
    category: "authentication",
    code: "PERMISSION_DENIED",
    says: /^Failed to authenticate\. API Error: 403 Your organization has disabled this/,
    more: { httpStatus: 403 },
  },
  "404": {
    answer: error(404, "model: claude-nope"),
    category: "not_found",
    code: "MODEL_NOT_FOUND",
    says: /^There's an issue with the selected model/,
    more: { httpStatus: 404 },
    requests: [2, 2],
  },
  "413": {
    answer: error(413, "Request exceeds the maximum size"),
    category: "validation",
    code: "REQUEST_TOO_LARGE",
    says: /^Request too large/,
    more: { httpStatus: 413 },
  },
  "429": {
    answer: error(429, "slow down"),
    category: "rate_limit",
    code: "RATE_LIMITED",
    says: /^API Error: Request rejected \(429\) · slow down\. /,
    more: { httpStatus: 429, retryAfterMs: 1000 },
  },
  "429 with retry-after": {
    answer: error(429, "slow down", { "retry-after": "30" }),
    category: "rate_limit",
    code: "RATE_LIMITED",
    says: /^API Error: Request rejected \(429\) · slow down\. /,
    // The CLI keeps the header to itself; only its own retries would heed it. So: the second of a limit without a time.
    more: { httpStatus: 429, retryAfterMs: 1000 },
  },
  "500": {
    answer: error(500, "boom"),
    category: "server",
    code: "SERVER_ERROR",
    says: /^API Error: 500 boom\. /,
    more: { httpStatus: 500 },
  },
  "529": {
    answer: error(529, "Overloaded"),
    category: "server",
    code: "OVERLOADED",
    says: /^API Error: 529 Overloaded\. /,
    more: { httpStatus: 529, shouldRetry: true, shouldFallback: true },
  },
  "a stream that breaks": {
    answer: { text: "half an answer", cutAfter: 4 },
    category: "network",
    code: "CONNECTION_LOST",
    says: /^API Error: Connection to the API was lost/,
  },
  "silence, and a timeout": {
    answer: { hang: true },
    category: "timeout",
    code: "TIMEOUT",
    says: /^no answer within 8000 ms/,
    more: { partial: { text: "" } },
    outcome: "aborted",
    options: { timeout: 8_000 },
  },
  "silence in the middle, and an idleTimeout": {
    answer: { text: "half an answer", hangAfter: 4 },
    category: "timeout",
    code: "IDLE_TIMEOUT",
    says: /^the CLI printed nothing for 8000 ms/,
    options: { idleTimeout: 8_000 },
  },
  "a web page with status 200": {
    answer: { error: { status: 200, message: "", html: "<html><body>Please log in to the Wi-Fi</body></html>" } },
    category: "server",
    code: "MALFORMED_RESPONSE",
    says: /^API Error: Stream ended without receiving any events/,
  },
  "a refusal": {
    answer: { text: "", stopReason: "refusal" },
    category: "validation",
    code: "REFUSAL",
    says: /^API Error: (Sonnet 5\.5's safeguards flagged|Claude Code is unable to respond to) this/,
  },
  "the output limit": {
    answer: { text: "cut sh", stopReason: "max_tokens" },
    category: "validation",
    code: "MAX_TOKENS",
    says: /^the answer hit the limit of output tokens and is cut short/,
  },
};

/** Of these, `src/provider/judge/tests/kept.rs` judges what both versions printed, in every run: the CLI itself is asked with the others. */
const RECORDED = [
  ...["400", "400, the thread too long", "401", "403", "404", "413", "429", "429 with retry-after", "529"],
  "a web page with status 200",
];

/** Of these, other tests of this file ask the CLI: what is tried again, and what reaches its limit. */
const BELOW = ["500", "the output limit"];

/** Of these, `live/behaviours` asks the CLI itself wherever every change's tests run. */
const BEHAVIOURS = ["silence in the middle, and an idleTimeout"];

/** Each version with one of the engines, as the other tests do. */
const ENGINES = { newest: "print", oldest: "live" } as const;

async function failing(options: object): Promise<ProviderError> {
  const call = createClaudeCliProvider({ ...options, retry: false }).invoke(["Say hello"]);
  const error = await call.then(
    () => new Error("it did not fail"),
    (error) => error,
  );
  expect(error).toBeInstanceOf(ProviderError);
  return error;
}

/** What holds for every error. */
function expectWhole(error: ProviderError) {
  expect(error.message.length).toBeLessThanOrEqual(480);
  expect(error.message).not.toContain("Say hello");
  expect(error.message).not.toContain("sk-ant");
  expect(error.reasons).toEqual([{ attempt: 1, code: error.code, message: error.message }]);
  const json = JSON.parse(JSON.stringify(error));
  expect(json).toMatchObject({ name: "ProviderError", message: error.message, code: error.code, attempts: 1 });
  expect({ ...new ProviderError(json) }).toEqual({ ...error });
}

async function collect(events: AsyncIterable<ProviderEvent>): Promise<ProviderEvent[]> {
  const all: ProviderEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const kinds = (events: ProviderEvent[]) => events.map(({ type }) => type).filter((type) => type !== "other");
const textOf = (events: ProviderEvent[]) =>
  events.map((event) => (event.type === "text_delta" ? event.text : "")).join("");

const TOOL = { name: "t", description: "Does it", schema: { type: "object" } };
const CODE = { code: "```js\n```" };

/** Whether each engine runs what holds for both of them: otherwise one of them does. */
const EVERY_ROW = ALL || RUNS.length === 1;

/** The events of an answer that comes in one piece. */
const WHOLE = ["start", "session", "message", "usage", "done"];

/** All versions at once: each run is a process that mostly waits. */
const each = (test: (which: (typeof VERSIONS)[number], index: number) => Promise<void>) => async () => {
  await Promise.all(VERSIONS.map(test));
};

describe("the API", { timeout: 60_000 }, () => {
  it.each(Object.entries(CASES).filter(([name]) => ALL || ![...RECORDED, ...BELOW, ...BEHAVIOURS].includes(name)))(
    "%s",
    (_, { answer, category, code, says, more, requests, outcome, options }) =>
      each(async (which, index) => {
        const expected = requests?.[index] ?? 1;
        const claude = await withClaude({
          which,
          engine: ENGINES[which],
          script: Array.from({ length: expected }, () => answer),
        });
        const error = await failing({ ...claude.options, ...options });
        expect(error).toMatchObject({ category, code, attempts: 1, provider: "claude", ...more });
        expect(error.message).toMatch(says);
        expectWhole(error);
        expect(claude.api.requests).toHaveLength(expected);
        if (outcome) expect(await claude.api.requests[0]?.outcome).toBe(outcome);
      })(),
  );

  // A recording is judged as well.
  it.runIf(ALL)(
    "a connection that is refused",
    each(async (which) => {
      const { api, options } = await withClaude({ which, engine: ENGINES[which], script: [] });
      const env = { ...options.env, ANTHROPIC_BASE_URL: `http://127.0.0.1:${await closedPort()}` };
      const error = await failing({ ...options, env });
      expect(error).toMatchObject({ category: "network", code: "CONNECTION_FAILED", attempts: 1 });
      expect(error.message).toMatch(/^API Error: (Connection refused|Unable to connect to API)/);
      expectWhole(error);
      expect(api.log).toEqual([]);
    }),
  );

  it(
    "a passing failure, which is tried again by us and not by the CLI, and comes whole where pieces are not wanted",
    each(async (which) => {
      const { api, options } = await withClaude({
        which,
        engine: ENGINES[which],
        script: [error(500, "boom"), { chunks: ["bet", "ter"] }],
      });
      const provider = createProvider({ ...options, retry: { baseDelayMs: 1 }, includePartialMessages: false });
      const events = await collect(provider.stream(["hi"]));
      const retries = events.filter((event) => event.type === "retry");
      const reason = expect.stringMatching(/^API Error: 500 boom\. /);
      expect(retries).toMatchObject([{ by: "provider", attempt: 1, httpStatus: 500, reason }]);
      expect(kinds(events.slice(events.findLastIndex(({ type }) => type === "retry") + 1))).toEqual(WHOLE);
      expect(events.at(-1)).toMatchObject({ reply: { content: "better" } });
      expect(api.requests).toHaveLength(2);
    }),
  );
});

/** A port of 127.0.0.1 nobody listens on: it was free a moment ago. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe.each(RUNS)("claude %s, engine %s", (which, engine) => {
  // A live session's calls are native.
  const inPrint = it.skipIf(engine === "live");
  const mostlyInPrint = it.runIf(EVERY_ROW || engine === "print");
  const mostlyLive = it.runIf(EVERY_ROW || engine === "live");

  /** An answer in pieces, and one that reaches its limit, with a call. */
  const answers = sharedRun(async (until) => {
    const chunks = ["Hel", "lo", " ", "\n\n", "🦀", " and `code {` too", "\n"];
    const content = [
      { type: "text", text: "Now. " },
      { type: "tool_use", id: "toolu_1", name: "mcp__df__t", input: { x: 2 } },
    ];
    const script = [{ chunks }, { content, stopReason: "max_tokens" }];
    const { api, options } = await withClaude({ which, engine, script, mayRunOut: true, until });
    const provider = createClaudeCliProvider({ ...options, retry: false });
    until(() => provider.close());
    const model = provider.bindTools([TOOL]);
    const events = await collect(model.stream(["hi"]));
    const said = events.flatMap((event) => (event.type === "done" ? [new AIMessage(event.reply.content)] : []));
    const limited = model.invoke([new HumanMessage("hi"), ...said, new HumanMessage("more")]);
    const error = await limited.catch((error) => error);
    return { chunks, events, error, asked: api.requests.length };
  });

  mostlyLive("gives every character once, in pieces that join to the message", async () => {
    const { chunks, events } = await answers();
    expect(events[0]).toMatchObject({ type: "start", provider: "claude", attempt: 1, pid: expect.any(Number) });
    const message = events.find((event) => event.type === "message");
    expect(message?.content).toBe(chunks.join(""));
    expect(textOf(events)).toBe(chunks.join(""));
    expect(events.filter((event) => event.type === "text_delta").length).toBeGreaterThan(3);
    const done = events.at(-1);
    expect(done).toMatchObject({ type: "done", reply: { content: "Hello \n\n🦀 and `code {` too" } });
    expect(kinds(events).filter((kind) => kind !== "text_delta")).toEqual([
      "start",
      "session",
      "message",
      "usage",
      "done",
    ]);
  });

  // An answer behind passing failures does so as well.
  it.runIf(ALL)("comes whole where pieces are not wanted", async () => {
    const { options } = await withClaude({ which, engine, script: [{ chunks: ["Hel", "lo", " there"] }] });
    const events = await collect(createProvider({ ...options, includePartialMessages: false }).stream(["hi"]));
    expect(kinds(events)).toEqual(WHOLE);
    expect(events.at(-1)).toMatchObject({ reply: { content: "Hello there" } });
  });

  /** A response with a call that breaks off, and the one that is asked for instead, with another call, each character a piece. */
  const twoResponses = sharedRun(async (until) => {
    const call = (body: unknown, args: object) =>
      writeToolCalls([{ name: "t", args: { ...args }, id: "1" }], markIn(body));
    let seen = () => {};
    const cutWhen = new Promise<void>((resolve) => (seen = resolve));
    const { api, options } = await withClaude({
      which,
      engine,
      // 2.1.330 asks again in its own retries, 2.1.197 once more without streaming.
      env: { CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: undefined },
      script: [
        ({ body }) => ({
          chunks: ["Let me see.\n", call(body, { x: 1 }), "\nAnd then", " never sent"],
          // Three events stand before the pieces: the message, its block, a ping.
          cutAfter: 3 + 3,
          cutWhen,
        }),
        ({ body }) => ({ chunks: Array.from(`Now.\n\n${call(body, CODE)}\n`) }),
      ],
      until,
    });
    const events: ProviderEvent[] = [];
    const provider = createClaudeCliProvider({ ...options, maxRetries: 1, retry: false, textToolCalls: "lenient" });
    until(() => provider.close());
    for await (const event of provider.bindTools([TOOL]).stream(["hi"])) {
      if (textOf([event]).includes("And")) seen();
      events.push(event);
    }
    return { api, events };
  });

  inPrint("never streams a tool call as text", async () => {
    const { events } = await twoResponses();
    const pieces = events.filter((event) => event.type === "text_delta");
    expect(textOf(pieces.filter(({ messageId }) => messageId !== pieces[0]?.messageId))).toBe("Now.");
    expect(events.filter((event) => event.type === "tool_call")).toEqual([
      { type: "tool_call", toolCall: { id: "1", name: "t", args: CODE } },
    ]);
  });

  // reasoning.test.ts has it with both engines.
  it.runIf(ALL)("shows the model's thinking apart from its answer", async () => {
    const content = [
      { type: "thinking", thinking: "Let me think.", signature: "s" },
      { type: "text", text: "Done." },
    ];
    const { options } = await withClaude({ which, engine, script: [{ content }] });
    const events = await collect(createProvider(options).stream(["hi"]));
    const thinking = events.map((event) => (event.type === "thinking_delta" ? event.text : "")).join("");
    expect(thinking).toBe("Let me think.");
    expect(textOf(events)).toBe("Done.");
  });

  inPrint("takes nothing from a response that broke off and was asked for again", async () => {
    const { api, events } = await twoResponses();
    expect(api.requests).toHaveLength(2);
    expect(textOf(events)).toMatch(/^Let me see\..*And.*Now\.$/s);
    const toolCalls = [{ name: "t", args: CODE, id: "1" }];
    const reply = { content: "Now.", messages: [{ id: "msg_2", content: "Now." }], toolCalls, invalidToolCalls: [] };
    expect(events.at(-1)).toMatchObject({ type: "done", reply });
  });

  mostlyInPrint("ends where an answer reaches its limit of tokens, and asks its API for no more", async () => {
    const cut = { text: "One, and ", stopReason: "max_tokens", usage: { input_tokens: 7, output_tokens: 3 } };
    const formats =
      engine === "live" ? [{}] : sampleOf([{}, { includePartialMessages: false }, { includePartialMessages: true }]);
    for (const format of formats) {
      const { api, options } = await withClaude({ which, engine, script: [cut], mayRunOut: true });
      const provider = createProvider({ ...options, ...format, retry: false }).bindTools([TOOL]);
      const events: ProviderEvent[] = [];
      const run = async () => {
        for await (const event of provider.stream(["hi"])) events.push(event);
      };
      await expect(run()).rejects.toMatchObject({
        code: "MAX_TOKENS",
        message: expect.stringContaining("the answer hit the limit of output tokens and is cut short"),
        partial: { text: "One, and ", usage: { inputTokens: 7, outputTokens: 3 } },
      });
      const pieces = "includePartialMessages" in format && !format.includePartialMessages ? "" : "One, and ";
      const message = events.find((event) => event.type === "message")?.content;
      expect({ format, pieces: textOf(events), message, asked: api.requests.length }).toEqual({
        ...{ format, pieces, message: "One, and " },
        asked: 1,
      });
    }
  });

  mostlyLive("runs no call of an answer that reached its limit", async () => {
    const { error, asked } = await answers();
    expect(error).toMatchObject({ code: "MAX_TOKENS", partial: { text: "Now. " } });
    expect(asked).toBe(2);
  });

  // In live form, `live.test.ts` has it as well.
  it.runIf(ALL)("ends the run, and its process, when the loop breaks", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ chunks: ["one", "two"], hangAfter: 5 }] });
    let pid = 0;
    for await (const event of createProvider(options).stream(["hi"])) {
      if (event.type === "start") pid = event.pid ?? 0;
      if (event.type === "text_delta") break;
    }
    expect(await api.requests[0]?.outcome).toBe("aborted");
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});

it.each(VERSIONS)("shows the last part of an answer only, where claude %s prints no more", async (which) => {
  const script = [{ text: "One, ", stopReason: "max_tokens" }, { text: "two." }];
  for (const format of sampleOf([{ outputFormat: "text" }, { outputFormat: "json", verbose: false }] as const)) {
    const { api, options } = await withClaude({ which, script });
    expect((await createProvider({ ...options, ...format }).invoke(["hi"])).content).toBe("two.");
    expect(api.requests).toHaveLength(2);
  }
});

// An answer that reaches its limit has it as well.
it.runIf(ALL)("throws the run's error from the iterator, after its events", async () => {
  const { options } = await withClaude({ engine: "print", script: () => ({ error: { status: 403, message: "no" } }) });
  const seen: string[] = [];
  const run = async () => {
    for await (const event of createClaudeCliProvider(options).stream(["hi"])) seen.push(event.type);
  };
  await expect(run()).rejects.toMatchObject({ name: "ProviderError", category: "authentication", httpStatus: 403 });
  expect(seen).not.toContain("done");
  expect(seen).not.toContain("message");
});

it("does not start when the signal is already aborted", async () => {
  const { api, options } = await withClaude({ engine: "print", script: [] });
  const provider = createClaudeCliProvider(options);
  await expect(provider.invoke(["hi"], { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
  await expect(collect(provider.stream(["hi"], { signal: AbortSignal.abort("why") }))).rejects.toBe("why");
  expect(api.log).toEqual([]);
});
