/**
 * Messages in, the native side's form out (`src/model/message.rs`). Which class a message is of must not matter, so every case
 * here is told by shape alone.
 */
import { readFileSync } from "node:fs";
import {
  AIMessage,
  ChatMessage,
  HumanMessage,
  mapChatMessagesToStoredMessages,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import errors from "../src/js/errors.cjs";
import messages from "../src/js/messages.cjs";
import { unpack } from "./facade-native-side.js";

const encode = (thread: unknown): unknown => JSON.parse(messages.encodeMessages(thread));

function faultOf(action: () => unknown) {
  try {
    action();
  } catch (error) {
    if (errors.ProviderError.isInstance(error)) {
      const { code, message } = error as unknown as { code: string; message: string };
      return { code, message };
    }
    throw error;
  }
  throw new Error("nothing was thrown");
}

const LANGCHAIN = [
  new SystemMessage("be brief"),
  new HumanMessage([{ type: "text", text: "hi" }]),
  new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "calc", args: { z: 1, a: { "2": [null] } } }] }),
  new ToolMessage({ content: "boom", tool_call_id: "c1", status: "error" }),
  new ChatMessage("hm", "critic"),
];

const ENCODED = [
  { type: "system", content: "be brief" },
  { type: "human", content: [{ type: "text", text: "hi" }] },
  { type: "ai", content: "", tool_calls: [{ id: "c1", name: "calc", args: { z: 1, a: { "2": [null] } } }] },
  { type: "tool", content: "boom", tool_call_id: "c1", is_error: true },
  { type: "generic", content: "hm" },
];

describe("a packed thread", () => {
  it("is the same thread, its texts beside the JSON", () => {
    const packed = messages.packMessages([
      ...LANGCHAIN,
      ["human", 'a "quoted" 🦀'],
      { role: "user", content: 12.5 },
      "\ud83e",
    ]);
    expect(packed.texts).toBe('be briefboomhma "quoted" 🦀12.5\ud83e');
    const texts = ["be brief", null, "", "boom", "hm", 'a "quoted" 🦀', "12.5", "\ud83e"];
    const expected = [
      ...ENCODED.map((message, n) => (texts[n] === null ? message : { ...message, content: texts[n]?.length })),
      { type: "human", content: 13 },
      { type: "human", content: 4 },
      { type: "human", content: 1 },
    ].map((message) => JSON.stringify(message));
    expect(packed.json).toBe(expected.join(""));
    const plan = expected.flatMap((json, n) => [0, json.length, texts[n]?.length ?? 0]);
    expect([...packed.plan]).toEqual(plan);
  });

  it("whatever it holds", () => {
    const content = fc.oneof(fc.string({ unit: "binary" }), fc.array(fc.dictionary(fc.string(), fc.jsonValue())));
    const message = fc.record({ role: fc.constantFrom("user", "assistant", "system"), content });
    fc.assert(
      fc.property(fc.array(message), (thread) => {
        const { json, texts, plan } = messages.packMessages(thread);
        expect(unpack(json, texts, plan)).toEqual(encode(thread));
      }),
    );
  });
});

describe("messages by shape", () => {
  it("reads LangChain's classes", () => {
    expect(encode(LANGCHAIN)).toEqual(ENCODED);
  });

  it("reads the classes of a version that has _getType and no type", () => {
    class Old {
      constructor(
        readonly kind: string,
        readonly content: unknown,
        readonly rest: object = {},
      ) {
        Object.assign(this, rest);
      }
      _getType() {
        return this.kind;
      }
    }
    expect(encode([new Old("human", "hi"), new Old("tool", "42", { tool_call_id: "c" })])).toEqual([
      { type: "human", content: "hi" },
      { type: "tool", content: "42", tool_call_id: "c" },
    ]);
  });

  it("reads what JSON.stringify and mapChatMessagesToStoredMessages make of LangChain's", () => {
    expect(encode(JSON.parse(JSON.stringify(LANGCHAIN)))).toEqual(ENCODED);
    expect(encode(mapChatMessagesToStoredMessages(LANGCHAIN))).toEqual(ENCODED);
    expect(encode(JSON.parse(JSON.stringify(mapChatMessagesToStoredMessages(LANGCHAIN))))).toEqual(ENCODED);
  });

  it("reads OpenAI's messages, pairs and strings", () => {
    expect(
      encode([
        { role: "developer", content: "d" },
        { role: "user", content: "u" },
        { type: "message", role: "assistant", content: null, tool_calls: null },
        { role: "tool", tool_call_id: "c", content: "42" },
        ["assistant", "a"],
        "bare",
        { role: "critic", content: "kept" },
        { type: "constructor", content: "a type like any other" },
      ]),
    ).toEqual([
      { type: "system", content: "d" },
      { type: "human", content: "u" },
      { type: "ai", content: "" },
      { type: "tool", content: "42", tool_call_id: "c" },
      { type: "ai", content: "a" },
      { type: "human", content: "bare" },
      { type: "critic", content: "kept" },
      { type: "constructor", content: "a type like any other" },
    ]);
  });

  it("keeps the text of arguments that are JSON already, digit by digit", () => {
    const args = '{ "2":1.0,"1":1e400,"id":12345678901234567890}';
    const call = (given: unknown) => ({
      role: "assistant",
      tool_calls: [{ id: "c", type: "function", function: given }],
    });
    expect(messages.encodeMessages([call({ name: "f", arguments: args })])).toBe(
      `[{"type":"ai","content":"","tool_calls":[{"id":"c","name":"f","args":${args}}]}]`,
    );
    expect(
      encode([call({ name: "f", arguments: "not json" }), call({ name: "f", arguments: "[1]" }), call({ name: "f" })]),
    ).toEqual(
      ["not json", "[1]", {}].map((it) => ({
        type: "ai",
        content: "",
        tool_calls: [{ id: "c", name: "f", args: it }],
      })),
    );
  });

  it("takes OpenAI's calls that LangChain left in additional_kwargs", () => {
    const tool_calls = [{ id: "c", type: "function", function: { name: "f", arguments: '{"a":1}' } }];
    expect(encode([{ type: "ai", content: "", additional_kwargs: { tool_calls } }])).toEqual([
      { type: "ai", content: "", tool_calls: [{ id: "c", name: "f", args: { a: 1 } }] },
    ]);
  });

  it("reads the vectors of SPEC-01", () => {
    const vectors = JSON.parse(readFileSync(new URL("./fixtures/vectors/threads.json", import.meta.url), "utf8"));
    for (const { name, messages: thread } of vectors) {
      const expected = thread.map(
        ({ role: _, tool_calls = [], ...message }: { role?: string; tool_calls?: object[] }) =>
          tool_calls.length > 0 ? { ...message, tool_calls } : message,
      );
      expect(encode(thread), name).toEqual(expected);
    }
  });
});

describe("messages that can't be read", () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  const trap = {
    get content(): string {
      throw new Error("no entry");
    },
    type: "human",
  };

  it.each<[string, unknown, string]>([
    ["no array", "hi", 'messages must be an array, such as ["Say hello"], got the string "hi"'],
    ["null", null, 'messages must be an array, such as ["Say hello"], got null'],
    ["a null entry", ["a", null], "messages[1] must be a message, got null"],
    ["a hole", new Array(1), "messages[0] must be a message, got undefined"],
    ["a number", [7], "messages[0] must be a message, got 7"],
    ["a long tuple", [["user", "a", "b"]], "messages[0] is an array, but not a pair [role, content]"],
    ["no type", [{ content: "x" }], "messages[0] has neither a type nor a role that is a string"],
    [
      "circular content",
      ["a", { type: "human", content: circular }],
      "messages[1].content can't be written as JSON: Converting circular structure to JSON",
    ],
    [
      "BigInt content",
      [{ type: "human", content: [1n] }],
      "messages[0].content can't be written as JSON: Do not know how to serialize a BigInt",
    ],
    ["a function", [{ type: "human", content: () => 1 }], "messages[0].content must be text or JSON, got a function"],
    ["a throwing getter", [trap], "messages[0] can't be read: no entry"],
    [
      "calls that are no array",
      [{ type: "ai", tool_calls: {} }],
      "messages[0].tool_calls must be an array, got an object",
    ],
    [
      "a call that is null",
      [{ type: "ai", tool_calls: [null] }],
      "messages[0].tool_calls[0] must be an object, got null",
    ],
    [
      "a call without a name",
      [{ type: "ai", tool_calls: [{ id: "c" }] }],
      "messages[0].tool_calls[0].name must be a string, got undefined",
    ],
    [
      "circular arguments",
      [{ type: "ai", tool_calls: [{ name: "f", args: circular }] }],
      "messages[0].tool_calls[0].args can't be written as JSON: Converting circular structure to JSON",
    ],
    [
      "an id that is no string",
      [{ type: "ai", tool_calls: [{ id: 1, name: "f" }] }],
      "messages[0].tool_calls[0].id must be a string, got 1",
    ],
    [
      "an answer's id",
      [{ type: "tool", tool_call_id: {} }],
      "messages[0].tool_call_id must be a string, got an object",
    ],
  ])("%s", (_, thread, message) => {
    expect(faultOf(() => messages.encodeMessages(thread))).toEqual({ code: "INVALID_MESSAGES", message });
  });

  it("anything else is read or refused with INVALID_MESSAGES, and never changed", () => {
    const fields = fc.record(
      {
        type: fc.constantFrom("human", "ai", "tool", "x", 1, null),
        role: fc.constantFrom("user", "assistant", "tool", undefined),
        content: fc.anything({ withBigInt: true, withNullPrototype: true }),
        tool_calls: fc.anything(),
        tool_call_id: fc.anything(),
        kwargs: fc.anything(),
        data: fc.anything(),
        lc: fc.constantFrom(1, 2),
        id: fc.anything(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(fields, fc.anything({ withBigInt: true }))), (thread) => {
        const before = [...thread];
        try {
          for (const { type, content } of encode(thread) as { type: unknown; content: unknown }[]) {
            expect(typeof type).toBe("string");
            expect(content).not.toBeUndefined();
          }
        } catch (error) {
          expect(errors.ProviderError.isInstance(error) ? (error as { code?: string }).code : error).toBe(
            "INVALID_MESSAGES",
          );
        }
        expect(thread).toEqual(before);
      }),
    );
  });

  it("any JSON content goes over as JSON.stringify writes it", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string({ unit: "binary" }), (content, text) => {
        const parts = [content ?? "", text].map((it) => `{"type":"human","content":${JSON.stringify(it)}}`);
        expect(messages.encodeMessages([{ type: "human", content }, text])).toBe(`[${parts.join(",")}]`);
      }),
    );
  });
});
