// @change
/** `tools: { search: true }`: the model is told the names of a large catalogue alone, finds tools by the CLI's own search, and calls them natively. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { type CliProvider, createCodexCliProvider, type ProviderEvent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRichProject } from "../support/claude.mjs";
import { ALL, createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, gone, told } from "../support/live.mjs";

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
  if (last.includes("go on") || names(body).includes("mcp__df__tool_number_76")) return { content: [use("toolu_c2")] };
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

    // It has brought nothing of the folder with it, whatever the text names: no more than a call that tells all tools.
    const plain = createProvider(options).bindTools(TOOLS.slice(76, 78));
    await ask(plain, [question]);
    expect(whole?.body.messages).toEqual(api.requests.at(-1)?.body.messages);
    expect(names(whole?.body)).toEqual(expect.arrayContaining(["ToolSearch"]));
    expect(project.traces()).toEqual([]);
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

it("is refused where it can't be, and a print call says that it tells all tools", async () => {
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
  const { options } = await withClaude({ script: () => ({ text: "ok" }) });
  const print = createProvider({ ...options, tools: { search: true }, outputFormat: "json" }).bindTools(
    TOOLS.slice(0, 2),
  );
  const warnings: string[] = [];
  for await (const event of print.stream(["hi"]))
    if (event.type === "warning") warnings.push(`${event.code} ${event.message}`);
  expect(warnings).toEqual([expect.stringMatching(/^UNSUPPORTED_OPTION option "tools.search" .*all 2 tools/)]);
});
