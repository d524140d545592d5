// @change
/** A call with other choices than the ones before it goes on in the same process, and its API is asked what a new process would ask it. */
import { type AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { InvokeOptions, ReasoningOptions } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { ALL, createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, told } from "../support/live.mjs";

type Choices = Pick<InvokeOptions, "maxOutputTokens" | "stop"> & { reasoning?: ReasoningOptions };

const outputSchema = {
  type: "object",
  properties: { city: { type: "string" }, degrees: { type: "integer", minimum: -90 } },
  required: ["city"],
};
/** The schema as the API takes it. */
const FORMAT = {
  type: "json_schema",
  schema: {
    type: "object",
    properties: {
      city: { type: "string" },
      degrees: { type: "integer", description: 'It has to fit {"minimum":-90}' },
    },
    required: ["city"],
    additionalProperties: false,
  },
};
const OSLO = { city: "Oslo", degrees: -3 };

/** What calls choose that a provider may choose as well, and whether their answer has a schema. */
const CALLS: [Choices, boolean?][] = [
  [{}],
  [{ reasoning: { effort: "low" }, maxOutputTokens: 777, stop: ["END"] }],
  [{}, true],
  [{}],
  [{ reasoning: { effort: "high" } }, true],
  [{ maxOutputTokens: 777 }],
];

const TOOLS = ["add", "weather"].map((name) => ({ name, description: `Does ${name}`, schema: { type: "object" } }));
/** What calls say about tools, and what the API is told. */
const TOOL_CHOICES: [InvokeOptions["toolChoice"], object | undefined][] = [
  ["auto", undefined],
  ["none", { type: "none" }],
  ["any", { type: "any" }],
  [undefined, undefined],
  [{ name: "weather" }, { type: "tool", name: "mcp__df__weather" }],
  ["none", { type: "none" }],
];

// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
type Body = any;
/** All of a request but the thread. */
const setup = ({ messages: _, metadata: __, ...request }: Body) => request;

describe.each(VERSIONS)("claude %s", { timeout: 120_000 }, (which) => {
  it("takes on a choice of tools in place, without a word in the thread", async () => {
    let obeys = false;
    const script = ({ body }: { body: Body }) => {
      const { type = "none", name = "mcp__df__add" } = body.tool_choice ?? {};
      const calls = type !== "none" || (body.tool_choice && !obeys);
      const use = { type: "tool_use", id: `toolu_${body.messages.length}`, name, input: { n: 1 } };
      return { content: [{ type: "text", text: "ok" }, ...(calls ? [use] : [])] };
    };
    const { api, options } = await withClaude({ which, engine: "live", script });
    const own = { ...options, model: which === "newest" ? "claude-sonnet-5-5" : "claude-sonnet-5" };
    const provider = createProvider(own).bindTools(TOOLS);
    // What a model calls all the same is left out.
    const none = await ask(provider, ["other"], { toolChoice: "none" });
    expect([none.reply.content, none.reply.toolCalls]).toEqual(["ok", []]);
    obeys = true;
    // Its process would go on with a call that the thread has not, and a result that it makes up.
    const thread: BaseMessage[] = [new HumanMessage("other"), none.message, new HumanMessage("more")];
    const next = await ask(provider, thread);
    expect([next.pid === none.pid, next.run?.session]).toEqual([false, "restored"]);
    expect(JSON.stringify(told(api.requests.at(-1)?.body))).not.toContain("tool_use");
    thread.push(next.message);
    const lengths: number[] = [];
    const pids = new Set([next.pid]);
    for (const [toolChoice] of TOOL_CHOICES) {
      const call = (thread.at(-1) as AIMessage | undefined)?.tool_calls?.[0];
      if (call?.id) thread.push(new ToolMessage({ tool_call_id: call.id, content: "3" }));
      else thread.push(new HumanMessage(`turn ${thread.length}`));
      lengths.push(thread.length);
      const { pid, message, warnings } = await ask(provider, thread, { toolChoice });
      expect(warnings).toEqual([]);
      pids.add(pid);
      thread.push(message);
    }
    expect(pids.size).toBe(1);
    const inPlace = api.requests.slice(2).map(({ body }) => body);
    expect(inPlace.map(({ tool_choice }) => tool_choice)).toEqual(TOOL_CHOICES.map(([, told]) => told));
    // The first two requests are of new processes as well.
    const [ofNone, ofNext] = api.requests.map(({ body }) => setup(body));
    for (const turn of [1, 5]) expect(setup(inPlace[turn])).toEqual(ofNone);
    for (const turn of [0, 3]) expect(setup(inPlace[turn])).toEqual(ofNext);
    expect(setup(inPlace[2])).toEqual({ ...setup(inPlace[4]), tool_choice: { type: "any" } });
    // Each choice once, and a turn behind a result without any.
    for (const turn of ALL ? [1, 2, 3, 4] : [4]) {
      const fresh = createProvider(own);
      const toolChoice = TOOL_CHOICES[turn]?.[0];
      await fresh.bindTools(TOOLS).invoke(thread.slice(0, lengths[turn]), { toolChoice });
      await fresh.close();
      const started = api.requests.at(-1)?.body;
      expect(setup(inPlace[turn])).toEqual(setup(started));
      expect(told(inPlace[turn])).toEqual(told(started));
    }
  });

  it("keeps a turn's effort while it gets results alone, and warns; 2.1.197 takes another at once", async () => {
    const keeps = which !== "oldest";
    const uses = [1, 2, 3].map((n) => [{ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__add", input: { n } }]);
    const script = [...uses, [{ type: "text", text: "done" }]].map((content) => ({ content }));
    const { api, options } = await withClaude({ which, engine: "live", script });
    const provider = createProvider({ ...options, model: "claude-sonnet-5-5" }).bindTools(TOOLS);
    const result = (n: number) => new ToolMessage({ tool_call_id: `toolu_${n}`, content: String(n) });
    const thread: BaseMessage[] = [];
    const found = [];
    for (const [effort, ...said] of [
      ["low", new HumanMessage("go")],
      ["high", result(1)],
      ["low", result(2)],
      ["high", result(3), new HumanMessage("Now think.")],
    ] as [string, ...BaseMessage[]][]) {
      thread.push(...said);
      const { message, run, warnings } = await ask(provider, thread, { reasoning: { effort } });
      thread.push(message);
      found.push([api.requests.at(-1)?.body.output_config.effort, run?.session, warnings]);
    }
    expect(found).toEqual([
      ["low", "new", []],
      keeps ? ["low", "continued", ["UNSUPPORTED_OPTION"]] : ["high", "continued", []],
      ["low", "continued", []],
      ["high", "continued", []],
    ]);
  });

  it("takes on effort, output limit, stop texts and a schema in place, and gives them up again", async () => {
    const script = ({ body }: { body: Body }) => ({
      content: [
        { type: "thinking", thinking: "T", signature: "S=" },
        { type: "text", text: body.output_config.format ? JSON.stringify(OSLO) : "ok" },
      ],
    });
    // What the user's variables say is in force where a call says nothing.
    const env = { CLAUDE_CODE_EXTRA_BODY: JSON.stringify({ top_k: 3 }) };
    const { api, options } = await withClaude({ which, engine: "live", script, env });
    const own = { ...options, model: which === "newest" ? "claude-sonnet-5-5" : "claude-sonnet-5" };
    const provider = createProvider(own);
    const thread = [];
    const pids = new Set<number>();
    for (const [turn, [choices, hasSchema]] of CALLS.entries()) {
      thread.push(new HumanMessage(`turn ${turn}`));
      const asked = await ask(provider, thread, { ...choices, ...(hasSchema && { outputSchema }) });
      const { pid, message, run, reply, warnings } = asked;
      expect([run?.session, warnings]).toEqual([turn === 0 ? "new" : "continued", []]);
      if (choices.reasoning) expect(reply.thinking).toBe("T");
      expect(reply.structured).toEqual(hasSchema ? OSLO : undefined);
      pids.add(pid);
      thread.push(message);
    }
    expect(pids.size).toBe(1);
    await provider.close();
    const inPlace = api.requests.map(({ body }) => body);
    // One request for each call.
    expect(inPlace).toHaveLength(CALLS.length);
    for (const [turn, [choices, hasSchema]] of CALLS.entries()) {
      const request = inPlace[turn];
      if (turn > 0) expect(told(request).slice(0, 2 * turn - 1)).toEqual(told(inPlace[turn - 1]));
      expect([request.output_config.format, request.top_k]).toEqual([hasSchema ? FORMAT : undefined, 3]);
      expect(request.output_config.effort).toEqual(choices.reasoning?.effort ?? expect.any(String));
      expect(request.tools ?? []).toEqual([]);
    }
    // The process was started without choices: a request that has none is as the first.
    const [first] = inPlace.map(setup);
    const { max_tokens } = inPlace[1];
    expect(setup(inPlace[2])).toEqual({ ...first, output_config: { ...first.output_config, format: FORMAT } });
    expect(setup(inPlace[3])).toEqual(first);
    expect(setup(inPlace[5])).toEqual({ ...first, max_tokens });
    for (const turn of ALL ? CALLS.keys() : [1, 4]) {
      const [choices, hasSchema] = CALLS[turn] ?? [{}];
      // A process that is started with these choices.
      const fresh = createProvider({ ...own, ...choices });
      await fresh.invoke(thread.slice(0, 2 * turn + 1), hasSchema ? { outputSchema } : {});
      await fresh.close();
      const started = api.requests.at(-1)?.body;
      expect(setup(inPlace[turn])).toEqual(setup(started));
      const plain = (body: Body) =>
        JSON.stringify(told(body)).replaceAll('{"type":"thinking","thinking":"T","signature":"S="},', "");
      expect(plain(inPlace[turn])).toBe(plain(started));
    }
  });
});
