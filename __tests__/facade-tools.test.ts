/** Tools in, `[{name, description, schema}]` out, whichever library a schema was written with. */

import { DynamicStructuredTool, DynamicTool, StructuredTool, tool } from "@langchain/core/tools";
import { convertToOpenAIFunction } from "@langchain/core/utils/function_calling";
import * as jsonSchema from "@langchain/core/utils/json_schema";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import tools from "../src/js/tools.cjs";

type Convert = (schema: object) => unknown;
const langchain = jsonSchema.toJsonSchema as Convert;
const encode = (list: unknown, convert: Convert | null = langchain) => JSON.parse(tools.encodeTools(list, convert));

const SCHEMA = {
  type: "object" as const,
  properties: { city: { type: "string" as const, description: "where" }, days: { type: "number" as const } },
  required: ["city"],
  additionalProperties: false as const,
};
const DRAFT_7 = "http://json-schema.org/draft-07/schema#";
const DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema";
const four = z.object({ city: z.string().describe("where"), days: z.number().optional() });
const three = z3.object({ city: z3.string().describe("where"), days: z3.number().optional() });
const func = async () => "";
const about = { name: "weather", description: "tells the weather" };

describe("tools", () => {
  it.each<[string, unknown, object]>([
    ["zod 4", tool(func, { ...about, schema: four }), { ...SCHEMA, $schema: DRAFT_2020 }],
    ["zod 3", new DynamicStructuredTool({ ...about, schema: three, func }), { ...SCHEMA, $schema: DRAFT_7 }],
    ["JSON Schema", tool(func, { ...about, schema: SCHEMA }), SCHEMA],
    ["a plain object", { ...about, schema: SCHEMA }, SCHEMA],
    ["a plain object with zod", { ...about, schema: three }, { ...SCHEMA, $schema: DRAFT_7 }],
    ["a bare OpenAI function", { ...about, parameters: SCHEMA }, SCHEMA],
    ["OpenAI's form", { type: "function", function: { ...about, parameters: SCHEMA } }, SCHEMA],
    ["no schema", about, { type: "object", properties: {} }],
    [
      "DynamicTool",
      new DynamicTool({ ...about, func }),
      { type: "object", properties: { input: { type: "string" } }, additionalProperties: false, $schema: DRAFT_7 },
    ],
  ])("%s", (_, given, schema) => {
    expect(encode([given])).toEqual([{ ...about, schema }]);
  });

  it("a StructuredTool of the user's own, and a tool that is a function", () => {
    class Own extends StructuredTool {
      name = "own";
      description = "";
      schema = four;
      protected async _call() {
        return "";
      }
    }
    const callable = Object.defineProperty(() => 1, "name", { value: "callable" });
    expect(encode([new Own(), Object.assign(callable, { schema: SCHEMA })])).toEqual([
      { name: "own", description: "", schema: { ...SCHEMA, $schema: DRAFT_2020 } },
      { name: "callable", schema: SCHEMA },
    ]);
  });

  it("keeps JSON Schema as it was written, key by key", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }), (properties) => {
        const schema = { type: "object", properties };
        expect(tools.encodeTools([{ name: "t", schema }], langchain)).toBe(
          `[{"name":"t","schema":${JSON.stringify(schema)}}]`,
        );
      }),
    );
  });

  it("asks the schema itself where LangChain's helper is missing", () => {
    expect(
      encode([{ ...about, schema: four.extend({ at: z.string().transform(Number) }) }], null)[0].schema.properties,
    ).toEqual({
      ...SCHEMA.properties,
      at: { type: "string" },
    });
    const standard = {
      "~standard": { jsonSchema: { input: ({ target }: { target: string }) => ({ ...SCHEMA, target }) } },
    };
    expect(encode([{ ...about, schema: standard }], null)).toEqual([
      { ...about, schema: { ...SCHEMA, target: "draft-07" } },
    ]);
  });

  it("does with the converter of an early LangChain 0.3, which knows zod 3 only", () => {
    const early = tools.zod3Converter(convertToOpenAIFunction as never);
    expect(encode([{ ...about, schema: three }], early)).toEqual([
      { ...about, schema: { ...SCHEMA, $schema: DRAFT_7 } },
    ]);
    expect(encode([{ ...about, schema: four }], early)[0].schema.properties).toEqual(SCHEMA.properties);
  });
});

describe("tools that can't be bound", () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;

  it.each<[string, unknown, string]>([
    ["no array", about, "tools must be an array, got an object"],
    ["null", [null], "tools[0] must be a tool, got null"],
    [
      "no name",
      [about, { schema: SCHEMA }],
      "tools[1] has no name: it must be a string that is not empty, got undefined",
    ],
    ["an empty name", [{ name: "" }], 'tools[0] has no name: it must be a string that is not empty, got the string ""'],
    ["a name twice", [about, { name: "b" }, about], 'tools[2] has the name "weather", as tools[0] has'],
    [
      "a description that is no text",
      [{ name: "a", description: 1 }],
      'tools[0] ("a") has a description that is not a string: 1',
    ],
    [
      "a schema that is text",
      [{ name: "a", schema: "x" }],
      'tools[0] ("a") has a schema that is neither zod nor JSON Schema: the string "x"',
    ],
    [
      "a schema that is an array",
      [{ name: "a", schema: [] }],
      'tools[0] ("a") has a schema that is neither zod nor JSON Schema: an array',
    ],
    [
      "a schema that is a function",
      [{ name: "a", schema: func }],
      'tools[0] ("a") has a schema that is neither zod nor JSON Schema: a function',
    ],
    [
      "a circular schema",
      [{ name: "a", schema: circular }],
      'tools[0] ("a") has a schema that can\'t be written as JSON Schema: Converting circular structure to JSON',
    ],
    [
      "a schema zod can't write",
      [about, { name: "a", schema: z.object({ d: z.date() }) }],
      'tools[1] ("a") has a schema that can\'t be written as JSON Schema: Date cannot be represented in JSON Schema',
    ],
    [
      "a validator nobody can write",
      [{ name: "a", schema: { "~standard": {} } }],
      'tools[0] ("a") has a schema that can\'t be turned into JSON Schema: give it JSON Schema instead',
    ],
  ])("%s", (_, list, message) => {
    expect(() => tools.encodeTools(list, langchain)).toThrow(
      expect.objectContaining({ name: "ProviderError", code: "INVALID_TOOL", message }),
    );
  });

  it("zod 3 without LangChain is refused, not bound without its arguments", () => {
    expect(() => tools.encodeTools([{ ...about, schema: three }], null)).toThrow(
      'tools[0] ("weather") has a schema that can\'t be turned into JSON Schema: give it JSON Schema instead',
    );
  });
});
