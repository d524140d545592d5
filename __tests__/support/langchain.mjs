// @ts-check
/**
 * `langchain`, with its types left out: its middleware's don't pass `exactOptionalPropertyTypes`, which this repository is
 * compiled with. Who compiles without it is `__tests__/types`.
 */
import * as langchain from "langchain";

export const {
  createAgent,
  humanInTheLoopMiddleware,
  modelCallLimitMiddleware,
  modelFallbackMiddleware,
  modelRetryMiddleware,
  providerStrategy,
  summarizationMiddleware,
  tool,
  toolStrategy,
} = /** @type {Record<string, any>} */ (langchain);
