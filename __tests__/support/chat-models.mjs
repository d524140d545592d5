// @ts-check
/**
 * The real claude and the real codex as LangChain's chat models, on scripted APIs.
 *
 * In flow the turns of a model (`agent-scenarios.mjs`); out flow the chat model, and the API's record of what it was asked. Both end
 * with the test, which fails if the CLI asked for more than there is.
 */
import { createOpenAiCompatibleProvider } from "deep-factor-providers";
import { ChatClaudeCli, ChatCli, ChatCodexCli } from "deep-factor-providers/langchain";
import { onTestFinished } from "vitest";
import { toAnswer as toClaude } from "./agent-claude.mjs";
import { ALL, sampleOf, withClaude, withCli } from "./harness.mjs";
import { calling } from "./model.mjs";
import { startOpenAi } from "./openai.mjs";

/** @typedef {import("./agent-scenarios.mjs").Turn} Turn */
/**
 * @typedef {object} Cast
 * @property {ChatCli} model
 * @property {import("./scripted.mjs").ScriptedServer} api
 * @property {Record<string, unknown>} fields what the model was made of, for another one
 */
/**
 * @typedef {object} Cli
 * @property {string} name
 * @property {"print" | "live"} engine
 * @property {(turns: Turn[], fields?: Record<string, unknown>) => Promise<Cast>} cast
 */

/**
 * @param {"print" | "live"} engine
 * @returns {Cli}
 */
function claude(engine) {
  return {
    name: `claude, ${engine}`,
    engine,
    async cast(turns, fields = {}) {
      const script = turns.map((turn, index) => toClaude(turn, index + 1, engine));
      const { api, options } = await withClaude({ engine, script });
      return made(ChatClaudeCli, { ...options, ...fields }, api);
    },
  };
}

/**
 * @param {"print" | "live"} engine
 * @returns {Cli}
 */
function codex(engine) {
  return {
    name: `codex, ${engine}`,
    engine,
    async cast(turns, fields = {}) {
      const script = turns.map((turn, index) => (engine === "live" ? liveCodex(turn, index) : printCodex(turn, index)));
      const { api, options } = await withCli("codex", { script });
      return made(ChatCodexCli, { ...options, engine, ...fields }, api);
    },
  };
}

/** Calls in words, behind the mark that the request gives. @param {Turn} turn @param {number} index */
function printCodex({ text = "", calls = [] }, index) {
  const named = calls.map(({ name, args = {} }, at) => ({ id: `call_${index}_${at}`, name, args }));
  return named.length > 0 ? calling(text, named) : { text };
}

/** Calls of the API's own. @param {Turn} turn @param {number} index */
function liveCodex({ text, calls = [] }, index) {
  if (calls.length === 0) return { text: text ?? "" };
  const asked = calls.map(({ name, args = {} }, at) => ({ call: name, id: `call_${index}_${at}`, args }));
  return { output: [...(text === undefined ? [] : [{ text }]), ...asked] };
}

/**
 * @param {new (fields: any) => ChatCli} Model
 * @param {Record<string, unknown>} fields
 * @param {import("./scripted.mjs").ScriptedServer} api
 * @returns {Cast}
 */
function made(Model, fields, api) {
  const model = new Model(fields);
  onTestFinished(() => model.close());
  return { model, api, fields };
}

/** Both CLIs, each with both of its engines. */
export const CHAT_CLIS = sampleOf([claude("live"), codex("print"), codex("live"), claude("print")], 2);
/** Where what is tested is LangChain's own, and one CLI is as good as another: a live session and a print process. */
export const TWO_CLIS = [claude("live"), codex("print")];
/** Those that LangChain's standard tests are run with. */
export const STANDARD_CLIS = ALL ? [...TWO_CLIS, codex("live")] : TWO_CLIS.slice(0, 1);

/**
 * A chat model over an API, where no CLI has to be started to see what LangChain does.
 * @param {import("./openai.mjs").Script} script
 * @param {Record<string, unknown>} [fields] of the chat model
 */
export async function chatApi(script, fields = {}) {
  const api = await startOpenAi(script);
  onTestFinished(async () => {
    await api.close();
    if (api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  const provider = createOpenAiCompatibleProvider({ baseURL: `${api.url}/v1`, model: "scripted", retry: false });
  return { api, provider, model: new ChatCli({ provider, ...fields }) };
}
