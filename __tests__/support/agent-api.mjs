// @ts-check
/** An OpenAI-compatible API as a backend of the agent's scenarios. */
import { createOpenAiCompatibleProvider } from "deep-factor-providers";
import { onTestFinished } from "vitest";
import { startOpenAi } from "./openai.mjs";

/**
 * @param {import("./agent-scenarios.mjs").Turn} turn
 * @returns {import("./openai.mjs").Answer}
 */
function toAnswer({ text, calls, hang }) {
  if (hang) return { hang };
  return {
    ...(text !== undefined && { text }),
    ...(calls && { calls: calls.map(({ name, args = {} }) => ({ name, args })) }),
  };
}

/** @type {import("./agent-scenarios.mjs").Backend} */
export const API = {
  name: "OpenAI-compatible",
  way: "turns",
  async cast(turns) {
    const api = await startOpenAi(turns.map(toAnswer));
    const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: "not-a-key", model: "scripted" });
    onTestFinished(async () => {
      await provider.close();
      await api.close();
      if (api.violations.length > 0) throw new Error(api.violations.join("\n"));
    });
    return { provider, asked: (n) => api.waitForRequest(n) };
  },
};
