// @change
/** Schemas that are made to take a thread or the memory end nowhere: refused in words, before anything is asked. */
import { ProviderError, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { withApi } from "../api/setup.js";

/** `levels` definitions, each of which has two ways to the next. */
function branching(levels: number) {
  const defs: Record<string, unknown> = { [`d${levels}`]: { type: "string" } };
  for (let level = 0; level < levels; level++) {
    const next = { $ref: `#/$defs/d${level + 1}` };
    defs[`d${level}`] = { anyOf: [next, next] };
  }
  return { type: "object", properties: { a: { $ref: "#/$defs/d0" } }, $defs: defs };
}

const WAYS = /make more than 10000 ways to look at one value/;
const answer = { text: JSON.stringify({ a: 1 }) };
const failureOf = async (call: () => unknown): Promise<ProviderError> => {
  try {
    await call();
  } catch (error) {
    if (error instanceof ProviderError) return error;
    throw error;
  }
  throw new Error("it succeeded");
};

describe("1.3 KB with a million ways through it", () => {
  const schema = branching(20);

  it("is refused as outputSchema, and nobody is asked", async () => {
    expect(JSON.stringify(schema).length).toBeLessThan(1_500);
    const { api, provider } = await withApi({ script: () => answer });
    const error = await failureOf(() => provider.invoke(["x"], { outputSchema: schema, timeout: 300 }));
    expect(error).toMatchObject({ code: "INVALID_OPTION", attempts: 0 });
    expect(error.message).toMatch(WAYS);
    const signal = AbortSignal.timeout(60_000);
    expect((await failureOf(() => provider.invoke(["x"], { outputSchema: schema, signal }))).message).toMatch(WAYS);
    await provider.close();
    expect(api.requests).toHaveLength(0);
  });

  it("is refused as a tool's schema, and nobody is asked", async () => {
    const { api, provider } = await withApi({ script: () => answer });
    const tools = [{ name: "look", inputSchema: schema, execute: () => "x" }];
    const result = await runAgent({ provider, prompt: "x", tools }).result;
    expect(result).toMatchObject({ status: "failed", error: { code: "INVALID_TOOL" } });
    expect((result.error as ProviderError).message).toMatch(WAYS);
    expect(api.requests).toHaveLength(0);
  });
});

describe("what can't be seen before", () => {
  it("a value that takes too much work does not fit, and memory stays as it was", async () => {
    const wide = branching(11);
    const schema = { ...wide, properties: { list: { type: "array", items: { not: { $ref: "#/$defs/d0" } } } } };
    const many = { text: JSON.stringify({ list: Array.from({ length: 20_000 }, () => 1) }) };
    const { provider } = await withApi({ script: () => many });
    const before = process.memoryUsage.rss();
    const settled = await provider.invoke(["x"], { outputSchema: schema }).then(
      () => "fits",
      (error) => error.code,
    );
    // Either way it has come to an end.
    expect(["fits", "OUTPUT_INVALID"]).toContain(settled);
    expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
  });

  it("patterns that are long to compile end with the call's timeout, abort and close()", async () => {
    const pattern = (at: number) => [`p${at}`, { type: "string", pattern: `^\\p{L}{1,64}${at}$` }];
    const schema = (from: number) => ({
      type: "object",
      properties: Object.fromEntries(Array.from({ length: 190 }, (_, at) => pattern(from + at))),
    });
    const { api, provider } = await withApi({ script: () => answer });
    const timeout = await failureOf(() => provider.invoke(["x"], { outputSchema: schema(1_000), timeout: 1 }));
    expect(timeout).toMatchObject({ code: "TIMEOUT" });
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = provider.invoke(["x"], { outputSchema: schema(2_000), signal }).catch((reason) => reason);
    controller.abort(new Error("enough"));
    expect(await aborted).toEqual(new Error("enough"));
    const closed = failureOf(() => provider.invoke(["x"], { outputSchema: schema(3_000) }));
    await provider.close();
    expect(await closed).toMatchObject({ code: "CLOSED" });
    expect(api.requests).toHaveLength(0);
  });
});

describe("patterns", () => {
  /** The e-mail pattern that most people copy: none with the flag `u`. */
  const EMAIL = "^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$";
  const COSTLY = "a[ab]{3000}[^ab]";
  const schemaOf = (pattern: string) => ({
    type: "object",
    properties: { a: { type: "string", pattern } },
    required: ["a"],
  });
  const calling = (a: string) => ({ calls: [{ name: "look", args: { a } }] });

  it("are read as JavaScript reads them, in runAgent and outputSchema", async () => {
    const seen: unknown[] = [];
    const tools = [{ name: "look", inputSchema: schemaOf(EMAIL), execute: (args: unknown) => void seen.push(args) }];
    const script = [calling("no address"), calling("a.b-c@d.org"), { text: "done" }];
    const { provider } = await withApi({ script });
    const run = runAgent({ provider, prompt: "x", tools });
    expect(await run.result).toMatchObject({ status: "completed", output: "done" });
    expect(seen).toEqual([{ a: "a.b-c@d.org" }]);
    const other = await withApi({ script: () => ({ text: JSON.stringify({ a: "x@y.org" }) }) });
    const reply = await other.provider.invoke(["x"], { outputSchema: schemaOf(EMAIL) });
    expect(reply.response_metadata.structured_output).toEqual({ a: "x@y.org" });
  });

  it("that can't be compiled are not checked", async () => {
    const { provider } = await withApi({ script: () => ({ text: JSON.stringify({ a: "x" }) }) });
    const reply = await provider.invoke(["x"], { outputSchema: schemaOf("[z-a](") });
    expect(reply.response_metadata.structured_output).toEqual({ a: "x" });
  });

  it("that cost much for each byte end, and keep nobody else waiting", async () => {
    const long = JSON.stringify({ a: "ab".repeat(512 * 1024) });
    const { provider } = await withApi({ script: () => ({ text: long }), options: { timeout: 60_000 } });
    const errors = Array.from({ length: 8 }, () =>
      failureOf(() => provider.invoke(["x"], { outputSchema: schemaOf(COSTLY) })),
    );
    const other = await withApi({ script: () => ({ text: "at once" }) });
    expect((await other.provider.invoke(["x"])).content).toBe("at once");
    for (const error of await Promise.all(errors)) {
      expect(error).toMatchObject({ code: "OUTPUT_INVALID" });
      expect(error.message).toContain("a text is too long for the schema's patterns");
    }
  });
});
