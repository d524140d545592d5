/** A native call whose arguments are not JSON: the caller, and in a run of an agent the model, hear of it. */
import { runAgent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { withApi } from "./setup.js";

const get = { name: "get", description: "Gets it", schema: z.object({ a: z.number() }) };
const UNREADABLE = { id: "c1", name: "get", args: '{"a": 1' };

describe.each([true, false])("a call that can't be read, stream: %s", (stream) => {
  it("is among the invalid ones of the answer, beside those that can", async () => {
    const calls = [UNREADABLE, { id: "c2", name: "get", args: { a: 2 } }];
    const { provider } = await withApi({ script: [{ calls }], options: { stream } });
    const answer = await provider.bindTools([get]).invoke(["hi"]);
    expect(answer.tool_calls).toMatchObject([{ id: "c2", name: "get", args: { a: 2 } }]);
    expect(answer.invalid_tool_calls).toEqual([
      {
        type: "invalid_tool_call",
        id: "c1",
        name: "get",
        args: '{"a": 1',
        error: expect.stringMatching(/^arguments are not JSON/),
      },
    ]);
  });

  it("is told to the model, which writes it again", async () => {
    const { provider, api } = await withApi({
      script: [{ calls: [UNREADABLE] }, { calls: [{ id: "c2", name: "get", args: { a: 2 } }] }, { text: "Got 4." }],
      options: { stream },
    });
    const run = runAgent({
      provider,
      prompt: "Get 2.",
      tools: [{ ...get, execute: async ({ a }: { a: number }) => String(a * 2) }],
    });
    expect(await run.result).toMatchObject({ status: "completed", output: "Got 4.", steps: 3 });
    const asked = api.requests.map(({ body }) => body.messages);
    expect(asked[1].slice(1)).toEqual([
      { role: "assistant", content: "" },
      {
        role: "user",
        content: expect.stringContaining('Your tool call of "get" could not be read: arguments are not JSON'),
      },
    ]);
    expect(asked[2].at(-1)).toEqual({ role: "tool", tool_call_id: "c2", content: "4" });
  });
});
