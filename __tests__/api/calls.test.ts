/** Calls of an OpenAI-compatible API that go well: what is sent, what comes back, in every way of asking. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import {
  checkHealth,
  createOpenAiCompatibleProvider,
  type InvokeUpdate,
  isModelAdapter,
  limits,
  type ProviderEvent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { failure, startOpenAi } from "../support/openai.mjs";
import { collect, KEY, withApi } from "./setup.js";

const TOOLS = [
  { name: "get.weather", description: "The weather", schema: z.object({ city: z.string() }) },
  { name: "add", schema: { type: "object", properties: { a: { type: "number" } } } },
];

describe.each([
  ["in pieces", true],
  ["whole", false],
])("an answer %s", (_, stream) => {
  it("is an AIMessage with measured usage", async () => {
    const usage = { input: 40, output: 9, cached: 30, reasoning: 4 };
    const { api, provider } = await withApi({
      script: [{ text: "Hello, wörld 🦀, this is me.", reasoning: "a greeting", usage }],
      options: { stream },
    });
    expect(isModelAdapter(provider)).toBe(true);
    const message = await provider.invoke([new SystemMessage("Be brief."), new HumanMessage("Hi")]);

    expect(message).toBeInstanceOf(AIMessage);
    expect(message.content).toBe("Hello, wörld 🦀, this is me.");
    expect(message.tool_calls).toEqual([]);
    expect(message.usage_metadata).toEqual({
      input_tokens: 40,
      output_tokens: 9,
      total_tokens: 49,
      input_token_details: { cache_read: 30 },
      output_token_details: { reasoning: 4 },
    });
    expect(message.response_metadata).toEqual({
      provider: "openai",
      model_provider: "deep-factor-providers",
      model: "scripted",
      model_name: "scripted",
      stop_reason: "stop",
      cache_hit_share: 0.75,
      run: {
        id: expect.stringMatching(/^run-/),
        queuedMs: expect.any(Number),
        firstByteMs: expect.any(Number),
        firstEventMs: expect.any(Number),
        exitMs: expect.any(Number),
      },
    });
    expect(message.id).toBe("chatcmpl-1");
    const [request] = api.requests;
    expect(request?.path).toBe("/v1/chat/completions");
    expect(request?.headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      "content-type": "application/json",
      accept: stream ? "text/event-stream, application/json" : "application/json",
      "user-agent": expect.stringMatching(/^deep-factor-providers\//),
    });
    expect(request?.body).toEqual({
      model: "scripted",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
      ],
      stream,
      ...(stream && { stream_options: { include_usage: true } }),
    });
  });

  it("calls tools, gets their results, and goes on", async () => {
    const calls = [
      { id: "c1", name: "get_weather_$", args: { city: "Zürich, and a name that takes several pieces" } },
      { id: "c2", name: "add", args: '{"b": 1.0, "a":2}' },
    ];
    const { api, provider } = await withApi({
      script: [
        (request) => {
          const name = request.body.tools[0].function.name;
          return { text: "Let me see.", calls: calls.map((call) => (call.id === "c1" ? { ...call, name } : call)) };
        },
        { text: "Sunny." },
      ],
      options: { stream, parallelToolCalls: true, toolChoice: { name: "get.weather" } },
    });
    const bound = provider.bindTools(TOOLS);
    const thread = [new HumanMessage("Weather?")];
    const first = await bound.invoke(thread);
    expect(first.content).toBe("Let me see.");
    expect(first.tool_calls).toEqual(
      [
        {
          id: "c1",
          name: "get.weather",
          args: { city: "Zürich, and a name that takes several pieces" },
          type: "tool_call",
        },
        { id: "c2", name: "add", args: { b: 1, a: 2 }, type: "tool_call" },
      ].map(({ type: _, ...call }) => expect.objectContaining(call)),
    );

    const second = await bound.invoke([
      ...thread,
      first,
      new ToolMessage({ content: "20 °C", tool_call_id: "c1" }),
      new ToolMessage({ content: "no such number", tool_call_id: "c2", status: "error" }),
    ]);
    expect(second.content).toBe("Sunny.");
    const [asked, told] = api.requests.map((request) => request.body);
    const wire = asked.tools[0].function.name;
    expect(wire).toMatch(/^get_weather_[0-9a-f]{8}$/);
    expect(asked.tools).toEqual([
      {
        type: "function",
        function: {
          name: wire,
          description: "The weather",
          parameters: expect.objectContaining({ type: "object", properties: { city: { type: "string" } } }),
        },
      },
      {
        type: "function",
        function: { name: "add", parameters: { type: "object", properties: { a: { type: "number" } } } },
      },
    ]);
    expect(asked).toMatchObject({
      tool_choice: { type: "function", function: { name: wire } },
      parallel_tool_calls: true,
    });
    expect(told.messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: "Let me see.",
        tool_calls: [
          {
            id: "c1",
            type: "function",
            function: { name: wire, arguments: '{"city":"Zürich, and a name that takes several pieces"}' },
          },
          { id: "c2", type: "function", function: { name: "add", arguments: expect.stringMatching(/^{"b":1/) } },
        ],
      },
      { role: "tool", tool_call_id: "c1", content: "20 °C" },
      { role: "tool", tool_call_id: "c2", content: "Error: no such number" },
    ]);
  });
});

describe("events", () => {
  it("of a stream come in order, and the last is the reply", async () => {
    const usage = { input: 3, output: 2 };
    const { provider } = await withApi({
      script: [{ chunks: ["Hel", "lo ", "you"], reasoning: "hm", calls: [{ id: "c", name: "add", args: {} }], usage }],
    });
    const { events, error } = await collect(provider.bindTools(TOOLS).stream(["hi"]));
    expect(error).toBeUndefined();
    const messageId = "chatcmpl-1";
    const counted = { inputTokens: 3, outputTokens: 2, totalTokens: 5 };
    expect(events).toEqual([
      { type: "start", runId: expect.any(String), provider: "openai", attempt: 1, queuedMs: expect.any(Number) },
      { type: "session", model: "scripted" },
      { type: "thinking_delta", messageId, text: "hm" },
      { type: "text_delta", messageId, text: "Hel" },
      { type: "text_delta", messageId, text: "lo " },
      { type: "text_delta", messageId, text: "you" },
      { type: "tool_call_delta", toolCallId: "c", name: "add", delta: "{}" },
      { type: "message", id: messageId, content: "Hello you" },
      { type: "tool_call", toolCall: { id: "c", name: "add", args: {} } },
      { type: "usage", usage: counted, rawStopReason: "tool_calls" },
      {
        type: "done",
        reply: {
          content: "Hello you",
          messages: [{ id: messageId, content: "Hello you" }],
          toolCalls: [{ id: "c", name: "add", args: {} }],
          invalidToolCalls: [],
          thinking: "hm",
          reasoning: [{ type: "reasoning.text", text: "hm" }],
          usage: counted,
          messageId,
          model: "scripted",
          stopReason: "tool_calls",
          run: expect.objectContaining({ id: expect.any(String) }),
        },
      },
    ]);
  });

  it("come while the answer is still being written", async () => {
    const { provider } = await withApi({ script: [{ chunks: ["first ", "never"], hangAfter: 2 }] });
    for await (const event of provider.stream(["hi"])) {
      if (event.type === "text_delta") break;
    }
  });

  it("are taken at the consumer's pace, none lost", async () => {
    const chunks = Array.from({ length: 3000 }, (_, index) => `${index} `);
    const { provider } = await withApi({ script: [{ chunks }], options: { idleTimeout: 60_000 } });
    let text = "";
    let last: ProviderEvent | undefined;
    for await (const event of provider.stream(["hi"])) {
      if (event.type === "text_delta") text += event.text;
      if (text.length % 997 === 0) await new Promise((resolve) => setImmediate(resolve));
      last = event;
    }
    expect(text).toBe(chunks.join(""));
    expect(last).toMatchObject({ type: "done", reply: { content: chunks.join("").trim() } });
  });

  it("as updates: whole messages, calls, counts, the end", async () => {
    const usage = { input: 3, output: 2 };
    const { provider } = await withApi({
      script: [{ text: "Look.", calls: [{ id: "c", name: "add", args: {} }], usage }],
    });
    const updates: InvokeUpdate[] = [];
    await provider.bindTools(TOOLS).invokeWithUpdates(["hi"], (update) => void updates.push(update));
    const counted = { usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 }, rawStopReason: "tool_calls" };
    expect(updates).toEqual([
      { type: "assistant_message", content: "Look." },
      { type: "tool_call", toolCall: { id: "c", name: "add", args: {} } },
      { type: "usage", ...counted },
      { type: "final", content: "Look.", ...counted },
    ]);
  });

  it("usage is estimated, and marked, where the server tells none", async () => {
    const { provider } = await withApi({ script: [{ text: "12345", usage: null }] });
    const message = await provider.invoke(["hi"]);
    expect(message.usage_metadata).toMatchObject({ output_tokens: 2 });
    expect(message.response_metadata).toMatchObject({ usage_estimated: true });
  });
});

describe("what servers do differently", () => {
  const sse = (...data: string[]) => data.map((it) => `data: ${it}\r\n\r\n`).join("");
  const chunk = (delta: object, finish_reason: string | null = null) =>
    JSON.stringify({ id: "x", model: "m", choices: [{ index: 0, delta, finish_reason }] });

  it.each([
    ["no [DONE]", { raw: sse(chunk({ content: "ok" }), chunk({}, "stop")) }],
    ["no finish_reason", { raw: sse(chunk({ content: "ok" }), "[DONE]") }],
    ["comments and other fields", { raw: `: hello\n\nevent: x\nid: 1\n${sse(chunk({ content: "ok" }), "[DONE]")}` }],
    ["a byte order mark", { raw: `\uFEFF${sse(chunk({ content: "ok" }, "stop"))}` }],
    [
      "an object for a stream",
      { raw: '{"model":"m","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}' },
    ],
    ["content in parts", { raw: sse(chunk({ content: [{ type: "text", text: "ok" }] }, "stop")) }],
    [
      "every byte alone",
      { raw: [...Buffer.from(sse(chunk({ content: "ok" }), "[DONE]"))].map((it) => Uint8Array.of(it)) },
    ],
    ["no blank line behind the last", { raw: `data: ${chunk({ content: "ok" }, "stop")}` }],
  ])("%s", async (_, answer) => {
    const { provider } = await withApi({ script: [answer] });
    expect((await provider.invoke(["hi"])).content).toBe("ok");
  });
});

describe("options", () => {
  it("go over under the API's names; extraBody has the last word, and headers too", async () => {
    const { api, provider } = await withApi({
      script: [{ text: "ok" }],
      options: {
        temperature: 0.5,
        topP: 1,
        maxTokens: 100,
        maxTokensField: "max_completion_tokens",
        stop: ["END"],
        seed: 7,
        reasoningEffort: "low",
        organization: "org-1",
        project: "proj-1",
        headers: { "X-Title": "tests", Authorization: "Basic abc" },
        extraBody: { temperature: 1, stream_options: null, top_k: 40, nested: { deep: [1.5] } },
        parallelToolCalls: false,
        id: "local",
      },
    });
    const message = await provider.invoke(["hi"]);
    expect(provider.id).toBe("local");
    expect(message.response_metadata).toMatchObject({ provider: "local" });
    const { headers, body } = api.requests[0] ?? { headers: {}, body: {} };
    expect(headers).toMatchObject({
      "x-title": "tests",
      authorization: "Basic abc",
      "openai-organization": "org-1",
      "openai-project": "proj-1",
    });
    expect(body).toEqual({
      model: "scripted",
      messages: [{ role: "user", content: "hi" }],
      stream: true,
      top_p: 1,
      max_completion_tokens: 100,
      stop: ["END"],
      seed: 7,
      reasoning_effort: "low",
      temperature: 1,
      top_k: 40,
      nested: { deep: [1.5] },
    });
  });

  it("a base URL keeps its query, and a server of one's own gets no key it was not given", async () => {
    const { api, provider } = await withApi({
      script: [{ text: "ok" }],
      options: { apiKey: undefined },
    });
    process.env.OPENAI_API_KEY = "not for you, whoever you are";
    try {
      await provider.invoke(["hi"]);
    } finally {
      delete process.env.OPENAI_API_KEY;
    }
    expect(api.requests[0]?.headers).not.toHaveProperty("authorization");

    const named = await withApi({ script: [{ text: "ok" }], options: {} });
    const { createOpenAiCompatibleProvider } = await import("deep-factor-providers");
    const other = createOpenAiCompatibleProvider({
      baseURL: `${named.api.url}/?api-version=1`,
      apiKeyEnv: "DEEP_FACTOR_TEST_KEY",
      model: "m",
    });
    process.env.DEEP_FACTOR_TEST_KEY = KEY;
    try {
      await other.invoke(["hi"]);
    } finally {
      delete process.env.DEEP_FACTOR_TEST_KEY;
      await other.close();
    }
    expect(named.api.requests[0]).toMatchObject({
      path: "/v1/chat/completions?api-version=1",
      headers: { authorization: `Bearer ${KEY}` },
    });
  });
});

describe("requests to one place", () => {
  it("are limited and counted", async () => {
    const { api, provider } = await withApi({
      script: [{ hang: true }, { text: "two" }, { text: "three" }],
      options: { maxConcurrency: 1 },
    });
    const abort = new AbortController();
    const held = provider.invoke(["one"], { signal: abort.signal });
    await api.waitForRequest(1);
    const waiting = provider.invoke(["two"]);
    await expect.poll(() => limits().perBinary[api.url]).toEqual({ running: 1, waiting: 1 });
    abort.abort();
    await expect(held).rejects.toMatchObject({ name: "AbortError" });
    await expect(waiting).resolves.toMatchObject({ content: "two" });
    await expect(provider.invoke(["three"])).resolves.toMatchObject({ content: "three" });
    expect(limits().perBinary[api.url]).toBeUndefined();
  });
});

/** What a program of its own gets for an answer, with these variables in its environment. It never closes its provider. */
async function elsewhere(baseURL: string, env: Record<string, string> = {}) {
  const program = `
    const { createOpenAiCompatibleProvider } = require("deep-factor-providers/native");
    const provider = createOpenAiCompatibleProvider({ baseURL: ${JSON.stringify(baseURL)}, model: "m", retry: false });
    const tell = ({ code, message }) => console.log(code, message);
    provider.invoke(["hi"]).then(({ content }) => console.log(content), tell);
  `;
  const options = { timeout: 60_000, env: { ...process.env, ...env } };
  return (await promisify(execFile)(process.execPath, ["-e", program], options)).stdout;
}

it("a union at the top of a tool's schema goes out as one object's, which OpenAI takes", async () => {
  const { api, provider } = await withApi({ script: [{ calls: [{ name: "draw", args: { kind: "b", n: 1 } }] }] });
  const schema = z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("a"), s: z.string() }),
    z.object({ kind: z.literal("b"), n: z.number() }),
  ]);
  await provider.bindTools([{ name: "draw", description: "Draws.", schema }]).invoke(["hi"]);
  type Tools = { tools: { function: { parameters: object; description: string } }[] };
  const { tools } = (api.requests[0]?.body ?? { tools: [] }) as Tools;
  expect(tools[0]?.function.parameters).toMatchObject({
    type: "object",
    properties: { kind: { type: "string", enum: ["a", "b"] }, s: { type: "string" }, n: { type: "number" } },
    required: ["kind"],
  });
  expect(tools[0]?.function.parameters).not.toHaveProperty("oneOf");
  expect(tools[0]?.function.parameters).not.toHaveProperty("anyOf");
  expect(tools[0]?.function.description).toMatch(/^Draws\.\n\nThe arguments are any one of \[/);
});

describe("a company's certificate", () => {
  const file = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
  async function secure() {
    const options = { key: readFileSync(file("server.key.pem")), cert: readFileSync(file("server.pem")) };
    const server = createServer(options, (request, response) => {
      request.resume().on("end", () => {
        const message = { role: "assistant", content: "trusted" };
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ model: "m", choices: [{ index: 0, message, finish_reason: "stop" }] }));
      });
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  }

  it("is trusted where NODE_EXTRA_CA_CERTS names it", async () => {
    expect(await elsewhere(await secure(), { NODE_EXTRA_CA_CERTS: file("authority.pem"), OPENAI_API_KEY: "k" })).toBe(
      "trusted\n",
    );
  });

  it.each([
    ["", "UnknownIssuer"],
    [file("no-such.pem"), "NODE_EXTRA_CA_CERTS names .*no-such.pem, which can't be read"],
    [file("server.key.pem"), "NODE_EXTRA_CA_CERTS names .*server.key.pem, which holds no certificate"],
  ])("is not, where it is %j, and the error says why", async (certificates, reason) => {
    const told = await elsewhere(await secure(), { NODE_EXTRA_CA_CERTS: certificates, OPENAI_API_KEY: "k" });
    expect(told).toMatch(/^CONNECTION_FAILED no trusted connection to https:\/\/127\.0\.0\.1/);
    expect(told).toMatch(new RegExp(reason));
    expect(told).toContain("NODE_EXTRA_CA_CERTS");
  });
});

describe("a proxy of the environment", () => {
  it("is used", async () => {
    const proxy = await startOpenAi([{ text: "by proxy" }]);
    const env = { HTTP_PROXY: proxy.url.replace("127", "me:pw@127"), http_proxy: "", NO_PROXY: "", no_proxy: "" };
    try {
      expect(await elsewhere("http://no-such-host.invalid/v1", { ...env, http_proxy: env.HTTP_PROXY })).toBe(
        "by proxy\n",
      );
      expect(proxy.requests[0]).toMatchObject({
        path: "http://no-such-host.invalid/v1/chat/completions",
        headers: { "proxy-authorization": `Basic ${Buffer.from("me:pw").toString("base64")}` },
      });
    } finally {
      await proxy.close();
    }
  });

  it("is not asked for loopback addresses", async () => {
    const [api, proxy] = [await startOpenAi([{ text: "directly" }]), await startOpenAi([])];
    const env = { HTTP_PROXY: proxy.url, http_proxy: proxy.url, ALL_PROXY: proxy.url, NO_PROXY: "", no_proxy: "" };
    try {
      expect(await elsewhere(api.url, env)).toBe("directly\n");
      expect(proxy.log).toEqual([]);
    } finally {
      await api.close();
      await proxy.close();
    }
  });
});

describe("a run log", () => {
  it("holds a call as it holds a CLI's, without the key", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "deep-factor-api-")), "run.jsonl");
    onTestFinished(() => rmSync(dirname(path), { recursive: true }));
    const { provider } = await withApi({
      script: [{ text: `Hello, ${KEY}.` }, { error: { status: 401, body: failure("who?", "x") } }],
    });
    const updates: InvokeUpdate[] = [];
    await provider.invokeWithUpdates(["hi"], (update) => void updates.push(update), { record: path });
    await expect(provider.invoke(["hi"], { record: path })).rejects.toMatchObject({ code: "AUTHENTICATION_FAILED" });
    const log = readFileSync(path, "utf8");
    expect(log).toContain('"provider":"openai"');
    expect(log).toContain("text_delta");
    expect(log).toContain("AUTHENTICATION_FAILED");
    expect(log).not.toContain(KEY);
    expect(updates[0]).toEqual({ type: "assistant_message", content: "Hello, [redacted]." });
  });
});

describe("a provider that is not closed", () => {
  it("does not keep Node alive, idle connections and all", async () => {
    const api = await startOpenAi([{ text: "hello" }]);
    try {
      expect(await elsewhere(api.url)).toBe("hello\n");
    } finally {
      await api.close();
    }
  });
});

describe("the other entries", () => {
  const require = createRequire(import.meta.url);
  it.each([
    ["require", async () => require("deep-factor-providers")],
    ["import native", () => import("deep-factor-providers/native")],
    ["require native", async () => require("deep-factor-providers/native")],
  ])("%s", async (name, load) => {
    const api = await startOpenAi([{ text: "hello" }]);
    const { createOpenAiCompatibleProvider } = await load();
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, model: "m" });
    try {
      const message = await provider.invoke([{ role: "user", content: "hi" }]);
      expect(message.content).toBe("hello");
      if (name.endsWith("native")) expect(message).toMatchObject({ type: "ai", tool_calls: [] });
      else expect(message).toBeInstanceOf(require("@langchain/core/messages").AIMessage);
    } finally {
      await provider.close();
      await api.close();
    }
  });
});

/** The health of an OpenAI-compatible API. */
describe("the health of an API", () => {
  const ms = expect.any(Number);

  describe("health", () => {
    it("command: the server answers", async () => {
      const { api, provider } = await withApi();
      expect(await provider.health({ level: "command" })).toEqual({
        provider: "openai",
        installed: true,
        path: api.url,
        authenticated: "unknown",
        problems: [],
        timingsMs: { command: ms },
      });
      expect(api.log.map(({ method, path }) => `${method} ${path}`)).toEqual(["GET /v1/models"]);
    });

    it("auth: it lists its models to the key", async () => {
      const { api, provider } = await withApi();
      expect(await checkHealth([provider])).toEqual([
        {
          provider: "openai",
          installed: true,
          path: api.url,
          authenticated: true,
          signedInBy: { kind: "key", why: "it is asked with an API key" },
          problems: [],
          timingsMs: { command: ms, auth: ms },
        },
      ]);
      expect(api.log[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    });

    it("auth: it refuses the key", async () => {
      const error = { status: 401, body: failure(`no ${KEY}`, "x", "invalid_api_key") };
      const { provider } = await withApi({ models: { models: { error } } });
      expect(await provider.health()).toMatchObject({
        installed: true,
        authenticated: false,
        problems: [{ code: "INVALID_API_KEY", severity: "error", message: "no [redacted]", hint: "correct `apiKey`" }],
      });
    });

    it("auth: it has no list of models", async () => {
      const { provider } = await withApi({ models: { models: { error: { status: 404, html: "" } } } });
      expect(await provider.health()).toMatchObject({
        installed: true,
        authenticated: "unknown",
        problems: [{ code: "LOGIN_UNKNOWN", severity: "warning" }],
      });
    });

    it("auth: there is no key", async () => {
      const { provider } = await withApi({ options: { apiKey: undefined, apiKeyEnv: "DEEP_FACTOR_NO_SUCH_KEY" } });
      expect(await provider.health()).toMatchObject({
        installed: true,
        authenticated: false,
        problems: [{ code: "NOT_LOGGED_IN", message: "there is no API key: DEEP_FACTOR_NO_SUCH_KEY is not set" }],
      });
    });

    it("request: it answers", async () => {
      const { provider } = await withApi({
        script: [{ text: "OK" }],
        models: { models: { error: { status: 404, html: "" } } },
      });
      expect(await provider.health({ level: "request" })).toMatchObject({
        authenticated: true,
        answering: true,
        timingsMs: { command: ms, auth: ms, request: ms },
      });
    });

    it("nobody is there", async () => {
      const api = await startOpenAi([]);
      await api.close();
      const provider = createOpenAiCompatibleProvider({ baseURL: api.url, model: "m" });
      expect(await provider.health({ level: "request" })).toMatchObject({
        installed: false,
        authenticated: "unknown",
        answering: false,
        problems: [{ code: "CONNECTION_FAILED", severity: "error" }],
      });
    });

    it("an aborted look rejects with the signal's reason", async () => {
      const { provider } = await withApi({ models: { models: { hang: true } } });
      const signal = AbortSignal.abort(new Error("no more"));
      await expect(provider.health({ signal })).rejects.toThrow("no more");
      const abort = new AbortController();
      const look = provider.health({ signal: abort.signal });
      abort.abort(new Error("enough"));
      await expect(look).rejects.toThrow("enough");
    });
  });
});
