// @release
/** What LangChain's standard tests ask of any chat model that calls tools, of the real claude and the real codex. */
import { AIMessage, type AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { RunnableLambda } from "@langchain/core/runnables";
import { type StructuredToolParams, tool } from "@langchain/core/tools";
import { toJsonSchema } from "@langchain/core/utils/json_schema";
import { concat } from "@langchain/core/utils/stream";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { STANDARD_CLIS } from "../../support/chat-models.mjs";

const numbers = z.object({ a: z.number().int().describe("The first"), b: z.number().int().describe("The second") });
const place = z.object({ location: z.string().describe("The city") });
const adder = tool(({ a, b }) => JSON.stringify({ result: a + b }), {
  name: "adder",
  description: "Adds two integers",
  schema: numbers,
});
const weather = tool(() => "It is 24 degrees.", { name: "weather", description: "The weather", schema: place });
const clock = tool(() => "It is 12:02.", { name: "clock", description: "The time", schema: place });

const ADD = { calls: [{ name: "adder", args: { a: 1, b: 2 } }] };
const LOOK = { calls: [{ name: "weather", args: { location: "Rome" } }] };
const prompt = ChatPromptTemplate.fromMessages([
  ["system", "Always call {toolName}."],
  ["human", "What is 1 + 2?"],
]);

async function whole(stream: AsyncIterable<AIMessageChunk>) {
  let sum: AIMessageChunk | undefined;
  for await (const chunk of stream) sum = sum ? concat(sum, chunk) : chunk;
  if (sum === undefined) throw new Error("the stream was empty");
  return sum;
}

describe.each(STANDARD_CLIS)("$name", ({ cast }) => {
  it("calls a tool once, by its name, with its arguments and an id", async () => {
    const { model } = await cast([ADD]);
    const result = await model.bindTools([adder]).invoke("What is adder(1, 2)?");
    expect(result).toBeInstanceOf(AIMessage);
    expect(result.tool_calls).toEqual([{ ...ADD.calls[0], id: expect.stringMatching(/./), type: "tool_call" }]);
  });

  it.each([
    [
      "made of a runnable",
      RunnableLambda.from(() => "").asTool({ name: "adder", description: "adds", schema: numbers }),
    ],
    ["in OpenAI's form", { type: "function", function: { name: "adder", parameters: toJsonSchema(numbers) } }],
    ["with parameters only", { name: "adder", description: "adds", schema: numbers } satisfies StructuredToolParams],
  ])("calls a tool %s", async (_, bound) => {
    const { model } = await cast([ADD, ADD]);
    const withTools = model.bindTools([bound as never]);
    const result = await prompt.pipe(withTools).invoke({ toolName: "adder" });
    expect(result.tool_calls).toMatchObject([{ name: "adder", args: { a: 1, b: 2 }, id: expect.any(String) }]);
    const streamed = await whole(await withTools.stream("What is 1 + 2?"));
    expect(streamed.tool_calls).toMatchObject([{ name: "adder", args: { a: 1, b: 2 }, type: "tool_call" }]);
  });

  it.each([
    ["a string", ""],
    [
      "blocks",
      [
        { type: "text", text: "some text" },
        { type: "tool_use", id: "abc123", name: "adder", input: { a: 1, b: 2 } },
      ],
    ],
  ])("goes on with a thread whose call stands in %s", async (_, content) => {
    const { model, api } = await cast([{ text: "3" }]);
    const thread = [
      new HumanMessage("What is 1 + 2?"),
      new AIMessage({
        content,
        tool_calls: [{ name: "adder", args: { a: 1, b: 2 }, id: "abc123", type: "tool_call" }],
      }),
      new ToolMessage({ content: '{"result":3}', tool_call_id: "abc123", name: "adder" }),
    ];
    expect((await model.bindTools([adder]).invoke(thread)).text).toBe("3");
    expect(JSON.stringify(api.requests[0]?.body)).toContain("abc123");
  });

  it("takes examples with calls in them", async () => {
    const { model } = await cast([{ text: "7" }]);
    const thread = [
      new HumanMessage("What is 1 + 2?"),
      new AIMessage({ content: "", tool_calls: [{ name: "adder", args: { a: 1, b: 2 }, id: "abc123" }] }),
      new ToolMessage({ content: '{"result":3}', tool_call_id: "abc123", name: "adder" }),
      new AIMessage("3"),
      new HumanMessage("What is 3 + 4?"),
    ];
    expect(await model.bindTools([adder]).invoke(thread)).toBeInstanceOf(AIMessage);
  });

  it("streams calls and usage", async () => {
    const { model } = await cast([ADD]);
    const result = await whole(await prompt.pipe(model.bindTools([adder])).stream({ toolName: "adder" }));
    expect(result).toMatchObject({
      tool_calls: [{ name: "adder", args: { a: 1, b: 2 } }],
      usage_metadata: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    });
  });

  it.each(["invoke", "stream"] as const)("its own message with a call goes back to it: %s", async (how) => {
    const { model } = await cast([LOOK, { text: "24 degrees." }]);
    const withTools = model.bindTools([weather]);
    const ask = async (thread: BaseMessage[]): Promise<AIMessage | AIMessageChunk> =>
      how === "invoke" ? await withTools.invoke(thread) : await whole(await withTools.stream(thread));
    const thread: BaseMessage[] = [new HumanMessage("How is the weather in Rome?")];
    const asked = await ask(thread);
    const [call] = asked.tool_calls ?? [];
    if (call === undefined) throw new Error("no call");
    thread.push(asked, await weather.invoke({ ...call, type: "tool_call" }));
    expect((await ask(thread)).text).toBe("24 degrees.");
  });

  it("calls several tools at once, whole and streamed, and takes all results", async () => {
    const both = { calls: [...LOOK.calls, { name: "clock", args: { location: "Rome" } }] };
    const { model } = await cast([both, both, { text: "24 degrees, 12:02." }]);
    const withTools = model.bindTools([weather, clock]);
    const question = new HumanMessage("The weather and the time in Rome?");
    const asked = await withTools.invoke([question]);
    const streamed = await whole(await withTools.stream([question]));
    for (const { tool_calls } of [asked, streamed]) {
      expect(tool_calls?.map(({ name }) => name)).toEqual(["weather", "clock"]);
      expect(new Set(tool_calls?.map(({ id }) => id)).size).toBe(2);
    }
    const results = (asked.tool_calls ?? []).map(
      ({ id = "", name }) => new ToolMessage({ tool_call_id: id, name, content: `${name}: fine` }),
    );
    const answer = await withTools.invoke([question, asked, ...results]);
    expect([answer.tool_calls, answer.text]).toEqual([[], "24 degrees, 12:02."]);
  });
});
