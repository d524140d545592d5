// @ts-check
/**
 * A scripted Anthropic Messages API on 127.0.0.1.
 *
 * In flow the requests of a real coding-agent CLI (or of anything else that speaks the API) and a script of answers; out flow
 * the answers, as Server-Sent Events where the request says `stream: true` and as JSON elsewhere, and a record of everything
 * that was asked. A request the script has no answer for is served HTTP 500 and noted in `violations`: a test that asks once
 * too often cannot pass unnoticed. Needs nothing but Node, so that the examples run on it, too.
 */
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

/**
 * A content block of an answer, in the API's own words: `text`, `thinking`, `tool_use`, or any other kind, sent as it is.
 * @typedef {{ type: string, [key: string]: unknown }} Block
 */
/**
 * An HTTP error in the API's envelope, or a foreign page if `html` is given. `type` defaults to the API's name for the status.
 * @typedef {object} ScriptedError
 * @property {number} status
 * @property {string} [type]
 * @property {string} [message]
 * @property {Record<string, string>} [headers]
 * @property {string} [html] the body, served as text/html; with status 200 a proxy's log-in page
 */
/**
 * One answer. Say what the model says (`text`, `chunks` or `content`), or what goes wrong (`error`, `hang`).
 * @typedef {object} Answer
 * @property {string} [text]
 * @property {string[]} [chunks] the text's deltas, one event each; without `text` they are the text
 * @property {Block[]} [content] whole blocks, instead of `text`
 * @property {string} [stopReason] default: `tool_use` if there is such a block, else `end_turn`
 * @property {Usage} [usage] default: 4 bytes of the request or of the answer a token
 * @property {Record<string, string>} [headers] further response headers, such as anthropic-ratelimit-unified-*
 * @property {number} [delayMs] wait before the first byte
 * @property {number} [cutAfter] destroy the connection after that many stream events
 * @property {number} [hangAfter] fall silent after that many stream events, the connection open
 * @property {boolean} [hang] never answer
 * @property {ScriptedError} [error]
 */
/** @typedef {{ input_tokens?: number, output_tokens?: number, cache_read_input_tokens?: number, cache_creation_input_tokens?: number }} Usage */
/**
 * A request as it arrived.
 * @typedef {object} RecordedRequest
 * @property {string} method
 * @property {string} path with the query
 * @property {import("node:http").IncomingHttpHeaders} headers
 * @property {any} body parsed JSON, the text if it is none, undefined if there is none
 * @property {number} bytes the body's length
 * @property {number} at milliseconds since the server started
 * @property {Promise<"answered" | "aborted">} outcome whether the answer went out whole, or the connection ended first
 */
/** @typedef {(request: RecordedRequest, index: number) => Answer | undefined | Promise<Answer | undefined>} Model */
/**
 * Answers in the order of arrival, or a function that thinks of them (`index` counts from 0; undefined: no answer left).
 * @typedef {(Answer | Model)[] | Model} Script
 */
/**
 * @typedef {object} AnthropicServer
 * @property {string} url what ANTHROPIC_BASE_URL is set to
 * @property {RecordedRequest[]} requests the calls of `POST /v1/messages`, the only ones the script answers
 * @property {RecordedRequest[]} log every request
 * @property {string[]} violations what the script was not prepared for; a clean run leaves it empty
 * @property {(n: number) => Promise<RecordedRequest>} waitForRequest the n-th model request (from 1), once it has arrived whole
 * @property {() => Promise<void>} close ends every connection and timer
 */

const ERROR_TYPES = new Map([
  [400, "invalid_request_error"],
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [529, "overloaded_error"],
]);

/**
 * Start the API on a free port of 127.0.0.1.
 * @param {Script} script
 * @returns {Promise<AnthropicServer>}
 */
export async function startAnthropic(script) {
  const startedAt = performance.now();
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
      // The header spares the caller the CLI's ten retries.
      const headers = { "x-should-retry": "false" };
      return { error: { status: 500, message: `scripted API, request ${index + 1}: ${reason}`, headers } };
    };
    if (request.body === null || typeof request.body !== "object") return violation("the body is no JSON object");
    try {
      const entry = Array.isArray(script) ? script[index] : script;
      const answer = await (typeof entry === "function" ? entry(request, index) : entry);
      const size = Array.isArray(script) ? `the script has ${script.length}` : "the script is a function";
      if (!answer) return violation(`no answer left (${size})`);
      const torn = answer.chunks && answer.text !== undefined && answer.chunks.join("") !== answer.text;
      return torn ? violation("the answer's chunks do not add up to its text") : answer;
    } catch (error) {
      return violation(`the script threw ${error}`);
    }
  };

  const server = createServer(async (incoming, response) => {
    const at = performance.now() - startedAt;
    /** @type {Promise<"answered" | "aborted">} */
    const outcome = new Promise((resolve) => {
      response.once("close", () => resolve(response.writableFinished ? "answered" : "aborted"));
    });
    try {
      const raw = await readBody(incoming);
      const { method = "", url: path = "", headers } = incoming;
      const request = { method, path, headers, body: parseBody(raw), bytes: raw.length, at, outcome };
      log.push(request);
      const { pathname } = new URL(path, "http://127.0.0.1");
      if (method !== "POST") sendJson(response, 200, {});
      else if (pathname === "/v1/messages/count_tokens") sendJson(response, 200, { input_tokens: tokens(raw.length) });
      else if (pathname !== "/v1/messages") sendError(response, { status: 404, message: `no such endpoint: ${path}` });
      else {
        const answer = await answerFor(request);
        const number = requests.indexOf(request) + 1;
        await sendAnswer(response, request, answer, number, closing.signal);
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
    url: `http://127.0.0.1:${port}`,
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
 * @param {import("node:http").ServerResponse} response
 * @param {RecordedRequest} request
 * @param {Answer} answer
 * @param {number} number counts the ids up
 * @param {AbortSignal} closing
 */
async function sendAnswer(response, request, answer, number, closing) {
  if (answer.delayMs) await delay(answer.delayMs, undefined, { signal: closing });
  if (answer.hang) return;
  if (answer.error) return sendError(response, answer.error);
  const message = toMessage(answer, request, number);
  const headers = { "request-id": `req_${number}`, ...answer.headers };
  if (request.body.stream !== true) return sendJson(response, 200, message, headers);
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache", ...headers });
  response.flushHeaders();
  const events = toEvents(message, answer.chunks);
  const last = answer.cutAfter ?? answer.hangAfter ?? events.length;
  for (const event of events.slice(0, last)) {
    const frame = `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
    await new Promise((resolve, reject) =>
      response.write(frame, (error) => (error ? reject(error) : resolve(undefined))),
    );
  }
  if (answer.cutAfter !== undefined) response.destroy();
  else if (answer.hangAfter === undefined) response.end();
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

/**
 * Pieces of some forty characters, 64 pieces at most, no character torn apart.
 * @param {string} text
 */
function split(text) {
  const characters = Array.from(text);
  const size = Math.max(40, Math.ceil(characters.length / 64));
  const pieces = [];
  for (let i = 0; i < characters.length; i += size) pieces.push(characters.slice(i, i + size).join(""));
  return pieces;
}

/** @param {number} bytes */
const tokens = (bytes) => Math.ceil(bytes / 4);

/**
 * @param {import("node:http").ServerResponse} response
 * @param {ScriptedError} error
 */
function sendError(response, { status, type, message = `scripted error ${status}`, headers, html }) {
  if (html !== undefined) {
    response.writeHead(status, { "content-type": "text/html", ...headers }).end(html);
    return;
  }
  const error = { type: type ?? ERROR_TYPES.get(status) ?? "api_error", message };
  sendJson(response, status, { type: "error", error, request_id: "req_error" }, headers);
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
  return Buffer.concat(chunks);
}

/** @param {Buffer} raw */
function parseBody(raw) {
  const text = raw.toString("utf8");
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
