// @ts-check
/**
 * An `opencode serve` that does what the real one can't be made to do: `node odd-opencode.mjs <mood> <log>`.
 *
 * In flow the requests of a client, which are kept in the log, one line of JSON each; out flow the answers of a server in that mood. What
 * it says is as opencode 1.18.34 says it; of the moods that begin with `other-`, another version. With `killed-at-` and a path, it is
 * killed once, by the first request there. Where there is a file `<log>.mood`, its mood is the one that stands there when it is asked.
 */
import { appendFileSync, existsSync } from "node:fs";
import { createServer } from "node:http";
import { moodOf } from "./moods.mjs";

const [, , begun = "", log = ""] = process.argv;
let mood = begun;
const version = mood.startsWith("other-") ? "1.99.0" : "1.18.34";
/** @typedef {{ info: any, parts: any[] }} Message */
/** @type {Map<string, Message[]>} */
const sessions = new Map();
/** @type {import("node:http").ServerResponse | undefined} */
let stream;
/** Ends the turn that goes on. @type {(() => void) | undefined} */
let stop;
/** @type {Turn | undefined} */
let first;
let ids = 0;
const id = (/** @type {string} */ kind) => `${kind}_20391ac0c002Mk${String(++ids).padStart(6, "0")}`;

const raw = (/** @type {string} */ data) => stream?.write(`data: ${data}\n\n`);
const tell = (/** @type {string} */ type, /** @type {object} */ properties) =>
  raw(JSON.stringify({ payload: { id: id("evt"), type, properties } }));

/** @typedef {{ session: string, info: any, finish: (answer?: object) => void, response: import("node:http").ServerResponse }} Turn */

/** The text of an answer as it comes, and as it is told at its end. @param {Turn} turn @param {string} [reason] */
function say({ session, info, finish }, reason = "stop") {
  const own = { sessionID: session, messageID: info.id };
  const text = { ...own, id: id("prt"), type: "text", text: "ok" };
  tell("message.part.updated", { sessionID: session, part: { ...text, text: "" } });
  tell("message.part.delta", { sessionID: session, messageID: info.id, partID: text.id, field: "text", delta: "ok" });
  const tokens = { input: 3, output: 2, reasoning: 0, cache: { read: 0, write: 0 } };
  const end = { ...own, id: id("prt"), type: "step-finish", reason, tokens, cost: 0 };
  tell("message.part.updated", { sessionID: session, part: { ...text, time: { start: 1, end: 2 } } });
  tell("message.part.updated", { sessionID: session, part: end });
  if (reason === "unknown") return;
  finish({ info: { ...info, finish: reason }, parts: [{ ...text, time: { start: 1, end: 2 } }, end] });
}

/** @type {Record<string, (turn: Turn) => void>} */
const TURNS = {
  // In the middle of an answer.
  dies: ({ session, info }) => {
    const part = { id: "prt_1", sessionID: session, messageID: info.id, type: "text", text: "so far" };
    tell("message.part.updated", { sessionID: session, part });
    setTimeout(() => process.exit(3), 50);
  },
  // The stream of events ends, and is not there again; the answer would come.
  cuts: (turn) => {
    stream?.end();
    setTimeout(() => say(turn), 10_000);
  },
  // What is no event, or none of this session.
  garbage: (turn) => {
    const { session, info } = turn;
    for (const data of ["", "no JSON", "[]", "null", '{"payload":7}', '{"payload":{"type":"message.part.delta"}}'])
      raw(data);
    raw(JSON.stringify({ payload: { type: "message.part.updated", properties: { sessionID: session, part: "x" } } }));
    stream?.write(": a comment\r\nevent: x\ndata\n\n");
    tell("something.new", { sessionID: session, what: {} });
    tell("message.part.delta", {
      sessionID: "ses_other",
      messageID: info.id,
      partID: "prt_1",
      field: "text",
      delta: "no",
    });
    tell("message.part.delta", { sessionID: session, messageID: "../x", partID: "prt_1", field: "text", delta: "no" });
    tell("permission.asked", { id: "../../session", sessionID: session });
    tell("session.status", { sessionID: session, status: { type: "dancing" } });
    say(turn);
  },
  // It would ask its API again for ever.
  unknown: (turn) => say(turn, "unknown"),
  // A word for the end that nobody has heard of.
  other: (turn) => say(turn, "paused"),
  // An answer that never ends.
  endless: ({ response }) => {
    const piece = Buffer.alloc(65_536, "x");
    response.writeHead(200, { "content-type": "application/json" });
    const more = () => {
      while (response.write(piece));
    };
    response.on("drain", more).on("error", () => undefined);
    response.write('{"info":{"id":"');
    more();
  },
  // The first turn waits; the second one is told in one event of more than 64 MiB, and then the first is answered.
  "huge-event": (turn) => {
    if (!first) {
      first = turn;
      return;
    }
    const { session, info } = turn;
    const part = { id: id("prt"), messageID: info.id, type: "text", text: "x".repeat(65 * 2 ** 20) };
    tell("message.part.updated", { part, sessionID: session });
    say(first);
  },
  // One event that never ends.
  "endless-event": () => {
    const piece = Buffer.alloc(65_536, "x");
    const more = () => {
      while (stream?.write(piece));
    };
    stream?.on("drain", more).on("error", () => undefined);
    stream?.write("data: ");
    more();
  },
};

/** What it makes of a replayed history. @param {any} body */
function replay({ events }) {
  /** @type {Message[]} */
  const messages = [];
  for (const { aggregateID, type, data } of events) {
    if (type === "session.created.1") sessions.set(aggregateID, messages);
    if (type === "message.updated.1") messages.push({ info: data.info, parts: [] });
    if (type === "message.part.updated.1") {
      messages.find(({ info }) => info.id === data.part.messageID)?.parts.push(data.part);
    }
  }
  if (mood === "other-forgets-history") messages.length = 0;
}

/**
 * @param {string} method @param {string} path @param {any} body @param {(status: number, answer?: unknown) => void} answer
 * @param {import("node:http").ServerResponse} response
 */
function serve(method, path, body, answer, response) {
  const [, kind, session = "", , message = "", , part = ""] = path.split("/");
  switch (`${method} ${kind}`) {
    case "GET global":
      if (path === "/global/event") {
        response.writeHead(200, { "content-type": "text/event-stream" });
        stream = response;
        return tell("server.connected", {});
      }
      return mood === "other-mute" ? answer(404) : answer(200, { healthy: true, version });
    case "POST mcp":
      return answer(200, {
        df: mood === "other-no-tools" ? { status: "failed", error: "no" } : { status: "connected" },
      });
    case "POST sync":
      if (mood === "other-no-replay") return answer(404, { name: "NotFoundError" });
      replay(body);
      return answer(200, true);
    case "PATCH session": {
      if (mood === "other-no-patch") return answer(405);
      const parts = sessions.get(session)?.find(({ info }) => info.id === message)?.parts ?? [];
      const at = parts.findIndex((known) => known.id === part);
      if (at >= 0 && mood !== "other-forgets-results") parts[at] = body;
      return answer(200, body);
    }
    case "GET session":
      if (mood === "other-shape") return answer(200, { items: sessions.get(session) ?? [] });
      if (mood === "other-page") return response.writeHead(200).end("<html>");
      return answer(200, sessions.get(session) ?? []);
    case "POST session": {
      if (session === "") {
        const own = id("ses");
        sessions.set(own, []);
        return answer(200, { id: own });
      }
      if (path.endsWith("/abort")) {
        stop?.();
        return answer(200, true);
      }
      const user = { id: id("msg"), role: "user", sessionID: session, model: body.model };
      if (body.noReply) return answer(200, { info: user, parts: [] });
      const info = { id: id("msg"), role: "assistant", sessionID: session, providerID: "mock", modelID: "m1" };
      tell("message.updated", { sessionID: session, info: user });
      tell("session.status", { sessionID: session, status: { type: "busy" } });
      tell("message.updated", { sessionID: session, info });
      const finish = (/** @type {unknown} */ whole) => {
        stop = undefined;
        tell("session.idle", { sessionID: session });
        answer(200, whole);
      };
      stop = () =>
        finish({ info: { ...info, error: { name: "MessageAbortedError", data: { message: "Aborted" } } }, parts: [] });
      return (TURNS[mood] ?? say)({ session, info, finish, response });
    }
    default:
      return answer(200, true);
  }
}

const server = createServer((request, response) => {
  let text = "";
  request.setEncoding("utf8").on("data", (piece) => {
    text += piece;
  });
  request.on("end", () => {
    const path = (request.url ?? "").split("?")[0] ?? "";
    appendFileSync(log, `${JSON.stringify({ method: request.method, path })}\n`);
    mood = moodOf(log, mood);
    if (mood.endsWith(`killed-at-${path}`) && !existsSync(`${log}.killed`)) {
      appendFileSync(`${log}.killed`, "");
      process.kill(process.pid, "SIGKILL");
    }
    serve(
      request.method ?? "",
      path,
      text === "" ? undefined : JSON.parse(text),
      (status, answer) => {
        response.writeHead(status, { "content-type": "application/json" });
        response.end(answer === undefined ? "" : JSON.stringify(answer));
      },
      response,
    );
  });
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  process.stdout.write(`opencode server listening on http://127.0.0.1:${port}\n`);
});
