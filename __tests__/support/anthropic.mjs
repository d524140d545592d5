// @ts-check
/**
 * A scripted Anthropic Messages API on 127.0.0.1 (`scripted.mjs`).
 *
 * In flow requests and a script of answers; out flow the answers, as Server-Sent Events where the request says `stream: true`
 * and as JSON elsewhere.
 */
import { split, startScripted, tokens } from "./scripted.mjs";

/** @typedef {import("./scripted.mjs").RecordedRequest} RecordedRequest */
/** @typedef {import("./scripted.mjs").ScriptedError} ScriptedError */
/**
 * A content block of an answer, in the API's own words: `text`, `thinking`, `tool_use`, or any other kind, sent as it is.
 * @typedef {{ type: string, [key: string]: unknown }} Block
 */
/** @typedef {{ input_tokens?: number, output_tokens?: number, cache_read_input_tokens?: number, cache_creation_input_tokens?: number,
 *   speed?: string, service_tier?: string }} Usage */
/**
 * `stopReason` is `tool_use` by default if there is such a block, else `end_turn`.
 * @typedef {object} Words
 * @property {Block[]} [content] whole blocks, instead of `text`
 * @property {Usage} [usage] default: 4 bytes of the request or of the answer a token
 */
/** @typedef {import("./scripted.mjs").ScriptedAnswer & Words} Answer */
/** @typedef {import("./scripted.mjs").ScriptedModel<Answer>} Model */
/** @typedef {import("./scripted.mjs").ScriptOf<Answer>} Script */
/** @typedef {import("./scripted.mjs").ScriptedServer} AnthropicServer `url` is what ANTHROPIC_BASE_URL is set to */

const ERROR_TYPES = new Map([
  [400, "invalid_request_error"],
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [529, "overloaded_error"],
]);

/** @type {import("./scripted.mjs").Dialect<Answer>} */
const ANTHROPIC = {
  isModel: (path) => path === "/v1/messages",
  other: ({ bytes }, path) => (path === "/v1/messages/count_tokens" ? { input_tokens: tokens(bytes) } : undefined),
  envelope: ({ status, type, message }) => ({
    type: "error",
    error: { type: type ?? ERROR_TYPES.get(status) ?? "api_error", message },
    request_id: "req_error",
  }),
  reply(answer, request, number) {
    const message = toMessage(answer, request, number);
    const headers = { "request-id": `req_${number}` };
    if (request.body.stream !== true) return { headers, body: message };
    return { headers, frames: toEvents(message, answer.chunks).map((data) => ({ event: data.type, data })) };
  },
  // Spares the caller the CLI's ten retries.
  violationHeaders: { "x-should-retry": "false" },
};

/**
 * Start the API on a free port of 127.0.0.1.
 * @param {Script} script
 * @returns {Promise<AnthropicServer>}
 */
export function startAnthropic(script) {
  return startScripted(ANTHROPIC, script);
}

/**
 * The whole message, as a request without `stream` gets it.
 * @param {Answer} answer
 * @param {RecordedRequest} request
 * @param {number} number
 */
function toMessage(answer, request, number) {
  const text = answer.text ?? answer.chunks?.join("");
  const content = answer.content ?? (text === undefined ? [] : [{ type: "text", text }]);
  const usesTool = content.some((block) => block.type === "tool_use");
  return {
    id: `msg_${number}`,
    type: "message",
    role: "assistant",
    model: String(request.body.model),
    content,
    stop_reason: answer.stopReason ?? (usesTool ? "tool_use" : "end_turn"),
    stop_sequence: null,
    usage: {
      input_tokens: tokens(request.bytes),
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: tokens(JSON.stringify(content).length),
      service_tier: "standard",
      ...answer.usage,
    },
  };
}

/**
 * The stream that carries a message. As in the API, `message_start` has a provisional count of output tokens, and the final one
 * comes with the stop reason.
 * @param {ReturnType<typeof toMessage>} message
 * @param {string[]} [chunks] deltas of the only text block
 * @returns {{ type: string, [key: string]: unknown }[]}
 */
function toEvents(message, chunks) {
  const { content, stop_reason, stop_sequence, usage } = message;
  const start = { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  const blocks = content.flatMap((block, index) => {
    const { empty, deltas } = takeApart(block, chunks);
    return [
      { type: "content_block_start", index, content_block: empty },
      ...(index === 0 ? [{ type: "ping" }] : []),
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ];
  });
  return [
    { type: "message_start", message: start },
    ...blocks,
    { type: "message_delta", delta: { stop_reason, stop_sequence }, usage },
    { type: "message_stop" },
  ];
}

/**
 * A block as the stream tells it: first empty, then in deltas.
 * @param {Block} block
 * @param {string[]} [chunks]
 * @returns {{ empty: Block, deltas: { type: string, [key: string]: unknown }[] }}
 */
function takeApart(block, chunks) {
  switch (block.type) {
    case "text": {
      const deltas = (chunks ?? split(String(block.text))).map((text) => ({ type: "text_delta", text }));
      return { empty: { ...block, text: "" }, deltas };
    }
    case "thinking": {
      const deltas = split(String(block.thinking)).map((thinking) => ({ type: "thinking_delta", thinking }));
      const signature = String(block.signature ?? "c2NyaXB0ZWQ=");
      return {
        empty: { ...block, thinking: "", signature: "" },
        deltas: [...deltas, { type: "signature_delta", signature }],
      };
    }
    case "tool_use":
    case "server_tool_use": {
      const parts = split(JSON.stringify(block.input ?? {}));
      const deltas = ["", ...parts].map((partial_json) => ({ type: "input_json_delta", partial_json }));
      return { empty: { ...block, input: {} }, deltas };
    }
    default:
      return { empty: block, deltas: [] };
  }
}
