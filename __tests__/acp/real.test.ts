// @release
/** Real agents that speak the Agent Client Protocol, offline, with their own instructions and tools. */
import { createAcpProvider } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { HELLO, HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";
import { calling } from "../support/model.mjs";

type Options = { authType?: string; config?: object; model: string };
type Started = (options: Options) => { args: string[]; env?: Record<string, string> };
const AGENTS: ["gemini" | "qwen" | "opencode", Started][] = [
  ["gemini", ({ model }: Options) => ({ args: ["--skip-trust", "--acp", "-m", model] })],
  ["qwen", ({ authType = "", model }: Options) => ({ args: ["--acp", "--auth-type", authType, "--model", model] })],
  [
    "opencode",
    ({ config, model }: Options) => ({
      args: ["acp"],
      env: { OPENCODE_CONFIG_CONTENT: JSON.stringify({ ...config, model, small_model: model }) },
    }),
  ],
];

// They start for seconds.
describe.skipIf(!HERE).each(AGENTS)("the agent %s", { timeout: 300_000 }, (name, started) => {
  async function agent(script: unknown) {
    const { api, options, tag } = await withCli(name, { script: script as never, mayRunOut: true });
    const { args, env: own } = started(options as Options);
    const env = { ...options.env, ...own };
    const provider = createAcpProvider({ command: options.cliPath, args, name, env, timeout: 240_000, retry: false });
    onTestFinished(() => provider.close());
    return { api, provider, tag };
  }

  it("answers, over one process, with its own tools its own", async () => {
    const { api, provider, tag } = await agent(() => HELLO);
    const first = await provider.invoke(["Say hello"]);
    const second = await provider.invoke(["Say hello"]);
    expect([first.content, second.content]).toEqual(["Hello there.", "Hello there."]);
    expect(second.response_metadata.run).toMatchObject({ engine: "warm", pid: first.response_metadata.run?.pid });
    // What its instructions and tools come to.
    expect(Math.max(...api.requests.map(({ bytes }) => bytes))).toBeGreaterThan(5_000);
    await provider.close();
    expect(tag.left()).toEqual([]);
  });

  it("calls the caller's tools in words", async () => {
    const { provider } = await agent(calling("Let me add.", [{ name: "add", args: { a: 1 }, id: "call_1" }]));
    const tools = [{ name: "add", description: "Adds", schema: { type: "object" } }];
    const reply = await provider.bindTools(tools).invoke(["Add."]);
    expect(reply.tool_calls.map(({ name, args }) => [name, args])).toEqual([["add", { a: 1 }]]);
  });
});
