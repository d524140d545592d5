/** The option `engine` has the values that the provider has. */
import {
  createClaudeCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
} from "deep-factor-providers";

export const good = () => [
  createClaudeCliProvider({ engine: "live" }),
  createClaudeCliProvider({ sessions: { store: "sessions", maxAge: 60_000 } }),
  createCodexCliProvider({ engine: "auto" }),
  createCodexCliProvider({ engine: "live", sessions: { store: "sessions" } }),
  createGeminiCliProvider({ engine: "warm", keepAlive: 1000 }),
  createGeminiCliProvider({ engine: "auto" }),
  createGlmCliProvider({ engine: "print" }),
  createOpenCodeCliProvider({ engine: "print" }),
  createQwenCliProvider({ engine: "print" }),
  createQwenCliProvider({ engine: "warm", keepAlive: 1000 }),
];
// @ts-expect-error claude has no warm engine
export const noWarm = () => createClaudeCliProvider({ engine: "warm" });
// @ts-expect-error gemini has no live engine
export const noLive = () => createGeminiCliProvider({ engine: "live" });
// @ts-expect-error there is nothing to choose from
export const noChoice = () => createGlmCliProvider({ engine: "auto" });
// @ts-expect-error gemini keeps no replies
export const noSessions = () => createGeminiCliProvider({ sessions: { store: "sessions" } });
// @ts-expect-error the folder is missing
export const noStore = () => createClaudeCliProvider({ sessions: {} });
