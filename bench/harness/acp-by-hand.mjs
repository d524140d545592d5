// @ts-check
/** `gemini --acp` and `qwen --acp` by hand: a session and a prompt for each call, as `src/exchange/acp_warm` does it. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonRpc } from "./json-rpc.mjs";
import { startQwen } from "./qwen.mjs";

const SETTINGS = {
  general: { maxAttempts: 1 },
  context: { includeDirectoryTree: false },
  hooksConfig: { enabled: false },
  skills: { enabled: false },
  advanced: { ignoreLocalEnv: true },
};
const POLICY = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 998\n';

/** @param {import("./qwen.mjs").Options} options */
export function driveGeminiAcp({ cliPath, model, env }) {
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const cwd = join(folder, "empty");
  mkdirSync(join(cwd, ".gemini"), { recursive: true });
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
  const child = spawn(cliPath, [...flags, "--allowed-mcp-server-names", "none", "-m", model, "--acp"], {
    cwd,
    env: { ...process.env, ...env, ...own },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const closed = new Promise((resolve) => child.once("close", resolve));
  const gone = async () => {
    await closed;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return drive("gemini", { child, cwd, gone });
}

/** @param {import("./qwen.mjs").Options} options */
export const driveQwenAcp = (options) => drive("qwen", startQwen(options, ["--acp"]));

/** @param {string} name @param {ReturnType<typeof startQwen>} process */
function drive(name, { child, cwd, gone }) {
  const request = jsonRpc(child, name);
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
      await gone();
    },
  };
}
