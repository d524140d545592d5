/** The three faces on the wire: what comes back, whole and streamed. */

import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import loader from "../../src/js/load.cjs";
import { eventsIn, serveApi } from "../support/gateway.mjs";
import { gatewayTable } from "../support/gateway-table.mjs";
import { PACKAGES } from "../support/installed.mjs";
import { ANSWER, CALL, EVERY, FACES } from "./faces.js";

describe("an answer that comes whole", () => {
  it("chat", async () => {
    const { ask } = await serveApi([{ ...ANSWER, calls: [CALL] }]);
    const { status, json, headers } = await ask(FACES.chat.path, { ...FACES.chat.ask, tools: FACES.chat.tools });
    expect([status, json]).toEqual([
      200,
      {
        id: expect.stringMatching(/^chatcmpl-\w+$/),
        object: "chat.completion",
        created: expect.any(Number),
        model: "api/m",
        choices: [
          {
            index: 0,
            message: {
              role: "assistant",
              content: "Hello.",
              refusal: null,
              annotations: [],
              reasoning_content: "Let me see.",
              tool_calls: [{ id: "call_1", type: "function", function: { name: "step", arguments: '{"n":1}' } }],
            },
            logprobs: null,
            finish_reason: "tool_calls",
          },
        ],
        usage: {
          prompt_tokens: 20,
          completion_tokens: 7,
          total_tokens: 27,
          prompt_tokens_details: { cached_tokens: 5, audio_tokens: 0 },
          completion_tokens_details: {
            reasoning_tokens: 2,
            audio_tokens: 0,
            accepted_prediction_tokens: 0,
            rejected_prediction_tokens: 0,
          },
        },
        service_tier: "default",
      },
    ]);
    expect(Object.fromEntries([...headers].filter(([name]) => name.startsWith("x-dfp")))).toEqual({
      "x-dfp-run-id": expect.stringMatching(/^run-/),
      "x-dfp-model": "api/m",
      "x-dfp-engine": "api",
      "x-dfp-session": "new",
      "x-dfp-cache-hit": "0.25",
    });
  });

  it("messages", async () => {
    const { ask } = await serveApi([{ ...ANSWER, calls: [CALL] }]);
    const request = { ...FACES.messages.ask, tools: FACES.messages.tools, thinking: { type: "adaptive" } };
    const { status, json } = await ask(FACES.messages.path, request);
    expect([status, json]).toEqual([
      200,
      {
        id: expect.stringMatching(/^msg_\w+$/),
        type: "message",
        role: "assistant",
        model: "api/m",
        content: [
          { type: "thinking", thinking: "Let me see.", signature: expect.stringMatching(/^dfp1\./) },
          { type: "text", text: "Hello.", citations: [] },
          { type: "tool_use", id: "call_1", name: "step", input: { n: 1 }, caller: { type: "direct" } },
        ],
        stop_reason: "tool_use",
        stop_sequence: null,
        stop_details: null,
        container: null,
        usage: {
          input_tokens: 15,
          output_tokens: 7,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: 5,
          cache_creation: null,
          inference_geo: null,
          output_tokens_details: { thinking_tokens: 2 },
          server_tool_use: null,
          service_tier: "standard",
        },
      },
    ]);
  });

  it("responses, which is kept for its key, and read and removed by its id", async () => {
    const { ask, gateway } = await serveApi([{ ...ANSWER, calls: [CALL] }]);
    const { json } = await ask(FACES.responses.path, {
      ...FACES.responses.ask,
      tools: FACES.responses.tools,
      metadata: { a: "b" },
    });
    expect(json).toMatchObject({
      status: "completed",
      model: "api/m",
      metadata: { a: "b" },
      output: [
        { type: "reasoning", summary: [{ type: "summary_text", text: "Let me see." }] },
        { type: "message", status: "completed", content: [{ type: "output_text", text: "Hello." }] },
        { type: "function_call", status: "completed", call_id: "call_1", name: "step", arguments: '{"n":1}' },
      ],
      usage: {
        input_tokens: 20,
        input_tokens_details: { cached_tokens: 5 },
        output_tokens: 7,
        output_tokens_details: { reasoning_tokens: 2 },
        total_tokens: 27,
      },
    });
    expect((await ask(`/v1/responses/${json.id}`)).json).toEqual(json);
    const removed = await fetch(`${gateway.url}/v1/responses/${json.id}`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${gateway.token}` },
    });
    expect(await removed.json()).toEqual({ id: json.id, object: "response", deleted: true });
    const { status, json: gone } = await ask(`/v1/responses/${json.id}`);
    expect([status, gone.error.code, gone.error.param]).toEqual([404, "item_not_found", "response_id"]);
  });
});

describe("an answer that is streamed", () => {
  it("chat: one id, a role first, pieces of a call, the usage only if it is asked for, and [DONE]", async () => {
    const { ask } = await serveApi([{ ...ANSWER, calls: [CALL] }, { text: "Hi." }]);
    const request = { ...FACES.chat.ask, stream: true, tools: FACES.chat.tools };
    const { text, headers } = await ask(FACES.chat.path, { ...request, stream_options: { include_usage: true } });
    const events = eventsIn(text);
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(events.map(([name]) => name).filter((name) => name !== undefined)).toEqual([]);
    expect(events.at(-1)?.[1]).toBe("[DONE]");
    const chunks = events.slice(0, -1).map(([, data]) => data);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.slice(0, -1).every(({ usage, choices }) => usage === null && "finish_reason" in choices[0])).toBe(
      true,
    );
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 27 } });
    const deltas = chunks.slice(0, -1).map(({ choices }) => choices[0].delta);
    expect(deltas[0]).toEqual({ role: "assistant", content: "" });
    expect(deltas.map(({ reasoning_content: text = "" }) => text).join("")).toBe("Let me see.");
    expect(deltas.map(({ content = "" }) => content ?? "").join("")).toBe("Hello.");
    const [named, ...pieces] = deltas.flatMap(({ tool_calls: calls = [] }) => calls);
    expect(named).toEqual({ index: 0, id: "call_1", type: "function", function: { name: "step", arguments: "" } });
    expect(pieces.every((piece: object) => !("id" in piece))).toBe(true);
    expect(pieces.map((piece: { function: { arguments: string } }) => piece.function.arguments).join("")).toBe(
      '{"n":1}',
    );
    expect(chunks.at(-2)?.choices[0].finish_reason).toBe("tool_calls");
    const without = eventsIn((await ask(FACES.chat.path, { ...FACES.chat.ask, stream: true })).text);
    expect(without.slice(0, -1).filter(([, data]) => "usage" in data || data.choices.length === 0)).toEqual([]);
  });

  it("messages: named events, blocks from 0, all counters at the end", async () => {
    const { ask } = await serveApi([{ ...ANSWER, calls: [CALL] }]);
    const { text } = await ask(FACES.messages.path, {
      ...FACES.messages.ask,
      stream: true,
      thinking: { type: "enabled", budget_tokens: 1024 },
      tools: FACES.messages.tools,
    });
    const events = eventsIn(text);
    expect(events.every(([name, data]) => name === data.type)).toBe(true);
    const blocks = events
      .filter(([name]) => name === "content_block_start")
      .map(([, data]) => [data.index, data.content_block.type]);
    expect(blocks.slice(0, 3)).toEqual([
      [0, "thinking"],
      [1, "text"],
      [2, "tool_use"],
    ]);
    const outline = events.map(([name]) => name).filter((name, index, all) => name !== all[index - 1]);
    expect([outline[0], ...outline.slice(-2)]).toEqual(["message_start", "message_delta", "message_stop"]);
    expect(events.at(-2)?.[1]).toMatchObject({
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: { input_tokens: 15, output_tokens: 7, cache_read_input_tokens: 5, cache_creation_input_tokens: 0 },
    });
  });

  it("responses: numbered without gaps, each item whole before the end, and no [DONE]", async () => {
    const { ask } = await serveApi([{ ...ANSWER, calls: [CALL] }]);
    const { text } = await ask(FACES.responses.path, {
      ...FACES.responses.ask,
      stream: true,
      tools: FACES.responses.tools,
    });
    const events = eventsIn(text);
    expect(events.map(([, data]) => data.sequence_number)).toEqual(events.map((_, index) => index));
    expect(events.every(([name, data]) => name === data.type)).toBe(true);
    const last = events.at(-1)?.[1];
    expect(last.type).toBe("response.completed");
    const done = events.filter(([name]) => name === "response.output_item.done").map(([, data]) => data.item);
    expect(last.response.output).toEqual(done);
    expect(new Set(events.flatMap(([, { response }]) => (response ? [response.id] : []))).size).toBe(1);
    expect(text).not.toContain("[DONE]");
  });

  it.each(EVERY)(
    "$name: a failure behind the first piece is the vendor's event, and no finish",
    async ({ path, ask: request, name }) => {
      const { ask, log } = await serveApi([{ chunks: ["Hel", "lo."], cutAfter: 3 }]);
      const { status, text } = await ask(path, { ...request, stream: true });
      const [last] = eventsIn(text).slice(-1);
      const error = { chat: last?.[1].error, messages: last?.[1].error, responses: last?.[1].response?.error }[name];
      expect([status, error.code]).toEqual([200, "upstream_unreachable"]);
      expect(last?.[0]).toBe({ chat: undefined, messages: "error", responses: "response.failed" }[name]);
      expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed|"finish_reason":"/);
      await expect.poll(() => log.map(({ fields }) => fields.code)).toEqual(["upstream_unreachable"]);
    },
  );

  it.each(EVERY)(
    "$name: a failure before it is a status, in the vendor's shape",
    async ({ path, ask: request, name }) => {
      const { ask } = await serveApi([
        { error: { status: 429, message: "slow down", headers: { "retry-after": "7" } } },
      ]);
      const { status, json, headers } = await ask(path, { ...request, stream: true });
      expect([status, headers.get("retry-after"), headers.get("x-should-retry")]).toEqual([429, "7", null]);
      const own = { code: "rate_limit_exceeded", dfp: { code: "RATE_LIMITED", category: "rate_limit" } };
      if (name === "messages") {
        expect(json).toMatchObject({
          type: "error",
          error: { type: "rate_limit_error", ...own },
          request_id: headers.get("request-id"),
        });
      } else expect(json).toMatchObject({ error: { type: "rate_limit_error", param: null, ...own } });
    },
  );

  it.each(EVERY)("$name: an answer that hits its limit is its text, cut", async ({ path, ask: request }) => {
    const { ask } = await serveApi([
      { text: "Half an ans", stopReason: "length" },
      { text: "Half an ans", stopReason: "length" },
    ]);
    const whole = await ask(path, request);
    const streamed = await ask(path, { ...request, stream: true });
    for (const { status, text } of [whole, streamed]) {
      expect(status).toBe(200);
      expect(text).toContain("Half an ans".slice(0, 4));
      expect(text).toMatch(/"finish_reason":"length"|"stop_reason":"max_tokens"|"reason":"max_output_tokens"/);
    }
  });
});

/** docs/reference/gateway.md shows what each face takes over each provider; `UPDATE_DOCS=1 npx vitest run __tests__/gateway/faces.test.ts` writes it. */
describe("the page of the gateway", () => {
  const file = new URL("../../docs/reference/gateway.md", import.meta.url);
  const TABLE = /(?<=<!-- faces -->\n)[\s\S]*(?=\n<!-- \/faces -->)/;

  it("the table is what the gateway takes and refuses", async () => {
    const registry = JSON.parse(loader.loadNative().providers());
    expect(registry.length).toBeGreaterThan(6);
    const table = await gatewayTable(registry);
    const text = readFileSync(file, "utf8");
    if (process.env.UPDATE_DOCS)
      writeFileSync(
        file,
        text.replace(TABLE, () => table),
      );
    else expect(TABLE.exec(text)?.[0]).toBe(table);
  });

  it("the table of clients has the versions that the tests run", () => {
    const text = readFileSync(new URL("../../docs/guide/any-language.md", import.meta.url), "utf8");
    const clients = ["@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@anthropic-ai/sdk"];
    const others = [
      "@langchain/anthropic",
      "@langchain/openai",
      "@openai/agents-extensions",
      "@openai/codex",
      "openai",
    ];
    const missing = [...clients, ...others].filter((name) => !text.includes(`${name} ${PACKAGES[name]}`));
    expect(missing).toEqual([]);
  });
});
