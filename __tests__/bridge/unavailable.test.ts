/** Runs whose CLI does not come for the tools it is to call: a clear failure, not an answer without tools. */
import { afterAll, expect, it } from "vitest";
import { startHost } from "../support/bridge.mjs";
import { createFakes } from "../support/fake.mjs";
import { replay } from "../support/replay.mjs";

const fakes = createFakes();
afterAll(() => fakes.cleanup());

const task = { messages: [{ type: "human", content: "hi" }], tools: [{ name: "add", schema: { type: "object" } }] };
const nobody = () => ({ content: "nobody asked" });

it.each(["claude/success-stream-json", "codex/success-json-stdin", "gemini/success-stream-json"])(
  "%s: an answer without the tools is none",
  async (recording) => {
    const provider = recording.split("/")[0];
    const options = { cliPath: fakes.cli(`unavailable-${provider}`, replay(recording)).path, retry: false };
    const host = await startHost({ run: { provider, options, ...task } }, nobody);
    const { reply, error } = await host.ended;
    expect(reply).toBeUndefined();
    expect(error).toMatchObject({ code: "CALLBACKS_UNAVAILABLE", category: "configuration", provider });
    expect(error.message).toMatch(/^the CLI answered without ever having asked for the tools it was to call\. /);
    expect(error.partial.text).not.toBe("");
    expect(host.calls).toEqual([]);
  },
);

it("a failure of the CLI's own stays what it is", async () => {
  const options = { cliPath: fakes.cli("failing", replay("claude/err-401-stream-json")).path, retry: false };
  const host = await startHost({ run: { provider: "claude", options, ...task } }, nobody);
  expect((await host.ended).error).toMatchObject({ category: "authentication" });
});

it.each([
  ["grok", {}],
  ["gemini", { cwd: "/" }],
])("%s %j can't be told of tools, and nothing is started", async (provider, options) => {
  const host = await startHost({ run: { provider, options: { cliPath: "/nowhere", ...options }, ...task } }, nobody);
  const { error } = await host.ended;
  expect(error).toMatchObject({ code: "CALLBACKS_UNAVAILABLE", provider });
  expect(error.message).toContain(`${provider} can't call tools in the middle of a run with these options`);
});
