"use strict";

/**
 * The answers of Responses. In: the blocks of a provider's answer. Out: the answer as OpenAI's API says it, whole or as a stream of events.
 *
 * @import { TokenUsage } from "../../../index.js"
 * @import { Block } from "../blocks.cjs"
 * @import { Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 */

const { data, id } = require("./sse.cjs");

/** @param {TokenUsage | undefined} usage */
function usageOf(usage) {
  const [input, output] = [usage?.inputTokens ?? 0, usage?.outputTokens ?? 0];
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage?.cacheReadTokens ?? 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage?.reasoningTokens ?? 0 },
    total_tokens: input + output,
  };
}

const STATUS = /** @type {Record<string, { status: string, reason: string }>} */ ({
  length: { status: "incomplete", reason: "max_output_tokens" },
  "content-filter": { status: "incomplete", reason: "content_filter" },
});

/** @typedef {{ index: number, item: Fields, text: string, begun: boolean }} Open an item that is not whole */
/** @typedef {{ items: Fields[], spaces: Map<string, { namespace: string, name: string }>, sealed: boolean, store: boolean, echo: Fields }} Own */

/** @type {Face["stream"]} */
function stream({ model, shows, own: kept }, { seals }) {
  const own = /** @type {Own} */ (/** @type {unknown} */ (kept));
  let number = 0;
  /** @type {Fields[]} */
  const output = [];
  /** @type {Map<Block, Open>} */
  const open = new Map();
  /** @type {Fields} */
  const base = {
    id: id("resp_"),
    object: "response",
    created_at: Math.floor(Date.now() / 1000),
    completed_at: null,
    status: "in_progress",
    error: null,
    incomplete_details: null,
    model,
    output: [],
    ...own.echo,
    usage: null,
  };
  /** @type {Fields | undefined} */
  let last;

  /** @param {string} type @param {object} fields */
  const event = (type, fields) => {
    const whole = { type: `response.${type}`, sequence_number: number++, ...fields };
    return `event: ${whole.type}\n${data(whole)}`;
  };
  /** @param {Block} block @param {Fields} item */
  const added = (block, item) => {
    const index = output.length;
    output.push(item);
    open.set(block, { index, item, text: "", begun: false });
    return event("output_item.added", { output_index: index, item });
  };
  /** @param {Block} block @param {Fields} item whole */
  const done = (block, item) => {
    const { index } = at(block);
    output[index] = item;
    open.delete(block);
    return event("output_item.done", { output_index: index, item });
  };
  const at = (/** @type {Block} */ block) => /** @type {Open} */ (open.get(block));
  /** @param {Block} block */
  const where = (block) => ({ item_id: at(block).item.id, output_index: at(block).index });

  return {
    begin: () => event("created", { response: base }) + event("in_progress", { response: base }),

    open(block) {
      if (block.kind === "reasoning") {
        return shows ? added(block, { id: id("rs_"), type: "reasoning", summary: [] }) : "";
      }
      if (block.kind === "text") {
        const message = { id: id("msg_"), type: "message", status: "in_progress", role: "assistant", content: [] };
        return (
          added(block, message) + event("content_part.added", { ...where(block), content_index: 0, part: textPart("") })
        );
      }
      const known = own.spaces.get(block.name ?? "");
      return added(block, {
        id: id("fc_"),
        type: "function_call",
        status: "in_progress",
        call_id: block.id,
        name: known?.name ?? block.name,
        ...(known === undefined ? {} : { namespace: known.namespace }),
        arguments: "",
      });
    },

    piece(block, delta) {
      if (block.kind === "reasoning" && !shows) return "";
      const it = at(block);
      it.text += delta;
      if (block.kind === "text") {
        return event("output_text.delta", { ...where(block), content_index: 0, delta, logprobs: [] });
      }
      if (block.kind === "call") return event("function_call_arguments.delta", { ...where(block), delta });
      const place = { ...where(block), summary_index: 0 };
      const begun = it.begun ? "" : event("reasoning_summary_part.added", { ...place, part: summaryPart("") });
      it.begun = true;
      return begun + event("reasoning_summary_text.delta", { ...place, delta });
    },

    close(block, sealed) {
      if (block.kind === "reasoning" && !shows) return "";
      const { item, text, begun } = at(block);
      if (block.kind === "text") {
        const place = { ...where(block), content_index: 0 };
        return (
          event("output_text.done", { ...place, text, logprobs: [] }) +
          event("content_part.done", { ...place, part: textPart(text) }) +
          done(block, { ...item, status: "completed", content: [textPart(text)] })
        );
      }
      if (block.kind === "call") {
        return (
          event("function_call_arguments.done", { ...where(block), name: item.name, arguments: text }) +
          done(block, { ...item, status: "completed", arguments: text })
        );
      }
      const place = { ...where(block), summary_index: 0 };
      const told = begun
        ? event("reasoning_summary_text.done", { ...place, text }) +
          event("reasoning_summary_part.done", { ...place, part: summaryPart(text) })
        : "";
      const seal = own.sealed ? seals.seal(sealed) : undefined;
      const whole = { ...item, summary: begun ? [summaryPart(text)] : [] };
      return told + done(block, seal === undefined ? whole : { ...whole, encrypted_content: seal });
    },

    finish({ reason, usage, reply }) {
      const cut = STATUS[reason];
      const response = {
        ...base,
        status: cut?.status ?? "completed",
        completed_at: cut === undefined ? Math.floor(Date.now() / 1000) : null,
        incomplete_details: cut === undefined ? null : { reason: cut.reason },
        output,
        usage: usageOf(usage),
        ...(reply?.serviceTier === undefined ? {} : { service_tier: reply.serviceTier }),
      };
      last = response;
      return event(cut?.status ?? "completed", { response });
    },

    fail({ code, message }) {
      return event("failed", { response: { ...base, status: "failed", error: { code, message }, output } });
    },
    ping: () => ": ping\n\n",
    answer: () => last,
  };
}

/** @param {string} text */
const textPart = (text) => ({ type: "output_text", text, annotations: [], logprobs: [] });
/** @param {string} text */
const summaryPart = (text) => ({ type: "summary_text", text });

/** @type {Face["whole"]} */
function whole(read, content, end, around) {
  // What the stream would come to.
  const writer = stream(read, around);
  for (const { kind, id, name, text, sealed } of content) {
    if (kind === "text" && text === "") continue;
    /** @type {Block} */
    const block = { kind, id, ...(name === undefined ? {} : { name }), ended: true };
    writer.open(block);
    if (kind === "call" || text !== "") writer.piece(block, text);
    writer.close(block, sealed);
  }
  writer.finish(end);
  return /** @type {Fields} */ (writer.answer?.());
}

module.exports = { stream, whole };
