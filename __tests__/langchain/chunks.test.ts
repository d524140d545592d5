/** From a run's events to chunks, where no real CLI can be made to do it: several messages, and a response that broke off. */
import type { ProviderEvent, ProviderReply } from "deep-factor-providers";
import { ChatCli } from "deep-factor-providers/langchain";
import { expect, it } from "vitest";

const REPLY: ProviderReply = {
  content: "two",
  messages: [],
  toolCalls: [],
  invalidToolCalls: [],
  usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3 },
};
const start: ProviderEvent = { type: "start", runId: "run-1", provider: "p", attempt: 1, queuedMs: 0 };
const delta = (text: string): ProviderEvent => ({ type: "text_delta", text });
const message = (content: string): ProviderEvent => ({ type: "message", content });
const done: ProviderEvent = { type: "done", reply: REPLY };

async function stream(...events: ProviderEvent[]) {
  const provider = {
    id: "p",
    invoke: () => Promise.reject(new Error("it is streamed")),
    async *stream() {
      yield* events;
    },
    bindTools: () => provider,
  };
  const model = new ChatCli({ provider: provider as never });
  let text = "";
  for await (const chunk of await model.stream("hi")) text += chunk.text;
  return text;
}

it("several messages are paragraphs of one answer, whether they come in pieces or whole", async () => {
  expect(
    await stream(start, delta("o"), delta("ne"), message("one"), message("and"), delta("two"), message("two"), done),
  ).toBe("one\n\nand\n\ntwo");
});

it("calls between messages change nothing of the text", async () => {
  const call: ProviderEvent = { type: "tool_call", toolCall: { id: "a", name: "look", args: {} } };
  expect(await stream(start, delta("one"), message("one"), call, delta(" two"), message(" two"), done)).toBe(
    "one\n\n two",
  );
});

it("pieces of a response that broke off can't be taken back: the stream fails", async () => {
  await expect(stream(start, delta("tw"), delta("two"), message("two"), done)).rejects.toMatchObject({
    code: "CONNECTION_LOST",
    shouldRetry: true,
    partial: { text: "two" },
  });
});
