// @change
/** A field that a call puts into its request, and that the API refuses: the call is made once more in the other way, and the next ones at once. */
import { type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { ALL, createProvider, sampleOf, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, told } from "../support/live.mjs";

const OSLO = { city: "Oslo" };
const schemaOf = (title: string) => ({
  type: "object",
  title,
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
});
const outputSchema = schemaOf("Place");

// biome-ignore lint/suspicious/noExplicitAny: the body of an API's request
type Body = any;

/** A refusal that names nothing. claude itself asks twice more behind it, without two of its betas (2.1.332). */
const NAMELESS = "The request could not be validated.";

/** The way in which a request asks for an answer by a schema. */
const wayOf = (body: Body) => {
  if (body.output_config?.format) return "format";
  return body.tools?.some(({ name }: { name: string }) => name === "StructuredOutput") ? "tool" : "words";
};
const answer = (body: Body, n: number) => {
  const use = { type: "tool_use", id: `toolu_${n}`, name: "StructuredOutput", input: OSLO };
  return wayOf(body) === "tool" ? { content: [use] } : { text: JSON.stringify(OSLO) };
};

describe.each(VERSIONS)("claude %s", { timeout: 120_000 }, (which) => {
  /** A provider whose API refuses requests with these messages. */
  async function refusing(why: (body: Body) => string | undefined) {
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: ({ body }, n) => {
        const message = why(body);
        return message === undefined ? answer(body, n) : { error: { status: 400, message } };
      },
    });
    const provider = createProvider({ ...options, model: "claude-sonnet-5" });
    const ways = () => api.requests.map(({ body }) => wayOf(body));
    return { api, provider, ways };
  }

  it("asks in the other way for a schema that the API can't be told, and remembers it for the model", async () => {
    const { api, provider, ways } = await refusing(({ model, output_config }) =>
      output_config?.format && model === "claude-sonnet-5"
        ? "output_config.format: Extra inputs are not permitted"
        : undefined,
    );
    const thread = [new HumanMessage("one")];
    const first = await ask(provider, thread);
    const more = [...thread, first.message, new HumanMessage("two")];
    const refused = await ask(provider, more, { outputSchema });
    expect(refused.reply.structured).toEqual(OSLO);
    expect([refused.warnings, refused.run?.session]).toEqual([["OUTPUT_SCHEMA_EMULATED"], "restored"]);
    expect(told(api.requests[2]?.body)).toEqual(told(api.requests[1]?.body));
    const next = await ask(provider, [new HumanMessage("three")], { outputSchema: schemaOf("Other") });
    expect([next.reply.structured, next.warnings]).toEqual([OSLO, []]);
    expect(ways()).toEqual(["words", "format", "tool", "tool"]);
    // Nothing is known of another model.
    await ask(provider, [new HumanMessage("four")], { outputSchema, model: "claude-opus-4-8" });
    expect(ways().slice(4)).toEqual(["format"]);
  });

  // What is refused of a choice of tools, below, is one value of a field as well.
  it.runIf(ALL)("takes the refusal of one schema for no refusal of others", async () => {
    const { provider, ways } = await refusing((body) =>
      body.output_config?.format?.schema.title === "Place"
        ? "output_config.format.schema: it is too complex"
        : undefined,
    );
    const thread: BaseMessage[] = [];
    for (const schema of [outputSchema, outputSchema, schemaOf("Other")]) {
      thread.push(new HumanMessage("hi"));
      const { reply, message } = await ask(provider, thread, { outputSchema: schema });
      expect(reply.structured).toEqual(OSLO);
      thread.push(message);
    }
    expect(ways()).toEqual(["format", "tool", "tool", "format"]);
  });

  it("finds out once whether a refusal that names nothing is about the schema", async () => {
    const { provider, ways } = await refusing((body) => (wayOf(body) === "format" ? NAMELESS : undefined));
    const thread: BaseMessage[] = [];
    for (const warnings of [["OUTPUT_SCHEMA_EMULATED"], []]) {
      thread.push(new HumanMessage("hi"));
      const asked = await ask(provider, thread, { outputSchema });
      expect([asked.reply.structured, asked.warnings]).toEqual([OSLO, warnings]);
      thread.push(asked.message);
    }
    expect(ways().join(" ")).toMatch(/^(format ){1,3}tool tool$/);
    const other = await refusing(() => NAMELESS);
    const calls = sampleOf([1, 2]);
    for (const _ of calls) {
      const failed = other.provider.invoke(["hi"], { outputSchema });
      await expect(failed).rejects.toMatchObject({ code: "INVALID_REQUEST", httpStatus: 400 });
    }
    const again = calls.length > 1 ? "(format ?){1,3}" : "";
    expect(`${other.ways().join(" ")} `).toMatch(new RegExp(`^(format ){1,3}(tool ){1,3}${again}$`));
  });

  it("asks in words for a call that the API can't be told to demand", async () => {
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: ({ body }, n) => {
        const message = "Thinking may not be enabled when tool_choice forces tool use.";
        if (body.tool_choice?.type === "any") return { error: { status: 400, message } };
        if (body.tool_choice?.type === "none") return { text: "ok" };
        return { content: [{ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__add", input: {} }] };
      },
    });
    const provider = createProvider({ ...options, model: "claude-sonnet-5" });
    const model = provider.bindTools([{ name: "add", schema: { type: "object" } }]);
    const words = "This reply must be a call of at least one of the tools, not an answer in words.";
    const thread: BaseMessage[] = [new HumanMessage("hi")];
    for (const warnings of [["UNSUPPORTED_OPTION"], []]) {
      const { reply, message, warnings: told } = await ask(model, thread, { toolChoice: "any" });
      expect([reply.toolCalls.map(({ name }) => name), told]).toEqual([["add"], warnings]);
      thread.push(message, new ToolMessage({ tool_call_id: String(reply.toolCalls[0]?.id), content: "3" }));
    }
    const ways = api.requests.map(({ body }) => [body.tool_choice?.type ?? "-", JSON.stringify(body).includes(words)]);
    expect(ways.join(" ")).toMatch(/^(any,false ){1,3}-,true -,true$/);
    // That no call may be made is another choice, which nobody has refused.
    await ask(model, thread, { toolChoice: "none" });
    expect(api.requests.at(-1)?.body.tool_choice).toEqual({ type: "none" });
  });

  const reasons = [
    ["CONTEXT_LENGTH", "prompt is too long: 210000 tokens > 200000 maximum"],
    ["CREDIT_EXHAUSTED", "Your credit balance is too low to access the Anthropic API."],
  ] as const;
  // By its message, which `src/provider/claude/requests.rs` reads.
  it.runIf(ALL).each(reasons)("leaves a failure that has another reason alone: %s", async (code, message) => {
    const { provider, ways } = await refusing(() => message);
    await expect(provider.invoke(["hi"], { outputSchema })).rejects.toMatchObject({ code });
    expect(ways()).toEqual(["format"]);
  });
});
