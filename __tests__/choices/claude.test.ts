// @change
/** What a call of claude chooses for itself, as it reaches the API: every version, every engine. */
import { HumanMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { ALL, createProvider, MAIN_RUN, VERSIONS, withClaude } from "../support/harness.mjs";
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
    const script = [{ text: "ok" }, { text: "before ", stopReason: "stop_sequence" }];
    const { api, options } = await withClaude({ which, engine, env, script });
    const model = createProvider({ ...options, model: "claude-sonnet-5" });
    await model.invoke(["one"]);
    const { reply } = await ask(model, ["two"], { stop: ["END"], maxOutputTokens: 6 });
    const [first, second] = api.requests.map(({ body }) => [body.stop_sequences, body.top_k, body.max_tokens]);
    expect(first).toEqual([["MINE"], 3, 5]);
    expect(second).toEqual([["END"], 3, 6]);
    // An answer that a text has ended is one.
    expect([reply.content.trim(), reply.stopReason]).toEqual(["before", "stop_sequence"]);
  });
});

describe.each(VERSIONS)("live sessions of claude %s", { timeout: 120_000 }, (which) => {
  it("are for the calls that choose the same, each stays warm beside the others, and none goes on with another model", async () => {
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

    // A thread that goes on with another model is handed over whole.
    const handed = await ask(model, [...one, first.message, new HumanMessage("else")], { model: "claude-opus-4-8" });
    expect([[first.pid, other.pid].includes(handed.pid), handed.run?.continued, handed.warnings]).toEqual([
      false,
      false,
      [],
    ]);
    expect(handed.run?.session).toBe("restored");
    expect(told(api.requests[5]?.body)).toEqual([
      ["user", { type: "text", text: "one" }],
      ["assistant", { type: "text", text: "answer 0" }],
      ["user", { type: "text", text: "else" }],
    ]);
  });

  // What spares get is told of a made-up CLI in claude/prewarm.test.ts as well.
  it.runIf(ALL)("start their spares as the calls are made that need them", async () => {
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
