/** Error codes, their types and documents, and what texts from elsewhere mean. Needs the built addon. */
import { readFileSync } from "node:fs";
import { classifyError, type ProviderError } from "deep-factor-providers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import errors from "../src/js/errors.cjs";
import native from "../src/js/native.cjs";

interface Codes {
  categories: { category: string; shouldRetry: boolean; shouldFallback: boolean }[];
  codes: { code: string; category: string; shouldFallback: boolean }[];
}
const { categories, codes }: Codes = JSON.parse(native.errorCodes());

const read = (file: string) => readFileSync(new URL(`../${file}`, import.meta.url), "utf8");
const contract = read("index.d.ts");

/** The words of a union of strings in index.d.ts. */
function union(name: string): string[] {
  const [, body = ""] = new RegExp(`^export type ${name} =\n((?:  .*\n)+)`, "m").exec(contract) ?? [];
  return [...body.matchAll(/^ {2}\| "(\w+)"/gm)].map(([, word = ""]) => word);
}

describe("the codes of the native side", () => {
  it("are those of index.d.ts, in the same order", () => {
    expect(union("ErrorCategory")).toEqual(categories.map(({ category }) => category));
    expect(union("ProviderErrorCode")).toEqual(codes.map(({ code }) => code));
  });

  it("have the categories the façade gives them", () => {
    const ours = ["INVALID_MESSAGES", "INVALID_TOOL", "UNSUPPORTED_CONTENT", "INVALID_OPTION", "CLOSED", "INTERNAL"];
    for (const code of ours as never[]) {
      const { category, shouldRetry, shouldFallback } = errors.fault(code, "why") as never as ProviderError;
      const known = codes.find((it) => it.code === code);
      expect({ category, shouldRetry, shouldFallback }).toEqual({
        ...categories.find((it) => it.category === known?.category),
        shouldFallback: known?.shouldFallback,
      });
    }
  });

  it("fall back as their category does, but for what only one provider can't take or its model did not do", () => {
    const own = codes.filter(
      (it) => it.shouldFallback !== categories.find(({ category }) => category === it.category)?.shouldFallback,
    );
    expect(own).toEqual([
      { code: "UNSUPPORTED_CONTENT", category: "validation", shouldFallback: true },
      { code: "UNSUPPORTED_OPTION", category: "validation", shouldFallback: true },
      { code: "TOOL_CHOICE_UNMET", category: "validation", shouldFallback: true },
      { code: "OUTPUT_INVALID", category: "validation", shouldFallback: true },
    ]);
  });

  it("are in docs/reference/errors.md", () => {
    const document = read("docs/reference/errors.md");
    for (const { code } of codes) expect(document).toContain(`\`${code}\``);
  });
});

it("an error of the façade fits where the agent cuts at 500 characters", () => {
  expect(errors.fault("INVALID_TOOL", "x".repeat(1000)).message).toBe(`${"x".repeat(479)}…`);
});

describe("classifyError", () => {
  it("says what a text means, when to come back, and what to do", () => {
    expect(classifyError("Error: 429 Too Many Requests, retry after 30 seconds")).toEqual({
      category: "rate_limit",
      code: "RATE_LIMITED",
      shouldRetry: true,
      shouldFallback: false,
      retryAfterMs: 30_000,
      message: expect.stringMatching(/^429 Too Many Requests, retry after 30 seconds\. Wait and try again/),
    });
    const seconds = Math.floor(Date.now() / 1000) + 3_600;
    expect(classifyError(`Claude AI usage limit reached|${seconds}`, { provider: "claude" })).toMatchObject({
      category: "quota",
      code: "USAGE_LIMIT",
      shouldRetry: false,
      shouldFallback: true,
      resetsAt: new Date(seconds * 1000),
    });
  });

  it("takes what Node tells of a process, nulls and Windows' codes included", () => {
    expect(classifyError("", { exitCode: null, signal: "SIGTERM", httpStatus: null })).toMatchObject({
      code: "TIMEOUT",
    });
    expect(classifyError("", { exitCode: 127, signal: null, provider: undefined })).toMatchObject({
      code: "CLI_NOT_FOUND",
    });
    expect(classifyError("odd", { httpStatus: 503 })).toMatchObject({ code: "SERVER_ERROR", category: "server" });
    expect(classifyError("odd", { exitCode: 3_221_225_477 })).toMatchObject({ shouldFallback: true });
    expect(classifyError("odd", null as never)).toMatchObject({ category: "unknown", code: "UNKNOWN" });
  });

  it("does not fall for numbers and words that are none of its business", () => {
    for (const text of ["line 500", "(node:404) Warning: x", "it costs $400", "404 files changed"]) {
      expect(classifyError(text)).toMatchObject({ category: "unknown" });
    }
  });

  it.each([
    [["x", { exitCode: "1" }], 'option "context.exitCode" must be a whole number'],
    [["x", { exitCode: 1.5 }], 'option "context.exitCode" must be a whole number'],
    [["x", { httpStatus: 7 }], 'option "context.httpStatus" must be a whole number from 100 to 599; given: 7'],
    [["x", { signal: 15 }], 'option "context.signal" must be a string'],
    [["x", { provider: () => 1 }], 'option "context.provider" must be a string'],
    [["x", { status: 500 }], 'unknown option "context.status"; allowed: provider, exitCode, signal, httpStatus'],
    [["x", "claude"], 'context must be an object, got the string "claude"'],
    [[7], "text must be a string, got 7"],
    [[undefined], "text must be a string, got undefined"],
  ])("refuses %o by name", (given, message) => {
    expect(() => (classifyError as (...given: unknown[]) => unknown)(...given)).toThrow(
      expect.objectContaining({
        name: "ProviderError",
        code: "INVALID_OPTION",
        message: expect.stringContaining(message),
      }),
    );
  });

  it("never throws, whatever the text", () => {
    const known = new Map(codes.map(({ code, category }) => [code as string, category]));
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc
        .array(
          fc.constantFrom(
            "HTTP 429",
            "\u001b[31m",
            "retry after",
            "9".repeat(30),
            "\ud800",
            "{",
            '"error":',
            "\n",
            "|",
            ": ",
          ),
        )
        .map((it) => it.join("")),
    );
    fc.assert(
      fc.property(text, (text) => {
        const { code, category, message } = classifyError(text);
        expect(known.get(code)).toBe(category);
        expect(Array.from(message).length).toBeLessThanOrEqual(480);
      }),
    );
    expect(classifyError(`${"x".repeat(1_000_000)} HTTP 429`).message.length).toBeLessThanOrEqual(480);
  });
});
