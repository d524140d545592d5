// @ts-check
/**
 * The floor of codex's live engine: the bare `codex app-server`, driven by hand. One process, a thread per conversation.
 *
 * In flow user messages of a conversation; out flows the end of each turn. Its tools are run by the caller, whose results go back as
 * the replies to the app-server's own requests.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** @typedef {{ name: string, description: string, schema: object }} Tool */

/** What its app-server is told to leave out, so that a request is no larger than it has to be. */
const SETTINGS = [
  "features.plugins=false",
  "features.apps=false",
  "features.remote_plugin=false",
  "analytics.enabled=false",
  "features.unbounded_connection_retries=false",
  "skills.bundled.enabled=false",
  "check_for_update_on_startup=false",
  "suppress_unstable_features_warning=true",
];
const THREAD = {
  "skills.include_instructions": false,
  include_permissions_instructions: false,
  include_collaboration_mode_instructions: false,
  include_environment_context: false,
  "tools.experimental_request_user_input.enabled": false,
  "agents.enabled": false,
  "features.multi_agent": false,
  "features.goals": false,
  "features.shell_tool": false,
  "features.view_image": false,
  "features.sleep_tool": false,
  "features.code_mode_host": false,
  web_search: "disabled",
};

/**
 * @param {{ cliPath: string, cwd: string, wholeEnv: Record<string, string>, model: string, system: string }} setting
 * `cliPath`: the native binary
 */
export function driveCodexByHand({ cliPath, cwd, wholeEnv, model, system }) {
  const flags = SETTINGS.flatMap((one) => ["-c", one]);
  const child = spawn(cliPath, ["app-server", ...flags], { cwd, env: wholeEnv, stdio: ["pipe", "pipe", "ignore"] });
  const closed = new Promise((resolve) => child.once("close", resolve));
  /** @type {Map<number, (reply: any) => void>} */
  const replies = new Map();
  /** @type {Map<string, (turn: any) => void>} */
  const turns = new Map();
  /** @type {Map<string, (args: any) => string>} */
  const tools = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, method, params, result, error } = JSON.parse(line);
    if (method === "item/tool/call") {
      const text = tools.get(params.threadId)?.(params.arguments) ?? "";
      const result = { contentItems: [{ type: "inputText", text }], success: true };
      child.stdin.write(`${JSON.stringify({ id, result })}\n`);
    }
    if (method === "turn/completed") turns.get(params.threadId)?.(params.turn);
    if (method !== undefined) return;
    if (error) throw new Error(`codex refused a request: ${line}`);
    replies.get(id)?.(result);
    replies.delete(id);
  });
  let last = 0;
  /** @param {string} method @param {object} params @returns {Promise<any>} */
  const request = (method, params) => {
    const id = ++last;
    child.stdin.write(`${JSON.stringify({ id, method, params })}\n`);
    return new Promise((resolve) => replies.set(id, resolve));
  };
  const ready = request("initialize", {
    clientInfo: { name: "bench", title: "bench", version: "1" },
    capabilities: { experimentalApi: true, requestAttestation: false },
  }).then(() => void child.stdin.write('{"method":"initialized"}\n'));

  return {
    pid: child.pid,
    /**
     * A conversation of its own.
     * @param {Tool} [tool] its only one
     * @param {(args: any) => string} [run] the tool's result
     */
    async open(tool, run) {
      await ready;
      const dynamicTools = tool && [
        { type: "function", name: tool.name, description: tool.description, inputSchema: tool.schema },
      ];
      const { thread } = await request("thread/start", {
        cwd,
        model,
        approvalPolicy: "never",
        sandbox: "read-only",
        baseInstructions: "",
        developerInstructions: system,
        ephemeral: true,
        environments: [],
        experimentalRawEvents: true,
        config: THREAD,
        dynamicTools,
      });
      if (run) tools.set(thread.id, run);
      return {
        /** @param {string} text */
        async talk(text) {
          const over = new Promise((resolve) => turns.set(thread.id, resolve));
          const content = [{ type: "input_text", text }];
          request("thread/inject_items", { threadId: thread.id, items: [{ type: "message", role: "user", content }] });
          request("turn/start", { threadId: thread.id, input: [] });
          const turn = await over;
          if (turn.status !== "completed") throw new Error(`the turn has failed: ${JSON.stringify(turn)}`);
        },
      };
    },
    async close() {
      child.stdin.end();
      await closed;
    },
  };
}
