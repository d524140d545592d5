// @release
/** What OpenTelemetry gets of gemini, qwen, opencode and codex, each the real CLI: a call, and an agent's run with a tool. */
import { createRequire } from "node:module";
import { type AgentTool, runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";
import { calling } from "../support/model.mjs";
import { startSdk } from "../support/telemetry.mjs";

const { companyOf } = createRequire(import.meta.url)("../../src/js/telemetry/names.cjs");

const look: AgentTool = { name: "look", description: "Looks", execute: () => "fine" };
const usage = { input: 20, output: 7 };
const SCRIPT = [
  { text: "Hello.", usage },
  calling("I look.", [{ id: "call_1", name: "look", args: {} }]),
  { text: "Done." },
];

describe.skipIf(!HERE).each(["gemini", "qwen", "opencode", "codex"] as const)("%s", { timeout: 300_000 }, (name) => {
  it("is spans and figures of a call and of an agent's run", async () => {
    const sdk = startSdk();
    const { create } = await withCli(name, { script: SCRIPT });
    const provider = create({ engine: "print", telemetry: { ...sdk.both, agentName: "scout" } });
    const message = await provider.invoke(["hi"]);
    const [call] = sdk.spans();
    expect(call?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": companyOf(provider.id),
      "gen_ai.usage.input_tokens": message.usage_metadata?.input_tokens,
      "gen_ai.usage.output_tokens": message.usage_metadata?.output_tokens,
      "deep_factor.engine": "print",
    });
    const counted = (await sdk.metrics())["gen_ai.client.token.usage"];
    expect(counted?.map(({ attributes }) => attributes["gen_ai.token.type"])).toEqual(["input", "output"]);
    const { status } = await runAgent({ provider, prompt: "go", tools: [look], toolCalls: "turns" }).result;
    expect(status).toBe("completed");
    const chat = call?.name ?? "";
    const [{ name: run, children = [] } = { name: "" }, ...others] = sdk.trees().slice(1);
    // codex warns, as an event of the turn, of a model that it does not know.
    const names = children.map((child) => child.name);
    expect([run, names, others]).toEqual(["invoke_agent scout", [chat, "execute_tool look", chat], []]);
  });
});
