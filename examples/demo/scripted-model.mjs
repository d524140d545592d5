// @ts-check
/**
 * What the scripted API answers in the demo. In flows the request the CLI has sent, out flows what a model would say to it:
 * first a call of the tool that is offered, for the file that the question names; then a sentence about the result that has
 * come back in the next request. Tools and results are read in the prompt, or where the API has its own words for them
 * (live engine), and the call is written the same way. Every name and number in it is read from the request.
 */
import { markIn, readPrompt, writeToolCalls } from "../../__tests__/support/model.mjs";

/**
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/anthropic.mjs").Answer}
 */
export function scriptedModel({ body }) {
  const native = body.tools?.length > 0;
  const { tools, question, output, steps } = native ? readNative(body) : readText(body);
  if (output) return { text: conclude(output) };
  const [file] = /[\w./-]*\w\.\w+/.exec(question) ?? [];
  const [tool] = tools;
  const [parameter] = Object.keys(tool?.parameters?.properties ?? {});
  if (!file) return { text: "Name a file of this repository, such as README.md, and I will count its words." };
  if (!tool || !parameter) return { text: `I was given no tool to look into ${file} with.` };
  const call = { name: tool.name, args: { [parameter]: file }, id: `call_${steps}` };
  if (!native) return { text: writeToolCalls([call], markIn(body)) };
  return { content: [{ type: "tool_use", id: call.id, name: call.name, input: call.args }] };
}

/**
 * @typedef {object} Read
 * @property {import("../../__tests__/support/model.mjs").ToolDefinition[]} tools
 * @property {string} question
 * @property {{ status?: string, text: string } | undefined} output what the last step's tool gave
 * @property {number} steps
 */

/**
 * @param {any} body
 * @returns {Read}
 */
function readText(body) {
  const { tools, events } = readPrompt(body);
  const last = events.at(-1);
  return {
    tools,
    question: events.findLast((event) => event.type === "human")?.text ?? "",
    output: last?.type === "tool_output" ? last : undefined,
    steps: events.length,
  };
}

/**
 * @param {any} body
 * @returns {Read}
 */
function readNative(body) {
  /** @type {{ role: string, content: string | any[] }[]} */
  const messages = body.messages;
  const said = messages
    .filter(({ role }) => role === "user")
    .map(({ content }) => (typeof content === "string" ? [{ type: "text", text: content }] : content));
  const result = said.at(-1)?.find(({ type }) => type === "tool_result");
  const tools = body.tools.map((/** @type {any} */ { name, input_schema }) => ({ name, parameters: input_schema }));
  return {
    tools,
    question: said.flat().findLast(({ type }) => type === "text")?.text ?? "",
    output: result && { status: result.is_error ? "error" : "success", text: resultText(result.content) },
    steps: messages.length,
  };
}

/**
 * The text of a tool's result, which the API takes as one text or as blocks.
 *
 * @param {string | { text?: string }[] | undefined} content
 * @returns {string}
 */
function resultText(content) {
  return typeof content === "string" ? content : (content ?? []).map(({ text = "" }) => text).join("\n");
}

/** @param {NonNullable<Read["output"]>} output */
function conclude({ status, text }) {
  if (status === "error") return `I could not count anything: ${text}.`;
  /** @type {import("./count-words.mjs").WordCount} */
  const { file, words, favourites } = JSON.parse(text);
  const [first, ...others] = favourites.map(({ word, count }) => `“${word}” (${count} ×)`);
  const rest = others.length > 0 ? `, followed by ${others.join(" and ")}` : "";
  const favourite = first ? ` Its favourite is ${first}${rest}.` : "";
  return `${file} has ${words.toLocaleString("en")} words.${favourite}`;
}
