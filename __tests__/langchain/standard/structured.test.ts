// @change
/** What LangChain's standard tests ask of any chat model whose answers fit a schema. */
import { AIMessage } from "@langchain/core/messages";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { toJsonSchema } from "@langchain/core/utils/json_schema";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { chatApi, STANDARD_CLIS } from "../../support/chat-models.mjs";

const numbers = z.object({ a: z.number().int(), b: z.number().int() }).describe("Two integers to add");
const prompt = ChatPromptTemplate.fromMessages([
  ["system", "Always call {toolName}."],
  ["human", "What is 1 + 2?"],
]);
const INPUT = { toolName: "addition" };
const VALUE = { a: 1, b: 2 };
const inCall = { calls: [{ name: "addition", args: VALUE }] };

/** What is told to tracers. */
function listener() {
  const formats: unknown[] = [];
  const handleChatModelStart = (...args: unknown[]) =>
    void formats.push((args[4] as { options: Record<string, unknown> }).options.ls_structured_output_format);
  return { formats, config: { callbacks: [{ handleChatModelStart } as never] } };
}

describe.each(STANDARD_CLIS)("$name, by a call", ({ cast }) => {
  const by = { name: "addition", method: "functionCalling" } as const;

  it("gives a value of the schema, and says so to tracers", async () => {
    const { model } = await cast([inCall]);
    const { formats, config } = listener();
    expect(await prompt.pipe(model.withStructuredOutput(numbers, by)).invoke(INPUT, config)).toEqual(VALUE);
    expect(formats).toEqual([{ kwargs: { method: "functionCalling" }, schema: toJsonSchema(numbers) }]);
  });

  it("gives the message as well", async () => {
    const { model } = await cast([inCall]);
    const runnable = prompt.pipe(model.withStructuredOutput(numbers, { ...by, includeRaw: true }));
    const result = await runnable.invoke(INPUT);
    expect(result).toEqual({ raw: expect.any(AIMessage), parsed: VALUE });
  });

  it("takes a schema with parts that are open", async () => {
    const value = {
      decision: "UseAPI",
      explanation: "It is faster.",
      details: { service: "mine", parameters: { one: "1", two: ["2"] } },
    };
    const { model } = await cast([{ calls: [{ name: "service", args: value }] }]);
    const schema = z.object({
      decision: z.enum(["UseAPI", "UseFallback"]),
      explanation: z.string(),
      details: z.object({ service: z.string(), parameters: z.record(z.string(), z.unknown()) }),
    });
    const runnable = model.withStructuredOutput(schema, { method: "functionCalling", name: "service" });
    expect(await runnable.invoke("Which?")).toEqual(value);
  });
});

describe("by the provider, an API", () => {
  it("gives a value of the schema and the message, and says so to tracers", async () => {
    const text = { text: JSON.stringify(VALUE) };
    const { model } = await chatApi([text, text]);
    const { formats, config } = listener();
    expect(await prompt.pipe(model.withStructuredOutput(numbers)).invoke(INPUT, config)).toEqual(VALUE);
    const raw = model.withStructuredOutput(numbers, { includeRaw: true });
    expect(await prompt.pipe(raw).invoke(INPUT, config)).toEqual({ raw: expect.any(AIMessage), parsed: VALUE });
    const told = { kwargs: { method: "jsonSchema" }, schema: toJsonSchema(numbers) };
    expect(formats).toEqual([told, told]);
  });
});
