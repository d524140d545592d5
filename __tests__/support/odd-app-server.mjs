// @ts-check
/**
 * A `codex app-server` that does what the real one can't be made to do: `node odd-app-server.mjs <mood> <log>`. Where there is a file
 * `<log>.mood`, its mood is the one that stands there when it is sent something.
 *
 * In flow the lines of a client, which are kept in the log; out flow the answers of a server in that mood. Everything it says is as
 * codex 0.169.0 says it (`__tests__/fixtures/codex-app-server`).
 */
import { appendFileSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { moodOf } from "./moods.mjs";

const [, , begun = "", log = ""] = process.argv;
let mood = begun;
let threadId = "";
/** The thread that was resumed. */
let resumed = "";
let threads = 0;
const turn = { id: "01a3", items: [], status: "inProgress", error: null };
const say = (/** @type {object} */ message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const tell = (/** @type {string} */ method, /** @type {object} */ params) =>
  say({ method, params: { threadId, turnId: turn.id, ...params } });
const answer = (/** @type {number} */ id, /** @type {object} */ result) => say({ id, result });

/** An answer of the model, and the end of its turn. */
function reply() {
  const item = { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "ok" }] };
  tell("item/agentMessage/delta", { itemId: "msg_1", delta: "ok" });
  tell("rawResponseItem/completed", { item });
  tell("rawResponse/completed", { responseId: "r", usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 } });
  tell("turn/completed", { turn: { ...turn, status: "completed" } });
}

/** Appends lines to the file of a thread that was resumed, as codex does. @param {{ type: string, payload: object }[]} lines */
function write(...lines) {
  const place = join(process.env.CODEX_HOME ?? "", "sessions");
  const [file = ""] = readdirSync(place, { recursive: true }).filter((name) => String(name).includes(threadId));
  const text = lines.map((line) => `${JSON.stringify({ timestamp: "2026-11-26T12:00:00.000Z", ...line })}\n`).join("");
  appendFileSync(join(place, String(file)), text);
}

const metadata = { internal_chat_message_metadata_passthrough: { turn_id: turn.id } };
const written = {
  message: {
    type: "response_item",
    payload: {
      type: "message",
      id: "msg_1",
      role: "assistant",
      content: [{ type: "output_text", text: "ok" }],
      ...metadata,
    },
  },
  call: {
    type: "response_item",
    payload: { type: "function_call", id: "fc_1", call_id: "a", name: "step", arguments: "{}", ...metadata },
  },
  usage: {
    type: "token_usage_record",
    payload: { turn_id: turn.id, usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
  },
  end: { type: "event_msg", payload: { type: "task_complete", turn_id: turn.id } },
};
const call = () =>
  say({
    method: "item/tool/call",
    id: 0,
    params: { threadId, turnId: turn.id, callId: "a", tool: "step", arguments: {} },
  });
const delta = () => tell("item/agentMessage/delta", { itemId: "msg_1", delta: "ok" });
const told = () => tell("item/completed", { item: { type: "agentMessage", id: "msg_1", text: "ok" } });
const complete = () => tell("turn/completed", { turn: { ...turn, status: "completed" } });

/** What a server in this mood does in the turn of a thread that was resumed. @type {Record<string, () => void>} */
const RESUMED = {
  "resumes-writing-nothing": () => {
    delta();
    told();
    complete();
  },
  "resumes-writing-no-call": call,
  "resumes-writing-late": () => {
    complete();
    setTimeout(() => write(written.message), 50);
  },
};

/** An answer of the model in a thread that was resumed. */
function replyResumed() {
  delta();
  write(written.message, written.usage, written.end);
  told();
  complete();
}

/** What has been touched stays in memory. @type {Buffer[]} */
const kept = [];

/** @type {Record<string, () => void>} */
const MOODS = {
  well: reply,
  // More than a server may take that gets new threads: 1 GiB. Only the first one does.
  grows: () => {
    if (!existsSync(`${log}.grown`)) kept.push(Buffer.alloc(1.1 * 2 ** 30, 1));
    appendFileSync(`${log}.grown`, "");
    reply();
  },
  asks: () => say({ method: "item/tool/requestUserInput", id: 0, params: { threadId, turnId: turn.id } }),
  compacts: () => tell("item/started", { item: { type: "contextCompaction", id: "c" } }),
  reroutes: () => {
    tell("model/rerouted", { fromModel: "m", toModel: "another" });
    tell("warning", { message: "look out" });
    reply();
  },
  deaf: () => tell("item/agentMessage/delta", { itemId: "msg_1", delta: "so far" }),
  noise: () => {
    process.stdout.write("no JSON\n\n[]\n\ufeff{}\n");
    say({ id: 999, result: {} });
    say({ method: "something/new", params: { threadId } });
    say({ method: "item/agentMessage/delta", params: { threadId: "other", itemId: "x", delta: "of another thread" } });
    tell("rawResponseItem/completed", {
      turnId: "other",
      item: { type: "function_call", call_id: "x", name: "step", arguments: "{}" },
    });
    reply();
  },
  calls: () => {
    for (const call of ["a", "b"]) {
      const item = { type: "function_call", call_id: call, name: "step", arguments: "{}" };
      tell("rawResponseItem/completed", { item });
    }
    tell("rawResponse/completed", { responseId: "r", usage: null });
    say({
      method: "item/tool/call",
      id: 0,
      params: { threadId, turnId: turn.id, callId: "a", tool: "step", arguments: {} },
    });
  },
  // It asks on and on, and reads no answer: each has a megabyte, for it names what was asked.
  asksOn: () => {
    process.stdin.pause();
    const line = `${JSON.stringify({ method: "item/tool/requestUserInput", id: "x".repeat(2 ** 20), params: {} })}\n`;
    const ask = () => process.stdout.write(line, ask);
    ask();
  },
  closes: () => tell("thread/closed", {}),
  // The first thread waits; of the second, a call is told in lines of more than 64 MiB, and then the first is answered.
  huge: () => {
    if (threads === 1) return;
    const args = JSON.stringify({ text: "x".repeat(65 * 2 ** 20) });
    tell("rawResponseItem/completed", { item: { type: "function_call", call_id: "c", name: "step", arguments: args } });
    const item = { type: "dynamicToolCall", id: "c", tool: "step", arguments: JSON.parse(args), status: "inProgress" };
    say({ method: "item/started", params: { item, threadId, turnId: turn.id, startedAtMs: 1 }, emittedAtMs: 1 });
    threadId = "01a2-1";
    reply();
  },
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const again = existsSync(log);
  appendFileSync(log, `${line}\n`);
  mood = moodOf(log, mood);
  switch (method) {
    case "initialize":
      if (mood === "silent") return;
      if (mood === "refuses-late")
        return setTimeout(() => say({ id, error: { code: -32600, message: "not today" } }), 300);
      if (mood === "misread")
        return say({
          id,
          error: { code: -32600, message: "failed to load configuration: config.toml:1:1: secret line" },
        });
      if (mood === "misconfigured") {
        process.stderr.write("Error loading configuration: config.toml:1:1: invalid TOML\n");
        process.exit(1);
      }
      return answer(id, { userAgent: "deep_factor_providers/0.169.0 (Debian 12.0.0; x86_64)" });
    case "config/read":
      return answer(id, { config: { model: "m", model_provider: "mine", model_providers: { mine: {} } } });
    case "thread/start": {
      if (mood === "strict" && "agents.enabled" in params.config) {
        const message =
          'failed to load configuration: invalid type: string "x", expected a boolean\nin `agents.enabled`\n';
        return say({ id, error: { code: -32600, message } });
      }
      if (mood === "broken")
        return say({ id, error: { code: -32600, message: "failed to load configuration: no such file" } });
      if (mood === "dies") process.exit(3);
      threads++;
      // No two servers give one id twice.
      const own = `01a2183a-4acd-7610-b303-${String(process.pid).padStart(10, "0")}0${threads}`;
      threadId = mood.startsWith("resumes") ? own : `01a2-${threads}`;
      return answer(id, { thread: { id: threadId }, model: "m", instructionSources: [] });
    }
    // "resumes" answers without a thread.
    case "thread/resume":
      if (/late|undeleted|writing/.test(mood)) {
        threadId = params.threadId;
        resumed = threadId;
        const opened = () => answer(id, { thread: { id: threadId }, model: "m", instructionSources: [] });
        if (mood === "resumes-late") setTimeout(opened, 200);
        else opened();
        return;
      }
      if (mood === "resumes-not") return say({ id, error: { code: -32603, message: "error resuming thread" } });
      return answer(id, mood === "resumes-another" ? { thread: { id: "01a2-9" }, instructionSources: [] } : {});
    case "thread/delete":
      if (mood === "resumes-undeleted") return say({ id, error: { code: -32603, message: "no such thread" } });
      answer(id, {});
      return say({ method: "thread/deleted", params: { threadId: params.threadId } });
    case "turn/start":
      if (resumed === params.threadId && mood === "resumes-writing-early") {
        write(written.call, written.usage);
        answer(id, { turn });
        return setTimeout(() => {
          tell("turn/started", { turn });
          call();
        }, 50);
      }
      answer(id, { turn });
      tell("turn/started", { turn });
      if (resumed === params.threadId) return (RESUMED[mood] ?? replyResumed)();
      return (MOODS[mood] ?? reply)();
    case "thread/inject_items":
      if (mood !== "calls") return answer(id, {});
      // Answered late: whoever does not wait is seen in the log.
      setTimeout(() => {
        appendFileSync(log, `${JSON.stringify({ answered: id })}\n`);
        answer(id, {});
      }, 50);
      return;
    case "turn/interrupt":
      if (mood === "deaf" && again) return;
      return tell("turn/completed", { turn: { ...turn, status: "interrupted" } });
    case undefined:
      // Results, one after the other, as before 0.169.
      if (id === 0) {
        say({
          method: "item/tool/call",
          id: 1,
          params: { threadId, turnId: turn.id, callId: "b", tool: "step", arguments: {} },
        });
      } else reply();
      return;
    case "initialized":
      return;
    default:
      return answer(id, {});
  }
});
