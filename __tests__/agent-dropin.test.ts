// @change
/**
 * The package as deep-factor-agent uses it: `ensureModel` takes an adapter by its shape, the tools are bound anew at each step,
 * and the history is rebuilt from the agent's own events, a message per call and without the prose beside it, or sent as one
 * message of XML. The CLIs are real, the APIs scripted.
 */
import {
  AIMessage,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
  type UsageMetadata,
} from "@langchain/core/messages";
import { type StructuredToolInterface, tool } from "@langchain/core/tools";
import { createCodexCliProvider, escapeXml, isModelAdapter, type ModelAdapter } from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { HERE } from "./clis/real.js";
import { createProvider, MAIN_RUN, sampleOf, withClaude, withCli } from "./support/harness.mjs";
import { writeToolCalls } from "./support/model.mjs";

// ------------------------------------------------------------------------------------------------------------------ the agent

/** What the agent keeps of a run. */
type ThreadEvent = { iteration: number } & (
  | { type: "system" | "human" | "ai"; content: string }
  | { type: "tool_input"; toolName: string; toolCallId: string; args: Record<string, unknown> }
  | { type: "tool_output"; toolName: string; toolCallId: string; result: string }
);

type ContextMode = "standard" | "xml";

/** How deep-factor-agent tells LangChain's models from adapters; a string is a name for `initChatModel`. */
function ensureModel(model: unknown): ModelAdapter {
  if (typeof model === "string") throw new Error("initChatModel is not for CLIs");
  if (!isModelAdapter(model)) throw new Error("no ModelAdapter");
  return model;
}

function rebuild(events: ThreadEvent[]): BaseMessage[] {
  return events.map((event) => {
    if (event.type === "tool_output") {
      return new ToolMessage({ tool_call_id: event.toolCallId, name: event.toolName, content: event.result });
    }
    if (event.type === "tool_input") {
      const call = { name: event.toolName, id: event.toolCallId, args: event.args };
      return new AIMessage({ content: "", tool_calls: [call] });
    }
    const make = { system: SystemMessage, human: HumanMessage, ai: AIMessage }[event.type];
    return new make(event.content);
  });
}

function toXml(events: ThreadEvent[]): string {
  const lines = events.map((event, id) => {
    const of =
      "toolCallId" in event ? ` name="${escapeXml(event.toolName)}" call_id="${escapeXml(event.toolCallId)}"` : "";
    const status = event.type === "tool_output" ? ' status="success"' : "";
    const text =
      event.type === "tool_input"
        ? JSON.stringify(event.args)
        : event.type === "tool_output"
          ? event.result
          : event.content;
    return `  <event type="${event.type}" id="${id}"${of}${status} iteration="${event.iteration}">${escapeXml(text)}</event>`;
  });
  return ["<thread>", ...lines, "</thread>"].join("\n");
}

/** The loop of deep-factor-agent's `agent.ts`: what it asks for, and in which order. */
async function loop(
  settings: { model: unknown; tools: StructuredToolInterface[]; contextMode: ContextMode },
  question: string,
) {
  const { tools, contextMode } = settings;
  const model = ensureModel(settings.model);
  const events: ThreadEvent[] = [
    { type: "system", iteration: 0, content: "You are a weather desk." },
    { type: "human", iteration: 0, content: question },
  ];
  const replies: AIMessage[] = [];
  for (let iteration = 1; iteration < 10; iteration++) {
    const messages = contextMode === "xml" ? [new HumanMessage(toXml(events))] : rebuild(events);
    const withTools = model.bindTools?.(tools) ?? model;
    const reply = await withTools.invoke(messages);
    replies.push(reply);
    const calls = reply.tool_calls ?? [];
    if (calls.length === 0) {
      events.push({ type: "ai", iteration, content: String(reply.content) });
      return { events, replies };
    }
    for (const { name, args, id = "" } of calls) {
      const found = tools.find((one) => one.name === name);
      events.push({ type: "tool_input", iteration, toolName: name, toolCallId: id, args });
      const result = String(await found?.invoke(args));
      events.push({ type: "tool_output", iteration, toolName: name, toolCallId: id, result });
    }
  }
  throw new Error("no answer");
}

const DEGREES: Record<string, number> = { Berlin: 7, Rome: 21 };
const weather = tool(({ city }) => `<${city}> & ${DEGREES[city]} degrees`, {
  name: "weather",
  description: "The weather of a city",
  schema: z.object({ city: z.string(), unit: z.enum(["C", "F"]).optional() }),
});
const subtract = tool(({ a, b }) => String(a - b), {
  name: "subtract",
  description: "a - b",
  schema: z.object({ a: z.number(), b: z.number() }),
});

// ------------------------------------------------------------------------------------------------------------------ the model

/** The step that comes after so many results. */
const STEPS: Record<number, { prose: string; calls: { name: string; args: Record<string, unknown> }[] }> = {
  0: {
    prose: "I look it up.",
    calls: ["Berlin", "Rome"].map((city) => ({ name: "weather", args: { city } })),
  },
  2: { prose: "Now the difference.", calls: [{ name: "subtract", args: { b: 7, a: 21 } }] },
};
const ANSWER = "Rome is 14 degrees warmer.";

/** Every text of a request, whatever the API. */
function texts(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(texts) : [];
}

/** Results that the request shows: native ones, or those of the thread as XML. */
function resultsIn(body: { messages?: unknown; input?: unknown }): { id: string; text: string }[] {
  const messages = (body.messages ?? body.input) as { content?: unknown }[];
  const blocks = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const native = blocks.filter(({ type }) => type === "tool_result");
  const said = (content: string | { text: string }[]) =>
    typeof content === "string" ? content : content.map(({ text }) => text).join("");
  if (native.length > 0) return native.map(({ tool_use_id, content }) => ({ id: tool_use_id, text: said(content) }));
  const thread = texts(messages).findLast((text) => text.includes("</thread>")) ?? "";
  const outputs = thread.matchAll(/<event type="tool_output"[^>]* call_id="([^"]*)"[^>]*>([\s\S]*?)<\/event>/g);
  const raw = (text: string) => text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
  return Array.from(outputs, ([, id = "", text = ""]) => ({ id, text: raw(text) }));
}

/** What a model writes that takes the form of an id from the example it is shown, and puts its calls last. */
function written(body: unknown, { prose, calls }: (typeof STEPS)[number] & object, already: number): string {
  const prompt = texts(body).findLast((text) => text.includes("[Available Tools]")) ?? "";
  const [, prefix = "call_"] = /"id":\s*"([^"]*?)1"/.exec(prompt) ?? [];
  const named = calls.map((call, at) => ({ ...call, id: `${prefix}${already + at + 1}` }));
  return `${prose}\n\n${writeToolCalls(named)}`;
}

function nextText(body: { messages?: unknown; input?: unknown }): { text: string } {
  const already = resultsIn(body).length;
  const step = STEPS[already];
  return { text: step ? written(body, step, already) : ANSWER };
}

function nextNative(body: { messages?: unknown }) {
  const already = resultsIn(body).length;
  const step = STEPS[already];
  if (!step) return { text: ANSWER };
  const calls = step.calls.map(({ name, args }, at) => ({
    ...{ type: "tool_use", id: `toolu_${already + at}`, name: `mcp__df__${name}`, input: args },
  }));
  return { content: [{ type: "text", text: step.prose }, ...calls] };
}

// ------------------------------------------------------------------------------------------------------------------ the tests

const RESULTS = ["<Berlin> & 7 degrees", "<Rome> & 21 degrees", "14"];

/** What is true of every run, whoever answers and however the thread travels. */
function check(
  { events, replies }: Awaited<ReturnType<typeof loop>>,
  bodies: { messages?: unknown; input?: unknown }[],
) {
  expect(events.at(-1)).toEqual({ type: "ai", iteration: 3, content: ANSWER });
  expect(replies.map(({ content }) => content)).toEqual(["I look it up.", "Now the difference.", ANSWER]);
  const calls = replies.flatMap(({ tool_calls = [] }) => tool_calls);
  expect(calls.map(({ name, args }) => [name, args])).toEqual([
    ["weather", { city: "Berlin" }],
    ["weather", { city: "Rome" }],
    ["subtract", { b: 7, a: 21 }],
  ]);
  const ids = calls.map(({ id }) => id);
  expect(ids.every((id) => typeof id === "string" && id !== "")).toBe(true);
  expect(new Set(ids).size).toBe(3);
  for (const reply of replies) {
    expect(reply).toBeInstanceOf(AIMessage);
    expect([reply.getType(), reply.invalid_tool_calls]).toEqual(["ai", []]);
    const {
      input_tokens = 0,
      output_tokens = 0,
      total_tokens = 0,
    } = reply.usage_metadata ?? ({} as Partial<UsageMetadata>);
    expect(input_tokens).toBeGreaterThan(0);
    expect(output_tokens).toBeGreaterThan(0);
    expect(total_tokens).toBe(input_tokens + output_tokens);
    // What an agent stores and reads again.
    expect(JSON.parse(JSON.stringify(reply)).kwargs).toMatchObject({
      content: reply.content,
      usage_metadata: { total_tokens },
    });
  }
  // Each call's result reached the model under the call's id.
  expect(bodies.map(resultsIn)).toEqual(
    [0, 2, 3].map((count) => RESULTS.slice(0, count).map((text, at) => ({ id: ids[at], text }))),
  );
}

/** The processes of the replies, and which of them went on. */
function processes(replies: AIMessage[]) {
  const runs = replies.map(({ response_metadata }) => response_metadata.run as { pid: number; continued?: boolean });
  return {
    count: new Set(runs.map(({ pid }) => pid)).size,
    continued: runs.map(({ continued }) => continued ?? false),
  };
}

const tools = [weather, subtract];

describe.each(MAIN_RUN)("claude %s, %s, as the model of the agent", (which, engine) => {
  // As XML, codex in live form below, which makes the same calls natively and takes a sixth of the time for each of the three starts.
  it.each(sampleOf(["standard", "xml"] as const, HERE ? 1 : 2))("context %s", async (contextMode) => {
    const script = ({ body }: { body: object }) => (engine === "live" ? nextNative(body) : nextText(body));
    const { api, options } = await withClaude({ which, engine, script });
    const ran = await loop({ model: createProvider(options), tools, contextMode }, "How much warmer is Rome?");
    check(
      ran,
      api.requests.map(({ body }) => body),
    );
    // A live session goes on; but a thread that is one message is another one at each step.
    const goesOn = engine === "live" && contextMode === "standard";
    expect(processes(ran.replies)).toEqual({
      count: goesOn ? 1 : 3,
      continued: [false, goesOn, goesOn],
    });
  });
});

/** The same of codex in live form. */
function nextOfCodex(body: { input?: unknown }) {
  const already = resultsIn(body).length;
  const step = STEPS[already];
  if (!step) return { text: ANSWER };
  const calls = step.calls.map(({ name, args }, at) => ({ call: name, id: `call_${already + at}`, args }));
  return { output: [{ text: step.prose }, ...calls], usage: { input: 20, output: 7 } };
}

it.each([
  ["print", "standard"],
  ["print", "xml"],
  ["live", "xml"],
] as const)("codex in %s form as the model of the agent, context %s", async (engine, contextMode) => {
  const next = engine === "live" ? nextOfCodex : nextText;
  const { api, options } = await withCli("codex", { script: ({ body }: { body: object }) => next(body) });
  const model = createCodexCliProvider({ ...options, engine });
  onTestFinished(() => model.close());
  const ran = await loop({ model, tools, contextMode }, "How much warmer is Rome?");
  check(
    ran,
    api.requests.map(({ body }) => body),
  );
  expect(processes(ran.replies).continued).toEqual([false, false, false]);
});
