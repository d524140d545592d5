/** A thread that grows: over the addon, what arrives is what the thread is at each call, however much of it was handed over before. */
import { Worker } from "node:worker_threads";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { expect, it } from "vitest";
import { failureOf, withApi } from "./setup.js";

const ANSWER = { text: "ok" };

/** What the API was sent, by request. */
const sent = (api: { requests: { body: unknown }[] }) =>
  api.requests.map(({ body }) => (body as { messages: { content: unknown }[] }).messages);

it("arrives as it is at each call, though messages are changed in place", async () => {
  const { api, provider } = await withApi({ script: Array(6).fill(ANSWER) });
  const args = { path: "a", lines: [1, { deep: "x" }] };
  const call = new AIMessage({ content: "", tool_calls: [{ id: "c", name: "read", args }] });
  const result = new ToolMessage({ content: "result", tool_call_id: "c" });
  const thread = [new SystemMessage("be brief"), new HumanMessage("go"), call, result];
  await provider.invoke(thread);
  result.content = "another result";
  await provider.invoke(thread);
  args.lines[1] = { deep: "y" };
  await provider.invoke(thread);
  // In the same tick, and changed behind it.
  const both = [provider.invoke(thread), provider.invoke([...thread, new HumanMessage("more")])];
  result.content = "too late";
  await Promise.all(both);
  await provider.invoke(thread);

  const whole = (result: string, deep: string) => [
    { role: "system", content: "be brief" },
    { role: "user", content: "go" },
    {
      role: "assistant",
      content: expect.anything(),
      tool_calls: [
        {
          id: "c",
          type: "function",
          function: { name: "read", arguments: `{"path":"a","lines":[1,{"deep":"${deep}"}]}` },
        },
      ],
    },
    { role: "tool", tool_call_id: "c", content: result },
  ];
  const requests = sent(api).map((messages) =>
    messages.map((message) => ("tool_calls" in message ? { ...message, content: "" } : message)),
  );
  expect(requests.slice(0, 3)).toEqual([
    whole("result", "x"),
    whole("another result", "x"),
    whole("another result", "y"),
  ]);
  const more = { role: "user", content: "more" };
  expect(requests.slice(3, 5).sort((a, b) => a.length - b.length)).toEqual([
    whole("another result", "y"),
    [...whole("another result", "y"), more],
  ]);
  expect(requests[5]).toEqual(whole("too late", "y"));
});

it("is of every provider, a closed one, and whoever is next", async () => {
  const [first, second] = [await withApi({ script: [ANSWER] }), await withApi({ script: [ANSWER, ANSWER] })];
  const thread = [new HumanMessage("shared"), new AIMessage("ok"), new HumanMessage("go")];
  await first.provider.invoke(thread);
  await first.provider.close();
  const closed = new HumanMessage("only the closed one was told");
  expect(await failureOf(first.provider.invoke([...thread, closed]))).toMatchObject({ code: "CLOSED" });
  await second.provider.invoke(thread);
  await second.provider.invoke([...thread, closed]);
  const texts = sent(second.api).map((messages) => messages.map(({ content }) => content));
  expect(texts).toEqual([
    ["shared", "ok", "go"],
    ["shared", "ok", "go", "only the closed one was told"],
  ]);
});

it("is one worker's own: each hands over from its first message on", async () => {
  const { api, provider } = await withApi({ script: Array(4).fill(ANSWER) });
  await provider.invoke([new HumanMessage("main 1")]);
  const program = `
    const { workerData } = require("node:worker_threads");
    const { createOpenAiCompatibleProvider } = require("deep-factor-providers/native");
    (async () => {
      const provider = createOpenAiCompatibleProvider({ baseURL: workerData, apiKey: "k", model: "scripted" });
      const thread = [{ role: "user", content: "worker 1" }];
      await provider.invoke(thread);
      await provider.invoke([...thread, { role: "assistant", content: "ok" }, { role: "user", content: "worker 2" }]);
      await provider.close();
    })();`;
  const worker = new Worker(program, { eval: true, workerData: api.url });
  await new Promise((resolve, reject) => worker.once("exit", resolve).once("error", reject));
  await provider.invoke([new HumanMessage("main 2")]);
  const texts = sent(api).map((messages) => messages.map(({ content }) => content));
  expect(texts).toEqual([["main 1"], ["worker 1"], ["worker 1", "ok", "worker 2"], ["main 2"]]);
});
