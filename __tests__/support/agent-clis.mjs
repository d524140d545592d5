// @ts-check
/**
 * codex, gemini and qwen as backends of the agent's scenarios: the real CLIs call the tools over the bridge.
 *
 * In flows a scenario's turns; out flows a provider over a scripted API whose model answers so, calling the tools by the names
 * that the CLI has declared to it.
 */
import { onTestFinished } from "vitest";
import { CLIS, isolateCli } from "./clis.mjs";
import { toolsOf } from "./model.mjs";

/** @typedef {import("./agent-scenarios.mjs").Turn} Turn */
/** @typedef {"codex" | "gemini" | "qwen"} Name */

/** What a CLI declares a tool of ours as: `mcp__df__add`, `mcp_df_add`, codex `mcp__df/add` (a namespace and a name), with `_` for `-`. */
const OURS = /^(.*_df[/_]+)(.*)$/;

/**
 * An answer of the scripted API.
 * @param {Turn} turn
 * @param {number} number of the turn, for ids
 * @param {any} body the request
 */
function toAnswer({ text, calls = [], hang }, number, body) {
  if (hang) return { hang };
  const declared = toolsOf(body).flatMap((name) => {
    const [, prefix = "", own] = OURS.exec(name) ?? [];
    return own === undefined ? [] : [{ prefix, own }];
  });
  const made = calls.map(({ name, args = {} }, index) => {
    const known = declared.find(({ own }) => own.replaceAll("-", "_") === name.replaceAll("-", "_"));
    const { prefix, own } = known ?? { prefix: "", own: name };
    const [called = "", namespace] = `${prefix}${own}`.split("/").reverse();
    return { id: `call_${number}_${index}`, name: called, ...(namespace && { namespace }), args };
  });
  return { ...(text !== undefined && { text }), ...(made.length > 0 && { calls: made }) };
}

/**
 * @param {Name} name
 * @param {import("./agent-scenarios.mjs").Backend["differs"]} [differs]
 * @returns {import("./agent-scenarios.mjs").Backend}
 */
export function callingCli(name, differs = {}) {
  return {
    name,
    way: "callbacks",
    differs,
    async cast(turns) {
      const script = turns.map(
        (turn, index) =>
          (/** @type {{ body: any }} */ { body }) =>
            toAnswer(turn, index + 1, body),
      );
      const api = await CLIS[name].startApi(script);
      const cli = await isolateCli(name, api.url);
      const provider = CLIS[name].create(cli.options);
      onTestFinished(async () => {
        await provider.close();
        await api.close();
        cli.cleanup();
        if (api.violations.length > 0) throw new Error(api.violations.join("\n"));
      });
      return { provider, asked: (n) => api.waitForRequest(n) };
    },
  };
}
