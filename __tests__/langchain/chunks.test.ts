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

it("arguments that come in pieces are pieces of a call, once", async () => {
  const piece = (id: string, delta: string): ProviderEvent => ({
    type: "tool_call_delta",
    toolCallId: id,
    name: "look",
    delta,
  });
  const call = (id: string, n: number) => ({ id, name: "look", args: { n } });
  const events: ProviderEvent[] = [
    start,
    delta("one"),
    piece("a", '{"n"'),
    piece("b", '{"n":2'),
    piece("a", ":1}"),
    piece("b", "}"),
    message("one"),
    ...[call("a", 1), call("b", 2), call("c", 3)].map((toolCall) => ({ type: "tool_call" as const, toolCall })),
    { type: "done", reply: { ...REPLY, content: "one", toolCalls: [call("a", 1), call("b", 2), call("c", 3)] } },
  ];
  const provider = { id: "p", invoke: () => {}, stream: () => toAsync(events), bindTools: () => provider };
  const model = new ChatCli({ provider: provider as never });
  const chunks = [];
  for await (const chunk of await model.stream("hi")) chunks.push(chunk);
  const pieces = chunks.flatMap(({ tool_call_chunks }) => tool_call_chunks ?? []);
  expect(pieces.map(({ index, id, args }) => [index, id, args])).toEqual([
    [1, "a", '{"n"'],
    [2, "b", '{"n":2'],
    [1, undefined, ":1}"],
    [2, undefined, "}"],
    [3, "c", '{"n":3}'],
  ]);
  const whole = chunks.reduce((joined, chunk) => joined.concat(chunk));
  expect(whole.tool_calls?.map(({ id, args }) => ({ id, args }))).toEqual([
    { id: "a", args: { n: 1 } },
    { id: "b", args: { n: 2 } },
    { id: "c", args: { n: 3 } },
  ]);
});

it("pieces of a call that never came can't be taken back: the stream fails", async () => {
  const piece: ProviderEvent = { type: "tool_call_delta", toolCallId: "a", name: "look", delta: "{" };
  await expect(stream(start, piece, delta("two"), message("two"), done)).rejects.toMatchObject({
    code: "CONNECTION_LOST",
  });
});

async function* toAsync<T>(all: T[]) {
  yield* all;
}
