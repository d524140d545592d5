// @ts-check
/**
 * An agent of the Agent Client Protocol that keeps none of its rules: `node hostile-acp.mjs <log> <mood> [name]`. What it is sent goes to the log, a line
 * each. In the mood "rules" it breaks all that it can and answers in the end; the others are what the answer comes to, or what becomes of it.
 * Where there is a file `<log>.mood`, its mood is the one that stands there when it is sent something.
 * A mood of `CALLING` calls the tools of its session's server, and does with them what it should not; what they come to goes to the log.
 */
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { moodOf } from "./moods.mjs";

const [, , log = "", begun = "", name = "hostile"] = process.argv;
let mood = begun;
const write = (/** @type {string | Uint8Array} */ text) => process.stdout.write(text);
const say = (/** @type {object} */ message) => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const chunk = (/** @type {unknown} */ sessionId, /** @type {unknown} */ text, kind = "agent_message_chunk") =>
  say({
    method: "session/update",
    params: { sessionId, update: { sessionUpdate: kind, content: { type: "text", text } } },
  });

function breakRules() {
  write("not JSON\n\n{\n[1,2\n[]\nnull\n7\n");
  write(Buffer.from([0xff, 0xfe, 0x0a]));
  write(`{"jsonrpc":"2.0","id":1,"result":"${"x".repeat(3_000_000)}\n`);
  say({ id: 999_999, result: { sessionId: "nobody's" } });
  say({ id: "1", result: {} });
  say({ id: null, error: { code: -1, message: "for nobody" } });
  say({ id: -1, result: {} });
  say({ method: "session/update" });
  say({ method: "session/update", params: { sessionId: 7, update: null } });
  say({ method: "_x.own/thing", params: [1] });
  chunk("another's session", "not for this call");
  chunk("__proto__", "nor this");
}

/** @param {string} sessionId @param {object} update */
const tell = (sessionId, update) => say({ method: "session/update", params: { sessionId, update } });

/** @param {unknown} sessionId */
function askForMore(sessionId) {
  say({ id: "f1", method: "fs/read_text_file", params: { sessionId, path: "/etc/passwd" } });
  say({ id: "f2", method: "fs/write_text_file", params: { sessionId, path: "/tmp/x", content: "x" } });
  say({ id: "t1", method: "terminal/create", params: { sessionId, command: "id" } });
  const options = [{ optionId: "yes", name: "Yes", kind: "allow_always" }];
  say({
    id: "p1",
    method: "session/request_permission",
    params: { sessionId, toolCall: { toolCallId: "c" }, options },
  });
}

/** The servers of its sessions, by their ids. @type {Map<string, { url: string, headers: { name: string, value: string }[] }>} */
const servers = new Map();
const note = (/** @type {object} */ what) => appendFileSync(log, `${JSON.stringify(what)}\n`);

/** @param {{ url: string, headers: { name: string, value: string }[] }} server */
async function connect({ url, headers }) {
  const own = Object.fromEntries(headers.map(({ name, value }) => [name, value]));
  const accept = "application/json, text/event-stream";
  const post = (/** @type {object} */ body, session = "") =>
    fetch(url, {
      method: "POST",
      headers: { ...own, accept, "content-type": "application/json", ...(session && { "mcp-session-id": session }) },
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
    });
  const clientInfo = { name: "hostile", version: "1" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const opened = await post({ id: 0, method: "initialize", params });
  const session = opened.headers.get("mcp-session-id") ?? "";
  await opened.text();
  let next = 1;
  /** The text of the tool's result. */
  return async (/** @type {string} */ name, /** @type {object} */ args) => {
    const answer = await post({ id: next++, method: "tools/call", params: { name, arguments: args } }, session);
    const data = (await answer.text()).split("\n").findLast((line) => line.startsWith("data: {"));
    const { result } = JSON.parse((data ?? "data: {}").slice(6));
    return String(result?.content?.[0]?.text ?? "no result");
  };
}

/** What is asked of the client, and its answers. @type {Map<string, (answer: any) => void>} */
const asked = new Map();
function askPermission(/** @type {string} */ sessionId, /** @type {object} */ toolCall) {
  const id = `p${asked.size}`;
  const options = [
    { optionId: "always", name: "Always", kind: "allow_always" },
    { optionId: "once", name: "Once", kind: "allow_once" },
  ];
  say({ id, method: "session/request_permission", params: { sessionId, toolCall, options } });
  return new Promise((resolve) => asked.set(id, resolve));
}

/**
 * What it does with the tools of its session. `end`: it ends its turn.
 * @type {Record<string, (call: (name: string, args: object) => Promise<string>, sessionId: string, end: () => void) => Promise<unknown>>}
 */
const CALLING = {
  atOnce: async (call, sessionId, end) => {
    chunk(sessionId, "Let me add.");
    const sums = await Promise.all([1, 2].map((a) => call("add", { a })));
    chunk(sessionId, sums.join(" and "));
    end();
  },
  inTurn: async (call, sessionId, end) => {
    for (const a of [1, 2]) chunk(sessionId, `${await call("add", { a })}. `);
    end();
  },
  afterTheEnd: async (call, sessionId, end) => {
    chunk(sessionId, "Done.");
    end();
    note({ late: await call("add", { a: 1 }) });
  },
  withoutWaiting: async (call, sessionId, end) => {
    const sum = call("add", { a: 1 });
    chunk(sessionId, "Done without it.");
    end();
    note({ late: await sum });
  },
  givesUp: async (call, sessionId, end) => {
    if (servers.size > 1) {
      chunk(sessionId, "Another session.");
      return end();
    }
    const sum = call("add", { a: 1 });
    tell(sessionId, { sessionUpdate: "tool_call", toolCallId: "c1", name: "mcp__df__add", status: "pending" });
    await new Promise((resolve) => setTimeout(resolve, 500));
    end();
    note({ late: await sum });
  },
  lateWords: async (call, sessionId, end) => {
    const sum = call("add", { a: 1 });
    // A call comes over another connection than these, which may be slower.
    await new Promise((resolve) => setTimeout(resolve, 400));
    chunk(sessionId, "Let me add.");
    tell(sessionId, { sessionUpdate: "tool_call", toolCallId: "c1", name: "mcp__df__add", status: "pending" });
    chunk(sessionId, await sum);
    end();
  },
  diesOfTheResult: async (call, sessionId) => {
    const sum = call("add", { a: 1 });
    tell(sessionId, { sessionUpdate: "tool_call", toolCallId: "c1", name: "mcp__df__add", status: "pending" });
    // By now the turn has ended with the call.
    await new Promise((resolve) => setTimeout(resolve, 500));
    tell(sessionId, { sessionUpdate: "tool_call_update", toolCallId: "c1", status: "in_progress" });
    // Whoever has answered this has read what came before it.
    await askPermission(sessionId, { toolCallId: "c1" });
    note({ waits: true });
    await sum;
    process.exit(1);
  },
  unknownTool: async (call, sessionId, end) => {
    chunk(sessionId, await call("rm", { path: "/" }));
    end();
  },
  permissions: async (_, sessionId, end) => {
    const told = (/** @type {object} */ call) => {
      const update = { sessionUpdate: "tool_call", status: "pending", ...call };
      say({ method: "session/update", params: { sessionId, update } });
    };
    const add = { toolCallId: "c1", _meta: { toolName: "mcp__df__add" } };
    note({ permitted: await askPermission(sessionId, add) });
    note({ permitted: await askPermission(sessionId, { toolCallId: "n1", name: "mcp__df__add", kind: "other" }) });
    told({ toolCallId: "n2", name: "df_add", title: "Adds" });
    note({ permitted: await askPermission(sessionId, { toolCallId: "n2", title: "Adds 1 and 2" }) });
    told({ toolCallId: "k1", name: "mcp__df__add", kind: "execute" });
    told({ toolCallId: "t1", title: "mcp__df__add", kind: "other" });
    for (const toolCall of [
      { toolCallId: "c2", title: "add (df MCP Server)" },
      { toolCallId: "c3", title: "mcp__df__add", _meta: { toolName: "run_shell_command" } },
      { toolCallId: "mcp_df_add__c3", _meta: { toolName: "run_shell_command" } },
      { toolCallId: "mcp_df_addendum" },
      // Its id is of whoever answers as the API, and its title may be the model's words.
      { toolCallId: "df_add__c1", title: "bash", kind: "execute" },
      { toolCallId: "mcp_df_add__c4", title: "add" },
      { toolCallId: "t1", title: "mcp__df__add" },
      { toolCallId: "k1", name: "mcp__df__add", kind: "other" },
      { toolCallId: "k2", name: "mcp__df__add", kind: "edit" },
    ]) {
      note({ refused: await askPermission(sessionId, toolCall) });
    }
    note({ refused: await askPermission("another's session", add) });
    chunk(sessionId, "Done.");
    end();
  },
  // As kimi 2.1.0 asks (recording acp-mcp-tools).
  titles: async (call, sessionId, end) => {
    const told = { toolCallId: "0:call_A", title: "mcp__df__add", kind: "other" };
    const pending = { sessionUpdate: "tool_call", status: "pending", ...told };
    say({ method: "session/update", params: { sessionId, update: pending } });
    const asked = { toolCallId: "0:call_A", title: "mcp__df__add" };
    const answer = /** @type {any} */ (await askPermission(sessionId, asked));
    chunk(sessionId, answer.outcome.optionId === "once" ? await call("add", { a: 1 }) : "It was refused.");
    end();
  },
};

/** How its turn ends, by its mood. @type {Record<string, string | undefined>} */
const STOPS = {
  max_tokens: "max_tokens",
  refusal: "refusal",
  error: "error",
  pause: "pause_turn",
  noReason: undefined,
};

/** How often a prompt has come. */
let prompts = 0;
/** An error of an API's as grok 1.0.41 tells it. */
const apiError = (/** @type {number} */ status, /** @type {string} */ message) => ({
  code: -32_603,
  message: "Internal error",
  data: { message, http_status: status },
});

/** What a session offers, as opencode 1.18.34 and kimi 2.1.0 do. */
const select = (/** @type {string} */ id, /** @type {string} */ category, /** @type {string[]} */ values) => ({
  id,
  category,
  type: "select",
  currentValue: values[0],
  options: values.map((value) => ({ value, name: value })),
});
const OPTIONS = [select("llm", "model", ["m1", "m2"]), select("thinking", "thought_level", ["low", "high"])];
/** What a session in a mood calls no reasoning. @type {Record<string, string[]>} */
const OFF_WORDS = { off: ["off"], none: ["none"], noneThenOff: ["none", "off"] };

/** @type {Record<string, (id: number, params: any) => void>} */
const METHODS = {
  "session/set_model": (id) => say({ id, result: {} }),
  "session/set_config_option": (id) => say({ id, result: { configOptions: OPTIONS } }),
  initialize: (id) => {
    if (mood === "mute") return;
    if (mood === "rules") breakRules();
    const result = {
      protocolVersion: mood === "newer" ? 2 : 1,
      agentInfo: { name, version: "9.9.9" },
      ...((mood in CALLING || mood === "ignoresTools") && { agentCapabilities: { mcpCapabilities: { http: true } } }),
    };
    say({ id, result });
    if (mood === "rules") say({ id, result });
  },
  "session/new": (id, { mcpServers }) => {
    if (mcpServers?.length > 0) servers.set(`s${id}`, mcpServers[0]);
    const answers = /** @type {Record<string, object>} */ ({
      leaky: { error: { code: -32_603, message: `the key ${process.env.LEAKED_API_KEY} is wrong` } },
      nobody: { error: { code: -32_000, message: "Authentication required" } },
      models: { result: { sessionId: `s${id}`, models: { currentModelId: "m1", availableModels: [] } } },
      options: { result: { sessionId: `s${id}`, configOptions: OPTIONS } },
      ...(mood in OFF_WORDS && {
        [mood]: {
          result: {
            sessionId: `s${id}`,
            configOptions: [select("thinking", "thought_level", ["high", ...(OFF_WORDS[mood] ?? [])])],
          },
        },
      }),
      nameless: { result: {} },
      sameName: { result: { sessionId: "the same" } },
    });
    say({ id, ...(answers[mood] ?? { result: { sessionId: `s${id}` } }) });
    if (mood === "rules") say({ id, result: { sessionId: "a second one" } });
  },
  "session/prompt": (id, { sessionId }) => {
    if (mood === "silent") return;
    const server = servers.get(sessionId);
    if (server !== undefined && mood in CALLING) {
      const end = () => say({ id, result: { stopReason: "end_turn" } });
      connect(server).then((call) => CALLING[mood]?.(call, sessionId, end));
      return;
    }
    if (mood === "endless") {
      setInterval(() => chunk(sessionId, "and on "), 5);
      return;
    }
    if (mood === "sameName") {
      setTimeout(() => {
        chunk(sessionId, "Hello.");
        say({ id, result: { stopReason: "end_turn" } });
      }, 300);
      return;
    }
    if (mood === "dies") process.exit(3);
    if (mood === "forbidden") {
      const error = apiError(403, "API error (status 403 Forbidden): permission_error: not allowed");
      say({ id, error });
      return;
    }
    if (["failsFirst", "actsAndFails"].includes(mood) && ++prompts === 1) {
      const call = { toolCallId: "c1", title: "rm", kind: "delete" };
      const updates = [
        { sessionUpdate: "tool_call", ...call, status: "in_progress" },
        { sessionUpdate: "tool_call_update", toolCallId: "c1", status: "completed" },
      ];
      if (mood === "actsAndFails") {
        for (const update of updates) say({ method: "session/update", params: { sessionId, update } });
      }
      say({ id, error: apiError(500, "API error (status 500 Internal Server Error): boom") });
      return;
    }
    if (mood === "fails") {
      say({ id, error: { code: 429, message: "slow down" } });
      return;
    }
    if (mood === "rules") {
      breakRules();
      askForMore(sessionId);
      chunk(sessionId, { not: "text" });
    }
    if (mood !== "empty") {
      chunk(sessionId, "thinking", "agent_thought_chunk");
      chunk(sessionId, "Hello ");
      chunk(sessionId, "there.");
    }
    const stopReason = mood in STOPS ? STOPS[mood] : "end_turn";
    const usage = { inputTokens: 20, outputTokens: 7, totalTokens: 27 };
    // What it is answered to its own requests comes first.
    setTimeout(() => {
      say({ id, result: { stopReason, usage } });
      if (mood !== "rules") return;
      say({ id, result: { stopReason: "cancelled" } });
      setTimeout(() => chunk(sessionId, "too late"), 20);
    }, 100);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  appendFileSync(log, `${line}\n`);
  const now = moodOf(log, mood);
  if (now !== mood) [mood, prompts] = [now, 0];
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) asked.get(id)?.(result);
  else METHODS[method]?.(id, params);
}
