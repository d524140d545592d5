// @change
/** `createAgent` of LangChain over the real claude and the real codex: tools, answers by a schema, streaming. */
import { AIMessageChunk, HumanMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { CHAT_CLIS, chatApi, TWO_CLIS } from "../support/chat-models.mjs";
import { shareOf } from "../support/harness.mjs";
import { createAgent, tool, toolStrategy } from "../support/langchain.mjs";

const WEATHER = { name: "weather", description: "The weather of a city", schema: z.object({ city: z.string() }) };
const weather = tool(({ city }: { city: string }) => `${city}: 18 degrees`, WEATHER);
const ASK = { messages: [{ role: "user" as const, content: "How is the weather in Rome and in Oslo?" }] };
const CALLS = [
  { name: "weather", args: { city: "Rome" } },
  { name: "weather", args: { city: "Oslo" } },
];

/** Who said what. */
const transcript = (messages: { type: string; text: string }[]) => messages.map(({ type, text }) => `${type}: ${text}`);

describe.each(CHAT_CLIS)("createAgent over $name", ({ cast }) => {
  it("runs tools until the model has its answer", async () => {
    const { model, api } = await cast([{ text: "Let me look.", calls: CALLS }, { text: "18 degrees in both." }]);
    const agent = createAgent({ model, tools: [weather], systemPrompt: "You are a weather desk." });
    const { messages } = await agent.invoke(ASK);
    expect(transcript(messages)).toEqual([
      "human: How is the weather in Rome and in Oslo?",
      "ai: Let me look.",
      "tool: Rome: 18 degrees",
      "tool: Oslo: 18 degrees",
      "ai: 18 degrees in both.",
    ]);
    expect(new Set(messages.map(({ id }: { id: string }) => id)).size).toBe(messages.length);
    expect(api.requests).toHaveLength(2);
    expect(JSON.stringify(api.requests[0]?.body)).toContain("You are a weather desk.");
  });
});

// Each of these by one of both: what LangChain does with a reply is its own.
describe.each(shareOf(TWO_CLIS, 1, 2))("createAgent over $name", ({ cast }) => {
  it("gets its answer by a schema from a tool (ToolStrategy)", async () => {
    const { model } = await cast([{ calls: [{ name: "report", args: { city: "Rome", degrees: 18 } }] }]);
    const schema = {
      title: "report",
      type: "object",
      properties: { city: { type: "string" }, degrees: { type: "number" } },
      required: ["city", "degrees"],
    };
    const agent = createAgent({ model, tools: [weather], responseFormat: toolStrategy(schema) });
    const { structuredResponse } = await agent.invoke(ASK);
    expect(structuredResponse).toEqual({ city: "Rome", degrees: 18 });
  });
});

describe.each(shareOf(TWO_CLIS, 0, 2))("createAgent over $name", ({ cast }) => {
  it("streams messages and updates", async () => {
    const { model } = await cast([{ text: "Let me look.", calls: CALLS }, { text: "18 degrees in both." }]);
    const agent = createAgent({ model, tools: [weather] });
    const pieces: string[] = [];
    const steps: string[] = [];
    for await (const [mode, event] of await agent.stream(ASK, { streamMode: ["messages", "updates"] })) {
      if (mode === "updates") steps.push(...Object.keys(event as object));
      else {
        const [message] = event as [{ text: string; type: string }, unknown];
        if (message instanceof AIMessageChunk && message.text) pieces.push(message.text);
      }
    }
    expect(pieces.join("")).toBe("Let me look.18 degrees in both.");
    expect(steps).toEqual(["model_request", "tools", "tools", "model_request"]);
  });

  it("streams its state, what its tools write, and its tasks", async () => {
    const { model } = await cast([{ text: "Let me look.", calls: CALLS }, { text: "18 degrees in both." }]);
    const writing = tool(({ city }: { city: string }, config: { writer?: (chunk: unknown) => void }) => {
      config.writer?.(`asked for ${city}`);
      return `${city}: 18 degrees`;
    }, WEATHER);
    const agent = createAgent({ model, tools: [writing] });
    const states: number[] = [];
    const written: unknown[] = [];
    const tasks: string[] = [];
    for await (const [mode, event] of await agent.stream(ASK, { streamMode: ["values", "custom", "tasks"] })) {
      if (mode === "values") states.push((event as { messages: unknown[] }).messages.length);
      else if (mode === "custom") written.push(event);
      else if ("input" in (event as object)) tasks.push((event as { name: string }).name);
    }
    // The question; the model's calls; both results; the answer.
    expect(states).toEqual([1, 2, 4, 5]);
    expect(written.sort()).toEqual(["asked for Oslo", "asked for Rome"]);
    expect(tasks).toEqual(["model_request", "tools", "tools", "model_request"]);
  });
});

describe("what LangChain tells of a run", () => {
  it("streamEvents (v2) has the start, the pieces, the tools and the end", async () => {
    const { model } = await chatApi([
      { calls: [{ id: "call_a", name: "weather", args: { city: "Rome" } }] },
      { chunks: ["18 ", "degrees"] },
    ]);
    const agent = createAgent({ model, tools: [weather] });
    const events: string[] = [];
    const pieces: string[] = [];
    for await (const { event, data } of agent.streamEvents(ASK, { version: "v2" })) {
      if (/^on_(chat_model|tool)_/.test(event) && events.at(-1) !== event) events.push(event);
      if (event === "on_chat_model_stream") pieces.push(data.chunk.text);
    }
    expect(events).toEqual([
      ...["on_chat_model_start", "on_chat_model_stream", "on_chat_model_end"],
      ...["on_tool_start", "on_tool_end"],
      ...["on_chat_model_start", "on_chat_model_stream", "on_chat_model_end"],
    ]);
    expect(pieces.join("")).toBe("18 degrees");
  });

  it("an answer by a schema is asked for as the provider's own (ProviderStrategy), for the profile says so", async () => {
    const { model } = await chatApi([{ text: '{"city":"Rome","degrees":18}' }]);
    const agent = createAgent({ model, responseFormat: z.object({ city: z.string(), degrees: z.number() }) });
    const { structuredResponse, messages } = await agent.invoke({ messages: [new HumanMessage("Rome?")] });
    expect(structuredResponse).toEqual({ city: "Rome", degrees: 18 });
    expect(messages).toHaveLength(2);
  });

  it("a model whose tools are bound is refused, as LangChain refuses it", async () => {
    const { model } = await chatApi([]);
    const agent = () => createAgent({ model: model.bindTools([weather]), tools: [weather] }).invoke(ASK);
    await expect((async () => agent())()).rejects.toThrow(/bound/);
  });
});
