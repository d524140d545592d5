/** Calls of an OpenAI-compatible API that fail: every kind of failure, what it is called, and what is never told. */
import { createServer } from "node:net";
import { ToolMessage } from "@langchain/core/messages";
import { createOpenAiCompatibleProvider, type LogRecord, type ProviderError, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { failure, startOpenAi } from "../support/openai.mjs";
import { collect, failureOf, KEY, withApi } from "./setup.js";

const once = { retry: false } as const;

describe("an error's status and body", () => {
  it.each([
    [401, failure("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"), "INVALID_API_KEY"],
    [401, failure("who are you?", "x"), "AUTHENTICATION_FAILED"],
    [403, failure("not for you", "x"), "PERMISSION_DENIED"],
    [429, failure("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "QUOTA_EXCEEDED"],
    [429, failure("Rate limit reached", "requests", "rate_limit_exceeded"), "RATE_LIMITED"],
    [400, failure("too long", "invalid_request_error", "context_length_exceeded"), "CONTEXT_LENGTH"],
    [404, failure("The model `m` does not exist", "invalid_request_error", "model_not_found"), "MODEL_NOT_FOUND"],
    [404, { error: "model 'm' not found, try pulling it first" }, "MODEL_NOT_FOUND"],
    [404, { detail: "Not Found" }, "NOT_FOUND"],
    [400, failure("filtered", "invalid_request_error", "content_filter"), "REFUSAL"],
    [400, failure("bad parameter", "invalid_request_error"), "INVALID_REQUEST"],
    [402, failure("pay first", "x"), "CREDIT_EXHAUSTED"],
    [413, "", "REQUEST_TOO_LARGE"],
    [500, failure("boom", "server_error"), "SERVER_ERROR"],
    [502, "<html><title>Bad Gateway</title></html>", "SERVER_ERROR"],
    [503, { error: { code: 503, message: "Loading model", type: "unavailable_error" } }, "OVERLOADED"],
    [529, failure("busy", "overloaded_error"), "OVERLOADED"],
  ])("%i %j", async (status, body, code) => {
    const content = typeof body === "string" ? { html: body } : { body };
    const { provider } = await withApi({ script: [{ error: { status, ...content } }], options: once });
    const error = await failureOf(provider.invoke(["hi"]));
    expect(error).toMatchObject({ name: "ProviderError", provider: "openai", code, httpStatus: status, attempts: 1 });
    expect(error.hint).toEqual(expect.any(String));
    expect(error.message.length).toBeLessThanOrEqual(480);
  });

  it("a web page is told by its title", async () => {
    const { provider } = await withApi({
      script: [{ error: { status: 502, html: "<html><title>Bad\nGateway</title>…</html>" } }],
      options: once,
    });
    expect((await failureOf(provider.invoke(["hi"]))).message).toMatch(
      /^HTTP status 502 Bad Gateway: a web page, "Bad Gateway"/,
    );
  });

  it("a redirect is not followed", async () => {
    const headers = { location: "https://elsewhere.test/v1/chat/completions?token=x" };
    const { provider } = await withApi({ script: [{ error: { status: 308, headers } }], options: once });
    const error = await failureOf(provider.invoke(["hi"]));
    expect(error).toMatchObject({ code: "NOT_FOUND", httpStatus: 308 });
    expect(error.message).toContain("https://elsewhere.test/v1/chat/completions. Set `baseURL`");
  });
});

describe("a full context, in the words of servers", () => {
  it.each([
    [
      400,
      {
        code: "Client specified an invalid argument",
        error: "This model's maximum prompt length is 131072 but the request contains 509628 tokens.",
      },
    ],
    [400, failure("Please reduce the length of the messages or completion.", "invalid_request_error")],
    [500, failure("Context size has been exceeded.", "server_error")],
    [400, failure("prompt token count of 150000 exceeds the limit of 128000", "x", "model_max_prompt_tokens_exceeded")],
    [400, failure("Your request exceeded model token limit: 262144 (requested: 270000)", "invalid_request_error")],
    [500, failure("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]", "x")],
  ])("%i %j is CONTEXT_LENGTH, and asked once", async (status, body) => {
    const { api, provider } = await withApi({ script: [{ error: { status, body } }] });
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({
      code: "CONTEXT_LENGTH",
      shouldRetry: false,
      attempts: 1,
      httpStatus: status,
    });
    expect(api.requests).toHaveLength(1);
  });
});

describe("a limit of Google's", () => {
  const limited = (quotaId: string) => ({
    error: {
      code: 429,
      status: "RESOURCE_EXHAUSTED",
      message: "You exceeded your current quota, please check your plan and billing details.",
      details: [
        { "@type": "type.googleapis.com/google.rpc.QuotaFailure", violations: [{ quotaId }] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.5s" },
      ],
    },
  });
  it.each([
    ["GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "RATE_LIMITED"],
    ["GenerateRequestsPerDayPerProjectPerModel-FreeTier", "QUOTA_EXCEEDED"],
  ])("of %s is %s, with the wait in its details", async (quotaId, code) => {
    const script = [{ error: { status: 429, body: [limited(quotaId)] } }];
    const { provider } = await withApi({ script, options: once });
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({ code, retryAfterMs: 34_500 });
  });
});

describe("an answer that is none", () => {
  const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
  const text = data({ model: "m", choices: [{ delta: { content: "so far" } }] });
  it.each([
    ["a stream that ends early", { raw: text }, "CONNECTION_LOST", "so far"],
    ["a connection that breaks", { raw: [text, text], cutAfter: 1 }, "CONNECTION_LOST", "so far"],
    ["an error in the stream", { raw: text + data(failure("boom", "server_error")) }, "SERVER_ERROR", "so far"],
    ["an error with a status", { raw: data({ error: { message: "slow", code: 429 } }) }, "RATE_LIMITED", ""],
    ["length", { text: "cut sh", stopReason: "length" }, "MAX_TOKENS", "cut sh"],
    ["content_filter", { text: "I w", stopReason: "content_filter" }, "REFUSAL", "I w"],
    ["a refusal", { refusal: "I can't help with that." }, "REFUSAL", ""],
    ["a web page", { raw: "<html><title>Log in</title></html>" }, "MALFORMED_RESPONSE", ""],
    ["another object", { raw: '{"hello":"world"}' }, "MALFORMED_RESPONSE", ""],
    ["another stream", { raw: "hello\n\nworld\n\n" }, "MALFORMED_RESPONSE", ""],
    ["nothing", { raw: "" }, "EMPTY_RESPONSE", ""],
    ["[DONE] alone", { raw: "data: [DONE]\n\n" }, "EMPTY_RESPONSE", ""],
  ])("%s", async (_, answer, code, partial) => {
    const { provider } = await withApi({ script: [answer], options: once });
    const { events, error } = await collect(provider.stream(["hi"]));
    expect(error).toMatchObject({ code, partial: { text: partial } });
    expect(events.some((event) => event.type === "done")).toBe(false);
  });

  it("one that is too long is given up", async () => {
    const { provider } = await withApi({ script: [{ text: "x".repeat(5000) }], options: { ...once, maxBuffer: 2000 } });
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({ code: "OUTPUT_LIMIT" });
  });
});

describe("no connection", () => {
  const asking = (baseURL: string) => createOpenAiCompatibleProvider({ baseURL, model: "m", ...once });

  it("nobody listens", async () => {
    const api = await startOpenAi([]);
    await api.close();
    const error = await failureOf(asking(api.url).invoke(["hi"]));
    expect(error).toMatchObject({ code: "CONNECTION_FAILED", category: "network", shouldRetry: true });
    expect(error.message).toBe(
      `${new URL(api.url).origin} refuses connections. Check that the server runs, and \`baseURL\``,
    );
  });

  it("no such host", async () => {
    const error = await failureOf(asking("http://no-such-host.invalid/v1").invoke(["hi"]));
    expect(error).toMatchObject({ code: "CONNECTION_FAILED" });
    expect(error.message).toMatch(/^the host of http:\/\/no-such-host\.invalid can't be found/);
  });

  it("a server that speaks no TLS", async () => {
    const { api } = await withApi();
    const error = await failureOf(asking(api.url.replace("http:", "https:")).invoke(["hi"]));
    expect(error).toMatchObject({ code: "CONNECTION_FAILED" });
    expect(error.message).toMatch(/^no trusted connection to https:/);
  });

  it("a server that hangs up", async () => {
    const server = createServer((socket) => socket.once("data", () => socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    try {
      const error = await failureOf(asking(`http://127.0.0.1:${port}/v1`).invoke(["hi"]));
      expect(error).toMatchObject({ code: "CONNECTION_LOST", shouldRetry: true });
      expect(error.message).toMatch(/broke before its answer/);
    } finally {
      server.close();
    }
  });

  it("no key", async () => {
    const { api } = await withApi();
    const provider = createOpenAiCompatibleProvider({
      baseURL: api.url,
      model: "m",
      apiKeyEnv: "DEEP_FACTOR_NO_SUCH_KEY",
    });
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({
      code: "NOT_LOGGED_IN",
      message: expect.stringMatching(/^there is no API key: DEEP_FACTOR_NO_SUCH_KEY is not set/),
    });
    expect(api.log).toEqual([]);
  });
});

describe("further attempts", () => {
  const limited = (headers: Record<string, string>) => ({
    error: { status: 429, body: failure("slow down", "x"), headers },
  });

  it("wait as long as the server says", async () => {
    const { api, provider } = await withApi({
      script: [limited({ "retry-after-ms": "20" }), { error: { status: 503 } }, { text: "at last" }],
      options: { retry: { baseDelayMs: 1, jitter: false } },
    });
    const { events, error } = await collect(provider.stream(["hi"]));
    expect(error).toBeUndefined();
    expect(api.requests).toHaveLength(3);
    expect(events.filter((event) => event.type === "retry")).toEqual([
      {
        type: "retry",
        by: "provider",
        attempt: 1,
        maxAttempts: 2,
        delayMs: 20,
        reason: expect.stringMatching(/^slow down/),
        httpStatus: 429,
      },
      {
        type: "retry",
        by: "provider",
        attempt: 2,
        maxAttempts: 2,
        delayMs: 2,
        reason: expect.any(String),
        httpStatus: 503,
      },
    ]);
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "at last" } });
  });

  it.each([
    ["seconds", () => "7", 7000, 0],
    ["a date", () => new Date(Date.now() + 60_000).toUTCString(), 60_000, 5000],
  ])("retry-after in %s", async (_, value, expected, within) => {
    const { provider } = await withApi({ script: [limited({ "retry-after": value() })], options: once });
    const error = await failureOf(provider.invoke(["hi"]));
    expect(Math.abs((error.retryAfterMs ?? 0) - expected)).toBeLessThanOrEqual(within);
  });

  it("are not made once text was given, and not for what no further attempt helps", async () => {
    const raw = 'data: {"choices":[{"delta":{"content":"so far"}}]}\n\n';
    const streamed = await withApi({ script: [{ raw }], options: { retry: { baseDelayMs: 1 } } });
    expect((await collect(streamed.provider.stream(["hi"]))).error).toMatchObject({
      code: "CONNECTION_LOST",
      attempts: 1,
    });
    const unheard = await withApi({ script: [{ raw }, { text: "whole" }], options: { retry: { baseDelayMs: 1 } } });
    expect((await unheard.provider.invoke(["hi"])).content).toBe("whole");
    const refused = await withApi({ script: [{ error: { status: 401 } }] });
    expect(await failureOf(refused.provider.invoke(["hi"]))).toMatchObject({ attempts: 1 });
  });
});

describe("time and abort", () => {
  it("a call that takes too long is ended, and what had come is kept", async () => {
    const { api, provider } = await withApi({ script: [{ chunks: ["so far", "!"], hangAfter: 2 }], options: once });
    const error = await failureOf(provider.invoke(["hi"], { timeout: 500 }));
    expect(error).toMatchObject({ code: "TIMEOUT", partial: { text: "so far" } });
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it("silence is ended", async () => {
    const { provider } = await withApi({ script: [{ hang: true }], options: { ...once, idleTimeout: 100 } });
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({
      code: "IDLE_TIMEOUT",
      message:
        "the server sent nothing for 100 ms: the connection was closed. Raise the `idleTimeout` option (now 100 ms)",
    });
  });

  it("an abort closes the connection, with the signal's reason", async () => {
    const { api, provider } = await withApi({ script: [{ chunks: ["a", "b"], hangAfter: 2 }] });
    const abort = new AbortController();
    const reason = new Error("enough");
    const seen: string[] = [];
    const left = (async () => {
      for await (const event of provider.stream(["hi"], { signal: abort.signal })) {
        seen.push(event.type);
        if (event.type === "text_delta") abort.abort(reason);
      }
    })();
    await expect(left).rejects.toBe(reason);
    expect(seen.at(-1)).toBe("text_delta");
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it("close ends what is running and refuses what comes", async () => {
    const { api, provider } = await withApi({ script: [{ hang: true }] });
    const running = failureOf(provider.invoke(["hi"]));
    await api.waitForRequest(1);
    await provider.close();
    expect(await running).toMatchObject({ code: "CLOSED" });
    expect(await failureOf(provider.invoke(["hi"]))).toMatchObject({ code: "CLOSED" });
    expect(await failureOf(provider.health())).toMatchObject({ code: "CLOSED" });
    expect(await failureOf(provider.prewarm())).toMatchObject({ code: "CLOSED" });
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });
});

describe("a secret", () => {
  const HEADER = "another_secret_in_a_header";
  const echo = `you sent ${KEY} and ${HEADER}`;
  const everything = (error: ProviderError, rest: unknown) =>
    JSON.stringify([error.message, error.stack, { ...error }, error.partial, error.reasons, rest]);

  it.each([
    ["in an error's body", { error: { status: 401, body: failure(echo, "x") } }],
    ["in a web page", { error: { status: 502, html: `<title>${echo}</title>` } }],
    ["in a stream", { raw: `data: {"error":{"message":"${echo}"}}\n\n` }],
    ["in a foreign object", { raw: `{"x":"${echo}"}` }],
    [
      "in text and in lines of no kind",
      {
        raw: `data: {"type":"x","y":"${echo}"}\n\ndata: ${echo}\n\ndata: {"choices":[{"delta":{"content":"${echo}"}}]}\n\n`,
      },
    ],
    ["in a header", { error: { status: 500, headers: { "x-request-id": KEY, location: `/${KEY}` } } }],
  ])("that the server echoes %s is told nowhere", async (_, answer) => {
    const records: LogRecord[] = [];
    const { provider } = await withApi({
      script: [answer, answer],
      options: {
        headers: { "x-api-key": HEADER },
        retry: { maxAttempts: 2, baseDelayMs: 1 },
        logger: (record) => void records.push(record),
      },
      mayRunOut: true,
    });
    const { events, error } = await collect(provider.stream(["hi"]));
    const told = everything(error as ProviderError, [events, records]);
    expect(error).toBeInstanceOf(Error);
    expect(records.map((record) => record.message)).toContain("failed");
    expect(told).not.toContain(KEY);
    expect(told).not.toContain(HEADER);
  });

  it("that makes an option wrong is told nowhere", () => {
    const create = (options: object) => {
      try {
        createOpenAiCompatibleProvider({ model: "m", ...options });
      } catch (error) {
        return String(error);
      }
      throw new Error("it was taken");
    };
    for (const options of [
      { apiKey: `${KEY}\r\nX-Evil: 1` },
      { apiKey: [KEY] },
      { apiKey: KEY, apiKeyEnv: "X" },
      { headers: { "x-api-key": `${KEY}\n` } },
      { headers: { "x-api-key": { key: KEY } } },
      { baseURL: `http://user:${KEY}@127.0.0.1/v1` },
    ]) {
      const message = create(options);
      expect(message).toMatch(/option/);
      expect(message).not.toContain(KEY);
    }
  });
});

describe("records", () => {
  it("tell of a call what they tell of a CLI's", async () => {
    const records: LogRecord[] = [];
    const { provider } = await withApi({
      script: [{ error: { status: 500 } }, { text: "ok" }],
      options: { logger: (record) => void records.push(record), retry: { baseDelayMs: 1 } },
    });
    await provider.invoke(["hi"]);
    expect(records.map(({ level, message, provider }) => [level, message, provider])).toEqual([
      ["info", "started", "openai"],
      ["warn", "ended", "openai"],
      ["error", "failed", "openai"],
      ["warn", "tried again", "openai"],
      ["info", "started", "openai"],
      ["debug", "first byte", "openai"],
      ["info", "ended", "openai"],
    ]);
    expect(records[0]?.fields).toEqual({ attempt: 1, stream: true, bytes: expect.any(Number) });
    expect(records.at(-1)?.fields).toEqual({
      why: "answered",
      httpStatus: 200,
      requestId: "req_2",
      queuedMs: expect.any(Number),
      firstByteMs: expect.any(Number),
      firstEventMs: expect.any(Number),
      exitMs: expect.any(Number),
      bytes: expect.any(Number),
    });
  });
});

describe("options that are wrong", () => {
  it.each([
    [{}, 'option "model" is missing: it must be a string, the model\'s name at the API'],
    [{ model: "" }, 'option "model" must be a string that is not empty; given: ""'],
    [{ model: "m", baseUrl: "x" }, 'unknown option "baseUrl": did you mean "baseURL"?'],
    [
      { model: "m", baseURL: "ftp://x" },
      'option "baseURL" must be an http or https URL, like "http://127.0.0.1:8080/v1"; given: one that begins with "ftp:"',
    ],
    [
      { model: "m", baseURL: "localhost/v1" },
      'option "baseURL" must be an http or https URL, like "http://127.0.0.1:8080/v1"; given: a string that is none',
    ],
    [{ model: "m", temperature: 3 }, 'option "temperature" must be a number from 0 to 2; given: 3'],
    [{ model: "m", temperature: Number.NaN }, 'option "temperature" must be a number from 0 to 2; given: NaN'],
    [{ model: "m", maxTokens: 0 }, 'option "maxTokens" must be a whole number from 1 to 9007199254740992; given: 0'],
    [
      { model: "m", maxTokensField: "x" },
      'option "maxTokensField" must be one of "max_tokens", "max_completion_tokens"; given: "x"',
    ],
    [{ model: "m", headers: { "a b": "c" } }, 'option "headers.a b" is not a name that an HTTP header can have'],
    [
      { model: "m", headers: { Host: "c" } },
      'option "headers.Host" can\'t be set: the connection decides about this header',
    ],
    [
      { model: "m", headers: { a: undefined } },
      'option "headers.a" must be a string without line breaks, as an HTTP header can hold; the value is not repeated here',
    ],
    [
      { model: "m", toolChoice: "some" },
      'option "toolChoice" must be one of "auto", "none", "required", or an object; given: "some"',
    ],
    [
      { model: "m", extraBody: { messages: [] } },
      'option "extraBody.messages" can\'t be set: it is what a call is about',
    ],
    [
      { model: "m", extraBody: { a: [() => 1] } },
      'option "extraBody" must be an object of JSON; given: an object { a: an array }',
    ],
    [{ model: "m", stop: [] }, 'option "stop" must be a string, or an array of strings; given: an array []'],
    [{ model: "m", id: "a b" }, 'option "id" must be at most 64 letters, digits and "-", "_", "."; given: "a b"'],
    [
      { model: "m", timeout: 10, idleTimeout: 20 },
      'options "idleTimeout" and "timeout" contradict each other: silence of 20 ms can\'t happen within 10 ms',
    ],
  ])("%j", (options, message) => {
    expect(() => createOpenAiCompatibleProvider(options as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message }),
    );
  });
});

/** A native call whose arguments are not JSON: the caller, and in a run of an agent the model, hear of it. */
describe("a native call whose arguments are not JSON", () => {
  const get = { name: "get", description: "Gets it", schema: z.object({ a: z.number() }) };
  const UNREADABLE = { id: "c1", name: "get", args: '{"a": 1' };

  describe.each([true, false])("a call that can't be read, stream: %s", (stream) => {
    it("is among the invalid ones of the answer, beside those that can", async () => {
      const calls = [UNREADABLE, { id: "c2", name: "get", args: { a: 2 } }];
      const { provider } = await withApi({ script: [{ calls }], options: { stream } });
      const answer = await provider.bindTools([get]).invoke(["hi"]);
      expect(answer.tool_calls).toMatchObject([{ id: "c2", name: "get", args: { a: 2 } }]);
      expect(answer.invalid_tool_calls).toEqual([
        {
          type: "invalid_tool_call",
          id: "c1",
          name: "get",
          args: '{"a": 1',
          error: expect.stringMatching(/^arguments are not JSON/),
        },
      ]);
    });

    it("handed back with its error goes out with it, in words: no API takes a result without its call", async () => {
      const { provider, api } = await withApi({
        script: [{ calls: [UNREADABLE] }, { text: "Sorry." }],
        options: { stream },
      });
      const bound = provider.bindTools([get]);
      const answer = await bound.invoke(["hi"]);
      const error = new ToolMessage({ tool_call_id: "c1", content: "Write JSON.", status: "error" });
      expect((await bound.invoke(["hi", answer, error])).content).toBe("Sorry.");
      expect(api.requests[1]?.body.messages.slice(1)).toEqual([
        { role: "assistant", content: "" },
        {
          role: "user",
          content: expect.stringMatching(
            /^Your tool call of "get" could not be read: arguments are not JSON[\s\S]*\{"a": 1\n[\s\S]*\n\nError: Write JSON\.$/,
          ),
        },
      ]);
    });

    it("is told to the model, which writes it again", async () => {
      const { provider, api } = await withApi({
        script: [{ calls: [UNREADABLE] }, { calls: [{ id: "c2", name: "get", args: { a: 2 } }] }, { text: "Got 4." }],
        options: { stream },
      });
      const run = runAgent({
        provider,
        prompt: "Get 2.",
        tools: [{ ...get, execute: async ({ a }: { a: number }) => String(a * 2) }],
      });
      expect(await run.result).toMatchObject({ status: "completed", output: "Got 4.", steps: 3 });
      const asked = api.requests.map(({ body }) => body.messages);
      expect(asked[1].slice(1)).toEqual([
        { role: "assistant", content: "" },
        {
          role: "user",
          content: expect.stringContaining('Your tool call of "get" could not be read: arguments are not JSON'),
        },
      ]);
      expect(asked[2].at(-1)).toEqual({ role: "tool", tool_call_id: "c2", content: "4" });
    });
  });

  it("arguments that are an empty text in a history are those of a call without any", async () => {
    const { provider, api } = await withApi({ script: [{ text: "ok" }] });
    const call = { id: "c1", type: "function", function: { name: "get", arguments: "" } };
    await provider.invoke([
      "hi",
      { role: "assistant", content: "", tool_calls: [call] } as never,
      { role: "tool", tool_call_id: "c1", content: "4" } as never,
    ]);
    expect(api.requests[0]?.body.messages[1].tool_calls).toEqual([
      { ...call, function: { name: "get", arguments: "{}" } },
    ]);
  });

  it("a field __proto__ of a model's arguments reaches no tool: a copy would take it for the prototype", async () => {
    const args = '{"a":1,"\\u005f_proto__":{"isAdmin":true},"deep":[{"__proto__":{"isAdmin":true},"b":2}]}';
    const { provider } = await withApi({
      script: [
        { calls: [{ id: "c1", name: "get", args }] },
        { text: "ok" },
        { calls: [{ id: "c1", name: "get", args }] },
      ],
    });
    const copies: object[] = [];
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const execute = (given: { deep: object[] }) => {
      copies.push(Object.assign({}, given), Object.assign({}, given.deep[0]));
      return "ok";
    };
    await runAgent({
      provider,
      prompt: "Go.",
      tools: [{ name: "get", schema, execute: execute as never }],
    }).result;
    const { tool_calls } = await provider.bindTools([{ name: "get", schema }]).invoke(["hi"]);
    copies.push(Object.assign({}, tool_calls?.[0]?.args));
    expect(copies.map((copy) => "isAdmin" in copy)).toEqual([false, false, false]);
    expect(copies).toEqual([{ a: 1, deep: [{ b: 2 }] }, { b: 2 }, { a: 1, deep: [{ b: 2 }] }]);
  });

  /** Gemini refuses a thread in which the signature beside a call is missing. */
  it.each([true, false])("what a server puts beside a call's function goes back to it, stream: %s", async (stream) => {
    const extra_content = { google: { thought_signature: "SIGNED" } };
    const call = { id: "c1", type: "function", function: { name: "get", arguments: '{"a":1}' }, extra_content };
    const choice = {
      index: 0,
      finish_reason: "tool_calls",
      [stream ? "delta" : "message"]: { role: "assistant", content: null, tool_calls: [{ index: 0, ...call }] },
    };
    const chunk = JSON.stringify({ id: "x", object: "chat.completion", model: "scripted", choices: [choice] });
    const raw = stream ? `data: ${chunk}\n\ndata: [DONE]\n\n` : chunk;
    const headers = { "content-type": stream ? "text/event-stream" : "application/json" };
    const { provider, api } = await withApi({ script: [{ raw, headers }, { text: "ok" }], options: { stream } });
    const bound = provider.bindTools([get]);
    const answer = await bound.invoke(["hi"]);
    expect(answer.tool_calls).toMatchObject([{ id: "c1", name: "get", args: { a: 1 } }]);
    await bound.invoke(["hi", answer, new ToolMessage({ tool_call_id: "c1", content: "2" })]);
    expect(api.requests[1]?.body.messages[1].tool_calls).toEqual([call]);
  });
});
