/**
 * The entry for `import`: the package with LangChain's ESM build, so that `instanceof AIMessage` holds for the caller's.
 *
 * @import { ToJsonSchema } from "./tools.cjs"
 */

import core from "./core.cjs";
import langchain from "./langchain.cjs";
import loader from "./load.cjs";
import tools from "./tools.cjs";

// Imported dynamically for the sake of the error: a static import that fails can't say what to do about it.
async function loadLangChain() {
  try {
    const messages = await import("@langchain/core/messages");
    const { AIMessage } = messages;
    const schemas = /** @type {{ toJsonSchema?: ToJsonSchema }} */ (await import("@langchain/core/utils/json_schema"));
    if (schemas.toJsonSchema) return { AIMessage, messages, toJsonSchema: schemas.toJsonSchema };
    const { convertToOpenAIFunction } = await import("@langchain/core/utils/function_calling");
    return { AIMessage, messages, toJsonSchema: tools.zod3Converter(convertToOpenAIFunction) };
  } catch (error) {
    throw langchain.explain(error);
  }
}

export const {
  ClaudeCodeAdapter,
  ProviderError,
  checkHealth,
  claudeCodeConfigSchema,
  claudeCodeConfigZod,
  claudeCodeConstants,
  classifyError,
  createAcpProvider,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createCopilotCliProvider,
  createFileCheckpoint,
  createGeminiCliProvider,
  createGlmCliProvider,
  createGrokCliProvider,
  createOpenAiCompatibleProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  createFallbackProvider,
  escapeXml,
  execFileAsync,
  getAgentAdapter,
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
} = core.createCore({ native: loader.loadNative(import.meta.url), ...(await loadLangChain()) });
