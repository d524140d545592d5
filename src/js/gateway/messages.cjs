"use strict";

/**
 * Messages (`POST /v1/messages`, `/v1/messages/count_tokens`). In: a request, and the blocks of its answer. Out: what a provider is asked,
 * and the answer as Anthropic's API says it, whole or as a stream of events.
 *
 * @import { TokenUsage } from "../../../index.js"
 * @import { Block, End } from "../blocks.cjs"
 * @import { Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Placed } from "./thread.cjs"
 */

const { plainTool, requireTools } = require("./chat.cjs");
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
} = require("./fields.cjs");
const { DROPPABLE_OPTIONS, Refusal, bad } = require("./refusal.cjs");
const { event, id } = require("./sse.cjs");
const { joined, placesOf } = require("./thread.cjs");

/** @type {import("./fields.cjs").Known} */
const KNOWN = {
  ...{ model: true, messages: true, max_tokens: true, system: true, stream: true, tools: true, tool_choice: true },
  ...{ thinking: true, output_config: true, output_format: true, stop_sequences: true, temperature: true },
  // What changes nothing of the answer.
  ...{ metadata: true, context_management: true, cache_control: true },
  ...{ ...SAMPLING, service_tier: SAME.tier, speed: true },
  mcp_servers: (/** @type {unknown} */ value) => Array.isArray(value) && value.length === 0,
  container: SAME.never,
};

/**
 * The tool runners of anthropic 2.14.0 and @anthropic-ai/sdk 1.14.0 ask for a thread that the API keeps (beta `message-threads-2026-08-12`), and
 * go on without one behind an error with these details.
 */
const withoutThread = () =>
  new Refusal(400, "unsupported_parameter", "thread can't be had here: send the whole conversation each time", {
    param: "thread",
    details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
  });

/** @type {Face["read"]} */
function read(body, { lenient, seals, isApi }, { counts = false } = {}) {
  const reader = createReader(body, counts ? "all" : lenient, isApi);
  if (reader.get("thread") !== undefined) throw withoutThread();
  reader.check(KNOWN);
  const maxOutputTokens = reader.count("max_tokens");
  if (reader.get("max_tokens") === undefined && !counts) {
    throw bad("missing_required_parameter", "max_tokens", "max_tokens is missing: say how long the answer may be");
  }
  const list = reader.thread("messages");
  const system = systemOf(reader.get("system"));
  const messages = [
    ...system,
    ...list.flatMap((message, index) =>
      messagesOf(objectAt(message, `messages[${index}]`), `messages[${index}]`, seals),
    ),
  ];
  const tools = (reader.list("tools") ?? []).flatMap((tool, index) => toolOf(tool, `tools[${index}]`, reader));
  const choice = reader.object("tool_choice");
  const { effort, format } = /** @type {Fields} */ (reader.object("output_config") ?? {});
  const outputSchema = formatOf(format ?? reader.get("output_format"));
  const thinking = reader.object("thinking");
  if (thinking !== undefined && !["enabled", "adaptive", "disabled"].includes(String(thinking.type))) {
    throw bad("invalid_value", "thinking.type", "thinking.type must be enabled, adaptive or disabled");
  }
  return {
    model: /** @type {string} */ (reader.get("model")),
    stream: reader.flag("stream") ?? false,
    messages,
    tools,
    options: {
      outputSchema,
      toolChoice: choiceOf(choice, tools),
      maxOutputTokens,
      stop: reader.stops("stop_sequences"),
      temperature: reader.temperature(),
      speed: speedOf(reader),
      reasoning: reasoningAt(
        effort === undefined || effort === null ? undefined : textAt(effort, "output_config.effort"),
      ),
    },
    json: outputSchema !== undefined,
    oneCall: choice?.disable_parallel_tool_use === true,
    wishesOff: thinking?.type === "disabled",
    shows: thinking !== undefined && thinking.type !== "disabled" && thinking.display !== "omitted",
    ignored: reader.ignored,
    extra: reader.extra,
    places: placesOf(messages, "messages", {
      maxOutputTokens: "max_tokens",
      stop: "stop_sequences",
      temperature: "temperature",
      speed: "speed",
      reasoning: "output_config.effort",
      toolChoice: "tool_choice",
      outputSchema: "output_config.format",
      tools: "tools",
      model: "model",
    }),
    // The API demands max_tokens, so every client sends it.
    droppable: new Set(["maxOutputTokens", ...(lenient ? DROPPABLE_OPTIONS : [])]),
    own: {},
  };
}

/**
 * Whether the model is to answer in its fast mode: `speed` of Anthropic's API.
 *
 * @param {import("./fields.cjs").Reader} reader
 * @returns {"fast" | "standard" | undefined}
 */
function speedOf(reader) {
  const speed = reader.text("speed");
  if (speed === undefined || speed === "standard" || speed === "fast") return speed;
  throw bad("invalid_value", "speed", "speed must be fast or standard");
}

/** @param {unknown} system @returns {Placed[]} */
function systemOf(system) {
  if (system === undefined) return [];
  if (typeof system === "string") return [{ role: "system", content: system, at: "system" }];
  if (!Array.isArray(system)) throw bad("invalid_type", "system", "system must be a text or an array of text blocks");
  const blocks = system.map((block, index) => {
    const { type, text } = objectAt(block, `system[${index}]`);
    if (type !== "text" || typeof text !== "string") {
      throw bad("invalid_type", `system[${index}]`, `system[${index}] must be a block of text`);
    }
    return text;
  });
  return [{ role: "system", content: blocks.join("\n"), at: "system" }];
}

/**
 * @param {Fields} message
 * @param {string} at
 * @param {import("./faces.cjs").Around["seals"]} seals
 * @returns {Placed[]}
 */
function messagesOf({ role, content }, at, seals) {
  if (role !== "user" && role !== "assistant" && role !== "system") {
    throw bad("invalid_value", `${at}.role`, `${at}.role must be user, assistant or system`);
  }
  if (typeof content === "string") return [{ role, content, at }];
  if (!Array.isArray(content))
    throw bad("invalid_type", `${at}.content`, `${at}.content must be a text or an array of blocks`);
  const blocks = content.map((block, index) => objectAt(block, `${at}.content[${index}]`));
  return role === "assistant" ? [assistant(blocks, at, seals)] : said(role, blocks, at);
}

/**
 * A user's blocks: results of tools are messages of their own, before what else was said.
 *
 * @param {"user" | "system"} role
 * @param {Fields[]} blocks
 * @param {string} at
 * @returns {Placed[]}
 */
function said(role, blocks, at) {
  /** @type {Placed[]} */
  const messages = [];
  /** @type {number[]} */
  const parts = [];
  for (const [index, { type, tool_use_id: callId, content, is_error: failed }] of blocks.entries()) {
    const place = `${at}.content[${index}]`;
    if (type !== "tool_result") {
      parts.push(index);
      continue;
    }
    if (content !== undefined && content !== null && typeof content !== "string" && !Array.isArray(content)) {
      throw bad("invalid_type", `${place}.content`, `${place}.content must be a text or an array of blocks`);
    }
    messages.push({
      role: "tool",
      tool_call_id: textAt(callId, `${place}.tool_use_id`),
      content: Array.isArray(content)
        ? joined(content.map((block, n) => plainBlock(block, `${place}.content[${n}]`)))
        : (content ?? ""),
      ...(failed === true ? { status: "error" } : {}),
      at: place,
    });
  }
  if (parts.length > 0 || messages.length === 0) {
    const rest = parts.map((index) => plainBlock(blocks[index], `${at}.content[${index}]`));
    messages.push({ role, content: joined(rest), at, parts });
  }
  return messages;
}

/**
 * A block as it goes over: marks of a cache are the API's own.
 *
 * @param {unknown} block
 * @param {string} at
 */
function plainBlock(block, at) {
  const { cache_control: _, citations: __, ...rest } = objectAt(block, at);
  return { ...rest, type: textAt(rest.type, `${at}.type`) };
}

/**
 * @param {Fields[]} blocks
 * @param {string} at
 * @param {import("./faces.cjs").Around["seals"]} seals
 * @returns {Placed}
 */
function assistant(blocks, at, seals) {
  let text = "";
  /** @type {{ id: string, name: string, args: unknown }[]} */
  const calls = [];
  /** @type {unknown[]} */
  const sealed = [];
  for (const [index, block] of blocks.entries()) {
    const place = `${at}.content[${index}]`;
    switch (block.type) {
      case "text":
        text += typeof block.text === "string" ? block.text : "";
        break;
      case "tool_use":
        calls.push({
          id: textAt(block.id, `${place}.id`),
          name: textAt(block.name, `${place}.name`),
          args: block.input === undefined ? {} : objectAt(block.input, `${place}.input`),
        });
        break;
      case "thinking":
        sealed.push(block.signature);
        break;
      case "redacted_thinking":
        sealed.push(block.data);
        break;
      default:
        throw bad(
          "unsupported_content",
          place,
          `${place} is of a kind that no provider here can be told of an assistant`,
        );
    }
  }
  return {
    role: "assistant",
    content: text,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...seals.open(sealed),
    at,
  };
}

/**
 * @param {unknown} tool
 * @param {string} at
 * @param {import("./fields.cjs").Reader} reader
 */
function toolOf(tool, at, reader) {
  const whole = objectAt(tool, at);
  const { type, name, description, input_schema: schema } = whole;
  if (type !== undefined && type !== null && type !== "custom") {
    reader.unsupported(at, `${shownTool(at, whole)} is a tool of the API's own: a CLI can't have it`);
    return [];
  }
  return [plainTool(textAt(name, `${at}.name`), description, schema)];
}

/**
 * @param {Fields | undefined} choice
 * @param {readonly { name: string }[]} tools
 */
function choiceOf(choice, tools) {
  switch (choice?.type) {
    case undefined:
    case "auto":
      return undefined;
    case "none":
      return "none";
    case "any":
      return requireTools("any", tools);
    case "tool":
      return requireTools({ name: textAt(choice?.name, "tool_choice.name") }, tools);
    default:
      throw bad("unsupported_parameter", "tool_choice", "tool_choice.type must be auto, any, tool or none");
  }
}

/** @param {unknown} format */
function formatOf(format) {
  if (format === undefined || format === null) return undefined;
  const it = objectAt(format, "output_config.format");
  if (it.type === "json_schema") return schemaAt(it, "output_config.format.schema");
  throw bad("invalid_value", "output_config.format.type", "output_config.format.type must be json_schema");
}

const STOPS = new Set(["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn"]);

/** @param {End} end */
function stopOf({ reason, raw }) {
  if (reason === "tool-calls") return "tool_use";
  if (reason === "length") return "max_tokens";
  if (reason === "content-filter") return "refusal";
  return raw !== undefined && STOPS.has(raw) && raw !== "tool_use" ? raw : "end_turn";
}

/** The tiers of that API's answers. */
const TIERS = new Set(["standard", "priority", "batch"]);

/** @param {TokenUsage | undefined} usage @param {End["reply"]} [reply] */
function usageOf(usage, reply) {
  const [read, written] = [usage?.cacheReadTokens ?? 0, usage?.cacheWriteTokens ?? 0];
  return {
    input_tokens: Math.max(0, (usage?.inputTokens ?? 0) - read - written),
    output_tokens: usage?.outputTokens ?? 0,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    cache_creation: null,
    inference_geo: null,
    output_tokens_details: { thinking_tokens: usage?.reasoningTokens ?? 0 },
    server_tool_use: null,
    service_tier: reply?.serviceTier !== undefined && TIERS.has(reply.serviceTier) ? reply.serviceTier : "standard",
    ...(reply?.speed === undefined ? {} : { speed: reply.speed }),
  };
}

/**
 * @param {string} model
 * @param {object[]} content
 * @param {string | null} stop
 * @param {ReturnType<typeof usageOf>} usage
 */
const messageWith = (model, content, stop, usage) => ({
  id: id("msg_"),
  type: "message",
  role: "assistant",
  model,
  content,
  stop_reason: stop,
  stop_sequence: null,
  stop_details: null,
  container: null,
  usage,
});

/**
 * The arguments of a call, which are an object here and nothing else.
 *
 * @param {string} input
 */
function inputOf(input) {
  try {
    const value = JSON.parse(input);
    if (isObject(value)) return value;
  } catch {
    // As below.
  }
  throw new Refusal(502, "upstream_error", "the model's call of a tool has arguments that are no JSON object");
}

/** @type {Face["whole"]} */
function whole({ model, shows }, content, end, { seals }) {
  const blocks = content.flatMap((block) => /** @type {object[]} */ (blockOf(block)));
  return messageWith(model, blocks, stopOf(end), usageOf(end.usage, end.reply));

  /** @param {import("./faces.cjs").Content} block */
  function blockOf({ kind, id, name, text, sealed }) {
    if (kind === "text") return text === "" ? [] : [{ type: "text", text, citations: [] }];
    if (kind === "call") return [{ type: "tool_use", id, name, input: inputOf(text), caller: { type: "direct" } }];
    if (!shows) return [];
    const signature = seals.seal(sealed);
    if (text === "") return signature === undefined ? [] : [{ type: "redacted_thinking", data: signature }];
    return [{ type: "thinking", thinking: text, signature: signature ?? "" }];
  }
}

/** @type {Face["stream"]} */
function stream({ model, shows }, { seals }) {
  let index = -1;
  /** @type {Map<Block, number>} */
  const indexes = new Map();
  /** The call that is being told: one block ends before the next begins, so what comes of others waits. @type {Block | undefined} */
  let busy;
  /** @type {{ block: Block, write: () => string }[]} */
  let waiting = [];
  /** A block of reasoning of which nothing was shown yet. @type {Block | undefined} */
  let silent;

  /** @param {Block} block @param {object} content */
  const begin = (block, content) => {
    indexes.set(block, ++index);
    return event("content_block_start", { index, content_block: content });
  };
  /** @param {Block} block @param {object} delta */
  const add = (block, delta) => event("content_block_delta", { index: indexes.get(block), delta });
  /** @param {Block} block */
  const stop = (block) => event("content_block_stop", { index: indexes.get(block) });

  /** @param {Block} block @param {() => string} write @returns {string} */
  const inTurn = (block, write) => {
    if (busy === undefined || block === busy) return write();
    waiting.push({ block, write });
    return "";
  };

  /** @param {Block} block */
  function open(block) {
    const { kind, id, name } = block;
    if (kind === "text") return begin(block, { type: "text", text: "", citations: [] });
    if (kind === "reasoning") {
      silent = block;
      return "";
    }
    busy = block;
    return begin(block, { type: "tool_use", id, name, input: {}, caller: { type: "direct" } });
  }

  /** @param {Block} block @param {string} delta */
  function piece(block, delta) {
    if (block.kind === "text") return add(block, { type: "text_delta", text: delta });
    if (block.kind === "call") return add(block, { type: "input_json_delta", partial_json: delta });
    if (!shows) return "";
    const begun = silent === block ? begin(block, { type: "thinking", thinking: "", signature: "" }) : "";
    silent = undefined;
    return begun + add(block, { type: "thinking_delta", thinking: delta });
  }

  /** @param {Block} block @param {import("../blocks.cjs").Sealed | undefined} sealed */
  function close(block, sealed) {
    if (block.kind === "text") return stop(block);
    if (block.kind === "call") {
      let text = stop(block);
      busy = undefined;
      const next = waiting;
      waiting = [];
      for (const waited of next) text += inTurn(waited.block, waited.write);
      return text;
    }
    if (!shows) return "";
    const signature = seals.seal(sealed);
    if (silent !== block) return add(block, { type: "signature_delta", signature: signature ?? "" }) + stop(block);
    silent = undefined;
    return signature === undefined ? "" : begin(block, { type: "redacted_thinking", data: signature }) + stop(block);
  }

  return {
    begin: (usage) => event("message_start", { message: messageWith(model, [], null, usageOf(usage)) }),
    open: (block) => inTurn(block, () => open(block)),
    piece: (block, delta) => inTurn(block, () => piece(block, delta)),
    close: (block, sealed) => inTurn(block, () => close(block, sealed)),
    // No finish behind a call that no client can read.
    call: ({ input }) => void inputOf(input),
    finish(end) {
      const delta = { stop_reason: stopOf(end), stop_sequence: null, stop_details: null, container: null };
      return event("message_delta", { delta, usage: usageOf(end.usage, end.reply) }) + event("message_stop", {});
    },
    fail: (refusal, requestId) => `event: error\ndata: ${JSON.stringify(refusal.body("anthropic", requestId))}\n\n`,
    ping: () => event("ping", {}),
  };
}

/** What an image counts, by its size in bytes: as many tokens as one of that size usually is, and at most what the API scales it to. */
const IMAGE = { bytesPerToken: 500, least: 85, most: 1600 };

/**
 * An estimate: a quarter of the characters, and images by their size.
 *
 * @param {Pick<import("./faces.cjs").Read, "messages" | "tools">} asked
 */
function countTokens({ messages, tools }) {
  let [characters, images] = [0, 0];
  const text = (/** @type {unknown} */ value) => {
    characters += typeof value === "string" ? value.length : (JSON.stringify(value ?? "")?.length ?? 0);
  };
  for (const { content, tool_calls: calls } of messages) {
    for (const part of Array.isArray(content) ? content : [{ type: "text", text: content }]) {
      if (part.type === "text") text(part.text);
      else {
        const bytes = (JSON.stringify(part).length * 3) / 4;
        images += Math.min(IMAGE.most, Math.max(IMAGE.least, Math.ceil(bytes / IMAGE.bytesPerToken)));
      }
    }
    if (calls) text(calls);
  }
  if (tools.length > 0) text(tools);
  return { input_tokens: Math.max(1, Math.ceil(characters / 4) + images) };
}

/** @type {Face} */
const messages = { vendor: "anthropic", plan: "unified", read, whole, stream };

module.exports = { countTokens, messages };
