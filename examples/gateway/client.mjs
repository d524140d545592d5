// @ts-check
/**
 * A loop with a tool by OpenAI's own client, as for any other endpoint: nothing of this package is in it.
 */

const TOOL = {
  type: "function",
  function: {
    name: "add",
    description: "Adds two numbers",
    parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
  },
};

/**
 * @param {any} client an `OpenAI`
 * @param {{ model: string, question: string, print: (line: string) => void }} ask
 */
export async function loop(client, { model, question, print }) {
  /** @type {any[]} */
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const { data, response } = await client.chat.completions.create({ model, messages, tools: [TOOL] }).withResponse();
    const { message } = data.choices[0];
    messages.push(message);
    const session = response.headers.get("x-dfp-session");
    if (!message.tool_calls) {
      print(`${session}: ${message.content}`);
      return;
    }
    for (const { id, function: call } of message.tool_calls) {
      const { a, b } = JSON.parse(call.arguments);
      print(`${session}: add(${a}, ${b})`);
      messages.push({ role: "tool", tool_call_id: id, content: String(a + b) });
    }
  }
}
