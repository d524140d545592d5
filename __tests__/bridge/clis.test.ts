// @change
/** Real CLIs that call the caller's tools over the bridge in the middle of one run, each against a scripted API. */
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { startAnthropic } from "../support/anthropic.mjs";
import { startHost, together } from "../support/bridge.mjs";
import { isolateClaude } from "../support/claude.mjs";
import { CLIS, type CliName, isolateCli } from "../support/clis.mjs";
import { sampleOf } from "../support/harness.mjs";
import { conversationIn, toolsOf } from "../support/model.mjs";

const TOOLS = ["add", "get.weather"].map((name) => ({
  name,
  description: `what ${name} does`,
  schema: { type: "object", properties: { a: { type: "number" } } },
}));

/** What the model is to say: calls of the n-th declared tool of ours, or a text. */
type Turn = { calls?: { id: string; tool: number; args: object }[]; text?: string };
type Body = { [key: string]: unknown };

/** The names the CLI declares for ours, in their order. */
function ours(body: Body) {
  const names = toolsOf(body).filter((name: string) => /_df[/_]/.test(name));
  return TOOLS.map(({ name }) => names.find((known: string) => known.includes(name.slice(0, 3))) ?? "none");
}

function named(body: Body, { calls = [], text }: Turn) {
  const names = ours(body);
  const made = calls.map(({ id, tool, args }) => {
    const [name = "", namespace] = (names[tool] ?? "").split("/").reverse();
    return { id, name, ...(namespace && { namespace }), args };
  });
  return text === undefined ? { calls: made } : { text };
}

async function cli(name: Exclude<CliName, "opencode">, turns: Turn[]) {
  const api = await CLIS[name].startApi(turns.map((turn) => (request: { body: Body }) => named(request.body, turn)));
  const { options, cleanup } = await isolateCli(name, api.url);
  onTestFinished(cleanup);
  return { api, provider: name, options };
}

async function claude(which: "newest" | "oldest", turns: Turn[]) {
  const script = turns.map((turn) => (request: { body: Body }) => {
    const { calls, text } = named(request.body, turn);
    if (text !== undefined) return { text };
    return { content: calls?.map(({ id, name, args }) => ({ type: "tool_use", id, name, input: args })) ?? [] };
  });
  const api = await startAnthropic(script);
  const isolated = isolateClaude({ which, baseUrl: api.url, env: {} });
  onTestFinished(() => isolated.cleanup());
  return { api, provider: "claude", options: { cliPath: isolated.cliPath, env: isolated.env, model: "sonnet" } };
}

type Name = Exclude<CliName, "opencode"> | "claude newest" | "claude oldest";

async function setUp(name: Name, turns: Turn[]) {
  const made = name.startsWith("claude ")
    ? await claude(name.slice(7) as "newest", turns)
    : await cli(name as Exclude<CliName, "opencode">, turns);
  onTestFinished(() => made.api.close());
  const { api, provider, options } = made;
  const messages = [{ type: "human", content: "What is it?" }];
  return { api, run: { provider, options, messages, tools: TOOLS, progressMs: 200 } };
}

/** CLIs that make one call after the other. */
const ONE_BY_ONE: Name[] = ["qwen"];
/** Ids that are the model's own: claude and codex pass them on. */
const PASSED_ON: Name[] = ["claude newest", "claude oldest", "codex"];

// The agent's scenarios are run over every CLI's bridge as well (`__tests__/agent`).
const NAMES: Name[] = ["claude newest", "codex", "claude oldest", "gemini", "qwen"];

describe.each(sampleOf(NAMES, 2))("%s", (name) => {
  it("makes native calls at once, waits for one that takes long, and its model hears of their results and failures", async () => {
    const { api, run } = await setUp(name, [
      {
        calls: [
          { id: "toolu_a", tool: 0, args: { a: 1 } },
          { id: "toolu_b", tool: 1, args: { a: 2 } },
        ],
      },
      { text: "Done." },
    ]);
    const answers = { add: { content: "1234" }, "get.weather": { content: "no such town", isError: true } };
    const atOnce = together(ONE_BY_ONE.includes(name) ? 1 : 2, ({ name }) => answers[name as "add"]);
    const host = await startHost({ run }, async (call) => {
      const answer = await atOnce(call);
      // Some ten signs of life.
      if (call.name === "add") await delay(2_000);
      return answer;
    });
    const { reply, error } = await host.ended;

    expect(error?.message).toBeUndefined();
    expect(reply).toMatchObject({ content: "Done.", toolCalls: [], invalidToolCalls: [] });
    const calls = host.calls.toSorted((a, b) => a.args.a - b.args.a);
    expect(calls.map(({ name, args }) => ({ name, args }))).toEqual([
      { name: "add", args: { a: 1 } },
      { name: "get.weather", args: { a: 2 } },
    ]);
    if (PASSED_ON.includes(name)) expect(calls.map(({ id }) => id)).toEqual(["toolu_a", "toolu_b"]);
    expect(host.events.filter(({ type }) => /^tool_/.test(type))).toEqual([]);

    const [first, second] = api.requests.map(({ body }) => body);
    expect(ours(first)).not.toContain("none");
    expect(conversationIn(first)).toContain("What is it?");
    expect(conversationIn(first)).not.toContain("Available Tools");
    expect(conversationIn(second)).toContain("1234");
    expect(conversationIn(second)).toContain("no such town");
    expect(api.requests).toHaveLength(2);
    expect(api.violations).toEqual([]);
  });
});

// The bridge's side of it is the same for each.
it.each(sampleOf<Name>(["codex", "claude newest"]))(
  "a run that is cancelled ends while a call waits: %s",
  async (name) => {
    const { run } = await setUp(name, [{ calls: [{ id: "toolu_a", tool: 0, args: { a: 1 } }] }]);
    const host = await startHost({ run }, () => {
      host.say({ cancel: true });
      // Never answered.
      return new Promise(() => {});
    });
    expect(await host.ended).toEqual({});
    expect(host.calls.map(({ id }) => id)).toEqual(["toolu_a"]);
  },
);
