// @release
/** LangChain's middleware over chat models of ours: summaries, retries, fallbacks, limits, a human in the loop. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Command, MemorySaver } from "@langchain/langgraph";
import { ProviderError } from "deep-factor-providers";
import { ChatClaudeCli, ChatCodexCli } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { chatApi, TWO_CLIS } from "../support/chat-models.mjs";
import { withClaude, withCli } from "../support/harness.mjs";
import {
  createAgent,
  humanInTheLoopMiddleware,
  modelCallLimitMiddleware,
  modelFallbackMiddleware,
  modelRetryMiddleware,
  summarizationMiddleware,
  tool,
} from "../support/langchain.mjs";

const ran: string[] = [];
const erase = tool(
  ({ path }: { path: string }) => {
    ran.push(path);
    return `erased ${path}`;
  },
  { name: "erase", description: "Erases a file", schema: z.object({ path: z.string() }) },
);

describe.each(TWO_CLIS)("over $name", ({ cast }) => {
  it("a human decides about a call, and the run goes on from where it was", async () => {
    ran.length = 0;
    const call = { calls: [{ name: "erase", args: { path: "a.txt" } }] };
    const { model } = await cast([call, { text: "a.txt is gone." }]);
    const agent = createAgent({
      model,
      tools: [erase],
      middleware: [humanInTheLoopMiddleware({ interruptOn: { erase: true } })],
      checkpointer: new MemorySaver(),
    });
    const config = { configurable: { thread_id: "1" } };
    const paused = await agent.invoke({ messages: [new HumanMessage("Erase a.txt")] }, config);
    expect(ran).toEqual([]);
    expect(paused).toMatchObject({
      __interrupt__: [{ value: { actionRequests: [{ name: "erase", args: { path: "a.txt" } }] } }],
    });
    const { messages } = await agent.invoke(new Command({ resume: { decisions: [{ type: "approve" }] } }), config);
    expect(ran).toEqual(["a.txt"]);
    expect(messages.at(-1)?.text).toBe("a.txt is gone.");
  });

  it("a long thread is summarised by the same model", async () => {
    const { model, api } = await cast([{ text: "They greeted each other." }, { text: "Fine." }]);
    const agent = createAgent({
      model,
      tools: [],
      middleware: [summarizationMiddleware({ model, trigger: { messages: 4 }, keep: { messages: 1 } })],
    });
    const thread = [
      new HumanMessage("Hello"),
      new AIMessage("Hello"),
      new HumanMessage("Good morning"),
      new AIMessage("Good morning"),
      new HumanMessage("How are you?"),
    ];
    const { messages } = await agent.invoke({ messages: thread });
    expect(api.requests).toHaveLength(2);
    expect(messages.at(0)?.text).toContain("They greeted each other.");
    expect(messages.slice(1).map(({ text }: { text: string }) => text)).toEqual(["How are you?", "Fine."]);
  });
});

it.each([
  ["claude, live", async (script: object[]) => withClaude({ engine: "live", script: script as never }), ChatClaudeCli],
  ["codex, print", async (script: object[]) => withCli("codex", { script: script as never }), ChatCodexCli],
] as const)("%s: a call is made again by modelRetryMiddleware, once for each failure", async (_, start, Model) => {
  const { api, options } = await start([{ error: { status: 529, message: "Overloaded" } }, { text: "up" }]);
  const model = new (Model as typeof ChatClaudeCli)({ ...(options as object), maxRetries: 0 });
  onTestFinished(() => model.close());
  const retryOn = (error: unknown) => ProviderError.isInstance(error) && error.shouldRetry;
  const middleware = [modelRetryMiddleware({ maxRetries: 2, initialDelayMs: 0, retryOn })];
  const { messages } = await createAgent({ model, tools: [], middleware }).invoke({
    messages: [new HumanMessage("hi")],
  });
  expect(messages.at(-1)?.text).toBe("up");
  expect(api.requests).toHaveLength(2);
});

describe("over an API", () => {
  const down = { error: { status: 503, message: "down" } };

  it("a share of the context is a trigger, for the profile knows its size", async () => {
    const { model, api } = await chatApi([{ text: "A summary." }, { text: "Fine." }], {
      profile: { maxInputTokens: 100 },
    });
    const middleware = [summarizationMiddleware({ model, trigger: { fraction: 0.5 }, keep: { messages: 1 } })];
    const agent = createAgent({ model, tools: [], middleware });
    const thread = [new HumanMessage("x ".repeat(300)), new AIMessage("I see."), new HumanMessage("And now?")];
    const { messages } = await agent.invoke({ messages: thread });
    expect(api.requests).toHaveLength(2);
    expect(messages.at(0)?.text).toContain("A summary.");
  });

  it("a call is made again by modelRetryMiddleware, which knows our errors", async () => {
    const { model, api } = await chatApi([down, { text: "up" }]);
    const asked: unknown[] = [];
    const retry = modelRetryMiddleware({
      maxRetries: 2,
      initialDelayMs: 0,
      retryOn: (error: unknown) => {
        asked.push(error);
        return ProviderError.isInstance(error) && error.shouldRetry;
      },
    });
    const { messages } = await createAgent({ model, tools: [], middleware: [retry] }).invoke({
      messages: [new HumanMessage("hi")],
    });
    expect(messages.at(-1)?.text).toBe("up");
    expect(asked).toHaveLength(1);
    expect(api.requests).toHaveLength(2);
  });

  it("another model answers where the first can't, by modelFallbackMiddleware", async () => {
    const first = await chatApi([down]);
    const second = await chatApi([{ text: "second" }]);
    const agent = createAgent({ model: first.model, tools: [], middleware: [modelFallbackMiddleware(second.model)] });
    const { messages } = await agent.invoke({ messages: [new HumanMessage("hi")] });
    expect(messages.at(-1)?.text).toBe("second");
  });

  it("modelCallLimitMiddleware ends a run that goes round", async () => {
    const { model, api } = await chatApi(() => ({ calls: [{ name: "erase", args: { path: "b.txt" } }] }));
    const middleware = [modelCallLimitMiddleware({ runLimit: 2, exitBehavior: "end" })];
    await createAgent({ model, tools: [erase], middleware }).invoke({ messages: [new HumanMessage("Erase b.txt")] });
    expect(api.requests).toHaveLength(2);
  });
});
