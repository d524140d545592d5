/** What a call of an API chooses for itself: the fields of the request, over those of the provider's options. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { createOpenAiCompatibleProvider } from "deep-factor-providers";
import { expect, it } from "vitest";
import { failureOf, withApi } from "../api/setup.js";

const ADD = { name: "add", description: "Adds", schema: { type: "object", properties: { a: { type: "number" } } } };
const SUB = { ...ADD, name: "sub.tract" };

/** The fields of a request beside those of every request. */
function fields(body: Record<string, unknown>) {
  const { messages: _, stream: __, stream_options: ___, tools: ____, ...rest } = body;
  return rest;
}

it("sends what a call chooses over what the provider chooses", async () => {
  const { api, provider } = await withApi({
    script: () => ({ text: "ok" }),
    options: { temperature: 1, stop: "OWN", maxTokens: 9, reasoningEffort: "high", extraBody: { top_k: 1 } },
  });
  await provider.invoke(["one"]);
  await provider.invoke(["two"], {
    model: "-other/model",
    reasoning: { effort: "minimal" },
    maxOutputTokens: 5,
    stop: ["A", "B"],
    temperature: 0,
  });
  await provider.invoke(["three"], { stop: [], temperature: 0.5, onUnsupported: "error" });
  expect(api.requests.map(({ body }) => fields(body))).toEqual([
    { model: "scripted", temperature: 1, stop: "OWN", max_tokens: 9, reasoning_effort: "high", top_k: 1 },
    {
      model: "-other/model",
      temperature: 0,
      stop: ["A", "B"],
      max_tokens: 5,
      reasoning_effort: "minimal",
      top_k: 1,
    },
    { model: "scripted", temperature: 0.5, max_tokens: 9, reasoning_effort: "high", top_k: 1 },
  ]);
});

it("has one limit of tokens, by the name that the server wants", async () => {
  const { api, provider } = await withApi({
    script: () => ({ text: "ok" }),
    options: { maxTokensField: "max_completion_tokens", maxOutputTokens: 9, reasoning: { effort: "low" } },
  });
  await provider.invoke(["one"]);
  await provider.invoke(["two"], { maxOutputTokens: 5 });
  expect(api.requests.map(({ body }) => fields(body))).toEqual([
    { model: "scripted", max_completion_tokens: 9, reasoning_effort: "low" },
    { model: "scripted", max_completion_tokens: 5, reasoning_effort: "low" },
  ]);
});

it("lets a call win over extraBody", async () => {
  const { api, provider } = await withApi({
    script: () => ({ text: "ok" }),
    options: { extraBody: { max_completion_tokens: 9, temperature: 2 } },
  });
  await provider.invoke(["one"], { maxOutputTokens: 5, temperature: 0 });
  expect(fields(api.requests[0]?.body)).toEqual({ model: "scripted", max_tokens: 5, temperature: 0 });
});

it("says which tools are to be called, in the API's words", async () => {
  const call = (name: string) => ({ calls: [{ id: "c1", name, args: { a: 1 } }] });
  const { api, provider } = await withApi({
    script: [
      call("add"),
      // As it was declared: an API takes no dots.
      ({ body }) => call(body.tools[1].function.name),
      { text: "no" },
      { text: "maybe" },
    ],
    options: { toolChoice: "required" },
    mayRunOut: true,
  });
  const model = provider.bindTools([ADD, SUB]);
  const any = await model.invoke(["one"], { toolChoice: "any" });
  await model.invoke(["two"], { toolChoice: { name: "sub.tract" } });
  const none = await model.invoke(["three"], { toolChoice: "none" });
  await model.invoke(["four"], { toolChoice: "auto" });
  expect(any).toBeInstanceOf(AIMessage);
  expect(any.tool_calls?.map(({ name }) => name)).toEqual(["add"]);
  expect(none.content).toBe("no");
  const choices = api.requests.map(({ body }) => body.tool_choice);
  const wire = api.requests[1]?.body.tools[1].function.name;
  expect(choices).toEqual(["required", { type: "function", function: { name: wire } }, "none", "auto"]);
});

it("hands on what a server says that refuses one", async () => {
  const message = "Unsupported parameter: 'temperature' is not supported with this model.";
  const { provider } = await withApi({ script: [{ error: { status: 400, message } }], options: { retry: false } });
  const error = await failureOf(provider.invoke([new HumanMessage("Hi")], { temperature: 0.3 }));
  expect(error).toMatchObject({ code: "INVALID_REQUEST", category: "validation" });
  expect(error.message).toContain("'temperature' is not supported");
});

it("refuses two names for one thing", () => {
  for (const [options, names] of [
    [{ maxTokens: 1, maxOutputTokens: 1 }, ["maxTokens", "maxOutputTokens"]],
    [{ reasoningEffort: "low", reasoning: { effort: "low" } }, ["reasoningEffort", "reasoning.effort"]],
  ] as const) {
    const create = () => createOpenAiCompatibleProvider({ baseURL: "http://127.0.0.1:9", model: "m", ...options });
    expect(create).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    for (const name of names) expect(create).toThrow(`"${name}"`);
  }
});
