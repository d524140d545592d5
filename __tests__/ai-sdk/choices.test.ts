// @change
/** What a call of the AI SDK chooses: it is the provider's choice of that call, or the call says that it was left out. */
import { generateText, streamText, tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { formOf, LIVE } from "../support/ai-sdk.mjs";

const add = tool({ description: "Adds", inputSchema: z.object({ a: z.number() }), execute: ({ a }) => a });
const CALL = { id: "call_1", name: "add", args: { a: 1 } };

describe.each(LIVE)("toolChoice: $name", ({ start }) => {
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

describe("settings", () => {
  const claude = formOf("claude, live");

  it("that the CLI has are handed over", async () => {
    const { model, api } = await claude.start([{ text: "Yes." }]);
    const settings = { maxOutputTokens: 1234, stopSequences: ["END"] };
    const providerOptions = { deepFactor: { reasoning: { effort: "low" } } };
    const { warnings } = await generateText({ model: model(), prompt: "Hi", ...settings, providerOptions });
    expect(warnings).toEqual([]);
    expect(api.requests[0]?.body).toMatchObject({
      max_tokens: 1234,
      stop_sequences: ["END"],
      output_config: { effort: "low" },
    });
  });

  it("that it has not are left out with a warning, or an error where the caller wants one", async () => {
    const { model, api } = await claude.start(() => ({ text: "Yes." }));
    const expected = [{ type: "unsupported", feature: "temperature", details: expect.stringContaining("claude") }];
    expect((await generateText({ model: model(), prompt: "Hi", temperature: 0 })).warnings).toEqual(expected);
    expect(await streamText({ model: model(), prompt: "Hi", temperature: 0 }).warnings).toEqual(expected);
    const strictly = { deepFactor: { onUnsupported: "error" } };
    const call = generateText({ model: model(), prompt: "Hi", temperature: 0, providerOptions: strictly });
    expect(await call.catch((it) => it)).toMatchObject({ data: { code: "UNSUPPORTED_OPTION" } });
    expect(api.requests).toHaveLength(2);
  });

  it("that has no effect is told as the AI SDK names it", async () => {
    const { model } = await claude.start([{ text: "Yes." }]);
    const providerOptions = { deepFactor: { reasoning: "off" } } as const;
    const { warnings } = await generateText({ model: model(), prompt: "Hi", providerOptions });
    const details = expect.stringContaining("always thinks");
    expect(warnings).toEqual([{ type: "unsupported", feature: "reasoning", details }]);
  });
});
