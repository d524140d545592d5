// @change
/** `webSearch`: the search of codex's API beside the caller's tools, and nothing else of codex's own comes with it. */
import { HumanMessage } from "@langchain/core/messages";
import { createCodexCliProvider, type ProviderEvent } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";
import { ask, gone } from "../support/live.mjs";

const step = { name: "step", description: "Takes a step", schema: { type: "object" } };

/** The model searches where it is asked to look something up. */
const script = ({ body }: { body: { input: object[] } }) => {
  const last = JSON.stringify(body.input.at(-1));
  if (last.includes("look")) return { output: [{ search: "what it is", id: "ws_1" }, { text: "Seven." }] };
  return { text: "Hello." };
};

/** What a request offers the model, by type or name. */
const offered = (body: object) =>
  ((body as { tools?: { type: string; name?: string }[] }).tools ?? [])
    .map(({ type, name }) => name ?? type)
    .toSorted();

describe.skipIf(!HERE).each(["live", "print"] as const)("codex, %s", { timeout: 120_000 }, (engine) => {
  it("searches, tells of it, and offers nothing more than that", async () => {
    const { api, options } = await withCli("codex", { script });
    const create = (more: object) => {
      const provider = createCodexCliProvider({ ...options, engine, ...more });
      onTestFinished(() => provider.close());
      return provider;
    };
    const plain = create({});
    await plain.invoke(["hi"]);
    const without = offered(api.requests[0]?.body);
    const events: ProviderEvent[] = [];
    for await (const event of create({ webSearch: true }).bindTools([step]).stream(["look it up"])) events.push(event);
    const [called, answered] = events.filter(({ type }) => type.startsWith("tool_"));
    expect(called).toMatchObject({
      type: "tool_call",
      toolCall: { name: "web_search", args: { query: "what it is" } },
    });
    const id = called?.type === "tool_call" ? called.toolCall.id : "";
    expect(answered).toEqual({ type: "tool_result", toolCallId: id, content: "", isError: false });
    expect(events.at(-1)).toMatchObject({ type: "done", reply: { content: "Seven.", toolCalls: [] } });
    const bound = engine === "live" ? ["step"] : [];
    expect(offered(api.requests[1]?.body)).toEqual([...without, ...bound, "web_search"].toSorted());
    await plain.invoke(["hi"], { webSearch: true });
    expect(offered(api.requests[2]?.body)).toEqual([...without, "web_search"].toSorted());
    const named = plain.bindTools([{ ...step, name: "web_search" }]).invoke(["hi"], { webSearch: true });
    await expect(named).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});

it.skipIf(!HERE)("a conversation that is restored has its searches", { timeout: 120_000 }, async () => {
  const { api, options } = await withCli("codex", { script });
  const provider = createCodexCliProvider({ ...options, engine: "live", webSearch: true });
  onTestFinished(() => provider.close());
  const question = new HumanMessage("look it up");
  const first = await ask(provider, [question]);
  process.kill(first.pid, "SIGKILL");
  await gone(first.pid);
  const second = await ask(provider, [question, first.message, new HumanMessage("hi")]);
  expect(second.run?.session).toBe("restored");
  const { input } = (api.requests.at(-1)?.body ?? {}) as { input: { type: string; action?: object }[] };
  const searches = input.filter(({ type }) => type === "web_search_call");
  expect(searches).toMatchObject([{ action: { type: "search", query: "what it is" } }]);
});
