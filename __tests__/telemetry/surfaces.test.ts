// @change
/**
 * What one call is to OpenTelemetry, however it is made: answered, failed, aborted, left, forgotten. One table for all surfaces. And nothing of a
 * tracer, a meter, a span or an instrument reaches a call: each of their methods may do what it likes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { generateText, streamText } from "ai";
import {
  type AgentTool,
  ClaudeCodeAdapter,
  type CliProvider,
  createClaudeCliProvider,
  createFallbackProvider,
  createFileCheckpoint,
  type FallbackProvider,
  runAgent,
} from "deep-factor-providers";
import { cli } from "deep-factor-providers/ai-sdk";
import { ChatCli } from "deep-factor-providers/langchain";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { collect, failureOf, withApi } from "../api/setup.js";
import { createWorkspace } from "../support/claude-code.mjs";
import { createFakes } from "../support/fake.mjs";
import { ALL } from "../support/harness.mjs";
import { until } from "../support/processes.mjs";
import { startSdk } from "../support/telemetry.mjs";

type Provider = CliProvider | FallbackProvider;

interface Surface {
  /** Makes one call. */
  call: (provider: CliProvider, signal?: AbortSignal) => Promise<unknown>;
  /** The spans around the call's own. */
  around?: string;
}

const read = async (provider: Provider, signal?: AbortSignal) => {
  for await (const _ of provider.stream(["hi"], { signal }));
};

/** A fallback of one: its own span, and the member's below it. */
const fallback = (provider: CliProvider, sdk: Sdk) => createFallbackProvider([provider], { telemetry: sdk.both });
type Sdk = ReturnType<typeof startSdk>;

const surfaces = (sdk: Sdk): Record<string, Surface> => ({
  invoke: { call: (provider, signal) => provider.invoke(["hi"], { signal }) },
  invokeWithUpdates: { call: (provider, signal) => provider.invokeWithUpdates(["hi"], () => {}, { signal }) },
  stream: { call: read },
  runAgent: {
    around: "invoke_agent openai",
    call: async (provider, signal) => {
      const { status, error } = await runAgent({ provider, prompt: "hi", signal }).result;
      if (status !== "completed") throw error ?? new Error(status);
    },
  },
  "a fallback's invoke": {
    around: "chat fallback",
    call: (provider, signal) => fallback(provider, sdk).invoke(["hi"], { signal }),
  },
  "a fallback's invokeWithUpdates": {
    around: "chat fallback",
    call: (provider, signal) => fallback(provider, sdk).invokeWithUpdates(["hi"], () => {}, { signal }),
  },
  "a fallback's stream": { around: "chat fallback", call: (provider, signal) => read(fallback(provider, sdk), signal) },
  "LangChain's invoke": { call: (provider, signal) => new ChatCli({ provider }).invoke("hi", signal && { signal }) },
  "LangChain's stream": {
    call: async (provider, signal) => {
      for await (const _ of await new ChatCli({ provider }).stream("hi", signal && { signal }));
    },
  },
  "the AI SDK's generateText": {
    call: (provider, abortSignal) =>
      generateText({
        model: cli(provider)("scripted"),
        prompt: "hi",
        maxRetries: 0,
        ...(abortSignal && { abortSignal }),
      }),
  },
  "the AI SDK's streamText": {
    call: async (provider, abortSignal) => {
      const onError = () => {};
      const settings = { prompt: "hi", maxRetries: 0, onError, ...(abortSignal && { abortSignal }) };
      for await (const part of streamText({ model: cli(provider)("scripted"), ...settings }).fullStream) {
        if (part.type === "error") throw part.error;
        if (part.type === "abort") throw new Error("aborted");
      }
    },
  },
});

/** What a span says of how it ended. */
const outcome = ({ name, status, attributes }: ReturnType<Sdk["spans"]>[number]) => [
  name,
  status.code === 2 ? status.message : "no error",
  attributes["error.type"] ?? "-",
  attributes["deep_factor.cancelled"] ?? "-",
];
/** What the durations say of it. */
const durations = async (sdk: Sdk) =>
  ((await sdk.metrics())["gen_ai.client.operation.duration"] ?? []).map(({ attributes }) => [
    attributes["error.type"] ?? "-",
    attributes["deep_factor.cancelled"] ?? "-",
  ]);

const names = Object.keys(surfaces(undefined as unknown as Sdk));
const FAILED = ["INVALID_API_KEY: the operation failed", "INVALID_API_KEY", "-"];

describe.each(names)("%s", { timeout: 20_000 }, (name) => {
  const setUp = async (script: NonNullable<Parameters<typeof withApi>[0]>["script"] & object) => {
    const sdk = startSdk();
    const { provider, api } = await withApi({ script, options: { telemetry: sdk.both, retry: false, id: "openai" } });
    const { call, around } = surfaces(sdk)[name] as Surface;
    /** The same of every span of the call. */
    const spans = (...how: unknown[]) => [["chat scripted", ...how], ...(around ? [[around, ...how]] : [])];
    return { sdk, provider, api, call, spans };
  };

  it("answered: no error, and tokens that were counted", async () => {
    const { sdk, provider, call, spans } = await setUp([{ text: "Hello.", usage: { input: 20, output: 7 } }]);
    await call(provider);
    await until(() => sdk.spans().length === spans().length);
    expect(sdk.spans().map(outcome)).toEqual(spans("no error", "-", "-"));
    const metrics = await sdk.metrics();
    expect(metrics["gen_ai.client.token.usage"]?.map(({ value }) => value)).toEqual([
      { count: 1, sum: 20 },
      { count: 1, sum: 7 },
    ]);
    expect(await durations(sdk)).toEqual([["-", "-"]]);
  });

  it("answered without a word of tokens: none are reported", async () => {
    const { sdk, provider, call, spans } = await setUp([{ text: "Hello.", usage: null }]);
    await call(provider);
    await until(() => sdk.spans().length === spans().length);
    const [chat] = sdk.spans();
    expect([chat?.attributes["deep_factor.usage.estimated"], Object.keys(await sdk.metrics()).sort()]).toEqual([
      true,
      expect.not.arrayContaining(["gen_ai.client.token.usage"]),
    ]);
  });

  it("failed: our code, and no word of the message", async () => {
    const { sdk, provider, call, spans } = await setUp([{ error: { status: 401, message: "no" } }]);
    await expect(call(provider)).rejects.toThrow();
    await until(() => sdk.spans().length === spans().length);
    expect(sdk.spans().map(outcome)).toEqual(spans(...FAILED));
    expect(await durations(sdk)).toEqual([["INVALID_API_KEY", "-"]]);
  });

  it("aborted: cancelled, and no error", async () => {
    const { sdk, provider, api, call, spans } = await setUp([{ hang: true as const }]);
    const controller = new AbortController();
    const calling = call(provider, controller.signal);
    await api.waitForRequest(1);
    controller.abort();
    await expect(calling).rejects.toThrow();
    await until(() => sdk.spans().length === spans().length);
    expect(sdk.spans().map(outcome)).toEqual(spans("no error", "-", true));
    expect(await durations(sdk)).toEqual([["-", true]]);
  });
});

describe.each(["stream", "a fallback's stream"])("%s", { timeout: 20_000 }, (name) => {
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");

  const setUp = async () => {
    const sdk = startSdk();
    const { provider, api } = await withApi({ script: [{ chunks: ["a", "b"] }], options: { telemetry: sdk.both } });
    const streaming: Provider = name === "stream" ? provider : fallback(provider, sdk);
    const all = name === "stream" ? ["chat scripted"] : ["chat scripted", "chat fallback"];
    const cancelled = all.map((span) => [span, "no error", "-", true]);
    return { sdk, api, streaming, cancelled };
  };

  it("that nobody reads has no span, as it has no call", async () => {
    const { sdk, streaming } = await setUp();
    const unread = streaming.stream(["hi"]);
    const left = streaming.stream(["hi"]);
    await left.return();
    expect([sdk.begun(), await unread.return()]).toEqual([[], { done: true, value: undefined }]);
  });

  it("that is left is cancelled", async () => {
    const { sdk, streaming, cancelled } = await setUp();
    for await (const event of streaming.stream(["hi"])) if (event.type === "text_delta") break;
    expect(sdk.spans().map(outcome).sort()).toEqual([...cancelled].sort());
  });

  it("that is aborted while nobody reads it is cancelled", async () => {
    const { sdk, streaming, cancelled } = await setUp();
    const controller = new AbortController();
    const stream = streaming.stream(["hi"], { signal: controller.signal });
    await stream.next();
    controller.abort();
    await until(() => sdk.spans().length === cancelled.length);
    expect(sdk.spans().map(outcome).sort()).toEqual([...cancelled].sort());
    await expect(stream.next()).rejects.toThrow();
  });

  it("that is begun and forgotten is cancelled once it is collected", async () => {
    const { sdk, streaming, cancelled } = await setUp();
    await (async () => {
      await streaming.stream(["hi"]).next();
    })();
    await until(() => {
      collectGarbage();
      return sdk.spans().length === cancelled.length;
    });
    expect(sdk.spans().map(outcome).sort()).toEqual([...cancelled].sort());
  });
});

it("the Claude Code adapter: an aborted run is cancelled, and no error", async () => {
  const sdk = startSdk();
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const fake = fakes.cli("claude", { hang: true });
  const adapter = new ClaudeCodeAdapter({ cliPath: fake.path, telemetry: sdk.both });
  const workspace = createWorkspace();
  const controller = new AbortController();
  const run = adapter.execute({
    workspaceDir: workspace,
    config: { prompt: "go" } as never,
    signal: controller.signal,
  });
  await fake.waitForCall(1);
  controller.abort();
  expect((await failureOf(run)).name).toBe("AbortError");
  expect(sdk.spans().map(outcome)).toEqual([["invoke_agent claude-code", "no error", "-", true]]);
  expect(await durations(sdk)).toEqual([["-", true]]);
});

it("turns of an agent say what is known of their answers, and what they were", async () => {
  const sdk = startSdk();
  const look: AgentTool = { name: "look", execute: () => "fine" };
  const made = "look_into_".repeat(20);
  const script = [
    { text: "I look.", calls: [{ id: "c1", name: "look", args: {} }] },
    { text: "Again.", calls: [{ id: "c2", name: made, args: {} }] },
    { text: "Done." },
  ];
  const { provider } = await withApi({ script });
  const telemetry = { ...sdk.both, content: "full" } as const;
  const { status } = await runAgent({ provider, prompt: "go", tools: [look], telemetry }).result;
  expect(status).toBe("completed");
  const turns = sdk.spans().filter(({ name }) => name === "chat scripted");
  const said = turns.map(({ attributes }) => [
    attributes["gen_ai.response.finish_reasons"],
    typeof attributes["gen_ai.response.id"],
    JSON.parse(String(attributes["gen_ai.output.messages"])),
  ]);
  const message = (finish_reason: string, ...parts: object[]) => [{ role: "assistant", parts, finish_reason }];
  const call = (id: string, name: string) => ({ type: "tool_call", id, name, arguments: {} });
  expect(said).toEqual([
    [["tool_calls"], "string", message("tool_calls", { type: "text", content: "I look." }, call("c1", "look"))],
    [["tool_calls"], "string", message("tool_calls", { type: "text", content: "Again." }, call("c2", made))],
    [["stop"], "string", message("stop", { type: "text", content: "Done." })],
  ]);
  // A name that the model made up is its own words.
  const tools = sdk.spans().filter(({ attributes }) => attributes["gen_ai.operation.name"] === "execute_tool");
  expect(tools.map(({ name }) => name)).toEqual(["execute_tool look", "execute_tool"]);
});

it("a tool that a CLI has run itself is a span of its name, and one that the model made up is not", async () => {
  const sdk = startSdk();
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const made = "the whole of the user's mail ".repeat(20);
  const call = (id: string, name: string) => ({ type: "tool_use", id, name, input: {} });
  const result = (id: string, is_error: boolean) => ({
    type: "user",
    message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "a", is_error }] },
  });
  const assistant = (...content: object[]) => ({
    type: "assistant",
    message: { id: "m1", role: "assistant", model: "m", content, usage: { input_tokens: 1, output_tokens: 1 } },
  });
  const lines = [
    assistant(call("c1", "Bash")),
    result("c1", false),
    assistant(call("c2", made)),
    result("c2", false),
    assistant(call("c3", "Made_up")),
    result("c3", true),
    { type: "result", subtype: "success", is_error: false, num_turns: 3, result: "Done." },
  ];
  const stdout = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const fake = fakes.cli("claude", { stdout });
  const provider = createClaudeCliProvider({
    cliPath: fake.path,
    engine: "print",
    disableBuiltInTools: false,
    telemetry: sdk.both,
  });
  await read(provider);
  const [chat] = sdk.trees();
  expect(chat).toMatchObject({
    name: "chat",
    children: [{ name: "execute_tool Bash" }, { name: "execute_tool" }, { name: "execute_tool" }],
  });
  expect(JSON.stringify(sdk.spans().map(({ name }) => name))).not.toMatch(/mail|Made/);
});

it("a turn that fails is an error, whatever it has used", async () => {
  const sdk = startSdk();
  const { provider } = await withApi({ script: [{ error: { status: 401, message: "no" } }] });
  const { status } = await runAgent({ provider, prompt: "go", telemetry: sdk.both }).result;
  expect([status, sdk.spans().map(outcome)]).toEqual([
    "failed",
    [
      ["chat scripted", ...FAILED],
      ["invoke_agent openai", ...FAILED],
    ],
  ]);
});

/** Throws whatever is asked of it. */
const POISON = new Proxy(
  {},
  Object.fromEntries(
    (["get", "has", "ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor"] as const).map((trap) => [
      trap,
      () => {
        throw new Error(`poison: ${trap}`);
      },
    ]),
  ),
);

/** What a method may do. */
const MOODS = {
  throws: () => {
    throw new Error("a method that throws");
  },
  rejects: () => Promise.reject(new Error("a method that rejects")),
  hangs: () => new Promise(() => {}),
  "gives nothing": () => undefined,
  "gives a number": () => 7,
  "gives null": () => null,
  "gives a text": () => "garbage",
  "gives poison": () => POISON,
  "gives a thenable that throws": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is the point
    then() {
      throw new Error("a thenable that throws");
    },
  }),
} as const;
type Mood = keyof typeof MOODS | "is none" | "can't be read" | "works";

const METHODS = [
  ...["startActiveSpan", "setAttributes", "addEvent", "addLink", "setStatus", "end", "spanContext"],
  ...["createHistogram", "createCounter", "createObservableGauge", "addCallback", "record", "add"],
] as const;
type Moods = Partial<Record<string, Mood>>;

/** Something with every method, each in its mood; what works answers with something as moody. */
function moody(moods: Moods): object {
  const works = (name: string, args: unknown[]) => {
    const last = args.at(-1);
    if (name === "startActiveSpan" && typeof last === "function") return last(moody(moods));
    if (name === "addCallback" && typeof last === "function") return last(moody(moods));
    if (name === "spanContext") return { traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 1 };
    return name.startsWith("create") ? moody(moods) : undefined;
  };
  return new Proxy(
    {},
    {
      has: () => true,
      get(_, name) {
        const mood = moods[String(name)] ?? "works";
        if (name === "then" || mood === "is none") return undefined;
        if (mood === "can't be read") throw new Error(`${String(name)} can't be read`);
        return (...args: unknown[]) => (mood === "works" ? works(String(name), args) : MOODS[mood]());
      },
    },
  );
}

/** One of everything that has telemetry, and what each came to. */
async function everything(telemetry: object | undefined) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-hostile-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const usage = { input: 20, output: 7 };
  const down = { error: { status: 503, message: "down" } };
  const hi = { text: "hi", usage };
  const turns = [{ text: "I look", calls: [{ id: "c1", name: "look", args: {} }], usage }, hi];
  const options = { ...(telemetry && { telemetry: telemetry as never }), retry: false } as const;
  const first = await withApi({ script: [down, down], options: { ...options, id: "one" } });
  const script = [hi, hi, hi, down, hi, hi, ...turns];
  const { provider } = await withApi({ script, options: { ...options, id: "two" } });
  const fallback = createFallbackProvider([first.provider, provider], { telemetry: telemetry as never });
  const look: AgentTool = { name: "look", execute: () => "fine" };
  const updates: string[] = [];
  const content = async (call: Promise<{ content: unknown }>) => (await call).content;
  const kinds = async (stream: ReturnType<typeof provider.stream>) =>
    (await collect(stream)).events.map(({ type }) => type);
  return {
    invoke: await content(provider.invoke(["hi"])),
    updates: [await content(provider.invokeWithUpdates(["hi"], ({ type }) => void updates.push(type))), updates],
    stream: await kinds(provider.stream(["hi"])),
    failed: (await failureOf(provider.invoke(["hi"]))).code,
    fallback: await content(fallback.invoke(["hi"])),
    fallbackStream: await kinds(fallback.stream(["hi"])),
    run: await (async () => {
      const events: string[] = [];
      const run = runAgent({
        provider,
        prompt: "go",
        tools: [look],
        runId: "job",
        checkpoint: createFileCheckpoint({ dir }),
        onEvent: ({ type }) => void events.push(type),
      });
      const { status, output, steps } = await run.result;
      return { status, output, steps, events };
    })(),
  };
}

let plain: ReturnType<typeof everything> | undefined;
/** What it comes to without telemetry, found out once. */
function withoutTelemetry() {
  plain ??= everything(undefined);
  return plain;
}

const telemetryOf = (moods: Moods) => ({ tracer: moody(moods), meter: moody(moods), content: "full" });

it.each([...Object.keys(MOODS), "is none", "can't be read", "works"] as Mood[])(
  "every method %s: everything comes to the same",
  async (mood) => {
    const moods = Object.fromEntries(METHODS.map((method) => [method, mood]));
    expect(await everything(telemetryOf(moods))).toEqual(await withoutTelemetry());
  },
);

it("whatever any method does, everything comes to the same", { timeout: 120_000 }, async () => {
  const plain = await withoutTelemetry();
  const mood = fc.constantFrom<Mood>(...(Object.keys(MOODS) as Mood[]), "is none", "can't be read");
  const moods = fc.dictionary(fc.constantFrom(...METHODS), mood, { minKeys: 1 });
  await fc.assert(
    fc.asyncProperty(moods, async (moods) => {
      expect(await everything(telemetryOf(moods))).toEqual(plain);
    }),
    { numRuns: ALL ? 40 : 12 },
  );
});
