// @change
/** What agents do to every live form, and its CLI is not made for: one table, each row against the real CLIs. */
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { ALL } from "../support/harness.mjs";
import { ask, gone } from "../support/live.mjs";
import { LIVE_FORMS_AND_QWEN, sharingForm } from "../support/live-forms.mjs";

const schema = { type: "object", properties: { n: { type: "number" } } };
const step = { name: "step", description: "Takes a step", schema };
const call = (id: string, n: number) => ({ id, name: "step", args: { n } });
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

/** qwen halts at the fifth like call in a row, so that another process has to go on: once, and over and over with `--all`. */
const [POLLS, TIMES] = ALL ? [12, "twelve"] : [6, "six"];

describe.skipIf(!HERE).each(LIVE_FORMS_AND_QWEN)("$name", { timeout: 300_000 }, (form) => {
  const { oneProcess } = form;
  const start = sharingForm(form);
  /** The forms that have a process for each conversation share the rows, and `--all` runs every row with both. */
  const itWith = (id?: "claude" | "qwen") => it.runIf(ALL || oneProcess || (id && form.name.startsWith(id)));

  // What claude streams behind reasoning is in `__tests__/reasoning.test.ts`.
  itWith()("streams an answer once, also behind reasoning", async () => {
    const { create } = await start([{ reasoning: "Let me think. ", text: "Hello there, and well met." }]);
    const texts: string[] = [];
    const said: string[] = [];
    for await (const event of create().stream(["hi"])) {
      if (event.type === "text_delta") texts.push(event.text);
      if (event.type === "message") said.push(event.content);
    }
    expect([texts.join(""), said]).toEqual(["Hello there, and well met.", ["Hello there, and well met."]]);
  });

  // A claude that is told to end asks no model either way.
  itWith()("asks no model about calls that nobody answers, when they are forgotten", async () => {
    const forgotten = await form.start([{ calls: [call("c1", 1)] }]);
    const short = forgotten.create({ keepAlive: 50 });
    const first = await ask(short.bindTools([step]), ["go"]);
    if (!oneProcess) await gone(first.pid);
    await short.close();
    expect(forgotten.api.requests.length).toBe(1);
  });

  itWith("claude")("asks no model about calls that nobody answers, when the provider is closed", async () => {
    const { create, api } = await form.start([{ calls: [call("c1", 1), call("c2", 2)] }]);
    const provider = create();
    const { pid } = await ask(provider.bindTools([step]), ["go"]);
    await provider.close();
    await gone(pid);
    expect(api.requests.length).toBe(1);
  });

  itWith("qwen")(
    `takes tools with names of every length, calls them by those, and lets an agent poll with the same call ${TIMES} times in a row`,
    async () => {
      const names = [1, 54, 55, 61, 64, 70, 200].map((length) => `${length}_`.padEnd(length, "n").slice(0, length));
      const { api, create, heard, tools } = await start((index) => {
        if (index === 0) return { calls: tools(0).map((name, n) => ({ id: `n${n}`, name, args: { n } })) };
        if (index === 1) return { text: "done" };
        return index < 2 + POLLS
          ? { calls: [{ ...call(`c${index}`, 1), name: tools(0)[0] ?? "" }] }
          : { text: "It is ready." };
      });
      const model = create().bindTools(names.map((name) => ({ ...step, name })));
      const first = await ask(model, ["go"]);
      // A CLI may have an order of its own for them.
      expect(first.reply.toolCalls.map(({ name }) => name).sort()).toEqual([...names].sort());
      const results = first.reply.toolCalls.map(({ id }, n) => result(id, `took ${n}`));
      const thread: BaseMessage[] = [new HumanMessage("go"), first.message, ...results];
      const second = await ask(model, thread);
      expect(second.reply.content).toBe("done");

      thread.push(second.message, new HumanMessage("Wait for it."));
      let last = await ask(model, thread);
      for (let polls = 0; last.reply.toolCalls.length > 0 && polls < 20; polls++) {
        thread.push(last.message, ...last.reply.toolCalls.map(({ id }) => result(id, `not yet ${polls}`)));
        last = await ask(model, thread);
      }
      expect([last.reply.content, api.requests.length]).toEqual(["It is ready.", 2 + POLLS + 1]);
      const polled = heard(2 + POLLS)
        .filter(([kind]) => kind === "result")
        .slice(names.length);
      expect(polled.map(([, , text]) => text)).toEqual(Array.from({ length: POLLS }, (_, n) => `not yet ${n}`));
    },
  );

  itWith("claude")("keeps the results of two calls apart that had one id", async () => {
    const { create, heard } = await start([{ text: "Both." }]);
    const called = (n: number) =>
      new AIMessage({ content: "", tool_calls: [{ ...call("same", n), type: "tool_call" as const }] });
    const results = ["the first result", "the second result"] as const;
    const thread = [called(1), result("same", results[0]), called(2), result("same", results[1])];
    const { reply } = await ask(create().bindTools([step]), [
      new HumanMessage("go"),
      ...thread,
      new HumanMessage("and?"),
    ]);
    expect(reply.content).toBe("Both.");
    // As messages, or where the form can't have them so, as text: each once.
    const told = JSON.stringify(heard(0));
    expect(results.map((text) => told.split(text).length - 1)).toEqual([1, 1]);
  });

  // That claude is given one whole, its own tests have.
  itWith()("lets the model read a long result whole, at once and in every later turn", async () => {
    const { create, heard } = await start([{ calls: [call("c1", 1)] }, { text: "Long." }, { text: "Very." }]);
    const model = create().bindTools([step]);
    const long = "0123456789".repeat(30_000);
    const first = await ask(model, ["go"]);
    const thread = [new HumanMessage("go"), first.message, result("c1", long)];
    const second = await ask(model, thread);
    const third = await ask(model, [...thread, second.message, new HumanMessage("Really?")]);
    expect([second.reply.content, third.reply.content]).toEqual(["Long.", "Very."]);
    const read = [1, 2].map((n) => heard(n).find(([kind]) => kind === "result")?.[2] === long);
    expect(read).toEqual([true, true]);
  });
});
