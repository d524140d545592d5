"use strict";

/** In: a provider's answer. Out: what LangChain makes of one, a generation or a chunk. */

const { compact } = require("./fields.cjs");

/**
 * A whole answer as the only chunk of its stream.
 *
 * @param {any} AIMessageChunk
 * @param {any} message
 */
function chunkOf(AIMessageChunk, message) {
  const { id, content, tool_calls, invalid_tool_calls, usage_metadata, response_metadata, additional_kwargs } = message;
  const invalid = invalid_tool_calls.length > 0 ? { invalid_tool_calls } : {};
  return new AIMessageChunk(
    compact({
      id,
      content,
      usage_metadata,
      additional_kwargs,
      response_metadata: { ...response_metadata, ...invalid },
      tool_call_chunks: tool_calls.map((/** @type {any} */ call, /** @type {number} */ index) => ({
        type: "tool_call_chunk",
        id: call.id,
        name: call.name,
        args: JSON.stringify(call.args),
        index: content === "" ? index : index + 1,
      })),
    }),
  );
}

/**
 * What an `AIMessage` is built from; of whatever build the answer is, or plain data.
 *
 * @param {any} answer
 * @returns {Record<string, any>}
 */
function fieldsOf(answer) {
  const { id, content, tool_calls, invalid_tool_calls, usage_metadata, response_metadata, additional_kwargs } = answer;
  return compact({ id, content, tool_calls, invalid_tool_calls, usage_metadata, response_metadata, additional_kwargs });
}

/** @param {{ text: string, message: any }} generation */
function resultOf(generation) {
  // An adapter of the caller's own may count nothing.
  if (generation.message.usage_metadata === undefined) return { generations: [generation] };
  const { input_tokens, output_tokens, total_tokens } = generation.message.usage_metadata;
  const tokenUsage = { promptTokens: input_tokens, completionTokens: output_tokens, totalTokens: total_tokens };
  return { generations: [generation], llmOutput: { tokenUsage } };
}

/** @param {{ content: unknown }} message */
function textOf({ content }) {
  return typeof content === "string" ? content : "";
}

/**
 * Chunks whose content is blocks: what the model thought is one beside its text, which the events of a model's stream tell apart.
 *
 * @param {AsyncIterable<{ text: string, message: any }>} chunks
 * @param {{ AIMessageChunk: any, ChatGenerationChunk: any }} parts
 */
async function* asBlocks(chunks, { AIMessageChunk, ChatGenerationChunk }) {
  /** @type {Map<string, number>} */
  const places = new Map();
  for await (const { text, message } of chunks) {
    const { reasoning_content: reasoning } = message.additional_kwargs;
    const block = reasoning ? { type: "reasoning", reasoning } : text ? { type: "text", text } : undefined;
    if (block === undefined) {
      yield new ChatGenerationChunk({ text, message });
      continue;
    }
    const { type } = block;
    const index = places.get(type) ?? places.size;
    const known = places.has(type);
    places.set(type, index);
    // A block begins empty.
    const content = [...(known ? [] : [{ type, [type]: "", index }]), { ...block, index }];
    const { id, usage_metadata, response_metadata, tool_call_chunks } = message;
    const fields = compact({ id, content, usage_metadata, response_metadata, tool_call_chunks });
    yield new ChatGenerationChunk({ text, message: new AIMessageChunk(fields) });
  }
}

module.exports = { asBlocks, chunkOf, fieldsOf, resultOf, textOf };
