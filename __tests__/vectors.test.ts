/** SPEC-01's pure functions, byte for byte, and beyond them where SPEC-01 is silent. */
import { readFileSync } from "node:fs";
import { AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { escapeXml, messagesToPrompt, messagesToXml, parseToolCalls } from "deep-factor-providers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

const read = (name: string) => JSON.parse(readFileSync(new URL(`fixtures/vectors/${name}`, import.meta.url), "utf8"));

interface Described {
  type: string;
  content: never;
  tool_calls?: never;
  tool_call_id?: string;
  role?: string;
}

function toLangChain({ type, content, tool_calls, tool_call_id = "", role = "" }: Described) {
  switch (type) {
    case "system":
      return new SystemMessage({ content });
    case "human":
      return new HumanMessage({ content });
    case "ai":
      return new AIMessage({ content, ...(tool_calls ? { tool_calls } : {}) });
    case "tool":
      return new ToolMessage({ content, tool_call_id });
    default:
      return new ChatMessage({ content, role });
  }
}

describe("threads", () => {
  it.each(read("threads.json") as { name: string; messages: Described[]; xml: string; prompt: string }[])(
    "$name",
    ({ messages, xml, prompt }) => {
      const thread = messages.map(toLangChain);
      expect(messagesToXml(thread)).toBe(xml);
      expect(messagesToPrompt(thread)).toBe(prompt);
    },
  );
});

describe("tool calls", () => {
  it.each(read("toolcalls.json") as { name: string; text: string; tool_calls: unknown[] }[])(
    "$name",
    ({ text, tool_calls }) => {
      expect(JSON.stringify(parseToolCalls(text))).toBe(JSON.stringify(tool_calls));
    },
  );
});

describe("beyond SPEC-01", () => {
  it("writes well-formed XML whatever the text: forbidden characters and lone surrogates become U+FFFD", () => {
    expect(messagesToXml([new HumanMessage("a\u0000b\u001Bc\uD800d\uFFFEe\u{1F980}")])).toBe(
      '<thread>\n  <event type="human" id="0" iteration="0">a\uFFFDb\uFFFDc\uFFFDd\uFFFDe\u{1F980}</event>\n</thread>',
    );
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
        expect(escapeXml(text)).not.toMatch(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF<>"']/);
        expect(escapeXml(text).isWellFormed()).toBe(true);
      }),
    );
  });

  it("gives a result the name of the nearest earlier call with its id, and says when it failed", () => {
    const call = (name: string) => new AIMessage({ content: "", tool_calls: [{ name, args: {}, id: "call_0" }] });
    const thread = [
      call("first"),
      new ToolMessage({ tool_call_id: "call_0", content: "1" }),
      call("second"),
      new ToolMessage({ tool_call_id: "call_0", content: "2", status: "error" }),
    ];
    const outputs = messagesToXml(thread).match(/<event type="tool_output".*?>/g);
    expect(outputs).toEqual([
      '<event type="tool_output" id="1" name="first" call_id="call_0" status="success" iteration="0">',
      '<event type="tool_output" id="3" name="second" call_id="call_0" status="error" iteration="0">',
    ]);
  });

  it("takes 5 MB of thread and arguments nested 500 deep", () => {
    const long = "x<".repeat(2.5 * 1024 * 1024);
    expect(messagesToXml([new HumanMessage(long)]).length).toBe(long.length * 2.5 + 70);
    let args: Record<string, unknown> = { deep: true };
    for (let depth = 0; depth < 500; depth++) args = { a: args };
    const xml = messagesToXml([new AIMessage({ content: "", tool_calls: [{ name: "t", args, id: "1" }] })]);
    expect(xml).toContain(escapeXml(JSON.stringify(args)));
    const [found] = parseToolCalls(JSON.stringify({ tool_calls: [{ name: "t", args }] }));
    expect(JSON.stringify(found?.args)).toBe(JSON.stringify(args));
  });

  it.each([
    ["several blocks", '```json\n{"tool_calls":[{"name":"a"}]}\n```\nand\n```JSON\n{"tool_calls":[{"name":"b"}]}\n```'],
    ["no fence", 'I call {"tool_calls":[{"name":"a"},{"name":"b"}]} now'],
    ["an unterminated fence", '```json\n{"tool_calls":[{"name":"a"},{"name":"b"}]}'],
    ["a null among calls", '```json\n{"tool_calls":[{"name":"a"},null,{"name":"b"}]}\n```'],
  ])("finds calls in %s", (_, text) => {
    expect(parseToolCalls(text).map(({ name, id }) => [name, id])).toEqual([
      ["a", "call_0"],
      ["b", "call_1"],
    ]);
  });

  it("finds arguments with a fence inside, and arguments that are a JSON string", () => {
    const code = "```ts\nx\n```";
    const text = `\`\`\`json\n${JSON.stringify({ tool_calls: [{ name: "w", args: { code }, id: "1" }] })}\n\`\`\``;
    expect(parseToolCalls(text)).toEqual([{ name: "w", args: { code }, id: "1" }]);
    expect(parseToolCalls('{"tool_calls":[{"name":"a","arguments":"{\\"x\\":1}"}]}')).toEqual([
      { name: "a", args: { x: 1 }, id: "call_0" },
    ]);
  });
});
