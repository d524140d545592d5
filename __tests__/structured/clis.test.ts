// @change
/** Answers by a schema, asked of the real CLIs: fitting at once, the second time, never, behind tool calls. */
import type { CliProvider, MessageInput, ProviderEvent, ProviderReply } from "deep-factor-providers/native";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { CliName, Script } from "../support/clis.mjs";
import {
  ALL,
  createProvider,
  MAIN_RUN,
  sampleOf,
  sharing,
  VERSIONS,
  withClaude,
  withCli,
} from "../support/harness.mjs";
import type { ScriptedServer } from "../support/scripted.mjs";

const outputSchema = z.object({ name: z.string(), age: z.number().int() });
const ANN = { name: "Ann", age: 3 };
const TIMEOUT = { timeout: 120_000 };

/** What a caller sees of a call: the reply or the error, the types of the events, and the processes that gave it. */
async function ask(
  provider: Pick<CliProvider, "stream">,
  schema: object = outputSchema,
  thread: MessageInput[] = ["Who is it?"],
) {
  const events: ProviderEvent[] = [];
  let error: { code: string; partial?: { text: string }; attempts: number; message: string } | undefined;
  try {
    for await (const event of provider.stream(thread, { outputSchema: schema })) events.push(event);
  } catch (thrown) {
    error = thrown as typeof error;
  }
  const done = events.find((event) => event.type === "done");
  const kinds = events.map((event) => (event.type === "warning" ? `warning ${event.code}` : event.type));
  const pids = events.flatMap((event) => (event.type === "start" ? [event.pid] : []));
  return { reply: done?.reply as ProviderReply | undefined, error, kinds, pids };
}

/** A thread that goes on behind a reply. */
const behind = (reply: ProviderReply | undefined): MessageInput[] => [
  "Who is it?",
  { role: "assistant", content: reply?.content ?? "" },
  "And now?",
];

/** claude's own tool for answers. */
const answers = (input: object, id = "toolu_1") => ({
  content: [{ type: "tool_use", id, name: "StructuredOutput", input }],
});

describe.each(VERSIONS)("claude %s, live", TIMEOUT, (which) => {
  async function claude(script: object[]) {
    const { api, options } = await withClaude({ which, engine: "live", script });
    return { api, provider: createProvider(options) as unknown as CliProvider };
  }
  const formatOf = (request?: { body: { output_config?: { format?: unknown } } }) =>
    request?.body.output_config?.format;

  const held = {
    type: "json_schema",
    schema: {
      type: "object",
      properties: { name: { type: "string" }, age: { type: "integer" } },
      required: ["name", "age"],
      additionalProperties: false,
    },
  };

  // What comes at last does not differ from what comes at once.
  it.runIf(ALL)("fits at once, in one request", async () => {
    const { api, provider } = await claude([{ text: JSON.stringify(ANN) }]);
    const { reply, kinds } = await ask(provider);
    expect(reply).toMatchObject({ structured: ANN, content: JSON.stringify(ANN), toolCalls: [] });
    expect(kinds.filter((kind) => kind.startsWith("warning"))).toEqual([]);
    expect(api.requests[0]?.body.tools ?? []).toEqual([]);
    expect(formatOf(api.requests[0])).toEqual(held);
  });

  // One conversation, because each start takes a second of the processor.
  it("calls tools first, then is held to the schema by the API without a tool, and asked again in the same process for a text that does not fit, until it never does", async () => {
    const usage = { input_tokens: 100, output_tokens: 10 };
    const { api, provider } = await claude([
      { content: [{ type: "tool_use", id: "t1", name: "mcp__df__StructuredOutput", input: { city: "Rome" } }] },
      { text: "I'd rather talk.", usage },
      { text: JSON.stringify(ANN), usage },
      { text: '{"name":3}' },
      { text: '{"age":"x"}' },
    ]);
    // A tool of the caller's that is called as the CLI's own is.
    const bound = provider.bindTools([{ name: "StructuredOutput", schema: z.object({ city: z.string() }) }]);
    const first = await ask(bound);
    expect(first.reply?.toolCalls).toMatchObject([{ name: "StructuredOutput", args: { city: "Rome" } }]);
    expect(first.reply?.structured).toBeUndefined();
    const [call] = first.reply?.toolCalls ?? [];
    const thread: MessageInput[] = [
      "Who is it?",
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: `${call?.id}`, name: "StructuredOutput", args: { city: "Rome" } }],
      },
      { role: "tool", content: "sunny", tool_call_id: `${call?.id}` },
    ];
    const { reply, kinds, pids } = await ask(bound, outputSchema, thread);
    // The usage is that of both.
    const usages = { usage: { inputTokens: 200, outputTokens: 20 } };
    expect(reply).toMatchObject({ structured: ANN, content: JSON.stringify(ANN), toolCalls: [], ...usages });
    expect(reply?.run?.session).toBe("continued");
    expect(kinds.filter((kind) => kind.startsWith("warning"))).toEqual([]);
    const tools: { name: string }[] = api.requests[0]?.body.tools ?? [];
    expect(tools.map(({ name }) => name)).toEqual(["mcp__df__StructuredOutput"]);
    expect(formatOf(api.requests[0])).toEqual(held);
    expect(kinds.filter((kind) => kind === "retry" || kind === "done")).toEqual(["retry", "done"]);
    for (const request of api.requests) expect(formatOf(request)).toEqual(held);
    expect(JSON.stringify(api.requests[2]?.body.messages)).toContain(
      "Your answer does not fit the JSON Schema that it has to fit: the reply is not JSON",
    );
    const last = [...thread, { role: "assistant", content: JSON.stringify(ANN) }, "And now?"] as MessageInput[];
    const { error, pids: still } = await ask(bound, outputSchema, last);
    expect(error).toMatchObject({ code: "OUTPUT_INVALID", attempts: 2, partial: { text: '{"age":"x"}' } });
    expect(new Set([...first.pids, ...pids, ...still]).size).toBe(1);
    expect(api.requests).toHaveLength(5);
  });
});

// What the API can't enforce goes by a tool of the CLI's own, as every schema does in print form.
const open = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: { type: "string" },
};
const BY_TOOL = sampleOf(
  [
    ["newest", "live", open],
    ["newest", "print", outputSchema],
    ["oldest", "live", open],
    ["oldest", "print", outputSchema],
  ] as const,
  1,
);

describe.each(BY_TOOL)("claude %s, %s, by the CLI's own tool", TIMEOUT, (which, engine, schema) => {
  async function claude(script: object[]) {
    const { api, options } = await withClaude({ which, engine, script });
    return { api, provider: createProvider(options) as unknown as CliProvider };
  }

  // What fits at once does so in "claude print" below as well.
  it.runIf(ALL)("fits at once, by the CLI's own tool", async () => {
    const { provider } = await claude([answers(ANN)]);
    const { reply, kinds } = await ask(provider, schema);
    expect(reply).toMatchObject({ structured: ANN, content: JSON.stringify(ANN), toolCalls: [] });
    expect(kinds).not.toContain("tool_call");
    expect(kinds).not.toContain("tool_result");
  });

  // That it has asked once more is in the one below, and that it fits then in the last.
  it.runIf(ALL)("fits when the CLI has asked once more", async () => {
    const { api, provider } = await claude([answers({ name: 3 }), answers(ANN, "toolu_2")]);
    const { reply } = await ask(provider, schema);
    expect(reply?.structured).toEqual(ANN);
    expect(JSON.stringify(api.requests[1]?.body.messages)).toContain("Output does not match required schema");
  });

  // A conversation, which in live form is one process.
  it("is asked again for a text that is none, the usage is that of both, and nobody else sees the CLI's own tool; then it never fits", async () => {
    const usage = { input_tokens: 100, output_tokens: 10 };
    const script = [
      { text: "I'd rather talk.", usage },
      { text: "Still talking.", usage },
      { ...answers(ANN), usage },
      answers({ name: 3 }, "toolu_2"),
      answers({ age: "x" }, "toolu_3"),
    ];
    const { api, provider } = await claude(script);
    const { reply, kinds } = await ask(provider, schema);
    expect(reply).toMatchObject({ structured: ANN, toolCalls: [], usage: { inputTokens: 300, outputTokens: 30 } });
    expect(kinds).not.toContain("tool_call");
    expect(kinds).not.toContain("tool_result");
    const tools = api.requests[0]?.body.tools as { name: string; input_schema: object }[];
    const tool = tools.find(({ name }) => name === "StructuredOutput");
    expect(tool?.input_schema).toMatchObject({ required: ["name", "age"] });
    expect(kinds.filter((kind) => kind === "retry" || kind === "done")).toEqual(["retry", "done"]);
    const asked = JSON.stringify(api.requests[2]?.body.messages);
    expect(asked).toContain("Still talking.");
    expect(asked).toContain("Your answer does not fit the JSON Schema that it has to fit: the reply is not JSON");

    const { error } = await ask(provider, schema, behind(reply));
    expect(error).toMatchObject({ code: "OUTPUT_INVALID", attempts: 1 });
    expect(error?.partial?.text).toBe('{"name":3}{"age":"x"}');
    expect(JSON.stringify(api.requests[4]?.body.messages)).toContain("Output does not match required schema");
    expect(api.requests).toHaveLength(5);
  });
});

// The live engine calls them first in the conversation above.
describe.each(MAIN_RUN.filter(([, engine]) => engine === "print"))("claude %s, %s", TIMEOUT, (which, engine) => {
  it("calls tools first, and the value comes last", async () => {
    const inWords = (request: { body: object }) => {
      const mark = /every id must begin with \\?"(\w+)_/i.exec(JSON.stringify(request.body))?.[1];
      const block = { tool_calls: [{ name: "StructuredOutput", args: { city: "Rome" }, id: `${mark}_1` }] };
      return { text: `\`\`\`json\n${JSON.stringify(block)}\n\`\`\`` };
    };
    const script = [inWords, { text: JSON.stringify(ANN) }] as object[];
    const { options } = await withClaude({ which, engine, script });
    const provider = createProvider(options) as unknown as CliProvider;
    // A tool of the caller's that is called as the CLI's own is.
    const bound = provider.bindTools([{ name: "StructuredOutput", schema: z.object({ city: z.string() }) }]);
    const first = await bound.invoke(["Who is it?"], { outputSchema });
    expect(first.tool_calls).toMatchObject([{ name: "StructuredOutput", args: { city: "Rome" } }]);
    expect(first.response_metadata.structured_output).toBeUndefined();
    const result = { role: "tool", content: "sunny", tool_call_id: first.tool_calls[0]?.id as string };
    const last = await bound.invoke(["Who is it?", first, result], { outputSchema });
    expect(last.tool_calls).toEqual([]);
    expect(last.response_metadata.structured_output).toEqual(ANN);
  });
});

/** What tells in a request how the schema came. */
interface Body {
  text?: { format?: { strict: boolean } };
  tools?: { function: { name: string } }[];
  response_format?: { json_schema: { strict: boolean } };
}

interface Case {
  cli: CliName;
  options?: object;
  /** How its model gives an answer. */
  says: (value: unknown) => object;
  /** Whether it has a way of its own for schemas. */
  native?: boolean;
  /** Whether a request says so what the answer has to be. */
  isNative: (body: Body) => boolean;
}

const strictly = ({ text }: Body) => text?.format?.strict === true;
const inText = (value: unknown) => ({ text: typeof value === "string" ? value : JSON.stringify(value) });
const PRINT = { engine: "print" };
const CASES: [string, Case][] = [
  ["codex print", { cli: "codex", options: PRINT, says: inText, isNative: strictly, native: true }],
  ["codex live", { cli: "codex", options: { engine: "live" }, says: inText, isNative: strictly, native: true }],
  [
    "qwen",
    {
      cli: "qwen",
      says: (value) =>
        typeof value === "string" ? { text: value } : { calls: [{ id: "c1", name: "structured_output", args: value }] },
      isNative: ({ tools = [] }) => tools.some((tool) => tool.function.name === "structured_output"),
      native: true,
    },
  ],
  ["gemini", { cli: "gemini", says: inText, isNative: () => false }],
  ["opencode", { cli: "opencode", says: inText, isNative: () => false }],
  [
    "opencode live",
    {
      cli: "opencode",
      options: { engine: "live" },
      says: (value) =>
        typeof value === "string" ? { text: value } : { calls: [{ id: "c1", name: "StructuredOutput", args: value }] },
      isNative: ({ tools = [] }) => tools.some((tool) => tool.function.name === "StructuredOutput"),
      native: true,
    },
  ],
  [
    "grok",
    {
      cli: "grok",
      says: inText,
      isNative: ({ response_format: form }) => form?.json_schema.strict === true,
      native: true,
    },
  ],
  [
    "grok warm",
    {
      cli: "grok",
      options: { engine: "warm" },
      says: inText,
      isNative: ({ response_format: form }) => form?.json_schema.strict === true,
      native: true,
    },
  ],
];

// All but codex ask in words or by qwen's tool, which takes the seconds of those CLIs.
describe.each(sampleOf(CASES, 2))("%s", TIMEOUT, (_, { cli, options, says, isNative, native = false }) => {
  // An engine that keeps its process has one for all.
  const start = sharing<{ api: ScriptedServer; provider: CliProvider }, object[]>(async (answer, until) => {
    const { api, create } = await withCli(cli, { script: (request, index) => answer(index, request), until });
    return { api, provider: create(options) };
  });

  it("fits at once", async () => {
    const { api, provider } = await start([says(ANN)]);
    const { reply, error, kinds } = await ask(provider);
    expect(error).toBeUndefined();
    expect(reply).toMatchObject({ structured: ANN, content: JSON.stringify(ANN), toolCalls: [] });
    expect(kinds).not.toContain("tool_call");
    const body = api.requests[0]?.body as Body;
    expect(isNative(body)).toBe(native);
    expect(JSON.stringify(body).includes("[Output Schema]")).toBe(!native);
  });

  // In print form, each time is a start.
  it.runIf(ALL || options !== PRINT)("fits the second time", async () => {
    const { api, provider } = await start([says("I do not know."), says(ANN)]);
    const { reply, error, kinds } = await ask(provider);
    expect(error).toBeUndefined();
    expect(reply?.structured).toEqual(ANN);
    expect(kinds.filter((kind) => kind === "retry" || kind === "done")).toEqual(["retry", "done"]);
    expect(JSON.stringify(api.requests[1]?.body)).toContain(
      "Your answer does not fit the JSON Schema that it has to fit",
    );
  });

  it("never fits", async () => {
    const { api, provider } = await start([says("I do not know."), says("Never.")]);
    const { error } = await ask(provider);
    expect(error).toMatchObject({ code: "OUTPUT_INVALID", attempts: 2, partial: { text: "Never." } });
    expect(api.requests).toHaveLength(2);
  });
});

it("codex is asked in words for what its strict mode does not take, and says so", TIMEOUT, async () => {
  const { api, create } = await withCli("codex", { script: [{ text: "{}" }, { text: "{}" }] });
  const optional = z.object({ name: z.string().optional() });
  for (const engine of ["print", "live"]) {
    const { reply, kinds } = await ask(create({ engine }), optional);
    expect(reply?.structured).toEqual({});
    expect(kinds).toContain("warning OUTPUT_SCHEMA_EMULATED");
  }
  for (const { body } of api.requests) {
    expect((body as Body).text?.format).toBeUndefined();
    expect(JSON.stringify(body)).toContain("[Output Schema]");
  }
});

/** Schemas that CLIs refuse at their start, and values that fit them. */
const REFUSED: [string, object, object][] = [
  ["a tuple of zod 4", z.object({ pair: z.tuple([z.string(), z.number()]) }), { pair: ["a", 1] }],
  [
    "a keyword of one's own",
    { type: "object", "x-order": ["a"], properties: { a: { type: "string" } }, required: ["a"] },
    { a: "b" },
  ],
  [
    "a pattern of another dialect",
    { type: "object", properties: { mail: { type: "string", pattern: "^[\\w-\\.]+@b$" } }, required: ["mail"] },
    { mail: "a@b" },
  ],
];
/** Such CLIs, in print form. */
const REFUSING = {
  claude: async (script: object[]) => {
    const { api, options } = await withClaude({ engine: "print", script: script as Script });
    return { requests: api.requests, provider: createProvider(options) as unknown as CliProvider };
  },
  qwen: async (script: object[]) => {
    const { api, create } = await withCli("qwen", { script: script as Script });
    return { requests: api.requests, provider: create({ engine: "print" }) };
  },
};

const OF = [
  // The others are refused in the same words; those for the second are in the last test.
  ["claude", sampleOf(REFUSED)],
  // In the same words, and with seconds for each start.
  ["qwen", REFUSED],
] as const;

describe.each(sampleOf(OF))("%s print", TIMEOUT, (cli, refused) => {
  it.each(refused)("is asked in words for what its flag refuses: %s", async (_, schema, value) => {
    const said = { text: JSON.stringify(value) };
    const { requests, provider } = await REFUSING[cli]([said, said, answers(ANN)]);
    const first = await ask(provider, schema);
    expect(first.error).toBeUndefined();
    expect(first.reply).toMatchObject({ structured: value, content: said.text });
    const warnings = (kinds: string[]) => kinds.filter((kind) => kind.startsWith("warning") || kind === "start");
    expect(warnings(first.kinds)).toEqual(["start", "start", "warning OUTPUT_SCHEMA_EMULATED"]);
    // It is known then of this schema, and not started in vain: by no code of a CLI's own.
    const again = ALL || cli === "claude";
    if (again) {
      const second = await ask(provider, schema);
      expect(second.reply?.structured).toEqual(value);
      expect(warnings(second.kinds)).toEqual(["start", "warning OUTPUT_SCHEMA_EMULATED"]);
    }
    expect(requests).toHaveLength(again ? 2 : 1);
    for (const { body } of requests) expect(JSON.stringify(body)).toContain("[Output Schema]");
    if (cli !== "claude") return;
    // The refusal says nothing of other schemas.
    const { reply, kinds } = await ask(provider);
    expect(reply).toMatchObject({ structured: ANN, content: JSON.stringify(ANN), toolCalls: [] });
    expect(kinds.some((kind) => kind.startsWith("warning") || kind.startsWith("tool_"))).toBe(false);
    expect(JSON.stringify(requests[2]?.body)).not.toContain("[Output Schema]");
  });
});

it(
  "claude live says that its CLI has left a schema out, and its model learns of it from its first answer",
  TIMEOUT,
  async () => {
    const [, refused, value] = REFUSED[1] as (typeof REFUSED)[number];
    // The API can't enforce it, either.
    const schema = { ...refused, additionalProperties: true };
    const script = [{ text: "Here it is." }, { text: JSON.stringify(value) }];
    const { api, options } = await withClaude({ engine: "live", script: script as Script });
    const { reply, kinds } = await ask(createProvider(options) as unknown as CliProvider, schema);
    expect(reply?.structured).toEqual(value);
    expect(kinds).toContain("warning OUTPUT_SCHEMA_EMULATED");
    expect(JSON.stringify(api.requests[1]?.body)).toContain("Your answer does not fit the JSON Schema");
  },
);

it("a schema of the user's own that claude refuses is an invalid option", TIMEOUT, async () => {
  const { options } = await withClaude({ engine: "print", script: [] });
  const extraArgs = ["--json-schema", JSON.stringify({ type: "object", "x-a": 1 })];
  const provider = createProvider({ ...options, extraArgs });
  await expect(provider.invoke(["Who is it?"])).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining('--json-schema is not a valid JSON Schema: strict mode: unknown keyword: "x-a"'),
  });
});
