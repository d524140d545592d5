/**
 * What deep-factor-agent gives a `BaseChatModel` and not an adapter: `stream()`, summaries of long threads, and a cost limit. The agent is
 * not on npm, so its public interface stands here, with the rules by which it tells models apart.
 */
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { type AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  isModelAdapter,
  type ModelAdapter,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { TWO_CLIS } from "../support/chat-models.mjs";
import { sampleOf, shareOf, withClaude, withCli } from "../support/harness.mjs";

interface Settings {
  model: BaseChatModel | ModelAdapter;
  /** Characters of a thread beyond which its beginning is summarised. */
  summariseBeyond?: number;
  maxCostUsd?: number;
}

/** Its price table, dollars per token, by the name that the model says it has. */
const PRICES: Record<string, { input: number; output: number }> = {
  "claude-sonnet-4-5": { input: 3e-6, output: 15e-6 },
  "mock-model": { input: 1e-6, output: 2e-6 },
};

class Agent {
  readonly thread: BaseMessage[] = [];
  readonly modelId: string;
  spent = 0;
  constructor(private readonly settings: Settings) {
    const { model } = settings;
    this.modelId = isModelAdapter(model) ? "cli-adapter" : String((model as { model?: unknown }).model ?? "unknown");
  }

  async stream(prompt: string) {
    const { model } = this.settings;
    if (isModelAdapter(model)) throw new Error("Streaming is not supported for adapters");
    return await (model as BaseChatModel).stream([new HumanMessage(prompt)]);
  }

  /** One step; says why the run ends, if it does. */
  async step(prompt: string): Promise<string | undefined> {
    const { model, summariseBeyond = Number.POSITIVE_INFINITY, maxCostUsd = Number.POSITIVE_INFINITY } = this.settings;
    if (!isModelAdapter(model) && JSON.stringify(this.thread).length > summariseBeyond) {
      const summary = await this.ask([new HumanMessage(`Summarize: ${JSON.stringify(this.thread)}`)]);
      this.thread.splice(0, this.thread.length, new HumanMessage(`Summary: ${summary.text}`));
    }
    this.thread.push(new HumanMessage(prompt));
    this.thread.push(await this.ask(this.thread));
    return this.spent >= maxCostUsd ? `Max cost reached: ${this.modelId}` : undefined;
  }

  private async ask(messages: BaseMessage[]): Promise<AIMessage> {
    const reply = (await this.settings.model.invoke(messages)) as AIMessage;
    const price = PRICES[this.modelId] ?? { input: 0, output: 0 };
    const { input_tokens = 0, output_tokens = 0 } = reply.usage_metadata ?? {};
    this.spent += input_tokens * price.input + output_tokens * price.output;
    return reply;
  }
}

// Each by one of both, because what LangChain's face makes of their replies is the same code.
describe.each(shareOf(TWO_CLIS, 1, 2))("deep-factor-agent over $name", ({ cast }) => {
  it("streams", async () => {
    const { model } = await cast([{ text: "Hello there." }]);
    let text = "";
    for await (const chunk of await new Agent({ model }).stream("hi")) text += chunk.text;
    expect(text).toBe("Hello there.");
  });

  it("summarises a long thread with the same model", async () => {
    const { model, api } = await cast([{ text: "One." }, { text: "They counted." }, { text: "Two." }]);
    const agent = new Agent({ model, summariseBeyond: 10 });
    await agent.step("Count.");
    await agent.step("On.");
    expect(agent.thread.map(({ text }) => text)).toEqual(["Summary: They counted.", "On.", "Two."]);
    expect(api.requests).toHaveLength(3);
  });
});

describe.each(shareOf(TWO_CLIS, 0, 2))("deep-factor-agent over $name", ({ cast }) => {
  it("ends at its cost limit, for its table knows the model's name", async () => {
    const { model } = await cast([{ text: "Hello there." }], { model: "claude-sonnet-4-5" });
    const agent = new Agent({ model, maxCostUsd: 1e-7 });
    expect(await agent.step("hi")).toBe("Max cost reached: claude-sonnet-4-5");
    expect(agent.spent).toBeGreaterThan(0);
  });
});

const ADAPTERS = {
  codex: async (script: { text: string }[]) => {
    const { options } = await withCli("codex", { script });
    return createCodexCliProvider({ ...options, engine: "live" });
  },
  claude: async (script: { text: string }[]) => {
    const { options } = await withClaude({ engine: "live", script });
    return createClaudeCliProvider(options);
  },
};

it.each(sampleOf(["codex", "claude"] as const))(
  "with the adapter, none of it: which is why there is the chat model: %s",
  async (cli) => {
    const provider = await ADAPTERS[cli]([{ text: "One." }, { text: "Two." }]);
    onTestFinished(() => provider.close());
    const agent = new Agent({ model: provider, summariseBeyond: 10, maxCostUsd: 1e-7 });
    await expect(agent.stream("hi")).rejects.toThrow("not supported for adapters");
    expect([await agent.step("Count."), await agent.step("On.")]).toEqual([undefined, undefined]);
    expect(agent.thread).toHaveLength(4);
  },
);
