// @change
/** Agents write down anew what the model did, each in its way: the session goes on, and hears the native results. */
import { AIMessage, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { ALL, createProvider, VERSIONS, withClaude } from "../support/harness.mjs";
import { ask, told } from "../support/live.mjs";

const step = { name: "step", description: "Takes a step", schema: { properties: { n: { type: "number" } } } };
const use = (n: number) => ({
  type: "tool_use",
  id: `toolu_${n}`,
  name: "mcp__df__step",
  input: { n, deep: { a: 1, b: [2] } },
});

/** What the model did in one turn, as an agent remembers it. */
type Turn = { prose: string; calls: { id: string; name: string; args: Record<string, unknown> }[] };

const result = (call: Turn["calls"][number]) =>
  new ToolMessage({ tool_call_id: call.id, content: `took ${call.args.n}` });
const message = (content: string, calls: Turn["calls"]) => new AIMessage({ content, tool_calls: calls });

/** Ways to write a turn down. The first two are those of deep-factor-agent, the third that of OpenAI Agents' AI SDK bridge. */
const HABITS: Record<string, (turn: Turn) => BaseMessage[]> = {
  "without its prose": ({ calls }) => [message("", calls), ...calls.map(result)],
  "a message per call, results between": ({ calls }) => calls.flatMap((call) => [message("", [call]), result(call)]),
  "prose in a message of its own": ({ prose, calls }) => [message(prose, []), message("", calls), ...calls.map(result)],
  "a message per call, then the results": ({ prose, calls }) => [
    message(prose, []),
    ...calls.map((call) => message("", [call])),
    ...calls.map(result),
  ],
  "results backwards, arguments' keys too": ({ prose, calls }) => [
    message(
      prose,
      calls.map((call) => ({ ...call, args: Object.fromEntries(Object.entries(call.args).reverse()) })),
    ),
    ...calls.map(result).reverse(),
  ],
};

/**
 * How the turns of a conversation are written down: with `--all`, all of them in one way, for each way. Otherwise each turn in another one,
 * so that one process serves for all.
 */
const WRITTEN: [string, ((turn: Turn) => BaseMessage[])[]][] = ALL
  ? Object.entries(HABITS).map(([name, write]) => [name, [write]])
  : [["in another way for each turn", Object.values(HABITS)]];

/** The calls of each turn. */
const CALLS = ALL ? [[1, 2], [3]] : Object.keys(HABITS).map((_, n) => [2 * n + 1, 2 * n + 2]);
const says = (turn: number) => ({ type: "text", text: turn === 0 ? "Two at once." : "More." });

const SCRIPT = [
  ...CALLS.map((calls, turn) => ({ content: [says(turn), ...calls.map(use)] })),
  { text: " Arrived.\n" },
  { text: "Welcome." },
];

/** What the API is told in the end, whatever the habit. */
const CONVERSATION = [
  ["user", { type: "text", text: "Go." }],
  ...CALLS.flatMap((calls, turn) => [
    ["assistant", says(turn), ...calls.map(use)],
    ["user", ...calls.map((n) => ({ type: "tool_result", tool_use_id: `toolu_${n}`, content: `took ${n}` }))],
  ]),
  ["assistant", { type: "text", text: " Arrived.\n" }],
  ["user", { type: "text", text: "Thanks." }],
];

describe.each(VERSIONS)("claude %s", (which) => {
  it.each(WRITTEN)("goes on in one process with a history that is written %s", async (_, habits) => {
    const { api, options } = await withClaude({ which, engine: "live", script: SCRIPT });
    const model = createProvider(options).bindTools([step]);
    const turns: Turn[] = [];
    const begin = [new SystemMessage("Be brief."), new HumanMessage("Go.")];
    // Nothing of a message that was sent is sent again: all of them are made anew each time.
    const write = (turn: Turn, n: number) => habits[n % habits.length]?.(turn) ?? [];
    const history = () => [...begin, ...turns.flatMap(write)];
    const pids: number[] = [];
    const continued: (boolean | undefined)[] = [];
    let last = await ask(model, history());
    for (;;) {
      pids.push(last.pid);
      continued.push(last.run?.continued);
      if (last.reply.toolCalls.length === 0) break;
      const calls = last.reply.toolCalls.map(({ id, name, args }) => ({
        id,
        name,
        args: args as Turn["calls"][number]["args"],
      }));
      turns.push({ prose: last.reply.content, calls });
      last = await ask(model, history());
    }
    expect(last.reply.content).toBe("Arrived.");
    const end = await ask(model, [...history(), message(last.reply.content, []), new HumanMessage("Thanks.")]);
    expect(end.reply.content).toBe("Welcome.");
    expect([new Set([...pids, end.pid]).size, ...continued, end.run?.continued]).toEqual([
      1,
      false,
      ...SCRIPT.slice(1).map(() => true),
    ]);
    expect(api.requests.map(({ body }) => told(body))).toEqual(SCRIPT.map((_, n) => CONVERSATION.slice(0, 2 * n + 1)));
  });

  it("starts clean where a call's arguments were changed, and sends the changed ones", async () => {
    const { api, options } = await withClaude({
      which,
      engine: "live",
      script: [{ content: [use(1)] }, { text: "ok" }],
    });
    const model = createProvider(options).bindTools([step]);
    const first = await ask(model, ["Go."]);
    const changed = { id: "toolu_1", name: "step", args: { n: 1, deep: { a: 1, b: [3] } } };
    const second = await ask(model, [new HumanMessage("Go."), message("", [changed]), result(changed)]);
    expect([second.run?.continued, second.pid === first.pid]).toEqual([false, false]);
    expect(second.run?.session).toBe("restored");
    const { type, name, id } = use(1);
    expect(told(api.requests[1]?.body)[1]).toEqual(["assistant", { type, id, name, input: changed.args }]);
  });
});

it("keeps conversations apart that differ only in their calls' ids", async () => {
  const { api, options } = await withClaude({
    engine: "live",
    script: (request, n) =>
      JSON.stringify(request.body).includes("tool_result") ? { text: "ok" } : { content: [use(n)] },
  });
  const model = createProvider(options).bindTools([step]);
  const begun = [];
  for (let n = 0; n < (ALL ? 3 : 2); n++) begun.push(await ask(model, ["Go."]));
  for (const { reply, pid } of begun.reverse()) {
    const [call] = reply.toolCalls;
    if (!call) throw new Error("no call");
    const args = call.args as Record<string, unknown>;
    const next = await ask(model, [
      new HumanMessage("Go."),
      message("", [{ ...call, args }]),
      result({ ...call, args }),
    ]);
    expect([next.pid, next.run?.continued]).toEqual([pid, true]);
    expect(told(api.requests.at(-1)?.body).at(-1)).toEqual([
      "user",
      { type: "tool_result", tool_use_id: call.id, content: `took ${args.n}` },
    ]);
  }
});
