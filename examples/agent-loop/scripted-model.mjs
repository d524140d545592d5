// @ts-check
/**
 * What the scripted API answers to the small agent. In flows the request the CLI has sent; out flows a call of the offered tool
 * for every sum in the question, then a sentence with the results that have come back, or a plan if one is asked for.
 */
import { markIn, readPrompt, writeToolCalls } from "../../__tests__/support/model.mjs";

export const OPERATORS = /** @type {const} */ (["+", "-", "*", "/"]);

/**
 * @param {{ body: any }} request
 * @returns {{ text: string }}
 */
export function scriptedModel({ body }) {
  const { tools, events } = readPrompt(body);
  const question = events.findLast((event) => event.type === "human")?.text ?? "";
  const sums = Array.from(question.matchAll(/(\d+(?:\.\d+)?)\s*([-+*/])\s*(\d+(?:\.\d+)?)/g), ([, a, operator, b]) => ({
    a: Number(a),
    operator,
    b: Number(b),
  }));
  if (events.some(({ type, text }) => type === "system" && text.includes("plan")))
    return { text: writePlan(sums.length) };
  const inputs = events.filter((event) => event.type === "tool_input");
  const outputs = events.filter((event) => event.type === "tool_output");
  if (outputs.length > 0) {
    const results = outputs.map(({ callId, text }) => {
      const { a, operator, b } = JSON.parse(inputs.find((input) => input.callId === callId)?.text ?? "{}");
      return `${a} ${operator} ${b} = ${text}`;
    });
    return { text: `${results.join(", and ")}.` };
  }
  const [tool] = tools;
  if (!tool || sums.length === 0) return { text: "I can only calculate; give me a sum such as 17 + 25." };
  const calls = sums.map((args, index) => ({ name: tool.name, args, id: `call_${index + 1}` }));
  return { text: writeToolCalls(calls, markIn(body)) };
}

/**
 * A plan that a careless reader would take for something else: it holds markup and JSON, but no call.
 * @param {number} sums
 */
function writePlan(sums) {
  const steps = Array.from({ length: sums }, (_, index) => `work out sum ${index + 1}`);
  return `<plan>\n# Plan\n\n1. Read the question & find ${sums} sums\n\n\`\`\`json\n${JSON.stringify({ steps })}\n\`\`\`\n</plan>`;
}
