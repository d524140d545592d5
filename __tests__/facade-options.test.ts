/** Options on their way to the native side, the options of a call, and the error class. */
import { createRequire } from "node:module";
import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ProviderErrorInit, ProviderError as ProviderErrorType } from "../index.js";
import errors from "../src/js/errors.cjs";
import options from "../src/js/options.cjs";

const ProviderError = errors.ProviderError as unknown as typeof ProviderErrorType;
const encode = (given: unknown) => JSON.parse(options.encodeOptions(given));

describe("options", () => {
  it("loses nothing that JSON has no word for", () => {
    class Folder {}
    const circular: Record<string, unknown> = { a: 1 };
    circular.self = circular;
    expect(
      encode({
        model: undefined,
        systemPrompt: null,
        timeout: Number.NaN,
        maxBuffer: 10n,
        idleTimeout: Number.POSITIVE_INFINITY,
        cliPath: new URL("file:///bin/claude"),
        cwd: new Folder(),
        extraArgs: ["-v", undefined, () => 1, ["x"]],
        verbose: Symbol("v"),
        auth: new Date(0),
        nested: { gone: undefined, circular },
        env: { A: "1", B: undefined, C: null, D: 4, E: new Map() },
      }),
    ).toEqual({
      systemPrompt: null,
      timeout: { $notJson: "NaN" },
      maxBuffer: { $notJson: "the BigInt 10" },
      idleTimeout: { $notJson: "Infinity" },
      cliPath: { $notJson: "a URL" },
      cwd: { $notJson: "a Folder" },
      extraArgs: ["-v", { $notJson: "undefined" }, { $notJson: "a function" }, ["x"]],
      verbose: { $notJson: "a symbol" },
      auth: { $notJson: "a Date" },
      nested: {
        gone: { $notJson: "undefined" },
        circular: { a: 1, self: { $notJson: "an object that contains itself" } },
      },
      env: { A: "1", B: null, C: { $notJson: "null" }, D: 4, E: { $notJson: "a Map" } },
    });
  });

  it("takes process.env, and an env that is none over as what it is", () => {
    expect(encode({ env: process.env })).toEqual({ env: { ...process.env } });
    expect(encode({ env: Object.assign(Object.create(null), { A: "1" }) })).toEqual({ env: { A: "1" } });
    expect(encode({ env: new Map([["A", "1"]]) })).toEqual({ env: { $notJson: "a Map" } });
    expect(encode({ env: ["A=1"] })).toEqual({ env: ["A=1"] });
  });

  it("has defaults for nothing, and takes objects only", () => {
    expect(options.encodeOptions(undefined)).toBe("{}");
    for (const [given, words] of [
      [null, "null"],
      ["opus", 'the string "opus"'],
      [[], "an array"],
      [() => 1, "a function"],
    ]) {
      expect(() => encode(given)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", message: `options must be an object, got ${words}` }),
      );
    }
  });

  it("gives JSON back as it was, __proto__ included", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (given) => {
        const text = JSON.stringify(given);
        if (!("env" in given)) expect(options.encodeOptions(JSON.parse(text))).toBe(text);
      }),
      { examples: [[JSON.parse('{"__proto__":{"polluted":true}}')]] },
    );
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
  });
});

describe("options of a call", () => {
  it("reads signal and timeout, and leaves a run configuration's other keys alone", () => {
    const { signal } = new AbortController();
    expect(options.readCallOptions(undefined)).toEqual({});
    expect(options.readCallOptions(null)).toEqual({});
    expect(options.readCallOptions({ signal: null, timeout: undefined, tags: ["x"], callbacks: [] })).toEqual({});
    expect(options.readCallOptions({ signal, timeout: 0.5 })).toEqual({ signal, timeout: 1 });
    expect(options.readCallOptions({ timeout: 0 })).toEqual({ timeout: 0 });
    expect(options.readCallOptions({ timeout: 2 ** 31 - 1 })).toEqual({ timeout: 2 ** 31 - 1 });
  });

  const RANGE = "timeout must be a number of milliseconds from 0 (no limit) to 2147483647";
  it.each<[unknown, string]>([
    ["fast", 'the call\'s options must be an object, got the string "fast"'],
    [{ signal: new AbortController() }, "signal must be an AbortSignal, got an AbortController"],
    [{ signal: {} }, "signal must be an AbortSignal, got an object"],
    [{ timeout: -1 }, `${RANGE}, got -1`],
    [{ timeout: Number.NaN }, `${RANGE}, got NaN`],
    [{ timeout: Number.POSITIVE_INFINITY }, `${RANGE}, got Infinity`],
    [{ timeout: 2 ** 31 }, `${RANGE}, got 2147483648`],
    [{ timeout: "10s" }, `${RANGE}, got the string "10s"`],
    [{ timeout: null }, `${RANGE}, got null`],
    [{ timeout: 5n }, `${RANGE}, got the BigInt 5`],
  ])("refuses %o", (given, message) => {
    expect(() => options.readCallOptions(given)).toThrow(expect.objectContaining({ code: "INVALID_OPTION", message }));
  });
});

describe("ProviderError", () => {
  const INIT: ProviderErrorInit = {
    category: "quota",
    code: "USAGE_LIMIT",
    message: "the weekly limit is reached. Wait, or use another provider",
    provider: "claude",
    shouldRetry: false,
    shouldFallback: true,
    hint: "Wait, or use another provider",
    resetsAt: 1_700_000_000_000,
    exitCode: 1,
    httpStatus: 429,
    stderrTail: "limit",
    partial: { text: "so far", events: 3 },
    attempts: 1,
    reasons: [{ attempt: 1, code: "USAGE_LIMIT", message: "the weekly limit is reached" }],
    runId: "r1",
  };

  it("has the fields it was made of, and no others", () => {
    const error = new ProviderError(INIT, { cause: new TypeError("why") });
    const { message, ...fields } = INIT;
    expect({ ...error }).toEqual({ ...fields, resetsAt: new Date(1_700_000_000_000) });
    expect([error.name, error.message, String(error)]).toEqual(["ProviderError", message, `ProviderError: ${message}`]);
    expect(error).toBeInstanceOf(Error);
    expect(inspect(error)).toMatch(/^ProviderError: the weekly limit is reached/);
    expect("retryAfterMs" in error).toBe(false);
  });

  it("says all of it as JSON, and the same again when made of that", () => {
    const error = new ProviderError(INIT, { cause: new TypeError("why") });
    expect(error.toJSON()).toEqual({
      name: "ProviderError",
      ...INIT,
      resetsAt: new Date(1_700_000_000_000),
      cause: { name: "TypeError", message: "why" },
    });
    const again = new ProviderError(JSON.parse(JSON.stringify(error)));
    expect({ ...again }).toEqual({ ...error });
    expect(new ProviderError(INIT, { cause: 7 }).toJSON().cause).toBe("7");
  });

  it("knows errors of another copy of the package by their brand", () => {
    const require = createRequire(import.meta.url);
    const path = require.resolve("../src/js/errors.cjs");
    const loaded = require(path);
    delete require.cache[path];
    const other = require(path).ProviderError;
    expect(other).not.toBe(loaded.ProviderError);
    expect(new other(INIT) instanceof loaded.ProviderError).toBe(false);
    expect(loaded.ProviderError.isInstance(new other(INIT))).toBe(true);
    for (const value of [null, undefined, "x", {}, new Error("x")]) expect(ProviderError.isInstance(value)).toBe(false);
  });

  it("an error of the façade blames no provider and says that nothing was started", () => {
    expect(errors.fault("INVALID_TOOL", "why").toJSON()).toEqual({
      name: "ProviderError",
      message: "why",
      category: "validation",
      code: "INVALID_TOOL",
      provider: "",
      shouldRetry: false,
      shouldFallback: false,
      attempts: 0,
      reasons: [],
    });
  });
});
