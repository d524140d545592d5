/** Choices that can't be had: refused by name before anything starts, or left out, and told. */
import {
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createFallbackProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createOpenCodeCliProvider,
  type LogRecord,
  type ProviderEvent,
} from "deep-factor-providers";
import { createClaudeCliProvider as createPlain } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "../api/setup.js";
import { createFakes } from "../support/fake.mjs";

const NOWHERE = { cliPath: "/nowhere/at-all" };
const step = { name: "step", description: "Takes a step", schema: { type: "object" } };

/** A CLI that answers at once, as codex would. */
function answering() {
  const fakes = createFakes();
  onTestFinished(() => fakes.cleanup());
  const lines = [
    { type: "thread.started", thread_id: "t" },
    { type: "item.completed", item: { id: "i", type: "agent_message", text: "ok" } },
    { type: "turn.completed", usage: { input_tokens: 1, output_tokens: 1 } },
  ];
  const print = lines.map((line) => `printf '%s\\n' '${JSON.stringify(line)}'`).join("; ");
  return fakes.shell("codex", `cat >/dev/null; ${print}`);
}

const ILL_TYPED: [object, string][] = [
  [{ model: 5 }, 'option "model" must be a string that does not begin with "-"; given: 5'],
  [{ model: "--x" }, 'option "model" must be a string that does not begin with "-"; given: "--x"'],
  [{ temperature: 2.5 }, 'option "temperature" must be a number from 0 to 2; given: 2.5'],
  [{ temperature: Number.NaN }, 'option "temperature" must be a number from 0 to 2; given: NaN'],
  [{ maxOutputTokens: 1.5 }, 'option "maxOutputTokens" must be a whole number from 1 to 9007199254740992; given: 1.5'],
  [{ stop: [""] }, 'option "stop" must be an array of strings that are not empty; given: an array [a string]'],
  [{ reasoning: { effort: "a b" } }, 'option "reasoning.effort" must be a word of letters, digits, "-" and "_"'],
  [
    { reasoning: { effort: "lots" } },
    'option "reasoning.effort" must be one of "low", "medium", "high", "xhigh", "max"',
  ],
  [{ reasoning: { efort: "low" } }, 'unknown option "reasoning.efort": did you mean "reasoning.effort"?'],
  [{ onUnsupported: "ignore" }, 'option "onUnsupported" must be one of "error", "warn"; given: "ignore"'],
];

describe("a choice that is none", () => {
  it.each(ILL_TYPED)("is refused by its name: %j", async (choice, message) => {
    const model = createClaudeCliProvider(NOWHERE);
    const invalid = { code: "INVALID_OPTION", attempts: 0, message: expect.stringContaining(message) };
    await expect(model.invoke(["go"], choice)).rejects.toMatchObject(invalid);
    await expect(model.invokeWithUpdates(["go"], () => {}, choice)).rejects.toMatchObject(invalid);
    await expect(model.stream(["go"], choice).next()).rejects.toMatchObject(invalid);
    await expect(createPlain(NOWHERE).invoke(["go"], choice)).rejects.toMatchObject(invalid);
    expect(() => createClaudeCliProvider({ ...NOWHERE, ...choice })).toThrow(message);
  });

  it.each([
    [
      { toolChoice: "required" },
      'option "toolChoice" must be one of "auto", "none", "any", or an object { name } of a bound tool',
    ],
    [{ toolChoice: { name: "step", more: 1 } }, 'option "toolChoice" must be one of "auto", "none", "any"'],
    [{ toolChoice: { name: "other" } }, 'option "toolChoice.name" must be a tool that is bound (step); given: "other"'],
  ])("is refused by its name: %j", async (choice, message) => {
    const model = createClaudeCliProvider(NOWHERE).bindTools([step]);
    const call = model.invoke(["go"], choice as never);
    await expect(call).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringContaining(message) });
  });

  it("is a tool where there are none", async () => {
    for (const provider of [createClaudeCliProvider(NOWHERE), (await withApi()).provider]) {
      await expect(provider.invoke(["go"], { toolChoice: "any" })).rejects.toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringContaining('option "toolChoice" is "any", and no tools are bound'),
      });
    }
  });

  it("is a model that a CLI of one's own does not list, or is never told", async () => {
    const config = {
      providerId: "mine",
      command: "mine",
      defaultArgs: [],
      outputFormat: "text",
      promptStyle: "stdin",
      maxTokens: 1,
      timeout: 1000,
    } as const;
    const listed = { ...config, models: [{ modelId: "a", name: "A" }], defaultModel: "a" };
    await expect(
      createCliProvider({ ...listed, modelArgs: ["-m"] }, NOWHERE).invoke(["go"], { model: "b" }),
    ).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringContaining("the config's models (a)") });
    await expect(createCliProvider(config, NOWHERE).invoke(["go"], { model: "b" })).rejects.toMatchObject({
      code: "UNSUPPORTED_OPTION",
      message: expect.stringContaining('option "model" is not supported by mine'),
    });
  });
});

describe("a choice that can't be had", () => {
  it("is refused with the provider's name, its engine, and those that can", async () => {
    const codex = createCodexCliProvider({ ...NOWHERE, engine: "live" });
    const call = codex.invoke(["go"], { temperature: 0, onUnsupported: "error" });
    await expect(call).rejects.toMatchObject({
      code: "UNSUPPORTED_OPTION",
      message: expect.stringMatching(
        /^option "temperature" is not supported by codex's live engine; those that can: .*an OpenAI-compatible API\. Leave it out/,
      ),
    });
  });

  it("is refused when the provider is created, if it is the provider's", () => {
    const refused = expect.objectContaining({ code: "UNSUPPORTED_OPTION", provider: "glm" });
    expect(() => createGlmCliProvider({ reasoning: { effort: "low" } })).toThrow(refused);
    expect(() => createGlmCliProvider({ temperature: 0, onUnsupported: "error" })).toThrow(refused);
    createGlmCliProvider({ temperature: 0 });
    createGlmCliProvider({ reasoning: { effort: "low" }, onUnsupported: "warn" });
  });

  it("is left out where it is a hint, and told in an event and a record", async () => {
    const records: LogRecord[] = [];
    const codex = createCodexCliProvider({
      cliPath: answering(),
      engine: "print",
      temperature: 0,
      logger: (record) => records.push(record),
    });
    const events: ProviderEvent[] = [];
    for await (const event of codex.stream(["go"], { stop: ["END"] })) events.push(event);
    const warnings = events.flatMap((event) => (event.type === "warning" ? [event] : []));
    expect(warnings.map(({ code, message }) => [code, message])).toEqual([
      [
        "UNSUPPORTED_OPTION",
        expect.stringMatching(/^option "stop" is not supported by codex's print engine; .*: it was left out$/),
      ],
      ["UNSUPPORTED_OPTION", expect.stringMatching(/^option "temperature" is not supported .*: it was left out$/)],
    ]);
    const told = records.filter(({ level }) => level === "warn");
    expect(told.map(({ fields }) => fields.code)).toEqual(["UNSUPPORTED_OPTION", "UNSUPPORTED_OPTION"]);
    // The call says how it is.
    const strict = codex.invoke(["go"], { onUnsupported: "error" });
    await expect(strict).rejects.toMatchObject({ code: "UNSUPPORTED_OPTION" });
  });

  it("is one that only some options allow", async () => {
    const gemini = createGeminiCliProvider({ ...NOWHERE, cwd: "/" });
    const call = gemini.invoke(["go"], { temperature: 0, onUnsupported: "error" });
    await expect(call).rejects.toMatchObject({
      code: "UNSUPPORTED_OPTION",
      message: expect.stringContaining(
        'option "temperature" is not supported by gemini with `cwd`; those that can: gemini, ',
      ),
    });
  });

  it("is the next provider's to have", async () => {
    const { api, provider } = await withApi({ script: [{ text: "from the API" }] });
    const fallback = createFallbackProvider([createOpenCodeCliProvider(NOWHERE), provider]);
    const message = await fallback.invoke(["go"], { stop: ["END"], temperature: 0, onUnsupported: "error" });
    expect(message.content).toBe("from the API");
    expect(api.requests[0]?.body).toMatchObject({ stop: ["END"], temperature: 0 });
    expect(message.response_metadata.fallback).toMatchObject({
      skipped: [{ provider: "opencode", code: "UNSUPPORTED_OPTION", message: expect.any(String) }],
    });
  });
});
