// @release
/** Which engine is the default with the real qwen, and that the health check says which and why. */
import { HumanMessage } from "@langchain/core/messages";
import { type AgentTool, createQwenCliProvider, runAgent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { NEWEST_QWEN } from "../support/clis.mjs";
import { withCli } from "../support/harness.mjs";
import { PACKAGES } from "../support/installed.mjs";
import { ask } from "../support/live.mjs";

const WARM_QWEN = PACKAGES["@qwen-code/qwen-code"] ?? "";

const look: AgentTool = { name: "look", description: "Looks", execute: () => "fine" };

describe.skipIf(!HERE)("the real qwen by default", { timeout: 600_000 }, () => {
  it.each([
    [NEWEST_QWEN, "live", `it is @qwen-code/qwen-code ${NEWEST_QWEN}, says its package.json`],
    [WARM_QWEN, "warm", `it is @qwen-code/qwen-code ${WARM_QWEN}, says its package.json`],
  ] as const)("of version %s is %s", async (version, engine, why) => {
    const { api, options, tag } = await withCli("qwen", { version, script: [{ text: "one" }, { text: "two" }] });
    const provider = createQwenCliProvider({ ...options, engine: undefined, retry: false });
    onTestFinished(() => provider.close());
    const health = async () => (await provider.health({ level: "command" })).engine;
    const before = await health();
    const first = await ask(provider, ["1"]);
    const second = await ask(provider, [new HumanMessage("1"), first.message, new HumanMessage("2")]);
    const isLive = engine === "live";
    expect(
      [first, second].map(({ reply, run, warnings }) => [reply.content, run?.engine, run?.continued, warnings]),
    ).toEqual([
      ["one", engine, isLive ? false : undefined, []],
      ["two", engine, isLive ? true : undefined, []],
    ]);
    expect(second.pid).toBe(first.pid);
    expect([before, await health()]).toEqual([
      { uses: engine, why },
      { uses: engine, why },
    ]);
    expect(api.requests).toHaveLength(2);
    await provider.close();
    expect(tag.left()).toEqual([]);
  });

  it.each([
    [NEWEST_QWEN, "live"],
    [WARM_QWEN, "print"],
  ])("of version %s calls an agent's tools natively (%s)", async (version) => {
    const calls = [{ id: "call_1", name: "mcp__df__look", args: {} }];
    const { api, options } = await withCli("qwen", { version, script: [{ calls }, { text: "Done." }] });
    const provider = createQwenCliProvider({ ...options, engine: undefined, retry: false });
    onTestFinished(() => provider.close());
    const { status, output } = await runAgent({ provider, prompt: "go", tools: [look] }).result;
    expect([status, output, api.requests.length]).toEqual(["completed", "Done.", 2]);
    const declared = api.requests[0]?.body.tools.map((tool: { function: { name: string } }) => tool.function.name);
    expect(declared).toContain("mcp__df__look");
    expect(JSON.stringify(api.requests[1]?.body.messages.at(-1))).toContain("fine");
  });
});
