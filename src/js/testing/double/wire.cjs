"use strict";

/**
 * In: the events of a script's reply. Out: the lines that claude prints for such an answer (2.1.332, recordings `success-*`, `defer-*` and
 * `partial-*`).
 *
 * @import { ScriptEvent } from "../types.cjs"
 *
 * @typedef {object} Turn
 * @property {string} sessionId
 * @property {string} version
 * @property {boolean} pieces whether pieces of messages are wanted
 * @property {readonly string[]} tools the names that the model has for tools; none in print form, where calls are written
 * @property {number} number of the turn
 */

const { builtin } = require("../../builtin.cjs");

const { randomUUID } = builtin("node:crypto");

const SERVER = "mcp__df__";
/** What the API says for an error's code: its status, claude's word for it, and the text. @type {Record<string, readonly [number, string, string]>} */
const FAILURES = {
  RATE_LIMITED: [429, "rate_limit", "API Error: 429 This request would exceed your rate limit"],
  OVERLOADED: [529, "overloaded", "API Error: 529 Overloaded"],
  SERVER_ERROR: [500, "server_error", "API Error: 500 Internal server error"],
  INVALID_REQUEST: [400, "invalid_request", "API Error: 400 The request is refused"],
  INVALID_API_KEY: [401, "authentication_failed", "Invalid API key · Fix external API key"],
  NOT_LOGGED_IN: [401, "authentication_failed", "Not logged in · Please run /login"],
  MODEL_NOT_FOUND: [
    404,
    "model_not_found",
    "There's an issue with the selected model. It may not exist or you may not have access to it.",
  ],
  USAGE_LIMIT: [429, "rate_limit", "You've hit your session limit · resets 3:45pm"],
};

/** claude's words for what a script says where it says nothing. @type {Record<string, string>} */
const REASONS = { stop: "end_turn", tool_calls: "tool_use" };

/** The codes of errors that the double can tell. */
const CODES = Object.keys(FAILURES);

/**
 * @param {Turn} turn
 * @param {(line: object) => void} print
 */
function createWriter(turn, print) {
  const { sessionId, version, pieces, tools, number } = turn;
  const id = `msg_double_${number}`;
  let model = "claude-double";
  let begun = false;
  let open = false;
  let block = -1;
  let thinking = "";
  let text = "";
  let partial = "";
  /** @type {{ id: string, name: string, args: unknown }[]} */
  const calls = [];
  let usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };

  const common = () => ({ session_id: sessionId, uuid: randomUUID() });
  /** @param {object} event */
  const stream = (event) => pieces && print({ type: "stream_event", event, parent_tool_use_id: null, ...common() });

  function begin() {
    if (begun) return;
    begun = true;
    const about = { cwd: process.cwd(), tools: tools.map((name) => SERVER + name), model, permissionMode: "default" };
    const servers = tools.length > 0 ? [{ name: "df", status: "connected", source: "sdk" }] : [];
    print({
      type: "system",
      subtype: "init",
      ...about,
      mcp_servers: servers,
      claude_code_version: version,
      ...common(),
    });
    const message = { id, type: "message", role: "assistant", model, content: [], stop_reason: null, usage };
    stream({ type: "message_start", message });
  }

  /** @param {object} content of a block that is whole */
  function assistant(content) {
    begin();
    const message = { id, type: "message", role: "assistant", model, content: [content], stop_reason: null, usage };
    print({ type: "assistant", message, parent_tool_use_id: null, ...common() });
  }

  /** @param {object} start @param {object} delta */
  function piece(start, delta) {
    begin();
    if (!open) {
      open = true;
      block += 1;
      stream({ type: "content_block_start", index: block, content_block: start });
    }
    stream({ type: "content_block_delta", index: block, delta });
  }

  function endBlock() {
    if (open) stream({ type: "content_block_stop", index: block });
    open = false;
  }

  function endThinking() {
    if (thinking === "") return;
    endBlock();
    assistant({ type: "thinking", thinking, signature: "" });
    thinking = "";
  }

  /** @param {object} fields */
  function result(fields) {
    const figures = { duration_ms: 1, duration_api_ms: 1, num_turns: 1, total_cost_usd: 0, usage, modelUsage: {} };
    print({
      type: "result",
      subtype: "success",
      is_error: false,
      ...figures,
      permission_denials: [],
      ...fields,
      ...common(),
    });
  }

  /** What the model writes for its calls where it has no tools of its own. */
  function written() {
    const block = JSON.stringify({ tool_calls: calls.map(({ name, args, id }) => ({ name, args, id })) }, null, 2);
    return `${text === "" ? "" : `${text}\n\n`}\`\`\`json\n${block}\n\`\`\``;
  }

  /** @param {string} reason why the model stopped */
  function finish(reason) {
    endThinking();
    const isNative = calls.length > 0 && calls.every(({ name }) => tools.includes(name));
    if (calls.length > 0 && !isNative) text = written();
    if (text !== "" || calls.length === 0) {
      if (partial !== text && pieces)
        piece({ type: "text", text: "" }, { type: "text_delta", text: text.slice(partial.length) });
      endBlock();
      assistant({ type: "text", text });
    }
    if (isNative)
      for (const { id, name, args } of calls) assistant({ type: "tool_use", id, name: SERVER + name, input: args });
    stream({
      type: "message_delta",
      delta: { stop_reason: isNative ? "tool_use" : (REASONS[reason] ?? reason) },
      usage,
    });
    stream({ type: "message_stop" });
    return isNative;
  }

  return {
    calls,
    /** @param {ScriptEvent} event no end */
    push(event) {
      switch (event.type) {
        case "session":
          model = event.model ?? model;
          return begin();
        case "thinking_delta":
          thinking += event.text;
          return piece({ type: "thinking", thinking: "" }, { type: "thinking_delta", thinking: event.text });
        case "text_delta":
          endThinking();
          partial += event.text;
          return piece({ type: "text", text: "" }, { type: "text_delta", text: event.text });
        case "message":
          text = event.content;
          return undefined;
        case "tool_call":
          return void calls.push(event.toolCall);
        case "usage": {
          const { inputTokens, outputTokens, cacheReadTokens = 0, cacheWriteTokens = 0 } = event.usage;
          usage = {
            input_tokens: Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens),
            ...{ output_tokens: outputTokens, cache_creation_input_tokens: cacheWriteTokens },
            cache_read_input_tokens: cacheReadTokens,
          };
          return undefined;
        }
        default:
          return undefined;
      }
    },
    finish,

    /** @param {string} reason */
    answered: (reason) =>
      result({
        result: text,
        stop_reason: calls.length > 0 ? "end_turn" : (REASONS[reason] ?? reason),
        terminal_reason: "completed",
      }),
    deferred: () => result({ result: "", stop_reason: "tool_deferred", terminal_reason: "tool_deferred" }),
    aborted: () => result({ subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_streaming" }),

    /** @param {string} code @param {string} [message] */
    failed(code, message) {
      begin();
      const [status, error, usual = ""] = FAILURES[code] ?? [500, "server_error"];
      // Claude's own words, unless the script has others.
      const own = message === undefined || message === `the script answers with ${code}` ? usual : message;
      const content = [{ type: "text", text: own }];
      const its = { id, type: "message", role: "assistant", model: "<synthetic>", content, usage };
      print({
        type: "assistant",
        message: its,
        parent_tool_use_id: null,
        error,
        api_error_status: status,
        ...common(),
      });
      result({
        is_error: true,
        result: own,
        api_error_status: status,
        stop_reason: "stop_sequence",
        terminal_reason: "api_error",
      });
    },
    text: () => text,
  };
}

module.exports = { CODES, createWriter };
