// @ts-check
/**
 * A `gemini --acp` that does what the real one can't be made to do: it takes its time to open a session, and writes down how many it
 * opens at once: `node odd-acp.mjs <log> [mood]`. In the mood "killed" it is killed once, at its first session; "silent", it answers nothing. Everything it says is as gemini 0.61.0 says it (OTHER-LIVE 3).
 */
import { appendFileSync, existsSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , log = "", mood = ""] = process.argv;
const OPENING_MS = 20;
const say = (/** @type {object} */ message) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
let opening = 0;
let sessions = 0;

/** @type {Record<string, (id: number, params: any) => void>} */
const METHODS = {
  initialize: (id) =>
    say({
      id,
      result: { protocolVersion: 1, agentInfo: { name: "gemini-cli", version: "0.61.0" }, agentCapabilities: {} },
    }),
  "session/new": (id) => {
    if (mood === "killed" && !existsSync(`${log}.killed`)) {
      appendFileSync(`${log}.killed`, "");
      process.kill(process.pid, "SIGKILL");
    }
    appendFileSync(log, `${++opening}\n`);
    setTimeout(() => {
      opening--;
      say({ id, result: { sessionId: `s${++sessions}`, models: { currentModelId: "m1", availableModels: [] } } });
    }, OPENING_MS);
  },
  "session/prompt": (id, { sessionId }) => {
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "ok" } };
    say({ method: "session/update", params: { sessionId, update } });
    say({ id, result: { stopReason: "end_turn" } });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  if (mood === "silent") continue;
  const { id, method, params } = JSON.parse(line);
  const answer = METHODS[method];
  if (answer) answer(id, params);
  else if (id !== undefined) say({ id, result: {} });
}
