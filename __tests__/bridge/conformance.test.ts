// @release
/**
 * The official MCP conformance suite against the bridge: the scenarios of a server that has tools and nothing else.
 * CONFORMANCE.md says why the others don't apply.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { startHost } from "../support/bridge.mjs";
import { installed } from "../support/installed.mjs";

/** What each tool of the suite says: its own requirements, in the words of the scenarios. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = { type: "image", data: PIXEL, mimeType: "image/png" };
const resource = (uri: string, mimeType: string, text: string) => ({
  type: "resource",
  resource: { uri, mimeType, text },
});
const ANSWERS: Record<string, { content: string | object[]; isError?: boolean; afterMs?: number }> = {
  test_simple_text: { content: "This is a simple text response for testing." },
  test_image_content: { content: [image] },
  test_audio_content: { content: [{ type: "audio", data: "UklGRg==", mimeType: "audio/wav" }] },
  test_embedded_resource: { content: [resource("test://embedded-resource", "text/plain", "An embedded resource.")] },
  test_multiple_content_types: {
    content: [
      { type: "text", text: "Multiple content types test:" },
      image,
      resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: { content: "This tool intentionally returns an error for testing", isError: true },
  test_tool_with_progress: { content: "Done.", afterMs: 1_000 },
  json_schema_2020_12_tool: { content: "Done." },
};
const DIALECT = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
  properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
  additionalProperties: false,
};
const TOOLS = Object.keys(ANSWERS).map((name) => ({
  name,
  description: `The suite's ${name}`,
  schema: name.startsWith("json_schema") ? DIALECT : { type: "object", properties: {} },
}));

const SCENARIOS = [
  "server-initialize",
  "ping",
  "tools-list",
  "tools-call-simple-text",
  "tools-call-image",
  "tools-call-audio",
  "tools-call-embedded-resource",
  "tools-call-mixed-content",
  "tools-call-error",
  "tools-call-with-progress",
  "json-schema-2020-12",
  "server-sse-multiple-streams",
  "dns-rebinding-protection",
];

/** The suite knows no tokens: this adds one, and names the bridge's own port where the suite names this one's. */
async function proxy({ url, token }: { url: string; token: string }) {
  const target = new URL(url);
  const server = createServer((incoming, outgoing) => {
    const { port } = server.address() as AddressInfo;
    const host = incoming.headers.host?.replace(`:${port}`, `:${target.port}`);
    const headers = { ...incoming.headers, host, authorization: `Bearer ${token}` };
    const options = { host: target.hostname, port: target.port, path: incoming.url, method: incoming.method, headers };
    const forwarded = request(options, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    outgoing.on("close", () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://localhost:${(server.address() as AddressInfo).port}/mcp`;
}

/** The suite wants Node 22. */
async function node() {
  if (Number(process.versions.node.split(".")[0]) >= 22) return process.execPath;
  const folder = await installed(`node-${process.platform}-${process.arch}`);
  return join(folder, "bin", "node");
}

it.each(SCENARIOS)("%s", async (scenario) => {
  const suite = join(await installed("@modelcontextprotocol/conformance"), "dist", "index.js");
  const host = await startHost({ serve: { tools: TOOLS, progressMs: 100 } }, async ({ name }) => {
    const { afterMs = 0, ...result } = ANSWERS[name] ?? { content: `no answer for ${name}`, isError: true };
    await delay(afterMs);
    return result;
  });
  const url = await proxy(await host.serving);
  const folder = mkdtempSync(join(tmpdir(), "dfp-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const args = [suite, "server", "--url", url, "--scenario", scenario];
  const binary = await node();
  const { code, said } = await new Promise<{ code: unknown; said: string }>((resolve) => {
    execFile(binary, args, { cwd: folder }, (error, out, err) => resolve({ code: error?.code ?? 0, said: out + err }));
  });
  expect(code, said).toBe(0);
  const [, passed, all] = /Passed: (\d+)\/(\d+)/.exec(said) ?? [];
  expect(Number(passed), said).toBeGreaterThan(0);
  expect(passed, said).toBe(all);
});
