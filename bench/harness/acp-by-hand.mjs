// @ts-check
/** `gemini --acp`, `qwen --acp` and `grok agent stdio` by hand: a session and a prompt for each call, as `src/exchange/acp/mod.rs` does it. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
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

/** Without tools, further requests, and whatever is the user's. */
const GROK_CONFIG = (/** @type {string} */ model, /** @type {string} */ url) => `[models]
max_retries = 0
[features]
telemetry = "off"
turn_summary = false
title_refresh = false
remote_fetch = false
managed_config = false
[cli]
auto_update = false
[model."${model}"]
model = "${model}"
base_url = "${url}"
env_key = "XAI_API_KEY"
api_backend = "chat_completions"
context_window = 10000000
max_retries = 0
`;
const GROK_AGENT = `---
name: pipe
description: Answers.
promptMode: full
injectDefaultTools: false
tools: [todo_write]
disallowedTools: [todo_write, search_tool, use_tool, run_terminal_cmd]
discoverSkills: false
inheritSkills: false
mcpInheritance: none
userMessageTemplate: {custom: ""}
---
`;

/** A call is a session that holds the text, since grok reads files that a prompt names. @param {import("./qwen.mjs").Options} options */
export function driveGrokAcp({ cliPath, model, env, provider }) {
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const [cwd, home] = [join(folder, "empty"), join(folder, "home")];
  for (const path of [cwd, home]) mkdirSync(path);
  writeFileSync(join(home, "config.toml"), GROK_CONFIG(model, provider.baseUrl));
  writeFileSync(join(folder, "agent.md"), GROK_AGENT);
  const flags = ["agent", "--no-leader", "--agent-profile", join(folder, "agent.md"), "-m", model, "stdio"];
  const own = { GROK_HOME: home, XAI_API_KEY: provider.apiKey, GROK_TURN_TRANSIENT_RETRY: "0" };
  const child = spawn(cliPath, flags, {
    cwd,
    env: { ...process.env, ...env, ...own },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const closed = new Promise((resolve) => child.once("close", resolve));
  const request = jsonRpc(child, "grok");
  const ready = request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const sessions = join(home, "sessions", encodeURIComponent(cwd));
  return {
    /** @param {string} text */
    async call(text) {
      await ready;
      const sessionId = randomUUID();
      const at = join(sessions, sessionId);
      mkdirSync(at, { recursive: true });
      const time = "2026-01-01T00:00:00Z";
      const summary = {
        info: { id: sessionId, cwd },
        session_summary: "x",
        generated_title: "x",
        created_at: time,
        updated_at: time,
        last_active_at: time,
        num_messages: 2,
        num_chat_messages: 2,
        current_model_id: model,
        next_trace_turn: 1,
        chat_format_version: 1,
        session_kind: "headless",
        agent_name: "pipe",
        sandbox_profile: "off",
      };
      const lines = [
        { type: "system", content: "You are a model." },
        { type: "user", content: [{ type: "text", text }], prompt_index: 0 },
      ];
      writeFileSync(join(at, "summary.json"), JSON.stringify(summary));
      writeFileSync(join(at, "chat_history.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      await request("session/load", { sessionId, cwd, mcpServers: [] });
      const prompt = [{ type: "text", text: "Reply with the assistant's next message." }];
      const { stopReason } = await request("session/prompt", { sessionId, prompt, _meta: { verbatim: true } });
      if (stopReason !== "end_turn") throw new Error(`the turn has ended with ${stopReason}`);
      request("session/close", { sessionId }).then(
        () => rmSync(at, { recursive: true, force: true, maxRetries: 5 }),
        () => {},
      );
      return child.pid;
    },
    async close() {
      child.kill();
      await closed;
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

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
