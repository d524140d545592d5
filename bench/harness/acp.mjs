// @ts-check
/**
 * codex behind the Agent Client Protocol: `codex-acp`, one process, a session per conversation, driven as an editor drives it.
 *
 * In flow user messages of a conversation; out flows the end of each turn. The protocol has no tools of the client's own, so it can
 * only talk. The binary is large (223 MB) and no package of bench/peers: who wants it in the comparison installs it there first.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

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
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const waiting = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, method, result, error } = JSON.parse(line);
    if (method !== undefined) return;
    const asker = waiting.get(id);
    waiting.delete(id);
    if (error) asker?.reject(new Error(`codex-acp refused a request: ${line}`));
    else asker?.resolve(result);
  });
  let last = 0;
  /** @param {string} method @param {object} params @returns {Promise<any>} */
  const request = (method, params) => {
    const id = ++last;
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  };
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
