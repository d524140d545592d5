// @ts-check
/**
 * What the scripted API answers in the demo. In flows the request the CLI has sent, out flows what a model would say to it:
 * first a call of the tool that the prompt offers, for the file that the question names; then a sentence about the result that
 * has come back in the next prompt. Every name and number in it is read from the request.
 */
import { readPrompt, writeToolCalls } from "../../__tests__/support/model.mjs";

/**
 * @param {{ body: any }} request
 * @returns {{ text: string }}
 */
export function scriptedModel({ body }) {
  const { tools, events } = readPrompt(body);
  const last = events.at(-1);
  if (last?.type === "tool_output") return { text: conclude(last) };
  const question = events.findLast((event) => event.type === "human")?.text ?? "";
  const [file] = /[\w./-]*\w\.\w+/.exec(question) ?? [];
  const [tool] = tools;
  const [parameter] = Object.keys(tool?.parameters?.properties ?? {});
  if (!file) return { text: "Name a file of this repository, such as README.md, and I will count its words." };
  if (!tool || !parameter) return { text: `I was given no tool to look into ${file} with.` };
  return { text: writeToolCalls([{ name: tool.name, args: { [parameter]: file }, id: `call_${events.length}` }]) };
}

/** @param {import("../../__tests__/support/model.mjs").ThreadEvent} output */
function conclude({ status, text }) {
  if (status === "error") return `I could not count anything: ${text}.`;
  /** @type {import("./count-words.mjs").WordCount} */
  const { file, words, favourites } = JSON.parse(text);
  const [first, ...others] = favourites.map(({ word, count }) => `“${word}” (${count} ×)`);
  const rest = others.length > 0 ? `, followed by ${others.join(" and ")}` : "";
  const favourite = first ? ` Its favourite is ${first}${rest}.` : "";
  return `${file} has ${words.toLocaleString("en")} words.${favourite}`;
}
