// @change
/** `webSearch`: the one tool of claude's own that a model may have beside the caller's, and nothing else of the CLI's comes with it. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createOpenAiCompatibleProvider, type ProviderEvent, runAgent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRichProject } from "../support/claude.mjs";
import { ALL, createProvider, RUNS, withClaude } from "../support/harness.mjs";
import { ask, gone, told } from "../support/live.mjs";

const add = { name: "add", description: "Adds", schema: { type: "object", properties: { a: { type: "number" } } } };
const search = (id: string) => ({ type: "tool_use", id, name: "WebSearch", input: { query: `what is ${id}` } });
const call = { type: "tool_use", id: "toolu_a1", name: "mcp__df__add", input: { a: 1 } };
const USED = { input_tokens: 100, output_tokens: 10 };

/** The answer of the API that searches, which the CLI asks on the side. */
const FOUND = {
  content: [
    { type: "server_tool_use", id: "srv_1", name: "web_search", input: { query: "q" } },
    {
      type: "web_search_tool_result",
      tool_use_id: "srv_1",
      content: [{ type: "web_search_result", title: "A page", url: "https://page.example/1", encrypted_content: "x" }],
    },
    { type: "text", text: "It is seven." },
  ],
  usage: USED,
};

/** The model searches where it is told to, and calls `add` where it is told to do both. */
const script = ({ body }: { body: { messages: object[]; tools?: { type?: string }[] } }) => {
  if (body.tools?.some(({ type }) => type?.startsWith("web_search"))) return FOUND;
  const last = JSON.stringify(body.messages.findLast((message) => (message as { role: string }).role === "user"));
  if (last.includes("toolu_s") || last.includes("toolu_a")) return { text: "Seven.", usage: USED };
  if (last.includes("both")) return { content: [search("toolu_s2"), call], usage: USED };
  if (last.includes("look")) {
    return { content: [{ type: "text", text: "I look." }, search("toolu_s1")], usage: USED };
  }
  return { text: "Hello.", usage: USED };
};

async function eventsOf(stream: AsyncIterable<ProviderEvent>) {
  const events: ProviderEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

const ofTools = (events: ProviderEvent[]) => events.filter(({ type }) => type.startsWith("tool_"));

/** Whether each engine runs every row: otherwise one of them does. */
const EVERY_ROW = ALL || RUNS.length === 1;

describe.each(RUNS)("claude %s, %s", (which, engine) => {
  const mostlyInPrint = it.runIf(EVERY_ROW || engine === "print");

  mostlyInPrint("searches, tells of it, and has no other tool of the CLI's own", async () => {
    const { api, options } = await withClaude({ which, engine, script });
    const provider = createProvider({ ...options, webSearch: true });
    const events = await eventsOf(provider.stream(["look it up"]));
    const toolCall = { id: "toolu_s1", name: "WebSearch", args: { query: "what is toolu_s1" } };
    expect(ofTools(events)).toMatchObject([
      { type: "tool_call", toolCall },
      { type: "tool_result", toolCallId: "toolu_s1", content: expect.stringContaining("seven"), isError: false },
    ]);
    const done = events.at(-1);
    expect(done).toMatchObject({ type: "done", reply: { content: "Seven.", toolCalls: [] } });
    // Two requests of the model's turn; whether the one on the side counts is the CLI's to say.
    expect(done?.type === "done" && done.reply.usage.inputTokens).toBeGreaterThanOrEqual(200);
    const names = api.requests.map(({ body }) => body.tools.map(({ name }: { name: string }) => name));
    expect(names).toEqual([["WebSearch"], ["web_search"], ["WebSearch"]]);
    expect(api.log.filter(({ method }) => method === "POST")).toHaveLength(3);
  });

  it.runIf(EVERY_ROW || engine === "live")("is a call's own choice, too, and off without it", async () => {
    const { api, options } = await withClaude({ which, engine, script });
    const provider = createProvider(options);
    // Without it: as in most tests.
    if (ALL) await provider.invoke(["hi"]);
    await provider.invoke(["hi"], { webSearch: true });
    await createProvider({ ...options, webSearch: true }).invoke(["hi"], { webSearch: false });
    const names = api.requests.map(({ body }) => (body.tools ?? []).map(({ name }: { name: string }) => name));
    expect(names).toEqual([...(ALL ? [[]] : []), ["WebSearch"], []]);
  });

  mostlyInPrint("finds nothing of the folder it runs in", async () => {
    const { api, home, options } = await withClaude({ which, engine, script });
    const project = createRichProject({ home });
    onTestFinished(project.cleanup);
    const provider = createProvider({ ...options, cwd: project.dir, webSearch: true });
    await provider.invoke(["read @CLAUDE.md and @README.md"]);
    const plain = createProvider({ ...options, cwd: project.dir });
    await plain.invoke(["read @CLAUDE.md and @README.md"]);
    const [searching, ...more] = api.requests.map(({ body }) => body);
    expect({ ...searching, tools: [], metadata: {} }).toEqual({ ...more.at(-1), tools: [], metadata: {} });
    expect(project.traces()).toEqual([]);
  });
});

// An agent's run has the same in one process, below.
it.runIf(ALL)("a search beside a call of the caller's is never the caller's", async () => {
  const { api, options } = await withClaude({ engine: "live", script });
  const provider = createProvider({ ...options, webSearch: true }).bindTools([add]);
  const question = new HumanMessage("do both");
  const first = await ask(provider, [question]);
  expect(first.reply.toolCalls).toMatchObject([{ id: "toolu_a1", name: "add" }]);
  const sum = new ToolMessage({ tool_call_id: "toolu_a1", content: "1" });
  const second = await ask(provider, [question, first.message, sum]);
  expect([second.reply.content, second.pid]).toEqual(["Seven.", first.pid]);
  const results = told(api.requests.at(-1)?.body).at(-1) as { tool_use_id: string }[];
  expect(results.slice(1).map(({ tool_use_id }) => tool_use_id)).toEqual(["toolu_s2", "toolu_a1"]);
});

it("a search beside a call is there in another process as well, when the call's result comes", async () => {
  const { api, options } = await withClaude({ engine: "live", script });
  const provider = createProvider({ ...options, webSearch: true }).bindTools([add]);
  const question = new HumanMessage("do both");
  const first = await ask(provider, [question]);
  process.kill(first.pid, "SIGKILL");
  await gone(first.pid);
  const sum = new ToolMessage({ tool_call_id: "toolu_a1", content: "1" });
  const second = await ask(provider, [question, first.message, sum]);
  expect([second.reply.content, second.run?.session, second.warnings]).toEqual(["Seven.", "restored", []]);
  const results = told(api.requests.at(-1)?.body).at(-1) as { tool_use_id: string; content: unknown }[];
  expect(results.slice(1).map(({ tool_use_id }) => tool_use_id)).toEqual(["toolu_s2", "toolu_a1"]);
  expect(results.at(-1)?.content).toBe("1");
});

// restore.test.ts has it with another tool of the CLI's own.
it.runIf(ALL)("a conversation that is restored has its searches and their results", async () => {
  const { api, options } = await withClaude({ engine: "live", script });
  const provider = createProvider({ ...options, webSearch: true });
  const thread = [new HumanMessage("look it up")];
  const first = await ask(provider, thread);
  const before = told(api.requests.at(-1)?.body);
  process.kill(first.pid, "SIGKILL");
  await gone(first.pid);
  const second = await ask(provider, [...thread, first.message, new HumanMessage("and hello")]);
  expect([second.run?.session, second.reply.content, second.warnings]).toEqual(["restored", "Hello.", []]);
  expect(told(api.requests.at(-1)?.body)).toEqual([
    ...before,
    ["assistant", { type: "text", text: "Seven." }],
    ["user", { type: "text", text: "and hello" }],
  ]);
});

it("an agent's run tells of a search with its result, and runs the caller's tools alone", async () => {
  const { options } = await withClaude({ engine: "live", script });
  const ran: object[] = [];
  const tool = { ...add, execute: (args: object) => ran.push(args) };
  const run = runAgent({ provider: createProvider(options), prompt: "do both", tools: [tool], webSearch: true });
  const names: string[] = [];
  for await (const event of run) if (event.type === "tool_result") names.push(event.name);
  expect([ran, names.toSorted(), (await run.result).output]).toEqual([[{ a: 1 }], ["WebSearch", "add"], "Seven."]);
});

it("is refused by name where it can't be, or where a tool has its name", async () => {
  const claude = createProvider({ cliPath: "/nowhere/at-all" });
  const named = claude.bindTools([{ ...add, name: "WebSearch" }]).invoke(["hi"], { webSearch: true });
  await expect(named).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringMatching(
      /^the option "webSearch" and the tool "WebSearch" contradict each other: .* give the tool another/,
    ),
  });
  const api = { baseURL: "http://127.0.0.1:9/v1", model: "m" };
  const refusal = {
    code: "UNSUPPORTED_OPTION",
    message:
      'option "webSearch" is not supported by openai; those that can: claude, codex. Leave it out, use a provider that can, ' +
      'or set `onUnsupported: "warn"`',
  };
  const plain = createOpenAiCompatibleProvider(api);
  await expect(plain.invoke(["hi"], { webSearch: true })).rejects.toMatchObject(refusal);
  const warned = createOpenAiCompatibleProvider({ ...api, onUnsupported: "warn", retry: false });
  await expect(warned.invoke(["hi"], { webSearch: true })).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  const always = { ...api, webSearch: true };
  expect(() => createOpenAiCompatibleProvider(always)).toThrow(expect.objectContaining(refusal));
});
