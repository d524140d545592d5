"use strict";

/**
 * The answers of Responses. In: the parts of a provider's answer. Out: the answer as OpenAI's API says it, whole or as a stream of events.
 *
 * @import { CliStreamPart, CliUsage } from "../ai-sdk/index.d.cts"
 * @import { Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 */

const { data, id } = require("./sse.cjs");

/** @param {CliUsage} usage */
function usageOf({ inputTokens, outputTokens }) {
  const [input, output] = [inputTokens.total ?? 0, outputTokens.total ?? 0];
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: inputTokens.cacheRead ?? 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: outputTokens.reasoning ?? 0 },
    total_tokens: input + output,
  };
}

const STATUS = /** @type {Record<string, { status: string, reason: string }>} */ ({
  length: { status: "incomplete", reason: "max_output_tokens" },
  "content-filter": { status: "incomplete", reason: "content_filter" },
});

/** @typedef {{ items: Fields[], spaces: Map<string, { namespace: string, name: string }>, sealed: boolean, store: boolean, echo: Fields }} Own */

/** @type {Face["stream"]} */
function stream({ model, shows, own: kept }, { seals }) {
  const own = /** @type {Own} */ (/** @type {unknown} */ (kept));
  let number = 0;
  /** @type {Fields[]} */
  const output = [];
  /** @type {Map<string, { index: number, item: Fields, text: string, begun: boolean }>} by the part's id */
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
  /** @param {string} part @param {Fields} item */
  const added = (part, item) => {
    const index = output.length;
    output.push(item);
    open.set(part, { index, item, text: "", begun: false });
    return event("output_item.added", { output_index: index, item });
  };
  /** @param {string} part @param {Fields} item whole */
  const done = (part, item) => {
    const { index } = at(part);
    output[index] = item;
    open.delete(part);
    return event("output_item.done", { output_index: index, item });
  };
  const at = (/** @type {string} */ part) =>
    /** @type {{ index: number, item: Fields, text: string, begun: boolean }} */ (open.get(part));
  /** @param {string} part */
  const where = (part) => ({ item_id: at(part).item.id, output_index: at(part).index });

  return {
    begin: () => event("created", { response: base }) + event("in_progress", { response: base }),

    /** @param {CliStreamPart} part */
    push(part) {
      switch (part.type) {
        case "text-start": {
          const message = { id: id("msg_"), type: "message", status: "in_progress", role: "assistant", content: [] };
          return (
            added(part.id, message) +
            event("content_part.added", { ...where(part.id), content_index: 0, part: textPart("") })
          );
        }
        case "text-delta":
          at(part.id).text += part.delta;
          return event("output_text.delta", { ...where(part.id), content_index: 0, delta: part.delta, logprobs: [] });
        case "text-end": {
          const { item, text } = at(part.id);
          const place = { ...where(part.id), content_index: 0 };
          return (
            event("output_text.done", { ...place, text, logprobs: [] }) +
            event("content_part.done", { ...place, part: textPart(text) }) +
            done(part.id, { ...item, status: "completed", content: [textPart(text)] })
          );
        }
        case "reasoning-start":
          return shows ? added(part.id, { id: id("rs_"), type: "reasoning", summary: [] }) : "";
        case "reasoning-delta": {
          if (!shows) return "";
          const it = at(part.id);
          const place = { ...where(part.id), summary_index: 0 };
          const begun = it.begun ? "" : event("reasoning_summary_part.added", { ...place, part: summaryPart("") });
          it.begun = true;
          it.text += part.delta;
          return begun + event("reasoning_summary_text.delta", { ...place, delta: part.delta });
        }
        case "reasoning-end": {
          if (!shows) return "";
          const { item, text, begun } = at(part.id);
          const place = { ...where(part.id), summary_index: 0 };
          const told = begun
            ? event("reasoning_summary_text.done", { ...place, text }) +
              event("reasoning_summary_part.done", { ...place, part: summaryPart(text) })
            : "";
          const seal = own.sealed ? seals.seal(/** @type {any} */ (part.providerMetadata)?.deepFactor) : undefined;
          const whole = { ...item, summary: begun ? [summaryPart(text)] : [] };
          return told + done(part.id, seal === undefined ? whole : { ...whole, encrypted_content: seal });
        }
        case "tool-input-start": {
          const { namespace, name } = own.spaces.get(part.toolName) ?? { namespace: undefined, name: part.toolName };
          return added(part.id, {
            id: id("fc_"),
            type: "function_call",
            status: "in_progress",
            call_id: part.id,
            name,
            ...(namespace === undefined ? {} : { namespace }),
            arguments: "",
          });
        }
        case "tool-input-delta":
          at(part.id).text += part.delta;
          return event("function_call_arguments.delta", { ...where(part.id), delta: part.delta });
        case "tool-input-end": {
          const { item, text } = at(part.id);
          return (
            event("function_call_arguments.done", { ...where(part.id), name: item.name, arguments: text }) +
            done(part.id, { ...item, status: "completed", arguments: text })
          );
        }
        case "finish": {
          const cut = STATUS[part.finishReason.unified];
          const response = {
            ...base,
            status: cut?.status ?? "completed",
            completed_at: cut === undefined ? Math.floor(Date.now() / 1000) : null,
            incomplete_details: cut === undefined ? null : { reason: cut.reason },
            output,
            usage: usageOf(part.usage),
          };
          last = response;
          return event(cut?.status ?? "completed", { response });
        }
        default:
          return "";
      }
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
function whole(read, content, finish, around) {
  // What the stream would come to.
  const writer = stream(read, around);
  for (const [index, part] of content.entries())
    for (const piece of piecesOf(part, `part-${index}`)) writer.push(piece);
  writer.push(finish);
  return /** @type {Fields} */ (writer.answer?.());
}

/**
 * @param {import("../ai-sdk/index.d.cts").CliContent} part
 * @param {string} id
 * @returns {any[]}
 */
function piecesOf(part, id) {
  if (part.type === "text" && part.text === "") return [];
  if (part.type === "text" || part.type === "reasoning") {
    const { providerMetadata, text } = /** @type {any} */ (part);
    return [
      { type: `${part.type}-start`, id },
      ...(text === "" ? [] : [{ type: `${part.type}-delta`, id, delta: text }]),
      { type: `${part.type}-end`, id, providerMetadata },
    ];
  }
  if (part.type !== "tool-call") return [];
  return [
    { type: "tool-input-start", id: part.toolCallId, toolName: part.toolName },
    { type: "tool-input-delta", id: part.toolCallId, delta: part.input },
    { type: "tool-input-end", id: part.toolCallId },
  ];
}

module.exports = { stream, whole };
