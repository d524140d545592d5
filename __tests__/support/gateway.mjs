// @ts-check
/**
 * A gateway for one test, and how it is asked: by plain HTTP, and by the vendors' own clients in loops of a tool.
 */
import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGateway } from "deep-factor-providers/gateway";
import { createOpenAiCompatibleProvider } from "deep-factor-providers/native";
import { onTestFinished } from "vitest";
import { requireFrom } from "./ai-sdk.mjs";
import { removeFolder } from "./folders.mjs";
import { startOpenAi } from "./openai.mjs";

/** @typedef {import("deep-factor-providers/gateway").GatewayOptions} GatewayOptions */

/**
 * @param {Partial<GatewayOptions> & Pick<GatewayOptions, "providers">} options
 */
export async function serve(options) {
  /** @type {import("deep-factor-providers").LogRecord[]} */
  const log = [];
  const gateway = await createGateway({ port: 0, logger: (record) => void log.push(record), ...options });
  onTestFinished(() => gateway.close());
  return { gateway, log, ...askerOf(gateway) };
}

/**
 * A gateway over an API, which costs no CLI.
 *
 * @param {import("./openai.mjs").Script} script
 * @param {Partial<GatewayOptions>} [options]
 * @param {object} [more] options of the provider
 */
export async function serveApi(script, options = {}, more = {}) {
  const api = await startOpenAi(script);
  const provider = createOpenAiCompatibleProvider({
    baseURL: api.url,
    apiKey: "not-a-key",
    model: "scripted",
    retry: false,
    ...more,
  });
  const served = await serve({ providers: { api: provider }, ...options });
  onTestFinished(async () => {
    await provider.close();
    await api.close();
    if (api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  return { api, provider, ...served };
}

/** @param {import("deep-factor-providers/gateway").Gateway} gateway */
function askerOf(gateway) {
  /**
   * @param {string} path
   * @param {unknown} [body] JSON, or text as it is; none: GET
   * @param {Record<string, string>} [headers]
   */
  const ask = async (path, body, headers = {}) => {
    const response = await fetch(gateway.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        ...(gateway.token === undefined ? {} : { authorization: `Bearer ${gateway.token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parsed(text) };
  };
  return { ask };
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * The events of a stream, as text: `[name, data]`.
 *
 * @param {string} text
 * @returns {[string | undefined, any][]}
 */
export function eventsIn(text) {
  return text
    .split("\n\n")
    .filter((block) => block !== "" && !block.startsWith(":"))
    .map((block) => {
      const name = /^event: ([^\n]*)$/m.exec(block)?.[1];
      const data = /^data: ([^\n]*)$/m.exec(block)?.[1] ?? "";
      return [name, data === "[DONE]" ? data : JSON.parse(data)];
    });
}

/**
 * Sends bytes as they are, and reads until the connection ends.
 *
 * @param {string} url
 * @param {string} bytes
 * @returns {Promise<string>}
 */
export async function raw(url, bytes) {
  const { connect } = await import("node:net");
  const { hostname, port } = new URL(url);
  return await new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    socket.setEncoding("utf8").on("data", (piece) => {
      text += piece;
    });
    socket.on("error", (/** @type {NodeJS.ErrnoException} */ error) =>
      error.code === "ECONNRESET" || error.code === "EPIPE" ? resolve(text) : reject(error),
    );
    socket.on("close", () => resolve(text));
  });
}

/** A folder that goes with the test. */
export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), "dfp-"));
  onTestFinished(() => removeFolder(folder));
  return folder;
}

/** A port that is in use until the test ends. */
export async function usedPort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve(undefined))));
  return /** @type {import("node:net").AddressInfo} */ (server.address()).port;
}

const PARAMETERS = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const STEP = { name: "step", description: "Takes a step" };
const took = (/** @type {{ n: number }} */ { n }) => `took ${n}`;

/**
 * What a client needs of a gateway; `fetch` sees every answer's headers.
 * @typedef {{ url: string, token: string, model: string, fetch: typeof fetch }} Door
 */
/**
 * A client that runs its tool until the model is done, and says with what words.
 * @typedef {{ name: string, loop: (door: Door) => Promise<string> }} Client
 */

// Of models that the AI SDK has never heard of.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

/** @type {Client[]} */
export const CLIENTS = [
  {
    name: "openai, chat",
    async loop(door) {
      const client = await openai(door);
      /** @type {any[]} */
      const messages = [{ role: "user", content: "go" }];
      for (;;) {
        const tools = [{ type: "function", function: { ...STEP, parameters: PARAMETERS } }];
        const answer = await client.chat.completions.create({ model: door.model, messages, tools });
        const { message } = answer.choices[0];
        messages.push(message);
        if (!message.tool_calls) return message.content;
        for (const { id, function: its } of message.tool_calls) {
          messages.push({ role: "tool", tool_call_id: id, content: took(JSON.parse(its.arguments)) });
        }
      }
    },
  },
  {
    name: "openai, chat stream by its tool runner",
    async loop(door) {
      const client = await openai(door);
      const runner = client.chat.completions.runTools(
        {
          model: door.model,
          stream: true,
          messages: [{ role: "user", content: "go" }],
          tools: [
            { type: "function", function: { ...STEP, parameters: PARAMETERS, parse: JSON.parse, function: took } },
          ],
        },
        { maxChatCompletions: 20 },
      );
      return await runner.finalContent();
    },
  },
  {
    name: "openai, responses",
    async loop(door) {
      const client = await openai(door);
      const tools = [{ type: "function", ...STEP, parameters: PARAMETERS, strict: true }];
      let answer = await client.responses.create({ model: door.model, input: "go", tools });
      for (;;) {
        const calls = answer.output.filter((/** @type {any} */ { type }) => type === "function_call");
        if (calls.length === 0) return answer.output_text;
        const input = calls.map((/** @type {any} */ call) => ({
          type: "function_call_output",
          call_id: call.call_id,
          output: took(JSON.parse(call.arguments)),
        }));
        answer = await client.responses.create({ model: door.model, input, tools, previous_response_id: answer.id });
      }
    },
  },
  {
    name: "openai, responses stream with the whole thread",
    async loop(door) {
      const client = await openai(door);
      const tools = [{ type: "function", ...STEP, parameters: PARAMETERS, strict: true }];
      /** @type {any[]} */
      const input = [{ role: "user", content: "go" }];
      for (;;) {
        const stream = client.responses.stream({ model: door.model, input, tools, store: false });
        const answer = await stream.finalResponse();
        input.push(...answer.output);
        const calls = answer.output.filter((/** @type {any} */ { type }) => type === "function_call");
        if (calls.length === 0) return answer.output_text;
        for (const call of calls) {
          input.push({ type: "function_call_output", call_id: call.call_id, output: took(JSON.parse(call.arguments)) });
        }
      }
    },
  },
  ...[false, true].map((streams) => ({
    name: `anthropic${streams ? ", stream" : ""}`,
    async loop(/** @type {Door} */ door) {
      const { default: Anthropic } = (await loaderOf("@anthropic-ai/sdk"))("@anthropic-ai/sdk");
      const client = new Anthropic({ baseURL: door.url, apiKey: door.token, fetch: door.fetch, maxRetries: 0 });
      /** @type {any[]} */
      const messages = [{ role: "user", content: "go" }];
      const tools = [{ ...STEP, input_schema: PARAMETERS }];
      for (;;) {
        const request = { model: door.model, max_tokens: 1000, messages, tools };
        const answer = streams
          ? await client.messages.stream(request).finalMessage()
          : await client.messages.create(request);
        messages.push({ role: "assistant", content: answer.content });
        const calls = answer.content.filter((/** @type {any} */ { type }) => type === "tool_use");
        if (answer.stop_reason !== "tool_use")
          return answer.content.map((/** @type {any} */ { text }) => text).join("");
        messages.push({
          role: "user",
          content: calls.map((/** @type {any} */ call) => ({
            type: "tool_result",
            tool_use_id: call.id,
            content: took(call.input),
          })),
        });
      }
    },
  })),
  ...[false, true].map((streams) => ({
    name: `anthropic, its tool runner${streams ? ", stream" : ""}`,
    async loop(/** @type {Door} */ door) {
      const { default: Anthropic } = (await loaderOf("@anthropic-ai/sdk"))("@anthropic-ai/sdk");
      const client = new Anthropic({ baseURL: door.url, apiKey: door.token, fetch: door.fetch, maxRetries: 0 });
      const runner = client.beta.messages.toolRunner({
        ...{ model: door.model, max_tokens: 1000, messages: [{ role: "user", content: "go" }], stream: streams },
        tools: [{ ...STEP, input_schema: PARAMETERS, run: took }],
      });
      const { content } = await runner.runUntilDone();
      return content.map((/** @type {any} */ { text }) => text).join("");
    },
  })),
  ...agentsSdk(),
  ...aiSdk("@ai-sdk/openai", ({ createOpenAI }, { url, token, fetch, model }) =>
    createOpenAI({ baseURL: `${url}/v1`, apiKey: token, fetch })(model),
  ),
  ...aiSdk("@ai-sdk/anthropic", ({ createAnthropic }, { url, token, fetch, model }) =>
    createAnthropic({ baseURL: `${url}/v1`, apiKey: token, fetch })(model),
  ),
  ...aiSdk("@ai-sdk/openai-compatible", ({ createOpenAICompatible }, { url, token, fetch, model }) =>
    createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey: token, fetch })(model),
  ),
  {
    name: "LangChain, ChatOpenAI",
    async loop(door) {
      const load = await loaderOf("@langchain/openai");
      const { ChatOpenAI } = load("@langchain/openai");
      const configuration = { baseURL: `${door.url}/v1`, fetch: door.fetch };
      return await langchain(
        load,
        new ChatOpenAI({ model: door.model, apiKey: door.token, configuration, maxRetries: 0 }),
      );
    },
  },
  {
    name: "LangChain, ChatAnthropic",
    async loop(door) {
      const load = await loaderOf("@langchain/anthropic");
      const { ChatAnthropic } = load("@langchain/anthropic");
      const model = new ChatAnthropic({
        model: door.model,
        apiKey: door.token,
        anthropicApiUrl: door.url,
        maxTokens: 1000,
        maxRetries: 0,
        clientOptions: { fetch: door.fetch },
      });
      return await langchain(load, model);
    },
  },
];

/** Loads a package that is installed aside, and its neighbours. @param {string} name @returns {Promise<(name: string) => any>} */
const loaderOf = (name) => requireFrom(name);

/** @param {Door} door @returns {Promise<any>} */
export async function openai({ url, token, fetch }) {
  const { OpenAI } = (await loaderOf("openai"))("openai");
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: token, fetch, maxRetries: 0 });
}

/** Responses with its default `store`: the whole thread, or what is new behind the response before. @returns {Client[]} */
function agentsSdk() {
  return [false, true].flatMap((streams) =>
    [false, true].map((refers) => ({
      name: `OpenAI Agents${refers ? ", by previous_response_id" : ""}${streams ? ", stream" : ""}`,
      async loop(door) {
        const load = await loaderOf("@openai/agents-extensions");
        const { Agent, Runner, OpenAIProvider, tool, setTracingDisabled } = load("@openai/agents");
        setTracingDisabled(true);
        const provider = new OpenAIProvider({ openAIClient: await openai(door), useResponses: true });
        const parameters = { ...PARAMETERS, additionalProperties: false };
        const step = tool({ ...STEP, parameters, strict: true, execute: took });
        const agent = new Agent({ name: "worker", model: door.model, tools: [step] });
        const runner = new Runner({ modelProvider: provider, tracingDisabled: true });
        const options = { maxTurns: 20 };
        /** @type {any} */
        let before;
        if (refers) {
          // A turn before it, so that the loop goes on from a stored response.
          before = await runner.run(agent, "first", options);
          Object.assign(options, { previousResponseId: before.lastResponseId });
        }
        const result = await runner.run(agent, "go", { ...options, stream: streams });
        if (streams) await result.completed;
        return String(result.finalOutput);
      },
    })),
  );
}

/**
 * @param {"@ai-sdk/openai" | "@ai-sdk/anthropic" | "@ai-sdk/openai-compatible"} name
 * @param {(exported: any, door: Door) => any} make
 * @returns {Client[]}
 */
function aiSdk(name, make) {
  return [false, true].map((streams) => ({
    name: `${name}${streams ? ", stream" : ""}`,
    async loop(door) {
      const load = await loaderOf(name);
      const { generateText, streamText, stepCountIs, tool, jsonSchema } = load("ai");
      const request = {
        model: make(load(name), door),
        prompt: "go",
        maxRetries: 0,
        stopWhen: stepCountIs(20),
        tools: { step: tool({ description: STEP.description, inputSchema: jsonSchema(PARAMETERS), execute: took }) },
      };
      if (!streams) return (await generateText(request)).text;
      /** @type {unknown} */
      let failure;
      const result = streamText({ ...request, onError: (/** @type {any} */ { error }) => (failure = error) });
      await result.consumeStream();
      if (failure) throw failure;
      return await result.text;
    },
  }));
}

/**
 * @param {(name: string) => any} load
 * @param {any} model
 */
async function langchain(load, model) {
  const { HumanMessage, ToolMessage } = load("@langchain/core/messages");
  const { tool } = load("@langchain/core/tools");
  const bound = model.bindTools([tool(took, { ...STEP, schema: PARAMETERS })]);
  /** @type {any[]} */
  const thread = [new HumanMessage("go")];
  for (;;) {
    const answer = await bound.invoke(thread);
    thread.push(answer);
    if (answer.tool_calls.length === 0) return answer.text;
    for (const { id, args } of answer.tool_calls)
      thread.push(new ToolMessage({ tool_call_id: id, content: took(args) }));
  }
}
