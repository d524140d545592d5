// @ts-check
/**
 * What is recorded: in your program, `() => createClaudeCliProvider()` with your login. Here it is the real claude CLI, too, against a
 * scripted API on 127.0.0.1, so that everybody can record.
 */
import { createClaudeCliProvider } from "deep-factor-providers";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";

/** What the model says to a crash. */
const SAYS = [
  { text: "I look for others.", tool: { name: "search", input: { word: "crash" } } },
  { text: "", tool: { name: "label", input: { name: "bug" } } },
  { text: "The app crashes on empty files, as in #12." },
];

export async function recordedClaude() {
  const api = await startAnthropic(
    SAYS.map(({ text, tool }, index) => ({
      content: [
        ...(text === "" ? [] : [{ type: "text", text }]),
        ...(tool ? [{ type: "tool_use", id: `toolu_${index}`, ...tool, name: `mcp__df__${tool.name}` }] : []),
      ],
    })),
  );
  const claude = isolateClaude({ baseUrl: api.url });
  return {
    /** Made anew for each recording; the cassette closes it. */
    provider: () => createClaudeCliProvider({ cliPath: claude.cliPath, env: claude.env, engine: "live" }),
    async close() {
      await api.close();
      claude.cleanup();
    },
  };
}
