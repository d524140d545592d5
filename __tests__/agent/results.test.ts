/** What becomes of what a tool returns that is no text and no JSON: errors that are returned, not thrown, and BigInts. */
import { runInNewContext } from "node:vm";
import { tool } from "@langchain/core/tools";
import { type AgentTool, runAgent } from "deep-factor-providers";
import { expect, it } from "vitest";
import { z } from "zod";
import { withApi } from "../api/setup.js";

/** What the model is told of a call whose tool returns `result`, and whether it failed. */
async function told(tool: AgentTool) {
  const script = [{ text: "", calls: [{ id: "c1", name: "look", args: {} }] }, { text: "Done." }];
  const { api, provider } = await withApi({ script });
  const events: [string, unknown][] = [];
  const run = runAgent({
    provider,
    prompt: "Go.",
    tools: [tool],
    onEvent: (event) => {
      if (event.type === "tool_result") events.push([String(event.content), event.isError]);
    },
  });
  const { status, messages } = await run.result;
  const { content } = api.requests[1]?.body.messages.at(-1) ?? {};
  const last = messages.find((message) => "tool_call_id" in message) as { status?: string } | undefined;
  return { status, content, isError: last?.status === "error", events };
}

const returning = (result: () => unknown): AgentTool => ({ name: "look", execute: () => result() });

class HttpError extends Error {
  override name = "HttpError";
}

it.each([
  ["an error", () => new Error("no such file"), "no such file"],
  ["one of a class of its own", () => new HttpError("404"), "404"],
  ["one without a message", () => new TypeError(), "TypeError"],
  ["one of another realm", () => runInNewContext('new Error("elsewhere")'), "elsewhere"],
  ["a DOMException", () => new DOMException("too late", "TimeoutError"), "too late"],
  ["a promise of one", () => Promise.resolve(new Error("later")), "later"],
])("takes %s that is returned for a failed result with its text", async (_, result, text) => {
  const { status, content, isError, events } = await told(returning(result));
  expect([status, isError, events]).toEqual(["completed", true, [[text, true]]]);
  expect(content).toContain(text);
});

it("does so for a tool of LangChain's, too", async () => {
  const look = tool(async () => new Error("no such file"), { name: "look", description: "", schema: z.object({}) });
  const { isError, content } = await told(look as unknown as AgentTool);
  expect([isError, content]).toEqual([true, expect.stringContaining("no such file")]);
});

it.each([
  ["a BigInt", () => 12345678901234567890n, "12345678901234567890"],
  ["one in an object", () => ({ id: 12345678901234567890n, n: 1 }), '{"id":"12345678901234567890","n":1}'],
  ["one in a list", () => [1n, [2n]], '["1",["2"]]'],
  [
    "an error in an object",
    () => ({ ok: false, error: new Error("no") }),
    '{"ok":false,"error":{"name":"Error","message":"no"}}',
  ],
])("writes %s so that nothing of it is lost", async (_, result, text) => {
  const { status, content, isError, events } = await told(returning(result));
  expect([status, isError, content, events]).toEqual(["completed", false, text, [[text, false]]]);
});
