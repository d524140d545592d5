/** `withStructuredOutput`: a value of a schema, by the provider or by a call; whole, raw, and when it does not fit. */
import { AIMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { chatApi } from "../support/chat-models.mjs";

const PERSON = { name: "Ada", age: 36 };
const JSON_SCHEMA = {
  title: "person",
  type: "object",
  properties: { name: { type: "string" }, age: { type: "number" } },
  required: ["name", "age"],
};
const zod4 = z.object({ name: z.string(), age: z.number() });
const inText = { text: JSON.stringify(PERSON) };
const inCall = (name: string) => ({ calls: [{ id: "call_a", name, args: PERSON }] });

describe("method jsonSchema, the default", () => {
  it.each([
    ["zod 4", zod4],
    ["zod 3", z3.object({ name: z3.string(), age: z3.number() })],
    ["JSON Schema", JSON_SCHEMA],
    ["OpenAI's form", { name: "person", description: "A person", parameters: JSON_SCHEMA }],
  ])("gives a value of %s", async (_, schema) => {
    const { model } = await chatApi([inText, inText, inText]);
    expect(await model.withStructuredOutput(schema as never).invoke("Who?")).toEqual(PERSON);
    const named = model.withStructuredOutput(schema as never, { method: "jsonSchema", strict: true });
    expect(await named.invoke("Who?")).toEqual(PERSON);
    const values: unknown[] = [];
    for await (const value of await model.withStructuredOutput(schema as never).stream("Who?")) values.push(value);
    expect(values).toEqual([PERSON]);
  });

  it("zod makes of it what it was written for", async () => {
    const { model } = await chatApi([{ text: '{"born":"1815-12-10T00:00:00.000Z"}' }]);
    const schema = z.object({
      born: z.iso.datetime().transform((text) => new Date(text)),
      name: z.string().default("Ada"),
    });
    expect(await model.withStructuredOutput(schema as never).invoke("Who?")).toEqual({
      born: new Date("1815-12-10T00:00:00.000Z"),
      name: "Ada",
    });
  });

  it("includeRaw gives the message as well, and null where it does not fit", async () => {
    const { model } = await chatApi([inText, { text: '{"name":"Ada"}' }, { text: '{"name":"Ada"}' }]);
    const runnable = model.withStructuredOutput(zod4, { includeRaw: true });
    const good = await runnable.invoke("Who?");
    expect(good).toEqual({ raw: expect.any(AIMessage), parsed: PERSON });
    expect(good.raw).toMatchObject({ usage_metadata: { total_tokens: expect.any(Number) } });
    const bad = await runnable.invoke("Who?");
    expect(bad).toEqual({ raw: expect.any(AIMessage), parsed: null });
    expect(bad.raw.content).toBe('{"name":"Ada"}');
  });

  it("an answer that does not fit is an error that says why", async () => {
    const answers = ['{"name":"Ada"}', '{"name":"Ada"}', "Ada, 36", "Ada, 36"].map((text) => ({ text }));
    let asked = 0;
    const { model } = await chatApi(() => answers[asked++]);
    await expect(model.withStructuredOutput(zod4).invoke("Who?")).rejects.toThrow(/age/);
    asked = 2;
    await expect(model.withStructuredOutput(zod4).invoke("Who?")).rejects.toThrow(/JSON/);
  });

  it("traces say by which method and schema", async () => {
    const { model } = await chatApi([inText]);
    const options: Record<string, unknown>[] = [];
    const handler = {
      handleChatModelStart: (...args: unknown[]) =>
        void options.push((args[4] as { options: Record<string, unknown> }).options),
    };
    await model.withStructuredOutput(JSON_SCHEMA).invoke("Who?", { callbacks: [handler as never] });
    expect(options).toMatchObject([
      { ls_structured_output_format: { kwargs: { method: "jsonSchema" }, schema: JSON_SCHEMA } },
    ]);
  });
});

describe("method functionCalling", () => {
  it.each([
    ["the schema's title", {}, "person"],
    ["a name that is given", { name: "extract_person" }, "extract_person"],
  ])("gives the arguments of a call by %s", async (_, config, name) => {
    const { model, api } = await chatApi([inCall(name)]);
    const runnable = model.withStructuredOutput(JSON_SCHEMA, { method: "functionCalling", ...config });
    expect(await runnable.invoke("Who?")).toEqual(PERSON);
    expect(api.requests[0]?.body.tools).toMatchObject([{ function: { name } }]);
  });

  it("includeRaw has the message with the call", async () => {
    const { model } = await chatApi([inCall("extract")]);
    const runnable = model.withStructuredOutput(zod4, { method: "functionCalling", includeRaw: true });
    const { raw, parsed } = await runnable.invoke("Who?");
    expect(parsed).toEqual(PERSON);
    expect((raw as AIMessage).tool_calls).toMatchObject([{ name: "extract", args: PERSON }]);
  });
});

describe("what can't be asked for", () => {
  it.each([
    ["JSON without a schema", zod4, { method: "jsonMode" }, /method must be "jsonSchema" or "functionCalling"/],
    ["nothing", undefined, {}, /the schema must be zod or JSON Schema, got undefined/],
    ["what is no schema", { name: z.string() }, {}, /schema/],
  ])("%s", async (_, schema, config, reason) => {
    const { model } = await chatApi([]);
    expect(() => model.withStructuredOutput(schema as never, config as never)).toThrow(reason);
  });
});
