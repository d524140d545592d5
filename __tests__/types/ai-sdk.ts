/** What a strict TypeScript program does with `deep-factor-providers/ai-sdk`. Compiled by `../ai-sdk/types.test.ts`, never run. */
import type { LanguageModelV3, ProviderV3 } from "@ai-sdk/provider";
import { createProviderRegistry, generateText, type LanguageModel, Output, streamText, wrapLanguageModel } from "ai";
import {
  type CliCallProviderOptions,
  type CliLanguageModel,
  claudeCli,
  cli,
  codexCli,
  createCliRegistry,
} from "deep-factor-providers/ai-sdk";
import { createClaudeCliProvider, createFallbackProvider } from "deep-factor-providers/native";

// A model is the AI SDK's, and a provider is.
const model: CliLanguageModel = claudeCli("sonnet", { timeout: 1000, engine: "live" });
export const v3: LanguageModelV3 = model;
export const any: LanguageModel = model;
export const providers: ProviderV3[] = [claudeCli, codexCli, cli("qwen"), createCliRegistry()];
export const registry = createProviderRegistry({ claude: claudeCli, cli: createCliRegistry() });
export const wrapped: LanguageModel = wrapLanguageModel({ model, middleware: [] });

// Each CLI has its own options, and only those.
codexCli("gpt-5.5", { sandbox: "read-only" });
cli("opencode")("openai/gpt-5.5", { ignoreUserConfig: false });
createCliRegistry({ claude: { noInput: true }, gemini: { maxRetries: 1 } });
cli(createFallbackProvider([createClaudeCliProvider() as never]))("opus");
// @ts-expect-error: the model is the first argument
claudeCli("sonnet", { model: "opus" });
// @ts-expect-error: there is no such option
claudeCli("sonnet", { modle: "opus" });
// @ts-expect-error: an option of another CLI
claudeCli("sonnet", { sandbox: "read-only" });
// @ts-expect-error: there is no such CLI
cli("nobody");
// @ts-expect-error: a provider that exists has its options
cli(createClaudeCliProvider())("sonnet", { timeout: 1 });

export async function use(): Promise<string> {
  const deepFactor: CliCallProviderOptions = { timeout: 1000 };
  const { text, providerMetadata } = await generateText({
    model,
    prompt: "Hi",
    providerOptions: { deepFactor: { ...deepFactor } as never },
  });
  const cost: unknown = providerMetadata?.deepFactor?.costUsd;
  const streamed = streamText({ model: codexCli(), prompt: "Hi", output: Output.text() });
  await claudeCli.close();
  return text + String(cost) + (await streamed.text);
}
