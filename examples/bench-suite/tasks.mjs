// @ts-check
/**
 * The tasks, and what the scripted model does for each: it reads in the request which task it has, and how far it is.
 *
 * @typedef {object} Task
 * @property {string} name
 * @property {Record<string, string>} files what its workspace holds at the start
 * @property {import("deep-factor-providers").ClaudeCodeConfig} config
 * @property {number} timeout ms
 * @property {(workspace: string) => Promise<string | undefined>} verdict what is wrong with the workspace afterwards
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** @type {Task[]} */
export const TASKS = [
  {
    name: "fix-the-sum",
    files: { "sum.js": "export const sum = (a, b) => a - b;\n", "CLAUDE.md": "Keep to the style of the file.\n" },
    config: { prompt: "TASK fix-the-sum: correct sum.js.", permission_mode: "auto", max_tokens: 4000 },
    timeout: 60_000,
    verdict: async (workspace) =>
      (await readFile(join(workspace, "sum.js"), "utf8")).includes("a + b") ? undefined : "sum.js is still wrong",
  },
  {
    name: "no-such-agent",
    files: {},
    config: { prompt: "TASK no-such-agent: review.", agent_name: "reviewer" },
    timeout: 60_000,
    verdict: async () => undefined,
  },
  {
    name: "wait-for-ever",
    files: { "PROMPT.md": "TASK wait-for-ever: watch the folder.\n" },
    config: { prompt_file: "PROMPT.md", permission_mode: "auto", allowed_tools: ["Bash"] },
    timeout: 8_000,
    verdict: async () => undefined,
  },
];

/**
 * What the model answers.
 *
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/anthropic.mjs").Answer}
 */
export function scriptedModel({ body }) {
  const said = JSON.stringify(body.messages);
  const results = said.split('"tool_result"').length - 1;
  const name = /TASK ([\w-]+)/.exec(said)?.[1];
  const use = (/** @type {string} */ tool, /** @type {object} */ input) => ({
    content: [{ type: "tool_use", id: `call_${name}_${results}`, name: tool, input }],
  });
  switch (name) {
    case "fix-the-sum":
      if (results === 0) return use("Read", { file_path: "sum.js" });
      if (results === 1) return use("Edit", { file_path: "sum.js", old_string: "a - b", new_string: "a + b" });
      return { text: "sum.js adds now." };
    case "wait-for-ever":
      return use("Bash", { command: "until test -e done; do sleep 2; done", description: "watch" });
    default:
      return { text: "There is nothing to do." };
  }
}
