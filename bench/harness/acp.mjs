// @ts-check
/**
 * codex behind the Agent Client Protocol: `codex-acp`, one process, a session per conversation, driven as an editor drives it.
 *
 * In flow user messages of a conversation; out flows the end of each turn. The protocol has no tools of the client's own, so it can
 * only talk. The binary is large (223 MB) and no package of bench/peers: who wants it in the comparison installs it there first.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { jsonRpc } from "./json-rpc.mjs";

const NAME = `@zed-industries/codex-acp-${process.platform}-${process.arch}`;
const CACHE = new URL("../../.cache/bench/acp/node_modules/", import.meta.url);

/** Where codex-acp is, installed or not. */
export const ACP = fileURLToPath(new URL(`${NAME}/bin/codex-acp${process.platform === "win32" ? ".exe" : ""}`, CACHE));

/** Whether it is there: `npm install --prefix .cache/bench/acp @zed-industries/codex-acp`. */
export const hasAcp = () => existsSync(ACP);

/** @param {{ cwd: string, wholeEnv: Record<string, string> }} setting */
export function driveAcp({ cwd, wholeEnv }) {
  const child = spawn(ACP, [], { cwd, env: wholeEnv, stdio: ["pipe", "pipe", "ignore"] });
  const closed = new Promise((resolve) => child.once("close", resolve));
  const request = jsonRpc(child, "codex-acp");
  const ready = request("initialize", { protocolVersion: 1, clientCapabilities: {} });

  return {
    /** A conversation of its own. */
    async open() {
      await ready;
      const { sessionId } = await request("session/new", { cwd, mcpServers: [] });
      return {
        /** @param {string} text */
        async talk(text) {
          const { stopReason } = await request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
          if (stopReason !== "end_turn") throw new Error(`the turn has ended with ${stopReason}`);
        },
      };
    },
    async close() {
      child.kill();
      await closed;
    },
  };
}
