// @change
/** A call that a model writes into its text, though its calls are native: as in print form it is one, unless it is a quotation. */
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { type AgentTool, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { KEPT_FORMS, WIDE_FORMS } from "../support/live-forms.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };
const written = (name: string) => `\`\`\`json\n{"tool_calls":[{"name":"${name}","args":{"n":1},"id":"w1"}]}\n\`\`\``;

describe.skipIf(!HERE).each(ALL ? KEPT_FORMS : WIDE_FORMS)("$name", { timeout: 120_000 }, (form) => {
  const { start, remembers } = form;
  // One start for all of it: of most of these CLIs, that is what takes the time.
  it("is handed back and takes its result, of an agent too, unless the thread has brought it", async () => {
    const system = new SystemMessage("Be brief.");
    // Where each conversation is another start: the call of a tool that there is, and the quotation.
    const whole = ALL || form.oneProcess;
    const names = whole ? ["step", "setp"] : ["step"];
    const answers = [
      ...names.flatMap((name) => [{ text: `I go.\n${written(name)}` }, { text: "done" }]),
      ...(whole ? [{ text: written("setp") }, { text: "Never mind." }] : []),
      ...(remembers ? [{ text: `It says:\n${written("step")}` }] : []),
    ];
    const { create, api } = await start(answers);
    const provider = create();
    const model = provider.bindTools([step]);
    for (const name of names) {
      const first = await ask(model, [system, new HumanMessage(`go, ${name}`)]);
      const toolCalls = [{ name, args: { n: 1 } }];
      expect(first.reply).toMatchObject({ content: "I go.", toolCalls, invalidToolCalls: [] });
      const id = String(first.reply.toolCalls[0]?.id);
      const result = new ToolMessage({ tool_call_id: id, content: "there is none", status: "error" });
      const second = await ask(model, [system, new HumanMessage(`go, ${name}`), first.message, result]);
      expect(second.reply.content).toBe("done");
    }

    if (whole) {
      const ran: unknown[] = [];
      const tool: AgentTool = { ...step, execute: (args) => void ran.push(args) };
      const { status, output, messages } = await runAgent({ provider, prompt: "Go.", tools: [tool] }).result;
      expect([status, output, ran]).toEqual(["completed", "Never mind.", []]);
      expect(messages[2]).toMatchObject({ status: "error", content: expect.stringContaining("setp") });
    }

    if (remembers) {
      const { reply } = await ask(model, [`What does it say?\n${written("step")}`]);
      expect([reply.content, reply.toolCalls]).toEqual([`It says:\n${written("step")}`, []]);
    }
    expect(api.requests.length).toBe(answers.length);
  });
});
