// @change
/** Every event of a run, and what ends one early. */
import { createClaudeCliProvider, type ProviderEvent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { ALL, createProvider, RUNS, sampleOf, VERSIONS, withClaude } from "../support/harness.mjs";
import { markIn, writeToolCalls } from "../support/model.mjs";

async function collect(events: AsyncIterable<ProviderEvent>): Promise<ProviderEvent[]> {
  const all: ProviderEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const kinds = (events: ProviderEvent[]) => events.map(({ type }) => type).filter((type) => type !== "other");
const textOf = (events: ProviderEvent[]) =>
  events.map((event) => (event.type === "text_delta" ? event.text : "")).join("");

const TOOL = { name: "t", description: "Does it", schema: { type: "object" } };

/** Whether each engine runs what holds for both of them: otherwise one of them does. */
const EVERY_ROW = ALL || RUNS.length === 1;

describe.each(RUNS)("claude %s, engine %s", (which, engine) => {
  // A live session's calls are native.
  const inPrint = it.skipIf(engine === "live");
  const mostlyInPrint = it.runIf(EVERY_ROW || engine === "print");
  const mostlyLive = it.runIf(EVERY_ROW || engine === "live");

  mostlyLive("gives every character once, in pieces that join to the message", async () => {
    const chunks = ["Hel", "lo", " ", "\n\n", "🦀", " and `code {` too", "\n"];
    const { options } = await withClaude({ which, engine, script: [{ chunks }] });
    const events = await collect(createProvider(options).stream(["hi"]));

    expect(events[0]).toMatchObject({ type: "start", provider: "claude", attempt: 1, pid: expect.any(Number) });
    const message = events.find((event) => event.type === "message");
    expect(message?.content).toBe(chunks.join(""));
    expect(textOf(events)).toBe(chunks.join(""));
    expect(events.filter((event) => event.type === "text_delta").length).toBeGreaterThan(3);
    const done = events.at(-1);
    expect(done).toMatchObject({ type: "done", reply: { content: "Hello \n\n🦀 and `code {` too" } });
    expect(kinds(events).filter((kind) => kind !== "text_delta")).toEqual([
      "start",
      "session",
      "message",
      "usage",
      "done",
    ]);
  });

  mostlyInPrint("comes whole where pieces are not wanted", async () => {
    const { options } = await withClaude({ which, engine, script: [{ chunks: ["Hel", "lo", " there"] }] });
    const events = await collect(createProvider({ ...options, includePartialMessages: false }).stream(["hi"]));
    expect(kinds(events)).toEqual(["start", "session", "message", "usage", "done"]);
    expect(events.at(-1)).toMatchObject({ reply: { content: "Hello there" } });
  });

  inPrint("never streams a tool call as text", async () => {
    const script = ({ body }: { body: unknown }) => {
      const call = writeToolCalls([{ name: "t", args: { code: "```js\n```" }, id: "1" }], markIn(body));
      return { chunks: Array.from(`First.\n\n${call}\n`) };
    };
    const { options } = await withClaude({ which, engine, script: [script] });
    const events = await collect(createProvider(options).bindTools([TOOL]).stream(["hi"]));
    expect(textOf(events)).toBe("First.");
    expect(events.find((event) => event.type === "tool_call")).toEqual({
      type: "tool_call",
      toolCall: { id: "1", name: "t", args: { code: "```js\n```" } },
    });
  });

  // reasoning.test.ts has it with both engines.
  it.runIf(ALL)("shows the model's thinking apart from its answer", async () => {
    const content = [
      { type: "thinking", thinking: "Let me think.", signature: "s" },
      { type: "text", text: "Done." },
    ];
    const { options } = await withClaude({ which, engine, script: [{ content }] });
    const events = await collect(createProvider(options).stream(["hi"]));
    const thinking = events.map((event) => (event.type === "thinking_delta" ? event.text : "")).join("");
    expect(thinking).toBe("Let me think.");
    expect(textOf(events)).toBe("Done.");
  });

  inPrint("takes nothing from a response that broke off and was asked for again", async () => {
    const call = (x: number) => writeToolCalls([{ name: "t", args: { x }, id: "1" }]);
    let seen = () => {};
    const cutWhen = new Promise<void>((resolve) => (seen = resolve));
    const chunks = ["Let me see.\n", call(1), "\nAnd then", " never sent"];
    const { api, options } = await withClaude({
      which,
      engine,
      // 2.1.330 asks again in its own retries, 2.1.197 once more without streaming.
      env: { CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: undefined },
      // Three events stand before the pieces: the message, its block, a ping.
      script: [{ chunks, cutAfter: 3 + 3, cutWhen }, { text: `Now.\n${call(2)}` }],
    });
    const events: ProviderEvent[] = [];
    const provider = createProvider({ ...options, maxRetries: 1, retry: false, textToolCalls: "lenient" });
    for await (const event of provider.stream(["hi"])) {
      if (textOf([event]).includes("And")) seen();
      events.push(event);
    }
    expect(api.requests).toHaveLength(2);
    expect(textOf(events)).toMatch(/^Let me see\..*And.*Now\.$/s);
    const toolCalls = [{ name: "t", args: { x: 2 }, id: "1" }];
    const reply = { content: "Now.", messages: [{ id: "msg_2", content: "Now." }], toolCalls, invalidToolCalls: [] };
    expect(events.at(-1)).toMatchObject({ type: "done", reply });
  });

  mostlyInPrint("ends where an answer reaches its limit of tokens, and asks its API for no more", async () => {
    const cut = { text: "One, and ", stopReason: "max_tokens", usage: { input_tokens: 7, output_tokens: 3 } };
    const formats =
      engine === "live" ? [{}] : sampleOf([{}, { includePartialMessages: false }, { includePartialMessages: true }]);
    for (const format of formats) {
      const { api, options } = await withClaude({ which, engine, script: [cut], mayRunOut: true });
      const provider = createProvider({ ...options, ...format, retry: false }).bindTools([TOOL]);
      const events: ProviderEvent[] = [];
      const run = async () => {
        for await (const event of provider.stream(["hi"])) events.push(event);
      };
      await expect(run()).rejects.toMatchObject({
        code: "MAX_TOKENS",
        message: expect.stringContaining("the answer hit the limit of output tokens and is cut short"),
        partial: { text: "One, and ", usage: { inputTokens: 7, outputTokens: 3 } },
      });
      const pieces = "includePartialMessages" in format && !format.includePartialMessages ? "" : "One, and ";
      const message = events.find((event) => event.type === "message")?.content;
      expect({ format, pieces: textOf(events), message, asked: api.requests.length }).toEqual({
        ...{ format, pieces, message: "One, and " },
        asked: 1,
      });
    }
  });

  mostlyLive("runs no call of an answer that reached its limit", async () => {
    const content = [
      { type: "text", text: "Now. " },
      { type: "tool_use", id: "toolu_1", name: "mcp__df__t", input: { x: 2 } },
    ];
    const script = [{ content, stopReason: "max_tokens" }];
    const { api, options } = await withClaude({ which, engine, script, mayRunOut: true });
    const called = createProvider({ ...options, retry: false })
      .bindTools([TOOL])
      .invoke(["hi"]);
    await expect(called).rejects.toMatchObject({ code: "MAX_TOKENS", partial: { text: "Now. " } });
    expect(api.requests).toHaveLength(1);
  });

  mostlyLive("ends the run, and its process, when the loop breaks", async () => {
    const { api, options } = await withClaude({ which, engine, script: [{ chunks: ["one", "two"], hangAfter: 5 }] });
    let pid = 0;
    for await (const event of createProvider(options).stream(["hi"])) {
      if (event.type === "start") pid = event.pid ?? 0;
      if (event.type === "text_delta") break;
    }
    expect(await api.requests[0]?.outcome).toBe("aborted");
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});

it.each(VERSIONS)("shows the last part of an answer only, where claude %s prints no more", async (which) => {
  const script = [{ text: "One, ", stopReason: "max_tokens" }, { text: "two." }];
  for (const format of sampleOf([{ outputFormat: "text" }, { outputFormat: "json", verbose: false }] as const)) {
    const { api, options } = await withClaude({ which, script });
    expect((await createProvider({ ...options, ...format }).invoke(["hi"])).content).toBe("two.");
    expect(api.requests).toHaveLength(2);
  }
});

// An answer that reaches its limit has it as well.
it.runIf(ALL)("throws the run's error from the iterator, after its events", async () => {
  const { options } = await withClaude({ engine: "print", script: () => ({ error: { status: 403, message: "no" } }) });
  const seen: string[] = [];
  const run = async () => {
    for await (const event of createClaudeCliProvider(options).stream(["hi"])) seen.push(event.type);
  };
  await expect(run()).rejects.toMatchObject({ name: "ProviderError", category: "authentication", httpStatus: 403 });
  expect(seen).not.toContain("done");
  expect(seen).not.toContain("message");
});

it("does not start when the signal is already aborted", async () => {
  const { api, options } = await withClaude({ engine: "print", script: [] });
  const provider = createClaudeCliProvider(options);
  await expect(provider.invoke(["hi"], { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
  await expect(collect(provider.stream(["hi"], { signal: AbortSignal.abort("why") }))).rejects.toBe("why");
  expect(api.log).toEqual([]);
});
