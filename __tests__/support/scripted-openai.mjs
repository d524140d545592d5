// @ts-check
/**
 * A scripted OpenAI API on 127.0.0.1 (`scripted.mjs`): Responses, as codex speaks it, and Chat Completions, as qwen and
 * opencode do.
 *
 * In flow requests and a script of answers; out flow the answers, as Server-Sent Events where the request says `stream: true`
 * and as JSON elsewhere. Clients are given `${url}/v1`.
 */
import { split, startScripted, tokens } from "./scripted.mjs";

/** @typedef {import("./scripted.mjs").RecordedRequest} RecordedRequest */
/**
 * Tokens: `input` includes what was `cached`, `output` what was `reasoning`, as the API counts them.
 * @typedef {{ input?: number, output?: number, cached?: number, reasoning?: number }} Usage
 */
/**
 * `stopReason` (Chat Completions only) is `stop` by default.
 * @typedef {object} Words
 * @property {Usage} [usage] default: 4 bytes of the request or of the answer a token, nothing cached or reasoned
 * @property {{ code: string, message: string }} [failed] the stream says that the answer failed (Responses only)
 */
/** @typedef {import("./scripted.mjs").ScriptedAnswer & Words} Answer */
/** @typedef {import("./scripted.mjs").ScriptOf<Answer>} Script */
/** @typedef {import("./scripted.mjs").ScriptedServer} OpenAiServer */
/** @typedef {import("./scripted.mjs").Frame} Frame */

const ERROR_TYPES = new Map([
  [400, "invalid_request_error"],
  [401, "invalid_request_error"],
  [403, "permission_error"],
  [404, "invalid_request_error"],
  [413, "invalid_request_error"],
  [429, "rate_limit_exceeded"],
]);
/** What an error is called beside its type. */
const ERROR_CODES = new Map([
  [401, "invalid_api_key"],
  [404, "model_not_found"],
  [413, "context_length_exceeded"],
  [429, "rate_limit_exceeded"],
]);

/** @type {import("./scripted.mjs").Dialect<Answer>} */
const OPENAI = {
  isModel: (path) => path === "/v1/responses" || path === "/v1/chat/completions",
  envelope: ({ status, type = ERROR_TYPES.get(status) ?? "server_error", message }) => ({
    error: { message, type, param: null, code: ERROR_CODES.get(status) ?? null },
  }),
  reply(answer, request, number) {
    const chunks = answer.chunks ?? split(answer.text ?? "");
    const text = chunks.join("");
    const usage = {
      input: tokens(request.bytes),
      output: tokens(text.length),
      cached: 0,
      reasoning: 0,
      ...answer.usage,
    };
    const speak = request.path.includes("/responses") ? speakResponses : speakChat;
    const { body, frames } = speak({ answer, model: String(request.body.model), number, chunks, text, usage });
    const headers = { "x-request-id": `req_${number}` };
    return request.body.stream === true ? { headers, frames } : { headers, body };
  },
};

/**
 * Start the API on a free port of 127.0.0.1.
 * @param {Script} script
 * @returns {Promise<OpenAiServer>}
 */
export function startOpenAi(script) {
  return startScripted(OPENAI, script);
}

/** @typedef {{ answer: Answer, model: string, number: number, chunks: string[], text: string, usage: Required<Usage> }} Said */

/**
 * @param {Said} said
 * @returns {{ body: unknown, frames: Frame[] }}
 */
function speakResponses({ answer, model, number, chunks, text, usage }) {
  const id = `resp_${number}`;
  const content = [{ type: "output_text", text, annotations: [] }];
  const item = { type: "message", role: "assistant", id: `msg_${number}`, status: "completed", content };
  const begun = { id, object: "response", model, status: "in_progress", output: [] };
  const whole = {
    ...begun,
    status: "completed",
    output: [item],
    usage: {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cached },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning },
      total_tokens: usage.input + usage.output,
    },
  };
  const place = { item_id: item.id, output_index: 0, content_index: 0 };
  const events = answer.failed
    ? [{ type: "response.failed", response: { ...begun, status: "failed", error: answer.failed } }]
    : [
        { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } },
        ...chunks.map((delta) => ({ type: "response.output_text.delta", ...place, delta })),
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: whole },
      ];
  const all = [{ type: "response.created", response: begun }, ...events];
  return { body: whole, frames: all.map((data) => ({ event: data.type, data })) };
}

/**
 * @param {Said} said
 * @returns {{ body: unknown, frames: Frame[] }}
 */
function speakChat({ answer, model, number, chunks, text, usage }) {
  const head = { id: `chatcmpl-${number}`, created: 0, model };
  const finish_reason = answer.stopReason ?? "stop";
  const counted = {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cached },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  };
  /** @type {(delta: object, finish_reason: string | null) => Frame} */
  const chunk = (delta, finish_reason) => ({
    data: { ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] },
  });
  const message = { role: "assistant", content: text };
  return {
    body: { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage: counted },
    frames: [
      chunk({ role: "assistant", content: "" }, null),
      ...chunks.map((content) => chunk({ content }, null)),
      chunk({}, finish_reason),
      { data: { ...head, object: "chat.completion.chunk", choices: [], usage: counted } },
      { data: "[DONE]" },
    ],
  };
}
