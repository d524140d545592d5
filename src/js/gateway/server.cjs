"use strict";

/**
 * The HTTP server. In: requests, of which nothing is believed. Out: answers, and one record for each in the log.
 *
 * Node's own server and parser, which is strict and kept by many: there are nine paths, and what a framework would add (plugins, a router,
 * hooks) would stand between a byte and its check.
 *
 * @import { IncomingMessage, ServerResponse } from "node:http"
 * @import { Options } from "./options.cjs"
 */

const { chmodSync } = require("node:fs");
const http = require("node:http");

const { createWithheld } = require("./calls.cjs");
const { LINGER, createConnections, tell } = require("./connections.cjs");
const { answer } = require("./exchange.cjs");
const { recordCall, recordOf } = require("./record.cjs");
const { FACES } = require("./faces.cjs");
const { checkDepth, isObject, shown } = require("./fields.cjs");
const { createGuard } = require("./guard.cjs");
const { countTokens, messages } = require("./messages.cjs");
const { createPlans } = require("./plans.cjs");
const { createQueues } = require("./queue.cjs");
const { Refusal, bad, refusalOf } = require("./refusal.cjs");
const { createSeals } = require("./sealed.cjs");
const { id } = require("./sse.cjs");
const { createState } = require("./state.cjs");
const { createStore } = require("./store.cjs");

/**
 * @typedef {object} Call one request while it is answered
 * @property {IncomingMessage} request
 * @property {ServerResponse} response
 * @property {boolean} asks whether the client waits to be asked for the body
 * @property {string} requestId
 * @property {AbortSignal} signal
 * @property {string | undefined} key the name of the key that it has brought, when that is known
 * @property {() => Record<string, unknown>} figures what is known of its answer so far: of one that fails or is left, too
 * @property {URLSearchParams} query most of what clients add to a path (`beta`, `api-version`) changes nothing here
 */

/** A body has so long to come, ms. */
const BODY_TIMEOUT = 60_000;
const MOST_CONNECTIONS = 256;
/** A connection waits so long for its next request, ms: clients keep theirs for an agent's next step. */
const KEEP_ALIVE = 60_000;
const HEADER_BYTES = 16 * 1024;

const MODELS = "/v1/models";
const USAGE = "/v1/usage";
const RESPONSES = "/v1/responses";
const COUNT = "/v1/messages/count_tokens";

/**
 * @param {Options} options
 * @param {object} parts
 * @param {ReturnType<typeof import("./keys.cjs").createKeys>} parts.keys
 * @param {ReturnType<typeof import("./models.cjs").createModels>} parts.models
 * @param {import("../logger.cjs").Log | undefined} parts.log
 * @param {import("../telemetry/index.cjs").Telemetry | undefined} parts.telemetry
 */
function createServer(options, { keys, models, log, telemetry }) {
  const { host, hostNames: names, socketPath, limits, lenient, record, allowedOrigins: origins } = options;
  const guard = createGuard({ host: socketPath === undefined ? host : undefined, names, origins });
  const house = {
    models,
    seals: createSeals(),
    store: createStore(options.store),
    state: createState(options.providers),
    withheld: createWithheld(),
    queues: createQueues(),
    plans: createPlans(),
    lenient,
    record,
  };
  let draining = false;
  /** Answers under way, and what ends each. @type {Map<AbortController, Promise<void>>} */
  const running = new Map();

  const server = http.createServer(
    {
      insecureHTTPParser: false,
      maxHeaderSize: HEADER_BYTES,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: Math.max(BODY_TIMEOUT, limits.headersTimeoutMs),
      // Node looks every 30 s, unless it is told to look more often.
      connectionsCheckingInterval: Math.min(1000, limits.headersTimeoutMs),
      keepAliveTimeout: KEEP_ALIVE,
      requireHostHeader: false,
    },
    (request, response) => void serve(request, response, false),
  );
  const connections = createConnections(MOST_CONNECTIONS);
  // More than have a place: who gets none is told so.
  server.maxConnections = 2 * MOST_CONNECTIONS;
  server.on("connection", connections.take);
  // The body is asked for when everything else was found to be right.
  server.on("checkContinue", (request, response) => void serve(request, response, true));
  server.on("clientError", (/** @type {NodeJS.ErrnoException} */ error, socket) => {
    if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
    const status = STATUS_OF.get(error.code ?? "") ?? "400 Bad Request";
    const code = status.startsWith("408") ? "request_timeout" : "invalid_value";
    tell(
      /** @type {import("node:net").Socket} */ (socket),
      status,
      new Refusal(Number.parseInt(status, 10), code, "this is no HTTP request that is read here"),
    );
  });

  /**
   * @param {IncomingMessage} request
   * @param {ServerResponse} response
   * @param {boolean} asks whether the client waits to be asked for the body
   */
  async function serve(request, response, asks) {
    // It was told that it has no place, and had sent this before it read that.
    if (!connections.has(request.socket)) return;
    const answered = connections.begin(request.socket);
    response.once("close", answered);
    const began = Date.now();
    const requestId = id("req_");
    response.setHeader("x-request-id", requestId);
    response.setHeader("request-id", requestId);
    response.setHeader("cache-control", "no-store");
    response.setHeader("x-content-type-options", "nosniff");
    const leaving = new AbortController();
    let path = "";
    /** @type {Record<string, unknown>} */
    let figures = {};
    /** @type {unknown} */
    let failure;
    /** @type {ReturnType<typeof observe>} */
    let observed;
    /** @type {Call} */
    const call = {
      ...{ request, response, asks, requestId, signal: leaving.signal, key: undefined },
      query: new URLSearchParams(),
      figures: () => ({}),
    };
    const work = (async () => {
      try {
        const target = guard.check(request);
        path = withoutSlash(target.path);
        call.query = new URLSearchParams(target.query);
        observed = observe(request, path);
        figures = (await (observed ? observed.within(() => route(path, call)) : route(path, call))) ?? {};
      } catch (error) {
        failure = error;
        figures = call.figures();
        await recordRefused(error, { path, key: call.key, requestId, began, figures });
        if (!leaving.signal.aborted) refuse(error, request, response, path, requestId);
      }
    })();
    // Whether the client left, the gateway closes, or all went out.
    response.once("close", () => {
      if (!response.writableFinished) leaving.abort(new Error("the client has left"));
    });
    running.set(leaving, work);
    await work;
    running.delete(leaving);
    const left = leaving.signal.aborted;
    observed?.end({
      status: left ? 0 : response.statusCode,
      code: failure instanceof Refusal ? failure.code : /** @type {string | undefined} */ (figures.code),
      key: call.key,
      requestId,
      figures,
    });
    note({ key: call.key, response, path, requestId, began, figures, failure, left });
  }

  /** @param {IncomingMessage} request @param {string} path */
  function observe(request, path) {
    if (telemetry === undefined) return undefined;
    const { beginRequest } = require("../telemetry/request.cjs");
    const { method, headers } = request;
    // Whoever has no key says nothing of where its span belongs, and whether it is kept.
    const parent = keys.has(guard.secrets(request)) ? headers.traceparent : undefined;
    return beginRequest(telemetry, { method, route: PATHS.has(path) ? path : undefined, parent });
  }

  /**
   * A call that was refused before a run of it began, in the record of its key: as a run that failed, under the request's id.
   *
   * @param {unknown} error
   * @param {{ path: string, key: string | undefined, requestId: string, began: number, figures: Record<string, unknown> }} call
   */
  async function recordRefused(error, { path, key, requestId, began, figures }) {
    const file = key === undefined || !Object.hasOwn(FACES, path) ? undefined : recordOf(record, key);
    if (file === undefined || !(error instanceof Refusal) || figures.runId !== undefined) return;
    const reason = await recordCall(file, { requestId, began, refusal: error });
    if (reason === undefined) return;
    log?.({
      ...{ level: "error", time: Date.now(), message: "not recorded", provider: "gateway", runId: "" },
      fields: { requestId, key, reason },
    });
  }

  /**
   * @param {string} path
   * @param {Call} call
   * @returns {Promise<Record<string, unknown> | undefined>}
   */
  async function route(path, call) {
    const { request, response, asks, requestId, signal, query } = call;
    const { method = "" } = request;
    if (path === "/health") {
      allow(method, "GET");
      const status = draining ? "draining" : "ok";
      // Who has no key learns nothing of what stands behind, and starts nothing.
      if (query.get("providers") !== "true") return void send(response, 200, { status });
      call.key = keys.find(guard.secrets(request)).name;
      return void send(response, 200, { status, providers: await house.state.look() });
    }
    const key = keys.find(guard.secrets(request));
    call.key = key.name;
    connections.prove(request.socket);
    if (draining) throw ending();
    if (path === MODELS || path.startsWith(`${MODELS}/`)) {
      allow(method, "GET");
      return void send(
        response,
        200,
        path === MODELS ? models.list(query) : models.one(decoded(path.slice(MODELS.length + 1))),
      );
    }
    if (path === USAGE) {
      allow(method, "GET");
      return void send(response, 200, require("./usage.cjs").usageOf(key.name, house.plans));
    }
    if (path.startsWith(`${RESPONSES}/`)) return void stored(path, key.name, method, query, response);
    const face = Object.hasOwn(FACES, path) ? FACES[path] : undefined;
    if (face === undefined && path !== COUNT) throw unknownUrl(path);
    allow(method, "POST");
    const body = await bodyOf(request, response, asks, limits.bodyBytes);
    const wantsLess = request.headers["x-dfp-lenient"] === "true";
    if (face === undefined) {
      const around = {
        isApi: false,
        lenient: true,
        seals: house.seals,
        stored: () => undefined,
        item: () => undefined,
      };
      const read = messages.read(body, around, { counts: true });
      models.find(read.model);
      return void send(response, 200, countTokens(read), { "x-dfp-estimated": "true" });
    }
    const tell = (/** @type {Call["figures"]} */ figures) => {
      call.figures = figures;
    };
    return await answer(house, { face, key, body, lenient: wantsLess, requestId, tell }, response, signal);
  }

  /**
   * @param {string} path @param {string} key @param {string} method @param {URLSearchParams} query @param {ServerResponse} response
   */
  function stored(path, key, method, query, response) {
    const name = decoded(path.slice(RESPONSES.length + 1));
    if (!/^resp_[\w-]+$/.test(name)) throw unknownUrl(path);
    allow(method, "GET", "DELETE");
    if (query.get("stream") === "true") {
      throw bad("unsupported_parameter", "stream", "a stored response comes whole: leave stream out");
    }
    const found = house.store.get(key, name);
    if (found === undefined) {
      throw new Refusal(
        404,
        "item_not_found",
        "there is no such response: it is kept for a while, for the key that asked",
        { param: "response_id" },
      );
    }
    if (method !== "DELETE") return send(response, 200, found.response);
    house.store.remove(key, name);
    send(response, 200, { id: name, object: "response", deleted: true });
  }

  /** @param {{ key: string | undefined, response: ServerResponse, path: string, requestId: string, began: number, figures: object, failure: unknown, left: boolean }} it */
  function note({ key, response, path, requestId, began, figures, failure, left }) {
    if (log === undefined) return;
    const refusal = failure instanceof Refusal ? failure : undefined;
    const { runId = "", ...rest } = /** @type {Record<string, unknown>} */ (figures);
    const internal = failure !== undefined && refusal === undefined && !left;
    log({
      level: internal ? "error" : refusal !== undefined && refusal.status >= 500 ? "warn" : "info",
      time: Date.now(),
      message: left ? "left" : refusal !== undefined ? "refused" : internal ? "failed" : "answered",
      provider: "gateway",
      runId: String(runId),
      fields: {
        requestId,
        ...(key === undefined ? {} : { key }),
        path: PATHS.has(path) ? path : shown(path),
        status: left ? 0 : response.statusCode,
        ms: Date.now() - began,
        ...(refusal === undefined ? {} : { code: refusal.code }),
        ...(refusal?.status === 500 && refusal.cause instanceof Error
          ? { reason: refusal.cause.message.slice(0, 500) }
          : {}),
        ...(internal
          ? { reason: failure instanceof Error ? failure.message.slice(0, 500) : String(failure).slice(0, 500) }
          : {}),
        ...rest,
      },
    });
  }

  return {
    /** @returns {Promise<string>} its address */
    listen() {
      return new Promise((resolve, reject) => {
        const refused = (/** @type {NodeJS.ErrnoException} */ error) => reject(error);
        server.once("error", refused);
        const listening = () => {
          server.off("error", refused);
          if (socketPath !== undefined) return resolve(`unix:${socketPath}`);
          const { address, port, family } = /** @type {import("node:net").AddressInfo} */ (server.address());
          resolve(`http://${family === "IPv6" ? `[${address}]` : address}:${port}`);
        };
        if (socketPath === undefined) return void server.listen({ host, port: options.port }, listening);
        listenPrivately(socketPath, () => server.listen(socketPath, listening));
      });
    },

    /**
     * @param {{ drain: boolean, cut?: Promise<void> | undefined }} how `cut`: what ends the waiting for answers
     * @returns {Promise<boolean>} whether an answer was cut short
     */
    async close({ drain, cut }) {
      draining = true;
      house.queues.end(ending);
      const all = () => Promise.all(running.values());
      /** @type {NodeJS.Timeout | undefined} */
      let timer;
      if (drain && running.size > 0) {
        const late = new Promise((resolve) => {
          timer = setTimeout(resolve, options.drainMs);
        });
        await Promise.race([all(), late, ...(cut ? [cut] : [])]);
        clearTimeout(timer);
      }
      const cutShort = running.size > 0;
      // No further connections; those that are idle end here.
      const closed = new Promise((resolve) => server.close(resolve));
      for (const leaving of running.keys()) leaving.abort(new Error("the gateway was closed"));
      await all();
      server.closeAllConnections();
      await closed;
      return cutShort;
    },
  };
}

/** Paths that are named in the log as they are: others are a client's text, and cut. */
const PATHS = new Set([...Object.keys(FACES), COUNT, MODELS, USAGE, "/health"]);

const STATUS_OF = new Map([
  ["HPE_HEADER_OVERFLOW", "431 Request Header Fields Too Large"],
  ["ERR_HTTP_REQUEST_TIMEOUT", "408 Request Timeout"],
]);

/**
 * A socket that nobody else may open, from its first moment on.
 *
 * @param {string} path
 * @param {() => void} listen which makes it at once
 */
function listenPrivately(path, listen) {
  /** @type {number | undefined} */
  let before;
  try {
    before = process.umask(0o177);
  } catch {
    // A worker has no umask of its own: then it is made as the process has it, and closed to others at once.
  }
  try {
    listen();
    chmodSync(path, 0o600);
  } catch (error) {
    // Not made: the server says why.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ENOENT") throw error;
  } finally {
    if (before !== undefined) process.umask(before);
  }
}

const ending = () =>
  new Refusal(503, "draining", "the gateway is ending: try again when it is back", { retryAfterMs: 1000, close: true });

/** A slash at the end changes nothing. @param {string} path */
const withoutSlash = (path) => (path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path);

/** A path as a client makes it of its base URL, and what it adds to that. */
const MADE = /^(.*?)((?:\/v1)?)(\/(?:chat\/completions|responses|messages(?:\/count_tokens)?|models))$/;

/**
 * Some clients put `/v1` in themselves, and some, of either vendor, want it in their base URL: the path tells which.
 *
 * @param {string} path
 */
function unknownUrl(path) {
  const [, before = "", version = "", end = ""] = MADE.exec(path) ?? [];
  const served = [...PATHS].join(", ");
  const rest =
    end === ""
      ? `there is ${served}`
      : version === ""
        ? `this is /v1${end} here, so the client's base URL must end in /v1${before === "" ? "" : `, not in ${shown(before)}`}`
        : `this is /v1${end} here, and the client adds that itself, so its base URL must end without ${shown(before)}`;
  return new Refusal(404, "unknown_url", `there is nothing at ${shown(path)}: ${rest}`);
}

/** @param {string} method @param {string[]} allowed `GET` is `HEAD`, too */
function allow(method, ...allowed) {
  const all = allowed.flatMap((one) => (one === "GET" ? ["GET", "HEAD"] : [one]));
  if (all.includes(method)) return;
  throw new Refusal(405, "method_not_allowed", `this path takes ${allowed.join(" or ")}`, { allow: all.join(", ") });
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw bad("invalid_value", undefined, "the path is not encoded as it has to be");
  }
}

/**
 * The body as JSON. What is too large is not kept, and its connection ends.
 *
 * @param {IncomingMessage} request
 * @param {ServerResponse} response
 * @param {boolean} asks
 * @param {number} most bytes
 */
async function bodyOf(request, response, asks, most) {
  const { headers } = request;
  const [type = ""] = (headers["content-type"] ?? "").split(";", 1);
  if (type.trim().toLowerCase() !== "application/json") {
    throw new Refusal(415, "unsupported_media_type", "the body must be sent as content-type: application/json", {
      close: true,
    });
  }
  if (!["", "identity"].includes((headers["content-encoding"] ?? "").toLowerCase())) {
    throw new Refusal(
      415,
      "unsupported_media_type",
      "the body must not be compressed: send it without content-encoding",
      { close: true },
    );
  }
  const tooLarge = () =>
    new Refusal(
      413,
      "request_too_large",
      `the body is larger than ${most} bytes: send less, or start the gateway with a larger --max-body`,
      {
        close: true,
      },
    );
  if (Number(headers["content-length"] ?? 0) > most) throw tooLarge();
  if (asks) response.writeContinue();
  /** @type {Buffer[]} */
  const pieces = [];
  let size = 0;
  try {
    for await (const piece of request) {
      size += piece.length;
      if (size > most) throw tooLarge();
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw bad("invalid_json", undefined, "the body broke off");
  }
  /** @type {unknown} */
  let body;
  try {
    body = JSON.parse(Buffer.concat(pieces).toString("utf8"));
  } catch {
    throw bad("invalid_json", undefined, "the body is no JSON");
  }
  if (!isObject(body)) throw bad("invalid_type", undefined, "the body must be a JSON object");
  checkDepth(body);
  return body;
}

/**
 * @param {unknown} error
 * @param {IncomingMessage} request
 * @param {ServerResponse} response
 * @param {string} path
 * @param {string} requestId
 */
function refuse(error, request, response, path, requestId) {
  if (response.headersSent) return void response.destroy();
  const refusal = refusalOf(error);
  const vendor = path.startsWith("/v1/messages") || "anthropic-version" in request.headers ? "anthropic" : "openai";
  const headers = { .../** @type {{ facts?: object }} */ (refusal).facts, ...refusal.headers() };
  // A body that was not read would be taken for the next request.
  const unread = !request.complete ? { connection: "close" } : {};
  send(response, refusal.statusFor(vendor), refusal.body(vendor, requestId), { ...headers, ...unread });
  if (!request.complete) endUnread(request, response);
}

/**
 * What still comes is thrown away for a moment, so that the client reads the answer rather than a broken connection.
 *
 * @param {IncomingMessage} request
 * @param {ServerResponse} response
 */
function endUnread(request, response) {
  // None, where the connection has ended meanwhile.
  const { socket } = /** @type {{ socket: import("node:net").Socket | null }} */ (request);
  request.on("error", () => {});
  request.resume();
  response.once("finish", () => setTimeout(() => socket?.destroy(), LINGER).unref());
}

/**
 * @param {ServerResponse} response
 * @param {number} status
 * @param {unknown} body
 * @param {Record<string, string>} [headers]
 */
function send(response, status, body, headers = {}) {
  const json = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(json),
    ...headers,
  });
  response.end(json);
}

module.exports = { createServer };
