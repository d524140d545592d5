/**
 * Answers by a schema, asked of an OpenAI-compatible API, by an agent, by several providers as one, and what is refused: in words and before
 * anything is asked, also schemas that are made to take a thread or the memory end nowhere.
 */
import { availableParallelism } from "node:os";
import { createFallbackProvider, ProviderError, type ProviderEvent, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import { z as z3 } from "zod/v3";
import { collect, failureOf, withApi } from "../api/setup.js";

// As in `support/harness.mjs`, without what it loads: nothing here starts a CLI.
const ALL = Boolean(process.env.TEST_ALL);
const WIDE = ALL || Boolean(process.env.TEST_CHANGE);

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

// These take seconds.
describe.runIf(WIDE)("schemas that are made to take a thread or the memory", () => {
  /** `levels` definitions, each of which has two ways to the next. */
  function branching(levels: number) {
    const defs: Record<string, unknown> = { [`d${levels}`]: { type: "string" } };
    for (let level = 0; level < levels; level++) {
      const next = { $ref: `#/$defs/d${level + 1}` };
      defs[`d${level}`] = { anyOf: [next, next] };
    }
    return { type: "object", properties: { a: { $ref: "#/$defs/d0" } }, $defs: defs };
  }

  const WAYS = /make more than 10000 ways to look at one value/;
  const answer = { text: JSON.stringify({ a: 1 }) };
  const refusalOf = async (call: () => Promise<unknown>): Promise<ProviderError> => {
    const error = await failureOf(call());
    if (error instanceof ProviderError) return error;
    throw error;
  };

  describe("1.3 KB with a million ways through it", () => {
    const schema = branching(20);

    it("is refused as outputSchema, and nobody is asked", async () => {
      expect(JSON.stringify(schema).length).toBeLessThan(1_500);
      const { api, provider } = await withApi({ script: () => answer });
      const error = await refusalOf(() => provider.invoke(["x"], { outputSchema: schema, timeout: 300 }));
      expect(error).toMatchObject({ code: "INVALID_OPTION", attempts: 0 });
      expect(error.message).toMatch(WAYS);
      const signal = AbortSignal.timeout(60_000);
      expect((await refusalOf(() => provider.invoke(["x"], { outputSchema: schema, signal }))).message).toMatch(WAYS);
      await provider.close();
      expect(api.requests).toHaveLength(0);
    });

    it("is refused as a tool's schema, and nobody is asked", async () => {
      const { api, provider } = await withApi({ script: () => answer });
      const tools = [{ name: "look", inputSchema: schema, execute: () => "x" }];
      const result = await runAgent({ provider, prompt: "x", tools }).result;
      expect(result).toMatchObject({ status: "failed", error: { code: "INVALID_TOOL" } });
      expect((result.error as ProviderError).message).toMatch(WAYS);
      expect(api.requests).toHaveLength(0);
    });
  });

  describe("what can't be seen before", () => {
    it("a value that takes too much work does not fit, and memory stays as it was", async () => {
      const wide = branching(11);
      const schema = { ...wide, properties: { list: { type: "array", items: { not: { $ref: "#/$defs/d0" } } } } };
      // Each value takes a quarter of a millisecond of the processor, and more memory than is allowed if a step keeps 20 bytes.
      const length = ALL ? 20_000 : 5_000;
      const many = { text: JSON.stringify({ list: Array.from({ length }, () => 1) }) };
      const { provider } = await withApi({ script: () => many });
      const before = process.memoryUsage.rss();
      const settled = await provider.invoke(["x"], { outputSchema: schema }).then(
        () => "fits",
        (error) => error.code,
      );
      // Either way it has come to an end.
      expect(["fits", "OUTPUT_INVALID"]).toContain(settled);
      expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
    });

    it("patterns that are long to compile end with the call's timeout, abort and close()", async () => {
      const pattern = (at: number) => [`p${at}`, { type: "string", pattern: `^\\p{L}{1,64}${at}$` }];
      const schema = (from: number) => ({
        type: "object",
        properties: Object.fromEntries(Array.from({ length: 190 }, (_, at) => pattern(from + at))),
      });
      const { api, provider } = await withApi({ script: () => answer });
      const timeout = await refusalOf(() => provider.invoke(["x"], { outputSchema: schema(1_000), timeout: 1 }));
      expect(timeout).toMatchObject({ code: "TIMEOUT" });
      const controller = new AbortController();
      const { signal } = controller;
      const aborted = provider.invoke(["x"], { outputSchema: schema(2_000), signal }).catch((reason) => reason);
      controller.abort(new Error("enough"));
      expect(await aborted).toEqual(new Error("enough"));
      const closed = refusalOf(() => provider.invoke(["x"], { outputSchema: schema(3_000) }));
      await provider.close();
      expect(await closed).toMatchObject({ code: "CLOSED" });
      expect(api.requests).toHaveLength(0);
    });
  });

  describe("patterns", () => {
    /** The e-mail pattern that most people copy: none with the flag `u`. */
    const EMAIL = "^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$";
    const COSTLY = "a[ab]{3000}[^ab]";
    const schemaOf = (pattern: string) => ({
      type: "object",
      properties: { a: { type: "string", pattern } },
      required: ["a"],
    });
    const calling = (a: string) => ({ calls: [{ name: "look", args: { a } }] });

    it("are read as JavaScript reads them, in runAgent and outputSchema", async () => {
      const seen: unknown[] = [];
      const tools = [{ name: "look", inputSchema: schemaOf(EMAIL), execute: (args: unknown) => void seen.push(args) }];
      const script = [calling("no address"), calling("a.b-c@d.org"), { text: "done" }];
      const { provider } = await withApi({ script });
      const run = runAgent({ provider, prompt: "x", tools });
      expect(await run.result).toMatchObject({ status: "completed", output: "done" });
      expect(seen).toEqual([{ a: "a.b-c@d.org" }]);
      const other = await withApi({ script: () => ({ text: JSON.stringify({ a: "x@y.org" }) }) });
      const reply = await other.provider.invoke(["x"], { outputSchema: schemaOf(EMAIL) });
      expect(reply.response_metadata.structured_output).toEqual({ a: "x@y.org" });
    });

    it("that can't be compiled are not checked", async () => {
      const { provider } = await withApi({ script: () => ({ text: JSON.stringify({ a: "x" }) }) });
      const reply = await provider.invoke(["x"], { outputSchema: schemaOf("[z-a](") });
      expect(reply.response_metadata.structured_output).toEqual({ a: "x" });
    });

    it("that cost much for each byte end, and keep nobody else waiting", async () => {
      const long = JSON.stringify({ a: "ab".repeat(512 * 1024) });
      const { provider } = await withApi({ script: () => ({ text: long }), options: { timeout: 60_000 } });
      // More than there are cores, and than are compiled at a time.
      const length = ALL ? 8 : Math.min(8, availableParallelism() + 1);
      const errors = Array.from({ length }, () =>
        refusalOf(() => provider.invoke(["x"], { outputSchema: schemaOf(COSTLY) })),
      );
      const other = await withApi({ script: () => ({ text: "at once" }) });
      expect((await other.provider.invoke(["x"])).content).toBe("at once");
      for (const error of await Promise.all(errors)) {
        expect(error).toMatchObject({ code: "OUTPUT_INVALID" });
        expect(error.message).toContain("a text is too long for the schema's patterns");
      }
    });
  });
});
