/** The entry `deep-factor-providers/native` for `import`. */

import plain from "./plain.cjs";

export const {
  ProviderError,
  checkHealth,
  classifyError,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createGrokCliProvider,
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
  stripAnsi,
} = plain.plainCore();
