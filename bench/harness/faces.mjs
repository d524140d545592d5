// @ts-check
/**
 * Models as frameworks have them, over the same claude and the same API. In: the API's address. Out: who answers a thread, whole or
 * in pieces.
 *
 * Another framework is another entry of {@link FACES}.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createClaudeCliProvider } from "deep-factor-providers";
import { isolateClaude } from "../../__tests__/support/claude.mjs";

/** @typedef {"user" | "assistant"} Role */
/**
 * @typedef {object} Face
 * @property {(role: Role, content: string) => any} message as the framework's programs hold it: what a message is made of is no part of a
 *   call
 * @property {(thread: any[]) => Promise<string>} whole
 * @property {(thread: any[]) => AsyncIterable<string>} pieces
 * @property {() => unknown} [close]
 */
/**
 * @typedef {object} FaceKind
 * @property {string} title
 * @property {import("./bench.mjs").Kind} kind
 * @property {(url: string, context: import("./bench.mjs").Context) => Promise<Face>} open
 */

/** @param {Role} role @param {string} content */
const plain = (role, content) => ({ role, content });

/** @param {string} url */
function claude(url) {
  const { cliPath, env, cleanup } = isolateClaude({ baseUrl: url });
  const options = /** @type {const} */ ({ cliPath, env, model: "sonnet", engine: "live", timeout: 60_000 });
  return { options, cleanup };
}

/** @type {Record<string, FaceKind>} */
export const FACES = {
  langchain: {
    title: "ChatClaudeCli of LangChain",
    kind: "ours",
    async open(url) {
      const { ChatClaudeCli } = await import("deep-factor-providers/langchain");
      const { options, cleanup } = claude(url);
      const model = new ChatClaudeCli(options);
      const close = async () => {
        await model.close();
        cleanup();
      };
      return { ...(await ofLangChain(model)), close };
    },
  },
  anthropic: {
    title: "ChatAnthropic, without a CLI",
    kind: "peer",
    async open(url, { peer }) {
      const { ChatAnthropic } = await peer("@langchain/anthropic");
      const anthropicApiUrl = url;
      return await ofLangChain(
        new ChatAnthropic({ model: "claude-sonnet-4-5", apiKey: "none", anthropicApiUrl, maxRetries: 0 }),
      );
    },
  },
  aiSdkModel: {
    title: "a model of the AI SDK's face, called by itself",
    kind: "ours",
    async open(url) {
      const { model, close } = await ofAiSdk(url);
      return {
        message: (role, content) => ({ role, content: [{ type: "text", text: content }] }),
        async whole(prompt) {
          const { content } = await model.doGenerate({ prompt });
          return content.map((part) => ("text" in part ? part.text : "")).join("");
        },
        async *pieces(prompt) {
          const { stream } = await model.doStream({ prompt });
          for await (const part of stream) if (part.type === "text-delta") yield part.delta;
        },
        close,
      };
    },
  },
  aiSdk: {
    title: "the same model in generateText and streamText",
    kind: "ours",
    async open(url) {
      const { model, close } = await ofAiSdk(url);
      return { ...inAiSdk(() => model), close };
    },
  },
  aiSdkPeer: {
    title: "ai-sdk-provider-claude-code in generateText and streamText",
    kind: "peer",
    async open(url, { peer }) {
      const { createClaudeCode } = await peer("ai-sdk-provider-claude-code");
      const { options, cleanup } = claude(url);
      // Its `env` has no word for what is taken away.
      const env = Object.fromEntries(
        Object.entries({ ...process.env, ...options.env }).filter(([, value]) => value !== undefined),
      );
      const settings = { pathToClaudeCodeExecutable: options.cliPath, env, settingSources: [], tools: [] };
      // A model of its own each time: one that is kept would resume a session that was not stored.
      const close = async () => {
        // The last ones still write into their home for a moment, and a folder that is not empty can't be removed.
        for (let tries = 1; ; tries++) {
          try {
            return cleanup();
          } catch (error) {
            if (tries === 100) throw error;
            await delay(50);
          }
        }
      };
      return { ...inAiSdk(() => createClaudeCode()("sonnet", settings)), close };
    },
  },
  provider: {
    title: "the bare provider",
    kind: "floor",
    async open(url) {
      const { options, cleanup } = claude(url);
      const provider = createClaudeCliProvider(options);
      return {
        message: plain,
        whole: async (thread) => (await provider.invoke(thread)).text,
        async *pieces(thread) {
          for await (const event of provider.stream(thread)) if (event.type === "text_delta") yield event.text;
        },
        async close() {
          await provider.close();
          cleanup();
        },
      };
    },
  },
};

/** @param {string} url */
async function ofAiSdk(url) {
  const { claudeCli } = await import("deep-factor-providers/ai-sdk");
  const { options, cleanup } = claude(url);
  const { model, ...rest } = options;
  const close = async () => {
    await claudeCli.close();
    cleanup();
  };
  return { model: claudeCli(model, rest), close };
}

/**
 * @param {() => any} model a language model of the AI SDK
 * @returns {Face}
 */
function inAiSdk(model) {
  const ai = import("ai");
  return {
    message: plain,
    whole: async (messages) => (await (await ai).generateText({ model: model(), messages })).text,
    async *pieces(messages) {
      yield* (await ai).streamText({ model: model(), messages }).textStream;
    },
  };
}

/**
 * @param {any} model a BaseChatModel
 * @returns {Promise<Face>}
 */
async function ofLangChain(model) {
  const { AIMessage, HumanMessage } = await import("@langchain/core/messages");
  return {
    message: (role, content) => (role === "user" ? new HumanMessage(content) : new AIMessage(content)),
    whole: async (thread) => (await model.invoke(thread)).text,
    async *pieces(thread) {
      for await (const chunk of await model.stream(thread)) if (chunk.text) yield chunk.text;
    },
  };
}
