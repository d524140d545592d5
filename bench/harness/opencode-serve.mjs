// @ts-check
/**
 * The floor of opencode's live engine: the bare `opencode serve`, driven by hand with the same requests: calls are asked for, rejected,
 * and completed by PATCH, so that the turn ends with them.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startMcp } from "./mcp-server.mjs";
import { SYSTEM } from "./setting.mjs";

const PASSWORD = "bench";
const HEADERS = {
  authorization: `Basic ${Buffer.from(`opencode:${PASSWORD}`).toString("base64")}`,
  "content-type": "application/json",
};
const PERMISSION = { "*": "deny", "df_*": "ask", doom_loop: "allow", invalid: "allow" };
const CONFIG = {
  autoupdate: false,
  share: "disabled",
  snapshot: false,
  compaction: { auto: false, prune: false },
  agent: { pipe: { mode: "primary", prompt: " ", permission: PERMISSION } },
};
const ENV = {
  OPENCODE_DB: ":memory:",
  OPENCODE_DISABLE_PROJECT_CONFIG: "1",
  OPENCODE_DISABLE_CLAUDE_CODE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  OPENCODE_PURE: "1",
  OPENCODE_SERVER_PASSWORD: PASSWORD,
  npm_config_registry: "http://127.0.0.1:9",
};

/** @param {{ cliPath: string, model: string, env: Record<string, string | undefined>, [name: string]: any }} options */
export function driveOpencodeServe({ cliPath, model: name, env, config }) {
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const [cwd, temp, settings] = ["empty", "tmp", "config"].map((each) => join(folder, each));
  for (const each of [cwd, temp, settings]) mkdirSync(/** @type {string} */ (each));
  const content = JSON.stringify({ ...CONFIG, enabled_providers: Object.keys(config.provider), ...config });
  const own = { PWD: cwd, TMPDIR: temp, XDG_CONFIG_HOME: settings, OPENCODE_CONFIG_CONTENT: content };
  const child = spawn(cliPath, ["serve", "--port", "0", "--hostname", "127.0.0.1"], {
    cwd,
    env: { ...process.env, ...env, ...ENV, ...own },
    stdio: ["ignore", "pipe", "ignore"],
  });
  // It goes on serving when its parent is gone.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const closed = new Promise((resolve) => child.once("close", resolve));
  const listening = Promise.race([addressOf(child.stdout), closed.then(() => ended())]);
  const [providerID, modelID] = name.split("/");
  /** @type {{ id: string, [field: string]: any }[]} */
  let pending = [];
  /** @param {string} path @param {string} method @param {object} [body] @returns {Promise<any>} */
  const request = async (path, method, body) => {
    const response = await fetch(`${await listening}${path}`, {
      method,
      headers: HEADERS,
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`opencode answered ${method} ${path} with ${response.status}`);
    return response.json();
  };
  const start = async () => {
    const mcp = await startMcp(() => Promise.reject(new Error("opencode ran a call that was to be rejected")));
    await request("/mcp", "POST", { name: "df", config: { type: "remote", url: mcp.url, oauth: false } });
    const events = await fetch(`${await listening}/event`, { headers: HEADERS });
    void reject(/** @type {ReadableStream<Uint8Array>} */ (events.body), request).catch(() => {});
    const { id } = await request("/session", "POST", { title: "x" });
    return { mcp, id };
  };
  /** @type {ReturnType<typeof start> | undefined} */
  let started;
  return {
    pid: () => child.pid,
    /** One turn: the user's text, or what the calls of the last one gave. @param {string | string[]} input */
    async turn(input) {
      started ??= start();
      const { id } = await started;
      const at = `/session/${id}/message`;
      if (Array.isArray(input)) {
        for (const [n, part] of pending.entries()) {
          const { input: args, time } = part.state;
          const state = { status: "completed", input: args, output: input[n], title: "", metadata: {}, time };
          await request(`${at}/${part.messageID}/part/${part.id}`, "PATCH", { ...part, state });
        }
      }
      const parts = Array.isArray(input) ? [] : [{ type: "text", text: input }];
      const message = { agent: "pipe", model: { providerID, modelID }, system: SYSTEM, parts };
      const reply = await request(at, "POST", message);
      if (reply.info.error) throw new Error(`the turn has failed: ${JSON.stringify(reply.info.error)}`);
      pending = reply.parts.filter((/** @type {any} */ part) => part.type === "tool");
      return pending.map((part) => part.state.input);
    },
    async close() {
      const { mcp } = (await started?.catch(() => undefined)) ?? {};
      kill();
      process.off("exit", kill);
      await closed;
      await mcp?.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** @returns {never} */
function ended() {
  throw new Error("opencode has ended");
}

/** @param {import("node:stream").Readable} stdout @returns {Promise<string>} */
function addressOf(stdout) {
  return new Promise((resolve) => {
    createInterface({ input: stdout }).on("line", (line) => {
      const [, address] = /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(line) ?? [];
      if (address) resolve(address);
    });
  });
}

/**
 * Rejects each call that is asked for. One rejection is for all of a session: a later one may be too late, and need not be heard.
 * @param {ReadableStream<Uint8Array>} events
 * @param {(path: string, method: string, body: object) => Promise<any>} request
 */
async function reject(events, request) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of events) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      const { type, properties } = JSON.parse(line.slice("data: ".length));
      if (type !== "permission.asked") continue;
      request(`/permission/${properties.id}/reply`, "POST", { reply: "reject" }).catch(() => {});
    }
  }
}
