// @change
/**
 * What the model wrote is what the tool gets: claude's own words on a call have escapes resolved that stood in it as text (`\u00e9`), the
 * pieces of its stream do not.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { streamText, tool } from "ai";
import { runAgent } from "deep-factor-providers";
import { claudeCli } from "deep-factor-providers/ai-sdk";
import { ChatClaudeCli } from "deep-factor-providers/langchain";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { eventsIn, serve, temporaryFolder } from "../support/gateway.mjs";
import { ALL, createProvider, shareOf, withClaude } from "../support/harness.mjs";
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
const bound = { name: "write", description: "Writes", schema };
const use = (n: number) => ({ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__write", input: ARGS });
const result = (n: number) => new ToolMessage({ tool_call_id: `toolu_${n}`, content: "written" });

/** A call of the tool, and then an end, again and again. */
const twice = ({ body }: { body: { messages: { role: string; content: unknown }[] } }) => {
  const isResult = body.messages.map((message) => JSON.stringify(message).includes("tool_result"));
  return isResult.at(-1) ? { text: "Done." } : { content: [use(isResult.filter(Boolean).length + 1)] };
};

/** Each test is run with one of the versions, and of two engines each version has another one: with `--all`, it is all of them. */
describe.each(["newest", "oldest"] as const)("claude %s", { timeout: 120_000 }, (which) => {
  const withNewest = it.runIf(ALL || which === "newest");
  // Its own words on a call differ the most from the model's.
  const withOldest = it.runIf(ALL || which === "oldest");
  const engines = shareOf(["live", "print"] as const, which === "newest" ? 0 : 1, 2);

  withOldest(
    "invoke and stream give the model's own arguments, and the thread goes on with either form of them",
    async () => {
      const { api, options } = await withClaude({ which, engine: "live", script: twice });
      const provider = createProvider(options).bindTools([bound]);
      const first = await ask(provider, ["go"]);
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

  it.each(engines)("runAgent in %s form runs the tool with them, and its log has them", async (engine) => {
    const { options } = await withClaude({ which, engine, script: twice });
    const path = join(temporaryFolder(), "run.jsonl");
    const got: unknown[] = [];
    const run = runAgent({
      provider: createProvider(options),
      prompt: "Go.",
      tools: [
        {
          ...bound,
          execute: (args: unknown) => {
            got.push(args);
            return "written";
          },
        },
      ],
      toolCalls: engine === "print" ? "callbacks" : "turns",
      record: { path, prompts: true },
    });
    const events: unknown[] = [];
    for await (const event of run) if (event.type === "tool_call") events.push(event.toolCall.args);
    expect(await run.result).toMatchObject({ status: "completed", output: "Done." });
    expect(got).toEqual([ARGS]);
    expect(events).toEqual([ARGS]);
    const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
    const calls = lines.map((line) => JSON.parse(line)).flatMap((line) => line.event?.toolCall ?? line.toolCall ?? []);
    for (const call of calls) expect(call.args).toEqual(ARGS);
    expect(lines.join("\n")).toContain(JSON.stringify(ARGS.code));
  });

  withNewest("the gateway, LangChain and the AI SDK hand them on, in pieces and whole", async () => {
    const { options } = await withClaude({ which, engine: "live", script: twice });
    const { ask: request } = await serve({ providers: { cli: createProvider(options) } });
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

    const { model: _, ...own } = options;
    const model = new ChatClaudeCli({ ...own, model: "sonnet" } as never).bindTools([bound as never]);
    let sum: AIMessageChunk | undefined;
    for await (const chunk of await model.stream("go")) sum = sum === undefined ? chunk : sum.concat(chunk);
    expect(sum?.tool_calls).toMatchObject([{ name: "write", args: ARGS }]);

    onTestFinished(() => claudeCli.close());
    const got: unknown[] = [];
    const streamed = streamText({
      model: claudeCli("sonnet", own as never),
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
  });

  it.each(engines.filter((engine) => ALL || engine === "print"))(
    "an answer by a schema is the model's own, in %s form",
    async (engine) => {
      const answer = { type: "tool_use", id: "toolu_so", name: "StructuredOutput", input: ARGS };
      const said = engine === "live" ? { text: JSON.stringify(ARGS) } : { content: [answer] };
      const { options } = await withClaude({ which, engine, script: () => said });
      const outputSchema = { ...schema, required: NAMES };
      const { reply } = await ask(createProvider({ ...options, includePartialMessages: true } as never), ["go"], {
        outputSchema,
      });
      expect(reply.structured).toEqual(ARGS);
    },
  );

  withNewest("a call under an id that the session has had is answered where the model sees it", async () => {
    const step = (n: number) => ({
      content: [{ type: "tool_use", id: "call_1", name: "mcp__df__step", input: { n } }],
    });
    const steps = ALL ? 3 : 2;
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: (_, index) => (index < steps ? step(index + 1) : { text: "Arrived." }),
    });
    const tools = [{ name: "step", schema: { type: "object", properties: { n: { type: "number" } } } }];
    const provider = createProvider(options).bindTools(tools);
    const thread: BaseMessage[] = [new HumanMessage("go")];
    const continued: (boolean | undefined)[] = [];
    for (let n = 1; n <= steps; n += 1) {
      const { reply, message, run } = await ask(provider, thread);
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
