// @ts-check
/** The claude CLI as a backend of the agent's scenarios: how its model is made to answer so. */
import { createProvider, RUNS, VERSIONS, withClaude } from "./harness.mjs";
import { calling } from "./model.mjs";

/** @typedef {import("./agent-scenarios.mjs").Turn} Turn */

/**
 * An answer of the scripted API. In print form calls are written into the text; a live session's are native.
 * @param {Turn} turn
 * @param {number} number of the turn, for ids
 * @param {"print" | "live"} engine
 * @returns {import("./anthropic.mjs").Answer | ((request: { body: any }) => import("./anthropic.mjs").Answer)}
 */
export function toAnswer({ text, calls = [], hang }, number, engine) {
  if (hang) return { hang };
  const named = calls.map(({ name, args = {} }, index) => ({ id: `toolu_${number}_${index}`, name, args }));
  if (engine === "print") {
    return named.length > 0 ? calling(text ?? "", named) : { text: text ?? "" };
  }
  const said = text === undefined ? [] : [{ type: "text", text }];
  const uses = named.map(({ id, name, args }) => ({ type: "tool_use", id, name: `mcp__df__${name}`, input: args }));
  return { content: [...said, ...uses] };
}

/** @type {import("./agent-scenarios.mjs").Backend[]} */
export const CLAUDES = RUNS.map(([which, engine]) => ({
  name: `claude ${which}, ${engine}`,
  way: "turns",
  async cast(turns) {
    const script = turns.map((turn, index) => toAnswer(turn, index + 1, engine));
    const { api, options } = await withClaude({ which, engine, script });
    return { provider: createProvider(options), asked: (n) => api.waitForRequest(n) };
  },
}));

/** claude in print form, which calls the tools over the bridge. */
/** @type {import("./agent-scenarios.mjs").Backend[]} */
export const CALLING_CLAUDES = VERSIONS.map((which) => ({
  name: `claude ${which}, callbacks`,
  way: "callbacks",
  async cast(turns) {
    const script = turns.map((turn, index) => toAnswer(turn, index + 1, "live"));
    const { api, options } = await withClaude({ which, engine: "print", script });
    return { provider: createProvider(options), asked: (n) => api.waitForRequest(n) };
  },
}));
