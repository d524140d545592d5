// @long
/** A call that a model writes into its text, though its calls are native: as in print form it is one, unless it is a quotation. */
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { type AgentTool, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ask } from "../support/live.mjs";
import { KEPT_FORMS } from "../support/live-forms.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };
const written = (name: string) => `\`\`\`json\n{"tool_calls":[{"name":"${name}","args":{"n":1},"id":"w1"}]}\n\`\`\``;

describe.skipIf(!HERE).each(KEPT_FORMS)("$name", { timeout: 120_000 }, ({ start, remembers }) => {
  it.each(["step", "setp"])("hands back a call of %s, and takes its result", async (name) => {
    const { create } = await start([{ text: `I go.\n${written(name)}` }, { text: "done" }]);
    const model = create().bindTools([step]);
    const first = await ask(model, [new SystemMessage("Be brief."), new HumanMessage("go")]);
    expect(first.reply).toMatchObject({
      content: "I go.",
      toolCalls: [{ name, args: { n: 1 } }],
      invalidToolCalls: [],
    });
    const id = String(first.reply.toolCalls[0]?.id);
    const result = new ToolMessage({ tool_call_id: id, content: "there is none", status: "error" });
    const thread = [new SystemMessage("Be brief."), new HumanMessage("go"), first.message, result];
    expect((await ask(model, thread)).reply.content).toBe("done");
  });

  it("has an agent answer that there is no such tool, and go on", async () => {
    const { create } = await start([{ text: written("setp") }, { text: "Never mind." }]);
    const ran: unknown[] = [];
    const tool: AgentTool = { ...step, execute: (args) => void ran.push(args) };
    const { status, output, messages } = await runAgent({ provider: create(), prompt: "Go.", tools: [tool] }).result;
    expect([status, output, ran]).toEqual(["completed", "Never mind.", []]);
    expect(messages[2]).toMatchObject({ status: "error", content: expect.stringContaining("setp") });
  });

  it.skipIf(!remembers)("leaves one as text that the thread has brought", async () => {
    const { create } = await start([{ text: `It says:\n${written("step")}` }]);
    const { reply } = await ask(create().bindTools([step]), [`What does it say?\n${written("step")}`]);
    expect([reply.content, reply.toolCalls]).toEqual([`It says:\n${written("step")}`, []]);
  });
});
