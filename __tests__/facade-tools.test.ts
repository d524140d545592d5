/** Tools in, `[{name, description, schema}]` out, whichever library a schema was written with. */

import { DynamicStructuredTool, DynamicTool, StructuredTool, tool } from "@langchain/core/tools";
import { convertToOpenAIFunction } from "@langchain/core/utils/function_calling";
import * as jsonSchema from "@langchain/core/utils/json_schema";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import { z as z3 } from "zod3";
import { z as z34 } from "zod3/v4";
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

/** The AI SDK's `jsonSchema(SCHEMA)`: an object with symbols and a getter. */
const aiSdk = {
  [Symbol.for("vercel.ai.schema")]: true,
  get jsonSchema() {
    return SCHEMA;
  },
  validate: undefined,
};

describe("a schema by another name", () => {
  it.each<[string, object]>([
    ["MCP's", { inputSchema: SCHEMA }],
    ["the AI SDK's", { inputSchema: aiSdk, execute: func }],
    ["an older AI SDK's", { parameters: aiSdk }],
    ["Anthropic's", { input_schema: SCHEMA }],
    ["Bedrock's", { inputSchema: { json: SCHEMA } }],
    ["zod's", { inputSchema: four }],
  ])("%s is read", (_, given) => {
    const [{ schema }] = encode([{ ...about, ...given }]);
    const { $schema: _dialect, ...rest } = schema;
    expect(rest).toEqual(SCHEMA);
  });

  it("is not needed", () => {
    const output = { outputSchema: SCHEMA, annotations: { readOnlyHint: true }, metadata: {}, execute: func };
    expect(encode([{ ...about, ...output }])).toEqual([{ ...about, schema: { type: "object", properties: {} } }]);
  });
});

/** zod 4 with methods, mini without, and the 4 that zod 3.25 brings. */
// biome-ignore lint/suspicious/noExplicitAny: three modules of different types
describe.each<[string, any]>([
  ["zod 4", z],
  ["zod 4 mini", mini],
  ["zod 3.25's 4", z34],
])("%s as agents write it", (_, zod) => {
  const converted = (schema: object) => {
    const { $schema, ...rest } = encode([{ ...about, schema }])[0].schema;
    expect($schema).toBe(DRAFT_2020);
    return rest;
  };
  const defaulted = zod.number().default?.(5) ?? zod._default?.(zod.number(), 5);

  it("tells the side that is written", () => {
    const schema = zod.object({
      n: zod.pipe(zod.transform(Number), zod.number()),
      text: zod.pipe(zod.string(), zod.transform(Number)),
      days: defaulted,
      maybe: zod.optional(zod.string()),
    });
    const { required, ...rest } = converted(schema);
    expect(rest).toEqual({
      type: "object",
      properties: {
        n: { type: "number" },
        text: { type: "string" },
        days: { type: "number", default: 5 },
        maybe: { type: "string" },
      },
      additionalProperties: false,
    });
    // Whether what is transformed may be missing, the versions see differently; a default may.
    expect(required.filter((name: string) => name !== "n")).toEqual(["text"]);
  });

  it("writes a date as JSON does, and leaves open what JSON Schema has no word for", () => {
    const schema = zod.object({ at: zod.date(), big: zod.bigint(), map: zod.map(zod.string(), zod.number()) });
    expect(converted(schema)).toEqual({
      type: "object",
      properties: { at: { type: "string", format: "date-time" }, big: { type: "integer" }, map: {} },
      required: ["at", "big", "map"],
      additionalProperties: false,
    });
  });

  it("takes a schema that holds itself", () => {
    const tree = zod.object({
      name: zod.string(),
      get children() {
        return zod.array(tree);
      },
    });
    expect(converted(tree)).toEqual({
      type: "object",
      properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#" } } },
      required: ["name", "children"],
      additionalProperties: false,
    });
  });

  it("closes objects as LangChain does, but for what says that it is open, and the parts of a whole", () => {
    const [a, b] = [zod.object({ a: zod.string() }), zod.object({ b: zod.string() })];
    const { properties, ...rest } = converted(
      zod.object({ open: zod.looseObject({}), list: zod.array(a), any: zod.union([a, b]) }),
    );
    expect(rest.additionalProperties).toBe(false);
    expect(properties.open.additionalProperties).toEqual({});
    expect(properties.list.items.additionalProperties).toBe(false);
    expect(properties.any.anyOf.map((it: { additionalProperties?: unknown }) => it.additionalProperties)).toEqual([
      false,
      false,
    ]);
    const both = encode([{ ...about, schema: zod.object({ both: zod.intersection(a, b), a }) }])[0].schema;
    const validator = new jsonSchema.Validator(both);
    expect(validator.validate({ both: { a: "", b: "" }, a: { a: "" } }).valid).toBe(true);
    expect(validator.validate({ both: { a: "" }, a: { a: "" } }).valid).toBe(false);
  });
});

it("zod 4's preprocess is what comes out of it", () => {
  for (const convert of [langchain, null]) {
    const schema = z.object({ n: z.preprocess((given) => Number(given), z.number().min(1)) });
    expect(encode([{ ...about, schema }], convert)[0].schema.properties).toEqual({ n: { type: "number", minimum: 1 } });
  }
});

it("JSON Schema that zod has made is JSON Schema", () => {
  const schema = z.toJSONSchema(z.object({ at: z.date() }), { unrepresentable: "any" });
  expect(encode([{ ...about, schema }])[0].schema).toEqual(JSON.parse(JSON.stringify(schema)));
});

it("zod 3's defaults may be missing, too", () => {
  const schema = z3.object({ n: z3.preprocess(Number, z3.number()), days: z3.number().default(5), at: z3.date() });
  expect(encode([{ ...about, schema }])[0].schema).toMatchObject({
    properties: { n: { type: "number" }, days: { type: "number", default: 5 } },
    required: ["n", "at"],
  });
});

describe("tools that can't be bound", () => {
  const circular: Record<string, unknown> = {};
  circular.properties = circular;

  it.each<[string, unknown, string]>([
    ["no array", about, "tools must be an array, got an object"],
    ["null", [null], "tools[0] must be a tool, got null"],
    [
      "no name",
      [about, { schema: SCHEMA }],
      "tools[1] has no name: it must be a string that is not empty, got undefined",
    ],
    ["an empty name", [{ name: "" }], 'tools[0] has no name: it must be a string that is not empty, got the string ""'],
    [
      "half a character in its name",
      [about, { name: "a\ud800" }],
      'tools[1] ("a\\ud800") has half a character in its name (a lone surrogate), which no model can write',
    ],
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
      "arguments where nobody looks for them",
      [about, { name: "a", args: { city: "string" } }],
      'tools[1] ("a") has its arguments in "args", where they are not looked for: name it schema, parameters, inputSchema, ' +
        "input_schema",
    ],
    [
      "zod under a name that nobody knows",
      [{ name: "a", takes: four }],
      'tools[0] ("a") has its arguments in "takes", where they are not looked for: name it schema, parameters, inputSchema, ' +
        "input_schema",
    ],
    [
      "JSON Schema under a name that nobody knows",
      [{ name: "a", takes: { type: "object", properties: { city: { type: "string" } } } }],
      'tools[0] ("a") has its arguments in "takes", where they are not looked for: name it schema, parameters, inputSchema, ' +
        "input_schema",
    ],
    ...(
      [
        ["fields of zod", { city: four.shape.city }],
        ["fields of JSON Schema", { city: { type: "string" }, days: { enum: [1, 2] } }],
        ["alternatives", { oneOf: [{ type: "object" }] }],
        ["a reference", { $ref: "#/definitions/a" }],
      ] as const
    ).map(([what, takes]): [string, unknown, string] => [
      `${what} under a name that nobody knows`,
      [{ name: "a", takes }],
      'tools[0] ("a") has its arguments in "takes", where they are not looked for: name it schema, parameters, inputSchema, ' +
        "input_schema",
    ]),
    [
      "a definition around its parameters",
      [{ name: "a", definition: { parameters: { type: "object", properties: { city: { type: "string" } } } } }],
      'tools[0] ("a") has its arguments in "definition", where they are not looked for: name it schema, parameters, inputSchema, ' +
        "input_schema",
    ],
    [
      "a schema that its class gives it",
      [
        new (class {
          name = "a";
          get takes() {
            return { type: "object", properties: { city: { type: "string" } } };
          }
        })(),
      ],
      'tools[0] ("a") has its arguments in "takes", where they are not looked for: name it schema, parameters, inputSchema, ' +
        "input_schema",
    ],
    [
      "a server tool of a vendor",
      [about, { type: "web_search_20250305", name: "web_search", max_uses: 3 }],
      'tools[1] ("web_search") is of type the string "web_search_20250305", a tool that an API runs by itself: give tools that the ' +
        "app runs",
    ],
    [
      "one without a name",
      [{ type: "web_search_preview" }],
      'tools[0] is of type the string "web_search_preview", a tool that an API runs by itself: give tools that the app runs',
    ],
    [
      "a function",
      [function weather() {}],
      'tools[0] ("weather") is a function without a schema: give a tool with its name and schema',
    ],
    [
      "a schema that somebody has wrapped",
      [{ name: "a", inputSchema: { wrapped: { deep: SCHEMA }, kind: 1 } }],
      'tools[0] ("a") has a schema of an unknown shape (wrapped, kind): give it zod or JSON Schema',
    ],
    [
      "a schema that will come",
      [{ name: "a", inputSchema: { jsonSchema: Promise.resolve(SCHEMA) } }],
      'tools[0] ("a") has a schema of an unknown shape (jsonSchema): give it zod or JSON Schema',
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

  it("a tool without arguments is none of them, whatever it keeps beside", () => {
    const plain = {
      annotations: { title: "Now", readOnlyHint: true },
      metadata: { owner: { type: "string" } },
      outputSchema: { type: "object", properties: { at: { type: "string" } } },
      limits: { daily: 3, hours: { from: 8 } },
      tags: ["time"],
      execute: () => "12:00",
    };
    class Clock {
      name = "b";
      description = "The time";
      zone = new Map([["city", { type: "string" }]]);
      get client() {
        return { url: new URL("http://127.0.0.1:9"), headers: {} };
      }
      get later(): never {
        throw new Error("not yet");
      }
    }
    const none = { type: "object", properties: {} };
    expect(encode([{ name: "a", description: "The time", ...plain }, new Clock()], null)).toEqual([
      { name: "a", description: "The time", schema: none },
      { name: "b", description: "The time", schema: none },
    ]);
  });

  it("zod 3 without LangChain is refused, not bound without its arguments", () => {
    expect(() => tools.encodeTools([{ ...about, schema: three }], null)).toThrow(
      'tools[0] ("weather") has a schema that can\'t be turned into JSON Schema: give it JSON Schema instead',
    );
  });
});
