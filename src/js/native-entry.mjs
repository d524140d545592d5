/** The entry `deep-factor-providers/native` for `import`. */

import plain from "./plain.cjs";

export const {
  ClaudeCodeAdapter,
  ProviderError,
  checkHealth,
  claudeCodeConfigSchema,
  classifyError,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createGrokCliProvider,
  createOpenAiCompatibleProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  createFallbackProvider,
  escapeXml,
  execFileAsync,
  isModelAdapter,
  limits,
  messagesToPrompt,
  messagesToXml,
  parseCliOutput,
  parseToolCalls,
  runAgent,
  renderRunLog,
  replayRun,
  runLogSchema,
  stripAnsi,
} = plain.plainCore(import.meta.url);
