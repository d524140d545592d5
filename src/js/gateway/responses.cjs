"use strict";

/**
 * Responses (`POST /v1/responses`). In: a request. Out: what a provider is asked; the answer is written by responses-answer.cjs.
 *
 * @import { Around, Face } from "./faces.cjs"
 * @import { Fields } from "./fields.cjs"
 * @import { Placed } from "./thread.cjs"
 */

const { choiceOf, plainTool } = require("./chat.cjs");
const {
  SAME,
  SAMPLING,
  createReader,
  objectAt,
  reasoningAt,
  schemaAt,
  shownTool,
  textAt,
  tierOf,
} = require("./fields.cjs");
const { DROPPABLE_OPTIONS, Refusal, bad } = require("./refusal.cjs");
const { stream, whole } = require("./responses-answer.cjs");
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
  ...{ ...SAMPLING, truncation: true, service_tier: true, background: SAME.no },
  ...{ conversation: SAME.never, prompt: SAME.never, max_tool_calls: SAME.never },
};

/** What a client may ask to have included: of all but the first there is nothing. */
const SEALED = "reasoning.encrypted_content";

/** @type {Face["read"]} */
function read(body, around) {
  const reader = createReader(body, around.lenient, around.isApi);
  reader.check(KNOWN);
  const previous = previousOf(reader.text("previous_response_id"), around);
  const fresh = inputOf(reader.get("input")).map((item, index) =>
    item.type === "item_reference" ? referenced(item, `input[${index}]`, around.item) : item,
  );
  const items = [...previous, ...fresh];
  if (items.length === 0) throw bad("invalid_value", "input", "input is empty: send at least one item");
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
  const tools = withMore(
    given.flatMap((tool, index) => toolsOf(tool, `tools[${index}]`, reader, spaces)),
    items.flatMap((item) => additionalOf(item, reader, spaces)),
  );
  const text = reader.object("text") ?? {};
  if (text.verbosity !== undefined && text.verbosity !== null && text.verbosity !== "medium") {
    reader.unsupported("text.verbosity", "text.verbosity can't be had here with this value: leave it out");
  }
  const outputSchema = formatOf(text.format);
  const reasoning = reader.object("reasoning") ?? {};
  const effort = reasoning.effort ?? undefined;
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
      serviceTier: tierOf(reader),
      reasoning: effort === undefined ? undefined : reasoningAt(textAt(effort, "reasoning.effort")),
    },
    json: outputSchema !== undefined,
    oneCall: reader.flag("parallel_tool_calls") === false,
    shows: effort !== "none",
    ignored: reader.ignored,
    extra: reader.extra,
    places: placesOf(messages, "input", {
      maxOutputTokens: "max_output_tokens",
      temperature: "temperature",
      serviceTier: "service_tier",
      reasoning: "reasoning.effort",
      toolChoice: "tool_choice",
      outputSchema: "text.format",
      tools: "tools",
      model: "model",
    }),
    droppable: new Set(around.lenient ? DROPPABLE_OPTIONS : []),
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
        top_p: reader.get("top_p") ?? 1,
        top_logprobs: 0,
        presence_penalty: reader.get("presence_penalty") ?? 0,
        frequency_penalty: reader.get("frequency_penalty") ?? 0,
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
 * @param {Fields[]} items none of them a reference
 * @param {number} before how many of them are of earlier requests
 * @param {Around} around
 * @returns {Placed[]}
 */
function messagesOf(items, before, { seals, lenient }) {
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
  for (const [index, item] of items.entries()) {
    const at = index < before ? "previous_response_id" : `input[${index - before}]`;
    switch (item.type) {
      case undefined:
      case "message":
        say(messageOf(item, at));
        break;
      case "function_call": {
        const name = textAt(item.name, `${at}.name`);
        const space = typeof item.namespace === "string" ? item.namespace : OWN_SPACE;
        const call = {
          id: textAt(item.call_id, `${at}.call_id`),
          name: within(space, name),
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
          content: lenient && item.output === null ? "" : contentOf(item.output, `${at}.output`),
          at,
          field: "output",
        });
        break;
      case "reasoning":
        sealed.push(item.encrypted_content);
        break;
      case "additional_tools":
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
 * @param {{ unsupported(name: string, message: string, tool: Fields): void }} reader
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
        const name = within(namespace, one.name);
        if (name !== one.name) spaces.set(name, { namespace, name: one.name });
        return { ...one, name };
      });
    });
  }
  reader.unsupported(at, `${shownTool(at, it)} is no function: a CLI has no tools of an API's own`, it);
  return [];
}

/**
 * The tools of an item `additional_tools`, as which codex sends those of a model of its catalogue. It has no way to send others: what is no
 * function is left out and named, whether the request is lenient or not.
 *
 * @param {Fields} item
 * @param {import("./fields.cjs").Reader} reader
 * @param {Map<string, { namespace: string, name: string }>} spaces
 */
function additionalOf(item, reader, spaces) {
  if (item.type !== "additional_tools" || !Array.isArray(item.tools)) return [];
  /** @param {string} _ @param {string} __ @param {Fields} tool */
  const unsupported = (_, __, tool) => {
    reader.ignored.push(`additional_tools.${typeof tool.name === "string" ? tool.name : tool.type}`);
  };
  return item.tools.flatMap((tool) => toolsOf(tool, "additional_tools", { ...reader, unsupported }, spaces));
}

/**
 * @param {readonly { name: string }[]} tools
 * @param {readonly { name: string }[]} more what is said later holds
 */
function withMore(tools, more) {
  if (more.length === 0) return [...tools];
  return [...new Map([...tools, ...more].map((tool) => [tool.name, tool])).values()];
}

/** The space of a vendor's own in which a tool has its plain name. */
const OWN_SPACE = "functions";

/** @param {string} space @param {string} name */
const within = (space, name) => (space === "" || space === OWN_SPACE ? name : `${space}__${name}`);

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

/** @type {Face} */
const responses = { vendor: "openai", plan: "codex", read, whole, stream };

module.exports = { responses };
