"use strict";

/**
 * Chat completions (`POST /v1/chat/completions`). In: a request, and the blocks of its answer. Out: what a provider is asked, and the
 * answer as OpenAI's API says it, whole or as a stream of chunks.
 *
 * @import { TokenUsage } from "../../../index.js"
 * @import { Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Placed } from "./thread.cjs"
 */

const {
  SAME,
  SAMPLING,
  createReader,
  isObject,
  objectAt,
  reasoningAt,
  schemaAt,
  shownTool,
  textAt,
  tierOf,
} = require("./fields.cjs");
const { DROPPABLE_OPTIONS, bad } = require("./refusal.cjs");
const { data, id } = require("./sse.cjs");
const { joined, placesOf } = require("./thread.cjs");

/** @type {import("./fields.cjs").Known} */
const KNOWN = {
  ...{ model: true, messages: true, stream: true, stream_options: true, tools: true, tool_choice: true },
  ...{ parallel_tool_calls: true, response_format: true, max_tokens: true, max_completion_tokens: true },
  ...{ stop: true, temperature: true, reasoning_effort: true, reasoning: true },
  // What changes nothing of the answer.
  ...{
    user: true,
    metadata: true,
    safety_identifier: true,
    prompt_cache_key: true,
    prompt_cache_retention: true,
    store: true,
  },
  ...{ ...SAMPLING, service_tier: true, verbosity: SAME.medium },
  modalities: (/** @type {unknown} */ value) => Array.isArray(value) && value.length === 1 && value[0] === "text",
  ...{ audio: SAME.never, prediction: SAME.never, web_search_options: SAME.never },
  ...{ functions: SAME.never, function_call: SAME.never },
};

/** @type {Face["read"]} */
function read(body, { lenient, isApi, seals }) {
  const reader = createReader(body, lenient, isApi);
  reader.check(KNOWN);
  const messages = reader
    .thread("messages")
    .map((message, index) =>
      messageOf(objectAt(message, `messages[${index}]`), `messages[${index}]`, { lenient, seals }),
    );
  const tools = (reader.list("tools") ?? []).flatMap((tool, index) => toolOf(tool, `tools[${index}]`, reader));
  const outputSchema = formatOf(reader.object("response_format"));
  const { effort, shows } = reasoningOf(reader);
  const newer = reader.count("max_completion_tokens");
  const options = {
    outputSchema,
    toolChoice: choiceOf(reader.get("tool_choice"), tools),
    maxOutputTokens: newer ?? reader.count("max_tokens"),
    stop: reader.stops("stop"),
    temperature: reader.temperature(),
    serviceTier: tierOf(reader),
    reasoning: reasoningAt(effort),
  };
  const streamOptions = reader.object("stream_options") ?? {};
  return {
    model: /** @type {string} */ (reader.get("model")),
    stream: reader.flag("stream") ?? false,
    messages,
    tools,
    options,
    json: outputSchema !== undefined,
    oneCall: reader.flag("parallel_tool_calls") === false,
    shows,
    ignored: reader.ignored,
    extra: reader.extra,
    places: placesOf(messages, "messages", {
      maxOutputTokens: newer === undefined ? "max_tokens" : "max_completion_tokens",
      stop: "stop",
      temperature: "temperature",
      serviceTier: "service_tier",
      reasoning: "reasoning_effort",
      toolChoice: "tool_choice",
      outputSchema: "response_format",
      tools: "tools",
      model: "model",
    }),
    droppable: new Set(lenient ? DROPPABLE_OPTIONS : []),
    own: { usage: streamOptions.include_usage === true },
  };
}

/**
 * How much the model thinks, and whether that is shown: OpenAI's field, or the object that OpenRouter and its kin have for it.
 *
 * @param {import("./fields.cjs").Reader} reader
 */
function reasoningOf(reader) {
  const { effort: inner, summary: _, exclude, ...others } = reader.object("reasoning") ?? {};
  for (const name of Object.keys(others))
    reader.unsupported(`reasoning.${name}`, `reasoning.${name} can't be had here: leave it out`);
  const effort =
    reader.text("reasoning_effort") ??
    (inner === undefined || inner === null ? undefined : textAt(inner, "reasoning.effort"));
  return { effort, shows: effort !== "none" && exclude !== true };
}

/**
 * @param {Fields} message
 * @param {string} at
 * @param {Pick<import("./faces.cjs").Around, "lenient" | "seals">} around
 * @returns {Placed}
 */
function messageOf({ role, content, tool_calls: calls, tool_call_id: callId }, at, { lenient, seals }) {
  switch (role) {
    case "system":
    case "developer":
      return { role: "system", content: contentOf(content, `${at}.content`), at };
    case "user":
      return { role: "user", content: contentOf(content, `${at}.content`), at };
    case "tool":
      return {
        role: "tool",
        tool_call_id: textAt(callId, `${at}.tool_call_id`),
        // A tool that gave nothing, as some clients write it.
        content: lenient && content === null ? "" : contentOf(content, `${at}.content`),
        at,
      };
    case "assistant": {
      const said = content === undefined || content === null ? "" : contentOf(content, `${at}.content`);
      if (calls === undefined || calls === null) return { role, content: said, at };
      if (!Array.isArray(calls)) throw bad("invalid_type", `${at}.tool_calls`, `${at}.tool_calls must be an array`);
      /** @type {unknown[]} */
      const sealed = [];
      const made = calls.map((call, index) => {
        const place = `${at}.tool_calls[${index}]`;
        const it = objectAt(call, place);
        if (it.type !== undefined && it.type !== "function") {
          throw bad("unsupported_content", place, `${place} is no call of a function`);
        }
        const { name, arguments: args = "{}" } = objectAt(it.function, `${place}.function`);
        sealed.push(seals.besideCall(it));
        return { id: textAt(it.id, `${place}.id`), name: textAt(name, `${place}.function.name`), args };
      });
      return { role, content: said, ...(made.length === 0 ? {} : { tool_calls: made }), ...seals.open(sealed), at };
    }
    default:
      throw bad("invalid_value", `${at}.role`, `${at}.role must be system, developer, user, assistant or tool`);
  }
}

/**
 * @param {unknown} content
 * @param {string} at
 */
function contentOf(content, at) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw bad("invalid_type", at, `${at} must be a text or an array of parts`);
  const parts = content.map((part, index) => {
    const { type, ...rest } = objectAt(part, `${at}[${index}]`);
    // What a model refused with was its answer.
    if (type === "refusal") return { type: "text", text: textAt(rest.refusal, `${at}[${index}].refusal`) };
    return { type: textAt(type, `${at}[${index}].type`), ...rest };
  });
  return joined(parts);
}

/**
 * @param {unknown} tool
 * @param {string} at
 * @param {import("./fields.cjs").Reader} reader
 */
function toolOf(tool, at, reader) {
  const whole = objectAt(tool, at);
  if (whole.type !== "function") {
    const named = { ...(isObject(whole.custom) ? whole.custom : {}), ...whole };
    reader.unsupported(at, `${shownTool(at, named)} is no function: a CLI has no tools of an API's own`);
    return [];
  }
  const { name, description, parameters } = objectAt(whole.function, `${at}.function`);
  return [plainTool(textAt(name, `${at}.function.name`), description, parameters)];
}

/**
 * @param {string} name
 * @param {unknown} description
 * @param {unknown} schema
 */
function plainTool(name, description, schema) {
  return {
    name,
    ...(typeof description === "string" ? { description } : {}),
    schema: schema ?? { type: "object", properties: {} },
  };
}

/**
 * @param {unknown} choice
 * @param {readonly { name: string }[]} tools
 */
function choiceOf(choice, tools) {
  if (choice === undefined || choice === "auto") return undefined;
  if (choice === "none") return "none";
  if (choice === "required") return requireTools("any", tools);
  const named =
    isObject(choice) && choice.type === "function" ? (isObject(choice.function) ? choice.function : choice) : {};
  if (typeof named.name === "string") return requireTools({ name: named.name }, tools);
  throw bad("unsupported_parameter", "tool_choice", 'tool_choice must be "auto", "none", "required" or a function');
}

/**
 * @template {"any" | { name: string }} T
 * @param {T} choice
 * @param {readonly { name: string }[]} tools
 */
function requireTools(choice, tools) {
  const has = typeof choice === "string" ? tools.length > 0 : tools.some(({ name }) => name === choice.name);
  if (has) return choice;
  throw bad("invalid_value", "tool_choice", "tool_choice asks for a tool that is not among tools");
}

/** @param {Fields | undefined} format */
function formatOf(format) {
  if (format === undefined || format.type === "text") return undefined;
  if (format.type === "json_object") return { type: "object" };
  const at = "response_format.json_schema";
  if (format.type === "json_schema") return schemaAt(objectAt(format.json_schema, at), `${at}.schema`);
  throw bad("invalid_value", "response_format.type", "response_format.type must be text, json_object or json_schema");
}

/** @type {Record<string, string>} */
const FINISH = { "tool-calls": "tool_calls", length: "length", "content-filter": "content_filter" };

/** @param {TokenUsage | undefined} usage */
function usageOf(usage) {
  const [input, output] = [usage?.inputTokens ?? 0, usage?.outputTokens ?? 0];
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: usage?.cacheReadTokens ?? 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: usage?.reasoningTokens ?? 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

/** Between two messages of one answer. */
const GAP = "\n\n";

/** @type {Face["whole"]} */
function whole({ model, shows }, content, { reason, usage, reply }, { seals }) {
  const said = (/** @type {string} */ kind) =>
    content.flatMap((block) => (block.kind === kind && block.text !== "" ? [block.text] : []));
  const [texts, thoughts] = [said("text"), said("reasoning")];
  // What goes out beside calls, which the end of an answer's reasoning tells.
  const beside = new Map(
    content.flatMap(({ kind, sealed }) => (kind === "reasoning" ? [...seals.besideCalls(sealed)] : [])),
  );
  const calls = content.flatMap(({ kind, id, name, text }) =>
    kind === "call" ? [{ ...beside.get(id), id, type: "function", function: { name, arguments: text } }] : [],
  );
  const message = {
    role: "assistant",
    content: texts.length === 0 && calls.length > 0 ? null : texts.join(GAP),
    refusal: null,
    annotations: [],
    ...(shows && thoughts.length > 0 ? { reasoning_content: thoughts.join(GAP) } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  return {
    id: id("chatcmpl-"),
    object: "chat.completion",
    created: Math.floor(Date.now() / 1000),
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: FINISH[reason] ?? "stop" }],
    usage: usageOf(usage),
    service_tier: reply?.serviceTier ?? "default",
  };
}

/** @type {Face["stream"]} */
function stream({ model, shows, own }, { seals }) {
  const head = { id: id("chatcmpl-"), object: "chat.completion.chunk", created: Math.floor(Date.now() / 1000), model };
  const counts = own.usage === true;
  /** @param {object} delta @param {string | null} [finish] @param {object} [more] */
  const chunk = (delta, finish = null, more = {}) =>
    data({
      ...head,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      ...(counts ? { usage: null } : {}),
      ...more,
    });
  /** @type {Map<string, number>} */
  const calls = new Map();
  const begun = { text: false, reasoning: false };
  /** Before the next piece of reasoning. */
  let gap = "";

  return {
    begin: () => chunk({ role: "assistant", content: "" }),

    open({ kind, id, name }) {
      if (kind === "call") {
        const index = calls.size;
        calls.set(id, index);
        return chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] });
      }
      if (kind === "reasoning") {
        gap = begun.reasoning ? GAP : "";
        return "";
      }
      const between = begun.text ? chunk({ content: GAP }) : "";
      begun.text = true;
      return between;
    },

    piece({ kind, id }, delta) {
      if (kind === "text") return chunk({ content: delta });
      if (kind === "call") return chunk({ tool_calls: [{ index: calls.get(id), function: { arguments: delta } }] });
      const text = gap + delta;
      begun.reasoning = true;
      gap = "";
      return shows ? chunk({ reasoning_content: text }) : "";
    },

    close(_, sealed) {
      // The calls have gone out: more of them follows, as any other piece.
      const beside = [...seals.besideCalls(sealed)].filter(([id]) => calls.has(id));
      const more = beside.map(([id, it]) => ({ ...it, index: calls.get(id), function: { arguments: "" } }));
      return more.map((call) => chunk({ tool_calls: [call] })).join("");
    },

    finish({ reason, usage, reply }) {
      const tier = reply?.serviceTier;
      const last = chunk({}, FINISH[reason] ?? "stop", tier === undefined ? {} : { service_tier: tier });
      const counted = counts ? data({ ...head, choices: [], usage: usageOf(usage) }) : "";
      return `${last}${counted}data: [DONE]\n\n`;
    },

    // No finish and no [DONE]: the answer is none.
    fail: (refusal, requestId) => data(refusal.body("openai", requestId)),
    ping: () => ": ping\n\n",
  };
}

/** @type {Face} */
const chat = { vendor: "openai", read, whole, stream };

module.exports = { chat, choiceOf, plainTool, requireTools };
