// @change
/** What a call of claude chooses for itself, as it reaches the API: every version, every engine. */
import { HumanMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { createProvider, MAIN_RUN, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, told } from "../support/live.mjs";

/** What the API is asked for beside the thread. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
const asked = (body: any) => ({
  model: body.model,
  effort: body.output_config?.effort,
  limit: body.max_tokens,
  stop: body.stop_sequences,
});

const CHOICES = {
  model: "claude-opus-4-8",
  reasoning: { effort: "low" },
  maxOutputTokens: 1234,
  stop: ["END", "FIN"],
} as const;
const CHOSEN = { model: "claude-opus-4-8", effort: "low", limit: 1234, stop: ["END", "FIN"] };

describe.each(MAIN_RUN)("claude %s, %s", { timeout: 120_000 }, (which, engine) => {
  it("sends what a call chooses, and what the provider chooses where it does not", async () => {
    const { api, options } = await withClaude({ which, engine, script: () => ({ text: "ok" }) });
    const model = createProvider({ ...options, model: "claude-sonnet-5", reasoning: { effort: "high" } });
    const own = await ask(model, ["one"]);
    const chosen = await ask(model, ["two"], CHOICES);
    const again = await ask(model, ["three"], { maxOutputTokens: 77 });
    expect([own, chosen, again].map(({ warnings }) => warnings)).toEqual([[], [], []]);
    const [first, second, third] = api.requests.map(({ body }) => asked(body));
    expect(first).toEqual({ model: "claude-sonnet-5", effort: "high", limit: expect.any(Number), stop: undefined });
    expect(second).toEqual(CHOSEN);
    expect(third).toEqual({ model: "claude-sonnet-5", effort: "high", limit: 77, stop: undefined });
  });

  it("lets a choice win over the variables of the provider's env, and keeps what else they say", async () => {
    const env = {
      CLAUDE_CODE_MAX_OUTPUT_TOKENS: "5",
      CLAUDE_CODE_EXTRA_BODY: JSON.stringify({ stop_sequences: ["MINE"], top_k: 3 }),
    };
    const { api, options } = await withClaude({ which, engine, env, script: () => ({ text: "ok" }) });
    const model = createProvider({ ...options, model: "claude-sonnet-5" });
    await model.invoke(["one"]);
    await model.invoke(["two"], { stop: ["END"], maxOutputTokens: 6 });
    const [first, second] = api.requests.map(({ body }) => [body.stop_sequences, body.top_k, body.max_tokens]);
    expect(first).toEqual([["MINE"], 3, 5]);
    expect(second).toEqual([["END"], 3, 6]);
  });

  it("takes an answer that a text has ended for an answer", async () => {
    const { options } = await withClaude({
      which,
      engine,
      script: [{ text: "before ", stopReason: "stop_sequence" }],
    });
    const { reply } = await ask(createProvider({ ...options, model: "claude-sonnet-5" }), ["go"], { stop: ["END"] });
    expect([reply.content.trim(), reply.stopReason]).toEqual(["before", "stop_sequence"]);
  });
});

describe.each(VERSIONS)("live sessions of claude %s", { timeout: 120_000 }, (which) => {
  it("are for the calls that choose the same, and each stays warm beside the others", async () => {
    const { api, options } = await withClaude({ which, engine: "live", script: (_, n) => ({ text: `answer ${n}` }) });
    const model = createProvider({ ...options, model: "claude-sonnet-5" });
    const one = [new HumanMessage("one")];
    const two = [new HumanMessage("two")];
    const first = await ask(model, one);
    const other = await ask(model, two, { model: "claude-opus-4-8" });
    expect(other.pid).not.toBe(first.pid);
    const further = await ask(model, [...one, first.message, new HumanMessage("more")]);
    expect([further.pid, further.run?.continued]).toEqual([first.pid, true]);
    // What is chosen as the provider has it is no choice.
    const same = await ask(
      model,
      [...one, first.message, new HumanMessage("more"), further.message, new HumanMessage("and more")],
      { model: "claude-sonnet-5", stop: [] },
    );
    expect([same.pid, same.run?.continued]).toEqual([first.pid, true]);
    const otherFurther = await ask(model, [...two, other.message, new HumanMessage("more")], {
      model: "claude-opus-4-8",
    });
    expect([otherFurther.pid, otherFurther.run?.continued]).toEqual([other.pid, true]);
    expect(api.requests.map(({ body }) => body.model)).toEqual([
      "claude-sonnet-5",
      "claude-opus-4-8",
      "claude-sonnet-5",
      "claude-sonnet-5",
      "claude-opus-4-8",
    ]);
  });

  it("hand a thread that goes on with another model over whole", async () => {
    const { api, options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const model = createProvider({ ...options, model: "claude-sonnet-5" });
    const first = await ask(model, [new HumanMessage("one")]);
    const thread = [new HumanMessage("one"), first.message, new HumanMessage("two")];
    const second = await ask(model, thread, { model: "claude-opus-4-8" });
    expect([second.pid === first.pid, second.run?.continued, second.warnings]).toEqual([false, false, []]);
    expect(second.run?.session).toBe("restored");
    expect(told(api.requests[1]?.body)).toEqual([
      ["user", { type: "text", text: "one" }],
      ["assistant", { type: "text", text: "ok" }],
      ["user", { type: "text", text: "two" }],
    ]);
  });

  it("start their spares as the calls are made that need them", async () => {
    const { api, options } = await withClaude({ which, engine: "live", script: () => ({ text: "ok" }) });
    const started: unknown[] = [];
    const model = createProvider({
      ...options,
      model: "claude-sonnet-5",
      spares: 1,
      logger: (record) => {
        if (record.message === "started") started.push(record.fields.spare);
      },
    });
    await model.prewarm();
    // Started as the provider has it: of no use to this one.
    await ask(model, ["one"], { model: "claude-opus-4-8" });
    expect(started).toEqual([false]);
    await model.prewarm();
    // What the last call chose, the next one will.
    await ask(model, ["two"], { model: "claude-opus-4-8" });
    expect(started).toEqual([false, true]);
    expect(api.requests.map(({ body }) => body.model)).toEqual(["claude-opus-4-8", "claude-opus-4-8"]);
  });
});
