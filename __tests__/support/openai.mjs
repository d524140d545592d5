// @ts-check
/**
 * A scripted OpenAI-compatible API on 127.0.0.1: chat completions and the list of models.
 *
 * In flow requests and a script of answers; out flow the answers, as a stream where the request says `stream: true` and as JSON
 * elsewhere, and a record of everything that was asked. A request the script has no answer for is served HTTP 500 and noted in
 * `violations`. Needs nothing but Node.
 */
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

/** @typedef {{ id?: string, name: string, args: unknown }} Call arguments are sent as JSON, or as they are if they are text */
/**
 * One answer. Say what the model says (`text`, `chunks`, `reasoning`, `calls`, `refusal`), what goes out byte for byte (`raw`),
 * or what goes wrong (`error`, `hang`, `cutAfter`, `hangAfter`).
 * @typedef {object} Answer
 * @property {string} [text]
 * @property {string[]} [chunks] the text's deltas; without `text` they are the text
 * @property {string} [reasoning] sent as `reasoning_content`
 * @property {Call[]} [calls] their arguments are streamed in turns, a piece of each
 * @property {string} [refusal]
 * @property {string | null} [finishReason] default: `tool_calls` if there are calls, else `stop`; `null`: it is not said
 * @property {Record<string, unknown> | null} [usage] default: 4 bytes a token; `null`: it is not told
 * @property {string} [model] default: the request's
 * @property {boolean} [done] whether the stream ends with `[DONE]`; default `true`
 * @property {string | Uint8Array | (string | Uint8Array)[]} [raw] the body, piece by piece
 * @property {Record<string, string>} [headers]
 * @property {number} [status] of a `raw` body; default 200
 * @property {number} [delayMs] wait before the first byte
 * @property {boolean} [hang] never answer
 * @property {number} [hangAfter] fall silent after that many events (or pieces of `raw`), the connection open
 * @property {number} [cutAfter] destroy the connection after that many events (or pieces of `raw`)
 * @property {{ status: number, body?: unknown, headers?: Record<string, string> }} [error] a `body` that is text goes out as it is
 */
/**
 * A request as it arrived.
 * @typedef {object} RecordedRequest
 * @property {string} method
 * @property {string} path with the query
 * @property {import("node:http").IncomingHttpHeaders} headers
 * @property {any} body parsed JSON, the text if it is none, undefined if there is none
 * @property {string} raw the body's text
 * @property {number} port the client's: the same for requests over one connection
 * @property {Promise<"answered" | "aborted">} outcome whether the answer went out whole, or the connection ended first
 */
/** @typedef {(request: RecordedRequest, index: number) => Answer | undefined | Promise<Answer | undefined>} Model */
/** @typedef {(Answer | Model)[] | Model} Script answers in the order of arrival, or what thinks of them */
/**
 * @typedef {object} OpenAiServer
 * @property {string} url what `baseURL` is set to
 * @property {RecordedRequest[]} requests the calls of `POST …/chat/completions`, which the script answers
 * @property {RecordedRequest[]} log every request
 * @property {string[]} violations what the script was not prepared for
 * @property {(n: number) => Promise<RecordedRequest>} waitForRequest the n-th chat request (from 1), once it has arrived whole
 * @property {() => Promise<void>} close ends every connection and timer
 */

/**
 * Start the API on a free port of 127.0.0.1.
 * @param {Script} script
 * @param {{ models?: Answer }} [options] `models`: what `GET …/models` is answered with (`raw` or `error`); default: one model
 * @returns {Promise<OpenAiServer>}
 */
export async function startOpenAi(script, { models } = {}) {
  const closing = new AbortController();
  /** @type {RecordedRequest[]} */
  const requests = [];
  /** @type {RecordedRequest[]} */
  const log = [];
  /** @type {string[]} */
  const violations = [];
  /** @type {{ n: number, resolve: (request: RecordedRequest) => void, reject: (error: Error) => void }[]} */
  let waiting = [];

  /** @type {(request: RecordedRequest) => Promise<Answer>} */
  const answerFor = async (request) => {
    const index = requests.push(request) - 1;
    for (const waiter of waiting) if (waiter.n === index + 1) waiter.resolve(request);
    waiting = waiting.filter((waiter) => waiter.n > requests.length);
    /** @type {(reason: string) => Answer} */
    const violation = (reason) => {
      violations.push(`request ${index + 1}: ${reason}`);
      return { error: { status: 500, body: failure(`scripted API, request ${index + 1}: ${reason}`, "server_error") } };
    };
    if (request.body === null || typeof request.body !== "object") return violation("the body is no JSON object");
    try {
      const entry = Array.isArray(script) ? script[index] : script;
      const answer = await (typeof entry === "function" ? entry(request, index) : entry);
      return answer ?? violation("no answer left");
    } catch (error) {
      return violation(`the script threw ${error}`);
    }
  };

  const server = createServer(async (incoming, response) => {
    /** @type {Promise<"answered" | "aborted">} */
    const outcome = new Promise((resolve) => {
      response.once("close", () => resolve(response.writableFinished ? "answered" : "aborted"));
    });
    try {
      const raw = await readBody(incoming);
      const { method = "", url: path = "", headers, socket } = incoming;
      const request = { method, path, headers, body: parse(raw), raw, port: socket.remotePort ?? 0, outcome };
      log.push(request);
      const { pathname } = new URL(path, "http://127.0.0.1");
      if (method === "GET" && pathname.endsWith("/models")) {
        await send(response, request, models ?? MODELS, log.length, closing.signal);
      } else if (method === "POST" && pathname.endsWith("/chat/completions")) {
        const answer = await answerFor(request);
        await send(response, request, answer, requests.indexOf(request) + 1, closing.signal);
      } else {
        sendError(response, { status: 404, body: failure(`no such endpoint: ${path}`, "invalid_request_error") });
      }
    } catch (error) {
      // The client is gone or the server is closing; anything else is a fault of this file and must be seen.
      if (!closing.signal.aborted && !response.destroyed) violations.push(`the server failed: ${error}`);
      response.destroy();
    }
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve(undefined));
  });
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());

  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    log,
    violations,
    waitForRequest: (n) => {
      const arrived = requests[n - 1];
      if (arrived) return Promise.resolve(arrived);
      if (closing.signal.aborted) return Promise.reject(new Error(`the server closed before request ${n} arrived`));
      return new Promise((resolve, reject) => waiting.push({ n, resolve, reject }));
    },
    close: async () => {
      if (closing.signal.aborted) return;
      closing.abort();
      for (const { n, reject } of waiting) reject(new Error(`the server closed before request ${n} arrived`));
      waiting = [];
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}

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
 * @param {import("node:http").ServerResponse} response
 * @param {RecordedRequest} request
 * @param {Answer} answer
 * @param {number} number counts the ids up
 * @param {AbortSignal} closing
 */
async function send(response, request, answer, number, closing) {
  if (answer.delayMs) await delay(answer.delayMs, undefined, { signal: closing });
  if (answer.hang) return;
  if (answer.error) return sendError(response, answer.error);
  const headers = { "x-request-id": `req_${number}`, ...answer.headers };
  const streamed = request.body?.stream === true;
  if (answer.raw === undefined && !streamed) {
    return sendJson(response, 200, toCompletion(answer, request, number), headers);
  }
  response.writeHead(answer.status ?? 200, { "content-type": "text/event-stream", ...headers });
  response.flushHeaders();
  const pieces = answer.raw === undefined ? toEvents(answer, request, number) : [answer.raw].flat();
  for (const piece of pieces.slice(0, answer.cutAfter ?? answer.hangAfter)) {
    await new Promise((resolve, reject) =>
      response.write(piece, (error) => (error ? reject(error) : resolve(undefined))),
    );
  }
  if (answer.cutAfter !== undefined) response.destroy();
  else if (answer.hangAfter === undefined) response.end();
}

/**
 * @param {Answer} answer
 * @param {RecordedRequest} request
 * @param {number} number
 */
function facts(answer, request, number) {
  const text = answer.text ?? answer.chunks?.join("");
  const calls = (answer.calls ?? []).map(({ id, name, args }, index) => ({
    id: id ?? `call_${number}_${index}`,
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
  }));
  const finishReason =
    answer.finishReason === undefined ? (calls.length > 0 ? "tool_calls" : "stop") : answer.finishReason;
  const [input, output] = [request.raw, text ?? ""].map((it) => Math.ceil(it.length / 4));
  const counted = { prompt_tokens: input, completion_tokens: output, total_tokens: Number(input) + Number(output) };
  const usage = answer.usage === null ? null : { ...counted, ...answer.usage };
  const head = { id: `chatcmpl-${number}`, created: 1_790_000_000, model: answer.model ?? request.body.model };
  return { text, calls, finishReason, usage, head };
}

/**
 * The whole answer, as a request without `stream` gets it.
 * @param {Answer} answer
 * @param {RecordedRequest} request
 * @param {number} number
 */
function toCompletion(answer, request, number) {
  const { text, calls, finishReason, usage, head } = facts(answer, request, number);
  const message = {
    role: "assistant",
    content: text ?? null,
    refusal: answer.refusal ?? null,
    ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: finishReason }];
  return { ...head, object: "chat.completion", choices, ...(usage ? { usage } : {}) };
}

/**
 * The stream of an answer, event by event.
 * @param {Answer} answer
 * @param {RecordedRequest} request
 * @param {number} number
 * @returns {string[]}
 */
function toEvents(answer, request, number) {
  const { text, calls, finishReason, usage, head } = facts(answer, request, number);
  const wantsUsage = request.body.stream_options?.include_usage === true;
  /** @type {(choices: unknown[], more?: object) => string} */
  const event = (choices, more = wantsUsage ? { usage: null } : {}) =>
    `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more })}\n\n`;
  /** @type {(delta: object, finish_reason?: string | null) => string} */
  const chunk = (delta, finish_reason = null) => event([{ index: 0, delta, logprobs: null, finish_reason }]);
  const texts = answer.chunks ?? (text === undefined ? [] : split(text));
  const pieces = calls.map((call) => split(call.function.arguments));
  const rounds = Math.max(0, ...pieces.map((list) => list.length));
  const turns = Array.from({ length: rounds }, (_, round) =>
    pieces.flatMap((list, index) =>
      list[round] === undefined ? [] : [chunk({ tool_calls: [{ index, function: { arguments: list[round] } }] })],
    ),
  );
  return [
    chunk({ role: "assistant", content: "" }),
    ...split(answer.reasoning ?? "").map((piece) => chunk({ reasoning_content: piece })),
    ...texts.map((content) => chunk({ content })),
    ...split(answer.refusal ?? "").map((refusal) => chunk({ refusal })),
    ...calls.map((call, index) =>
      chunk({ tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: "" } }] }),
    ),
    ...turns.flat(),
    ...(finishReason === null ? [] : [chunk({}, finishReason)]),
    ...(wantsUsage && usage ? [event([], { usage })] : []),
    ...(answer.done === false ? [] : ["data: [DONE]\n\n"]),
  ];
}

/**
 * Pieces of some ten characters, 64 pieces at most, no character torn apart.
 * @param {string} text
 */
function split(text) {
  const characters = Array.from(text);
  const size = Math.max(10, Math.ceil(characters.length / 64));
  const pieces = [];
  for (let i = 0; i < characters.length; i += size) pieces.push(characters.slice(i, i + size).join(""));
  return pieces;
}

/**
 * @param {import("node:http").ServerResponse} response
 * @param {NonNullable<Answer["error"]>} error
 */
function sendError(response, { status, body, headers }) {
  if (typeof body === "string") response.writeHead(status, { "content-type": "text/html", ...headers }).end(body);
  else sendJson(response, status, body ?? failure(`scripted error ${status}`, "api_error"), headers);
}

/**
 * @param {import("node:http").ServerResponse} response
 * @param {number} status
 * @param {unknown} body
 * @param {Record<string, string>} [headers]
 */
function sendJson(response, status, body, headers) {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** @param {import("node:http").IncomingMessage} incoming */
async function readBody(incoming) {
  /** @type {Buffer[]} */
  const chunks = [];
  for await (const chunk of incoming) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/** @param {string} text */
function parse(text) {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
