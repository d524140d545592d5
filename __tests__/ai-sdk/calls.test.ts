// @change
/** What a call of the AI SDK may fail with, how it is ended, and what its settings come to. */
import { APICallError, NoSuchModelError } from "@ai-sdk/provider";
import {
  type CallWarning,
  createProviderRegistry,
  generateText,
  type LanguageModelMiddleware,
  type ModelMessage,
  RetryError,
  stepCountIs,
  streamText,
  type ToolSet,
  tool,
  wrapLanguageModel,
} from "ai";
import { createFallbackProvider, type ProviderError } from "deep-factor-providers";
import { claudeCli, cli, codexCli, createCliRegistry } from "deep-factor-providers/ai-sdk";
import { createScriptedProvider } from "deep-factor-providers/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { formOf, LIVE, sharingStart } from "../support/ai-sdk.mjs";
import { ALL, createProvider, withClaude } from "../support/harness.mjs";
import { startSdk } from "../support/telemetry.mjs";

/** Where one CLI is as good as another: codex, which starts soon. */
const ONE_LIVE = (ALL ? LIVE : [formOf("codex, live")]).map((form) => ({ ...form, start: sharingStart(form) }));
/** What goes on behind an answer to `Hi`, in the process that has given it. */
const on = (answer: string): ModelMessage[] => [
  { role: "user", content: "Hi" },
  { role: "assistant", content: answer },
  { role: "user", content: "And now?" },
];
/** The features that were warned of, beside what codex says of a model that it does not know: the scripted API's. */
const featuresOf = (warnings: CallWarning[] = []) =>
  warnings
    .filter((warning) => !(warning.type === "other" && warning.message.startsWith("CLI_")))
    .map((warning) => "feature" in warning && warning.feature);
const failureOf = (call: PromiseLike<unknown>) =>
  Promise.resolve(call).then(
    () => undefined,
    (error: unknown) => error,
  );

it.each(ONE_LIVE)(
  "models that differ only in their tracer are two, and each tracer has the spans of its own: $name",
  async ({ start }) => {
    const { model } = await start(() => ({ text: "Hello." }));
    const sdks = [startSdk(), startSdk()];
    for (const { tracer } of sdks) await generateText({ model: model({ telemetry: { tracer } }), prompt: "Hi" });
    // Whether a CLI warned in it is its own matter.
    const chat = `chat ${model().modelId}`;
    expect(sdks.map(({ trees }) => trees().map(({ name }) => name))).toEqual([[chat], [chat]]);
  },
);

describe("errors", () => {
  it.each(ONE_LIVE)("are APICallErrors that say what happened, and whether to ask again: $name", async (form) => {
    const { model } = await form.start([{ error: { status: 529, message: "Overloaded" } }]);
    const error = await failureOf(generateText({ model: model(), prompt: "Hi", maxRetries: 0 }));
    if (!APICallError.isInstance(error)) throw error;
    expect(error).toMatchObject({
      name: "AI_APICallError",
      isRetryable: true,
      statusCode: 529,
      url: `cli:${form.cli}/${model().modelId}`,
      requestBodyValues: { model: model().modelId },
      data: { code: "OVERLOADED", category: "server", attempts: 1 },
    });
    expect((error.cause as ProviderError).code).toBe("OVERLOADED");
    expect(JSON.stringify(error)).not.toContain("Hi");
  });

  it.each(ONE_LIVE)(
    "are tried again by the AI SDK alone: two further attempts are two further requests: $name",
    async ({ start }) => {
      const { model, api } = await start((_, index) =>
        index < 2
          ? { error: { status: 529, message: "Overloaded", headers: { "retry-after": "1" } } }
          : { text: "Now." },
      );
      expect((await generateText({ model: model(), prompt: "Hi" })).text).toBe("Now.");
      expect(api.requests).toHaveLength(3);
    },
  );

  it.each(ONE_LIVE)("are tried again by the provider alone where `retry` is given: $name", async ({ start }) => {
    const { model, api } = await start(() => ({ error: { status: 529, message: "Overloaded" } }));
    const retry = { maxAttempts: 2, baseDelayMs: 1 };
    const error = await failureOf(generateText({ model: model({ retry }), prompt: "Hi" }));
    expect(RetryError.isInstance(error)).toBe(false);
    expect(error).toMatchObject({ isRetryable: false, data: { code: "OVERLOADED", attempts: 2 } });
    expect(api.requests).toHaveLength(2);
  });

  it.each(ONE_LIVE)(
    "are final where asking again is of no use, and no limit of the caller's is spent twice: $name",
    async ({ start }) => {
      const { model, api } = await start([{ error: { status: 401, message: "no" } }, { hang: true }]);
      expect(await failureOf(generateText({ model: model(), prompt: "Hi" }))).toMatchObject({
        isRetryable: false,
        statusCode: 401,
      });
      expect(
        await failureOf(
          generateText({ model: model(), prompt: "Hi", providerOptions: { deepFactor: { timeout: 3000 } } }),
        ),
      ).toMatchObject({ isRetryable: false, data: { code: "TIMEOUT", attempts: 1 } });
      // The second may have ended before its CLI had asked.
      expect(api.requests.length).toBeLessThanOrEqual(2);
    },
  );

  it.each(ONE_LIVE)(
    "reject a stream before its first part, and are parts of it afterwards: $name",
    async ({ start }) => {
      let cut = () => {};
      const cutWhen = new Promise<void>((resolve) => {
        cut = resolve;
      });
      const { model } = await start([
        { error: { status: 401, message: "no" } },
        { chunks: ["One ", "two"], cutAfter: 5, cutWhen },
      ]);
      const call = { prompt: [{ role: "user" as const, content: [{ type: "text", text: "Hi" }] }] };
      expect(APICallError.isInstance(await failureOf(model().doStream(call)))).toBe(true);
      const { stream } = await model().doStream(call);
      const types: string[] = [];
      for await (const part of stream) {
        types.push(part.type);
        if (part.type === "text-delta") cut();
        if (part.type === "error") {
          expect(APICallError.isInstance(part.error)).toBe(true);
          expect(part.error).toMatchObject({
            data: { category: "network", partial: { text: expect.stringContaining("One") } },
          });
        }
      }
      expect(types.slice(0, 4)).toEqual(["stream-start", "response-metadata", "text-start", "text-delta"]);
      expect(types.at(-1)).toBe("error");
    },
  );
});

describe.each(ONE_LIVE)("abort: $name", ({ start }) => {
  it("ends generateText with the signal's reason", async () => {
    const { model, api } = await start([{ hang: true }]);
    const abort = new AbortController();
    const call = failureOf(generateText({ model: model(), prompt: "Hi", abortSignal: abort.signal }));
    await api.waitForRequest(1);
    const reason = new DOMException("enough", "AbortError");
    abort.abort(reason);
    expect(await call).toBe(reason);
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it("ends streamText with an abort part", async () => {
    const { model, api } = await start([{ chunks: ["One ", "two ", "three"], hangAfter: 5 }]);
    const abort = new AbortController();
    const types = new Set<string>();
    const result = streamText({ model: model(), prompt: "Hi", abortSignal: abort.signal });
    for await (const part of result.fullStream) {
      types.add(part.type);
      if (part.type === "text-delta") abort.abort();
    }
    expect(types).toContain("abort");
    expect(types).not.toContain("error");
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });

  it("a stream that is left ends its call", async () => {
    const { model, api } = await start([{ chunks: ["One ", "two ", "three"], hangAfter: 5 }]);
    const { stream } = await model().doStream({ prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] });
    for await (const part of stream) if (part.type === "text-delta") break;
    expect(await api.requests[0]?.outcome).toBe("aborted");
  });
});

describe("settings", () => {
  const add = { description: "Adds", inputSchema: z.object({ a: z.number() }) };

  it.each(ONE_LIVE)("that no CLI has are warned of, by name: $name", async ({ start }) => {
    const { model } = await start([{ text: "Yes." }, { text: "Yes." }]);
    const tools: ToolSet = { add: tool({ ...add, strict: true, inputExamples: [{ input: { a: 1 } }] }) };
    const settings = {
      ...{ topP: 0.5, topK: 3, presencePenalty: 0.1, frequencyPenalty: 0.1, seed: 7 },
      headers: { "x-own": "1" },
      tools,
    };
    const { warnings } = await generateText({ model: model(), prompt: "Hi", ...settings });
    const expected = [
      ...["topP", "topK", "presencePenalty", "frequencyPenalty", "seed", "headers"],
      ...["strict mode of the tool add", "input examples of the tool add"],
    ];
    expect(featuresOf(warnings)).toEqual(expected);
    const streamed = streamText({ model: model(), messages: on("Yes."), ...settings });
    expect(featuresOf(await streamed.warnings)).toEqual(expected);
  });

  it.each(ONE_LIVE)("a tool of another provider's is left out with a warning: $name", async ({ start }) => {
    const { model } = await start([{ text: "Yes." }]);
    const { warnings } = await model().doGenerate({
      prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
      tools: [{ type: "provider", id: "anthropic.web_search" }],
    });
    expect(featuresOf(warnings)).toEqual(["the provider tool anthropic.web_search"]);
  });

  it("of ours that there are not are refused by name", async () => {
    const error = await failureOf(
      generateText({ model: claudeCli("sonnet"), prompt: "Hi", providerOptions: { deepFactor: { cliPath: "/x" } } }),
    );
    expect(error).toMatchObject({ isRetryable: false, data: { code: "INVALID_OPTION" } });
    expect(String(error)).toContain('no option "cliPath"');
    expect(() => claudeCli("sonnet", { cwdd: "/" } as never)).toThrow(/cwdd/);
    expect(() => claudeCli("sonnet", { model: "opus" } as never)).toThrow(/first argument/);
    expect(() => cli("nobody" as never)).toThrow(/claude, codex/);
  });

  it.each(ONE_LIVE)("raw chunks are the provider's events: $name", async ({ start }) => {
    const { model } = await start([{ text: "Yes." }]);
    const raw: unknown[] = [];
    const result = streamText({ model: model(), prompt: "Hi", includeRawChunks: true });
    for await (const part of result.fullStream) if (part.type === "raw") raw.push(part.rawValue);
    expect(raw).toContainEqual(expect.objectContaining({ type: "done" }));
  });
});

describe("providers", () => {
  it("are the AI SDK's: one for each CLI, and a registry of all; an answer that hit its limit is one with the finish reason `length`", async () => {
    const { options } = await withClaude({
      script: (_, index) => (index < 2 ? { text: "Hello." } : { text: "It begins", stopReason: "max_tokens" }),
    });
    const { model: _, ...own } = options;
    const registry = createCliRegistry({ claude: own });
    onTestFinished(() => registry.close());
    const model = registry.languageModel("claude:sonnet");
    expect(model).toMatchObject({ specificationVersion: "v3", provider: "deep-factor.claude", modelId: "sonnet" });
    expect((await generateText({ model, prompt: "Hi" })).text).toBe("Hello.");
    const theirs = createProviderRegistry({ cli: registry, claude: claudeCli, codex: codexCli });
    const messages = on("Hello.");
    expect((await generateText({ model: theirs.languageModel("cli:claude:sonnet"), messages })).text).toBe("Hello.");
    // The same conversation goes on, in its process. The CLI has the model go on by itself, three times, before it gives up.
    const longer: ModelMessage[] = [
      ...messages,
      { role: "assistant", content: "Hello." },
      { role: "user", content: "Go on" },
    ];
    const result = await generateText({ model, messages: longer });
    expect(result.finishReason).toBe("length");
    expect(result.text).toMatch(/^It begins/);
    expect(result.providerMetadata?.deepFactor).toMatchObject({ error: { code: "MAX_TOKENS" } });
    // Each of both is four requests.
    if (ALL) {
      const streamed = streamText({ model, messages: longer });
      expect(await streamed.text).toBe(result.text);
      expect(await streamed.finishReason).toBe("length");
    }
    expect(theirs.languageModel("codex:gpt-5.5").modelId).toBe("gpt-5.5");
    expect(registry.languageModel("opencode:openai/gpt-5.5").modelId).toBe("openai/gpt-5.5");
    expect(registry.languageModel("qwen").modelId).toBe("default");
    for (const name of ["nobody:x", "toString:x", ""]) {
      expect(() => registry.languageModel(name)).toThrow(
        expect.objectContaining({ name: "AI_NoSuchModelError", message: expect.stringContaining("claude, codex") }),
      );
    }
    const error = await failureOf(Promise.resolve().then(() => claudeCli.embeddingModel("x")));
    expect(NoSuchModelError.isInstance(error)).toBe(true);
    expect(cli("claude")).toBe(claudeCli);
  });

  it("of the caller's own, several as one too: a call that one can't make is the next one's", async () => {
    const provider = createFallbackProvider([
      createProvider({ cliPath: "/nonexistent/claude" }),
      createScriptedProvider(["Second."]),
    ]);
    const result = await generateText({ model: cli(provider)(), prompt: "Hi" });
    expect(result.text).toBe("Second.");
    expect(result.providerMetadata?.deepFactor).toMatchObject({
      provider: "scripted",
      fallback: { index: 1, skipped: [{ code: "CLI_NOT_FOUND" }] },
    });
  });

  it.each(ONE_LIVE)("close what they hold, and start anew: $name", async ({ cli: id, start }) => {
    const { model, api } = await start([{ hang: true }, { text: "Anew." }]);
    const one = model();
    const call = failureOf(generateText({ model: one, prompt: "Hi" }));
    await api.waitForRequest(1);
    await cli(id).close();
    expect(await call).toMatchObject({ isRetryable: false, data: { code: "CLOSED" } });
    expect((await generateText({ model: one, prompt: "Hi" })).text).toBe("Anew.");
  });
});

describe("middleware", () => {
  it.each(ONE_LIVE)("wraps a model as any other: $name", async ({ start }) => {
    const { model, heard } = await start([{ text: "Hello." }, { text: "Hello." }]);
    const middleware: LanguageModelMiddleware = {
      specificationVersion: "v3",
      transformParams: async ({ params }) => ({
        ...params,
        prompt: [{ role: "system", content: "Speak as a pirate." }, ...params.prompt],
      }),
      wrapGenerate: async ({ doGenerate }) => {
        const result = await doGenerate();
        return { ...result, content: [...result.content, { type: "text", text: " Arr." }] };
      },
    };
    const wrapped = wrapLanguageModel({ model: model(), middleware });
    expect((await generateText({ model: wrapped, prompt: "Hi", stopWhen: stepCountIs(2) })).text).toBe("Hello. Arr.");
    expect(heard(0)).toContain("pirate");
    expect(await streamText({ model: wrapped, messages: on("Hello.") }).text).toBe("Hello.");
  });
});
