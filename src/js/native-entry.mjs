/** As native-entry.cjs, for `import`. Nothing here comes in two builds, so it is the same objects. */

import entry from "./native-entry.cjs";

export const {
  ProviderError,
  createClaudeCliProvider,
  escapeXml,
  execFileAsync,
  isModelAdapter,
  limits,
  messagesToPrompt,
  messagesToXml,
  parseToolCalls,
  stripAnsi,
} = entry;
