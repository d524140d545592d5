/** `parseCliOutput`: the invariants of CLI-ADAPTER-PROTOCOL, over anything and over what the CLIs really printed. */

import { parseCliOutput, stripAnsi } from "deep-factor-providers/native";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answer, replay } from "../support/replay.mjs";

const FORMATS = ["text", "json", "stream-json"] as const;
const PROVIDERS = ["claude", "codex", "gemini", "qwen", "glm", "grok", "opencode", "mine", undefined] as const;
const stdout = (name: string) => String(replay(name).stdout);

describe("INV-CLI-PARSE", () => {
  it("001: whatever the text is, it never throws", () => {
    const torn = fc
      .tuple(
        fc.constantFrom("claude/success-stream-json", "codex/err-401-json", "opencode/success-stdin", "qwen/slash"),
        fc.nat(4000),
        fc.string({ unit: "binary" }),
      )
      .map(([name, at, noise]) => `${stdout(name).slice(0, at)}${noise}${stdout(name).slice(at)}`);
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.json(), torn);
    fc.assert(
      fc.property(text, fc.constantFrom(...FORMATS), fc.constantFrom(...PROVIDERS), (it, format, provider) => {
        const parsed = parseCliOutput(it, { format, provider });
        expect(parsed.isError).toBe(parsed.error !== undefined);
        expect(typeof parsed.content).toBe("string");
      }),
      { numRuns: 300 },
    );
    expect(parseCliOutput("\ud800", { format: "text" }).content).toBe("\ufffd");
  });

  it("002: the answer is what the model said, tool calls apart", () => {
    const said = 'On it.\n```json\n{"tool_calls":[{"name":"add","args":{"a":1},"id":"c1"}]}\n```';
    const { stdout: text } = answer("codex/success-json-stdin", "Hello from the mock.", said);
    const usage = {
      inputTokens: 21,
      outputTokens: 9,
      totalTokens: 30,
      cacheReadTokens: 6,
      cacheWriteTokens: 0,
      reasoningTokens: 4,
      cacheHitShare: 0.286,
    };
    expect(parseCliOutput(String(text), { format: "stream-json", provider: "codex" })).toEqual({
      content: "On it.",
      messages: [{ id: "item_1", content: "On it." }],
      toolCalls: [{ name: "add", args: { a: 1 }, id: "c1" }],
      usage,
      sessionId: "01a1ffdf-11f9-7690-9d40-109974728ef5",
      isError: false,
      diagnostics: [],
      parseErrors: [],
    });
  });

  it("003: a failure is classified, and never content", () => {
    const parsed = parseCliOutput(stdout("gemini/err-429-quota-stream-json"), {
      format: "stream-json",
      provider: "gemini",
    });
    expect(parsed).toMatchObject({
      content: "",
      isError: true,
      error: { category: "quota", code: "QUOTA_EXCEEDED", shouldRetry: false, shouldFallback: true },
    });
  });

  it("004: no escape sequence is left", () => {
    const sequence = fc.constantFrom(
      "\x1b[31m",
      "\x1b[0m",
      "\x1b]0;title\x07",
      "\x1b]8;;http://x\x1b\\",
      "\x1b(B",
      "\x9b1m",
    );
    const coloured = fc.array(fc.tuple(sequence, fc.stringMatching(/^[a-z ]{1,6}$/)), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(coloured, (pieces) => {
        const plain = pieces.map(([, word]) => word).join("");
        const text = pieces.flat().join("");
        expect(stripAnsi(text)).toBe(plain);
        expect(parseCliOutput(text, { format: "text" }).content).toBe(plain.trim());
        expect(parseCliOutput(JSON.stringify({ content: text }), { format: "json" }).content).toBe(plain.trim());
      }),
    );
  });
});

it("tells a line that can't be read by its number", () => {
  const parsed = parseCliOutput('{"role":"assistant","content":"Hi"}\nnoise\n', { format: "stream-json" });
  expect(parsed).toEqual({
    content: "Hi",
    messages: [{ content: "Hi" }],
    toolCalls: [],
    isError: false,
    diagnostics: ["line 2: not JSON: noise"],
    parseErrors: [{ line: 2, message: "not JSON: noise" }],
  });
});

it.each([
  [["x"], /^options must be an object/],
  [["x", { format: "yaml" }], /^format must be one of "text", "json", "stream-json", got the string "yaml"$/],
  [["x", { format: "text", provider: 1 }], /^provider must be a string, got 1$/],
  [[1, { format: "text" }], /^stdout must be a string, got 1$/],
] as [unknown[], RegExp][])("refuses %j", (args, message) => {
  expect(() => parseCliOutput(...(args as Parameters<typeof parseCliOutput>))).toThrow(message);
});
