"use strict";

/**
 * Responses (`POST /v1/responses`). In: a request, and the parts of its answer. Out: what a provider is asked, and the answer as OpenAI's
 * API says it, whole or as a stream of events.
 *
 * @import { CliStreamPart, CliUsage } from "../ai-sdk/index.d.cts"
 * @import { Around, Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Placed } from "./thread.cjs"
 */

const { choiceOf, plainTool } = require("./chat.cjs");
const { SAME, createReader, objectAt, schemaAt, textAt } = require("./fields.cjs");
const { Refusal, bad } = require("./refusal.cjs");
const { data, id } = require("./sse.cjs");
const { argumentsOf, joined, placesOf } = require("./thread.cjs");

/** @type {import("./fields.cjs").Known} */
const KNOWN = {
  ...{
    model: true,
    input: true,
    instructions: true,
    stream: true,
    stream_options: true,
    tools: true,
    tool_choice: true,
  },
  ...{ parallel_tool_calls: true, text: true, max_output_tokens: true, temperature: true, reasoning: true },
  ...{ previous_response_id: true, store: true, metadata: true, include: true },
  // What changes nothing of the answer.
  ...{
    user: true,
    safety_identifier: true,
    prompt_cache_key: true,
    prompt_cache_retention: true,
    client_metadata: true,
  },
  ...{ truncation: true, service_tier: SAME.tier, top_p: SAME.one, top_logprobs: SAME.zero, background: SAME.no },
  ...{ presence_penalty: SAME.zero, frequency_penalty: SAME.zero },
  ...{ conversation: SAME.never, prompt: SAME.never, max_tool_calls: SAME.never },
};

/** What a client may ask to have included: of all but the first there is nothing. */
const SEALED = "reasoning.encrypted_content";

/** @type {Face["read"]} */
function read(body, around) {
  const reader = createReader(body, around.lenient);
  reader.check(KNOWN);
  const previous = previousOf(reader.text("previous_response_id"), around);
  const fresh = inputOf(reader.get("input"));
  const items = [...previous, ...fresh];
  const instructions = reader.text("instructions");
  /** @type {Placed[]} */
  const messages = [
    ...(instructions === undefined
      ? []
      : [/** @type {Placed} */ ({ role: "system", content: instructions, at: "instructions" })]),
    ...messagesOf(items, previous.length, around),
  ];
  /** @type {Map<string, { namespace: string, name: string }>} */
  const spaces = new Map();
  const given = reader.list("tools") ?? [];
  const tools = given.flatMap((tool, index) => toolsOf(tool, `tools[${index}]`, reader, spaces));
  const text = reader.object("text") ?? {};
  if (text.verbosity !== undefined && text.verbosity !== null && text.verbosity !== "medium") {
    reader.unsupported("text.verbosity", "text.verbosity can't be had here with this value: leave it out");
  }
  const outputSchema = formatOf(text.format);
  const reasoning = reader.object("reasoning") ?? {};
  const effort = reasoning.effort ?? undefined;
  if (effort !== undefined) textAt(effort, "reasoning.effort");
  const metadata = reader.object("metadata") ?? {};
  const toolChoice = reader.get("tool_choice");
  const include = reader.list("include") ?? [];
  return {
    model: /** @type {string} */ (reader.get("model")),
    stream: reader.flag("stream") ?? false,
    messages,
    tools,
    options: {
      outputSchema,
      toolChoice: choiceOf(toolChoice, tools),
      maxOutputTokens: reader.count("max_output_tokens"),
      temperature: reader.temperature(),
      reasoning: effort === undefined || effort === "none" ? undefined : { effort },
    },
    json: outputSchema !== undefined,
    oneCall: reader.flag("parallel_tool_calls") === false,
    shows: effort !== "none",
    ignored: reader.ignored,
    places: placesOf(messages, {
      maxOutputTokens: "max_output_tokens",
      temperature: "temperature",
      reasoning: "reasoning.effort",
      toolChoice: "tool_choice",
      outputSchema: "text.format",
      tools: "tools",
      model: "model",
    }),
    droppable: new Set(around.lenient ? ["maxOutputTokens", "temperature", "reasoning.effort", "reasoning"] : []),
    own: {
      items,
      spaces,
      sealed: include.includes(SEALED),
      store: reader.flag("store") ?? true,
      echo: {
        instructions: instructions ?? null,
        max_output_tokens: reader.get("max_output_tokens") ?? null,
        max_tool_calls: null,
        parallel_tool_calls: reader.flag("parallel_tool_calls") ?? true,
        previous_response_id: reader.get("previous_response_id") ?? null,
        prompt_cache_key: reader.get("prompt_cache_key") ?? null,
        reasoning: { effort: effort ?? null, summary: reasoning.summary ?? null },
        safety_identifier: reader.get("safety_identifier") ?? null,
        service_tier: "default",
        store: reader.flag("store") ?? true,
        background: false,
        temperature: reader.get("temperature") ?? 1,
        text: { format: formatEcho(text.format), verbosity: "medium" },
        tool_choice: toolChoice ?? "auto",
        tools: given.map(toolEcho),
        top_p: 1,
        top_logprobs: 0,
        presence_penalty: 0,
        frequency_penalty: 0,
        truncation: reader.get("truncation") ?? "disabled",
        metadata,
        user: reader.get("user") ?? null,
      },
    },
  };
}

/**
 * @param {string | undefined} previous
 * @param {Around} around
 */
function previousOf(previous, { stored }) {
  if (previous === undefined) return [];
  const found = stored(previous);
  if (found !== undefined) return found.items;
  const message =
    "there is no such response: it is kept for a while, for the key that asked, and not with `store: false`. Send the whole thread";
  throw bad("previous_response_not_found", "previous_response_id", message);
}

/** @param {unknown} input @returns {Fields[]} */
function inputOf(input) {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  if (input === undefined) throw bad("missing_required_parameter", "input", "input is missing");
  if (!Array.isArray(input)) throw bad("invalid_type", "input", "input must be a text or an array of items");
  return input.map((item, index) => objectAt(item, `input[${index}]`));
}

/**
 * @param {Fields[]} items
 * @param {number} before how many of them are of earlier requests
 * @param {Around} around
 * @returns {Placed[]}
 */
function messagesOf(items, before, { seals, item: known }) {
  /** @type {(Placed & { tool_calls?: any })[]} */
  const messages = [];
  /** Reasoning that belongs to what the assistant says next. @type {unknown[]} */
  let sealed = [];
  /** An assistant's message that further calls belong to. @type {Placed & { tool_calls?: any } | undefined} */
  let open;
  const say = (/** @type {Placed} */ message) => {
    const whole = message.role === "assistant" ? { ...message, ...seals.open(sealed) } : message;
    if (message.role === "assistant") sealed = [];
    messages.push(whole);
    open = message.role === "assistant" ? whole : undefined;
  };
  for (const [index, given] of items.entries()) {
    const at = index < before ? "previous_response_id" : `input[${index - before}]`;
    const item = given.type === "item_reference" ? referenced(given, at, known) : given;
    switch (item.type) {
      case undefined:
      case "message":
        say(messageOf(item, at));
        break;
      case "function_call": {
        const name = textAt(item.name, `${at}.name`);
        const space = typeof item.namespace === "string" && item.namespace !== "" ? `${item.namespace}__` : "";
        const call = {
          id: textAt(item.call_id, `${at}.call_id`),
          name: `${space}${name}`,
          args: argumentsOf(item.arguments),
        };
        if (open === undefined) say({ role: "assistant", content: "", at });
        const last = /** @type {Placed & { tool_calls?: any }} */ (messages.at(-1));
        Object.assign(last, { tool_calls: [...(last.tool_calls ?? []), call] });
        open = last;
        break;
      }
      case "function_call_output":
        say({
          role: "tool",
          tool_call_id: textAt(item.call_id, `${at}.call_id`),
          content: contentOf(item.output, `${at}.output`),
          at,
          field: "output",
        });
        break;
      case "reasoning":
        sealed.push(item.encrypted_content);
        break;
      default:
        throw bad("unsupported_content", at, `${at} is an item of a kind that no provider here can be told`);
    }
  }
  return messages;
}

/**
 * @param {Fields} reference
 * @param {string} at
 * @param {Around["item"]} known
 */
function referenced(reference, at, known) {
  const found = typeof reference.id === "string" ? known(reference.id) : undefined;
  if (found !== undefined) return found;
  const message = `${at} refers to an item that is not kept here: send the item itself, or use \`store: false\``;
  throw new Refusal(404, "item_not_found", message, { param: at });
}

/**
 * @param {Fields} item
 * @param {string} at
 * @returns {Placed}
 */
function messageOf({ role, content }, at) {
  switch (role) {
    case "developer":
    case "system":
      return { role: "system", content: contentOf(content, `${at}.content`), at };
    case "user":
    case "assistant":
      return { role, content: contentOf(content, `${at}.content`), at };
    default:
      throw bad("invalid_value", `${at}.role`, `${at}.role must be user, assistant, system or developer`);
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
    const place = `${at}[${index}]`;
    const it = objectAt(part, place);
    switch (it.type) {
      case "input_text":
      case "output_text":
      case "text":
        if (typeof it.text === "string") return { type: "text", text: it.text };
        throw bad("invalid_type", `${place}.text`, `${place}.text must be a text`);
      case "refusal":
        return { type: "text", text: textAt(it.refusal, `${place}.refusal`) };
      case "input_image": {
        if (typeof it.image_url === "string") return { type: "image_url", image_url: { url: it.image_url } };
        throw bad("unsupported_content", place, `${place} has no image_url: files of the API's own are not here`);
      }
      case "input_file": {
        if (typeof it.file_data === "string") {
          return {
            type: "file",
            file: { file_data: it.file_data, ...(typeof it.filename === "string" ? { filename: it.filename } : {}) },
          };
        }
        throw bad("unsupported_content", place, `${place} has no file_data: files of the API's own are not here`);
      }
      default:
        throw bad("unsupported_content", place, `${place} is of a kind that no provider here can be told`);
    }
  });
  return joined(parts);
}

/**
 * @param {unknown} tool
 * @param {string} at
 * @param {import("./fields.cjs").Reader} reader
 * @param {Map<string, { namespace: string, name: string }>} spaces
 * @returns {{ name: string }[]}
 */
function toolsOf(tool, at, reader, spaces) {
  const it = objectAt(tool, at);
  if (it.type === "function") return [plainTool(textAt(it.name, `${at}.name`), it.description, it.parameters)];
  if (it.type === "namespace" && Array.isArray(it.tools)) {
    const namespace = textAt(it.name, `${at}.name`);
    return it.tools.flatMap((inner, index) => {
      const place = `${at}.tools[${index}]`;
      return toolsOf(inner, place, reader, spaces).map((one) => {
        const name = `${namespace}__${one.name}`;
        spaces.set(name, { namespace, name: one.name });
        return { ...one, name };
      });
    });
  }
  reader.unsupported(at, `${at} is no function: a CLI has no tools of an API's own`);
  return [];
}

/** @param {unknown} format */
function formatOf(format) {
  if (format === undefined || format === null) return undefined;
  const it = objectAt(format, "text.format");
  if (it.type === "text") return undefined;
  if (it.type === "json_object") return { type: "object" };
  if (it.type === "json_schema") return schemaAt(it, "text.format.schema");
  throw bad("invalid_value", "text.format.type", "text.format.type must be text, json_object or json_schema");
}

/** @param {any} format */
function formatEcho(format) {
  if (format?.type !== "json_schema") return { type: format?.type ?? "text" };
  const { name = null, schema, description = null, strict = null } = format;
  return { type: "json_schema", name, description, schema, strict };
}

/** @param {any} tool */
function toolEcho(tool) {
  if (tool?.type !== "function") return tool;
  const { name, description = null, parameters = null, strict = null } = tool;
  return { type: "function", name, description, parameters, strict };
}

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

/** @type {Face} */
const responses = { vendor: "openai", read, whole, stream };

module.exports = { responses };
