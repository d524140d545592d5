// @change
/** What a call of claude chooses for itself, as it reaches the API: every version, every engine. */
import { HumanMessage } from "@langchain/core/messages";
import type { MessageInput } from "deep-factor-providers";
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

const ENV = {
  CLAUDE_CODE_MAX_OUTPUT_TOKENS: "5",
  CLAUDE_CODE_EXTRA_BODY: JSON.stringify({ stop_sequences: ["MINE"], top_k: 3 }),
};

// In every run, the first of the live sessions below choose all of it.
describe.runIf(ALL).each(MAIN_RUN)("claude %s, %s", { timeout: 120_000 }, (which, engine) => {
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
    const script = [{ text: "ok" }, { text: "before ", stopReason: "stop_sequence" }];
    const { api, options } = await withClaude({ which, engine, env: ENV, script });
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
  it("are for the calls that choose the same, which win over the provider's choices and variables, each stays warm beside the others, and none goes on with another model", async () => {
    const script = (_: unknown, n: number) => ({
      text: `answer ${n}`,
      stopReason: n === 1 ? "stop_sequence" : "end_turn",
    });
    const { api, options } = await withClaude({ which, engine: "live", env: ENV, script });
    const model = createProvider({ ...options, model: "claude-sonnet-5", reasoning: { effort: "high" } });
    // Two models, of which one is chosen by a call, with its long context.
    const long = { ...CHOICES, model: "claude-sonnet-4-6[1m]" };
    const one: MessageInput[] = [new HumanMessage("one")];
    const two = [new HumanMessage("two")];
    const first = await ask(model, one);
    const other = await ask(model, two, long);
    expect(other.pid).not.toBe(first.pid);
    // An answer that a text has ended is one.
    expect([other.reply.content, other.reply.stopReason]).toEqual(["answer 1", "stop_sequence"]);
    expect(other.reply.model).toBe("claude-sonnet-4-6");
    const further = await ask(model, [...one, first.message, new HumanMessage("more")]);
    expect([further.pid, further.run?.continued]).toEqual([first.pid, true]);
    // What is chosen as the provider has it is no choice.
    const thread = [...one, first.message, new HumanMessage("more"), further.message, new HumanMessage("and more")];
    const same = await ask(model, thread, { model: "claude-sonnet-5", stop: [] });
    expect([same.pid, same.run?.continued]).toEqual([first.pid, true]);
    const otherFurther = await ask(model, [...two, other.message, new HumanMessage("more")], long);
    expect([otherFurther.pid, otherFurther.run?.continued]).toEqual([other.pid, true]);
    // Limits and texts that end an answer are taken on where the session is.
    thread.push(same.message, new HumanMessage("and less"));
    const less = await ask(model, thread, { stop: ["END"], maxOutputTokens: 6 });
    expect([less.pid, less.run?.continued]).toEqual([first.pid, true]);

    // A thread that goes on with another model is handed over whole.
    const handed = await ask(model, [...one, first.message, new HumanMessage("else")], {
      model: "claude-sonnet-4-6[1m]",
    });
    expect([[first.pid, other.pid].includes(handed.pid), handed.run?.continued]).toEqual([false, false]);
    expect(handed.run?.session).toBe("restored");
    expect(told(api.requests[6]?.body)).toEqual([
      ["user", { type: "text", text: "one" }],
      ["assistant", { type: "text", text: "answer 0" }],
      ["user", { type: "text", text: "else" }],
    ]);
    const chosen = { ...CHOSEN, model: "claude-sonnet-4-6" };
    const own = { model: "claude-sonnet-5", effort: "high", limit: 5, stop: ["MINE"] };
    expect(api.requests.map(({ body }) => asked(body))).toEqual([
      own,
      chosen,
      own,
      own,
      chosen,
      { ...own, limit: 6, stop: ["END"] },
      { ...own, model: "claude-sonnet-4-6" },
    ]);
    expect(api.requests.map(({ body }) => body.top_k)).toEqual(Array(7).fill(3));
    // Reasoning that is chosen is told in words, which the oldest does without a field.
    const displays = api.requests.map(({ body }) => body.thinking.display);
    if (which === "newest") expect(displays).toEqual(Array(7).fill("summarized"));
    const isLong = api.requests.map(({ headers }) => String(headers["anthropic-beta"]).includes("context-1m-"));
    expect(isLong).toEqual([false, true, false, false, true, false, true]);
    const all = [first, other, further, same, otherFurther, less, handed];
    expect(all.map(({ warnings }) => warnings)).toEqual(all.map(() => []));
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
