// @release
/** Answers by a schema of the real claude and the real codex, which have that themselves. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { ChatClaudeCli, ChatCodexCli } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { withClaude, withCli } from "../support/harness.mjs";
import { createAgent, providerStrategy } from "../support/langchain.mjs";

const PERSON = { name: "Ada", age: 36 };
const person = z.object({ name: z.string(), age: z.number() });

/** A model that gives the value in whatever way the request asks for it. */
const answering = (values: object[]) => {
  let next = 0;
  return ({ body }: { body: { tools?: { name?: string }[]; messages?: unknown[] } }) => {
    const value = values[Math.min(next, values.length - 1)];
    const tool = body.tools?.find((one) => /structured_?output/i.test(one.name ?? ""));
    if (tool === undefined) {
      next++;
      return { text: JSON.stringify(value) };
    }
    const done = JSON.stringify(body.messages?.at(-1)).includes("tool_result");
    if (done) return { text: "Done." };
    next++;
    return { content: [{ type: "tool_use", id: `toolu_${next}`, name: tool.name, input: value }] };
  };
};

const CLIS = [
  ["claude, live", async (values: object[]) => chatClaude("live", values)],
  ["claude, print", async (values: object[]) => chatClaude("print", values)],
  ["codex, print", async (values: object[]) => chatCodex(values)],
] as const;

async function chatClaude(engine: "live" | "print", values: object[]) {
  const { options } = await withClaude({ engine, script: answering(values) as never });
  const model = new ChatClaudeCli(options);
  onTestFinished(() => model.close());
  return model;
}

async function chatCodex(values: object[]) {
  const { options } = await withCli("codex", { script: answering(values) });
  const model = new ChatCodexCli(options as never);
  onTestFinished(() => model.close());
  return model;
}

describe.each(CLIS)("%s", (_, chat) => {
  it("withStructuredOutput gives the value, whole, raw and of a stream", async () => {
    const model = await chat([PERSON]);
    expect(await model.withStructuredOutput(person).invoke("Who?")).toEqual(PERSON);
    const raw = await model.withStructuredOutput(person, { includeRaw: true }).invoke("Who?");
    expect(raw).toEqual({ raw: expect.any(AIMessage), parsed: PERSON });
    expect(raw.raw).toMatchObject({
      content: JSON.stringify(PERSON),
      response_metadata: { structured_output: PERSON },
    });
    const values: unknown[] = [];
    for await (const value of await model.withStructuredOutput(person).stream("Who?")) values.push(value);
    expect(values).toEqual([PERSON]);
  });

  it("createAgent gets it as the provider's own (ProviderStrategy)", async () => {
    const model = await chat([PERSON]);
    const agent = createAgent({ model, responseFormat: providerStrategy(person) });
    const { structuredResponse } = await agent.invoke({ messages: [new HumanMessage("Who?")] });
    expect(structuredResponse).toEqual(PERSON);
  });

  it("one that never fits is OUTPUT_INVALID; raw, it is null beside the message", async () => {
    const model = await chat([{ name: "Ada" }]);
    await expect(model.withStructuredOutput(person).invoke("Who?")).rejects.toMatchObject({ code: "OUTPUT_INVALID" });
    const { raw, parsed } = await model.withStructuredOutput(person, { includeRaw: true }).invoke("Who?");
    expect([raw instanceof AIMessage, parsed]).toEqual([true, null]);
  });
});
