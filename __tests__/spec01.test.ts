/**
 * SPEC-01's own unit tests, case by case, against the defaults. What the document does with a mock of `execFile` is done with a
 * program that prints the same; where its command line counts, that is asked for as docs/reference/deviations.md has it.
 */
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import {
  type ClaudeCliProviderOptions,
  createClaudeCliProvider,
  isModelAdapter,
  messagesToPrompt,
  messagesToXml,
  parseToolCalls,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createFakes } from "./support/fake.mjs";

/** The document's command line. */
const FORM = { promptStyle: "arg", outputFormat: "text", noInput: true } as const;

/** A program that prints this, and a provider of it. */
function simulate(stdout: string, options: ClaudeCliProviderOptions = {}, code = 0) {
  const fakes = createFakes();
  onTestFinished(fakes.cleanup);
  const cli = fakes.cli("claude", code === 0 ? { stdout } : { stderr: stdout, code });
  const provider = createClaudeCliProvider({ cliPath: cli.path, retry: false, ...options });
  const argsOf = async (prompt = "Hi") => {
    await provider.invoke([new HumanMessage(prompt)]);
    return cli.calls()[0]?.argv ?? [];
  };
  return { provider, cli, argsOf };
}

describe("messagesToXml", () => {
  it("serializes system/human/ai/tool messages to XML", () => {
    const xml = messagesToXml([
      new SystemMessage("You are helpful"),
      new HumanMessage("Hello"),
      new AIMessage({ content: "I'll help", tool_calls: [{ name: "calc", id: "tc_1", args: { x: 1 } }] }),
      new ToolMessage({ tool_call_id: "tc_1", content: "42" }),
    ]);
    expect(xml).toMatch(/^<thread>/);
    expect(xml).toMatch(/<\/thread>$/);
    for (const type of ["system", "human", "ai", "tool_input", "tool_output"]) {
      expect(xml).toContain(`<event type="${type}"`);
    }
    expect(xml.match(/name="calc"/g)).toHaveLength(2);
    expect(xml).toContain('call_id="tc_1"');
  });

  it("resolves tool names from AIMessage.tool_calls map", () => {
    const xml = messagesToXml([
      new AIMessage({ content: "", tool_calls: [{ name: "search", id: "tc_2", args: { q: "test" } }] }),
      new ToolMessage({ tool_call_id: "tc_2", content: "results" }),
    ]);
    expect(xml).toContain('<event type="tool_output"');
    expect(xml).toContain('name="search"');
    expect(xml).toContain('call_id="tc_2"');
  });

  it("falls back to 'unknown' for unresolvable tool names", () => {
    expect(messagesToXml([new ToolMessage({ tool_call_id: "orphan_id", content: "result" })])).toContain(
      'name="unknown"',
    );
  });

  it("escapes XML special characters", () => {
    const xml = messagesToXml([new HumanMessage('What is <b>"1 & 2"</b>?')]);
    for (const escaped of ["&lt;b&gt;", "&amp;", "&quot;"]) expect(xml).toContain(escaped);
  });

  it("passes through pre-serialized XML (content starts with <thread>)", () => {
    const preSerialized = '<thread>\n  <event type="human" id="0" iteration="1">Hello</event>\n</thread>';
    expect(messagesToXml([new HumanMessage(preSerialized)])).toBe(preSerialized);
  });

  it("sets iteration='0' for all events", () => {
    const xml = messagesToXml([new SystemMessage("sys"), new HumanMessage("hi")]);
    expect(xml.match(/iteration="0"/g)).toHaveLength(2);
  });
});

describe("messagesToPrompt", () => {
  it("serializes system/human/ai/tool messages to labeled text", () => {
    const prompt = messagesToPrompt([
      new SystemMessage("You are helpful"),
      new HumanMessage("Hello"),
      new AIMessage("Hi there"),
      new ToolMessage({ tool_call_id: "call_1", content: "result" }),
    ]);
    expect(prompt).toContain("[System]\nYou are helpful");
    expect(prompt).toContain("[User]\nHello");
    expect(prompt).toContain("[Assistant]\nHi there");
    expect(prompt).toContain("[Tool Result]\nresult");
  });

  it("separates messages with double newlines", () => {
    expect(messagesToPrompt([new HumanMessage("First"), new HumanMessage("Second")])).toBe(
      "[User]\nFirst\n\n[User]\nSecond",
    );
  });
});

describe("parseToolCalls", () => {
  it("extracts tool calls from a JSON code block", () => {
    const text =
      'Some text\n\n```json\n{"tool_calls": [{"name": "calc", "args": {"x": 1}, "id": "c1"}]}\n```\n\nMore text';
    expect(parseToolCalls(text)).toEqual([{ name: "calc", args: { x: 1 }, id: "c1" }]);
  });

  it("returns empty array when no JSON block present", () => {
    expect(parseToolCalls("Just plain text")).toEqual([]);
  });

  it("returns empty array for malformed JSON", () => {
    expect(parseToolCalls("```json\n{ invalid json }\n```")).toEqual([]);
  });

  it("assigns default ids when missing", () => {
    expect(parseToolCalls('```json\n{"tool_calls": [{"name": "t", "args": {}}]}\n```')[0]?.id).toBe("call_0");
  });

  it("handles multiple tool calls", () => {
    const text =
      '```json\n{"tool_calls": [{"name": "a", "args": {}, "id": "1"}, {"name": "b", "args": {"k": "v"}, "id": "2"}]}\n```';
    expect(parseToolCalls(text)).toHaveLength(2);
  });
});

describe("createClaudeCliProvider", () => {
  it("returns a ModelAdapter with invoke and bindTools", () => {
    const provider = createClaudeCliProvider();
    expect(typeof provider.invoke).toBe("function");
    expect(typeof provider.bindTools).toBe("function");
    expect(isModelAdapter(provider)).toBe(true);
  });

  it("calls claude -p <prompt> --no-input via execFile", async () => {
    const { provider, cli } = simulate("Hello from Claude CLI", FORM);
    const result = await provider.invoke([new HumanMessage("Hi")]);
    expect(cli.calls()).toHaveLength(1);
    expect(cli.calls()[0]?.argv).toEqual(["-p", expect.stringContaining("Hi"), "--no-input"]);
    expect(result).toBeInstanceOf(AIMessage);
    expect(result.content).toBe("Hello from Claude CLI");
    expect(result.tool_calls).toEqual([]);
  });

  it("uses XML encoding by default (prompt contains <thread>)", async () => {
    const [, prompt] = await simulate("Response", FORM).argsOf();
    expect(prompt).toContain("<thread>");
    expect(prompt).toContain('<event type="human"');
    expect(prompt).not.toContain("[User]");
  });

  it("uses text encoding when inputEncoding: 'text'", async () => {
    const { provider, cli } = simulate("Response", { ...FORM, inputEncoding: "text" });
    await provider.invoke([new SystemMessage("Be concise."), new HumanMessage("What is 2+2?")]);
    const prompt = cli.calls()[0]?.argv[1];
    expect(prompt).toContain("[System]");
    expect(prompt).toContain("[User]");
    expect(prompt).not.toContain("<thread>");
  });

  it("passes --model flag when model option is set", async () => {
    const args = await simulate("Response", { model: "sonnet" }).argsOf();
    expect(args[args.indexOf("--model") + 1]).toBe("sonnet");
  });

  it("uses custom cliPath", async () => {
    const { provider, cli } = simulate("Response");
    await provider.invoke([new HumanMessage("Hi")]);
    expect(cli.calls()).toHaveLength(1);
  });

  it("throws on CLI error", async () => {
    const { provider } = simulate("CLI process exited with code 1", {}, 1);
    await expect(provider.invoke([new HumanMessage("Hi")])).rejects.toThrow("CLI process exited with code 1");
  });

  describe.each<[string, ClaudeCliProviderOptions]>([
    ["with the defaults", {}],
    ["in the document's form", FORM],
  ])("%s", (_, options) => {
    it("parses tool calls from JSON code block", async () => {
      const cliOutput = `I need to calculate something.

\`\`\`json
{
  "tool_calls": [
    {
      "name": "calculator",
      "args": { "expression": "2 + 2" },
      "id": "call_1"
    }
  ]
}
\`\`\``;
      const { provider } = simulate(cliOutput, options);
      const result = await provider.invoke([new HumanMessage("What is 2+2?")]);
      expect(result.tool_calls).toHaveLength(1);
      expect(result.tool_calls?.[0]).toEqual({ name: "calculator", args: { expression: "2 + 2" }, id: "call_1" });
    });

    it("returns plain text with empty tool_calls when no JSON block", async () => {
      const { provider } = simulate("The answer is 42.", options);
      const result = await provider.invoke([new HumanMessage("What is the meaning of life?")]);
      expect(result.content).toBe("The answer is 42.");
      expect(result.tool_calls).toEqual([]);
    });

    it("handles multiple tool calls in one response", async () => {
      const cliOutput = `\`\`\`json
{
  "tool_calls": [
    { "name": "calculator", "args": { "expression": "2 + 2" }, "id": "call_1" },
    { "name": "get_time", "args": {}, "id": "call_2" }
  ]
}
\`\`\``;
      const { provider } = simulate(cliOutput, options);
      const result = await provider.invoke([new HumanMessage("Calculate and get time")]);
      expect(result.tool_calls?.map(({ name }) => name)).toEqual(["calculator", "get_time"]);
    });
  });

  it("injects tool definitions into prompt when tools bound", async () => {
    const { provider, cli } = simulate("Plain response");
    const mockTool = {
      name: "calculator",
      description: "Evaluate math",
      schema: { type: "object", properties: { expr: { type: "string" } } },
      invoke: vi.fn(),
      lc_namespace: ["test"],
    };
    provider.bindTools([mockTool] as never);
    await provider.invoke([new HumanMessage("Hi")]);
    const prompt = cli.calls()[0]?.stdin;
    for (const part of ["[Available Tools]", "calculator", "tool_calls"]) expect(prompt).toContain(part);
  });

  it("passes timeout and maxBuffer options", async () => {
    const { provider } = simulate("Response", { timeout: 60_000, maxBuffer: 4 });
    await expect(provider.invoke([new HumanMessage("Hi")])).rejects.toMatchObject({ code: "OUTPUT_LIMIT" });
    const waits = simulate("Response", { timeout: 60_000, maxBuffer: 5 * 1024 * 1024 });
    expect((await waits.provider.invoke([new HumanMessage("Hi")])).content).toBe("Response");
  });
});

describe("isModelAdapter", () => {
  it("returns true for a ModelAdapter", () => {
    expect(isModelAdapter(createClaudeCliProvider())).toBe(true);
  });

  it("returns false for a BaseChatModel-like object with _generate", () => {
    expect(isModelAdapter({ invoke: vi.fn(), bindTools: vi.fn(), _generate: vi.fn() })).toBe(false);
  });

  it("returns false for null/undefined/primitives", () => {
    for (const value of [null, undefined, "string", 42]) expect(isModelAdapter(value)).toBe(false);
  });
});
