/** The types of `deep-factor-providers/ai-sdk` without the AI SDK: they need none of it. Compiled by `../ai-sdk/types.test.ts`. */
import { type CliStreamPart, claudeCli } from "deep-factor-providers/ai-sdk";

export async function textOf(): Promise<string> {
  const { stream } = await claudeCli("sonnet").doStream({
    prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
  });
  let text = "";
  for await (const part of stream as unknown as AsyncIterable<CliStreamPart>)
    if (part.type === "text-delta") text += part.delta;
  return text;
}
