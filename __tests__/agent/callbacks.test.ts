// @change
/** What `runAgent` does with a CLI that calls tools in the middle of its run, beside the scenarios. */
import { createCodexCliProvider, runAgent } from "deep-factor-providers";
import { expect, it, onTestFinished } from "vitest";
import { API } from "../support/agent-api.mjs";
import { CALLING_CLAUDES } from "../support/agent-claude.mjs";
import { CODEX } from "../support/agent-codex.mjs";
import type { Turn } from "../support/agent-scenarios.mjs";
import { createProvider, withClaude } from "../support/harness.mjs";

const look = { name: "look", execute: () => "fine" };

/** A model of claude's that calls by callback. */
async function calling(turns: Turn[]) {
  const claude = CALLING_CLAUDES.at(-1);
  if (!claude) throw new Error("there is no such claude");
  return await claude.cast(turns);
}

it("a fast result is delivered at once, not held for a slow one", async () => {
  const { provider } = await CODEX.cast([{ calls: [{ name: "slow" }, { name: "fast" }] }, { text: "Done." }]);
  let heard = () => {};
  const fast = new Promise<void>((resolve) => {
    heard = resolve;
  });
  // Both wait at once: one that came only after the other's answer would be a step of its own.
  let begun = () => {};
  const slowBegan = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const slow = async () => {
    begun();
    await fast;
    return "at last";
  };
  const quick = async () => {
    await slowBegan;
    return "quick";
  };
  const run = runAgent({
    provider,
    prompt: "Go.",
    tools: [
      { name: "slow", execute: slow },
      { name: "fast", execute: quick },
    ],
    onEvent: (event) => {
      if (event.type === "tool_result" && event.name === "fast") heard();
    },
  });
  expect(await run.result).toMatchObject({ status: "completed", output: "Done.", steps: 2 });
});

it("a task handed to the same provider, which lets one run at a time, does not wait for itself", async () => {
  const limit = { toolCalls: "callbacks" as const };
  // One API, one CLI, and so one queue: who asks first is the parent, whose two calls are answered by one child each.
  const handoff = (task: string) => ({
    type: "tool_use",
    id: task,
    name: "mcp__df__handoff",
    input: { agent: "it", task },
  });
  const { api, options } = await withClaude({
    which: "oldest",
    engine: "print",
    script: ({ body }: { body: object }) => {
      const text = JSON.stringify(body);
      if (text.includes("answer one") && text.includes("answer two")) return { text: "Both." };
      if (text.includes("Go.")) return { content: [handoff("one"), handoff("two")] };
      return { text: text.includes("two") ? "answer two" : "answer one" };
    },
  });
  const provider = createProvider({ ...options, maxConcurrency: 1 });
  const run = runAgent({ provider, ...limit, prompt: "Go.", builtins: { handoff: { agents: { it: { provider } } } } });
  expect(await run.result).toMatchObject({ status: "completed", output: "Both." });
  expect(api.requests).toHaveLength(4);
});

it("says which way calls come, and refuses the impossible by name", async () => {
  const turns = [{ calls: [{ name: "look" }] }, { text: "Fine." }];
  const { provider } = await calling(turns);
  expect(await runAgent({ provider, prompt: "Go.", tools: [look], toolCalls: "callbacks" }).result).toMatchObject({
    status: "completed",
    output: "Fine.",
  });
  const { provider: api } = await API.cast([]);
  const live = createProvider((await withClaude({ which: "newest", engine: "live", script: [] })).options);
  const impossible = (provider: typeof api, id: string) => {
    const message = `toolCalls can't be "callbacks": ${id} takes no tools in the middle of a turn with these options`;
    expect(() => runAgent({ provider, prompt: "Go.", toolCalls: "callbacks" })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(message) }),
    );
  };
  impossible(api, "openai");
  impossible(live, "claude");
  const agents = { it: { provider: api, toolCalls: "callbacks" as const } };
  expect(() => runAgent({ provider: api, prompt: "Go.", builtins: { handoff: { agents } } })).toThrow(
    "builtins.handoff.agents.it.toolCalls",
  );
  // @ts-expect-error: no such word
  expect(() => runAgent({ provider: api, prompt: "Go.", toolCalls: "both" })).toThrow(/"toolCalls" must be .*"auto"/);
});

it("a closed provider and a missing key are told before anything is asked", async () => {
  const { createOpenAiCompatibleProvider } = await import("deep-factor-providers");
  const closed = createOpenAiCompatibleProvider({ baseURL: "http://127.0.0.1:9/v1", apiKey: "not-a-key", model: "m" });
  await closed.close();
  const keyless = createOpenAiCompatibleProvider({
    baseURL: "http://127.0.0.1:9/v1",
    apiKeyEnv: "NO_SUCH_KEY",
    model: "m",
  });
  onTestFinished(() => keyless.close());
  const gone = createCodexCliProvider({ cliPath: "/nowhere/codex" });
  onTestFinished(() => gone.close());
  for (const [provider, code] of [
    [closed, "CLOSED"],
    [keyless, "NOT_LOGGED_IN"],
    [gone, "CLI_NOT_FOUND"],
  ] as const) {
    const run = runAgent({ provider, prompt: "Go." });
    expect(await run.result).toMatchObject({ status: "failed", error: { code } });
  }
});
