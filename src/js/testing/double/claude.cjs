"use strict";

/**
 * The double of claude: a program that is started in its place, by its arguments and over its protocol, and says what a test's script says.
 *
 * In: the socket of the test, then claude's own arguments; the prompt or the session's lines on standard input. Out: what claude 2.1.332
 * prints. What of the protocol is no part of an answer is answered by a bare success.
 *
 * @import { ScriptEvent } from "../types.cjs"
 */

const { readFileSync } = require("node:fs");
const { createInterface } = require("node:readline");
const { randomUUID } = require("node:crypto");
const { ask } = require("./link.cjs");
const { createWriter } = require("./wire.cjs");

const VERSION = "2.1.332";
const [socket = "", ...args] = process.argv.slice(2);
const sessionId = randomUUID();
let turns = 0;

/** @param {string} name */
const flag = (name) => args[args.indexOf(name) + 1];
const has = (/** @type {string} */ name) => args.includes(name);
const format = has("--output-format") ? flag("--output-format") : "text";
const pieces = has("--include-partial-messages");
/** @param {unknown} line */
const print = (line) => void process.stdout.write(`${JSON.stringify(line)}\n`);
const about = (/** @type {string} */ form) => ({ form, args, cwd: process.cwd() });
/** The system prompt of the arguments. */
function systemPrompt() {
  if (has("--system-prompt-file")) return readFileSync(flag("--system-prompt-file") ?? "", "utf8");
  return has("--system-prompt") ? flag("--system-prompt") : undefined;
}
/** Ends when all that was printed is out. @param {number} code */
const exit = (code) => process.stdout.write("", () => process.exit(code));

/** One answer to a prompt on standard input. */
async function printForm() {
  let input = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) input += chunk;
  /** @type {any[]} */
  const lines = [];
  const writer = createWriter({ sessionId, version: VERSION, pieces, tools: [], number: ++turns }, (line) => {
    if (format === "stream-json") print(line);
    else lines.push(line);
  });
  const system = systemPrompt();
  let code = 0;
  /** @param {ScriptEvent} event */
  const take = (event) => {
    if (event.type === "exit") {
      process.stderr.write(event.stderr ?? "");
      code = event.exitCode;
    } else if (event.type === "failed") {
      writer.failed(event.code, event.message);
      code = 1;
    } else if (event.type === "over") {
      writer.finish(event.stopReason);
      writer.answered(event.stopReason);
    } else writer.push(event);
  };
  await ask(
    socket,
    { ...about("print"), ...(system !== undefined && { system }), input, tools: [], toolResults: [] },
    take,
  ).over;
  const last = lines.findLast(({ type }) => type === "result");
  if (format === "json" && last) print(last);
  if (format === "text" && last) process.stdout.write(`${last.result}\n`);
  exit(code);
}

/** A session: one user's line after the other, each with an answer. */
async function liveForm() {
  /** @type {string | undefined} */
  let system = systemPrompt();
  /** @type {string[]} */
  let tools = [];
  let hook = "";
  /** What the other side has yet to answer, by the request's id. @type {Map<string, (response: any) => void>} */
  const asked = new Map();
  let leave = () => {};
  let aborted = false;

  /** @param {object} request @returns {Promise<any>} */
  const request = (request) => {
    const id = randomUUID();
    const answer = new Promise((resolve) => asked.set(id, resolve));
    print({ type: "control_request", request_id: id, request });
    return answer;
  };
  /** @param {object} message */
  const mcp = (message) =>
    request({ subtype: "mcp_message", server_name: "df", message: { jsonrpc: "2.0", ...message } });
  /** @param {string} id @param {object} response */
  const answer = (id, response) =>
    print({ type: "control_response", response: { subtype: "success", request_id: id, response } });

  /**
   * @param {string} id
   * @param {any} setup
   * @returns {Promise<void>}
   */
  async function initialize(id, setup) {
    system = setup.systemPrompt ?? system;
    hook = setup.hooks?.PreToolUse?.[0]?.hookCallbackIds?.[0] ?? "";
    if (!(setup.sdkMcpServers?.length > 0)) return void answer(id, {});
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "claude-code", version: VERSION },
    };
    const known = mcp({ id: 0, method: "initialize", params });
    answer(id, {});
    await known;
    await mcp({ method: "notifications/initialized" });
    const { mcp_response: listed } = await mcp({ id: 1, method: "tools/list" });
    tools = (listed?.result?.tools ?? []).map((/** @type {{ name: string }} */ { name }) => name);
  }

  /** @param {any} line of the user */
  async function turn(line) {
    const { content } = line.message;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const input = blocks.flatMap((/** @type {any} */ block) => (block.type === "text" ? [block.text] : [])).join("\n");
    const toolResults = blocks.flatMap((/** @type {any} */ block) =>
      block.type === "tool_result"
        ? [{ id: block.tool_use_id, content: textOf(block.content), ...(block.is_error && { isError: true }) }]
        : [],
    );
    const lifecycle = (/** @type {string} */ state) =>
      line.uuid && print({ type: "command_lifecycle", command_uuid: line.uuid, state });
    lifecycle("queued");
    lifecycle("started");
    const writer = createWriter({ sessionId, version: VERSION, pieces, tools, number: ++turns }, print);
    aborted = false;
    /** @type {ScriptEvent | undefined} */
    let end;
    const link = ask(
      socket,
      { ...about("live"), ...(system !== undefined && { system }), tools, input, toolResults },
      (event) => {
        if (aborted) return;
        if (["over", "failed", "exit"].includes(event.type)) end = event;
        else writer.push(event);
      },
    );
    leave = link.leave;
    await link.over;
    if (end?.type === "exit") {
      process.stderr.write(end.stderr ?? "");
      return void exit(end.exitCode);
    }
    if (aborted || end === undefined) writer.aborted();
    else if (end.type === "failed") writer.failed(end.code, end.message);
    else if (writer.finish(end.stopReason)) {
      for (const { id, name, args } of writer.calls) {
        const input = {
          hook_event_name: "PreToolUse",
          tool_name: `mcp__df__${name}`,
          tool_input: args,
          tool_use_id: id,
        };
        await request({ subtype: "hook_callback", callback_id: hook, input, tool_use_id: id });
      }
      writer.deferred();
    } else writer.answered(end.stopReason);
    lifecycle("completed");
  }

  /** @type {Promise<unknown>} one turn after the other */
  let last = Promise.resolve();
  let ready = Promise.resolve();
  for await (const text of createInterface({ input: process.stdin })) {
    const line = JSON.parse(text);
    if (line.type === "control_response") {
      const { request_id: id, response } = line.response;
      asked.get(id)?.(response ?? {});
      asked.delete(id);
    } else if (line.type === "control_request") {
      const { request_id: id, request: its } = line;
      if (its.subtype === "initialize") ready = initialize(id, its);
      else if (its.subtype === "get_binary_version") answer(id, { version: VERSION });
      else {
        if (its.subtype === "interrupt") {
          aborted = true;
          leave();
        }
        answer(id, {});
      }
    } else if (line.type === "user") {
      const begun = ready;
      last = last.then(() => begun).then(() => turn(line));
    }
  }
  leave();
  await last;
  exit(0);
}

/** @param {unknown} content of a result */
function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((block) => block?.text ?? "").join("");
}

if (has("--version")) process.stdout.write(`${VERSION} (Claude Code)\n`);
else if (args[0] === "auth") print({ loggedIn: true, authMethod: "api_key", apiProvider: "firstParty" });
else
  (flag("--input-format") === "stream-json" ? liveForm() : printForm()).catch((error) => {
    process.stderr.write(`the double of claude failed: ${error?.stack ?? error}\n`);
    exit(1);
  });
