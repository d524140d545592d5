/** What the profiles say that a CLI can do is what the table of capabilities in docs/reference/providers.md says of one of its engines. */
import { readFileSync } from "node:fs";
import {
  ChatClaudeCli,
  ChatCodexCli,
  ChatGeminiCli,
  ChatOpenCodeCli,
  ChatQwenCli,
} from "deep-factor-providers/langchain";
import { expect, it } from "vitest";

const lines = readFileSync(new URL("../../docs/reference/providers.md", import.meta.url), "utf8").split("\n");
const cellsOf = (line: string) =>
  line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
/** Whether a provider has what the row says, natively or emulated, in any engine. */
function has(row: string, provider: string): boolean {
  const [, native = "", emulated = ""] = cellsOf(lines.find((line) => line.startsWith(`| ${row}`)) ?? "");
  const names = [native, emulated].flatMap((cell) => cell.split(", "));
  return emulated.startsWith("all") || names.some((name) => name.split(" ")[0] === provider);
}

it.each([
  ["claude", new ChatClaudeCli()],
  ["codex", new ChatCodexCli()],
  ["gemini", new ChatGeminiCli()],
  ["qwen", new ChatQwenCli()],
  ["opencode", new ChatOpenCodeCli()],
])("%s", (provider, { profile }) => {
  expect([has("images |", "gemini"), has("images |", "glm")]).toEqual([true, false]);
  expect({
    imageInputs: profile.imageInputs ?? false,
    pdfInputs: profile.pdfInputs ?? false,
    imageToolMessage: profile.imageToolMessage ?? false,
    reasoningOutput: profile.reasoningOutput ?? false,
    toolChoice: profile.toolChoice,
    structuredOutput: profile.structuredOutput,
  }).toEqual({
    imageInputs: has("images |", provider),
    pdfInputs: has("documents (PDF)", provider),
    imageToolMessage: has("images in tool results", provider),
    reasoningOutput: has("reasoning in the answer", provider),
    toolChoice: has("tool choice", provider),
    structuredOutput: has("structured output", provider),
  });
});
