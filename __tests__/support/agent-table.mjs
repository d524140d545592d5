// @ts-check
/**
 * The table of what the scenarios come to over every provider, as __tests__/agent/SCENARIOS.md has it.
 *
 * In flow the backends with what they say of themselves; out flows Markdown. A cell is true because the scenario's test passes:
 * "same" to the letter, or else exactly as the backend says that it differs.
 */
import { API } from "./agent-api.mjs";
import { CALLING_CLAUDES, CLAUDES } from "./agent-claude.mjs";
import { CODEX, CODEX_LIVE } from "./agent-codex.mjs";
import { GEMINI } from "./agent-gemini.mjs";
import { QWEN } from "./agent-qwen.mjs";
import { SCENARIOS } from "./agent-scenarios.mjs";

/** Versions of one CLI say the same, and share a column. */
const COLUMNS = [
  ["claude live", CLAUDES.filter(({ name }) => name.endsWith("live"))],
  ["claude print", CLAUDES.filter(({ name }) => name.endsWith("print"))],
  ["claude callbacks", CALLING_CLAUDES],
  ["codex live", [CODEX_LIVE]],
  ["codex", [CODEX]],
  ["gemini", [GEMINI]],
  ["qwen", [QWEN]],
  ["OpenAI-compatible", [API]],
];

/** @returns {string} */
export function scenarioTable() {
  /** @type {string[]} */
  const reasons = [];
  /** @param {string} why */
  const note = (why) => {
    if (!reasons.includes(why)) reasons.push(why);
    return `differs [${reasons.indexOf(why) + 1}]`;
  };
  const columns = /** @type {[string, import("./agent-scenarios.mjs").Backend[]][]} */ (COLUMNS);
  const rows = SCENARIOS.map(({ name }) => {
    const cells = columns.map(([, backends]) => {
      const whys = new Set(backends.flatMap(({ differs }) => differs?.[name]?.why ?? []));
      return whys.size === 0 ? "same" : Array.from(whys, note).join(", ");
    });
    return [name, ...cells];
  });
  const head = ["scenario", ...columns.map(([title]) => title)];
  const table = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  const notes = reasons.map((why, index) => `${index + 1}. ${why}.`);
  return [...table, "", ...notes].join("\n").trim();
}
