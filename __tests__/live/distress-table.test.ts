// @release
/** Kept processes that are stopped, starved and killed, at each of their states, whatever is done about it: the whole table. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { casesOf, HARMS, runCases } from "../support/distress.mjs";
import { ask } from "../support/live.mjs";
import { EVERY_FORM } from "../support/live-forms.mjs";

describe.skipIf(!HERE).each(EVERY_FORM)("$name", { timeout: 900_000 }, (form) => {
  it.each(HARMS)("that is %s", async (harm) => {
    const cases = casesOf(form).filter((one) => one.harm === harm);
    const { table, wrong } = await runCases(form, cases);
    console.log(table.join("\n"));
    expect(wrong).toEqual([]);
  });

  // What a silent process is waited for is 20 s: an API may think for longer before its first word.
  const slow = () => new Promise<void>((resolve) => setTimeout(resolve, 26_000));

  it("whose API takes longer than a process that hangs is waited for is not replaced", async () => {
    const { create } = await form.start(async (index) => {
      if (index > 0) await slow();
      return { text: "ok" };
    });
    const model = create();
    const first = await ask(model, ["1"]);
    const second = await ask(model, [new HumanMessage("1"), first.message, new HumanMessage("2")]);
    expect([second.reply.content, second.pid, second.starts.length]).toEqual(["ok", first.pid, 1]);
  });

  it.skipIf(!form.remembers || form.prompts)("nor behind the result of a call", async () => {
    const step = { name: "step", description: "Takes a step", schema: { type: "object" } };
    const { api, create } = await form.start(async (index) => {
      if (index > 0) await slow();
      return index > 0 ? { text: "ok" } : { calls: [{ id: "c1", name: "step", args: {} }] };
    });
    const model = create().bindTools([step]);
    const first = await ask(model, ["go"]);
    const result = new ToolMessage({ tool_call_id: "c1", content: "taken" });
    const second = await ask(model, [new HumanMessage("go"), first.message, result]);
    expect([second.reply.content, second.pid, api.requests.length]).toEqual(["ok", first.pid, 2]);
  });
});
