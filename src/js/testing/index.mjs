/** The entry `deep-factor-providers/testing` for `import`. */

import loader from "../load.cjs";
import tools from "../tools.cjs";
import testing from "./testing.cjs";

/** LangChain's classes, where it is installed. */
async function loadLangChain() {
  try {
    const { AIMessage } = await import("@langchain/core/messages");
    const schemas = /** @type {{ toJsonSchema?: import("../tools.cjs").ToJsonSchema }} */ (
      await import("@langchain/core/utils/json_schema")
    );
    if (schemas.toJsonSchema) return { AIMessage, toJsonSchema: schemas.toJsonSchema };
    const { convertToOpenAIFunction } = await import("@langchain/core/utils/function_calling");
    return { AIMessage, toJsonSchema: tools.zod3Converter(convertToOpenAIFunction) };
  } catch {
    return { AIMessage: null, toJsonSchema: null };
  }
}

export const { createCassetteProvider, createScriptedProvider, scriptedCli } = testing.createTesting({
  load: () => loader.loadNative(import.meta.url),
  ...(await loadLangChain()),
});
