// @ts-check
/**
 * `npm run bench:loop`: an agent's loop of ten steps with the real claude CLI, against a scripted API that answers at once.
 *
 * In flows nothing; out flows a table: the print engine, the live one, the live one with a spare, and as the floor the bare CLI
 * driven by hand with the same protocol. For each: processes, requests, bytes sent to the API, the time of the whole loop, and
 * how long the first and the later calls take to reach the API. Medians of interleaved rounds.
 *
 * Needs the addon (`npm run build`). `node bench/loop.mjs oldest` takes the oldest supported CLI.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createClaudeCliProvider } from "deep-factor-providers/native";
import { startAnthropic } from "../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../__tests__/support/claude.mjs";
import { writeToolCalls } from "../__tests__/support/model.mjs";

const STEPS = 10;
const ROUNDS = 5;
const which = process.argv[2] === "oldest" ? "oldest" : "newest";
const schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const tool = { name: "step", description: "Takes one step", schema };
const SYSTEM = "Take ten steps.";
const QUESTION = "Go.";

/** @typedef {{ processes: number, requests: number, bytes: number, total: number, first: number, later: number }} Figures */
/** @typedef {Awaited<ReturnType<typeof startAnthropic>>} Api */

/** @type {(request: unknown, index: number) => import("../__tests__/support/anthropic.mjs").Answer} */
const native = (_, n) =>
  n < STEPS - 1
    ? { content: [{ type: "tool_use", id: `toolu_${n}`, name: "mcp__df__step", input: { n } }] }
    : { text: "Arrived." };
/** @type {(request: unknown, index: number) => import("../__tests__/support/anthropic.mjs").Answer} */
const written = (_, n) =>
  n < STEPS - 1 ? { text: writeToolCalls([{ name: "step", args: { n }, id: `call_${n}` }]) } : { text: "Arrived." };

/**
 * @param {Api} api
 * @param {number} began
 * @param {number} ended
 * @param {number[]} waits from a call to its request's arrival
 * @param {Set<number>} pids
 * @returns {Figures}
 */
function figures(api, began, ended, waits, pids) {
  const [first = 0, ...later] = waits;
  return {
    processes: pids.size,
    requests: api.requests.length,
    bytes: api.requests.reduce((sum, { bytes }) => sum + bytes, 0),
    total: ended - began,
    first,
    later: median(later),
  };
}

/**
 * @param {object} options
 * @param {typeof native} script
 * @returns {Promise<Figures>}
 */
async function ours(options, script) {
  /** @type {number[]} */
  const arrivals = [];
  const api = await startAnthropic((request, index) => {
    arrivals.push(performance.now());
    return script(request, index);
  });
  const claude = isolateClaude({ which, baseUrl: api.url });
  const provider = createClaudeCliProvider({ cliPath: claude.cliPath, env: claude.env, model: "sonnet", ...options });
  try {
    await provider.prewarm();
    if ("spares" in options) await new Promise((resolve) => setTimeout(resolve, 1500));
    const agent = provider.bindTools([tool]);
    /** @type {unknown[]} */
    /** @type {import("deep-factor-providers").MessageInput[]} */
    const thread = [
      { role: "system", content: SYSTEM },
      { role: "user", content: QUESTION },
    ];
    /** @type {number[]} */
    const calls = [];
    /** @type {Set<number>} */
    const pids = new Set();
    const began = performance.now();
    for (;;) {
      calls.push(performance.now());
      const reply = await agent.invoke(thread);
      pids.add(reply.response_metadata.run?.pid ?? 0);
      thread.push(reply);
      if (!reply.tool_calls.length) break;
      for (const { id, args } of reply.tool_calls) {
        thread.push({ type: "tool", tool_call_id: id, content: `Step ${args.n} is taken.` });
      }
    }
    const ended = performance.now();
    return figures(api, began, ended, waits(calls, arrivals), pids);
  } finally {
    await provider.close();
    await api.close();
    claude.cleanup();
  }
}

/**
 * The same loop with nothing between Node and the CLI.
 * @returns {Promise<Figures>}
 */
async function bare() {
  /** @type {number[]} */
  const arrivals = [];
  const api = await startAnthropic((request, index) => {
    arrivals.push(performance.now());
    return native(request, index);
  });
  const claude = isolateClaude({ which, baseUrl: api.url });
  const cwd = mkdtempSync(join(tmpdir(), "dfp-bare-"));
  const began = performance.now();
  const env = { CLAUDE_CODE_MAX_RETRIES: "0", CLAUDE_CODE_DISABLE_ATTACHMENTS: "1", ENABLE_TOOL_SEARCH: "false" };
  const flags = "-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages";
  const pure = ["--safe-mode", "--setting-sources", "user", "--tools", "", "--strict-mcp-config"];
  const child = spawn(claude.cliPath, [...flags.split(" "), "--model", "sonnet", ...pure, "--no-session-persistence"], {
    cwd,
    env: { ...process.env, ...claude.env, ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    /** @param {object} line */
    const say = (line) => child.stdin.write(`${JSON.stringify(line)}\n`);
    /** @param {string} request_id @param {object} response */
    const answer = (request_id, response) =>
      say({ type: "control_response", response: { subtype: "success", request_id, response } });
    /** @type {number[]} */
    const calls = [began];
    const hooks = { PreToolUse: [{ matcher: "mcp__df__.*", hookCallbackIds: ["h1"] }] };
    const request = { subtype: "initialize", systemPrompt: SYSTEM, sdkMcpServers: ["df"], hooks };
    say({ type: "control_request", request_id: "r1", request });
    say({ type: "user", message: { role: "user", content: QUESTION } });
    /** @type {any[]} */
    let uses = [];
    for await (const text of createInterface({ input: child.stdout })) {
      const line = JSON.parse(text);
      if (line.type === "control_request" && line.request.subtype === "hook_callback") {
        const decision = { hookEventName: "PreToolUse", permissionDecision: "defer" };
        answer(line.request_id, { hookSpecificOutput: decision });
      } else if (line.type === "control_request") {
        answer(line.request_id, {
          mcp_response: { jsonrpc: "2.0", id: line.request.message.id ?? 0, result: mcp(line) },
        });
      } else if (line.type === "assistant") {
        uses.push(...line.message.content.filter((/** @type {any} */ block) => block.type === "tool_use"));
      } else if (line.type === "result") {
        if (uses.length === 0) break;
        const content = uses.map(({ id, input }) => ({
          type: "tool_result",
          tool_use_id: id,
          content: `Step ${input.n} is taken.`,
        }));
        uses = [];
        calls.push(performance.now());
        say({ type: "user", message: { role: "user", content } });
      }
    }
    const ended = performance.now();
    return figures(api, began, ended, waits(calls, arrivals), new Set([child.pid ?? 0]));
  } finally {
    child.kill("SIGKILL");
    await api.close();
    claude.cleanup();
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** @param {any} line */
function mcp({ request: { message } }) {
  switch (message.method) {
    case "initialize":
      return {
        protocolVersion: message.params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "df", version: "1" },
      };
    case "tools/list":
      return { tools: [{ name: tool.name, description: tool.description, inputSchema: schema }] };
    default:
      return {};
  }
}

/**
 * @param {number[]} calls
 * @param {number[]} arrivals
 */
function waits(calls, arrivals) {
  return arrivals.map((arrival, n) => arrival - (calls[n] ?? arrival));
}

/** @param {number[]} values */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

/** @type {Record<string, () => Promise<Figures>>} */
const contenders = {
  print: () => ours({ engine: "print" }, written),
  live: () => ours({ engine: "live" }, native),
  "live, with a spare": () => ours({ engine: "live", spares: 1 }, native),
  "the bare CLI by hand": bare,
};
/** @type {Record<string, Figures[]>} */
const measured = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, run] of Object.entries(contenders)) measured[name]?.push(await run());
}
console.log(`${STEPS} steps, claude ${which}, medians of ${ROUNDS} rounds, ms\n`);
console.log(
  "| | processes | requests | bytes to the API | whole loop | first call to the API | later calls to the API |",
);
console.log("|---|---|---|---|---|---|---|");
for (const [name, runs] of Object.entries(measured)) {
  /** @param {keyof Figures} key */
  const of = (key) => median(runs.map((run) => run[key]));
  const row = [of("processes"), of("requests"), of("bytes"), of("total"), of("first"), of("later")];
  console.log(`| ${name} | ${row.map((value) => Math.round(value).toLocaleString("en")).join(" | ")} |`);
}
