/** What a strict TypeScript program does with `deep-factor-providers/testing`. Compiled by `types.test.ts`, never run. */
import { type CliProvider, createClaudeCliProvider, createFallbackProvider, runAgent } from "deep-factor-providers";
import {
  type CassetteOptions,
  createCassetteProvider,
  createScriptedProvider,
  type Script,
  type ScriptedCli,
  type ScriptedReply,
  type ScriptedRequest,
  scriptedCli,
} from "deep-factor-providers/testing";

// A scripted provider is a provider, and goes where one goes.
const reply: ScriptedReply = {
  deltas: ["a", { text: "b", delayMs: 1 }],
  toolCalls: [{ name: "x" }],
  usage: { inputTokens: 1 },
};
const script: Script = ["text", reply, ({ messages }, index) => `${messages.length} ${index}`];
const provider = createScriptedProvider(script, { timeout: 1, budget: { requests: 1, per: "day" }, retry: false });
export const plain: CliProvider = provider;
export const bound: ScriptedRequest[] = provider.bindTools([]).requests;
runAgent({ provider, prompt: "Hi", tools: [] });
createFallbackProvider([provider, createClaudeCliProvider()]);
createScriptedProvider([{ error: "RATE_LIMITED" }, { error: { code: "TIMEOUT", message: "late", exitCode: 1 } }]);
createScriptedProvider(async () => ({ text: "later" }));

// @ts-expect-error: there is no such code
createScriptedProvider([{ error: "NO_SUCH_CODE" }]);
// @ts-expect-error: there is no such field
createScriptedProvider([{ txt: "x" }]);
// @ts-expect-error: it has no process
createScriptedProvider([], { cliPath: "claude" });

// A cassette records any provider of this package.
const options: CassetteOptions = { match: [/\d+/, "x"], provider: () => createClaudeCliProvider() };
export const cassette: CliProvider = createCassetteProvider(new URL("file:///x.jsonl"), options);
createCassetteProvider("x.jsonl", {
  mode: "auto",
  provider: createFallbackProvider([provider]),
  match: (one) => one.tools,
});
// @ts-expect-error: there is no such mode
createCassetteProvider("x.jsonl", { mode: "play" });

// A double has its own requests.
export const double: Promise<ScriptedCli> = scriptedCli("claude", [({ form, args }) => `${form} ${args.length}`]);
// @ts-expect-error: there is no double of it
scriptedCli("codex", []);
