// @ts-check
/**
 * The floor of the live engine: the bare CLI, driven by hand with the same protocol, deferred calls included, and nothing else.
 *
 * In flow user lines; out flow the tool calls a turn ended with.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { SYSTEM, TOOL } from "./setting.mjs";

const FLAGS = "-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages --model";
const PURE = [
  "--safe-mode",
  "--setting-sources",
  "user",
  "--tools",
  "",
  "--strict-mcp-config",
  "--no-session-persistence",
];
const ENV = { CLAUDE_CODE_MAX_RETRIES: "0", CLAUDE_CODE_DISABLE_ATTACHMENTS: "1", ENABLE_TOOL_SEARCH: "false" };

/**
 * @param {{ cliPath: string, cwd: string, wholeEnv: Record<string, string> }} setting
 * @param {{ tools?: boolean, model?: string, args?: string[] }} [options] `tools`: whether there is the one tool; default yes. `args`: further ones
 */
export function driveByHand({ cliPath, cwd, wholeEnv }, { tools = true, model = "sonnet", args = [] } = {}) {
  const child = spawn(cliPath, [...FLAGS.split(" "), model, ...PURE, ...args], {
    cwd,
    env: { ...wholeEnv, ...ENV },
    stdio: ["pipe", "pipe", "inherit"],
  });

  const closed = new Promise((resolve) => child.once("close", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let initialised = false;
  /** @param {object} line */
  const say = (line) => child.stdin.write(`${JSON.stringify(line)}\n`);
  /** @param {string} request_id @param {object} response */
  const answer = (request_id, response) =>
    say({ type: "control_response", response: { subtype: "success", request_id, response } });

  return {
    /**
     * One turn. Gives the calls that wait for their results.
     * @param {unknown} content of the user's line
     * @returns {Promise<{ id: string, input: { n: number } }[]>}
     */
    async turn(content) {
      if (!initialised) {
        initialised = true;
        const hooks = { PreToolUse: [{ matcher: "mcp__df__.*", hookCallbackIds: ["h1"] }] };
        const bound = tools ? { sdkMcpServers: ["df"], hooks } : {};
        const request = { subtype: "initialize", systemPrompt: SYSTEM, ...bound };
        say({ type: "control_request", request_id: "r1", request });
      }
      say({ type: "user", message: { role: "user", content } });
      const uses = [];
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error("the CLI has ended");
        const line = JSON.parse(value);
        if (line.type === "control_request" && line.request.subtype === "hook_callback") {
          const decision = { hookEventName: "PreToolUse", permissionDecision: "defer" };
          answer(line.request_id, { hookSpecificOutput: decision });
        } else if (line.type === "control_request") {
          const response = { jsonrpc: "2.0", id: line.request.message.id ?? 0, result: mcp(line.request.message) };
          answer(line.request_id, { mcp_response: response });
        } else if (line.type === "assistant") {
          uses.push(...line.message.content.filter((/** @type {any} */ block) => block.type === "tool_use"));
        } else if (line.type === "result") {
          if (line.is_error) throw new Error(`the CLI failed: ${value}`);
          return uses;
        }
      }
    },
    async end() {
      child.kill("SIGKILL");
      await closed;
    },
  };
}

/** @param {any} message */
function mcp({ method, params }) {
  switch (method) {
    case "initialize": {
      const serverInfo = { name: "df", version: "1" };
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
    }
    case "tools/list":
      return { tools: [{ name: TOOL.name, description: TOOL.description, inputSchema: TOOL.schema }] };
    default:
      return {};
  }
}
