// @change
/** `tools: { search: true }` with copilot's own search: names alone, a search, a native call, and the same again in a session that is resumed. */
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { createCopilotCliProvider, type ProviderEvent } from "deep-factor-providers";
import { expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { withCli } from "../support/harness.mjs";
import { ask } from "../support/live.mjs";

const TOOLS = Array.from({ length: 500 }, (_, n) => ({
  name: `tool_number_${n}`,
  description: `The tool of the number ${n}, which does at length what nobody but the number ${n} is for, as tools of catalogues do.`,
  schema: { type: "object", properties: { a: { type: "number", description: "The first" } }, required: ["a"] },
}));

/** The model searches, calls what it has found, and says that it is done. */
const script = ({ body }: { body: { messages: object[] } }) => {
  const thread = JSON.stringify(body.messages);
  if (thread.includes("go on")) return { calls: [{ id: "c_2", name: "tool_number_77", args: { a: 2 } }] };
  if (thread.includes("took c_1")) return { text: "Done." };
  if (thread.includes("c_f")) return { calls: [{ id: "c_1", name: "tool_number_77", args: { a: 1 } }] };
  return { calls: [{ id: "c_f", name: "tool_search_tool", args: { query: "tool_number_77", limit: 1 } }] };
};

const offered = (body: unknown) =>
  (body as { tools: { function: { name: string } }[] }).tools.map(({ function: { name } }) => name);

it.skipIf(!HERE)("copilot finds a tool among 500 and calls it natively", { timeout: 120_000 }, async () => {
  const { api, options } = await withCli("copilot", { script });
  const provider = createCopilotCliProvider({ ...options, engine: "live", tools: { search: true } });
  onTestFinished(() => provider.close());
  const model = provider.bindTools(TOOLS);
  const question = new HumanMessage("use the tool of the number 77");
  const events: ProviderEvent[] = [];
  for await (const event of model.stream([question])) events.push(event);
  expect(events.filter(({ type }) => type === "tool_call" || type === "tool_result")).toMatchObject([
    { type: "tool_call", toolCall: { id: "c_f", name: "tool_search_tool" } },
    { type: "tool_result", toolCallId: "c_f", content: expect.stringContaining("tool_number_77"), isError: false },
    { type: "tool_call", toolCall: { id: "c_1", name: "tool_number_77", args: { a: 1 } } },
  ]);
  expect(api.requests[0]?.bytes).toBeLessThan(14_000);
  expect(offered(api.requests[0]?.body)).toEqual(["tool_search_tool"]);
  expect(offered(api.requests[1]?.body)).toEqual(["tool_search_tool", "tool_number_77"]);
  const done = events.at(-1);
  expect(done).toMatchObject({ type: "done", reply: { toolCalls: [{ id: "c_1", name: "tool_number_77" }] } });

  const call = { role: "assistant", content: "", tool_calls: [{ id: "c_1", name: "tool_number_77", args: { a: 1 } }] };
  const thread = [question, call, new ToolMessage({ tool_call_id: "c_1", content: "took c_1" })];
  const second = await ask(model, thread);
  expect([second.reply.content, second.run?.continued]).toEqual(["Done.", true]);
  const third = await ask(model, [...thread, second.message, new HumanMessage("go on")]);
  expect([third.run?.continued, third.reply.toolCalls[0]?.name]).toEqual([false, "tool_number_77"]);
  expect(offered(api.requests.at(-1)?.body)).toEqual(["tool_search_tool", "tool_number_77"]);
});
