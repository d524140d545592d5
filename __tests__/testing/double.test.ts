/** The double of claude: the provider's own work over a process that says what a script says. */
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { type ClaudeCliProviderOptions, createClaudeCliProvider, runAgent } from "deep-factor-providers";
import { scriptedCli } from "deep-factor-providers/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { shareOf } from "../support/harness.mjs";

const ADD = {
  name: "add",
  description: "adds",
  schema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
};
const ENGINES = ["print", "live"] as const;

async function start(script: Parameters<typeof scriptedCli>[1], options: ClaudeCliProviderOptions) {
  const double = await scriptedCli("claude", script);
  const provider = createClaudeCliProvider({ cliPath: double.path, retry: false, ...options });
  onTestFinished(async () => {
    await provider.close();
    await double.close();
    expect(existsSync(dirname(double.path))).toBe(false);
  });
  return { double, provider };
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable("it succeeded"),
    (error) => error,
  );

describe.each(ENGINES)("%s", (engine) => {
  it("streams what the script says, reasoning and tokens too, and tells what it was asked", async () => {
    const usage = { inputTokens: 9, outputTokens: 4, cacheReadTokens: 3 };
    const script = [{ deltas: ["Hel", "lo"], reasoning: "hm", usage, model: "claude-double-1" }];
    const { double, provider } = await start(script, { engine, systemPrompt: "Be brief." });
    const events = [];
    for await (const event of provider.stream(["Hi"])) events.push(event);
    const kinds = ["text_delta", "thinking_delta", "message"];
    expect(events.filter(({ type }) => kinds.includes(type))).toEqual([
      { type: "thinking_delta", messageId: "msg_double_1", text: "hm" },
      { type: "text_delta", messageId: "msg_double_1", text: "Hel" },
      { type: "text_delta", messageId: "msg_double_1", text: "lo" },
      { type: "message", id: "msg_double_1", content: "Hello" },
    ]);
    expect(events.at(-1)).toMatchObject({
      type: "done",
      reply: { content: "Hello", model: "claude-double-1", usage, stopReason: "end_turn", run: { engine } },
    });
    expect(double.requests).toMatchObject([{ form: engine, system: "Be brief.", tools: [], toolResults: [] }]);
    expect(double.requests[0]?.input).toContain("Hi");
    expect(double.requests[0]?.args).toContain("--output-format");
  });

  it("runs an agent's tools, and gives a value that fits a schema", async () => {
    const { double, provider } = await start(
      [{ text: "I add.", toolCalls: [{ name: "add", args: { a: 1, b: 2 } }] }, "It is 3.", '{"sum":3}'],
      { engine },
    );
    const execute = ({ a, b }: Record<string, unknown>) => String(Number(a) + Number(b));
    const run = runAgent({ provider, prompt: "1 + 2?", tools: [{ ...ADD, execute }], toolCalls: "turns" });
    expect(await run.result).toMatchObject({ status: "completed", output: "It is 3.", steps: 2 });
    if (engine === "live") {
      const toolResults = [{ id: "call_1", content: "3" }];
      expect(double.requests[1]).toMatchObject({ tools: ["add"], input: "", toolResults });
    } else expect(double.requests[1]?.input).toContain('call_id="call_1"');
    const message = await provider.invoke(["1 + 2?"], { outputSchema: z.object({ sum: z.number() }) });
    expect(message.response_metadata.structured_output).toEqual({ sum: 3 });
  });

  it("fails as claude does, and as a process does", async () => {
    const codes = [
      ...(["RATE_LIMITED", "OVERLOADED", "SERVER_ERROR", "INVALID_REQUEST", "INVALID_API_KEY"] as const),
      ...(["NOT_LOGGED_IN", "MODEL_NOT_FOUND", "USAGE_LIMIT"] as const),
    ];
    // How an error is told is the same code for both: each is met by one of them.
    const shared = shareOf(codes, ENGINES.indexOf(engine), ENGINES.length);
    const broken = { code: "CRASHED", exitCode: 7, stderrTail: "no such luck" } as const;
    const { provider } = await start([...shared.map((error) => ({ error })), { error: broken }], { engine });
    const told = [];
    for (const _ of shared) told.push((await failure(provider.invoke(["Hi"]))).code);
    expect(told).toEqual(shared);
    const ended = await failure(provider.invoke(["Hi"]));
    expect(ended).toMatchObject({ exitCode: 7, stderrTail: "no such luck" });
  });

  it("leaves an answer that nobody waits for", async () => {
    const { double, provider } = await start(
      [{ deltas: ["half", { text: "whole", delayMs: 60_000 }] }, (request) => `To ${request.form}`],
      { engine },
    );
    const controller = new AbortController();
    const reading = (async () => {
      for await (const event of provider.stream(["Hi"], { signal: controller.signal }))
        if (event.type === "text_delta") controller.abort(new Error("enough"));
    })();
    expect((await failure(reading)).message).toBe("enough");
    expect((await provider.invoke(["Hi"])).content).toBe(`To ${engine}`);
    expect(double.requests).toHaveLength(2);
  });
});

it("is healthy, prints every format, and is not held up by fake timers", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "setInterval", "setImmediate", "Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const { provider } = await start(["x"], {});
  expect(await provider.health()).toMatchObject({ installed: true, version: "2.1.332", authenticated: true });
  for (const outputFormat of ["text", "json", "stream-json"] as const) {
    const { provider } = await start([{ text: "Hello", delayMs: 5 }], { engine: "print", outputFormat });
    expect((await provider.invoke(["Hi"])).content).toBe("Hello");
  }
});

it("says what is wrong", async () => {
  expect((await failure(scriptedCli("nope" as never, []))).message).toMatch(/name must be one of claude/);
  expect((await failure(scriptedCli("claude", 1 as never))).message).toMatch(/the script must be an array/);
  const { provider } = await start([], { engine: "print" });
  expect((await failure(provider.invoke(["Hi"]))).stderrTail).toMatch(/the script has run out: it has 0 replies/);
});
