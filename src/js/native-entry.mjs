/** As native-entry.cjs, for `import`. Nothing here comes in two builds, so it is the same objects. */

import entry from "./native-entry.cjs";

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
  renderRunLog,
  replayRun,
  runLogSchema,
  stripAnsi,
} = entry;
