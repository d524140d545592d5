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

const SONNET = "claude-sonnet-5";
/** A tool, as claude calls it. */
const ADD = "mcp__df__add";
/** The beginning of what asks for a call in words. */
const WORDS = "This reply must be a call";

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

  // Each refusal is the end of a process, and each way another one: as one conversation, it is the fewest.
  it.skipIf(ALL)(
    "asks in the other way for what the API can't be told, remembers it for the model, and finds out once whether a refusal that names nothing is about it",
    async () => {
      const { api, options } = await withClaude({
        which,
        engine: "live",
        script: ({ body }, n) => {
          const message = refusalOf(body);
          if (message !== undefined) return { error: { status: 400, message } };
          if (wayOf(body) !== "words") return answer(body, n);
          if (body.tool_choice?.type === "none") return { text: "ok" };
          return { content: [{ type: "tool_use", id: `toolu_${n}`, name: ADD, input: {} }] };
        },
      });
      /** Why a request is refused: of one model each field in its own way, and of another one all that there is. */
      const refusalOf = ({ model, tool_choice, output_config }: Body) => {
        if (model !== SONNET) return NAMELESS;
        if (tool_choice?.type === "any") return "Thinking may not be enabled when tool_choice forces tool use.";
        if (tool_choice?.type === "tool") return NAMELESS;
        return output_config?.format && "output_config.format: Extra inputs are not permitted";
      };
      const provider = createProvider({ ...options, model: SONNET });
      const model = provider.bindTools([{ name: "add", schema: { type: "object" } }]);
      const thread: BaseMessage[] = [new HumanMessage("hi")];
      /** How the requests since the last look have asked for a call, and in words or not. */
      let looked = 0;
      const choices = () => {
        const all = api.requests.slice(looked).map(({ body }) => {
          const isInWords = JSON.stringify(told(body).at(-1)).includes(WORDS);
          return [body.tool_choice?.type ?? "-", isInWords].join();
        });
        looked = api.requests.length;
        return all.join(" ");
      };
      const calls = async (toolChoice: "any" | { name: string }) => {
        const { reply, message, warnings, run } = await ask(model, thread, { toolChoice });
        expect(reply.toolCalls.map(({ name }) => name)).toEqual(["add"]);
        thread.push(message, new ToolMessage({ tool_call_id: String(reply.toolCalls[0]?.id), content: "3" }));
        return [warnings, run?.session, choices()];
      };
      // One choice is refused by name, and then another one without a name.
      expect(await calls("any")).toEqual([
        ["UNSUPPORTED_OPTION"],
        "new",
        expect.stringMatching(/^(any,false ){1,3}-,true$/),
      ]);
      expect(await calls("any")).toEqual([[], "continued", "-,true"]);
      // That no call may be made is another choice, which nobody has refused.
      const none = await ask(model, thread, { toolChoice: "none" });
      expect([none.reply.content, none.warnings, choices()]).toEqual(["ok", [], "none,false"]);
      thread.push(none.message, new HumanMessage("again"));
      expect(await calls({ name: "add" })).toEqual([
        ["UNSUPPORTED_OPTION"],
        "restored",
        expect.stringMatching(/^(tool,false ){1,3}-,true$/),
      ]);
      expect(await calls({ name: "add" })).toEqual([[], "continued", "-,true"]);

      const refused = await ask(model, thread, { outputSchema });
      expect(refused.reply.structured).toEqual(OSLO);
      expect([refused.warnings, refused.run?.session]).toEqual([["OUTPUT_SCHEMA_EMULATED"], "restored"]);
      const [format, emulated] = api.requests.slice(looked).map(({ body }) => body);
      expect([format, emulated].map(wayOf)).toEqual(["format", "tool"]);
      // What asks for one reply goes with its process.
      const lasting = (body: Body) =>
        told(body).map((message) => message.filter(({ text }) => !text?.startsWith(WORDS)));
      expect(lasting(emulated)).toEqual(lasting(format));
      const next = await ask(model, [new HumanMessage("three")], { outputSchema: schemaOf("Other") });
      expect([next.reply.structured, next.warnings]).toEqual([OSLO, []]);
      expect(api.requests.slice(looked).map(({ body }) => wayOf(body))).toEqual(["format", "tool", "tool"]);

      // Nothing is known of another model.
      looked = api.requests.length;
      const failed = provider.invoke(["hi"], { outputSchema, model: "claude-opus-4-8" });
      await expect(failed).rejects.toMatchObject({ code: "INVALID_REQUEST", httpStatus: 400 });
      const ways = api.requests.slice(looked).map(({ body }) => `${wayOf(body)} `);
      expect(ways.join("")).toMatch(/^(format ){1,3}(tool ){1,3}$/);
    },
  );

  it.runIf(ALL)(
    "asks in the other way for a schema that the API can't be told, and remembers it for the model",
    async () => {
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
    },
  );

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

  it.runIf(ALL)("finds out once whether a refusal that names nothing is about the schema", async () => {
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

  it.runIf(ALL)("asks in words for a call that the API can't be told to demand", async () => {
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
