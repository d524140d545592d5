/** The three faces on the wire: what goes to a provider, what comes back, and what is refused by its name. */
import { type CliProvider, createClaudeCliProvider } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventsIn, serve, serveApi } from "../support/gateway.mjs";
import { ANSWER, CALL, EVERY, FACES, PARAMETERS, PIXEL, SCHEMA, USER } from "./faces.js";

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

describe("what goes where", () => {
  it.each(EVERY)("$name: tools are bound for every call, also none", async ({ path, ask: request, tools }) => {
    const { ask, api } = await serveApi([{ text: "a" }, { text: "b" }]);
    await ask(path, { ...request, tools });
    await ask(path, request);
    expect(
      api.requests.map(({ body }) => body.tools?.map((tool: { function: object }) => tool.function) ?? []),
    ).toEqual([
      [
        expect.objectContaining({
          name: "step",
          description: "Takes a step",
          parameters: expect.objectContaining(PARAMETERS),
        }),
      ],
      [],
    ]);
  });

  it.each([
    ["chat", "required", "required"],
    ["chat", "none", "none"],
    ["chat", { type: "function", function: { name: "step" } }, { type: "function", function: { name: "step" } }],
    ["messages", { type: "any" }, "required"],
    ["messages", { type: "none" }, "none"],
    ["messages", { type: "tool", name: "step" }, { type: "function", function: { name: "step" } }],
    ["responses", "required", "required"],
    ["responses", { type: "function", name: "step" }, { type: "function", function: { name: "step" } }],
  ] as const)("%s: tool_choice %j", async (name, choice, expected) => {
    const { ask, api } = await serveApi([expected === "none" ? { text: "a" } : { calls: [CALL] }]);
    const { path, ask: request, tools } = FACES[name];
    expect((await ask(path, { ...request, tools, tool_choice: choice })).status).toBe(200);
    expect(api.requests[0]?.body.tool_choice).toEqual(expected);
  });

  it.each([
    ["chat", { response_format: { type: "json_schema", json_schema: { name: "place", schema: SCHEMA } } }],
    ["messages", { output_config: { format: { type: "json_schema", schema: SCHEMA } } }],
    ["responses", { text: { format: { type: "json_schema", name: "place", schema: SCHEMA } } }],
  ] as const)("%s: a schema's answer is the value's JSON, whole and streamed", async (name, more) => {
    const { ask } = await serveApi([
      { text: '{"city": "Bern"}' },
      { chunks: ['{"city"', ': "Bern"}'] },
      { text: "no" },
      { text: "no" },
    ]);
    const { path, ask: request } = FACES[name];
    for (const stream of [false, true]) {
      const { status, text } = await ask(path, { ...request, ...more, stream });
      expect([status, text]).toEqual([200, expect.stringContaining('{\\"city\\":\\"Bern\\"}')]);
    }
    const unfit = await ask(path, { ...request, ...more });
    expect([unfit.status, unfit.json.error.code, unfit.headers.get("x-should-retry")]).toEqual([
      422,
      "output_invalid",
      "false",
    ]);
  });

  it.each([
    ["chat", { max_tokens: 9, stop: "END", temperature: 0.5, reasoning_effort: "high" }],
    ["messages", { max_tokens: 9, stop_sequences: ["END"], temperature: 0.5, output_config: { effort: "high" } }],
    ["responses", { max_output_tokens: 9, temperature: 0.5, reasoning: { effort: "high" } }],
  ] as const)("%s: what the provider has, it gets", async (name, more) => {
    const { ask, api } = await serveApi([{ text: "a" }]);
    const { path, ask: request } = FACES[name];
    expect((await ask(path, { ...request, ...more })).status).toBe(200);
    const { max_tokens, max_completion_tokens, stop, temperature, reasoning_effort } = api.requests[0]?.body ?? {};
    expect([max_tokens ?? max_completion_tokens, temperature, reasoning_effort]).toEqual([9, 0.5, "high"]);
    expect(stop).toEqual(name === "responses" ? undefined : ["END"]);
  });

  // As LM Studio's clients ask for no limit, and some tell of a tool that gave nothing.
  it("lenient: a limit of -1 is none, and a tool's result that is null is empty", async () => {
    const { ask, api } = await serveApi([{ text: "a" }, { text: "b" }, { text: "c" }]);
    const lenient = { "x-dfp-lenient": "true" };
    const call = { id: "c1", type: "function", function: { name: "step", arguments: "{}" } };
    const thread = [
      USER,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: null },
    ];
    const items = [
      USER,
      { type: "function_call", call_id: "c1", name: "step", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: null },
    ];
    const asked = [
      ["chat", { max_tokens: -1, messages: thread }, "max_tokens"],
      ["messages", { max_tokens: -1 }, "max_tokens"],
      ["responses", { max_output_tokens: -1, input: items }, "max_output_tokens"],
    ] as const;
    for (const [name, more, ignored] of asked) {
      const { path, ask: request } = FACES[name];
      expect((await ask(path, { ...request, ...more })).status).toBe(400);
      const { status, headers } = await ask(path, { ...request, ...more }, lenient);
      expect([name, status, headers.get("x-dfp-ignored")]).toEqual([name, 200, ignored]);
      const { max_tokens, max_completion_tokens, messages } = api.requests.at(-1)?.body ?? {};
      expect([max_tokens, max_completion_tokens]).toEqual([undefined, undefined]);
      if (name !== "messages") expect(messages.at(-1)).toMatchObject({ role: "tool", tool_call_id: "c1", content: "" });
    }
  });

  it("a thread with calls, failed results and pictures, in each face's words", async () => {
    const { ask, api } = await serveApi([{ text: "a" }, { text: "b" }, { text: "c" }]);
    await ask(FACES.chat.path, {
      model: "api/m",
      messages: [
        { role: "developer", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "Look: " },
            { type: "image_url", image_url: { url: PIXEL } },
          ],
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "step", arguments: '{ "n": 1.0 }' } }],
        },
        { role: "tool", tool_call_id: "c1", content: "took 1" },
      ],
    });
    await ask(FACES.messages.path, {
      model: "api/m",
      max_tokens: 10,
      system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Look: " },
            { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL.split(",")[1] } },
          ],
        },
        { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "step", input: { n: 1 } }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "c1", content: [{ type: "text", text: "took 1" }] },
            { type: "text", text: "And now?" },
          ],
        },
      ],
    });
    await ask(FACES.responses.path, {
      model: "api/m",
      instructions: "Be brief.",
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "Look: " },
            { type: "input_image", image_url: PIXEL },
          ],
        },
        { type: "function_call", call_id: "c1", name: "step", arguments: '{"n":1}' },
        { type: "function_call_output", call_id: "c1", output: [{ type: "input_text", text: "took 1" }] },
      ],
    });
    const [chat, messages, responses] = api.requests.map(({ body }) => body.messages);
    const thread = (args: string) => [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "Look: " },
          { type: "image_url", image_url: { url: PIXEL } },
        ],
      },
      expect.objectContaining({
        role: "assistant",
        tool_calls: [{ id: "c1", type: "function", function: { name: "step", arguments: args } }],
      }),
      { role: "tool", tool_call_id: "c1", content: "took 1" },
    ];
    expect(chat).toEqual(thread('{ "n": 1.0 }'));
    expect(messages).toEqual([...thread('{"n":1}'), { role: "user", content: "And now?" }]);
    expect(responses).toEqual(thread('{"n":1}'));
  });

  it("responses: a thread goes on from a stored one, without its instructions, and by references", async () => {
    const { ask, api } = await serveApi([{ text: "one" }, { text: "two" }, { text: "three" }]);
    const { path } = FACES.responses;
    const first = (await ask(path, { model: "api/m", input: "1", instructions: "Be brief." })).json;
    const second = await ask(path, { model: "api/m", input: "2", previous_response_id: first.id });
    await ask(path, {
      model: "api/m",
      input: [
        { role: "user", content: "1" },
        { type: "item_reference", id: first.output[0].id },
        { role: "user", content: "3" },
      ],
    });
    expect(
      api.requests
        .slice(1)
        .map(({ body }) => body.messages.map(({ role, content }: Record<string, string>) => [role, content])),
    ).toEqual([
      [
        ["user", "1"],
        ["assistant", "one"],
        ["user", "2"],
      ],
      [
        ["user", "1"],
        ["assistant", "one"],
        ["user", "3"],
      ],
    ]);
    expect(second.json.previous_response_id).toBe(first.id);
    expect(second.headers.get("x-dfp-session")).toBe("replayed");
  });

  it("responses: what is not stored is not there, nor for another key", async () => {
    const other = { name: "other", token: "0123456789abcdef" };
    const { ask, api } = await serveApi([{ text: "one" }, { text: "two" }], { keys: [other] });
    const { path, ask: request } = FACES.responses;
    const unstored = (await ask(path, { ...request, store: false })).json;
    const stored = (await ask(path, request)).json;
    const codes = [];
    for (const [id, headers] of [
      [unstored.id, {}],
      [stored.id, { authorization: `Bearer ${other.token}` }],
      ["resp_none", {}],
    ]) {
      const { status, json } = await ask(
        path,
        { ...request, previous_response_id: id },
        headers as Record<string, string>,
      );
      codes.push([status, json.error.code, json.error.param]);
    }
    expect(codes).toEqual(Array(3).fill([400, "previous_response_not_found", "previous_response_id"]));
    const lost = await ask(path, { model: "api/m", input: [{ type: "item_reference", id: unstored.output[0].id }] });
    expect([lost.status, lost.json.error.code, lost.json.error.param]).toEqual([404, "item_not_found", "input[0]"]);
    expect(api.requests.length).toBe(2);
  });

  it("responses: codex's namespaces go out flat, and come back as they were", async () => {
    const { ask, api } = await serveApi([{ calls: [{ id: "c1", name: "files__read", args: {} }] }, { text: "done" }]);
    const tools = [
      { type: "namespace", name: "files", tools: [{ type: "function", name: "read", parameters: { type: "object" } }] },
    ];
    const { json } = await ask(FACES.responses.path, { ...FACES.responses.ask, tools });
    const call = json.output[0];
    expect(call).toMatchObject({ type: "function_call", namespace: "files", name: "read", call_id: "c1" });
    await ask(FACES.responses.path, {
      model: "api/m",
      input: [{ role: "user", content: "hi" }, call, { type: "function_call_output", call_id: "c1", output: "x" }],
      tools,
    });
    expect(api.requests[1]?.body.messages[1].tool_calls[0].function.name).toBe("files__read");
  });

  it("responses: the functions of codex's additional_tools are tools; the rest is left out and named", async () => {
    const { ask, api } = await serveApi([{ calls: [{ id: "c1", name: "wait", args: {} }] }, { text: "done" }]);
    const schema = { type: "object", properties: {} };
    const more = {
      type: "additional_tools",
      id: "at_1",
      role: "developer",
      tools: [
        {
          type: "namespace",
          name: "functions",
          tools: [
            { type: "custom", name: "exec", format: { type: "grammar", syntax: "lark", definition: "start: /x/" } },
            { type: "function", name: "wait", parameters: schema },
          ],
        },
        { type: "namespace", name: "agents", tools: [{ type: "function", name: "spawn", parameters: schema }] },
        { type: "web_search" },
      ],
    };
    const request = { ...FACES.responses.ask, input: [more, { role: "user", content: "hi" }] };
    const { status, headers, json } = await ask(FACES.responses.path, request);
    expect([status, headers.get("x-dfp-ignored")]).toEqual([200, "additional_tools.exec,additional_tools.web_search"]);
    const [call] = json.output;
    expect([call.type, call.namespace, call.name]).toEqual(["function_call", undefined, "wait"]);
    const input = [more, { role: "user", content: "hi" }, { ...call, namespace: "functions" }];
    const result = { type: "function_call_output", call_id: "c1", output: "x" };
    await ask(FACES.responses.path, { ...FACES.responses.ask, input: [...input, result] });
    const bodies = api.requests.map(({ body }) => body);
    expect(bodies.map((body) => body.tools.map((tool: { function: { name: string } }) => tool.function.name))).toEqual([
      ["wait", "agents__spawn"],
      ["wait", "agents__spawn"],
    ]);
    expect(bodies[1]?.messages[1].tool_calls[0].function.name).toBe("wait");
  });

  it.each(EVERY)(
    "$name: one call at a time gets the first; the others are answered as not run",
    async ({ name, path, ask: request, tools }) => {
      const { ask, api } = await serveApi([{ calls: [CALL, { ...CALL, id: "call_2" }] }, { text: "done" }]);
      const one =
        name === "messages"
          ? { tool_choice: { type: "auto", disable_parallel_tool_use: true } }
          : { parallel_tool_calls: false };
      const first = await ask(path, { ...request, ...one, tools });
      const calls = first.text.match(/call_\d/g);
      expect([...new Set(calls)]).toEqual(["call_1"]);
      const said = name === "chat" ? first.json.choices[0].message : { role: "assistant", content: first.json.content };
      const next = {
        chat: { messages: [USER, said, { role: "tool", tool_call_id: "call_1", content: "took 1" }] },
        messages: {
          messages: [
            USER,
            said,
            { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "took 1" }] },
          ],
        },
        responses: {
          input: [
            USER,
            ...(first.json.output ?? []),
            { type: "function_call_output", call_id: "call_1", output: "took 1" },
          ],
        },
      }[name];
      await ask(path, { ...request, ...one, tools, ...next });
      const [, assistant, ...results] = api.requests[1]?.body.messages ?? [];
      expect(assistant.tool_calls.map(({ id }: { id: string }) => id)).toEqual(["call_1", "call_2"]);
      expect(results.map(({ tool_call_id, content }: Record<string, string>) => [tool_call_id, content])).toEqual([
        ["call_1", "took 1"],
        ["call_2", expect.stringContaining("not run: one call at a time")],
      ]);
    },
  );

  it("messages: sealed reasoning comes back to whom it came from", async () => {
    const { ask, api } = await serveApi([
      { reasoning: "Let me see.", text: "one" },
      { text: "two" },
      { text: "three" },
    ]);
    const request = { ...FACES.messages.ask, thinking: { type: "adaptive" } };
    const { json } = await ask(FACES.messages.path, request);
    await ask(FACES.messages.path, {
      ...request,
      messages: [USER, { role: "assistant", content: json.content }, USER],
    });
    expect(api.requests[1]?.body.messages[1]).toMatchObject({ role: "assistant", content: "one" });
    const forged = [
      { type: "thinking", thinking: "x", signature: "dfp1.eyJ" },
      { type: "text", text: "one" },
    ];
    expect(
      (await ask(FACES.messages.path, { ...request, messages: [USER, { role: "assistant", content: forged }] })).status,
    ).toBe(200);
    expect(api.requests[2]?.body.messages[1]).toEqual({ role: "assistant", content: "one" });
  });

  it.each([false, true])("chat: what stands beside a call goes back beside it, streamed: %j", async (stream) => {
    const extra = { google: { thought_signature: "S" } };
    const { ask, api } = await serveApi([{ calls: [{ ...CALL, beside: { extra_content: extra } }] }, { text: "done" }]);
    const { path, ask: request, tools } = FACES.chat;
    const { json, text } = await ask(path, { ...request, stream, tools });
    const [call] = stream ? callsOf(text) : json.choices[0].message.tool_calls;
    expect(call).toEqual({
      id: "call_1",
      type: "function",
      function: { name: "step", arguments: '{"n":1}' },
      extra_content: { ...extra, deep_factor: expect.stringMatching(/^dfp1\./) },
    });
    const said = { role: "assistant", content: null, tool_calls: [call] };
    await ask(path, {
      ...request,
      tools,
      messages: [USER, said, { role: "tool", tool_call_id: call.id, content: "1" }],
    });
    const { extra_content: back } = api.requests[1]?.body.messages[1].tool_calls[0] ?? {};
    expect(back).toEqual(extra);
  });
});

/** The calls of a stream, put together as clients do: what is a text is joined. */
function callsOf(text: string) {
  const calls: { function?: { arguments: string }; id?: string; extra_content?: object }[] = [];
  for (const [, json] of text.matchAll(/^data: (\{.*\})$/gm)) {
    for (const { index, function: more, ...rest } of JSON.parse(json ?? "").choices[0]?.delta.tool_calls ?? []) {
      const { function: known = { arguments: "" }, ...call } = calls[index] ?? {};
      const joined = { ...known, ...more, arguments: known.arguments + (more?.arguments ?? "") };
      calls[index] = { ...call, ...rest, function: joined };
    }
  }
  return calls;
}

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
    ["chat", { service_tier: "flex" }, "service_tier"],
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
