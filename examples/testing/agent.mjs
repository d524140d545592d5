// @ts-check
/**
 * The agent that is tested. In flow an issue of a tracker and the model; out flow the labels that the model has given it, and its summary.
 */
import { runAgent } from "deep-factor-providers";

/** @typedef {import("deep-factor-providers").CliProvider} CliProvider */
/** @typedef {{ title: string, body: string }} Issue */

const SYSTEM =
  "You triage issues. Look for similar ones, give each one label, then say in one sentence what it is about.";

/** Issues that are there already. */
const KNOWN = ["#12 App crashes when a file is empty", "#31 Please add a dark theme"];

/**
 * @param {CliProvider} provider
 * @param {Issue} issue
 */
export async function triage(provider, issue) {
  /** @type {string[]} */
  const labels = [];
  const text = { type: "string" };
  const tools = [
    {
      name: "search",
      description: "Titles of known issues that have a word",
      schema: { type: "object", properties: { word: text }, required: ["word"] },
      execute: (/** @type {{ word: string }} */ { word }) => {
        const found = KNOWN.filter((title) => title.toLowerCase().includes(word.toLowerCase()));
        return found.join("\n") || "none";
      },
    },
    {
      name: "label",
      description: "Gives the issue a label",
      schema: { type: "object", properties: { name: { enum: ["bug", "feature", "question"] } }, required: ["name"] },
      execute: (/** @type {{ name: string }} */ { name }) => {
        labels.push(name);
        return "done";
      },
    },
  ];
  const prompt = `${issue.title}\n\n${issue.body}`;
  const run = runAgent({ provider, systemPrompt: SYSTEM, prompt, tools, limits: { maxSteps: 6 } });
  const { status, output, error } = await run.result;
  return { status, labels, summary: output, ...(error && { error: error.code }) };
}
