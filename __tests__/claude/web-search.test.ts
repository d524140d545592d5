// @change
/**
 * The tools of claude's own that a model may have beside the caller's, with which nothing else of the CLI's comes: `webSearch`, and the
 * search among the caller's tools.
 */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import {
  type CliProvider,
  createCodexCliProvider,
  createOpenAiCompatibleProvider,
  limits,
  type ProviderEvent,
  runAgent,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { CANARY, createRichProject } from "../support/claude.mjs";
import { ALL, createProvider, MAIN_RUN, RUNS, VERSIONS, WIDE, withClaude } from "../support/harness.mjs";
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

/** Whether each engine runs every row: otherwise print has those of one call, and a session an agent's run. */
const EVERY_ROW = ALL || RUNS.length === 1;

describe.each(RUNS)("claude %s, %s", (which, engine) => {
  it.runIf(EVERY_ROW || engine === "print")(
    "searches, tells of it, has no other tool of the CLI's own and nothing of the folder it runs in, and is a call's own choice, too",
    async () => {
      const { api, home, options } = await withClaude({
        which,
        engine,
        script: (request: Parameters<typeof script>[0]) =>
          request.body.tools?.length ? script(request) : { text: "Hello." },
      });
      const project = createRichProject({ home });
      onTestFinished(project.cleanup);
      const question = "look it up, and read @CLAUDE.md and @README.md";
      const provider = createProvider({ ...options, cwd: project.dir, webSearch: true });
      const events = await eventsOf(provider.stream([question]));
      const toolCall = { id: "toolu_s1", name: "WebSearch", args: { query: "what is toolu_s1" } };
      expect(ofTools(events)).toMatchObject([
        { type: "tool_call", toolCall },
        { type: "tool_result", toolCallId: "toolu_s1", content: expect.stringContaining("seven"), isError: false },
      ]);
      const done = events.at(-1);
      expect(done).toMatchObject({ type: "done", reply: { content: "Seven.", toolCalls: [] } });
      // Two requests of the model's turn; whether the one on the side counts is the CLI's to say.
      expect(done?.type === "done" && done.reply.usage.inputTokens).toBeGreaterThanOrEqual(200);
      const names = () => api.requests.map(({ body }) => (body.tools ?? []).map(({ name }: { name: string }) => name));
      expect(names()).toEqual([["WebSearch"], ["web_search"], ["WebSearch"]]);
      expect(api.log.filter(({ method }) => method === "POST")).toHaveLength(3);

      await provider.invoke([question], { webSearch: false });
      expect(names().slice(3)).toEqual([[]]);
      const [first, , , plain] = api.requests.map(({ body }) => body);
      expect({ ...first, tools: [], metadata: {} }).toEqual({ ...plain, tools: [], metadata: {} });
      expect(project.traces()).toEqual([]);
      if (!ALL) return;
      // Without either: as in most tests. With a call's own: as in an agent's run.
      const other = createProvider({ ...options, cwd: project.dir });
      await other.invoke(["hi"]);
      await other.invoke(["hi"], { webSearch: true });
      expect(names().slice(4)).toEqual([[], ["WebSearch"]]);
    },
  );
});

const LIVE = (WIDE ? RUNS : MAIN_RUN).filter(([, engine]) => engine === "live");
it.each(LIVE)(
  "claude %s: an agent's run tells of searches beside calls with their results, in another process as well",
  async (which) => {
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: (request: Parameters<typeof script>[0]) => {
        const { messages, tools } = request.body;
        const isTold = (id: string) => JSON.stringify(messages).includes(id);
        // It does both, once more when it has their results, and then says what it has found.
        if (tools?.some(({ type }) => type?.startsWith("web_search")) || !isTold("toolu_a1") || isTold("toolu_a2")) {
          return script(request);
        }
        return { content: [search("toolu_s3"), { ...call, id: "toolu_a2", input: { a: 2 } }], usage: USED };
      },
    });
    const ran: object[] = [];
    const pids: number[] = [];
    const execute = async (args: object) => {
      const [{ pid } = { pid: 0 }] = limits().processes;
      pids.push(pid);
      // The first time, its process goes on; the second time, there is none when the result comes.
      if (pids.length === 2) {
        process.kill(pid, "SIGKILL");
        await gone(pid);
      }
      return ran.push(args);
    };
    const provider = createProvider(options);
    const run = runAgent({ provider, prompt: "do both", tools: [{ ...add, execute }], webSearch: true });
    const names: string[] = [];
    const warnings: string[] = [];
    for await (const event of run) {
      if (event.type === "tool_result") names.push(event.name);
      if (event.type === "warning") warnings.push(event.code);
    }
    expect([ran, names.toSorted(), warnings]).toEqual([
      [{ a: 1 }, { a: 2 }],
      ["WebSearch", "WebSearch", "add", "add"],
      [],
    ]);
    expect((await run.result).output).toBe("Seven.");
    expect(new Set(pids).size).toBe(1);
    const last = told(api.requests.at(-1)?.body);
    const of = (message: unknown[] | undefined) =>
      (message ?? []).slice(1).map((block) => (block as { tool_use_id: string }).tool_use_id);
    expect([of(last.at(-3)), of(last.at(-1))]).toEqual([
      ["toolu_s2", "toolu_a1"],
      ["toolu_s3", "toolu_a2"],
    ]);
    expect(last.at(-1)?.at(-1).content).toBe("2");
  },
);

// An agent's run has the same, above.
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

it.runIf(ALL)("a search beside a call is there in another process as well, when the call's result comes", async () => {
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

it.runIf(ALL)("an agent's run tells of a search with its result, and runs the caller's tools alone", async () => {
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

/** The model is told the names of a large catalogue alone, finds tools by the CLI's own search, and calls them natively. */
describe("tools: { search: true }", () => {
  /** A large catalogue: 150 KB, were all of it declared. */
  const TOOLS = Array.from({ length: 500 }, (_, n) => ({
    name: `tool_number_${n}`,
    description: `The tool of the number ${n}, which does at length what nobody but the number ${n} is for, as tools of catalogues do.`,
    schema: {
      type: "object",
      properties: { a: { type: "number", description: "The first" }, b: { type: "string", description: "The second" } },
      required: ["a"],
    },
  }));
  const SEARCH = {
    type: "tool_use",
    id: "toolu_f1",
    name: "ToolSearch",
    input: { query: "select:mcp__df__tool_number_77" },
  };
  const use = (id: string) => ({ type: "tool_use", id, name: "mcp__df__tool_number_77", input: { a: 1 } });

  /** The model finds the tool 77, calls it, and calls it once more where it is told to go on. */
  const script = ({ body }: { body: { messages: { role: string }[]; tools?: { name: string }[] } }) => {
    const last = JSON.stringify(body.messages.findLast(({ role }) => role === "user"));
    if (last.includes("toolu_f1")) return { content: [use("toolu_c1")] };
    if (last.includes("toolu_c")) return { text: "Done." };
    if (last.includes("go on") || names(body).includes("mcp__df__tool_number_76"))
      return { content: [use("toolu_c2")] };
    return { content: [SEARCH] };
  };
  const question = new HumanMessage("use the tool of the number 77, read @CLAUDE.md, @README.md and /context");
  const result = (id: string) => new ToolMessage({ tool_call_id: id, content: `took ${id}` });
  const names = (body: { tools?: { name: string }[] }) => (body.tools ?? []).map(({ name }) => name);

  /** The same provider, whose `events` are kept. */
  function listened(provider: CliProvider, events: ProviderEvent[]): CliProvider {
    const listening: CliProvider = Object.create(provider);
    listening.stream = async function* (...asked) {
      for await (const event of provider.stream(...asked)) {
        events.push(event);
        yield event;
      }
    };
    return listening;
  }

  describe.each(VERSIONS)("claude %s", (which) => {
    it("finds a tool among 500 and calls it natively, before and after its process has gone, and brings nothing of a folder with it", async () => {
      const { api, home, options: own } = await withClaude({ which, engine: "live", script });
      const project = createRichProject({ home });
      onTestFinished(project.cleanup);
      const options = { ...own, cwd: project.dir };
      const provider = createProvider({ ...options, tools: { search: true } }).bindTools(TOOLS);
      const events: ProviderEvent[] = [];
      const first = await ask(listened(provider, events), [question]);
      // A search is told as a call of the CLI's own.
      expect(events.filter(({ type }) => type === "tool_call" || type === "tool_result")).toMatchObject([
        { type: "tool_call", toolCall: { id: "toolu_f1", name: "ToolSearch", args: SEARCH.input } },
        {
          type: "tool_result",
          toolCallId: "toolu_f1",
          content: expect.stringContaining("mcp__df__tool_number_77"),
          isError: false,
        },
        { type: "tool_call", toolCall: { id: "toolu_c1", name: "tool_number_77" } },
      ]);
      expect(first.reply.toolCalls).toMatchObject([{ id: "toolu_c1", name: "tool_number_77", args: { a: 1 } }]);
      const [whole, found] = api.requests;
      expect(whole?.bytes).toBeLessThan(14_000);
      expect(found?.bytes).toBeLessThan(14_000);
      // Each name is told, and no more of it.
      const told500 = JSON.stringify(whole?.body.system);
      expect(TOOLS.filter(({ name }) => !new RegExp(`[ n]${name}[ "]`).test(told500))).toEqual([]);
      expect(names(whole?.body)).not.toContain("mcp__df__tool_number_77");
      expect(names(found?.body)).toContain("mcp__df__tool_number_77");
      const second = await ask(provider, [question, first.message, result("toolu_c1")]);
      expect([second.reply.content, second.pid]).toEqual(["Done.", first.pid]);
      const before = told(api.requests.at(-1)?.body);

      process.kill(first.pid, "SIGKILL");
      await gone(first.pid);
      const thread = [question, first.message, result("toolu_c1"), second.message, new HumanMessage("go on")];
      const third = await ask(provider, thread);
      expect([third.run?.session, third.warnings]).toEqual(["restored", []]);
      expect(third.reply.toolCalls).toMatchObject([{ id: "toolu_c2", name: "tool_number_77" }]);
      // What the API is told is what it would have been told.
      const [done, on] = [
        { type: "text", text: "Done." },
        { type: "text", text: "go on" },
      ];
      expect(told(api.requests.at(-1)?.body)).toEqual([...before, ["assistant", done], ["user", on]]);
      expect(names(api.requests.at(-1)?.body)).toContain("mcp__df__tool_number_77");
      const fourth = await ask(provider, [...thread, third.message, result("toolu_c2")]);
      expect([fourth.reply.content, fourth.pid]).toEqual(["Done.", third.pid]);

      // It has brought nothing of the folder with it, whatever the text names.
      expect(names(whole?.body)).toEqual(expect.arrayContaining(["ToolSearch"]));
      expect(project.traces()).toEqual([]);
      expect(JSON.stringify(api.requests.map(({ body }) => body))).not.toContain(CANARY);
      expect(told(whole?.body)).toEqual([["user", { type: "text", text: question.content }]]);
      // Beside the question, there is at most what the CLI says of its surroundings.
      const beside = whole?.body.messages.filter(({ role }: { role: string }) => role !== "user");
      expect(beside.length).toBeLessThanOrEqual(1);
      expect(beside.every((message: object) => JSON.stringify(message).includes("# Environment"))).toBe(true);
      if (!ALL) return;
      // No more than a call that tells all tools.
      const plain = createProvider(options).bindTools(TOOLS.slice(76, 78));
      await ask(plain, [question]);
      expect(whole?.body.messages).toEqual(api.requests.at(-1)?.body.messages);
    });
  });

  // It is restored like a thread whose process has gone, above.
  it.runIf(ALL)("a thread of another provider's has the tools that were called in it", async () => {
    const { api, options } = await withClaude({ engine: "live", script });
    const provider = createProvider({ ...options, tools: { search: true } }).bindTools(TOOLS);
    const call = {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "toolu_c0", name: "tool_number_77", args: { a: 1 } }],
    };
    const { run, reply } = await ask(provider, [
      ...[question, call, { role: "tool", tool_call_id: "toolu_c0", content: "took it" }],
      ...[{ role: "assistant", content: "Done." }, new HumanMessage("go on")],
    ]);
    expect([run?.session, reply.toolCalls[0]?.name]).toEqual(["restored", "tool_number_77"]);
    expect(names(api.requests[0]?.body)).toContain("mcp__df__tool_number_77");
  });

  it("is refused where it can't be", async () => {
    const nowhere = { cliPath: "/nowhere/at-all", tools: { search: true } };
    expect(() => createProvider({ ...nowhere, engine: "print" })).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        message: expect.stringContaining('"tools.search" and "engine"'),
      }),
    );
    const others: object = nowhere;
    expect(() => createCodexCliProvider(others)).toThrow(
      expect.objectContaining({
        code: "UNSUPPORTED_OPTION",
        message: expect.stringMatching(/^option "tools.search" is not supported by codex.*those that can: claude/),
      }),
    );
    const named = createProvider(nowhere)
      .bindTools([{ name: "ToolSearch" }])
      .invoke(["hi"]);
    await expect(named).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining('"tools.search"'),
    });
  });

  // So does the call of auto.test.ts in print form.
  it.runIf(ALL)("a print call says that it tells all tools", async () => {
    const { options } = await withClaude({ script: () => ({ text: "ok" }) });
    const print = createProvider({ ...options, tools: { search: true }, outputFormat: "json" }).bindTools(
      TOOLS.slice(0, 2),
    );
    const warnings: string[] = [];
    for await (const event of print.stream(["hi"]))
      if (event.type === "warning") warnings.push(`${event.code} ${event.message}`);
    expect(warnings).toEqual([expect.stringMatching(/^UNSUPPORTED_OPTION option "tools.search" .*all 2 tools/)]);
  });
});
