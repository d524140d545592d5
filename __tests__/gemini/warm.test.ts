// @change
/** The real gemini as one `--acp` process for many calls, against a scripted Gemini API. */
import { expect, it, onTestFinished } from "vitest";
import { HERE, promptOf } from "../clis/real.js";
import { ALL, withCli } from "../support/harness.mjs";
import { gone } from "../support/live.mjs";
import { calling } from "../support/model.mjs";
import { ask, outwear } from "../support/warm.mjs";

const ADD = { name: "add", description: "Adds two numbers", schema: { type: "object" } };
const add = calling("Let me add.", [{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);

/** A model that does what the last words of its prompt ask for. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const script = (request: { body: any }) => {
  const { events } = promptOf(request.body);
  const text = events.map((event) => event.text).join("; ");
  if (text.includes("use a tool")) return add(request);
  if (text.includes("wait")) return { hang: true };
  if (text.includes("cut")) return { chunks: ["half ", "of it"], cutAfter: 1 };
  if (text.includes("quota")) return { error: { status: 429, message: "Quota exceeded. Please retry in 7s." } };
  if (text.includes("key")) return { error: { status: 401, message: "bad key" } };
  if (text.includes("busy")) return { error: { status: 503, message: "busy" } };
  return { chunks: ["You said ", text], usage: { input: 20, output: 7, cached: 5, thoughts: 3 } };
};

const TIMEOUT = 300_000;
const WARM = { uses: "warm", why: "it is @google/gemini-cli 0.61.0, says its package.json" };

it.skipIf(!HERE)("answers many calls in one process, each by its own thread alone", { timeout: TIMEOUT }, async () => {
  const { api, tag, create } = await withCli("gemini", { script });
  // What an engine chosen by itself comes to.
  const provider = create({ engine: undefined, retry: false });
  onTestFinished(() => provider.close());
  expect((await provider.health({ level: "command" })).engine).toEqual(WARM);
  await provider.prewarm();
  expect(api.log).toEqual([]);

  const events: string[] = [];
  const { response_metadata, ...reply } = await provider.invokeWithUpdates(["one"], ({ type }) => {
    events.push(type);
  });
  const { run, ...metadata } = response_metadata;
  expect({ reply, metadata, events }).toEqual({
    reply: {
      type: "ai",
      content: "You said one",
      tool_calls: [],
      invalid_tool_calls: [],
      additional_kwargs: {},
      usage_metadata: { input_tokens: 20, output_tokens: 7, total_tokens: 27 },
    },
    metadata: {
      provider: "gemini",
      model: "gemini-2.5-flash",
      model_name: "gemini-2.5-flash",
      session_id: expect.stringMatching(/^[\da-f-]{36}$/),
      stop_reason: "end_turn",
      cli_version: "0.61.0",
    },
    events: ["assistant_message", "usage", "final"],
  });
  expect(run).toMatchObject({ engine: "warm", pid: expect.any(Number) });
  const pid = run?.pid ?? 0;
  expect(JSON.parse(JSON.stringify(api.requests[0]?.body.tools ?? []))).toEqual([{ functionDeclarations: [] }]);

  // Calls at once, and calls that are written in the text: as in print form.
  const called = provider.bindTools([ADD]).invoke(["use a tool"]);
  const [two, three, four] = await Promise.all([ask(provider, ["two"]), ask(provider, ["three"]), called]);
  expect([two.content, three.content, two.pid, three.pid]).toEqual(["You said two", "You said three", pid, pid]);
  expect(four.tool_calls).toEqual([{ name: "add", args: { a: 1, b: 2 }, id: "call_1" }]);
  expect(api.requests.map(({ body }) => body.contents.length)).toEqual([1, 1, 1, 1]);

  // What fails, fails alone.
  await expect(provider.invoke(["quota"])).rejects.toMatchObject({
    code: "RATE_LIMITED",
    httpStatus: 429,
    retryAfterMs: 7000,
  });
  await expect(provider.invoke(["key"])).rejects.toMatchObject({ code: "AUTHENTICATION_FAILED", httpStatus: 401 });
  await expect(provider.invoke(["busy"])).rejects.toMatchObject({ category: "server", httpStatus: 503 });
  await expect(provider.invoke(["cut"])).rejects.toMatchObject({ code: "CONNECTION_LOST" });

  const controller = new AbortController();
  const asked = api.requests.length;
  const waiting = provider.invoke(["wait"], { signal: controller.signal });
  const { outcome } = await api.waitForRequest(asked + 1);
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
  expect(await outcome).toBe("aborted");

  const last = await ask(provider, ["last"]);
  expect([last.content, last.pid]).toEqual(["You said last", pid]);

  // A process that ends in the middle of a call is that call's error, and nobody else's: so it is with grok, by the same code.
  if (ALL) {
    const doomed = provider.invoke(["wait"]);
    await api.waitForRequest(asked + 3);
    process.kill(pid, "SIGKILL");
    await expect(doomed).rejects.toMatchObject({ code: "CRASHED", signal: "SIGKILL" });
    const next = await ask(provider, ["next"]);
    expect(next.content).toBe("You said next");
    expect(next.pid).not.toBe(pid);
  }

  // Inside a thread it is a text like any other.
  const slash = await ask(provider, ["/about"]);
  expect([slash.content, slash.engine]).toEqual(["You said /about", "warm"]);

  await provider.close();
  expect(tag.left()).toEqual([]);
});

it.skipIf(!HERE || !ALL)("ends when nobody has asked it for as long as it is kept", { timeout: TIMEOUT }, async () => {
  const { create } = await withCli("gemini", { script });
  const provider = create({ engine: undefined, keepAlive: 0 });
  expect((await provider.health()).engine).toEqual(WARM);
  const first = await ask(provider, ["one"]);
  expect([first.content, first.engine]).toEqual(["You said one", "warm"]);
  await gone(first.pid);
});

it.skipIf(!HERE || !ALL)("takes another process when one has served long enough", { timeout: 900_000 }, async () => {
  const { tag, create } = await withCli("gemini", { script });
  const provider = create({ engine: "warm", maxConcurrency: 8 });
  await outwear(provider, "You said Next.");
  await provider.close();
  expect(tag.left()).toEqual([]);
});
