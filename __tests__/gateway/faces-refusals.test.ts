/** The three faces on the wire: what is refused, by its name and in HTTP's words. */
import { type CliProvider, createClaudeCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { serve, serveApi } from "../support/gateway.mjs";
import { EVERY, FACES, USER } from "./faces.js";

/** What carries messages, instructions or tools, or asks for another kind of answer. */
const CONTENT = ["modalities", "functions", "tools[0]", "mcp_servers", "background", "conversation", "prompt"];

/** As a provider that is no API: an API has more knobs. */
function anybodys(provider: Pick<CliProvider<unknown>, "id" | "stream" | "bindTools">) {
  const stream = ((messages: never, options: never) => provider.stream(messages, options)) as never;
  return {
    id: provider.id,
    stream,
    bindTools: (tools: never) => anybodys(provider.bindTools(tools) as never),
  } as never;
}

describe("what can't be had", () => {
  it.each([
    ["chat", { top_p: 0.5 }, "top_p"],
    ["chat", { n: 2 }, "n"],
    ["chat", { seed: 1 }, "seed"],
    ["chat", { logprobs: true }, "logprobs"],
    ["chat", { logit_bias: { 1: 2 } }, "logit_bias"],
    ["chat", { presence_penalty: 1 }, "presence_penalty"],
    ["chat", { modalities: ["text", "audio"] }, "modalities"],
    ["chat", { functions: [] }, "functions"],
    ["chat", { verbosity: "low" }, "verbosity"],
    ["chat", { tools: [{ type: "custom", custom: { name: "x" } }] }, "tools[0]"],
    ["messages", { top_k: 5 }, "top_k"],
    ["messages", { top_p: 0.5 }, "top_p"],
    ["messages", { mcp_servers: [{}] }, "mcp_servers"],
    ["messages", { tools: [{ type: "web_search_20250305", name: "web_search" }] }, "tools[0]"],
    ["responses", { background: true }, "background"],
    ["responses", { conversation: "conv_1" }, "conversation"],
    ["responses", { prompt: { id: "p" } }, "prompt"],
    ["responses", { max_tool_calls: 1 }, "max_tool_calls"],
    ["responses", { tools: [{ type: "web_search" }] }, "tools[0]"],
    ["responses", { tools: [{ type: "mcp", server_label: "x" }] }, "tools[0]"],
    ["responses", { text: { verbosity: "low" } }, "text.verbosity"],
  ] as const)("%s: %j is refused by its name; a knob is left out where that is allowed", async (name, more, param) => {
    const { api, provider } = await serveApi([{ text: "a" }]);
    const { ask, log } = await serve({ providers: { api: anybodys(provider) } });
    const { path, ask: request } = FACES[name];
    const { status, json } = await ask(path, { ...request, ...more });
    expect([status, json.error.code, json.error.param]).toEqual([400, "unsupported_parameter", param]);
    // Who may have it left out is told how.
    expect(json.error.message.includes("`x-dfp-lenient: true`")).toBe(!CONTENT.includes(param));
    expect(json.error.message.includes("`--lenient`")).toBe(!CONTENT.includes(param));
    expect(api.requests).toEqual([]);
    const lenient = await ask(path, { ...request, ...more }, { "x-dfp-lenient": "true" });
    const left = CONTENT.includes(param) ? [400, null] : [200, param];
    expect([lenient.status, lenient.headers.get("x-dfp-ignored"), log.at(-1)?.fields.ignored ?? null]).toEqual([
      ...left,
      left[1],
    ]);
  });

  it.each(EVERY)("$name: values that ask for nothing are taken", async ({ path, ask: request }) => {
    const { ask, api } = await serveApi([{ text: "a" }]);
    const nothing = {
      ...{ temperature: 1, top_p: 1, n: 1, best_of: 1, typical_p: 1, repetition_penalty: 1 },
      ...{ presence_penalty: 0, frequency_penalty: 0, min_p: 0, top_a: 0, top_k: -1, top_logprobs: 0 },
      ...{ logprobs: false, logit_bias: {}, seed: null },
    };
    const { status, headers } = await ask(path, { ...request, ...nothing });
    expect([status, headers.get("x-dfp-ignored"), api.requests.length]).toEqual([200, null, 1]);
  });

  // What the first request of aider, gptme, shell-gpt, promptfoo or `ChatOpenAI(temperature=0)` meets.
  it.each(EVERY)(
    "$name: what a CLI has no option for is refused in the words of HTTP",
    async ({ path, ask: request }) => {
      const claude = createClaudeCliProvider({ cliPath: "/nonexistent/claude" });
      onTestFinished(() => claude.close());
      const { ask } = await serve({ providers: { claude } });
      const { status, json } = await ask(path, { ...request, model: "claude", temperature: 0 });
      const { message, code, param, dfp } = json.error;
      expect([status, code, param]).toEqual([400, "unsupported_parameter", "temperature"]);
      expect(message).toMatch(
        /^temperature can't be had of claude \(those that can: [\w, -]*\): leave it out, or send the header `x-dfp-lenient: true` \(for every call: start the gateway with `--lenient`\), and it is left out here$/,
      );
      expect(message + dfp.hint).not.toMatch(/onUnsupported|engine|option "/);
    },
  );

  it.each([
    ["messages", { some_new_thread: { id: "t" } }],
    ["chat", { memory: "m" }],
    ["responses", { context: ["c"] }],
  ] as const)("%s: %j, whose meaning nobody knows, is refused where lenience is allowed, too", async (name, more) => {
    const { ask, api } = await serveApi([{ text: "a" }], { lenient: true });
    const { path, ask: request } = FACES[name];
    const { status, json } = await ask(path, { ...request, ...more });
    expect([status, json.error.code]).toEqual([400, "unknown_parameter"]);
    expect(api.requests).toEqual([]);
    const knob = await ask(path, { ...request, frobnicate: 0.5 });
    expect([knob.status, knob.headers.get("x-dfp-ignored")]).toEqual([200, "frobnicate"]);
  });

  it("messages: a thread is refused in the words by which the clients' tool runners go on without it", async () => {
    const { ask } = await serveApi([], { lenient: true });
    const { path, ask: request } = FACES.messages;
    const { status, json } = await ask(path, { ...request, thread: { type: "create" } });
    expect([status, json.type, json.error.type, json.error.param, json.error.details]).toEqual([
      ...[400, "error", "invalid_request_error", "thread"],
      { error_code: "thread_unsupported_request", unsupported: ["thread"] },
    ]);
  });

  it.each(EVERY)("$name: a parameter that nobody knows, and one that is null", async ({ path, ask: request }) => {
    const { ask } = await serveApi([{ text: "a" }]);
    const { status, json } = await ask(path, { ...request, frobnicate: 1 });
    expect([status, json.error.code, json.error.param]).toEqual([400, "unknown_parameter", "frobnicate"]);
    expect((await ask(path, { ...request, seed: null, top_k: null, frobnicate: null })).status).toBe(200);
  });

  it.each([
    ["chat", { messages: "hi" }, "invalid_type", "messages"],
    ["chat", { messages: [{ role: "robot", content: "hi" }] }, "invalid_value", "messages[0].role"],
    [
      "chat",
      { messages: [USER, { role: "tool", content: "x" }] },
      "missing_required_parameter",
      "messages[1].tool_call_id",
    ],
    ["chat", { stream: "yes" }, "invalid_type", "stream"],
    ["chat", { max_tokens: 0 }, "invalid_value", "max_tokens"],
    ["chat", { temperature: 3 }, "invalid_value", "temperature"],
    ["chat", { tool_choice: "required" }, "invalid_value", "tool_choice"],
    ["chat", { tool_choice: { type: "allowed_tools" } }, "unsupported_parameter", "tool_choice"],
    [
      "chat",
      { response_format: { type: "json_schema", json_schema: { schema: { type: "array" } } } },
      "invalid_value",
      "response_format.json_schema.schema",
    ],
    [
      "chat",
      { messages: [{ role: "user", content: [{ type: "mystery" }] }] },
      "unsupported_content",
      "messages[0].content[0]",
    ],
    ["chat", { model: null }, "missing_required_parameter", "model"],
    ["messages", { max_tokens: null }, "missing_required_parameter", "max_tokens"],
    [
      "messages",
      {
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "a" },
              { type: "video", source: {} },
            ],
          },
        ],
      },
      "unsupported_content",
      "messages[0].content[1]",
    ],
    [
      "messages",
      { messages: [{ role: "assistant", content: [{ type: "server_tool_use", id: "x", name: "y", input: {} }] }] },
      "unsupported_content",
      "messages[0].content[0]",
    ],
    ["messages", { tool_choice: { type: "tool", name: "none" } }, "invalid_value", "tool_choice"],
    ["responses", { input: null }, "missing_required_parameter", "input"],
    ["responses", { input: [{ type: "computer_call" }] }, "unsupported_content", "input[0]"],
    [
      "responses",
      { input: [USER, { role: "user", content: [{ type: "input_file", file_id: "f" }] }] },
      "unsupported_content",
      "input[1].content[0]",
    ],
  ] as const)("%s: %j", async (name, more, code, param) => {
    const { ask, api } = await serveApi([]);
    const { path, ask: request } = FACES[name];
    const { status, json } = await ask(path, { ...request, ...more });
    expect([status, json.error.code, json.error.param]).toEqual([400, code, param]);
    expect(api.requests).toEqual([]);
  });

  it.each([
    ["/v1/chat/completion", 404, "unknown_url"],
    ["/chat/completions", 404, "unknown_url"],
    ["/v1/responses/compact", 404, "unknown_url"],
    ["/v1/models/nobody/m", 404, "model_not_found"],
    ["/v1/chat/completions", 405, "method_not_allowed"],
  ])("GET %s", async (path, status, code) => {
    const { ask } = await serveApi([]);
    const answer = await ask(path);
    expect([answer.status, answer.json.error.code]).toEqual([status, code]);
  });
});
