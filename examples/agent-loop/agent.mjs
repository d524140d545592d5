// @ts-check
/**
 * The loop that an agent such as deep-factor-agent runs over a model adapter, and nothing more: what a provider must be fit for.
 *
 * In flow a question, tools and an adapter; out flow the answer and, meanwhile, the adapter's updates. What is particular to
 * it, and therefore to be borne by a provider:
 * - the tools are bound anew before every step, always on the original provider, and the call goes to what that returns;
 * - `invoke` gets the messages and no options, `invokeWithUpdates` the messages and a callback;
 * - in the xml context a step sends one HumanMessage, which holds the whole thread, serialised by the agent;
 * - a failed step is repeated at once, whatever the error says about retrying.
 */
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";

/** @typedef {import("@langchain/core/messages").AIMessage} AIMessage */
/** @typedef {import("@langchain/core/tools").StructuredToolInterface} Tool */
/**
 * One update of `invokeWithUpdates`.
 * @typedef {{ type: "assistant_message", content: string }
 *   | { type: "tool_call", toolCall: { name: string, id: string, args: Record<string, any> } }
 *   | { type: "usage", usage: Usage, rawStopReason?: string }
 *   | { type: "final", content?: string, usage?: Usage, rawStopReason?: string }} Update
 */
/**
 * @typedef {{ inputTokens: number, outputTokens: number, totalTokens: number, cacheReadTokens?: number, cacheWriteTokens?: number }} Usage
 */
/**
 * What the loop asks of a model: SPEC-01's adapter, with updates where it has them.
 * @typedef {object} Adapter
 * @property {(messages: any[]) => Promise<AIMessage>} invoke
 * @property {(messages: any[], onUpdate: (update: any) => void) => Promise<AIMessage>} [invokeWithUpdates]
 * @property {(tools: any[]) => Adapter} [bindTools]
 */
/**
 * @typedef {object} AgentOptions
 * @property {Adapter} model
 * @property {Tool[]} tools
 * @property {"standard" | "xml"} [context] how the thread travels: as messages, or as one message of XML
 * @property {"act" | "plan"} [mode] a plan is text for a person: it is handed on as it is
 * @property {(update: Update) => void} [onUpdate] with it the steps are run by `invokeWithUpdates`
 * @property {(problem: string) => void} [onError] is told each failed attempt, in 500 characters at most
 * @property {number} [maxSteps]
 * @property {number} [maxRetries] of one step
 */
/** @typedef {{ text: string, steps: number, toolCalls: number }} Outcome */
/** @typedef {{ message: import("@langchain/core/messages").BaseMessage, iteration: number }} Entry */

const INSTRUCTIONS = {
  act: "Use the tools where they help, then answer.",
  plan: "Do not act: answer with a plan, in Markdown, for a person to approve.",
};
const LONGEST_PROBLEM = 500;

export class SmallAgent {
  /** @type {Required<Omit<AgentOptions, "onUpdate">> & Pick<AgentOptions, "onUpdate">} */
  #options;

  /** @param {AgentOptions} options */
  constructor(options) {
    const defaults = { context: /** @type {const} */ ("standard"), mode: /** @type {const} */ ("act") };
    this.#options = { ...defaults, maxSteps: 10, maxRetries: 3, onError: () => {}, ...options };
  }

  /**
   * @param {string} question
   * @returns {Promise<Outcome>}
   */
  async run(question) {
    const { mode, maxSteps } = this.#options;
    /** @type {Entry[]} */
    const thread = [
      { message: new SystemMessage(INSTRUCTIONS[mode]), iteration: 0 },
      { message: new HumanMessage(question), iteration: 0 },
    ];
    let toolCalls = 0;
    for (let step = 1; step <= maxSteps; step++) {
      const reply = await this.#step(thread);
      thread.push({ message: reply, iteration: step });
      const calls = reply.tool_calls ?? [];
      if (calls.length === 0) return { text: String(reply.content), steps: step, toolCalls };
      toolCalls += calls.length;
      const results = await Promise.all(calls.map((call) => this.#runTool(call)));
      for (const message of results) thread.push({ message, iteration: step });
    }
    throw new Error(`no answer after ${maxSteps} steps`);
  }

  /**
   * @param {Entry[]} thread
   * @returns {Promise<AIMessage>}
   */
  async #step(thread) {
    const { model, tools, context, onUpdate, onError, maxRetries } = this.#options;
    for (let retries = 0; ; retries++) {
      try {
        const bound = model.bindTools?.(tools) ?? model;
        const messages = context === "xml" ? [new HumanMessage(toXml(thread))] : thread.map(({ message }) => message);
        if (onUpdate && bound.invokeWithUpdates) return await bound.invokeWithUpdates(messages, onUpdate);
        return await bound.invoke(messages);
      } catch (error) {
        const { name, message } = error instanceof Error ? error : new Error(String(error));
        onError(`${name}: ${message}`.slice(0, LONGEST_PROBLEM));
        if (retries >= maxRetries) throw error;
      }
    }
  }

  /**
   * @param {{ name: string, args: Record<string, any>, id?: string }} call
   * @returns {Promise<ToolMessage>}
   */
  async #runTool({ name, args, id = "" }) {
    try {
      const tool = this.#options.tools.find((one) => one.name === name);
      if (!tool) throw new Error(`there is no tool ${name}`);
      return new ToolMessage({ tool_call_id: id, name, content: String(await tool.invoke(args)) });
    } catch (error) {
      const content = error instanceof Error ? error.message : String(error);
      return new ToolMessage({ tool_call_id: id, name, content, status: "error" });
    }
  }
}

/**
 * The thread as XML, as an agent does it that keeps its own log of events.
 * @param {Entry[]} thread
 */
export function toXml(thread) {
  const events = thread.flatMap(({ message, iteration }) =>
    toEvents(message).map((event) => ({ ...event, iteration })),
  );
  const lines = events.map(({ attributes, text, iteration }, id) => {
    const all = Object.entries({ ...attributes, id, iteration });
    return `  <event ${all.map(([name, value]) => `${name}="${escapeXml(String(value))}"`).join(" ")}>${escapeXml(text)}</event>`;
  });
  return `<thread>\n${lines.join("\n")}\n</thread>`;
}

/**
 * @param {import("@langchain/core/messages").BaseMessage} message
 * @returns {{ attributes: Record<string, string>, text: string }[]}
 */
function toEvents(message) {
  const text = typeof message.content === "string" ? message.content : JSON.stringify(message.content);
  const type = message.getType();
  if (type === "tool") {
    const { name = "", tool_call_id, status = "success" } = /** @type {ToolMessage} */ (message);
    return [{ attributes: { type: "tool_output", name, call_id: tool_call_id, status }, text }];
  }
  const { tool_calls: calls = [] } = /** @type {AIMessage} */ (message);
  const inputs = calls.map(({ name, id = "", args }) => ({
    attributes: { type: "tool_input", name, call_id: id },
    text: JSON.stringify(args),
  }));
  return [...(text === "" ? [] : [{ attributes: { type }, text }]), ...inputs];
}

/** @param {string} text */
function escapeXml(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
