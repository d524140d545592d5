// @change
/** The real qwen, started ahead: the first call waits for no process, and no process is used for a call it was not started for. */
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import { limits } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { NEWEST_QWEN } from "../support/clis.mjs";
import { withCli } from "../support/harness.mjs";

const ADD = { name: "add", description: "Adds", schema: { type: "object", properties: { a: { type: "number" } } } };
const system = new SystemMessage("Be brief.");
const question = new HumanMessage("What is it?");

type Asked = { body: { messages: { role: string; content: unknown }[]; tools?: { function: { name: string } }[] } };
const systemOf = (asked: unknown) => JSON.stringify((asked as Asked).body.messages[0]?.content);
const addOf = (asked: unknown) =>
  (asked as Asked).body.tools?.map((tool) => tool.function.name).find((name) => name.endsWith("add")) ?? "none";

async function start(script: Parameters<typeof withCli>[1]["script"]) {
  const cli = await withCli("qwen", { script, version: NEWEST_QWEN });
  return { ...cli, provider: cli.create({ engine: "live", retry: false }) };
}

/** Of what this test has started. */
const own = () => limits().processes.filter(({ provider }) => provider === "qwen");

describe.skipIf(!HERE)(`the real qwen ${NEWEST_QWEN}, started ahead`, { timeout: 600_000 }, () => {
  it("makes the first call with the process that waits, natively, and leaves nothing", async () => {
    const { provider, api, tag } = await start([
      (asked: unknown) => ({ text: "", calls: [{ id: "c1", name: addOf(asked), args: { a: 1 } }] }),
    ]);
    await provider.prewarm({ system: "Be brief.", tools: [ADD] });
    const [spare, ...others] = own();
    expect([spare?.state, others]).toEqual(["spare", []]);
    expect(api.requests).toEqual([]);
    const reply = await provider.bindTools([ADD]).invoke([system, question]);
    expect(reply.tool_calls).toMatchObject([{ name: "add", args: { a: 1 }, id: "c1" }]);
    expect([reply.response_metadata.run?.pid, reply.response_metadata.run?.continued]).toEqual([spare?.pid, false]);
    expect(systemOf(api.requests[0])).toContain("Be brief.");
    await provider.close();
    expect([own(), tag.left()]).toEqual([[], []]);
  });

  it("is not used for another system prompt, and close() in the middle of it leaves nothing", async () => {
    const { provider, api, tag } = await start([{ text: "Arr." }]);
    await provider.prewarm({ system: "Be brief.", tools: [] });
    const [spare] = own();
    const reply = await provider.invoke([new SystemMessage("Be a pirate."), question]);
    expect(reply.content).toBe("Arr.");
    expect(reply.response_metadata.run?.pid).not.toBe(spare?.pid);
    expect(systemOf(api.requests[0])).toContain("Be a pirate.");
    expect(systemOf(api.requests[0])).not.toContain("Be brief.");
    const coming = provider.prewarm({ system: "Be long.", tools: [] }).catch((error) => error.code);
    await provider.close();
    expect([undefined, "CLOSED"]).toContain(await coming);
    expect([own(), tag.left()]).toEqual([[], []]);
  });

  it("sends what begins with a slash to the model: no command of the CLI's", async () => {
    const { provider, api } = await start([{ text: "One." }, { text: "Two." }]);
    const first = await provider.invoke([new HumanMessage("/clear")]);
    const next = [new HumanMessage("/clear"), first, new HumanMessage("/export html")];
    expect([first.content, (await provider.invoke(next)).content]).toEqual(["One.", "Two."]);
    const last = (at: number) => JSON.stringify((api.requests[at] as unknown as Asked).body.messages.at(-1)?.content);
    expect([last(0), last(1)]).toEqual([expect.stringContaining("/clear"), expect.stringContaining("/export html")]);
  });
});
