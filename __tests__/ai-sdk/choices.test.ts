// @change
/**
 * What a call of the AI SDK chooses: it is the provider's choice of that call, or the call says that it was left out; and answers by a schema:
 * the provider's `outputSchema`, and so checked before they are answers.
 */
import { generateText, type ModelMessage, NoObjectGeneratedError, Output, stepCountIs, streamText, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { formOf, LIVE, sharingStart } from "../support/ai-sdk.mjs";
import { ALL } from "../support/harness.mjs";

const add = tool({ description: "Adds", inputSchema: z.object({ a: z.number() }), execute: ({ a }) => a });
const CALL = { id: "call_1", name: "add", args: { a: 1 } };

const schema = z.object({ city: z.string(), degrees: z.number() });
const VALUE = { city: "Oslo", degrees: -3 };
const given = (value: object) => ({ text: JSON.stringify(value) });

/** Where one CLI is as good as another: codex, which starts soon. What claude makes of a choice is in `choices/tool-choice.test.ts`. */
const ONE_LIVE = (ALL ? LIVE : [formOf("codex, live")]).map((form) => ({ ...form, start: sharingStart(form) }));

describe.each(ONE_LIVE)("toolChoice: $name", ({ start }) => {
  it("a call that is required is asked for once more, and what was said instead is no part of the answer", async () => {
    const { model, api } = await start([{ text: "No need." }, { calls: [CALL] }]);
    const result = streamText({ model: model(), tools: { add }, toolChoice: "required", prompt: "1?" });
    expect(await result.text).toBe("");
    expect((await result.toolCalls).map(({ toolName }) => toolName)).toEqual(["add"]);
    expect(api.requests).toHaveLength(2);
  });

  it("a call that is never made is an error that says so", async () => {
    const { model } = await start(() => ({ text: "No." }));
    const choice = { type: "tool", toolName: "add" } as const;
    const error = await generateText({ model: model(), tools: { add }, toolChoice: choice, prompt: "1?" }).catch(
      (it) => it,
    );
    expect(error).toMatchObject({ name: "AI_APICallError", isRetryable: false, data: { code: "TOOL_CHOICE_UNMET" } });
  });

  it("with none, no tools are offered, or the API lets the model call none", async () => {
    const { model, api } = await start([{ text: "Yes." }]);
    await generateText({ model: model(), tools: { add }, toolChoice: "none", prompt: "1?" });
    const { tools = [], tool_choice } = api.requests[0]?.body ?? {};
    expect(JSON.stringify(tools).includes('"Adds"')).toBe(tool_choice?.type === "none");
  });
});

// One conversation, which is one process, takes on what each of its calls chooses.
describe("settings of a conversation with claude", () => {
  const form = formOf("claude, live");

  it("that the CLI has are handed over; those that it has not, or that have no effect, are told or refused; with none, the API lets the model call no tool; an answer by a schema comes behind calls", async () => {
    const { model, api } = await form.start((_, index) => {
      if (index < 5) return { text: "Yes." };
      return index === 5 ? { calls: [CALL] } : given(VALUE);
    });
    const messages: ModelMessage[] = [];
    const next = async (settings: object) => {
      messages.push({ role: "user", content: "Hi" });
      const result = await generateText({ model: model(), tools: { add }, messages, ...settings });
      messages.push({ role: "assistant", content: result.text });
      expect(result.providerMetadata?.deepFactor?.run).toMatchObject({ continued: messages.length > 2 });
      return result.warnings;
    };
    const settings = { maxOutputTokens: 1234, stopSequences: ["END"] };
    const providerOptions = { deepFactor: { reasoning: { effort: "low" } } };
    expect(await next({ ...settings, providerOptions })).toEqual([]);
    expect(api.requests[0]?.body).toMatchObject({
      max_tokens: 1234,
      stop_sequences: ["END"],
      output_config: { effort: "low" },
    });

    const expected = [{ type: "unsupported", feature: "temperature", details: expect.stringContaining("claude") }];
    expect(await next({ temperature: 0 })).toEqual(expected);
    messages.push({ role: "user", content: "Hi" });
    const streamed = streamText({ model: model(), tools: { add }, messages, temperature: 0 });
    expect(await streamed.warnings).toEqual(expected);
    messages.push({ role: "assistant", content: await streamed.text });
    const strictly = { deepFactor: { onUnsupported: "error" } };
    const refused = next({ temperature: 0, providerOptions: strictly });
    expect(await refused.catch((it) => it)).toMatchObject({ data: { code: "UNSUPPORTED_OPTION" } });
    messages.pop();
    expect(api.requests).toHaveLength(3);

    const details = expect.stringContaining("always thinks");
    const off = { providerOptions: { deepFactor: { reasoning: "off" } } };
    expect(await next(off)).toEqual([{ type: "unsupported", feature: "reasoning", details }]);

    await next({ toolChoice: "none" });
    const { tools = [], tool_choice } = api.requests[4]?.body ?? {};
    expect(JSON.stringify(tools).includes('"Adds"')).toBe(tool_choice?.type === "none");

    // Where its answer has a schema, calls come first and the value last.
    messages.push({ role: "user", content: "Oslo?" });
    const output = Output.object({ schema });
    const result = await generateText({ model: model(), tools: { add }, messages, stopWhen: stepCountIs(4), output });
    expect(result.output).toEqual(VALUE);
    expect(result.steps).toHaveLength(2);
    for (const { providerMetadata } of result.steps) {
      expect(providerMetadata?.deepFactor?.run).toMatchObject({ continued: true });
    }
  });
});

describe("answers by a schema", () => {
  describe.each(ONE_LIVE)("$name", ({ start }) => {
    it("an object is a value of the schema", async () => {
      const { model } = await start([given(VALUE), { text: "Done." }], { mayRunOut: true });
      const result = await generateText({ model: model(), output: Output.object({ schema }), prompt: "Oslo?" });
      expect(result.output).toEqual(VALUE);
      expect(result.text).toBe(JSON.stringify(VALUE));
    });

    it("streams as one value that was checked", async () => {
      const { model } = await start([given(VALUE), { text: "Done." }], { mayRunOut: true });
      const result = streamText({ model: model(), output: Output.object({ schema }), prompt: "Oslo?" });
      const values: unknown[] = [];
      for await (const value of result.partialOutputStream) values.push(value);
      expect(values).toEqual([VALUE]);
      expect(await result.output).toEqual(VALUE);
    });
  });

  // claude's is in the conversation above.
  describe.each(ONE_LIVE)("$name", ({ start }) => {
    it("calls come first, the value last", async () => {
      const call = { id: "call_1", name: "weather", args: { city: "Oslo" } };
      const { model } = await start([{ calls: [call] }, given(VALUE), { text: "Done." }], { mayRunOut: true });
      const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: () => -3 });
      const result = await generateText({
        model: model(),
        tools: { weather },
        stopWhen: stepCountIs(4),
        output: Output.object({ schema }),
        prompt: "Oslo?",
      });
      expect(result.output).toEqual(VALUE);
      expect(result.steps).toHaveLength(2);
    });
  });

  it("a reply that never fits is no object", async () => {
    const { model, api } = await formOf("codex, live").start(() => ({ text: "It is cold." }));
    const error = await generateText({ model: model(), output: Output.object({ schema }), prompt: "Oslo?" }).catch(
      (it) => it,
    );
    expect(NoObjectGeneratedError.isInstance(error)).toBe(false);
    expect(error).toMatchObject({ name: "AI_APICallError", isRetryable: false, data: { code: "OUTPUT_INVALID" } });
    expect(api.requests).toHaveLength(2);
  });

  it("arrays and choices are objects to the provider; JSON without a schema is asked for in words", async () => {
    const replies = [{ elements: [VALUE] }, { result: "cold" }];
    const { model, heard } = await formOf("codex, live").start([
      ...replies.map((reply) => ({ text: JSON.stringify(reply) })),
      { text: "```json\n[1, 2]\n```" },
    ]);
    const all = await generateText({ model: model(), output: Output.array({ element: schema }), prompt: "All?" });
    expect(all.output).toEqual([VALUE]);
    const how = await generateText({
      model: model(),
      output: Output.choice({ options: ["cold", "warm"] }),
      prompt: "How?",
    });
    expect(how.output).toBe("cold");
    const json = await generateText({ model: model(), output: Output.json(), prompt: "Numbers?" });
    expect(json.output).toEqual([1, 2]);
    expect(json.warnings).toEqual([expect.objectContaining({ type: "compatibility", feature: "responseFormat" })]);
    expect(heard(2)).toContain("one JSON value");
  });
});
