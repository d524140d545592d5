/**
 * The entry `deep-factor-providers/langchain` for `import`: chat models over LangChain's ESM build, so that `instanceof
 * BaseChatModel` holds for the caller's.
 */

// First: without LangChain it says what to install. The rest is imported behind it for that sake.
import * as factories from "../index.mjs";
import models from "./chat-models.cjs";
import parts from "./parts.cjs";

export const {
  ChatCli,
  ChatClaudeCli,
  ChatCodexCli,
  ChatCopilotCli,
  ChatGeminiCli,
  ChatGrokCli,
  ChatOpenCodeCli,
  ChatQwenCli,
} = models.createChatModels(
  parts.partsOf(
    await Promise.all([
      import("@langchain/core/language_models/chat_models"),
      import("@langchain/core/messages"),
      import("@langchain/core/outputs"),
      import("@langchain/core/output_parsers"),
      import("@langchain/core/runnables"),
      import("@langchain/core/utils/json_schema"),
      import("@langchain/core/utils/function_calling"),
    ]),
  ),
  factories,
);
