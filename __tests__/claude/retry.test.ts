/** When a failed call is made again: fakes that speak claude's stream-json, run by the real native side. */
import { createClaudeCliProvider, type ProviderError, type ProviderEvent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "../support/fake.mjs";

const RESULT = { type: "result", num_turns: 1, session_id: "s1", usage: { input_tokens: 3, output_tokens: 2 } };

/** What claude prints, line by line. */
const printed = (...lines: object[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");
const assistant = (text: string, more: object = {}) => ({
  type: "assistant",
  message: { id: "m1", role: "assistant", content: [{ type: "text", text }] },
  ...more,
});
const answers = (text: string) => ({
  stdout: printed(assistant(text), { ...RESULT, subtype: "success", is_error: false, result: text }),
});
/** A failing run as claude 2.1.330 ends it: the reason as a message with `error`, a result that is an error, exit code 1. */
const fails = (status: number, kind: string, text: string, ...before: object[]) => ({
  stdout: printed(...before, assistant(text, { error: kind, apiErrorStatus: status }), {
    ...RESULT,
    subtype: "success",
    is_error: true,
    api_error_status: status,
    result: text,
  }),
  code: 1,
});
const LIMITED = fails(429, "rate_limit", "API Error: Request rejected (429) · rate limit.");
const BROKEN = fails(500, "server_error", "API Error: 500 boom");

/** Waits of a millisecond, so that only the rules are tested and not the clock. */
const FAST = { maxAttempts: 3, baseDelayMs: 1, maxDelayMs: 1, jitter: 0 };

function setup(behaviours: object[], options: object = { retry: FAST }) {
  const fakes = createFakes();
  onTestFinished(fakes.cleanup);
  const cli = fakes.cli("claude", behaviours);
  return { cli, provider: createClaudeCliProvider({ cliPath: cli.path, ...options }) };
}

const failure = async (call: Promise<unknown>): Promise<ProviderError> =>
  await call.then(
    () => Promise.reject(new Error("it did not fail")),
    (error) => error,
  );

async function collect(events: AsyncIterable<ProviderEvent>) {
  const collected: ProviderEvent[] = [];
  const error = await (async () => {
    for await (const event of events) collected.push(event);
  })().catch((error: ProviderError) => error);
  return { events: collected, error };
}

describe("a call that failed for a passing reason", () => {
  it("is made again, each time announced, until it is answered", async () => {
    const { cli, provider } = setup([LIMITED, BROKEN, answers("at last")]);
    const { events, error } = await collect(provider.stream(["hi"]));

    expect(error).toBeUndefined();
    expect(cli.calls()).toHaveLength(3);
    const told = events.flatMap((event) => (event.type === "start" || event.type === "retry" ? [event] : []));
    const start = {
      type: "start",
      runId: expect.any(String),
      provider: "claude",
      pid: expect.any(Number),
      queuedMs: 0,
      engine: "print",
    };
    expect(told).toEqual([
      { ...start, attempt: 1, queuedMs: expect.any(Number) },
      {
        type: "retry",
        by: "provider",
        attempt: 1,
        maxAttempts: 2,
        // A rate limit without a time waits a second: what the provider asks for is never shortened.
        delayMs: 1000,
        reason: expect.stringMatching(/^API Error: Request rejected \(429\)/),
        httpStatus: 429,
      },
      { ...start, attempt: 2, queuedMs: expect.any(Number) },
      {
        type: "retry",
        by: "provider",
        attempt: 2,
        maxAttempts: 2,
        delayMs: 1,
        reason: expect.stringMatching(/^API Error: 500 boom/),
        httpStatus: 500,
      },
      { ...start, attempt: 3, queuedMs: expect.any(Number) },
    ]);
    expect(new Set(told.flatMap((event) => (event.type === "start" ? [event.runId] : []))).size).toBe(1);
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "at last" } });
  });

  it("gives the last error, with every attempt's reason", async () => {
    const { cli, provider } = setup([BROKEN, { stdout: "", code: 0 }, BROKEN]);
    const error = await failure(provider.invoke(["hi"]));
    expect(cli.calls()).toHaveLength(3);
    expect(error).toMatchObject({ code: "SERVER_ERROR", attempts: 3, httpStatus: 500, runId: expect.any(String) });
    expect(error.reasons.map(({ attempt, code }) => [attempt, code])).toEqual([
      [1, "SERVER_ERROR"],
      [2, "EMPTY_RESPONSE"],
      [3, "SERVER_ERROR"],
    ]);
    expect(error.reasons.at(-1)?.message).toBe(error.message);
  });

  it("is made three times by default, and once with retry: false", async () => {
    const byDefault = setup([BROKEN], {});
    expect(await failure(byDefault.provider.invoke(["hi"]))).toMatchObject({ attempts: 3 });
    const never = setup([BROKEN], { retry: false });
    expect(await failure(never.provider.invoke(["hi"]))).toMatchObject({ attempts: 1, reasons: [{ attempt: 1 }] });
    expect([byDefault.cli.calls().length, never.cli.calls().length]).toEqual([3, 1]);
  });

  it("is not waited for longer than maxElapsedMs allows", async () => {
    const { cli, provider } = setup([LIMITED], { retry: { ...FAST, maxElapsedMs: 900 } });
    const error = await failure(provider.invoke(["hi"]));
    expect(error).toMatchObject({ code: "RATE_LIMITED", attempts: 1, retryAfterMs: 1000 });
    expect(cli.calls()).toHaveLength(1);
  });

  it("is left at once when the caller aborts while waiting, and its place is free meanwhile", async () => {
    const slow = { retry: { maxAttempts: 2, baseDelayMs: 60_000, maxDelayMs: 60_000, jitter: 0 }, maxConcurrency: 1 };
    const { cli, provider } = setup([BROKEN, answers("the other call")], slow);
    const reason = new Error("enough");
    const controller = new AbortController();
    const waiting = provider.stream(["hi"], { signal: controller.signal });
    for (;;) {
      const { value } = await waiting.next();
      if (value?.type === "retry") break;
    }
    expect((await provider.invoke(["hello"])).content).toBe("the other call");
    controller.abort(reason);
    await expect(waiting.next()).rejects.toBe(reason);
    expect(cli.calls()).toHaveLength(2);
  });

  it("is left at once when the provider is closed while waiting", async () => {
    const { provider } = setup([BROKEN], { retry: { maxAttempts: 2, baseDelayMs: 60_000, maxDelayMs: 60_000 } });
    const events = provider.stream(["hi"]);
    for (;;) {
      const { value } = await events.next();
      if (value?.type === "retry") break;
    }
    const next = failure(events.next());
    await provider.close();
    expect(await next).toMatchObject({ code: "CLOSED" });
  });
});

describe("a call is not made again", () => {
  const cut = fails(500, "server_error", "API Error: 500 boom", assistant("Half an answer"));

  it("after output was given in a stream", async () => {
    const { cli, provider } = setup([cut, answers("again")]);
    const { events, error } = await collect(provider.stream(["hi"]));
    expect(events).toContainEqual({ type: "message", id: "m1", content: "Half an answer" });
    expect(events.some(({ type }) => type === "retry")).toBe(false);
    expect(error).toMatchObject({ code: "SERVER_ERROR", attempts: 1, partial: { text: "Half an answer" } });
    expect(cli.calls()).toHaveLength(1);
  });

  it("after an update was given; where nobody listened, nothing was given", async () => {
    const listening = setup([cut, answers("again")]);
    expect(await failure(listening.provider.invokeWithUpdates(["hi"], () => {}))).toMatchObject({ attempts: 1 });
    const alone = setup([cut, answers("again")]);
    expect((await alone.provider.invoke(["hi"])).content).toBe("again");
    expect([listening.cli.calls().length, alone.cli.calls().length]).toEqual([1, 2]);
  });

  it("after the CLI ran a tool of its own, whoever listened", async () => {
    const acted = fails(
      500,
      "server_error",
      "API Error: 500 boom",
      {
        type: "assistant",
        message: { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "Bash", input: {} }] },
      },
      {
        type: "user",
        message: { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "done" }] },
      },
    );
    const { cli, provider } = setup([acted, answers("again")], { retry: FAST, disableBuiltInTools: false });
    expect(await failure(provider.invoke(["hi"]))).toMatchObject({ code: "SERVER_ERROR", attempts: 1 });
    expect(cli.calls()).toHaveLength(1);
  });

  it.each([
    ["quota", { stderr: "Claude AI usage limit reached|4102444800", code: 1 }, "USAGE_LIMIT"],
    [
      "authentication",
      fails(401, "authentication_failed", "Invalid API key · Fix external API key"),
      "INVALID_API_KEY",
    ],
    ["validation", fails(400, "invalid_request", "Prompt is too long"), "CONTEXT_LENGTH"],
    ["not_found", fails(404, "model_not_found", "There's an issue with the selected model (nope)."), "MODEL_NOT_FOUND"],
    ["unknown", { stderr: "something nobody has ever heard of", code: 7 }, "UNKNOWN"],
  ])("for %s", async (category, behaviour, code) => {
    const { cli, provider } = setup([behaviour, answers("again")]);
    expect(await failure(provider.invoke(["hi"]))).toMatchObject({ category, code, attempts: 1 });
    expect(cli.calls()).toHaveLength(1);
  });

  it("for a CLI that is not there", async () => {
    const provider = createClaudeCliProvider({ cliPath: "/nowhere/claude", retry: FAST });
    expect(await failure(provider.invoke(["hi"]))).toMatchObject({ code: "CLI_NOT_FOUND", attempts: 1 });
  });

  it("for a call that can't be made: no attempt at all", async () => {
    const { cli, provider } = setup([answers("never")]);
    expect(await failure(provider.invoke([]))).toMatchObject({ code: "EMPTY_PROMPT", attempts: 0, reasons: [] });
    expect(cli.calls()).toHaveLength(0);
  });

  it("at a timeout of the caller's own, unless retry was asked for", async () => {
    const hang = { hang: true };
    const byDefault = setup([hang, answers("again")], { timeout: 400 });
    expect(await failure(byDefault.provider.invoke(["hi"]))).toMatchObject({ code: "TIMEOUT", attempts: 1 });
    const asked = setup([hang], { timeout: 400, retry: { ...FAST, maxAttempts: 2 } });
    expect(await failure(asked.provider.invoke(["hi"]))).toMatchObject({
      code: "TIMEOUT",
      attempts: 2,
      reasons: [{ code: "TIMEOUT" }, { code: "TIMEOUT" }],
    });
  });
});

it("refuses retry options by name", () => {
  for (const [retry, message] of [
    [true, 'option "retry" must be false, or an object of maxAttempts, baseDelayMs, maxDelayMs, jitter, maxElapsedMs'],
    [[], 'option "retry" must be false, or an object'],
    [new Map(), 'option "retry" must be false, or an object'],
    [{ maxAttempts: "3" }, 'option "retry.maxAttempts" must be a whole number from 1 to 100; given: "3"'],
    [{ attempts: 3 }, 'unknown option "retry.attempts"; allowed: maxAttempts, '],
    [{ jitter: 2 }, 'option "retry.jitter" must be a number from 0 to 1, true or false; given: 2'],
    [{ maxElapsedMs: Number.NaN }, 'option "retry.maxElapsedMs" must be a whole number'],
  ]) {
    expect(() => createClaudeCliProvider({ retry: retry as never })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(message as string) }),
    );
  }
  createClaudeCliProvider({ retry: { maxAttempts: undefined } });
});
