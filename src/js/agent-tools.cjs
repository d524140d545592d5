"use strict";

/**
 * In: an agent's tools and the calls of its model. Out: what the calls came to, as they go to the model. Whatever a tool does is
 * an answer: what it throws is one that says so.
 *
 * @import { ToolCall } from "../../index.js"
 * @import { ToJsonSchema } from "./tools.cjs"
 *
 * @typedef {{ signal: AbortSignal, toolCallId: string, runId: string, idempotencyKey: string }} ToolContext
 * @typedef {(args: unknown, context: ToolContext) => unknown} Run
 * @typedef {typeof ON_RESUME[number]} OnResume
 */

const { builtin } = require("./builtin.cjs");
const { ProviderError, fault } = require("./errors.cjs");
const { asBytes, markBytes } = require("./messages.cjs");
const { describe } = require("./options.cjs");
const { argumentsParser, encodeTools } = require("./tools.cjs");

const ON_RESUME = /** @type {const} */ (["rerun", "ask", "fail"]);

/** What a model understands as content; an array of anything else is data. */
const BLOCKS = new Set([
  ...["text", "input_text", "image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file"],
  ...["document", "media", "resource", "resource_link", "image-data", "image-url", "file-data", "file-url"],
]);

/**
 * @param {unknown} tools
 * @param {string} path what they are called in errors: `tools`
 * @param {ToJsonSchema | null} toJsonSchema
 * @returns {{ json: string, names: string[], runs: Map<string, Run>, onResume: Record<string, OnResume> }}
 */
function readTools(tools, path, toJsonSchema) {
  if (tools === undefined) return { json: "[]", names: [], runs: new Map(), onResume: {} };
  const json = named(path, () => encodeTools(tools, toJsonSchema));
  /** @type {{ name: string }[]} */
  const specs = JSON.parse(json);
  const list = Array.from(/** @type {unknown[]} */ (tools));
  const runs = new Map(specs.map(({ name }, index) => [name, runOf(list[index], `${path}[${index}] ("${name}")`)]));
  const onResume = Object.fromEntries(
    specs.map(({ name }, index) => [name, onResumeOf(list[index], `${path}[${index}] ("${name}")`)]),
  );
  return { json, names: specs.map(({ name }) => name), runs, onResume };
}

/**
 * What becomes of a call of the tool that had begun and not ended when the run was interrupted.
 *
 * @param {unknown} tool
 * @param {string} at
 * @returns {OnResume}
 */
function onResumeOf(tool, at) {
  const { onResume, idempotent } = /** @type {{ onResume?: unknown, idempotent?: unknown }} */ (tool);
  if (idempotent !== undefined && typeof idempotent !== "boolean") {
    throw fault("INVALID_TOOL", `${at}: idempotent must be true or false, got ${describe(idempotent)}`);
  }
  if (onResume === undefined) return idempotent ? "rerun" : "fail";
  const known = ON_RESUME.find((word) => word === onResume);
  if (known !== undefined) return known;
  throw fault("INVALID_TOOL", `${at}: onResume must be "rerun", "ask" or "fail", got ${describe(onResume)}`);
}

/**
 * The errors of `encodeTools` speak of `tools`.
 *
 * @template T
 * @param {string} path
 * @param {() => T} read
 * @returns {T}
 */
function named(path, read) {
  try {
    return read();
  } catch (error) {
    if (path === "tools" || !ProviderError.isInstance(error)) throw error;
    const { message } = /** @type {Error} */ (error);
    throw fault("INVALID_TOOL", message.replace(/^tools/, path), /** @type {Error} */ (error).cause);
  }
}

/**
 * @param {unknown} tool
 * @param {string} at
 * @returns {Run}
 */
function runOf(tool, at) {
  const it = /** @type {{ execute?: unknown, invoke?: unknown }} */ (tool);
  // As methods: a LangChain tool needs its `this`.
  if (typeof it.execute === "function") {
    const parse = argumentsParser(/** @type {object} */ (tool));
    /** @type {Run} */
    const execute = (args, context) => /** @type {{ execute: Run }} */ (it).execute(args, context);
    if (parse === undefined) return execute;
    return async (args, context) => {
      const parsed = await parse(args);
      if ("issues" in parsed) throw new TypeError(`the arguments do not fit: ${parsed.issues}`);
      return await execute(parsed.value, context);
    };
  }
  if (typeof it.invoke === "function") {
    return (args, { signal }) =>
      /** @type {{ invoke(args: unknown, config: object): unknown }} */ (it).invoke(args, { signal });
  }
  const wanted = "a function `execute(args, { signal })`, or be a LangChain tool";
  throw fault("INVALID_TOOL", `${at} can't be run: it must have ${wanted}; \`execute\` is ${describe(it.execute)}`);
}

/**
 * @param {Run} run
 * @param {ToolCall} call
 * @param {ToolContext} context
 * @returns {Promise<string>} JSON of `{"content", "isError"}`
 */
async function runTool(run, call, context) {
  try {
    return encodeResult(await run(call.args, context));
  } catch (error) {
    return failure(error);
  }
}

/** @param {unknown} error */
function failure(error) {
  return JSON.stringify({ content: reasonOf(error), isError: true });
}

/**
 * @param {unknown} error
 * @returns {string} never empty, and never a throw, whatever was thrown
 */
function reasonOf(error) {
  try {
    if (isError(error)) return error.message || error.name;
    return typeof error === "string" && error !== "" ? error : `it threw ${describe(error)}`;
  } catch {
    // A getter or a proxy that throws.
    return "it threw something that can't be read";
  }
}

/**
 * @param {unknown} value
 * @returns {value is Error} of any realm
 */
function isError(value) {
  return value instanceof Error || builtin("node:util/types").isNativeError(value);
}

/**
 * What has no form of its own in JSON, as it is written all the same: a BigInt as the text of its digits, for a number would lose some to
 * whoever reads it, and an error, which would be `{}`, as its name and message.
 *
 * @param {unknown} value
 */
function plain(value) {
  if (typeof value === "bigint") return String(value);
  return isError(value) ? { name: value.name, message: value.message } : value;
}

/**
 * @this {any}
 * @param {string} key
 * @param {unknown} value
 */
function markResult(key, value) {
  const marked = markBytes.call(this, key, value);
  return marked === value ? plain(value) : marked;
}

/** @param {unknown} result */
function encodeResult(result) {
  // Returned, where others throw: LangChain's tools among them.
  if (isError(result)) return failure(result);
  if (isToolMessage(result)) {
    const { content, status } = result;
    return JSON.stringify({ content: asContent(content), isError: status === "error" }, markResult);
  }
  if (isMcpResult(result)) {
    return JSON.stringify({ content: result.content, isError: result.isError === true }, markResult);
  }
  return JSON.stringify({ content: asContent(result), isError: false }, markResult);
}

/** @param {unknown} result */
function asContent(result) {
  if (typeof result === "string") return result;
  if (typeof result === "bigint") return String(result);
  if (result === undefined) return "";
  if (isBlocks(result)) return result;
  const json = JSON.stringify(result, refuseBytes);
  if (json === undefined) throw new TypeError(`its result can't be written as JSON: it is ${describe(result)}`);
  return json;
}

/**
 * @this {any}
 * @param {string} key
 * @param {unknown} value
 */
function refuseBytes(key, value) {
  if (asBytes(this[key]) === undefined) return plain(value);
  const why = 'bytes belong into a block, such as { type: "image", data, mimeType }';
  throw new TypeError(`its result can't be written as JSON: it holds ${describe(this[key])}; ${why}`);
}

/**
 * @param {unknown} result
 * @returns {result is unknown[]}
 */
function isBlocks(result) {
  return Array.isArray(result) && result.length > 0 && result.every(isBlock);
}

/**
 * What an MCP client gives for a call.
 *
 * @param {unknown} result
 * @returns {result is { content: unknown[], isError?: unknown }}
 */
function isMcpResult(result) {
  if (typeof result !== "object" || result === null || !("content" in result)) return false;
  const { content, ...rest } = /** @type {Record<string, unknown>} */ (result);
  const known = ["isError", "structuredContent", "_meta"];
  return isBlocks(content) && Object.keys(rest).every((key) => known.includes(key));
}

/** @param {unknown} item */
function isBlock(item) {
  return typeof item === "object" && item !== null && "type" in item && BLOCKS.has(String(item.type));
}

/**
 * @param {unknown} result
 * @returns {result is { content: unknown, status?: unknown }}
 */
function isToolMessage(result) {
  if (typeof result !== "object" || result === null || !("content" in result)) return false;
  const { type, tool_call_id: id } = /** @type {{ type?: unknown, tool_call_id?: unknown }} */ (result);
  return type === "tool" || typeof id === "string";
}

module.exports = { readTools, reasonOf, runTool };
