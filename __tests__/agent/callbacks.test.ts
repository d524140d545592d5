// @change
/** What `runAgent` does with a CLI that calls tools in the middle of its run, beside the scenarios. */
import { createCodexCliProvider, runAgent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { makePicture } from "../../examples/vision/files.mjs";
import { HERE } from "../clis/real.js";
import { API } from "../support/agent-api.mjs";
import { CALLING_CLAUDES } from "../support/agent-claude.mjs";
import { CODEX } from "../support/agent-codex.mjs";
import { GEMINI } from "../support/agent-gemini.mjs";
import { QWEN } from "../support/agent-qwen.mjs";
import { createProvider, sampleOf, withClaude, withCli } from "../support/harness.mjs";

const look = { name: "look", execute: () => "fine" };

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

type Answer = { text: string } | { tasks: string[] };

/** One API and one CLI whose calls are tasks that are handed on. */
const HANDING = [
  {
    name: "codex",
    async start(answer: (text: string) => Answer) {
      const { api, create } = await withCli("codex", {
        script: ({ body }: { body: object }) => {
          const said = answer(JSON.stringify(body));
          if (!("tasks" in said)) return said;
          const args = (task: string) => ({ agent: "it", task });
          const called = { name: "handoff", namespace: "mcp__df" };
          return { calls: said.tasks.map((task) => ({ ...called, id: task, args: args(task) })) };
        },
      });
      return { api, provider: create({ maxConcurrency: 1 }) };
    },
  },
  {
    name: "claude oldest",
    async start(answer: (text: string) => Answer) {
      const { api, options } = await withClaude({
        which: "oldest",
        engine: "print",
        script: ({ body }: { body: object }) => {
          const said = answer(JSON.stringify(body));
          if (!("tasks" in said)) return said;
          const called = { type: "tool_use", name: "mcp__df__handoff" };
          return { content: said.tasks.map((task) => ({ ...called, id: task, input: { agent: "it", task } })) };
        },
      });
      return { api, provider: createProvider({ ...options, maxConcurrency: 1 }) };
    },
  },
];

it.each(sampleOf(HANDING))(
  "a task handed to the same provider, which lets one run at a time, does not wait for itself: $name",
  async ({ start }) => {
    const limit = { toolCalls: "callbacks" as const };
    // One queue: who asks first is the parent, whose two calls are answered by one child each.
    const { api, provider } = await start((text) => {
      if (text.includes("answer one") && text.includes("answer two")) return { text: "Both." };
      if (text.includes("Go.")) return { tasks: ["one", "two"] };
      return { text: text.includes("two") ? "answer two" : "answer one" };
    });
    const builtins = { handoff: { agents: { it: { provider } } } };
    const run = runAgent({ provider, ...limit, prompt: "Go.", builtins });
    expect(await run.result).toMatchObject({ status: "completed", output: "Both." });
    expect(api.requests).toHaveLength(4);
  },
);

// What claude does when its calls come this way, its scenarios have.
it.each(sampleOf([CODEX, ...CALLING_CLAUDES]))(
  "says which way calls come, and refuses the impossible by name: $name",
  async ({ cast }) => {
    const turns = [{ calls: [{ name: "look" }] }, { text: "Fine." }];
    const { provider } = await cast(turns);
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
  },
);

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

describe.skipIf(!HERE)("an image", () => {
  const DATA = makePicture().toString("base64");
  const messages = [
    {
      role: "user",
      content: [
        { type: "text", text: "What is on it?" },
        { type: "image", mimeType: "image/png", data: DATA },
      ],
    },
  ];
  const TURNS = [{ calls: [{ name: "look", args: {} }] }, { text: "Stripes." }];

  it.each([...CALLING_CLAUDES, CODEX, GEMINI])("$name gets the user's image and calls the tools", async ({ cast }) => {
    const { provider, asked } = await cast(TURNS);
    const run = runAgent({
      provider,
      messages: messages as never,
      tools: [look],
      toolCalls: "callbacks",
    });
    expect(await run.result).toMatchObject({ status: "completed", output: "Stripes.", steps: 2 });
    expect(JSON.stringify(((await asked(1)) as { body: object }).body).split(DATA)).toHaveLength(2);
  });

  it("qwen refuses it before anything starts", async () => {
    const { provider } = await QWEN.cast([]);
    const run = runAgent({
      provider,
      messages: messages as never,
      tools: [look],
      toolCalls: "callbacks",
    });
    expect(await run.result).toMatchObject({ status: "failed", error: { code: "UNSUPPORTED_CONTENT" } });
  });
});
