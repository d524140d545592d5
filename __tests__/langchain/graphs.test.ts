// @release
/** LangGraph's own agents and nodes, and LangChain's expressions, over the real claude and the real codex. */
import { InMemoryChatMessageHistory } from "@langchain/core/chat_history";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { StringOutputParser } from "@langchain/core/output_parsers";
import { ChatPromptTemplate, MessagesPlaceholder } from "@langchain/core/prompts";
import { RunnableLambda, RunnableWithMessageHistory } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent, ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { chatApi, TWO_CLIS } from "../support/chat-models.mjs";

const add = tool(({ a, b }) => String(a + b), {
  name: "add",
  description: "Adds two numbers",
  schema: z.object({ a: z.number(), b: z.number() }),
});
const CALL = { calls: [{ name: "add", args: { a: 1, b: 2 } }] };
const QUESTION = { messages: [new HumanMessage("1 + 2?")] };
const texts = (messages: { text: string }[]) => messages.map(({ text }) => text);

describe.each(TWO_CLIS)("over $name", ({ cast }) => {
  it("createReactAgent of LangGraph runs tools, and remembers by a checkpointer", async () => {
    const { model, api } = await cast([CALL, { text: "3" }, { text: "I said 3." }]);
    const agent = createReactAgent({ llm: model, tools: [add], checkpointSaver: new MemorySaver() });
    const config = { configurable: { thread_id: "1" } };
    const first = await agent.invoke(QUESTION, config);
    expect(texts(first.messages)).toEqual(["1 + 2?", "", "3", "3"]);
    const second = await agent.invoke({ messages: [new HumanMessage("What did you say?")] }, config);
    expect(texts(second.messages)).toEqual(["1 + 2?", "", "3", "3", "What did you say?", "I said 3."]);
    expect(api.requests).toHaveLength(3);
  });

  it("a graph with a ToolNode", async () => {
    const { model } = await cast([CALL, { text: "It is 3." }]);
    const withTools = model.bindTools([add]);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", async ({ messages }) => ({ messages: [await withTools.invoke(messages)] }))
      .addNode("tools", new ToolNode([add]))
      .addEdge(START, "model")
      .addConditionalEdges("model", toolsCondition, ["tools", END])
      .addEdge("tools", "model")
      .compile();
    const { messages } = await graph.invoke(QUESTION);
    expect(messages.map((message) => message.constructor.name)).toEqual([
      ...[HumanMessage, AIMessage, ToolMessage, AIMessage].map(({ name }) => name),
    ]);
    expect(texts(messages)).toEqual(["1 + 2?", "", "3", "It is 3."]);
  });

  it("a chain: prompt, model, parser; whole and in pieces", async () => {
    const { model } = await cast([{ text: "Bonjour." }, { text: "Bonjour." }]);
    const prompt = ChatPromptTemplate.fromMessages([
      ["system", "Translate into {language}."],
      ["human", "{text}"],
    ]);
    const chain = prompt.pipe(model).pipe(new StringOutputParser());
    const input = { language: "French", text: "Good morning." };
    expect(await chain.invoke(input)).toBe("Bonjour.");
    let pieces = "";
    for await (const piece of await chain.stream(input)) pieces += piece;
    expect(pieces).toBe("Bonjour.");
  });

  it("RunnableWithMessageHistory keeps the thread", async () => {
    const { model, api } = await cast([{ text: "Hello Ada." }, { text: "Ada." }]);
    const prompt = ChatPromptTemplate.fromMessages([new MessagesPlaceholder("history"), ["human", "{input}"]]);
    const history = new InMemoryChatMessageHistory();
    const chain = new RunnableWithMessageHistory({
      runnable: prompt.pipe(model),
      getMessageHistory: () => history,
      inputMessagesKey: "input",
      historyMessagesKey: "history",
    });
    const config = { configurable: { sessionId: "1" } };
    await chain.invoke({ input: "I am Ada." }, config);
    const reply = await chain.invoke({ input: "Who am I?" }, config);
    expect(reply.text).toBe("Ada.");
    expect(texts(await history.getMessages())).toEqual(["I am Ada.", "Hello Ada.", "Who am I?", "Ada."]);
    expect(JSON.stringify(api.requests[1]?.body)).toContain("I am Ada.");
  });
});

describe("LangChain's expressions", () => {
  it("withFallbacks, withRetry and a router take the model like any other", async () => {
    const down = await chatApi([{ error: { status: 503, message: "down" } }]);
    const up = await chatApi([
      { text: "up" },
      { error: { status: 503, message: "down" } },
      { text: "again" },
      { text: "routed" },
    ]);
    expect((await down.model.withFallbacks([up.model]).invoke("hi")).text).toBe("up");
    expect((await up.model.withRetry({ stopAfterAttempt: 2 }).invoke("hi")).text).toBe("again");
    const route = RunnableLambda.from((question: string) => (question ? up.model : down.model));
    expect((await route.invoke("hi")).text).toBe("routed");
  });
});
