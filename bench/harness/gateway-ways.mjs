// @ts-check
/**
 * The same model asked in three ways: the provider itself, a gateway over it, and another gateway. In: a {@link Setting} or an API. Out: an
 * agent that takes steps, or who streams an answer.
 *
 * Clients and gateway are in one process here: what is measured of a gateway is that of its client, too.
 */
import { dirname } from "node:path";
import { byThread, ours, promptOf, replyOf } from "./agents.mjs";
import { TOOL } from "./setting.mjs";

/** @typedef {import("./agents.mjs").Way} Way */
/** @typedef {import("./bench.mjs").Context} Context */
/** @typedef {import("./plain.mjs").Message} Message */

const TOOLS = [
  { type: "function", function: { name: TOOL.name, description: TOOL.description, parameters: TOOL.schema } },
];

/** A thread in the words of chat completions. @param {Message[]} thread */
const chatOf = (thread) =>
  thread.map(({ type, content, ...rest }) => {
    const { tool_calls: calls = [], tool_call_id: id } = /** @type {any} */ (rest);
    if (type === "tool") return { role: "tool", tool_call_id: id, content };
    if (type !== "ai") return { role: type === "system" ? "system" : "user", content };
    const called = calls.map((/** @type {any} */ call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: JSON.stringify(call.args) },
    }));
    return { role: "assistant", content, ...(called.length > 0 ? { tool_calls: called } : {}) };
  });

/** @type {Way["open"]} */
async function openGateway(setting, { peer }) {
  const { default: OpenAI } = await peer("openai");
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  const { createGateway } = await import("deep-factor-providers/gateway");
  const { cliPath, env, model } = setting;
  const claude = createClaudeCliProvider({ cliPath, env, model, retry: false, engine: "live" });
  const gateway = await createGateway({ providers: { claude }, port: 0 });
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.token, maxRetries: 0 });
  const agent = byThread(setting, async (thread) => {
    const answer = await client.chat.completions.create({ model: "claude", messages: chatOf(thread), tools: TOOLS });
    const { content, tool_calls: calls = [] } = answer.choices[0].message;
    const called = calls.map((/** @type {any} */ { id, function: its }) => ({
      id,
      name: its.name,
      args: JSON.parse(its.arguments),
    }));
    return { content: content ?? "", tool_calls: called };
  });
  const close = async () => {
    await gateway.close();
    await claude.close();
  };
  return { ...agent, processes: () => 1, close };
}

/** It has no tools, and drops their results: they are told in words, as a user's message. @type {Way["open"]} */
async function openProxy(setting, { peer }) {
  const { default: OpenAI } = await peer("openai");
  const { startServer, stopServer } = await peer("claude-max-api-proxy");
  const before = { ...process.env };
  // It finds `claude` on PATH, and tells all it does.
  Object.assign(process.env, setting.wholeEnv, { PATH: `${dirname(setting.cliPath)}:${process.env.PATH}` });
  const { error, log } = console;
  Object.assign(console, { error() {}, log() {} });
  const server = await startServer({ port: 0 });
  const { port } = server.address();
  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none", maxRetries: 0 });
  let processes = 0;
  const agent = byThread(setting, async (thread) => {
    processes++;
    const messages = [{ role: "user", content: promptOf(thread) }];
    const answer = await client.chat.completions.create({ model: "sonnet", messages });
    return replyOf(answer.choices[0].message.content);
  });
  const close = async () => {
    await stopServer();
    Object.assign(console, { error, log });
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  };
  return { ...agent, processes: () => processes, close };
}

/** @type {Record<string, Way>} */
export const LOOPS = {
  direct: { title: "the provider itself, live", kind: "ours", speech: "native", open: ours({ engine: "live" }) },
  gateway: { title: "the gateway, by OpenAI's client", kind: "ours", speech: "native", open: openGateway },
  proxy: { title: "`claude-max-api-proxy`, by the same client", kind: "peer", speech: "written", open: openProxy },
};

/**
 * Who streams an answer of the API at `url`: resolves with when its first piece was there, ms after the call, and when all of it was.
 *
 * @typedef {{ ask: () => Promise<{ first: number, whole: number }>, close: () => Promise<void> }} Streamer
 */

/** @param {string} url */
async function apiAt(url) {
  const { createOpenAiCompatibleProvider } = await import("deep-factor-providers/native");
  return createOpenAiCompatibleProvider({
    baseURL: url,
    apiKey: "not-a-key",
    model: "m",
    retry: false,
    maxConcurrency: 256,
  });
}

/** @type {Record<string, { title: string, kind: import("./bench.mjs").Kind, open: (url: string) => Promise<Streamer> }>} */
export const STREAMS = {
  direct: {
    title: "the provider itself",
    kind: "ours",
    async open(url) {
      const provider = await apiAt(url);
      const ask = async () => {
        const began = performance.now();
        let first = Number.NaN;
        for await (const { type } of provider.stream(["hi"])) {
          if (type === "text_delta" && Number.isNaN(first)) first = performance.now() - began;
        }
        return { first, whole: performance.now() - began };
      };
      return { ask, close: () => provider.close() };
    },
  },
  gateway: {
    title: "the gateway, by fetch",
    kind: "ours",
    async open(url) {
      const provider = await apiAt(url);
      const { createGateway } = await import("deep-factor-providers/gateway");
      const gateway = await createGateway({ providers: { api: provider }, port: 0 });
      const headers = { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" };
      const body = JSON.stringify({ model: "api", stream: true, messages: [{ role: "user", content: "hi" }] });
      const ask = async () => {
        const began = performance.now();
        let first = Number.NaN;
        const response = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body });
        let text = "";
        for await (const piece of response.body ?? []) {
          text += Buffer.from(piece).toString();
          if (Number.isNaN(first) && text.includes('"content":"')) first = performance.now() - began;
        }
        if (!text.endsWith("data: [DONE]\n\n")) throw new Error(`the stream broke off: ${text.slice(-200)}`);
        return { first, whole: performance.now() - began };
      };
      const close = async () => {
        await gateway.close();
        await provider.close();
      };
      return { ask, close };
    },
  },
};
