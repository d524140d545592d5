/**
 * A conversation with a provider. In: what the user says. Out: the events of each answer; kept are the thread, and what it has cost.
 *
 * @import { MessageInput, ProviderEvent, ProviderReply } from "../../../index.js"
 * @import { CliProvider } from "../native-entry.mjs"
 */

import messages from "../messages.cjs";

/**
 * @param {CliProvider} provider
 * @param {MessageInput[]} begin the messages before the user's first
 * @param {{ model?: string | undefined, record?: string | undefined }} options
 */
export function createConversation(provider, begin, { model, record }) {
  /** @type {MessageInput[]} */
  let thread = [...begin];
  const spent = { answers: 0, interrupted: 0, input: 0, output: 0, usd: 0, unpriced: 0, isEstimated: false };
  return {
    /** The model that answers from now on; `undefined`: the provider's own. */
    model,
    /** The model that answered last. @type {string | undefined} */
    answeredBy: undefined,
    spent,
    /**
     * @param {string} text
     * @param {AbortSignal} signal
     * @param {(event: ProviderEvent) => void} show
     * @returns {Promise<ProviderReply | undefined>}
     */
    async say(text, signal, show) {
      /** @type {MessageInput} */
      const prompt = ["user", text];
      /** @type {ProviderReply | undefined} */
      let reply;
      for await (const event of provider.stream([...thread, prompt], { signal, model: this.model, record })) {
        show(event);
        if (event.type === "done") reply = event.reply;
      }
      if (reply === undefined) return undefined;
      thread.push(prompt, messages.toAIMessageJson(reply, provider.id));
      this.answeredBy = reply.model;
      spent.answers++;
      spent.input += reply.usage.inputTokens;
      spent.output += reply.usage.outputTokens;
      spent.isEstimated ||= reply.usage.estimated === true;
      if (reply.costUsd === undefined) spent.unpriced++;
      else spent.usd += reply.costUsd;
      return reply;
    },
    /**
     * Keeps what there is of an answer that was interrupted; where there is nothing, the prompt is forgotten, too.
     *
     * @param {string} text
     * @param {string} partial
     */
    keep(text, partial) {
      spent.interrupted++;
      if (partial !== "") thread.push(["user", text], ["assistant", partial]);
    },
    clear() {
      thread = [...begin];
    },
  };
}
