// @ts-check
/**
 * The common part of scripted APIs on 127.0.0.1: `anthropic.mjs`, `openai.mjs`, `scripted-gemini.mjs` are dialects.
 *
 * In flow the requests of a real coding-agent CLI (or of anything else that speaks the API) and a script of answers; out flow
 * the answers in the words of the dialect, and a record of everything that was asked. A request the script has no answer for
 * is served HTTP 500 and noted in `violations`: a test that asks once too often cannot pass unnoticed. Needs nothing but Node,
 * so that the examples run on it, too.
 */
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

/**
 * An HTTP error in the API's envelope, or a foreign page if `html` is given. `type` defaults to the API's name for the status.
 * @typedef {object} ScriptedError
 * @property {number} status
 * @property {string} [type]
 * @property {string} [message]
 * @property {Record<string, string>} [headers]
 * @property {string} [html] the body, served as text/html; with status 200 a proxy's log-in page
 * @property {unknown} [body] the body as JSON, instead of the API's envelope
 */
/**
 * One answer. Say what the model says (`text` or `chunks`), what goes out byte for byte (`raw`), or what goes wrong (`error`,
 * `hang`). A dialect may know more.
 * @typedef {object} ScriptedAnswer
 * @property {string} [text]
 * @property {string[]} [chunks] the text's deltas, one event each; without `text` they are the text
 * @property {string | null} [stopReason] in the API's own words; the default is that of a whole answer
 * @property {string | Uint8Array | (string | Uint8Array)[]} [raw] the body, piece by piece; the pieces count as stream events
 * @property {number} [status] of a `raw` body; default 200
 * @property {Record<string, string>} [headers] further response headers, such as anthropic-ratelimit-unified-*
 * @property {number} [delayMs] wait before the first byte
 * @property {number} [everyMs] wait before every stream event
 * @property {number} [endAfter] end the response properly after that many stream events: 0 is an empty stream
 * @property {number} [cutAfter] destroy the connection after that many stream events
 * @property {Promise<unknown>} [cutWhen] what the cut waits for: what was sent last is lost otherwise, now and then
 * @property {number} [hangAfter] fall silent after that many stream events, the connection open
 * @property {boolean} [hang] never answer
 * @property {ScriptedError} [error]
 */
/**
 * A request as it arrived.
 * @typedef {object} RecordedRequest
 * @property {string} method
 * @property {string} path with the query
 * @property {import("node:http").IncomingHttpHeaders} headers
 * @property {any} body parsed JSON, the text if it is none, undefined if there is none
 * @property {string} raw the body's text
 * @property {number} bytes the body's length
 * @property {number} port the client's: the same for requests over one connection
 * @property {number} at milliseconds since the server started
 * @property {Promise<"answered" | "aborted">} outcome whether the answer went out whole, or the connection ended first
 */
/**
 * @template {ScriptedAnswer} Answer
 * @typedef {(request: RecordedRequest, index: number) => Answer | undefined | Promise<Answer | undefined>} ScriptedModel
 */
/**
 * Answers in the order of arrival, or a function that thinks of them (`index` counts from 0; undefined: no answer left).
 * @template {ScriptedAnswer} Answer
 * @typedef {(Answer | ScriptedModel<Answer>)[] | ScriptedModel<Answer>} ScriptOf
 */
/**
 * @typedef {object} ScriptedServer
 * @property {string} url of the server, without a path
 * @property {RecordedRequest[]} requests the calls of the model, the only ones the script answers
 * @property {RecordedRequest[]} log every request
 * @property {string[]} violations what the script was not prepared for; a clean run leaves it empty
 * @property {(n: number) => Promise<RecordedRequest>} waitForRequest the n-th model request (from 1), once it has arrived whole
 * @property {() => Promise<void>} close ends every connection and timer
 */
/**
 * One frame of a stream. A string is sent as it is, anything else as JSON.
 * @typedef {{ event?: string, data: unknown }} Frame
 */
/**
 * What one API says in its own words.
 * @template {ScriptedAnswer} Answer
 * @typedef {object} Dialect
 * @property {(path: string) => boolean} isModel whether a POST to this path asks the model
 * @property {(path: string) => Answer | undefined} [get] the answer to a GET; undefined: an empty JSON object
 * @property {(request: RecordedRequest, path: string) => unknown} [other] the JSON for a POST elsewhere; undefined: HTTP 404
 * @property {(error: ScriptedError & { message: string }) => unknown} envelope an error's JSON body
 * @property {(answer: Answer, request: RecordedRequest, number: number) => { headers?: Record<string, string>, body: unknown } |
 *   { headers?: Record<string, string>, frames: Frame[] }} reply a whole answer: as JSON, or as a stream
 * @property {Record<string, string>} [violationHeaders] which spare the caller the retries of the CLI
 */

/**
 * Start an API on a free port of 127.0.0.1.
 * @template {ScriptedAnswer} Answer
 * @param {Dialect<Answer>} dialect
 * @param {ScriptOf<Answer>} script
 * @returns {Promise<ScriptedServer>}
 */
export async function startScripted(dialect, script) {
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

  /** @type {(request: RecordedRequest) => Promise<Answer | { error: ScriptedError }>} */
  const answerFor = async (request) => {
    const index = requests.push(request) - 1;
    for (const waiter of waiting) if (waiter.n === index + 1) waiter.resolve(request);
    waiting = waiting.filter((waiter) => waiter.n > requests.length);
    /** @type {(reason: string) => { error: ScriptedError }} */
    const violation = (reason) => {
      violations.push(`request ${index + 1}: ${reason}`);
      const message = `scripted API, request ${index + 1}: ${reason}`;
      return { error: { status: 500, message, headers: dialect.violationHeaders ?? {} } };
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
      const { method = "", url: path = "", headers, socket } = incoming;
      const text = raw.toString("utf8");
      const port = socket.remotePort ?? 0;
      const request = { method, path, headers, body: parseBody(text), raw: text, bytes: raw.length, port, at, outcome };
      log.push(request);
      const { pathname } = new URL(path, "http://127.0.0.1");
      if (method !== "POST") {
        const page = method === "GET" ? dialect.get?.(pathname) : undefined;
        if (page === undefined) return sendJson(response, 200, {});
        return await sendAnswer(dialect, response, request, page, log.length, closing.signal);
      }
      if (dialect.isModel(pathname)) {
        const answer = await answerFor(request);
        const number = requests.indexOf(request) + 1;
        return await sendAnswer(dialect, response, request, answer, number, closing.signal);
      }
      const other = dialect.other?.(request, pathname);
      if (other === undefined) sendError(dialect, response, { status: 404, message: `no such endpoint: ${path}` });
      else sendJson(response, 200, other);
    } catch (error) {
      // The client is gone or the server is closing; anything else is a fault of this file and must be seen.
      const gone = response.destroyed || ["EPIPE", "ECONNRESET", "ERR_STREAM_DESTROYED"].includes(codeOf(error));
      if (!closing.signal.aborted && !gone) violations.push(`the server failed: ${error}`);
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
 * @template {ScriptedAnswer} Answer
 * @param {Dialect<Answer>} dialect
 * @param {import("node:http").ServerResponse} response
 * @param {RecordedRequest} request
 * @param {Answer | { error: ScriptedError }} given
 * @param {number} number counts the ids up
 * @param {AbortSignal} closing
 */
async function sendAnswer(dialect, response, request, given, number, closing) {
  const answer = /** @type {Answer} */ (given);
  if (answer.delayMs) await delay(answer.delayMs, undefined, { signal: closing });
  if (answer.hang) return;
  if (answer.error) return sendError(dialect, response, answer.error);
  if (answer.raw !== undefined) {
    response.writeHead(answer.status ?? 200, { "content-type": "text/event-stream", ...answer.headers });
    return await sendPieces(response, [answer.raw].flat(), answer);
  }
  const reply = dialect.reply(answer, request, number);
  const headers = { ...reply.headers, ...answer.headers };
  if ("body" in reply) return sendJson(response, 200, reply.body, headers);
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache", ...headers });
  const pieces = reply.frames.map(({ event, data }) => {
    const name = event === undefined ? "" : `event: ${event}\n`;
    return `${name}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  });
  await sendPieces(response, pieces, answer);
}

/**
 * Writes the pieces of a body one by one, as far as the answer wants them.
 * @param {import("node:http").ServerResponse} response its head is written
 * @param {(string | Uint8Array)[]} pieces
 * @param {ScriptedAnswer} answer
 */
async function sendPieces(response, pieces, answer) {
  response.flushHeaders();
  const last = answer.cutAfter ?? answer.hangAfter ?? answer.endAfter ?? pieces.length;
  for (const piece of pieces.slice(0, last)) {
    if (answer.everyMs) await delay(answer.everyMs);
    await new Promise((resolve, reject) =>
      response.write(piece, (error) => (error ? reject(error) : resolve(undefined))),
    );
  }
  if (answer.cutAfter !== undefined) {
    await answer.cutWhen;
    response.destroy();
  } else if (answer.hangAfter === undefined) response.end();
}

/**
 * Pieces of some `least` characters, 64 pieces at most, no character torn apart.
 * @param {string} text
 * @param {number} [least]
 */
export function split(text, least = 40) {
  const characters = Array.from(text);
  const size = Math.max(least, Math.ceil(characters.length / 64));
  const pieces = [];
  for (let i = 0; i < characters.length; i += size) pieces.push(characters.slice(i, i + size).join(""));
  return pieces;
}

/**
 * What a request or an answer costs where the script does not say: 4 bytes a token.
 * @param {number} bytes
 */
export const tokens = (bytes) => Math.ceil(bytes / 4);

/**
 * @template {ScriptedAnswer} Answer
 * @param {Dialect<Answer>} dialect
 * @param {import("node:http").ServerResponse} response
 * @param {ScriptedError} error
 */
function sendError(dialect, response, error) {
  const { status, message = `scripted error ${status}`, headers, html, body } = error;
  if (html === undefined) return sendJson(response, status, body ?? dialect.envelope({ ...error, message }), headers);
  response.writeHead(status, { "content-type": "text/html", ...headers }).end(html);
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

/**
 * Node's code of an error, empty where there is none.
 * @param {unknown} error
 */
const codeOf = (error) => (error instanceof Error && "code" in error ? String(error.code) : "");

/** @param {string} text */
function parseBody(text) {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
