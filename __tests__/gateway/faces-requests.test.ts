/** The three faces on the wire: what of a request goes to a provider, and where. */
import { describe, expect, it } from "vitest";
import { serve, serveApi } from "../support/gateway.mjs";
import { CALL, EVERY, FACES, PARAMETERS, PIXEL, SCHEMA, USER } from "./faces.js";

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

it("a set of tools is bound once, however often and in whichever face a client sends it", async () => {
  const { provider } = await serveApi([{ text: "a" }, { text: "b" }, { text: "c" }, { text: "d" }]);
  const bound: unknown[] = [];
  const bindTools = (tools: never) => {
    bound.push(tools);
    return provider.bindTools(tools);
  };
  const { ask } = await serve({ providers: { api: { ...provider, bindTools } as never } });
  const { chat, responses } = FACES;
  const statuses = [
    (await ask(chat.path, { ...chat.ask, tools: chat.tools })).status,
    (await ask(chat.path, { ...chat.ask, tools: chat.tools })).status,
    (await ask(responses.path, { ...responses.ask, tools: responses.tools })).status,
    (await ask(chat.path, chat.ask)).status,
  ];
  expect(statuses).toEqual([200, 200, 200, 200]);
  expect(bound).toEqual([[{ name: "step", description: "Takes a step", schema: PARAMETERS }], []]);
});
