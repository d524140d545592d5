// @release
/** Agents of LangChain and of the AI SDK over gemini, qwen and opencode, each the real CLI: a tool is called, its result goes back, an answer comes. */
import { generateText, stepCountIs, streamText, tool } from "ai";
import { cli } from "deep-factor-providers/ai-sdk";
import { ChatGeminiCli, ChatOpenCodeCli, ChatQwenCli } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { withCli } from "../support/harness.mjs";
import { createAgent, tool as langchainTool } from "../support/langchain.mjs";
import { calling } from "../support/model.mjs";

const QUESTION = "How warm is it in Rome?";
const LOOK = { id: "call_1", name: "weather", args: { city: "Rome" } };
const SCRIPT = [calling("Let me look.", [LOOK]), { text: "18 degrees." }];
const described = { description: "The weather of a city" };
const schema = z.object({ city: z.string() });

describe.each([
  ["gemini", ChatGeminiCli],
  ["qwen", ChatQwenCli],
  ["opencode", ChatOpenCodeCli],
] as const)("%s", (name, Model) => {
  it("createAgent of LangChain, whole and streamed", async () => {
    const { api, options } = await withCli(name, { script: [...SCRIPT, ...SCRIPT] });
    const model = new (Model as new (fields: object) => InstanceType<typeof Model>)(options);
    onTestFinished(() => model.close());
    const weather = langchainTool(({ city }: { city: string }) => `${city}: 18 degrees`, {
      name: "weather",
      ...described,
      schema,
    });
    const agent = createAgent({ model, tools: [weather] });
    const thread = { messages: [{ role: "user", content: QUESTION }] };
    const { messages } = await agent.invoke(thread);
    expect(messages.map(({ type, text }: { type: string; text: string }) => `${type}: ${text}`)).toEqual([
      `human: ${QUESTION}`,
      "ai: Let me look.",
      "tool: Rome: 18 degrees",
      "ai: 18 degrees.",
    ]);
    expect(JSON.stringify(api.requests[1]?.body)).toContain("Rome: 18 degrees");
    const nodes: string[] = [];
    for await (const update of await agent.stream(thread, { streamMode: "updates" }))
      nodes.push(...Object.keys(update));
    expect(nodes).toEqual(["model_request", "tools", "model_request"]);
    expect(api.requests).toHaveLength(4);
  });

  it("generateText and streamText of the AI SDK", async () => {
    const { api, options } = await withCli(name, { script: [...SCRIPT, ...SCRIPT] });
    const { model: id, ...rest } = options;
    const model = cli(name)(id as never, rest as never);
    onTestFinished(() => cli(name).close());
    const asked: string[] = [];
    const weather = tool({
      ...described,
      inputSchema: schema,
      execute: async ({ city }) => {
        asked.push(city);
        return `${city}: 18 degrees`;
      },
    });
    const call = { model, tools: { weather }, stopWhen: stepCountIs(3), prompt: QUESTION };
    const { text, steps, totalUsage } = await generateText(call);
    expect({ text, steps: steps.map(({ finishReason }) => finishReason) }).toEqual({
      text: "18 degrees.",
      steps: ["tool-calls", "stop"],
    });
    expect(totalUsage.inputTokens).toBeGreaterThan(0);
    expect(JSON.stringify(api.requests[1]?.body)).toContain("Rome: 18 degrees");
    expect(await streamText(call).text).toBe("18 degrees.");
    expect(asked).toEqual(["Rome", "Rome"]);
    expect(api.requests).toHaveLength(4);
  });
});
