// @ts-check
/**
 * An agent of the Agent Client Protocol that keeps none of its rules: `node hostile-acp.mjs <log> <mood>`. What it is sent goes to the log, a line
 * each. In the mood "rules" it breaks all that it can and answers in the end; the others are what the answer comes to, or what becomes of it.
 */
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , log = "", mood = ""] = process.argv;
const write = (/** @type {string | Uint8Array} */ text) => process.stdout.write(text);
const say = (/** @type {object} */ message) => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const chunk = (/** @type {unknown} */ sessionId, /** @type {unknown} */ text, kind = "agent_message_chunk") =>
  say({
    method: "session/update",
    params: { sessionId, update: { sessionUpdate: kind, content: { type: "text", text } } },
  });

function breakRules() {
  write("not JSON\n\n{\n[1,2\n[]\nnull\n7\n");
  write(Buffer.from([0xff, 0xfe, 0x0a]));
  write(`{"jsonrpc":"2.0","id":1,"result":"${"x".repeat(3_000_000)}\n`);
  say({ id: 999_999, result: { sessionId: "nobody's" } });
  say({ id: "1", result: {} });
  say({ id: null, error: { code: -1, message: "for nobody" } });
  say({ id: -1, result: {} });
  say({ method: "session/update" });
  say({ method: "session/update", params: { sessionId: 7, update: null } });
  say({ method: "_x.own/thing", params: [1] });
  chunk("another's session", "not for this call");
  chunk("__proto__", "nor this");
}

/** @param {unknown} sessionId */
function askForMore(sessionId) {
  say({ id: "f1", method: "fs/read_text_file", params: { sessionId, path: "/etc/passwd" } });
  say({ id: "f2", method: "fs/write_text_file", params: { sessionId, path: "/tmp/x", content: "x" } });
  say({ id: "t1", method: "terminal/create", params: { sessionId, command: "id" } });
  const options = [{ optionId: "yes", name: "Yes", kind: "allow_always" }];
  say({
    id: "p1",
    method: "session/request_permission",
    params: { sessionId, toolCall: { toolCallId: "c" }, options },
  });
}

/** @type {Record<string, (id: number, params: any) => void>} */
const METHODS = {
  initialize: (id) => {
    if (mood === "mute") return;
    if (mood === "rules") breakRules();
    const result = { protocolVersion: mood === "newer" ? 2 : 1, agentInfo: { name: "hostile", version: "9.9.9" } };
    say({ id, result });
    if (mood === "rules") say({ id, result });
  },
  "session/new": (id) => {
    const answers = /** @type {Record<string, object>} */ ({
      nobody: { error: { code: -32_000, message: "Authentication required" } },
      nameless: { result: {} },
    });
    say({ id, ...(answers[mood] ?? { result: { sessionId: `s${id}` } }) });
    if (mood === "rules") say({ id, result: { sessionId: "a second one" } });
  },
  "session/prompt": (id, { sessionId }) => {
    if (mood === "silent") return;
    if (mood === "dies") process.exit(3);
    if (mood === "fails") {
      say({ id, error: { code: 429, message: "slow down" } });
      return;
    }
    if (mood === "rules") {
      breakRules();
      askForMore(sessionId);
      chunk(sessionId, { not: "text" });
    }
    if (mood !== "empty") {
      chunk(sessionId, "thinking", "agent_thought_chunk");
      chunk(sessionId, "Hello ");
      chunk(sessionId, "there.");
    }
    const stopReason = ["max_tokens", "refusal"].includes(mood) ? mood : "end_turn";
    const usage = { inputTokens: 20, outputTokens: 7, totalTokens: 27 };
    // What it is answered to its own requests comes first.
    setTimeout(() => {
      say({ id, result: { stopReason, usage } });
      if (mood !== "rules") return;
      say({ id, result: { stopReason: "cancelled" } });
      setTimeout(() => chunk(sessionId, "too late"), 20);
    }, 100);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  appendFileSync(log, `${line}\n`);
  const { id, method, params } = JSON.parse(line);
  METHODS[method]?.(id, params);
}
