// @change
/** Several calls under one id in one answer, as some gateways give them: each is run once, and its own result reaches the model. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { EVERY_FORM, sharingForm } from "../support/live-forms.mjs";

const schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const step = { name: "step", description: "Takes a step", schema };
const call = (n: number) => ({ id: "c", name: "step", args: { n } });
const SCRIPT = [{ calls: [call(1), call(2)], wholeCalls: true }, { text: "done" }];
/** qwen keeps the first call alone; see its own tests. Those of copilot and opencode have the same as these here. */
const FORMS = EVERY_FORM.filter(({ remembers, name }) => remembers && !name.startsWith("qwen")).filter(
  ({ name }) => ALL || !/^(copilot|opencode)/.test(name),
);

describe.skipIf(!HERE).each(FORMS)("$name", { timeout: 120_000 }, (form) => {
  const start = sharingForm(form);

  // An agent of its own makes one call after the other.
  it.skipIf(form.prompts)("calls under one id are told apart, and go on with their own results", async () => {
    const { create, heard } = await start(SCRIPT);
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    const { toolCalls } = first.reply;
    const [one = "", two = ""] = toolCalls.map(({ id }) => id);
    expect([toolCalls.map(({ args }) => args), one === two]).toEqual([[{ n: 1 }, { n: 2 }], false]);
    const results = [one, two].map((id, at) => new ToolMessage({ tool_call_id: id, content: `took ${at + 1}` }));
    const second = await ask(model, [new HumanMessage("go"), first.message, ...results]);
    expect(second.reply.content).toBe("done");
    const told = heard(1);
    // claude reads a thread that it does not go on with as one text, with a line for each of these.
    if (told.length === 1) {
      const lines = String(told[0]?.[1]).split("\n").slice(3, 8);
      const ids = [...lines.join("\n").matchAll(/call_id="(\w+)".*>(.*)<\/event>/g)];
      expect(ids.map((found) => found.slice(1))).toEqual([
        [one, '{"n":1}'],
        [two, '{"n":2}'],
        [one, "took 1"],
        [two, "took 2"],
      ]);
      return;
    }
    expect(told.slice(0, 5)).toEqual([
      ["user", "go"],
      ["call", one, "step", { n: 1 }],
      ["call", two, "step", { n: 2 }],
      ["result", one, "took 1"],
      ["result", two, "took 2"],
    ]);
  });

  it.runIf(ALL || form.oneProcess)("an agent runs each once", async () => {
    const { api, create } = await start(SCRIPT);
    const ran: number[] = [];
    const execute = ({ n }: { n: number }) => {
      ran.push(n);
      return `took ${n}`;
    };
    const run = runAgent({ provider: create(), prompt: "go", tools: [{ ...step, execute }] });
    expect([(await run.result).status, ran]).toEqual(["completed", [1, 2]]);
    const last = JSON.stringify(api.requests.at(-1)?.body);
    expect(["took 1", "took 2"].map((text) => last.split(text).length - 1)).toEqual([1, 1]);
  });
});
