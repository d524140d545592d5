// @ts-check
/**
 * A scripted OpenAI API on 127.0.0.1 (`scripted.mjs`) in both of its dialects: Chat Completions, as OpenAI-compatible servers,
 * qwen and opencode have it, and Responses, as codex has it.
 *
 * In flow requests and a script of answers; out flow the answers, as Server-Sent Events where the request says `stream: true`
 * and as JSON elsewhere.
 */
import { split, startScripted, tokens } from "./scripted.mjs";

/** @typedef {import("./scripted.mjs").RecordedRequest} RecordedRequest */
/** @typedef {import("./scripted.mjs").Frame} Frame */
/**
 * Tokens: `input` includes what was `cached`, `output` what was `reasoning`, as the API counts them.
 * @typedef {{ input?: number, output?: number, cached?: number, reasoning?: number }} Usage
 */
/**
 * Arguments are sent as JSON, or as they are if they are text. `namespace` is codex's, which declares the tools of a server
 * together; `beside` is what stands beside a call's `function` (Chat Completions only).
 * @typedef {{ id?: string, name: string, namespace?: string, args: unknown, beside?: object }} Call
 */
/**
 * `stopReason` (Chat Completions only) is `tool_calls` by default if there are calls, else `stop`; `null` leaves it out.
 * @typedef {object} Fields
 * @property {Call[]} [calls] in a stream of Chat Completions, their arguments come in turns, a piece of each
 * @property {boolean} [wholeCalls] in such a stream, each call comes in one piece
 * @property {string} [reasoning] sent as `reasoning_content` (Chat Completions only)
 * @property {string} [refusal] Chat Completions only
 * @property {string | null} [stopReason]
 * @property {Usage | null} [usage] default: 4 bytes of the request or of the answer a token; `null` leaves it out
 * @property {string} [serviceTier] the tier that the answer names (Chat Completions only)
 * @property {boolean} [done] whether a stream of Chat Completions ends with `[DONE]`; default `true`
 * @property {{ code: string, message: string }} [failed] the stream says that the answer failed (Responses only)
 * @property {Item[]} [output] the items of the answer, instead of `text` and `calls` (Responses only)
 * @property {string} [incomplete] the stream says that the answer is not whole, for this reason (Responses only)
 */
/**
 * An item of an answer.
 * @typedef {{ text: string, chunks?: string[] } | { reasoning: string, encrypted?: string } | { refusal: string } |
 *   { call: string, id?: string, namespace?: string, args: unknown } | { search: string, id?: string }} Item
 */
/** @typedef {Omit<import("./scripted.mjs").ScriptedAnswer, "stopReason"> & Fields} Answer */
/** @typedef {import("./scripted.mjs").ScriptOf<Answer>} Script */
/** @typedef {import("./scripted.mjs").ScriptedServer} OpenAiServer `url` is what `baseURL` is set to */

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

/**
 * An error's body.
 * @param {string} message
 * @param {string} type
 * @param {string | null} [code]
 */
export const failure = (message, type, code = null) => ({ error: { message, type, param: null, code } });

/** @type {Answer} */
const MODELS = {
  raw: JSON.stringify({ object: "list", data: [{ id: "scripted", object: "model" }] }),
  headers: { "content-type": "application/json" },
};

/**
 * Start the API on a free port of 127.0.0.1.
 * @param {Script} script
 * @param {{ models?: Answer }} [options] `models`: what `GET …/models` is answered with (`raw` or `error`); default: one model
 * @returns {Promise<OpenAiServer>}
 */
export async function startOpenAi(script, { models = MODELS } = {}) {
  const server = await startScripted(
    {
      isModel: (path) => /\/(responses|chat\/completions)$/.test(path),
      get: (path) => (path.endsWith("/models") ? models : undefined),
      envelope: ({ status, type = ERROR_TYPES.get(status) ?? "server_error", message }) =>
        failure(message, type, ERROR_CODES.get(status)),
      reply: (answer, request, number) => {
        const { body, frames } = (request.path.includes("/responses") ? toResponse : toCompletion)(
          answer,
          request,
          number,
        );
        const headers = { "x-request-id": `req_${number}` };
        return request.body.stream === true ? { headers, frames } : { headers, body };
      },
    },
    script,
  );
  return { ...server, url: `${server.url}/v1` };
}

/**
 * What both dialects tell of an answer.
 * @param {Answer} answer
 * @param {RecordedRequest} request
 * @param {number} number
 */
function facts(answer, request, number) {
  const text = answer.text ?? answer.chunks?.join("");
  const chunks = answer.chunks ?? split(text ?? "", 10);
  const calls = (answer.calls ?? []).map(({ id, name, namespace, args, beside }, index) => ({
    id: id ?? `call_${number}_${index}`,
    named: { name, ...(namespace !== undefined && { namespace }) },
    json: typeof args === "string" ? args : JSON.stringify(args),
    beside,
  }));
  const counted = { input: tokens(request.bytes), output: tokens((text ?? "").length), ...answer.usage };
  return { text, chunks, calls, usage: answer.usage === null ? null : counted };
}

/** @type {(answer: Answer, request: RecordedRequest, number: number) => { body: unknown, frames: Frame[] }} */
function toResponse(answer, request, number) {
  const { text, chunks, usage } = facts(answer, request, number);
  const calls = answer.calls ?? [];
  const message = text === undefined && calls.length > 0 ? [] : [{ text: text ?? "", chunks }];
  const items = answer.output ?? [...message, ...calls.map(({ name, ...call }) => ({ call: name, ...call }))];
  const made = items.map((item, index) => toItem(item, number, index));
  const begun = {
    id: `resp_${number}`,
    object: "response",
    model: request.body.model,
    status: "in_progress",
    output: [],
  };
  const whole = {
    ...begun,
    status: "completed",
    output: made.map(({ item }) => item),
    usage: usage && {
      input_tokens: usage.input,
      input_tokens_details: { cached_tokens: usage.cached ?? 0 },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
      total_tokens: usage.input + usage.output,
    },
  };
  const incomplete = { ...whole, status: "incomplete", incomplete_details: { reason: answer.incomplete } };
  const events = answer.failed
    ? [{ type: "response.failed", response: { ...begun, status: "failed", error: answer.failed } }]
    : [
        ...made.flatMap(({ events }) => events),
        answer.incomplete
          ? { type: "response.incomplete", response: incomplete }
          : { type: "response.completed", response: whole },
      ];
  const all = [{ type: "response.created", response: begun }, ...events];
  return { body: whole, frames: all.map((data) => ({ event: data.type, data })) };
}

/**
 * An item of the Responses dialect, and the events that bring it.
 * @param {Item} item
 * @param {number} number of the answer
 * @param {number} index in it
 * @returns {{ item: object, events: { type: string, [field: string]: unknown }[] }}
 */
function toItem(item, number, index) {
  const suffix = index === 0 ? `${number}` : `${number}_${index}`;
  /** @type {(whole: { id: string, [field: string]: unknown }, begun: object, deltas: object[]) => { item: object, events: any[] }} */
  const made = (whole, begun, deltas) => ({
    item: whole,
    events: [
      { type: "response.output_item.added", output_index: index, item: { ...whole, status: "in_progress", ...begun } },
      ...deltas.map((delta) => ({ item_id: whole.id, output_index: index, ...delta })),
      { type: "response.output_item.done", output_index: index, item: whole },
    ],
  });
  if ("call" in item) {
    const { id = `call_${suffix}`, call: name, namespace, args } = item;
    const named = { name, ...(namespace !== undefined && { namespace }) };
    const json = typeof args === "string" ? args : JSON.stringify(args);
    const whole = {
      type: "function_call",
      id: `fc_${id}`,
      call_id: id,
      ...named,
      arguments: json,
      status: "completed",
    };
    return made(whole, { arguments: "" }, []);
  }
  if ("search" in item) {
    const { id = `ws_${suffix}`, search: query } = item;
    const action = { type: "search", query, queries: [query] };
    return made({ type: "web_search_call", id, status: "completed", action }, { action: undefined }, []);
  }
  if ("reasoning" in item) {
    // Sealed reasoning may have no summary.
    const summary = item.reasoning === "" ? [] : [{ type: "summary_text", text: item.reasoning }];
    const whole = { type: "reasoning", id: `rs_${suffix}`, summary, encrypted_content: item.encrypted ?? "SEALED" };
    const deltas = summary.flatMap(({ text }) => [
      { type: "response.reasoning_summary_part.added", summary_index: 0, part: { type: "summary_text", text: "" } },
      { type: "response.reasoning_summary_text.delta", summary_index: 0, delta: text },
    ]);
    return made(whole, { summary: [] }, deltas);
  }
  const content =
    "refusal" in item
      ? [{ type: "refusal", refusal: item.refusal }]
      : [{ type: "output_text", text: item.text, annotations: [] }];
  const message = { type: "message", role: "assistant", id: `msg_${suffix}`, status: "completed", content };
  const deltas = "refusal" in item ? [] : (item.chunks ?? [item.text]);
  return made(
    message,
    { content: [] },
    deltas.map((delta) => ({ type: "response.output_text.delta", content_index: 0, delta })),
  );
}

/** @type {(answer: Answer, request: RecordedRequest, number: number) => { body: unknown, frames: Frame[] }} */
function toCompletion(answer, request, number) {
  const { text, chunks, calls, usage } = facts(answer, request, number);
  const head = {
    id: `chatcmpl-${number}`,
    created: 1_790_000_000,
    model: request.body.model,
    ...(answer.serviceTier !== undefined && { service_tier: answer.serviceTier }),
  };
  const finish_reason =
    answer.stopReason === undefined ? (calls.length > 0 ? "tool_calls" : "stop") : answer.stopReason;
  const counted = usage && {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    total_tokens: usage.input + usage.output,
    ...(usage.cached !== undefined && { prompt_tokens_details: { cached_tokens: usage.cached } }),
    ...(usage.reasoning !== undefined && { completion_tokens_details: { reasoning_tokens: usage.reasoning } }),
  };
  const tool_calls = calls.map(({ id, named, json, beside }) => ({
    id,
    type: "function",
    function: { name: named.name, arguments: json },
    ...beside,
  }));
  const message = {
    role: "assistant",
    content: text ?? null,
    refusal: answer.refusal ?? null,
    ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
    ...(calls.length > 0 ? { tool_calls } : {}),
  };
  const choices = [{ index: 0, message, logprobs: null, finish_reason }];
  const wantsUsage = request.body.stream_options?.include_usage === true;
  /** @type {(choices: unknown[], more?: object) => Frame} */
  const event = (choices, more = wantsUsage ? { usage: null } : {}) => ({
    data: { ...head, object: "chat.completion.chunk", choices, ...more },
  });
  /** @type {(delta: object, finish_reason?: string | null) => Frame} */
  const chunk = (delta, finish_reason = null) => event([{ index: 0, delta, logprobs: null, finish_reason }]);
  const pieces = calls.map(({ json }) => split(json, 10));
  const rounds = Array.from({ length: Math.max(0, ...pieces.map((list) => list.length)) }, (_, round) =>
    pieces.flatMap((list, index) =>
      list[round] === undefined ? [] : [chunk({ tool_calls: [{ index, function: { arguments: list[round] } }] })],
    ),
  );
  const inPieces = [
    ...tool_calls.map((call, index) =>
      chunk({ tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: "" } }] }),
    ),
    ...rounds.flat(),
  ];
  const frames = [
    chunk({ role: "assistant", content: "" }),
    ...split(answer.reasoning ?? "", 10).map((piece) => chunk({ reasoning_content: piece })),
    ...chunks.map((content) => chunk({ content })),
    ...split(answer.refusal ?? "", 10).map((refusal) => chunk({ refusal })),
    ...(answer.wholeCalls ? tool_calls.map((call, index) => chunk({ tool_calls: [{ index, ...call }] })) : inPieces),
    ...(finish_reason === null ? [] : [chunk({}, finish_reason)]),
    ...(wantsUsage && counted ? [event([], { usage: counted })] : []),
    ...(answer.done === false ? [] : [{ data: "[DONE]" }]),
  ];
  return { body: { ...head, object: "chat.completion", choices, ...(counted ? { usage: counted } : {}) }, frames };
}
