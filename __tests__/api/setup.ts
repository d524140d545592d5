/** A scripted API and a provider that asks it, both ended with the test. */
import {
  createOpenAiCompatibleProvider,
  type OpenAiCompatibleProviderOptions,
  type ProviderError,
  type ProviderEvent,
} from "deep-factor-providers";
import { onTestFinished } from "vitest";
import { type Script, startOpenAi } from "../support/openai.mjs";

/** A key as no vendor writes them: nothing but the provider itself knows that it is a secret. */
export const KEY = "correct_horse_battery_staple";

interface Setup {
  script?: Script;
  options?: Partial<OpenAiCompatibleProviderOptions>;
  models?: Parameters<typeof startOpenAi>[1];
  /** The script may be asked for more than it has. */
  mayRunOut?: boolean;
}

export async function withApi({ script = [], options = {}, models = {}, mayRunOut = false }: Setup = {}) {
  const api = await startOpenAi(script, models);
  const provider = createOpenAiCompatibleProvider({ baseURL: api.url, apiKey: KEY, model: "scripted", ...options });
  onTestFinished(async () => {
    await provider.close();
    await api.close();
    if (!mayRunOut && api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  return { api, provider };
}

export const failureOf = async (call: Promise<unknown>): Promise<ProviderError> =>
  await call.then(
    () => Promise.reject(new Error("it did not fail")),
    (error) => error,
  );

export async function collect(events: AsyncIterable<ProviderEvent>) {
  const collected: ProviderEvent[] = [];
  const error = await (async () => {
    for await (const event of events) collected.push(event);
  })().catch((error: ProviderError) => error);
  return { events: collected, error };
}
