// @ts-check
/**
 * In flows a letter. Out flows what it says, as a value with a type: the schema is zod's, and so is the value's type.
 */
import { createClaudeCliProvider } from "deep-factor-providers";
import { z } from "zod";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";

const LETTER = "Please send two red kettles to Ann Miller, 12 Mill Lane, York. There is no hurry.";

const Order = z.object({
  item: z.string().describe("what is ordered, in the singular"),
  count: z.number().int().positive(),
  to: z.object({ name: z.string(), city: z.string() }),
  urgent: z.boolean(),
});

/** What the model says to the letter: a number in words first, which the schema does not take. */
const ANSWERS = [
  { item: "red kettle", count: "two", to: { name: "Ann Miller", city: "York" }, urgent: false },
  { item: "red kettle", count: 2, to: { name: "Ann Miller", city: "York" }, urgent: false },
];

/** @param {(line: string) => void} print */
export async function runStructured(print) {
  const api = await startAnthropic(ANSWERS.map(answer));
  const claude = isolateClaude({ baseUrl: api.url });
  const provider = createClaudeCliProvider({ cliPath: claude.cliPath, env: claude.env, model: "sonnet" });
  try {
    const reply = await provider.invoke([LETTER], { outputSchema: Order });
    const order = reply.response_metadata.structured_output;
    if (order === undefined) throw new Error("the model has called a tool, and there is none");
    print(`${order.count} × ${order.item} to ${order.to.name}, ${order.to.city}${order.urgent ? ", at once" : ""}`);
    print(JSON.stringify(order));
    print(`${api.requests.length} requests: the first answer did not fit`);
  } finally {
    await provider.close();
    await api.close();
    claude.cleanup();
  }
}

/** An answer as claude's model gives it: the API holds its text to the schema. @param {object} value */
function answer(value) {
  return { text: JSON.stringify(value) };
}
