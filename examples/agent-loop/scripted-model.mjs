// @ts-check
/**
 * What the scripted API answers to the small agent. In flows the request the CLI has sent; out flows a call of the offered tool
 * for every sum in the question, then a sentence with the results that have come back, or a plan if one is asked for. Thread and tools
 * are read where the request has them: in the prompt's text (print form), or as the API's own messages and tools (a live session).
 */
import { markIn, readPrompt, writeToolCalls } from "../../__tests__/support/model.mjs";

export const OPERATORS = /** @type {const} */ (["+", "-", "*", "/"]);

/**
 * What the model reads: what is asked, whether a plan is wanted, the offered tool, and the calls made so far with their results.
 * @typedef {{ question: string, wantsPlan: boolean, tool: string | undefined, results: { args: string, text: string }[] }} Read
 */

/**
 * The Messages API, as claude asks it: tools and calls are native with a live session, in words in print form.
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/anthropic.mjs").Answer}
 */
export function scriptedModel({ body }) {
  const { tools, events } = read(body);
  const inputs = events.filter((event) => event.type === "tool_input");
  const outputs = events.filter((event) => event.type === "tool_output");
  const { text, calls } = think({
    question: events.findLast((event) => event.type === "human")?.text ?? "",
    wantsPlan: events.some(({ type, text }) => type === "system" && text.includes("plan")),
    tool: tools[0]?.name,
    results: outputs.map(({ callId, text }) => ({
      args: inputs.find((input) => input.callId === callId)?.text ?? "{}",
      text,
    })),
  });
  if (!calls) return { text };
  if (!isNative(body)) return { text: writeToolCalls(calls, markIn(body)) };
  return { content: calls.map(({ name, args, id }) => ({ type: "tool_use", id, name, input: args })) };
}

/**
 * Chat Completions, as grok asks it: tools and calls in words.
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/openai.mjs").Answer}
 */
export const scriptedCompletions = ({ body }) => ({
  text: scriptedModel({ body: { ...body, system: [] } }).text ?? "",
});

/**
 * The Responses API, as codex asks it live: tools and calls as items.
 * @param {{ body: any }} request
 * @returns {import("../../__tests__/support/openai.mjs").Answer}
 */
export function scriptedResponses({ body }) {
  /** @type {any[]} */
  const input = body.input;
  const said = (/** @type {string} */ role) =>
    input
      .filter((item) => item.type === "message" && item.role === role)
      .map(({ content }) => content.map((/** @type {{ text?: string }} */ part) => part.text ?? "").join(""));
  // An agent that sends its thread as XML: what it holds is what was said.
  const xml = readPrompt({ messages: [{ role: "user", content: said("user").at(-1) ?? "" }] }).events;
  const of = (/** @type {string} */ type) => xml.filter((event) => event.type === type);
  const native = input
    .filter(({ type }) => type === "function_call_output")
    .map(({ call_id, output }) => ({
      args: input.find((item) => item.type === "function_call" && item.call_id === call_id)?.arguments ?? "{}",
      text: String(output),
    }));
  const { text, calls } = think({
    question: of("human").at(-1)?.text ?? said("user").at(-1) ?? "",
    wantsPlan: [...said("developer"), ...of("system").map((event) => event.text)].some((text) => text.includes("plan")),
    tool: body.tools?.[0]?.name,
    results: [
      ...of("tool_output").map(({ callId, text }) => ({
        args: of("tool_input").find((call) => call.callId === callId)?.text ?? "{}",
        text,
      })),
      ...native,
    ],
  });
  return calls ? { output: calls.map(({ name, args, id }) => ({ call: name, args, id })) } : { text };
}

/**
 * @param {Read} read
 * @returns {{ text: string, calls?: import("../../__tests__/support/model.mjs").Call[] }}
 */
function think({ question, wantsPlan, tool, results }) {
  const sums = Array.from(question.matchAll(/(\d+(?:\.\d+)?)\s*([-+*/])\s*(\d+(?:\.\d+)?)/g), ([, a, operator, b]) => ({
    a: Number(a),
    operator,
    b: Number(b),
  }));
  if (wantsPlan) return { text: writePlan(sums.length) };
  if (results.length > 0) {
    const lines = results.map(({ args, text }) => {
      const { a, operator, b } = JSON.parse(args);
      return `${a} ${operator} ${b} = ${text}`;
    });
    return { text: `${lines.join(", and ")}.` };
  }
  if (tool === undefined || sums.length === 0) {
    return { text: "I can only calculate; give me a sum such as 17 + 25." };
  }
  return { text: "", calls: sums.map((args, index) => ({ name: tool, args, id: `call_${index + 1}` })) };
}

/** @typedef {{ type: string, text: string, callId?: string }} ThreadEvent */

/** @param {any} body */
const isNative = (body) => body.tools?.length > 0;

/**
 * @param {any} body
 * @returns {{ tools: { name: string }[], events: ThreadEvent[] }}
 */
function read(body) {
  const { tools, events } = readPrompt(body);
  const system = body.system.map((/** @type {{ text: string }} */ { text }) => ({ type: "system", text }));
  /** @type {ThreadEvent[]} */
  const thread = events.length > 0 ? events : body.messages.flatMap(readMessage);
  return { tools: isNative(body) ? body.tools : tools, events: [...system, ...thread] };
}

/**
 * @param {{ role: string, content: string | any[] }} message
 * @returns {ThreadEvent[]}
 */
function readMessage({ role, content }) {
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
  return blocks.flatMap((block) => {
    if (block.type === "tool_use") return { type: "tool_input", callId: block.id, text: JSON.stringify(block.input) };
    if (block.type === "tool_result")
      return { type: "tool_output", callId: block.tool_use_id, text: resultText(block.content) };
    const isReminder = String(block.text).startsWith("<system-reminder>");
    return block.type === "text" && role === "user" && !isReminder ? { type: "human", text: block.text } : [];
  });
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

/**
 * A plan that a careless reader would take for something else: it holds markup and JSON, but no call.
 * @param {number} sums
 */
function writePlan(sums) {
  const steps = Array.from({ length: sums }, (_, index) => `work out sum ${index + 1}`);
  return `<plan>\n# Plan\n\n1. Read the question & find ${sums} sums\n\n\`\`\`json\n${JSON.stringify({ steps })}\n\`\`\`\n</plan>`;
}
