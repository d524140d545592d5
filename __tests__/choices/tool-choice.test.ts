// @change
/** `toolChoice`: no tools, any, or this one, in every form, with what becomes of the thread behind a reply that was asked for twice. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  type InvokeOptions,
  type MessageInput,
  type ProviderEvent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "../api/setup.js";
import { HERE, promptOf } from "../clis/real.js";
import { ALL, withClaude, withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";
import { LIVE_FORMS, sharingForm } from "../support/live-forms.mjs";
import { calling } from "../support/model.mjs";

const TOOLS = ["add", "sub"].map((name) => ({ name, description: `Does ${name}`, schema: { type: "object" } }));
const ADD = { toolChoice: { name: "add" } } as const;
const CALL = { name: "add", args: { a: 1 }, id: "call_1" };

/** What was told before each further request. */
const retries = (events: ProviderEvent[]) => events.flatMap((event) => (event.type === "retry" ? [event.reason] : []));

async function collect(events: AsyncIterable<ProviderEvent>) {
  const collected: ProviderEvent[] = [];
  for await (const event of events) collected.push(event);
  return collected;
}

/** What is said in words to any CLI. Each call is a start, of which one of codex takes a sixth of the time of one of claude. */
const PRINTS = [
  ["claude", async (script: never) => await withClaude({ engine: "print", script }), createClaudeCliProvider],
  ["codex", async (script: never) => await withCli("codex", { script }), createCodexCliProvider],
] as const;

describe.each(HERE ? PRINTS : PRINTS.slice(0, 1))("in print form of %s", { timeout: 120_000 }, (name, over, create) => {
  const start = async (script: object[]) => {
    const { api, options } = await over(script as never);
    const provider = create({ ...options, engine: "print" } as never);
    onTestFinished(() => provider.close());
    const prompt = (n: number) => {
      const { messages, input } = api.requests[n]?.body ?? {};
      return JSON.stringify(messages ?? input);
    };
    return { api, model: provider.bindTools(TOOLS), prompt };
  };
  const isRun = ALL || name === "codex" || !HERE;

  it.runIf(ALL || name === "claude")("asks for the call in words", async () => {
    const { model, prompt } = await start([calling("", [CALL]), { text: "no" }]);
    const any = await model.invoke(["go"], { toolChoice: "any" });
    expect(any.tool_calls).toEqual([CALL]);
    expect(prompt(0)).toContain("This reply must be a call of at least one of the tools");
    if (!ALL) return;
    const auto = await model.invoke(["go"], { toolChoice: "auto" });
    expect(auto.content).toBe("no");
    expect(prompt(1)).not.toContain("This reply must be");
  });

  it.runIf(isRun)("offers no tools where none are to be called", async () => {
    const { model, prompt } = await start([{ text: "no" }]);
    const message = await model.invoke(["go"], { toolChoice: "none" });
    expect([message.content, message.tool_calls]).toEqual(["no", []]);
    expect(prompt(0)).not.toContain("[Available Tools]");
    expect(prompt(0)).not.toContain("This reply must be");
  });

  // What is asked for twice in vain, below, is asked for in the same words; codex in print form gets its call the second time.
  it.runIf(ALL)("asks once more, and adds the costs up", async () => {
    const { api, model, prompt } = await start([{ text: "I would rather not." }, calling("Well then.", [CALL])]);
    const events = await collect(model.stream(["go"], ADD));
    expect(retries(events)).toEqual([expect.stringMatching(/^the reply is not a call of the tool "add"/)]);
    const done = events.at(-1);
    expect(done).toMatchObject({ type: "done", reply: { content: "Well then.", toolCalls: [CALL] } });
    expect(prompt(0)).toContain('This reply must be a call of the tool \\"add\\"');
    expect(prompt(1)).toContain("I would rather not.");
    expect(prompt(1)).toContain("That was not a call of the tool");
    expect(api.requests).toHaveLength(2);
  });

  it.runIf(isRun)("fails where the call is missing again, with the text", async () => {
    const script = [{ text: "I would rather not." }, calling("Still no.", [{ ...CALL, name: "sub" }])];
    const { api, model, prompt } = await start(script);
    const error = await model.invoke(["go"], ADD).catch((error) => error);
    expect(prompt(0)).toContain('This reply must be a call of the tool \\"add\\"');
    expect(prompt(1)).toContain("I would rather not.");
    expect(prompt(1)).toContain("That was not a call of the tool");
    expect(api.requests).toHaveLength(2);
    expect(error).toMatchObject({
      code: "TOOL_CHOICE_UNMET",
      category: "validation",
      shouldRetry: false,
      shouldFallback: true,
      partial: { text: "Still no." },
    });
    expect(error.usage).toBeDefined();
  });
});

describe.skipIf(!HERE).each(LIVE_FORMS)("in a live session of $name", { timeout: 300_000 }, (form) => {
  const calls = [{ id: "toolu_1", name: "add", args: { a: 1 } }];
  const start = sharingForm(form);

  // One process for each conversation, and each takes a second to start.
  it.runIf(!ALL && form.choosesTools)(
    "in one conversation, asks for the call in a field, for any, for none, and once more",
    async () => {
      const { api, create, heard, tools } = await start([
        { calls },
        { text: "It is 3." },
        { calls: [{ ...calls[0], id: "toolu_2" }] as typeof calls },
        { text: "no" },
        { text: "I would rather not." },
        { calls: [{ ...calls[0], id: "toolu_3" }] as typeof calls },
        { text: "It is 4." },
        { text: "Bye." },
      ]);
      const model = create().bindTools(TOOLS);
      const thread: MessageInput[] = [];
      const told: unknown[] = [];
      const say = async (message: MessageInput, options: InvokeOptions = {}) => {
        thread.push(message);
        const asked = await ask(model, thread, options);
        thread.push(asked.message);
        const { content, toolCalls } = asked.reply;
        told.push([
          content || toolCalls.map((call) => call.name),
          asked.run?.continued,
          asked.warnings,
          api.requests.length,
        ]);
        return (result: string) => new ToolMessage({ tool_call_id: toolCalls[0]?.id ?? "", content: result });
      };
      const first = await say(new HumanMessage("go"), ADD);
      await say(first("3"));
      expect(heard(1).at(-1)).toEqual(["result", expect.any(String), "3"]);
      const any = await say(new HumanMessage("any"), { toolChoice: "any" });
      await say(any("3"), { toolChoice: "none" });
      // It has them again.
      const again = await say(new HumanMessage("again"), ADD);
      await say(again("4"));
      expect(heard(6).at(-1)).toEqual(["result", expect.any(String), "4"]);
      await say(new HumanMessage("and?"));
      expect(told).toEqual([
        [["add"], false, [], 1],
        ["It is 3.", true, [], 2],
        [["add"], true, [], 3],
        ["no", true, [], 4],
        [["add"], true, [], 6],
        ["It is 4.", true, [], 7],
        ["Bye.", true, [], 8],
      ]);
      const bodies = api.requests.map(({ body }) => body);
      expect(JSON.stringify(bodies)).not.toContain("This reply must be a call of the tool");
      const add = { type: "tool", name: `${form.toolPrefix}add` };
      expect(bodies.map(({ tool_choice }) => tool_choice)).toEqual([
        add,
        undefined,
        { type: "any" },
        { type: "none" },
        add,
        add,
        undefined,
        undefined,
      ]);
      expect(bodies.map((_, n) => tools(n))).toEqual(bodies.map(() => ["add", "sub"]));
    },
  );

  it.runIf(ALL || !form.choosesTools)(
    "asks for the call behind the thread or in a field, or has no tools, and the thread stays what it is",
    async () => {
      const { api, create, heard, tools } = await start([{ calls }, { text: "no" }, { text: "It is 3." }]);
      const model = create().bindTools(TOOLS);
      const thread: MessageInput[] = [new HumanMessage("go")];
      const first = await ask(model, thread, ADD);
      expect(first.reply.toolCalls.map(({ name }) => name)).toEqual(["add"]);
      const inWords = JSON.stringify(api.requests[0]?.body).includes("This reply must be a call of the tool");
      const field = form.choosesTools
        ? { type: "tool", name: `${form.toolPrefix}add` }
        : expect.toBeOneOf([undefined, "auto"]);
      expect([inWords, api.requests[0]?.body.tool_choice]).toEqual([!form.choosesTools, field]);
      // Another has no tools where none are to be called.
      await ask(model, ["other"], { toolChoice: "none" });
      const id = first.reply.toolCalls[0]?.id ?? "";
      thread.push(first.message, new ToolMessage({ tool_call_id: id, content: "3" }));
      const second = await ask(model, thread);
      expect([second.reply.content, second.run?.continued]).toEqual(["It is 3.", true]);
      expect(heard(2).at(-1)).toEqual(["result", expect.any(String), "3"]);
      // It has them again.
      const all = ["add", "sub"];
      expect([0, 1, 2].map((n) => tools(n))).toEqual([all, form.choosesTools ? all : [], all]);
      if (form.choosesTools) expect(api.requests[1]?.body.tool_choice).toEqual({ type: "none" });
    },
  );

  it.runIf(ALL || !form.choosesTools)(
    "asks once more in the same session, and goes on with the thread as its caller has it",
    async () => {
      const { api, create } = await start([
        { text: "I would rather not." },
        { calls },
        { text: "It is 3." },
        { text: "Bye." },
      ]);
      const model = create().bindTools(TOOLS);
      const thread: MessageInput[] = [new HumanMessage("go")];
      const first = await ask(model, thread, ADD);
      expect(first.reply.toolCalls.map(({ name }) => name)).toEqual(["add"]);
      expect([first.run?.continued, api.requests.length]).toEqual([true, 2]);
      const id = first.reply.toolCalls[0]?.id ?? "";
      thread.push(first.message, new ToolMessage({ tool_call_id: id, content: "3" }));
      const second = await ask(model, thread);
      expect([second.reply.content, second.run?.continued, second.warnings]).toEqual(["It is 3.", true, []]);
      thread.push(second.message, new HumanMessage("and?"));
      expect((await ask(model, thread)).run?.continued).toBe(true);
    },
  );

  // One of them asks again in words, and both by the same code.
  it.runIf(ALL || !form.choosesTools)("answers the calls of another tool before it asks again", async () => {
    const { create } = await start([{ calls: [{ id: "toolu_0", name: "sub", args: {} }] }, { calls }, { text: "3." }]);
    const model = create().bindTools(TOOLS);
    const first = await ask(model, ["go"], ADD);
    // The other call's answer and the demand for one come together.
    const continued = !form.resultsAlone;
    expect([first.reply.toolCalls.map(({ name }) => name), first.run?.continued]).toEqual([["add"], continued]);
    const id = first.reply.toolCalls[0]?.id ?? "";
    const result = new ToolMessage({ tool_call_id: id, content: "3" });
    const second = await ask(model, [new HumanMessage("go"), first.message, result]);
    expect([second.reply.content, second.run?.continued]).toEqual(["3.", true]);
  });
});

it.skipIf(!HERE)("is asked for in words of codex in print form", { timeout: 300_000 }, async () => {
  const { api, options } = await withCli("codex", { script: [{ text: "No." }, calling("", [CALL])] });
  const provider = createCodexCliProvider({ ...options, engine: "print" });
  onTestFinished(() => provider.close());
  const message = await provider.bindTools(TOOLS).invoke(["go"], { toolChoice: "any" });
  expect(message.tool_calls).toEqual([CALL]);
  expect(JSON.stringify(api.requests[0]?.body)).toContain("This reply must be a call of at least one of the tools");
  expect(promptOf(api.requests[1]?.body).events.map(({ type }) => type)).toEqual(["human", "ai", "human"]);
});

it("is checked of an API, too, which may not heed it", async () => {
  const call = { calls: [{ id: "c1", name: "add", args: { a: 1 } }] };
  const other = { calls: [{ id: "c0", name: "sub", args: {} }] };
  const { api, provider } = await withApi({ script: [other, call] });
  const message = await provider.bindTools(TOOLS).invoke(["go"], ADD);
  expect(message.tool_calls?.map(({ id }) => id)).toEqual(["c1"]);
  expect(api.requests[1]?.body.messages.map(({ role }: { role: string }) => role)).toEqual([
    "user",
    "assistant",
    "tool",
    "user",
  ]);
});
