// @change
/** A call with other choices than the ones before it goes on in the same process, and its API is asked what a new process would ask it. */
import { type AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { InvokeOptions, ReasoningOptions } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
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

describe.each(VERSIONS)("claude %s", { timeout: 120_000 }, (which) => {
  it("takes on a choice of tools in place, without a word in the thread", async () => {
    let obeys = false;
    // biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
    const script = ({ body }: { body: any }) => {
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
    const next = await ask(provider, [new HumanMessage("other"), none.message, new HumanMessage("more")]);
    expect([next.pid === none.pid, next.run?.session]).toEqual([false, "restored"]);
    expect(JSON.stringify(told(api.requests.at(-1)?.body))).not.toContain("tool_use");
    const thread: BaseMessage[] = [];
    const lengths: number[] = [];
    const pids = new Set<number>();
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
    // Each choice once, and a turn behind a result without any.
    for (const turn of [1, 2, 3, 4]) {
      const { messages, metadata: _, ...request } = inPlace[turn] ?? {};
      const fresh = createProvider(own);
      const toolChoice = TOOL_CHOICES[turn]?.[0];
      await fresh.bindTools(TOOLS).invoke(thread.slice(0, lengths[turn]), { toolChoice });
      await fresh.close();
      const { messages: ofFresh, metadata: __, ...started } = api.requests.at(-1)?.body ?? {};
      expect(request).toEqual(started);
      expect(told({ messages })).toEqual(told({ messages: ofFresh }));
    }
  });

  it("takes on effort, output limit, stop texts and a schema in place, and gives them up again", async () => {
    // biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
    const script = ({ body }: { body: any }) => ({
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
      const { messages, metadata: _, ...request } = inPlace[turn] ?? {};
      if (turn > 0) expect(told({ messages }).slice(0, 2 * turn - 1)).toEqual(told(inPlace[turn - 1]));
      expect([request.output_config.format, request.top_k]).toEqual([hasSchema ? FORMAT : undefined, 3]);
      expect(request.output_config.effort).toEqual(choices.reasoning?.effort ?? expect.any(String));
      expect(request.tools ?? []).toEqual([]);
      // A process that is started with these choices.
      const fresh = createProvider({ ...own, ...choices });
      await fresh.invoke(thread.slice(0, 2 * turn + 1), hasSchema ? { outputSchema } : {});
      await fresh.close();
      const { messages: ofFresh, metadata: __, ...started } = api.requests.at(-1)?.body ?? {};
      expect(request).toEqual(started);
      const plain = (told: unknown) =>
        JSON.stringify(told).replaceAll('{"type":"thinking","thinking":"T","signature":"S="},', "");
      expect(plain(told({ messages }))).toBe(plain(told({ messages: ofFresh })));
    }
  });
});
