// @change
/**
 * What the model wrote is what the tool gets: claude's own words on a call have escapes resolved that stood in it as text (`\u00e9`), the
 * pieces of its stream do not.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { streamText, tool } from "ai";
import { type CliProvider, runAgent } from "deep-factor-providers";
import { claudeCli, codexCli } from "deep-factor-providers/ai-sdk";
import { ChatClaudeCli, ChatCodexCli } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { HERE } from "../clis/real.js";
import { eventsIn, serve, temporaryFolder } from "../support/gateway.mjs";
import { ALL, createProvider, shareOf, withClaude, withCli } from "../support/harness.mjs";
import { ask, told } from "../support/live.mjs";

/** What the tool is to get: six letters are six letters. */
const ARGS = {
  code: 'const e = "\\u00e9";',
  line: "a\\u2028b",
  path: "C:\\home\\u9511112\\a.ts",
  pair: "\\ud83d\\ude00",
  real: "é\u2028\n",
};
const NAMES = Object.keys(ARGS);
const schema = {
  type: "object",
  properties: Object.fromEntries(NAMES.map((name) => [name, { type: "string" }])),
};
const outputSchema = { ...schema, required: NAMES };
const bound = { name: "write", description: "Writes", schema };
const use = (n: number) => ({ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__write", input: ARGS });
/** An answer by a schema. */
const ANSWERED = { content: [{ type: "tool_use", id: "toolu_so", name: "StructuredOutput", input: ARGS }] };
const result = (n: number) => new ToolMessage({ tool_call_id: `toolu_${n}`, content: "written" });

/** A provider whose pieces of a call's arguments are collected. */
function listening(provider: CliProvider, pieces: string[]): CliProvider {
  const stream: CliProvider["stream"] = async function* (...asked) {
    for await (const event of provider.stream(...asked)) {
      if (event.type === "tool_call_delta") pieces.push(event.delta);
      yield event;
    }
  };
  return { stream } as CliProvider;
}

/** A call of the tool, and then an end, again and again. */
const twice = ({ body }: { body: { messages: { role: string; content: unknown }[] } }) => {
  const isResult = body.messages.map((message) => JSON.stringify(message).includes("tool_result"));
  return isResult.at(-1) ? { text: "Done." } : { content: [use(isResult.filter(Boolean).length + 1)] };
};

/** The same of codex. */
const twiceOfCodex = ({ body }: { body: { input: { type: string }[] } }) => {
  const results = body.input.filter(({ type }) => type === "function_call_output").length;
  const isResult = body.input.at(-1)?.type === "function_call_output";
  return isResult ? { text: "Done." } : { output: [{ call: "write", id: `call_${results + 1}`, args: ARGS }] };
};

/** Runs an agent: what its tool got, its events of calls, its result, and the lines of its log. */
async function agentOf(provider: CliProvider, toolCalls: "callbacks" | "turns", more: object = {}) {
  const path = join(temporaryFolder(), "run.jsonl");
  const got: unknown[] = [];
  const execute = (args: unknown) => {
    got.push(args);
    return "written";
  };
  const tools = [{ ...bound, execute }];
  const run = runAgent({ provider, prompt: "Go.", tools, toolCalls, record: { path, prompts: true }, ...more });
  const events: unknown[] = [];
  for await (const event of run) if (event.type === "tool_call") events.push(event.toolCall.args);
  const result = await run.result;
  expect(result).toMatchObject({ status: "completed" });
  expect(got).toEqual([ARGS]);
  expect(events).toEqual([ARGS]);
  const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
  const calls = lines.map((line) => JSON.parse(line)).flatMap((line) => line.event?.toolCall ?? line.toolCall ?? []);
  for (const call of calls) expect(call.args).toEqual(ARGS);
  expect(lines.join("\n")).toContain(JSON.stringify(ARGS.code));
  return result;
}

/** The gateway, LangChain's model and the AI SDK's over the same CLI: each hands the arguments on. */
async function expectOfFaces(
  provider: CliProvider,
  options: { model: string },
  Chat: typeof ChatClaudeCli | typeof ChatCodexCli,
  sdk: typeof claudeCli | typeof codexCli,
) {
  const { ask: request } = await serve({ providers: { cli: provider } });
  const chat = await request("/v1/chat/completions", {
    model: "cli",
    stream: true,
    messages: [{ role: "user", content: "go" }],
    tools: [{ type: "function", function: { name: "write", parameters: schema } }],
  });
  const pieces = eventsIn(chat.text)
    .flatMap(([, data]) => data.choices?.[0]?.delta?.tool_calls ?? [])
    .map((call: { function?: { arguments?: string } }) => call.function?.arguments ?? "");
  expect(JSON.parse(pieces.join(""))).toEqual(ARGS);

  const chatModel = new Chat(options as never);
  onTestFinished(() => chatModel.close());
  const model = chatModel.bindTools([bound as never]);
  let sum: AIMessageChunk | undefined;
  for await (const chunk of await model.stream("go")) sum = sum === undefined ? chunk : sum.concat(chunk);
  expect(sum?.tool_calls).toMatchObject([{ name: "write", args: ARGS }]);

  const { model: name, ...own } = options;
  onTestFinished(() => sdk.close());
  const got: unknown[] = [];
  const streamed = streamText({
    model: sdk(name, own as never),
    prompt: "go",
    tools: {
      write: tool({
        inputSchema: z.object(Object.fromEntries(NAMES.map((name) => [name, z.string()]))),
        execute: (args) => {
          got.push(args);
          return "written";
        },
      }),
    },
  });
  expect((await streamed.toolCalls).map(({ input }) => input)).toEqual([ARGS]);
  expect(got).toEqual([ARGS]);
}

// What stands above the CLIs is the same code for all of them, and codex starts in a fraction of claude's time.
describe.skipIf(!HERE)("codex", () => {
  it("the gateway, LangChain and the AI SDK hand them on, and runAgent runs the tool with them", async () => {
    const { options, create } = await withCli("codex", { script: twiceOfCodex });
    const own = { ...options, model: options.model ?? "", engine: "live" } as const;
    const provider = create({ engine: "live" }) as unknown as CliProvider;
    await expectOfFaces(provider, own, ChatCodexCli, codexCli);
    expect(await agentOf(provider, "turns")).toMatchObject({ output: "Done." });
  });
});

/** Each test is run with one of the versions, and of two engines each version has another one: with `--all`, it is all of them. */
describe.each(["newest", "oldest"] as const)("claude %s", { timeout: 120_000 }, (which) => {
  const withNewest = it.runIf(ALL || which === "newest");
  // Its own words on a call differ the most from the model's.
  const withOldest = it.runIf(ALL || which === "oldest");
  const engines = shareOf(["live", "print"] as const, which === "newest" ? 0 : 1, 2);
  /** Of the engine that is kept, the arguments are looked at in other tests. */
  const isRun = (engine: "live" | "print") => ALL || engine === "print";

  withOldest(
    "invoke and stream give the model's own arguments, and the thread goes on with either form of them",
    async () => {
      const { api, options } = await withClaude({ which, engine: "live", script: twice });
      const provider = createProvider(options).bindTools([bound]);
      const pieces: string[] = [];
      const first = await ask(listening(provider, pieces), ["go"]);
      expect(JSON.parse(pieces.join(""))).toEqual(ARGS);
      expect(first.reply.toolCalls).toEqual([{ id: "toolu_1", name: "write", args: ARGS }]);
      const thread: BaseMessage[] = [new HumanMessage("go"), first.message, result(1)];
      const second = await ask(provider, thread);
      expect([second.reply.content, second.run?.continued, second.pid]).toEqual(["Done.", true, first.pid]);

      thread.push(second.message, new HumanMessage("go on"));
      const whole = await provider.invoke(thread);
      expect(whole.tool_calls?.[0]?.args).toEqual(ARGS);
      // As the CLI itself tells of the call.
      const resolved = {
        ...ARGS,
        code: 'const e = "é";',
        line: "a\u2028b",
        pair: "\u{1F600}",
        path: which === "oldest" ? "C:\\home\u9511112\\a.ts" : ARGS.path,
      };
      const other = await ask(provider, [
        ...thread,
        { role: "assistant", content: "", tool_calls: [{ id: "toolu_2", name: "write", args: resolved }] },
        result(2),
      ]);
      expect([other.reply.content, other.run?.continued, other.pid]).toEqual(["Done.", true, first.pid]);
      expect(told(api.requests.at(-1)?.body).at(-1)).toEqual([
        "user",
        { type: "tool_result", tool_use_id: "toolu_2", content: "written" },
      ]);
    },
  );

  it.each(engines.filter(isRun))(
    `runAgent in %s form runs the tool with them, and its log has them${ALL ? "" : ", and so is an answer by a schema"}`,
    async (engine) => {
      const script = ALL
        ? twice
        : (asked: Parameters<typeof twice>[0]) => (twice(asked).text ? ANSWERED : twice(asked));
      const { options } = await withClaude({ which, engine, script });
      const toolCalls = engine === "print" ? "callbacks" : "turns";
      const more = ALL ? {} : { outputSchema };
      const result = await agentOf(createProvider(options), toolCalls, more);
      expect(result).toMatchObject(ALL ? { output: "Done." } : { structured: ARGS });
    },
  );

  it.runIf(ALL)("the gateway, LangChain and the AI SDK hand them on, in pieces and whole", async () => {
    const { options } = await withClaude({ which, engine: "live", script: twice });
    await expectOfFaces(createProvider(options), options, ChatClaudeCli, claudeCli);
  });

  it.runIf(ALL).each(engines)("an answer by a schema is the model's own, in %s form", async (engine) => {
    const said = engine === "live" ? { text: JSON.stringify(ARGS) } : ANSWERED;
    const { options } = await withClaude({ which, engine, script: () => said });
    const { reply } = await ask(createProvider({ ...options, includePartialMessages: true } as never), ["go"], {
      outputSchema,
    });
    expect(reply.structured).toEqual(ARGS);
  });

  withNewest("a call under an id that the session has had is answered where the model sees it", async () => {
    const step = (n: number) => ({
      content: [{ type: "tool_use", id: "call_1", name: "mcp__df__write", input: { ...ARGS, n } }],
    });
    const steps = ALL ? 3 : 2;
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: (_, index) => (index < steps ? step(index + 1) : { text: "Arrived." }),
    });
    const numbered = { ...schema, properties: { ...schema.properties, n: { type: "number" } } };
    const provider = createProvider(options).bindTools([{ ...bound, schema: numbered }]);
    const thread: BaseMessage[] = [new HumanMessage("go")];
    const continued: (boolean | undefined)[] = [];
    for (let n = 1; n <= steps; n += 1) {
      const { reply, message, run } = await ask(provider, thread);
      expect(reply.toolCalls[0]?.args).toEqual({ ...ARGS, n });
      continued.push(run?.continued);
      thread.push(message, new ToolMessage({ tool_call_id: String(reply.toolCalls[0]?.id), content: `took ${n}` }));
    }
    const last = await ask(provider, thread);
    expect(last.reply.content).toBe("Arrived.");
    // What had to be renamed is told anew: the CLI would put "[Tool use interrupted]" in its place.
    const body = JSON.stringify(api.requests.at(-1)?.body.messages);
    expect([1, 2, 3].slice(0, steps).filter((n) => !body.includes(`took ${n}`))).toEqual([]);
    expect(body).not.toContain("interrupted");
    expect([continued, last.run?.continued]).toEqual([[false, true, false].slice(0, steps), false]);
  });
});
