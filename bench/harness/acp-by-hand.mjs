// @ts-check
/** `gemini --acp` and `qwen --acp` by hand: a session and a prompt for each call, as `src/exchange/acp_warm` does it. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonRpc } from "./json-rpc.mjs";
import { SYSTEM } from "./setting.mjs";

const SETTINGS = {
  general: { maxAttempts: 1 },
  context: { includeDirectoryTree: false },
  hooksConfig: { enabled: false },
  skills: { enabled: false },
  advanced: { ignoreLocalEnv: true },
};
const POLICY = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 998\n';
const EXCLUDED = ["read_file", "edit", "run_shell_command", "get_goal", "update_goal"];

/** @typedef {{ cliPath: string, model: string, env: Record<string, string | undefined>, [name: string]: any }} Options */

/** @param {Options} options */
export function driveGeminiAcp({ cliPath, model, env }) {
  const { folder, cwd } = scratch();
  mkdirSync(join(cwd, ".gemini"));
  writeFileSync(join(cwd, ".gemini/settings.json"), JSON.stringify(SETTINGS));
  writeFileSync(join(folder, "policy.toml"), POLICY);
  writeFileSync(join(folder, "system.txt"), "You are a model.");
  const flags = ["--skip-trust", "--policy", join(folder, "policy.toml"), "--extensions", "none"];
  const own = {
    TERM: "dumb",
    NO_COLOR: "1",
    CI: "true",
    GEMINI_CLI_NO_RELAUNCH: "true",
    GEMINI_CLI_TRUST_WORKSPACE: "true",
    GEMINI_SYSTEM_MD: join(folder, "system.txt"),
  };
  const args = [...flags, "--allowed-mcp-server-names", "none", "-m", model, "--acp"];
  return drive({ cliPath, args, env: { ...env, ...own }, folder, cwd });
}

/** @param {Options} options */
export function driveQwenAcp({ cliPath, model, env, authType }) {
  const { folder, cwd } = scratch();
  const flags = ["--auth-type", authType, "--bare", "--system-prompt", SYSTEM, "--exclude-tools", ...EXCLUDED];
  const own = { QWEN_RUNTIME_DIR: join(folder, "runtime"), QWEN_CODE_NO_RELAUNCH: "true" };
  return drive({ cliPath, args: [...flags, "--model", model, "--acp"], env: { ...env, ...own }, folder, cwd });
}

function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const cwd = join(folder, "empty");
  mkdirSync(cwd);
  return { folder, cwd };
}

/** @param {{ cliPath: string, args: string[], env: Record<string, string | undefined>, folder: string, cwd: string }} setting */
function drive({ cliPath, args, env, folder, cwd }) {
  const child = spawn(cliPath, args, { cwd, env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "ignore"] });
  const closed = new Promise((resolve) => child.once("close", resolve));
  const request = jsonRpc(child, cliPath);
  const ready = request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return {
    /** @param {string} text */
    async call(text) {
      await ready;
      const { sessionId } = await request("session/new", { cwd, mcpServers: [] });
      const { stopReason } = await request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
      if (stopReason !== "end_turn") throw new Error(`the turn has ended with ${stopReason}`);
      return child.pid;
    },
    async close() {
      child.stdin.end();
      await closed;
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
