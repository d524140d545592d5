// @release
/** Kept processes that are stopped, starved and killed, at each of their states, whatever is done about it: the whole table. */
import { HumanMessage } from "@langchain/core/messages";
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

  it("whose API takes longer than a process that hangs is waited for is not replaced", async () => {
    const slow = new Promise<void>((resolve) => setTimeout(resolve, 30_000));
    const { create } = await form.start(async (index) => {
      if (index > 0) await slow;
      return { text: "ok" };
    });
    const model = create();
    const first = await ask(model, ["1"]);
    const second = await ask(model, [new HumanMessage("1"), first.message, new HumanMessage("2")]);
    expect([second.reply.content, second.pid, second.starts.length]).toEqual(["ok", first.pid, 1]);
  });
});
