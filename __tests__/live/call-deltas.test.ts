// @change
/** What a model writes of a call's arguments, as it comes: of the real CLIs whose wire has it, and of an API. */
import type { CliProvider, ProviderEvent } from "deep-factor-providers";
import { describe, expect, it } from "vitest";
import { withApi } from "../api/setup.js";
import { HERE } from "../clis/real.js";
import { LIVE_FORMS } from "../support/live-forms.mjs";

const schema = { type: "object", properties: { text: { type: "string" } } };
const step = { name: "step", description: "Takes a step", schema };
const args = { text: "a text that is long enough for several pieces of it, and a 🦀 at its end" };
const CALL = { id: "c1", name: "step", args };

/** Whether the pieces came, were of the call, and came before it. */
async function told(model: CliProvider) {
  const events: ProviderEvent[] = [];
  for await (const event of model.bindTools([step]).stream(["go"])) events.push(event);
  const pieces = events.filter((event) => event.type === "tool_call_delta");
  const call = events.findIndex(({ type }) => type === "tool_call");
  const done = events.at(-1);
  return {
    several: pieces.length > 1,
    whose: [...new Set(pieces.map(({ toolCallId, name }) => `${toolCallId} ${name}`))],
    whole: pieces.length === 0 ? undefined : JSON.parse(pieces.map(({ delta }) => delta).join("")),
    before: pieces.every((piece) => events.indexOf(piece) < call),
    calls: done?.type === "done" ? done.reply.toolCalls : undefined,
  };
}

const TOLD = { several: true, whose: ["c1 step"], whole: args, before: true, calls: [CALL] };
/** The others tell arguments whole: codex 0.169.0, qwen 0.24.4 (in one piece, when the call is made), opencode 1.18.34. */
const WHOLE = { several: false, whose: [], whole: undefined, before: true, calls: [CALL] };

describe.skipIf(!HERE).each(LIVE_FORMS)("$name", { timeout: 300_000 }, ({ start, name }) => {
  it("tells the arguments of a call", async () => {
    const { create } = await start([{ text: "Wait.", calls: [CALL] }]);
    expect(await told(create())).toEqual(name.startsWith("claude") ? TOLD : WHOLE);
  });
});

describe("an API", () => {
  it("tells the arguments of a call", async () => {
    const { provider } = await withApi({ script: [{ calls: [CALL] }] });
    expect(await told(provider)).toEqual(TOLD);
  });
});
