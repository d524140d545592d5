// @release
/** `tool_choice` of `bindTools`: the API's own where there is one, of the real CLIs asked for in words and checked. */
import { tool } from "@langchain/core/tools";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { chatApi, TWO_CLIS } from "../support/chat-models.mjs";

const schema = z.object({ a: z.number() });
const add = tool(({ a }) => String(a), { name: "add", description: "Adds one", schema });
const other = tool(() => "", { name: "other", description: "Does something else", schema });
/** The words differ, not what is done: one of them will do between releases. */
const CHOICES = process.env.TEST_ALL ? ["any", "add"] : ["add"];
const CALL = { calls: [{ name: "add", args: { a: 1 } }] };

describe.each(TWO_CLIS)("$name", ({ cast }) => {
  it.each(CHOICES)("a call that is demanded (%s) is asked for once more, whole and streamed", async (choice) => {
    const { model, api } = await cast([{ text: "No need." }, CALL, { text: "No need." }, CALL]);
    const bound = model.bindTools([add, other], { tool_choice: choice });
    const reply = await bound.invoke("1?");
    expect([reply.content, reply.tool_calls?.map(({ name, args }) => ({ name, args }))]).toEqual(["", CALL.calls]);
    const chunks = [];
    for await (const chunk of await bound.stream("1?")) chunks.push(chunk);
    expect(chunks.flatMap(({ tool_calls }) => tool_calls ?? [])).toMatchObject(CALL.calls);
    expect(chunks.map(({ text }) => text).join("")).toBe("");
    expect(api.requests).toHaveLength(4);
  });

  it("a call that never comes is an error, and with none no tool is offered", async () => {
    const { model, api } = await cast([{ text: "No." }, { text: "No." }, { text: "Yes." }]);
    const demanded = model.bindTools([add], { tool_choice: "any" });
    await expect(demanded.invoke("1?")).rejects.toMatchObject({ code: "TOOL_CHOICE_UNMET" });
    expect((await model.bindTools([add], { tool_choice: "none" }).invoke("1?")).text).toBe("Yes.");
    const { body } = api.requests[2] ?? {};
    expect(JSON.stringify(body).includes("Adds one")).toBe(body?.tool_choice?.type === "none");
  });
});

describe("an API", () => {
  it.each([
    ["any", "required"],
    ["required", "required"],
    ["none", "none"],
    ["auto", "auto"],
    ["add", { type: "function", function: { name: "add" } }],
    [
      { type: "function", function: { name: "add" } },
      { type: "function", function: { name: "add" } },
    ],
    [
      { type: "tool", name: "add" },
      { type: "function", function: { name: "add" } },
    ],
  ])("is asked in its own words: %j", async (choice, expected) => {
    const { model, api } = await chatApi([{ calls: [{ id: "call_a", name: "add", args: { a: 1 } }] }]);
    await model.bindTools([add], { tool_choice: choice as never }).invoke("1?");
    const { tool_choice = "auto" } = api.requests[0]?.body ?? {};
    expect(tool_choice).toEqual(expected);
  });
});
