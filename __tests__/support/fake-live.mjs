// @ts-check
/**
 * A CLI that speaks claude's control protocol as 2.1.330 does, for what the real one can't be asked to do: to start when it is told
 * to, to break off, to refuse. The first argument is a folder; in it are
 *
 *   log        a line of JSON for everything it was told, in order: `"started"`, `["version"]`, `["initialize", system]`,
 *              `["tools", ...names]`, `["user", text]`; written before it is answered
 *   hold       as long as that file is there, nothing is answered
 *   dies       where that file is there, it prints its text to standard error and exits with code 3 at the first line it is told
 *   refuses    where that file is there, the handshake is refused with its text
 *   killed     where that file is there, it is removed and its process killed at the first line it is told
 *   before     where that file is there, its text is printed in front of the next answer, and the file removed
 *   ahead      the same before it has told that it has the user's line
 *   behind     the same behind the next answer
 *   usage      where that file is there, its JSON is the usage of each answer; it never answers what is asked of it then
 */
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [folder = ""] = process.argv.slice(2);
/** @param {unknown} entry */
const note = (entry) => appendFileSync(join(folder, "log"), `${JSON.stringify(entry)}\n`);
/** @param {unknown} line */
const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
/** @param {string} name */
const said = (name) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), "utf8") : undefined);
/** The same, once. @param {string} name */
const saidOnce = (name) => {
  const text = said(name);
  rmSync(join(folder, name), { force: true });
  return text;
};
/** @param {string} id @param {object} response */
const answer = (id, response) =>
  print({ type: "control_response", response: { subtype: "success", request_id: id, response } });
/** @param {number} id @param {string} method */
const mcp = (id, method) =>
  print({
    type: "control_request",
    request_id: `mcp-${id}`,
    request: { subtype: "mcp_message", server_name: "df", message: { jsonrpc: "2.0", id, method, params: {} } },
  });

note("started");
for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text);
  const { request_id: id, request } = line;
  const dies = said("dies");
  if (request?.subtype === "get_binary_version") note(["version"]);
  if (request?.subtype === "initialize") note(["initialize", request.systemPrompt]);
  const listed = line.response?.response?.mcp_response?.result?.tools;
  if (listed) note(["tools", ...listed.map((/** @type {{ name: string }} */ tool) => tool.name)]);
  if (line.type === "user") note(["user", line.message.content]);
  if (dies !== undefined) {
    process.stderr.write(dies);
    process.exit(3);
  }
  if (saidOnce("killed") !== undefined) process.kill(process.pid, "SIGKILL");
  while (existsSync(join(folder, "hold"))) await new Promise((resolve) => setTimeout(resolve, 2));
  if (request?.subtype === "get_binary_version") answer(id, { version: "2.1.330" });
  if (request?.subtype === "initialize") {
    const refuses = said("refuses");
    if (refuses !== undefined) {
      print({ type: "control_response", response: { subtype: "error", request_id: id, error: refuses } });
      continue;
    }
    if (request.sdkMcpServers) mcp(0, "initialize");
    answer(id, {});
    if (request.sdkMcpServers) mcp(1, "tools/list");
  }
  if (line.type === "user") {
    /** @param {string} state */
    const lifecycle = (state) => print({ type: "command_lifecycle", command_uuid: line.uuid, state });
    process.stdout.write(saidOnce("ahead") ?? "");
    lifecycle("queued");
    process.stdout.write(saidOnce("before") ?? "");
    lifecycle("started");
    print({ type: "system", subtype: "init", session_id: "s", model: "claude-fake" });
    const usage = JSON.parse(said("usage") ?? "null") ?? undefined;
    const result = { subtype: "success", is_error: false, num_turns: 1, result: "ok", total_cost_usd: 0, usage };
    process.stdout.write(`${JSON.stringify({ type: "result", ...result })}\n${saidOnce("behind") ?? ""}`);
    lifecycle("completed");
  }
}
