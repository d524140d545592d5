/** Answers by a schema, asked of an OpenAI-compatible API, by an agent, by several providers as one, and what is refused. */
import { createFallbackProvider, type ProviderEvent, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import { z as z3 } from "zod/v3";
import { collect, failureOf, withApi } from "../api/setup.js";

const outputSchema = z.object({ name: z.string(), age: z.number().int() });
const ANN = { name: "Ann", age: 3 };
const says = (value: unknown) => ({ text: JSON.stringify(value) });
const JSON_SCHEMA = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

/** What a request said. */
const bodyOf = (api: { requests: { body: unknown }[] }, index: number) =>
  api.requests[index]?.body as {
    response_format?: { type: string; json_schema: { schema: object } };
    messages: { role: string; content: string }[];
  };
const replyOf = (events: ProviderEvent[]) => events.find((event) => event.type === "done")?.reply;

describe("an API", () => {
  it.each([
    ["zod 4", outputSchema],
    ["zod 3", z3.object({ name: z3.string(), age: z3.number().int() })],
    ["zod mini", mini.object({ name: mini.string(), age: mini.int() })],
    ["JSON Schema", JSON_SCHEMA],
    ["the AI SDK's", { jsonSchema: JSON_SCHEMA }],
  ])("is told the schema: %s", async (_, schema) => {
    const { api, provider } = await withApi({ script: [says(ANN)] });
    const message = await provider.invoke(["Who?"], { outputSchema: schema });
    expect(message.response_metadata.structured_output).toEqual(ANN);
    const { response_format: format } = bodyOf(api, 0);
    expect(format).toMatchObject({ type: "json_schema", json_schema: { name: "output", strict: true } });
    expect(format?.json_schema.schema).toMatchObject({ type: "object", required: ["name", "age"] });
    expect(format?.json_schema.schema).not.toHaveProperty("$schema");
  });

  it("is asked once more in words, with the reasons; both are paid for", async () => {
    const usage = { input: 50, output: 5 };
    const { api, provider } = await withApi({
      script: [
        { ...says({ name: "Ann" }), usage },
        { ...says(ANN), usage },
      ],
    });
    const { events, error } = await collect(provider.stream(["Who?"], { outputSchema }));
    expect(error).toBeUndefined();
    expect(replyOf(events)).toMatchObject({ structured: ANN, usage: { inputTokens: 100, outputTokens: 10 } });
    expect(events.filter(({ type }) => type === "usage").at(-1)).toMatchObject({ usage: { inputTokens: 100 } });
    const { messages } = bodyOf(api, 1);
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user"]);
    expect(messages[0]?.content).toContain("[Output Schema]");
    expect(messages[3]?.content).toContain('"age" is a required property');
  });

  it("is not asked a third time", async () => {
    const { api, provider } = await withApi({ script: [{ text: "no" }, says({ name: "Ann", age: "3" })] });
    const error = await failureOf(provider.invoke(["Who?"], { outputSchema }));
    expect(error).toMatchObject({
      code: "OUTPUT_INVALID",
      category: "validation",
      shouldRetry: false,
      shouldFallback: true,
      attempts: 2,
      partial: { text: '{"name":"Ann","age":"3"}' },
    });
    expect(error.message).toMatch(/^the reply does not fit `outputSchema`: \/age: the value is not of type "integer"/);
    expect(api.requests).toHaveLength(2);
  });

  it("that refuses the format is asked in words, from then on", async () => {
    const message = "response_format.type `json_schema` is not supported by this model";
    const refuses = { error: { status: 400, message } };
    const { api, provider } = await withApi({ script: [refuses, says(ANN), says(ANN)] });
    const { events } = await collect(provider.stream(["Who?"], { outputSchema }));
    expect(events.find(({ type }) => type === "warning")).toMatchObject({ code: "OUTPUT_SCHEMA_EMULATED" });
    expect(replyOf(events)?.structured).toEqual(ANN);
    await provider.invoke(["Who?"], { outputSchema });
    const formats = api.requests.map((_, index) => bodyOf(api, index).response_format?.type);
    expect(formats).toEqual(["json_schema", undefined, undefined]);
  });

  it("gives calls as calls, and the value behind their results", async () => {
    const calls = [{ id: "c1", name: "look", args: {} }];
    const { provider } = await withApi({ script: [{ calls }, says(ANN)] });
    const bound = provider.bindTools([{ name: "look", schema: { type: "object" } }]);
    const first = await bound.invoke(["Who?"], { outputSchema });
    expect(first.tool_calls).toHaveLength(1);
    expect(first.response_metadata.structured_output).toBeUndefined();
    const thread = ["Who?", first, { role: "tool", content: "Ann", tool_call_id: "c1" }] as const;
    const last = await bound.invoke(thread, { outputSchema });
    expect(last.response_metadata.structured_output).toEqual(ANN);
  });
});

describe("what is refused before anything is sent", () => {
  const deep = (levels: number): object => (levels === 0 ? {} : { not: deep(levels - 1) });
  it.each([
    ["no schema", "object", /outputSchema must be zod or JSON Schema, got the string/],
    ["a zod array", z.array(z.string()), /"outputSchema" must be the schema of an object.*given: type "array"/],
    [
      "a union",
      z.union([outputSchema, outputSchema]),
      /"outputSchema" must be the schema of an object.*given: type none/,
    ],
    [
      "a reference out of it",
      { type: "object", properties: { a: { $ref: "http://127.0.0.1:9/a" } } },
      /"\$ref" leads to "http/,
    ],
    ["a file", { type: "object", $ref: "file:///etc/passwd" }, /"\$ref" leads to "file/],
    ["one that is too deep", { type: "object", ...deep(70) }, /it is more than 64 levels deep/],
    ["one that is too long", { type: "object", description: "x".repeat(300_000) }, /and at most 262144 are taken/],
    ["fields of zod", { name: z.string() }, /outputSchema has fields of zod \(name\)/],
  ])("%s", async (_, schema, reason) => {
    const { api, provider } = await withApi();
    const error = await failureOf(provider.invoke(["Who?"], { outputSchema: schema as object }));
    expect(error).toMatchObject({ code: "INVALID_OPTION", attempts: 0 });
    expect(error.message).toMatch(reason);
    expect(api.requests).toHaveLength(0);
    expect(() => runAgent({ provider, prompt: "Who?", outputSchema: schema as object })).toThrow(reason);
  });
});

describe("an agent", () => {
  const tools = [{ name: "look", inputSchema: { type: "object" }, execute: () => "Ann" }];

  it("says what it likes on the way, and its last word is the value", async () => {
    const script = [
      { text: "Let me look.", calls: [{ id: "c1", name: "look", args: {} }] },
      { text: "Ann, three." },
      says(ANN),
    ];
    const { provider } = await withApi({ script });
    const result = await runAgent({ provider, prompt: "Who?", tools, outputSchema }).result;
    expect(result).toMatchObject({ status: "completed", structured: ANN, output: JSON.stringify(ANN) });
    const age: number | undefined = result.structured?.age;
    expect(age).toBe(3);
    // What did not fit is no part of the thread.
    expect(result.messages.map(({ type }) => type)).toEqual(["human", "ai", "tool", "ai"]);
  });

  it("fails where it is none", async () => {
    const { provider } = await withApi({ script: [{ text: "no" }, { text: "never" }] });
    const result = await runAgent({ provider, prompt: "Who?", outputSchema }).result;
    expect(result).toMatchObject({ status: "failed", error: { code: "OUTPUT_INVALID" } });
    expect(result.structured).toBeUndefined();
  });
});

describe("several providers as one", () => {
  it("the next is asked where one does not come to a value, or its adapter knows no schemas", async () => {
    const bad = await withApi({ script: [{ text: "no" }, { text: "never" }], options: { id: "bad" } });
    const good = await withApi({ script: [says(ANN)], options: { id: "good" } });
    const foreign = { id: "foreign", invoke: async () => ({ content: "Ann, three." }) };
    const all = createFallbackProvider([foreign as never, bad.provider, good.provider]);
    const message = await all.invoke(["Who?"], { outputSchema });
    expect(message.response_metadata.structured_output).toEqual(ANN);
    expect(message.response_metadata.fallback).toMatchObject({
      provider: "good",
      skipped: [
        { provider: "foreign", code: "OUTPUT_INVALID" },
        { provider: "bad", code: "OUTPUT_INVALID" },
      ],
    });
  });
});
