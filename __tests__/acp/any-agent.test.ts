/** Any agent that speaks the Agent Client Protocol: one that breaks its rules, and what becomes of a call then. */
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AcpProviderOptions, createAcpProvider } from "deep-factor-providers/native";
import { describe, expect, it, onTestFinished } from "vitest";
import { removeFolder } from "../support/folders.mjs";

const AGENT = fileURLToPath(new URL("../support/hostile-acp.mjs", import.meta.url));

function agent(mood: string, more: Partial<AcpProviderOptions> = {}) {
  const home = mkdtempSync(join(tmpdir(), "dfp-"));
  const log = join(home, "log");
  const provider = createAcpProvider({
    command: process.execPath,
    args: [AGENT, log, mood],
    name: "hostile",
    retry: false,
    ...more,
  });
  onTestFinished(async () => {
    await provider.close();
    removeFolder(home);
  });
  type Sent = { id?: unknown; method?: string; params?: unknown; result?: unknown; error?: { code: number } };
  const sent = (): Sent[] => {
    if (!existsSync(log)) return [];
    const lines = readFileSync(log, "utf8").trimEnd().split("\n");
    return lines.map((line) => JSON.parse(line));
  };
  return { provider, sent };
}

describe("an agent that breaks every rule", () => {
  it("is read for its answer alone, and given nothing that it asks for", async () => {
    const { provider, sent } = agent("rules");
    const { response_metadata, ...reply } = await provider.invoke(["Say hello"]);
    expect(reply).toEqual({
      type: "ai",
      content: "Hello there.",
      tool_calls: [],
      invalid_tool_calls: [],
      additional_kwargs: {
        reasoning_content: "thinking",
        reasoning_details: [{ type: "reasoning.text", text: "thinking" }],
      },
      usage_metadata: { input_tokens: 20, output_tokens: 7, total_tokens: 27 },
    });
    expect(response_metadata).toMatchObject({ provider: "hostile", stop_reason: "end_turn", run: { engine: "warm" } });
    const answers = sent().filter(({ method }) => method === undefined);
    const refused = expect.objectContaining({ code: -32_601 });
    expect(answers).toEqual([
      { jsonrpc: "2.0", id: "f1", error: refused },
      { jsonrpc: "2.0", id: "f2", error: refused },
      { jsonrpc: "2.0", id: "t1", error: refused },
      { jsonrpc: "2.0", id: "p1", result: { outcome: { outcome: "cancelled" } } },
    ]);
    const [initialize, opened] = sent();
    expect(initialize?.params).toEqual({
      protocolVersion: 1,
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    });
    expect(opened?.params).toEqual({ cwd: expect.any(String), mcpServers: [] });
  });

  it("serves the next call, too, of which nothing that came late is a part", async () => {
    const { provider } = agent("rules");
    const first = await provider.invoke(["Say hello"]);
    const second = await provider.invoke(["Say hello"]);
    expect([first.content, second.content]).toEqual(["Hello there.", "Hello there."]);
    expect(second.response_metadata.run?.pid).toBe(first.response_metadata.run?.pid);
  });
});

describe("what becomes of a call", () => {
  it.each([
    ["fails", "RATE_LIMITED"],
    ["nobody", "NOT_LOGGED_IN"],
    ["nameless", "LIVE_UNSUPPORTED"],
    ["newer", "LIVE_UNSUPPORTED"],
    ["dies", "CRASHED"],
    ["max_tokens", "MAX_TOKENS"],
    ["refusal", "REFUSAL"],
    ["empty", "EMPTY_RESPONSE"],
  ])("in the mood %j: %s", async (mood, code) => {
    await expect(agent(mood).provider.invoke(["Say hello"])).rejects.toMatchObject({ code, provider: "hostile" });
  });

  it("has the prompt cancelled at its time limit", async () => {
    const { provider, sent } = agent("silent", { timeout: 1_500 });
    await expect(provider.invoke(["Say hello"])).rejects.toMatchObject({ code: "TIMEOUT" });
    expect(sent().filter(({ method }) => method === "session/cancel")).toHaveLength(1);
  });
});

it("says what it is", async () => {
  const { provider } = agent("");
  const report = await provider.health({ level: "request" });
  expect(report).toMatchObject({ provider: "hostile", installed: true, answering: true, pure: false, problems: [] });
});

it.each([
  [{}, "INVALID_CONFIG", "config.command is missing"],
  [{ command: 7 }, "INVALID_CONFIG", "config.command must be"],
  [{ command: "x", args: "--acp" }, "INVALID_CONFIG", "config.args must be"],
  [{ command: "x", engine: "print" }, "UNSUPPORTED_OPTION", 'option "engine" can\'t be "print"'],
  [{ command: "x", systemPrompt: "x" }, "INVALID_OPTION", 'unknown option "systemPrompt"'],
] as const)("refuses %j", (options, code, reason) => {
  expect(() => createAcpProvider(options as never)).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(reason) }),
  );
});
