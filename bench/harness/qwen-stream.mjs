// @ts-check
/**
 * The floor of qwen's live engine: the bare CLI over `--input-format stream-json`, driven by hand. Its calls wait at an MCP server of ours
 * until the next turn brings what they give.
 */
import { createInterface } from "node:readline";
import { startMcp } from "./mcp-server.mjs";
import { startQwen } from "./qwen.mjs";

const STREAMS = ["--input-format", "stream-json", "--output-format", "stream-json", "--include-partial-messages"];

/** @param {import("./qwen.mjs").Options} options */
export function driveQwenStream(options) {
  const { child, gone } = startQwen(options, STREAMS);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  /** @param {object} line */
  const say = (line) => child.stdin.write(`${JSON.stringify(line)}\n`);
  /** What calls gave that did not come yet, and calls whose result did not. @type {string[]} */
  const results = [];
  /** @type {((result: string) => void)[]} */
  const calls = [];
  const start = async () => {
    const mcp = await startMcp(async () => results.shift() ?? new Promise((resolve) => calls.push(resolve)));
    const mcpServers = { df: { httpUrl: mcp.url, headers: {}, timeout: 600_000, trust: true } };
    say({ type: "control_request", request_id: "r1", request: { subtype: "initialize", mcpServers } });
    return mcp;
  };
  /** @type {ReturnType<typeof start> | undefined} */
  let started;
  return {
    pid: () => child.pid,
    /** One turn: the user's text, or what the calls of the last one gave. @param {string | string[]} input */
    async turn(input) {
      started ??= start();
      await started;
      if (Array.isArray(input)) {
        for (const result of input) {
          const call = calls.shift();
          if (call) call(result);
          else results.push(result);
        }
      } else {
        const message = { role: "user", content: input };
        say({ type: "user", message, session_id: "", parent_tool_use_id: null });
      }
      /** @type {{ n: number }[]} */
      const uses = [];
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error("qwen has ended");
        const line = JSON.parse(value);
        if (line.type === "assistant") {
          const blocks = line.message.content.filter((/** @type {any} */ block) => block.type === "tool_use");
          uses.push(...blocks.map((/** @type {any} */ block) => block.input));
        } else if (line.type === "stream_event" && line.event.type === "message_stop" && uses.length > 0) {
          return uses;
        } else if (line.type === "result") {
          if (line.is_error) throw new Error(`the turn has failed: ${value}`);
          return uses;
        }
      }
    },
    async close() {
      child.kill("SIGKILL");
      await gone();
      await (await started)?.close();
    },
  };
}
