// @ts-check
/**
 * The floor of copilot's live engine: the bare `copilot --headless --stdio`, driven by hand with the same requests: calls wait in the session,
 * and are answered there.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SYSTEM, TOOL } from "./setting.mjs";

const FLAGS = ["--headless", "--no-auto-update", "--stdio", "--no-auto-login", "--log-level", "none"];
/** What keeps a session to what it is told. */
const LEAN = {
  streaming: true,
  envValueMode: "direct",
  requestPermission: false,
  enableConfigDiscovery: false,
  infiniteSessions: { enabled: false },
  largeOutput: { enabled: false },
  enableSessionTelemetry: false,
  skipEmbeddingRetrieval: true,
  enableFileHooks: false,
  enableSessionStore: false,
  enableSkills: false,
  memory: { enabled: false },
};

/** @param {{ cliPath: string, model: string, env: Record<string, string | undefined>, [name: string]: any }} options */
export function driveCopilotHeadless({ cliPath, model, env, provider }) {
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const [cwd, home] = [join(folder, "empty"), join(folder, "home")];
  for (const each of [cwd, home]) mkdirSync(each);
  const child = spawn(cliPath, FLAGS, {
    cwd,
    // Offline, it does not start without a model API in its environment.
    env: { ...process.env, ...env, COPILOT_HOME: home, COPILOT_OFFLINE: "" },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const closed = new Promise((resolve) => child.once("close", resolve));
  const sessionId = crypto.randomUUID();
  let asked = 0;
  /** @type {Map<number, (result: any) => void>} */
  const waiting = new Map();
  /** @param {string} method @param {object} params @returns {Promise<any>} */
  const request = (method, params) => {
    asked += 1;
    const body = JSON.stringify({ jsonrpc: "2.0", id: asked, method, params });
    child.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    return new Promise((resolve) => waiting.set(asked, resolve));
  };
  /** Of the turn that goes on: its calls, those that wait, and what ends it. */
  let [calls, pending, over] = [/** @type {any[]} */ ([]), /** @type {any[]} */ ([]), (/** @type {any} */ _) => {}];
  readFrames(child.stdout, ({ id, method, result, params }) => {
    if (method === undefined) return waiting.get(id)?.(result);
    const { type, data } = method === "session.event" ? params.event : {};
    if (type === "assistant.message") calls = data.toolRequests;
    if (type === "external_tool.requested") pending.push(data);
    if (type === "external_tool.requested" && pending.length === calls.length) over(pending);
    if (type === "session.idle") over([]);
  });
  const start = async () => {
    await request("connect", {});
    const tool = { name: TOOL.name, description: TOOL.description, parameters: TOOL.schema, skipPermission: true };
    await request("session.create", {
      ...{ sessionId, model, workingDirectory: cwd, availableTools: [TOOL.name], tools: [tool], ...LEAN },
      provider: { type: "openai", wireApi: "completions", ...provider },
      systemMessage: { mode: "replace", content: SYSTEM },
    });
  };
  /** @type {Promise<void> | undefined} */
  let started;
  return {
    pid: () => child.pid,
    /** One turn: the user's text, or what the calls of the last one gave. @param {string | string[]} input */
    async turn(input) {
      started ??= start();
      await started;
      const answered = pending;
      pending = [];
      const turn = new Promise((resolve) => {
        over = resolve;
      });
      if (Array.isArray(input)) {
        for (const [n, { requestId }] of answered.entries()) {
          const result = { textResultForLlm: input[n], resultType: "success" };
          void request("session.tools.handlePendingToolCall", { sessionId, requestId, result });
        }
      } else void request("session.send", { sessionId, prompt: input });
      return (await turn).map((/** @type {any} */ call) => call.arguments);
    },
    async close() {
      child.stdin.end();
      await closed;
      process.off("exit", kill);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * @param {import("node:stream").Readable} stream
 * @param {(message: any) => void} each
 */
function readFrames(stream, each) {
  let bytes = Buffer.alloc(0);
  stream.on("data", (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    for (;;) {
      const end = bytes.indexOf("\r\n\r\n");
      const length = Number(/content-length: *(\d+)/i.exec(bytes.subarray(0, Math.max(end, 0)).toString())?.[1]);
      if (end < 0 || bytes.length < end + 4 + length) return;
      each(JSON.parse(bytes.subarray(end + 4, end + 4 + length).toString("utf8")));
      bytes = bytes.subarray(end + 4 + length);
    }
  });
}
