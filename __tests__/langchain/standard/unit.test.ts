/**
 * What LangChain's standard tests ask of any chat model before it is called: that it takes the standard parameters, binds tools, and
 * names itself to tracers.
 */
import { HumanMessage } from "@langchain/core/messages";
import { StructuredTool } from "@langchain/core/tools";
import {
  ChatClaudeCli,
  ChatCodexCli,
  ChatGeminiCli,
  ChatOpenCodeCli,
  ChatQwenCli,
} from "deep-factor-providers/langchain";
import { describe, expect, it } from "vitest";
import { z } from "zod";

/** The parameters that every chat model is made with there; `stopSequences` is `stop` here. */
const STANDARD = { temperature: 0, maxTokens: 100, timeout: 60, stop: ["x"], maxRetries: 2 };

const person = z.object({ name: z.string(), age: z.number().int().positive() }).describe("A person");

class PersonTool extends StructuredTool {
  name = "PersonTool";
  description = "A person";
  schema = person;
  async _call(input: z.infer<typeof person>) {
    return JSON.stringify(input);
  }
}

describe.each([
  ["ChatClaudeCli", ChatClaudeCli, "sonnet"],
  ["ChatCodexCli", ChatCodexCli, "gpt-5.5"],
  ["ChatGeminiCli", ChatGeminiCli, "gemini-2.5-flash"],
  ["ChatQwenCli", ChatQwenCli, "qwen3-coder"],
  ["ChatOpenCodeCli", ChatOpenCodeCli, "openai/gpt-5.5"],
] as const)("%s", (_, Model, name) => {
  const create = (more = {}) => new Model({ ...STANDARD, model: name as never, ...more });

  it("is made with the standard parameters", () => {
    expect(create()).toMatchObject({ temperature: 0, maxTokens: 100, stop: ["x"], model: name });
  });

  // With a key: a CLI has a login of its own, and `apiKey` is refused by name (model.test.ts).
  it("is made with streaming", () => {
    expect(create({ streaming: true }).streaming).toBe(true);
  });

  it("binds tools", () => {
    expect(create().bindTools([new PersonTool()])).toBeDefined();
  });

  it("takes a schema for its answers", () => {
    expect(create().withStructuredOutput(person)).toBeDefined();
  });

  it("names itself to tracers by the six standard parameters", () => {
    expect(create().getLsParams({} as never)).toEqual({
      ls_provider: expect.any(String),
      ls_model_name: name,
      ls_model_type: "chat",
      ls_temperature: 0,
      ls_max_tokens: 100,
      ls_stop: ["x"],
    });
    expect(create().getLsParams({ temperature: 1, stop: ["y"], maxTokens: 5 } as never)).toMatchObject({
      ls_temperature: 1,
      ls_max_tokens: 5,
      ls_stop: ["y"],
    });
  });

  it("throws where the signal is aborted already, and streams nothing", async () => {
    const signal = AbortSignal.abort();
    await expect(create().invoke([new HumanMessage("hello")], { signal })).rejects.toThrow();
    const chunks: unknown[] = [];
    const stream = async () => {
      for await (const chunk of await create().stream([new HumanMessage("hello")], { signal })) chunks.push(chunk);
    };
    await stream().catch(() => {});
    expect(chunks).toEqual([]);
  });
});
