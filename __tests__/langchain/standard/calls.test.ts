// @release
/** What LangChain's standard tests ask of any chat model's calls, of the real claude and the real codex. */
import { AIMessage, AIMessageChunk, getBufferString, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { concat } from "@langchain/core/utils/stream";
import { describe, expect, it } from "vitest";
import { STANDARD_CLIS } from "../../support/chat-models.mjs";

const USAGE = { input_tokens: expect.any(Number), output_tokens: expect.any(Number), total_tokens: expect.any(Number) };

describe.each(STANDARD_CLIS)("$name", ({ cast }) => {
  const hello = { text: "Hello there." };

  it("invoke: a message with text", async () => {
    const { model } = await cast([hello]);
    const result = await model.invoke("Hello");
    expect(result).toBeInstanceOf(AIMessage);
    expect(result.text).toBe("Hello there.");
  });

  it("stream: chunks, whose content is text", async () => {
    const { model } = await cast([hello]);
    let characters = 0;
    for await (const chunk of await model.stream("Hello")) {
      expect(chunk).toBeInstanceOf(AIMessageChunk);
      expect(typeof chunk.content).toBe("string");
      characters += chunk.text.length;
    }
    expect(characters).toBe("Hello there.".length);
  });

  it("batch: an answer for each input", async () => {
    const { model } = await cast([hello, hello]);
    const results = await model.batch(["Hello", "Hey"]);
    expect(results.map((result) => [result instanceof AIMessage, result.text])).toEqual([
      [true, "Hello there."],
      [true, "Hello there."],
    ]);
  });

  it("streamEvents: a start, pieces, and an end that is all of them", async () => {
    const { model } = await cast([hello]);
    const events = [];
    for await (const event of model.streamEvents("Hello", { version: "v2" })) events.push(event);
    expect(events.at(0)?.event).toBe("on_chat_model_start");
    expect(events.at(-1)?.event).toBe("on_chat_model_end");
    const pieces = events.slice(1, -1);
    expect(new Set(pieces.map(({ event }) => event))).toEqual(new Set(["on_chat_model_stream"]));
    expect(pieces.map(({ data }) => data.chunk.text).join("")).toBe(events.at(-1)?.data.output.text);
  });

  it("a conversation", async () => {
    const { model } = await cast([hello]);
    const thread = [new HumanMessage("hello"), new AIMessage("hello"), new HumanMessage("how are you")];
    expect((await model.invoke(thread)).text).toBe("Hello there.");
  });

  it("a conversation in which each speaks twice", async () => {
    const { model, api } = await cast([hello]);
    const thread = [
      ...[new SystemMessage("be kind"), new SystemMessage("be brief")],
      ...[new HumanMessage("hello"), new HumanMessage("hello")],
      ...[new AIMessage("hello"), new AIMessage("hello")],
      new HumanMessage("how are you"),
    ];
    expect((await model.invoke(thread)).text).toBe("Hello there.");
    const request = JSON.stringify(api.requests[0]?.body);
    for (const text of ["be kind", "be brief", "how are you"]) expect(request).toContain(text);
  });

  it("usage and the model's name, whole and of a stream", async () => {
    const { model } = await cast([hello, hello]);
    const result = await model.invoke("Hello");
    let streamed: AIMessageChunk | undefined;
    for await (const chunk of await model.stream("Hello")) streamed = streamed ? concat(streamed, chunk) : chunk;
    for (const message of [result, streamed]) {
      expect(message).toMatchObject({
        usage_metadata: USAGE,
        response_metadata: { model: expect.stringMatching(/./), model_name: expect.stringMatching(/./) },
      });
    }
  });

  it("stop does no harm, at the call and of the model", async () => {
    const { model, fields } = await cast([hello, hello]);
    expect(await model.invoke("hi", { stop: ["you"] })).toBeInstanceOf(AIMessage);
    const Model = model.constructor as new (fields: object) => typeof model;
    await using stopping = new Model({ ...fields, stop: ["you"] });
    expect(await stopping.invoke("hi")).toBeInstanceOf(AIMessage);
  });

  it("a cache keeps messages whose content is blocks", async () => {
    const { model, api } = await cast([hello], { cache: true });
    const message = new HumanMessage({ content: [{ type: "text", text: `Hello from ${model.provider.id}` }] });
    const first = await model.invoke([message]);
    const key = model._getSerializedCacheKeyParametersForCall({} as never);
    const [kept] = (await model.cache?.lookup(getBufferString([message]), key)) ?? [];
    expect(kept).toMatchObject({ message: { content: first.content } });
    expect({ message: await model.invoke([message]) }).toMatchObject({
      message: (kept as { message?: unknown }).message,
    });
    expect(api.requests).toHaveLength(1);
  });
});
