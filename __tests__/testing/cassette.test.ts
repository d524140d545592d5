/** Cassettes: what is recorded of a provider is what is played, and what is not on one is told with what differs. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { type ProviderEvent, runAgent } from "deep-factor-providers";
import {
  type CassetteOptions,
  createCassetteProvider,
  createScriptedProvider,
  type Script,
} from "deep-factor-providers/testing";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { removeFolder } from "../support/folders.mjs";

const ADD = { name: "add", description: "adds", schema: { type: "object", properties: {} } };

let file = "";
beforeEach(() => {
  const folder = mkdtempSync(join(tmpdir(), "dfp-cassette-"));
  onTestFinished(() => removeFolder(folder));
  file = join(folder, "tape.jsonl");
});
afterEach(() => vi.unstubAllEnvs());

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable("it succeeded"),
    (error) => error,
  );

/** Records what `calls` asks of a script. */
async function record(
  script: Script,
  calls: (provider: ReturnType<typeof createCassetteProvider>) => Promise<unknown>,
) {
  const inner = createScriptedProvider(script, { id: "inner" });
  const provider = createCassetteProvider(file, { mode: "record", provider: inner });
  await calls(provider);
  await provider.close();
  return inner;
}

const replay = (options?: CassetteOptions) => createCassetteProvider(file, { mode: "replay", ...options });
const lines = () =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line.replace(/"ms":\d+/, '"ms":0')));

async function collect(events: AsyncIterable<ProviderEvent>) {
  const all: unknown[] = [];
  for await (const event of events) {
    if (event.type === "start") continue;
    all.push(event.type === "done" ? { ...event, reply: { ...event.reply, run: undefined } } : event);
  }
  return all;
}

it("plays what it has recorded, of a file that reads like code", async () => {
  const call = { name: "add", args: { a: 1 }, id: "toolu_01XYZ" };
  const thread = (id: string) => [
    "1 + 2?",
    new AIMessage({ content: "", tool_calls: [{ ...call, id }] }),
    new ToolMessage({ content: "3", tool_call_id: id }),
  ];
  const script: Script = [
    { text: "I add.", toolCalls: [call] },
    { text: "3", usage: { inputTokens: 5, outputTokens: 1 } },
    { text: "half", error: { code: "RATE_LIMITED", message: "slow down", retryAfterMs: 900 } },
  ];
  let recorded: unknown[] = [];
  await record(script, async (provider) => {
    const bound = provider.bindTools([ADD]);
    expect((await bound.invoke(["1 + 2?"])).tool_calls).toEqual([call]);
    recorded = await collect(bound.stream(thread("toolu_01XYZ")));
    await failure(provider.bindTools([]).invoke(["again"]));
  });
  expect(lines()).toEqual([
    { cassette: 1, provider: "inner" },
    { call: 1 },
    { tool: ADD },
    { message: { type: "human", content: "1 + 2?" } },
    { ms: 0, event: { type: "session", model: "scripted" } },
    { ms: 0, event: { type: "text_delta", text: "I add." } },
    { ms: 0, event: { type: "message", content: "I add." } },
    { ms: 0, event: { type: "tool_call", toolCall: { ...call, id: "call_1" } } },
    {
      ...{ ms: 0 },
      event: { type: "usage", usage: expect.objectContaining({ estimated: true }), rawStopReason: "tool_calls" },
    },
    { ms: 0, done: { model: "scripted", stopReason: "tool_calls" } },
    { call: 2, after: 1, tools: 1 },
    { message: { type: "ai", content: "", tool_calls: [{ ...call, id: "call_1" }] } },
    { message: { type: "tool", content: "3", tool_call_id: "call_1" } },
    { ms: 0, event: { type: "session", model: "scripted" } },
    { ms: 0, event: { type: "text_delta", text: "3" } },
    { ms: 0, event: { type: "message", content: "3" } },
    {
      ...{ ms: 0 },
      event: {
        ...{ type: "usage", rawStopReason: "stop" },
        usage: { inputTokens: 5, outputTokens: 1, totalTokens: 6 },
      },
    },
    { ms: 0, done: { model: "scripted", stopReason: "stop" } },
    { call: 3 },
    { message: { type: "human", content: "again" } },
    { ms: 0, event: { type: "session", model: "scripted" } },
    { ms: 0, event: { type: "text_delta", text: "half" } },
    {
      ...{ ms: 0 },
      error: {
        ...{ code: "RATE_LIMITED", message: "slow down", retryAfterMs: 900 },
        ...{ shouldRetry: true, shouldFallback: false, partial: { text: "half", events: 2 } },
      },
    },
  ]);

  const provider = createCassetteProvider(pathToFileURL(file));
  expect(provider.id).toBe("inner");
  const bound = provider.bindTools([ADD]);
  const first = await bound.invoke(["1 + 2?"]);
  expect(first.tool_calls).toEqual([{ ...call, id: "call_1" }]);
  expect(await collect(bound.stream(thread("call_1")))).toEqual(recorded);
  expect(await failure(provider.bindTools([]).invoke(["again"]))).toMatchObject({
    ...{ code: "RATE_LIMITED", message: "slow down", retryAfterMs: 900, partial: { text: "half" } },
  });
  await provider.close();
  expect(readdirSync(join(file, ".."))).toEqual(["tape.jsonl"]);
});

it("is an agent's model, to record and to play, structured output and all", async () => {
  const script: Script = [{ toolCalls: [{ name: "add", args: {} }] }, "no JSON", '{"sum":3}'];
  const run = (provider: ReturnType<typeof createCassetteProvider>) =>
    runAgent({
      ...{ provider, prompt: "1 + 2?", outputSchema: z.object({ sum: z.number() }) },
      tools: [{ ...ADD, execute: () => "3" }],
    }).result;
  await record(script, async (provider) => expect((await run(provider)).structured).toEqual({ sum: 3 }));
  const provider = replay();
  expect(await run(provider)).toMatchObject({ status: "completed", structured: { sum: 3 } });
  await provider.close();
});

it("records a call that was aborted, which waits for its abort again", async () => {
  const controller = () => new AbortController();
  const abort = async (provider: ReturnType<typeof createCassetteProvider>, ending = controller()) => {
    const seen: string[] = [];
    const reading = (async () => {
      for await (const event of provider.stream(["Hi"], { signal: ending.signal })) {
        seen.push(event.type);
        if (event.type === "text_delta") ending.abort(new Error("enough"));
      }
    })();
    expect((await failure(reading)).message).toBe("enough");
    return seen;
  };
  const script: Script = () => ({ deltas: ["a", { text: "b", delayMs: 60_000 }] });
  let seen: string[] = [];
  await record(script, async (provider) => {
    seen = await abort(provider);
  });
  expect(lines().at(-1)).toEqual({ ms: 0, aborted: true });
  const provider = replay();
  expect(await abort(provider)).toEqual(seen);
  await provider.close();
});

describe("strictly", () => {
  const two = (provider: ReturnType<typeof createCassetteProvider>) =>
    Promise.all([provider.invoke(["The first question is long enough"]), provider.invoke(["Another"])]);

  it("tells the nearest call, what differs, and what was not played", async () => {
    await record((request) => `To ${request.messages[0]?.content}`, two);
    const provider = replay();
    const error = await failure(provider.bindTools([ADD]).invoke(["The first question is long"], { temperature: 0 }));
    expect(error).toMatchObject({ code: "INVALID_REQUEST", shouldRetry: false, shouldFallback: false });
    expect(error.message).toBe(
      `request 1, whose last message is human: "The first question is long", is not on the cassette ${file}; ` +
        'the nearest is call 1: messages[0].content: "…on is long enough" on the tape, "…on is long" now; ' +
        'tools[0]: nothing on the tape, {"name":"add","description":"adds","schema":{"type":"object"… now; ' +
        "options.temperature: nothing on the tape, 0 now",
    );
    const plain = provider.bindTools([]);
    expect((await plain.invoke(["Another"])).content).toBe("To Another");
    expect((await failure(plain.invoke(["Another"]))).message).toMatch(
      /is not on the cassette .* once more: call 2 had it, and was played/,
    );
    const left = await failure(provider.close());
    expect(left).toMatchObject({ code: "INVALID_REQUEST" });
    expect(left.message).toMatch(
      /^1 of the 2 calls of .*tape\.jsonl were not made, the first is call 1, whose last message is human: "The first/,
    );
    await provider.close();
  });

  it("plays conversations in any order, and one only in its own", async () => {
    await record(
      (request) => `To ${request.messages.at(-1)?.content}`,
      async (provider) => {
        await provider.invoke(["a"]);
        await provider.invoke(["b"]);
        await provider.invoke(["a", new AIMessage("To a"), "a2"]);
        await provider.invoke(["a"]);
      },
    );
    const provider = replay();
    const later = ["a", new AIMessage("To a"), "a2"];
    expect((await failure(provider.invoke(later))).message).toMatch(
      /is not on the cassette .* at this place: it is call 3, which comes behind call 1/,
    );
    for (const thread of [["b"], ["a"], ["a"], later]) {
      expect((await provider.invoke(thread)).content).toBe(`To ${thread.at(-1)}`);
    }
    await provider.close();
  });

  it("lets vary what `match` names", async () => {
    await record(["x", "y"], async (provider) => {
      await provider.invoke(["It is 2026-01-01 in /home/a"]);
      await provider.invoke(["n=1"]);
    });
    const patterns = replay({ match: [/\d{4}-\d\d-\d\d/, "/home/a", "/home/b", /n=\d/g] });
    expect((await patterns.invoke(["It is 2027-12-31 in /home/b"])).content).toBe("x");
    expect((await patterns.invoke(["n=2"])).content).toBe("y");
    await patterns.close();
    const own = replay({ match: ({ messages }) => messages.length });
    expect((await own.invoke(["else"])).content).toBe("x");
    await own.close().catch(() => {});
  });
});

it("plays moments as far ahead as they were", async () => {
  const resetsAt = Date.now() + 3_600_400;
  await record([{ error: { code: "USAGE_LIMIT", resetsAt } }], (provider) => failure(provider.invoke(["Hi"])));
  expect(lines().at(-1)).toMatchObject({ error: { code: "USAGE_LIMIT", resetsAt: "+3600000" } });
  vi.useFakeTimers({ now: resetsAt + 86_400_000, toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const provider = replay();
  const error = await failure(provider.invoke(["Hi"]));
  expect(error.resetsAt).toEqual(new Date(resetsAt + 86_400_000 + 3_600_000));
  await provider.close();
});

it("keeps secrets out and pictures beside, and knows both again", async () => {
  const secret = `sk-ant-api03-${"a1B2".repeat(20)}`;
  const image = Buffer.from("not really a picture".repeat(20)).toString("base64");
  const content = [
    { type: "text", text: `My key is ${secret}` },
    { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
  ];
  await record([`Yours is ${secret}`], (provider) => provider.invoke([{ role: "user", content }]));
  const text = readFileSync(file, "utf8");
  expect(text).not.toContain(secret.slice(0, 30));
  expect(text).not.toContain(image.slice(0, 30));
  const [asset = ""] = readdirSync(file.replace(".jsonl", ".assets"));
  expect(asset).toMatch(/^[0-9a-f]{16}\.png$/);
  expect(text).toContain(`asset:${asset}`);
  expect(readFileSync(join(file.replace(".jsonl", ".assets"), asset)).toString("base64")).toBe(image);
  const provider = replay();
  expect((await provider.invoke([{ role: "user", content }])).content).toMatch(/^Yours is \[redacted/);
  await provider.close();
});

it("records where RECORD=1 says so, and adds in auto what is not there", async () => {
  expect(() => createCassetteProvider(file)).toThrow(/there is no cassette .*tape\.jsonl: run it once with RECORD=1/);
  vi.stubEnv("RECORD", "1");
  const made = vi.fn(() => createScriptedProvider(["one"]));
  const recording = createCassetteProvider(file, { provider: made });
  await recording.invoke(["1"]);
  await recording.close();
  vi.stubEnv("RECORD", "");
  const auto = createCassetteProvider(file, { mode: "auto", provider: () => createScriptedProvider(["two"]) });
  expect((await auto.invoke(["1"])).content).toBe("one");
  expect((await auto.invoke(["2"])).content).toBe("two");
  await auto.close();
  const provider = createCassetteProvider(file, { provider: made });
  expect((await Promise.all([provider.invoke(["2"]), provider.invoke(["1"])])).map(({ content }) => content)).toEqual([
    ...["two", "one"],
  ]);
  await provider.close();
  expect(made).toHaveBeenCalledTimes(1);
});

it("says what is wrong with a file, and in which line", () => {
  const head = '{"cassette":1,"provider":"x"}\n';
  for (const [text, reason] of [
    ["", "1: the file is empty"],
    ["[]", "1: the line is no object"],
    ['{"a":1}', '1: the file is no cassette: its first line must be {"cassette":1,…}'],
    ['{"cassette":9,"provider":"x"}', "1: it is of format 9, and this package knows formats up to 1"],
    ['{"cassette":1,"provider":"../x"}', '1: "provider" must be a provider\'s id'],
    [`${head}{"message":{}}`, '2: a line outside of a call: there must be {"call": number} before it'],
    [`${head}{"call":2}`, '2: "call" must be 1: calls are counted from 1'],
    [`${head}{"call":1,"after":1}`, '2: "after" must be the number of an earlier call'],
    [`${head}{"call":1,"after":"__proto__"}`, '2: "after" must be the number of an earlier call'],
    [`${head}{"call":1}\n{"event":{"type":"toString"}}`, '3: there is no event of the type "toString"'],
    [`${head}{"call":1}\n{"event":{"type":"message"}}`, '3: the event\'s "content" must be a string'],
    [
      `${head}{"call":1}\n{"event":{"type":"tool_call","toolCall":{"name":"x"}}}`,
      '"toolCall" must be { name, args, id }',
    ],
    [`${head}{"call":1}\n{"error":{"code":"NO"}}`, '3: there is no error of the code "NO"'],
    [`${head}{"call":1}\n{"x":1}`, "3: the line is none that a call has"],
    [`${head}{"call":1}\n{"call":2}`, "3: call 1 has no end before the next one"],
    [`${head}{"call":1}\n`, "3: call 1 has no end: the file is cut short"],
    [`${head}{"call":1}\n{"mess`, "and it is the last: the file may be cut short"],
  ]) {
    writeFileSync(file, String(text));
    expect(() => replay(), text).toThrow(`the cassette can't be played: ${file}:`);
    expect(() => replay(), text).toThrow(reason);
  }
  expect(() => createCassetteProvider("")).toThrow("file must be a path or a file: URL");
  expect(() => replay({ mode: "play" as never })).toThrow("mode must be one of replay, record, auto");
  expect(() => replay({ match: [1] as never })).toThrow("match must be an array of regular expressions");
  expect(() => createCassetteProvider(file, { mode: "record" })).toThrow("provider must be a provider, or a function");
});
