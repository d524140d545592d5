// @ts-check
/** The codex CLI as a backend of the agent's scenarios: in print form, where it calls tools over the bridge, and live. */
import { createCodexCliProvider } from "deep-factor-providers";
import { onTestFinished } from "vitest";
import { callingCli } from "./agent-clis.mjs";
import { withCli } from "./harness.mjs";

/** What both forms do. */
const DIFFERS = {
  "an unknown tool": {
    why: "codex answers such a call itself and does not tell of it",
    transcript: `
run: add
says: I see.
completed: I see.`,
  },
};

export const CODEX = callingCli("codex", DIFFERS);

/**
 * An answer of the scripted API to the live engine, whose calls are native.
 * @param {import("./agent-scenarios.mjs").Turn} turn
 * @param {number} index of the turn, for ids
 * @returns {import("./openai.mjs").Answer}
 */
export function toAnswer({ text, calls = [], hang }, index) {
  if (hang) return { hang };
  const said = text === undefined ? [] : [{ text }];
  const made = calls.map(({ name, args = {} }, place) => ({ call: name, id: `call_${index + 1}_${place}`, args }));
  return { output: [...said, ...made] };
}

/** @type {import("./agent-scenarios.mjs").Backend} */
export const CODEX_LIVE = {
  name: "codex live",
  way: "turns",
  differs: DIFFERS,
  async cast(turns) {
    const { api, options } = await withCli("codex", { script: turns.map(toAnswer) });
    const provider = createCodexCliProvider({ ...options, engine: "live" });
    onTestFinished(() => provider.close());
    return { provider, asked: (n) => api.waitForRequest(n) };
  },
};
