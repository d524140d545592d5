// @change
/** The real qwen as a live engine: one process for a conversation, and native calls that wait in it. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { createQwenCliProvider, type QwenCliProviderOptions } from "deep-factor-providers";
import type { CliProvider } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { NEWEST_QWEN } from "../support/clis.mjs";
import { createFakes } from "../support/fake.mjs";
import { ALL, withCli } from "../support/harness.mjs";
import { EVERY_FORM } from "../support/live-forms.mjs";

const ADD = {
  name: "add.it",
  description: "Adds two numbers",
  schema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] },
};
const NAME = /^mcp__df__add_it/;
const STEP = { name: "step", description: "Takes a step", schema: { type: "object" } };
const [QWEN = EVERY_FORM[0]] = EVERY_FORM.filter(({ name }) => name.startsWith("qwen"));

type Body = { messages: Record<string, unknown>[]; tools?: { function: { name: string } }[] };
type Asked = { body: Body };

/** What the API is asked, as far as it is the conversation. */
function said({ body }: Asked) {
  return body.messages.map(({ role, content, tool_calls, tool_call_id }) => {
    const whole = Array.isArray(content) ? content.map(({ text }: { text: string }) => text).join("") : content;
    // The CLI's own words on the day, the system and the (private) folder.
    const parts = typeof whole === "string" ? whole.replace(/<system-reminder>.*?<\/system-reminder>/gs, "") : whole;
    const calls = tool_calls as { id: string; function: { name: string; arguments: string } }[] | undefined;
    const called = calls?.map((call) => `${call.id}(${call.function.arguments})`).join(" ");
    return [role, tool_call_id, parts || undefined, called].filter((part) => part !== undefined).join(" | ");
  });
}

const wire = ({ body }: Asked) =>
  body.tools?.map((tool) => tool.function.name).find((name) => NAME.test(name)) ?? "none";
const calls =
  (text: string, ...made: [string, number][]) =>
  (asked: Asked) => ({
    text,
    calls: made.map(([id, a]) => ({ id, name: wire(asked), args: { a } })),
    usage: { input: 20, output: 7 },
  });
const says = (text: string) => ({ text, usage: { input: 30, output: 9 } });

async function live(script: Parameters<typeof withCli>[1]["script"], mayRunOut = false) {
  const cli = await withCli("qwen", { script, mayRunOut, version: NEWEST_QWEN });
  const provider = cli.create({ engine: "live", retry: false });
  return { ...cli, provider, asked: (at: number) => said(cli.api.requests[at] as unknown as Asked) };
}

/** One turn, the sessions that it tells, and the texts of its messages. */
async function ask(model: Pick<CliProvider, "stream">, thread: BaseMessage[]) {
  const sessions: unknown[] = [];
  const texts = new Map<string | undefined, string>();
  for await (const event of model.stream(thread)) {
    if (event.type === "session") sessions.push([event.sessionId, event.model]);
    if (event.type === "text_delta") texts.set(event.messageId, (texts.get(event.messageId) ?? "") + event.text);
    if (event.type !== "done") continue;
    const { content, toolCalls } = event.reply;
    const tool_calls = toolCalls.map(({ id, name, args }) => ({ id, name, args }));
    return {
      reply: event.reply,
      message: new AIMessage({ content, tool_calls }),
      sessions,
      texts: [...texts.values()],
    };
  }
  throw new Error("no reply");
}

const system = new SystemMessage("Be brief.");
const question = new HumanMessage("What is it?");
const result = (id: string, content: string) => new ToolMessage({ tool_call_id: id, content });

describe.skipIf(!HERE)(`the real qwen ${NEWEST_QWEN}, live`, { timeout: 600_000 }, () => {
  it("has its bound tools whatever the user's settings take away, also under the names of every object's own properties", async () => {
    const settings = {
      permissions: { deny: ["mcp__*"] },
      tools: { exclude: ["mcp__df__step"] },
      mcp: { allowed: ["x"], excluded: ["df"] },
    };
    const names = ["constructor", "toString", "__proto__", "valueOf"];
    const { home, provider, api } = await live([
      ({ body }: Asked) => {
        const tools = body.tools?.map((tool) => tool.function.name) ?? [];
        return { text: "", calls: tools.map((name, at) => ({ id: `c${at}`, name, args: {} })) };
      },
    ]);
    mkdirSync(join(home, ".qwen"), { recursive: true });
    writeFileSync(join(home, ".qwen", "settings.json"), JSON.stringify(settings));
    const tools = [STEP, ...names.map((name) => ({ ...STEP, name }))];
    const reply = await provider.bindTools(tools).invoke([question]);
    expect(api.requests).toHaveLength(1);
    const [request] = api.requests as unknown as Asked[];
    expect(request?.body.tools?.map((tool) => tool.function.name)).toEqual([
      "mcp__df____proto___f4201a1a",
      "mcp__df__constructor_f9bdeafd",
      "mcp__df__step",
      "mcp__df__toString_2361c16c",
      "mcp__df__valueOf_0c349341",
    ]);
    expect(reply.tool_calls?.map(({ name }) => name).sort()).toEqual(["step", ...names].sort());
  });

  it("fails by name where the CLI does not offer a bound tool", async () => {
    // Nothing of the user's makes it do so: the list that it prints is edited.
    const edits = `sed -u 's/"mcp__df__step"/"other"/'`;
    const launcher = `if [ -z "$EDITED" ]; then EDITED=1 "$0" "$@" | ${edits}; exit; fi`;
    const { create } = await QWEN.start(() => says("I have none."), launcher);
    const error = await create()
      .bindTools([STEP])
      .invoke([question])
      .catch((failure) => failure);
    expect([error.code, error.shouldRetry]).toEqual(["INVALID_CONFIG", false]);
    expect(error.message).toMatch(
      /^the CLI does not offer its model what is bound: step\. Look into `permissions\.deny` and `tools` of `~\/\.qwen/,
    );
  });

  it("takes of several calls under one id the first, and an answer that met the output limit as one", async () => {
    // That call is all that the CLI keeps of them.
    const twins = (asked: Asked) => ({ ...calls("", ["c", 1], ["c", 2])(asked), wholeCalls: true });
    const part = (text: string, stopReason: string) => ({ text, stopReason, usage: { input: 20, output: 7 } });
    const { provider, api, asked } = await live([
      twins,
      says("done"),
      part("Too short for it", "length"),
      part("One, ", "length"),
      part("two, ", "length"),
      part("three.", "stop"),
    ]);
    const model = provider.bindTools([ADD]);
    const first = await ask(model, [question]);
    expect(first.reply.toolCalls.map(({ id, args }) => [id, args])).toEqual([["c", { a: 1 }]]);
    const thread = [question, first.message, result("c", "took 1")];
    const second = await ask(model, thread);
    expect([second.reply.content, asked(1).slice(2)]).toEqual([
      "done",
      [`assistant | c({"a":1})`, "tool | c | took 1"],
    ]);
    // Its session is told in every turn.
    expect(first.sessions).toEqual([[expect.any(String), "mock-model"]]);
    expect(second.sessions).toEqual(first.sessions);

    const { reply, texts } = await ask(model, [...thread, second.message, new HumanMessage("All of it?")]);
    // What the CLI has asked for anew is another message, as the pieces say.
    expect(texts).toEqual(["Too short for it", "One, two, three."]);
    expect([reply.content, reply.messages.map(({ content }) => content)]).toEqual([
      "One, two, three.",
      ["One, two, three."],
    ]);
    expect(api.requests).toHaveLength(6);
  });

  it("keeps a conversation with calls in one process, and leaves nothing behind", async () => {
    const { provider, api, asked, tag, home } = await live([
      calls("Let me see.", ["c1", 1], ["c2", 2]),
      says("3 and 11."),
      says("Bye."),
    ]);
    const model = provider.bindTools([ADD]);
    const first = await model.invoke([system, question]);
    expect([first.content, first.tool_calls, first.usage_metadata]).toMatchObject([
      "Let me see.",
      [
        { name: "add.it", args: { a: 1 }, id: "c1" },
        { name: "add.it", args: { a: 2 }, id: "c2" },
      ],
      { input_tokens: 20, output_tokens: 7, total_tokens: 27 },
    ]);
    const called = new AIMessage({ content: first.content, tool_calls: first.tool_calls });
    // The later call's result comes first.
    const thread = [system, question, called, result("c2", "11"), result("c1", "3")];
    const second = await model.invoke(thread);
    expect([second.content, second.tool_calls, second.usage_metadata]).toMatchObject([
      "3 and 11.",
      [],
      { input_tokens: 30, output_tokens: 9, total_tokens: 39 },
    ]);
    const third = await model.invoke([...thread, new AIMessage("3 and 11."), new HumanMessage("Thanks.")]);
    expect([third.content, third.usage_metadata]).toMatchObject(["Bye.", { input_tokens: 30, output_tokens: 9 }]);
    const pids = [first, second, third].map(({ response_metadata }) => response_metadata.run?.pid);
    expect([new Set(pids).size, third.response_metadata.run?.continued]).toEqual([1, true]);
    const start = [expect.stringContaining("system | Be brief."), "user | What is it?"];
    const results = ['assistant | Let me see. | c1({"a":1}) c2({"a":2})', "tool | c1 | 3", "tool | c2 | 11"];
    expect([0, 1, 2].map(asked)).toEqual([
      start,
      [...start, ...results],
      [...start, ...results, "assistant | 3 and 11.", "user | Thanks."],
    ]);
    expect(api.requests[0]?.body.tools).toHaveLength(1);
    expect(api.requests[0]?.bytes).toBeLessThan(1800);
    await provider.close();
    expect(tag.left()).toEqual([]);
    expect(existsSync(join(home, ".qwen", "projects"))).toBe(false);
  });

  // The one below is as foreign, and goes on behind results as well.
  it.runIf(ALL)("reads a foreign thread from a chat file, and goes on behind its results", async () => {
    const { provider, asked } = await live([says("42."), says("Still 42.")]);
    const model = provider.bindTools([ADD]);
    const call = { name: "add.it", args: { a: 42 }, id: "x1", type: "tool_call" as const };
    const thread = [question, new AIMessage({ content: "Adding.", tool_calls: [call] }), result("x1", "42")];
    expect((await model.invoke(thread)).content).toBe("42.");
    const edited = [question, new AIMessage("It is 41."), new HumanMessage("Sure?")];
    expect((await model.invoke(edited)).content).toBe("Still 42.");
    expect([0, 1].map((at) => asked(at).slice(1))).toEqual([
      ["user | What is it?", 'assistant | Adding. | x1({"a":42})', "tool | x1 | 42"],
      ["user | What is it?", "assistant | It is 41.", "user | Sure?"],
    ]);
  });

  it("reads a result of 300 KB in the middle of a foreign thread, whole, and goes on behind its results", async () => {
    const { provider, asked } = await live([says("Sure.")]);
    const model = provider.bindTools([ADD]);
    const call = { name: "add.it", args: { a: 42 }, id: "x1", type: "tool_call" as const };
    const long = "0123456789".repeat(30_000);
    const called = new AIMessage({ content: "Adding.", tool_calls: [call] });
    const again = new AIMessage({ content: "Again.", tool_calls: [{ ...call, id: "x2" }] });
    const asking = [new AIMessage("42."), new HumanMessage("Sure?")];
    const thread = [question, called, result("x1", long), ...asking, again, result("x2", "42")];
    expect((await model.invoke(thread)).content).toBe("Sure.");
    expect(asked(0).slice(2)).toEqual([
      'assistant | Adding. | x1({"a":42})',
      `tool | x1 | ${long}`,
      "assistant | 42.",
      "user | Sure?",
      'assistant | Again. | x2({"a":42})',
      "tool | x2 | 42",
    ]);
  });

  it.runIf(ALL)("sends a result that the CLI would cut to another process, whole, and says so", async () => {
    const { provider, asked } = await live([calls("", ["c1", 1]), says("Long.")]);
    const model = provider.bindTools([ADD]);
    const first = await model.invoke([question]);
    const called = new AIMessage({ content: "", tool_calls: first.tool_calls });
    const long = "0123456789".repeat(3_000);
    const warnings: string[] = [];
    let content = "";
    for await (const event of model.stream([question, called, result("c1", long)])) {
      if (event.type === "warning") warnings.push(event.code);
      if (event.type === "done") content = event.reply.content;
    }
    expect([content, warnings]).toEqual(["Long.", ["RESULT_TOO_LONG"]]);
    expect(asked(1).at(-1)).toBe(`tool | c1 | ${long}`);
  });

  it.each(["live", "print"])("names a Node that is too old for it, and its version: %s", async (engine) => {
    const { cliPath, env } = (await withCli("qwen", { script: [], version: NEWEST_QWEN })).options;
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    // What 18.20.8 says of 0.24.4.
    const said = [
      "An unexpected critical error occurred:",
      "Original error:",
      "file:///chunks/chunk-V2XJJTAB.js:16",
      'import { openAsBlob } from "node:fs";',
      "         ^^^^^^^^^^",
      "SyntaxError: The requested module 'node:fs' does not provide an export named 'openAsBlob'",
      "    at ModuleJob._instantiate (node:internal/modules/esm/module_job:123:21)",
    ];
    writeFileSync(join(fakes.dir, "said"), said.join("\n"));
    const node = fakes.shell(
      "node",
      `[ "$1" = --version ] && echo v18.20.8 && exit 0\ncat '${fakes.dir}/said' >&2\nexit 1`,
    );
    const PATH = [fakes.dir, "/usr/bin", "/bin"].join(delimiter);
    const provider = createQwenCliProvider({ cliPath, engine, env: { ...env, PATH } } as QwenCliProviderOptions);
    onTestFinished(() => provider.close());
    const error = {
      code: "CLI_NOT_EXECUTABLE",
      category: "configuration",
      message: expect.stringMatching(
        new RegExp(
          `^the CLI needs a newer Node than the one that runs it, Node 18\\.20\\.8 \\(${node}\\)\\. Update Node`,
        ),
      ),
    };
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ ...error, attempts: 1 });
    // In print form nothing is started ahead.
    if (engine === "live") {
      await expect(provider.prewarm({ system: "Be brief.", tools: [] })).rejects.toMatchObject(error);
    }
  });

  it.runIf(ALL)("tells of a refusal, answers the next call, and is cancelled in the middle of one", async () => {
    const { provider, tag } = await live(
      [
        { error: { status: 401, message: "Incorrect API key provided" } },
        says("Hello."),
        { chunks: ["One ", "two "], hangAfter: 2 },
      ],
      true,
    );
    await expect(provider.invoke([question])).rejects.toMatchObject({ code: "INVALID_API_KEY", httpStatus: 401 });
    expect((await provider.invoke([question])).content).toBe("Hello.");
    const abort = new AbortController();
    const texts: string[] = [];
    const streaming = (async () => {
      for await (const event of provider.stream([question], { signal: abort.signal })) {
        if (event.type === "text_delta") texts.push(event.text);
        if (texts.length === 1) abort.abort();
      }
    })();
    await expect(streaming).rejects.toMatchObject({ name: "AbortError" });
    await provider.close();
    expect(tag.left()).toEqual([]);
  });
});
