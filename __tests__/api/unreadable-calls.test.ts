/** A native call whose arguments are not JSON: the caller, and in a run of an agent the model, hear of it. */
import { ToolMessage } from "@langchain/core/messages";
import { runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { withApi } from "./setup.js";

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
