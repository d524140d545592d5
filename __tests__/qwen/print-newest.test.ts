// @release
/** The newest qwen in print form: what it does otherwise than the one that the other tests run. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runAgent } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { HERE } from "../clis/real.js";
import { CLIS, NEWEST_QWEN } from "../support/clis.mjs";
import { ALL, withCli } from "../support/harness.mjs";
import { lacks } from "../support/systems.mjs";

const RECORDINGS = join(dirname(fileURLToPath(import.meta.url)), "../fixtures/recordings/qwen-0.24.4");
const HELLO = { chunks: ["Hello ", "there."], usage: { input: 20, output: 7, cached: 5 } };

const newest = (script: Parameters<typeof withCli>[1]["script"], mayRunOut = false) =>
  withCli("qwen", { script, mayRunOut, version: NEWEST_QWEN });

describe.skipIf(!HERE)(`the real qwen ${NEWEST_QWEN}`, { timeout: 600_000 }, () => {
  it("answers, with no tool of its own", async () => {
    const { api, create } = await newest([HELLO]);
    const reply = await create({ retry: false }).invoke(["Say hello"]);
    expect([reply.content, reply.usage_metadata?.input_tokens, reply.response_metadata.cli_version]).toEqual([
      "Hello there.",
      20,
      NEWEST_QWEN,
    ]);
    expect(api.requests[0]?.body.tools ?? []).toEqual([]);
    expect(api.requests[0]?.bytes).toBeLessThan(1800);
  });

  it("calls tools over a bridge, with nothing else in its request", async () => {
    const { api, create } = await newest([
      { calls: [{ id: "c1", name: "mcp__df__add", args: { a: 1 } }] },
      { text: "done" },
    ]);
    const tool = { name: "add", description: "adds", schema: { type: "object" } };
    const run = runAgent({
      provider: create({ retry: false }),
      tools: [{ ...tool, invoke: async () => "42" }],
      messages: ["hi"],
    });
    expect((await run.result).output).toBe("done");
    type Tool = { function: { name: string } };
    expect(api.requests.map(({ body }) => body.tools.map((own: Tool) => own.function.name))).toEqual([
      ["mcp__df__add"],
      ["mcp__df__add"],
    ]);
    expect(api.requests[0]?.bytes).toBeLessThan(1800);
  });

  it("tells that nobody listens, whatever else it says on standard error", async () => {
    const { create, options } = await newest([HELLO], true);
    // A port that was given back could be another's by now.
    const env = { ...options.env, OPENAI_BASE_URL: "http://127.0.0.1:1/v1" };
    await expect(create({ retry: false, outputFormat: "text", env }).invoke(["hi"])).rejects.toMatchObject({
      code: "CONNECTION_FAILED",
    });
  });

  it("tells that a page is no answer", async () => {
    const page = "<!doctype html><html><head><title>Portal</title></head><body>please log in</body></html>";
    const { create } = await newest([{ raw: page, headers: { "content-type": "text/html" } }], true);
    await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });
  });

  it("gives no text whose end may be lost, and no half of a document", async () => {
    const text = "0123456789abcdef\n".repeat(140_000);
    const { create } = await newest(() => ({ text, usage: { input: 20, output: 7 } }));
    const formats = ALL ? (["text", "json", "stream-json"] as const) : (["text"] as const);
    for (const outputFormat of formats) {
      const answered = await create({ retry: false, outputFormat })
        .invoke(["hi"])
        .then(
          ({ content }) => (content === text.trimEnd() || content === text ? "whole" : "cut"),
          (error) => error.code,
        );
      expect([outputFormat, answered]).toEqual([
        outputFormat,
        outputFormat === "text" ? "MALFORMED_RESPONSE" : expect.stringMatching(/^(?:whole|MALFORMED_RESPONSE)$/),
      ]);
    }
  });

  it.runIf(ALL)("has an empty answer for a failure", async () => {
    const { create } = await newest(() => ({ text: "", usage: { input: 1, output: 0 } }));
    await expect(create({ retry: false }).invoke(["hi"])).rejects.toMatchObject({ code: "MALFORMED_RESPONSE" });
  });
});

/** The real one takes 100 s to come so far. */
describe.skipIf(lacks("scripts"))("a qwen that pauses for a minute", () => {
  it.each([
    ["err-429-stream-json", "stream-json", "RATE_LIMITED", 429],
    ["err-429-json", "json", "RATE_LIMITED", 429],
    ["err-503-fallback-model-stream-json", "stream-json", "SERVER_ERROR", 503],
  ] as const)("is ended there, as recorded in %s", async (name, outputFormat, code, httpStatus) => {
    const folder = mkdtempSync(join(tmpdir(), "dfp-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const [stdout, stderr] = ["stdout", "stderr"].map((channel) => {
      const file = join(folder, channel);
      const own = readFileSync(join(RECORDINGS, `${name}.${channel}`), "utf8");
      writeFileSync(file, channel === "stderr" ? `${own.split("\n").slice(0, 2).join("\n")}\n` : own);
      return file;
    });
    const cliPath = join(folder, "qwen");
    writeFileSync(cliPath, `#!/bin/sh\ncat > /dev/null\ncat ${stdout}\ncat ${stderr} >&2\nexec sleep 600\n`);
    chmodSync(cliPath, 0o755);
    const provider = CLIS.qwen.create({ cliPath, outputFormat, retry: false, timeout: 300_000 });
    onTestFinished(() => provider.close());
    await expect(provider.invoke(["hi"])).rejects.toMatchObject({ code, httpStatus, attempts: 1 });
  });
});
