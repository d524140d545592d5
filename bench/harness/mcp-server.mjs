// @ts-check
/** The least MCP server over HTTP that opencode and qwen take: it declares the one tool, and asks the driver for what a call gives. */
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { TOOL } from "./setting.mjs";

/** @param {(args: { n: number }) => Promise<string>} call what the tool gives; the response waits for it */
export async function startMcp(call) {
  const server = createServer(async (request, response) => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(await text(request));
    if (id === undefined) return void response.writeHead(202).end();
    const result = await answer(method, params, call);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      return closed;
    },
  };
}

/** @param {string} method @param {any} params @param {(args: { n: number }) => Promise<string>} call */
async function answer(method, params, call) {
  switch (method) {
    case "initialize": {
      const serverInfo = { name: "df", version: "1" };
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
    }
    case "tools/list": {
      const { name, description, schema: inputSchema } = TOOL;
      // qwen runs the calls of an answer at once only where they say so.
      return { tools: [{ name, description, inputSchema, annotations: { readOnlyHint: true } }] };
    }
    case "tools/call":
      return { content: [{ type: "text", text: await call(params.arguments) }] };
    default:
      return {};
  }
}
