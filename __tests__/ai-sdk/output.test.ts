// @change
/** Answers by a schema in the AI SDK: the provider's `outputSchema`, and so checked before they are answers. */
import { generateText, NoObjectGeneratedError, Output, stepCountIs, streamText, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { formOf, LIVE } from "../support/ai-sdk.mjs";

const schema = z.object({ city: z.string(), degrees: z.number() });
const VALUE = { city: "Oslo", degrees: -3 };
const given = (value: object) => ({ text: JSON.stringify(value) });

describe.each(LIVE)("$name", ({ start }) => {
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
