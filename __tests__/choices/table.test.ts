// @change
/**
 * The table of capabilities (docs/reference/providers.md, which is the registry's), held to what happens: what it calls unsupported is refused
 * by that name before anything starts, and what it calls native reaches the API of the real CLI.
 */
import { readFileSync } from "node:fs";
import {
  createAcpProvider,
  createClaudeCliProvider,
  createCliProvider,
  createCodexCliProvider,
  createCopilotCliProvider,
  createGeminiCliProvider,
  createGlmCliProvider,
  createGrokCliProvider,
  createOpenCodeCliProvider,
  createQwenCliProvider,
  type InvokeOptions,
} from "deep-factor-providers";
import { describe, expect, it, onTestFinished } from "vitest";
import { withApi } from "../api/setup.js";
import { HERE } from "../clis/real.js";
import { NEWEST_QWEN, OWN_CLI, opencodeConfig } from "../support/clis.mjs";
import { ALL, sampleOf, withClaude, withCli } from "../support/harness.mjs";

const page = readFileSync(new URL("../../docs/reference/providers.md", import.meta.url), "utf8");
const table = page
  .split("capabilities in src/provider; a test compares them. -->")[1]
  ?.split("<!-- end of capabilities")[0];
const rows = (table ?? "").split("\n").filter((line) => line.startsWith("|"));
const cells = (row: string) =>
  row
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
/** The names of a cell, without their remarks; a provider's name alone is that of both of its engines. */
const namesOf = (cell = "") =>
  cell
    .replaceAll(/ \([^)]*\)| \[\d+\]/g, "")
    .split(", ")
    .filter((name) => name !== "");

/** What a column of the capabilities has for the row of the option. */
function support(column: string, option: string): "native" | "emulated" | "–" {
  const [, native, emulated] = rows.map(cells).find(([name]) => name?.includes(`\`${option}\``)) ?? [];
  const isIn = (names: string[]) => names.includes(column) || names.includes(column.replace(/ (print|live)$/, ""));
  if (isIn(namesOf(native))) return "native";
  return isIn(namesOf(emulated)) || emulated?.startsWith("all") ? "emulated" : "–";
}

/** A call's choice for each row that is one. */
const CHOICES = {
  model: { model: "mock/m1" },
  reasoning: { reasoning: "off" },
  "reasoning.effort": { reasoning: { effort: "low" } },
  maxOutputTokens: { maxOutputTokens: 4321 },
  stop: { stop: ["STOP-HERE"] },
  temperature: { temperature: 0.125 },
  toolChoice: { toolChoice: "any" },
  serviceTier: { serviceTier: "flex" },
  speed: { speed: "fast" },
  webSearch: { webSearch: true },
} satisfies Record<string, InvokeOptions>;
type Option = keyof typeof CHOICES;
const OPTIONS = Object.keys(CHOICES) as Option[];

const NOWHERE = { cliPath: "/nowhere/at-all" };
const OWN = {
  ...OWN_CLI,
  modelArgs: ["-m"],
};
const COLUMNS = {
  "claude print": () => createClaudeCliProvider({ ...NOWHERE, engine: "print" }),
  "claude live": () => createClaudeCliProvider({ ...NOWHERE, engine: "live" }),
  "codex print": () => createCodexCliProvider({ ...NOWHERE, engine: "print" }),
  "codex live": () => createCodexCliProvider({ ...NOWHERE, engine: "live" }),
  gemini: () => createGeminiCliProvider(NOWHERE),
  "qwen print": () => createQwenCliProvider({ ...NOWHERE, engine: "print" }),
  "qwen live": () => createQwenCliProvider({ ...NOWHERE, engine: "live" }),
  glm: () => createGlmCliProvider(NOWHERE),
  grok: () => createGrokCliProvider(NOWHERE),
  "opencode print": () => createOpenCodeCliProvider({ ...NOWHERE, engine: "print" }),
  "opencode live": () => createOpenCodeCliProvider({ ...NOWHERE, engine: "live" }),
  "copilot print": () => createCopilotCliProvider({ ...NOWHERE, engine: "print" }),
  "copilot live": () => createCopilotCliProvider({ ...NOWHERE, engine: "live" }),
  "your own CLI": () => createCliProvider(OWN, NOWHERE),
  "any agent": () => createAcpProvider({ command: NOWHERE.cliPath, name: "any" }),
};

it("names no provider and no engine but these", () => {
  const known = [...Object.keys(COLUMNS), "an OpenAI-compatible API", "all", "all others"];
  const named = rows.slice(2).flatMap((row) => cells(row).slice(1).flatMap(namesOf));
  const unknown = named.filter((name) => !known.includes(name) && !known.includes(`${name} live`));
  expect(unknown).toEqual([]);
  expect(new Set(named).size).toBeGreaterThan(10);
});

describe.each(Object.entries(COLUMNS))("%s", (column, create) => {
  const tools = [{ name: "step", description: "Takes a step", schema: { type: "object" } }];

  it.each(OPTIONS)("refuses %s at once, or does not", async (option) => {
    const model = create().bindTools(tools);
    const error = await model.invoke(["go"], { ...CHOICES[option], onUnsupported: "error" }).catch((error) => error);
    // The program is not there: who comes so far was not refused.
    if (support(column, option) !== "–") return expect(error).toMatchObject({ code: "CLI_NOT_FOUND" });
    expect(error).toMatchObject({
      code: "UNSUPPORTED_OPTION",
      category: "validation",
      shouldFallback: true,
      attempts: 0,
    });
    expect(error.message).toContain(
      `option "${option}" is not supported by ${column === "your own CLI" ? OWN.providerId : column.split(" ")[0]}`,
    );
    expect(error.message).toContain(
      option === "webSearch" || option === "speed" ? "those that can: claude" : "an OpenAI-compatible API",
    );
    const warned = await model.invoke(["go"], { ...CHOICES[option], onUnsupported: "warn" }).catch((error) => error);
    expect(warned.code).toBe("CLI_NOT_FOUND");
  });
});

/** Where an effort is found in the request of each CLI's API. */
const EFFORT = /"(effort|reasoning_effort|thinkingLevel|reasoningEffort)":"low"/i;
const SEEN: Record<Option, (request: { path: string; body: unknown }) => boolean> = {
  model: ({ path, body }) => `${path} ${JSON.stringify(body)}`.includes("m1"),
  // An effort stands in its place: reasoning-off.test.ts looks at it alone.
  reasoning: () => true,
  "reasoning.effort": ({ body }) => EFFORT.test(JSON.stringify(body)),
  maxOutputTokens: ({ body }) => /:4321[,}]/.test(JSON.stringify(body)),
  stop: ({ body }) => JSON.stringify(body).includes('["STOP-HERE"]'),
  temperature: ({ body }) => /"temperature":0.125[,}]/.test(JSON.stringify(body)),
  toolChoice: ({ body }) => /"tool_choice":("required"|{"type":"any"})/.test(JSON.stringify(body)),
  serviceTier: ({ body }) => JSON.stringify(body).includes('"service_tier":"flex"'),
  speed: ({ body }) => JSON.stringify(body).includes('"speed":"fast"'),
  webSearch: ({ body }) => /"(name":"WebSearch|type":"web_search)"/.test(JSON.stringify(body)),
};

/** All that the table calls native there, chosen by one call, and what of it the API has not seen. */
async function unseen(
  column: string,
  requests: { path: string; body: unknown }[],
  invoke: (options: InvokeOptions) => Promise<unknown>,
  over: InvokeOptions = {},
) {
  const native = OPTIONS.filter((option) => support(column, option) === "native");
  const choices = Object.assign({}, ...native.map((option) => CHOICES[option]), over);
  await invoke({ ...choices, onUnsupported: "error" });
  const [request] = requests;
  if (request === undefined) throw new Error("nothing was asked");
  expect(native).toContain("model");
  return native.filter((option) => !SEEN[option](request));
}

describe("what is native reaches the API", { timeout: 600_000 }, () => {
  it.each(["print", "live"] as const)("of claude, %s", async (engine) => {
    const step = { type: "tool_use", id: "toolu_1", name: "mcp__df__step", input: {} };
    const script = [{ text: "ok" }, { content: [step] }];
    const { api, options } = await withClaude({ engine, script });
    const provider = createClaudeCliProvider(options);
    onTestFinished(() => provider.close());
    // One that the CLI knows to think. The choice of tools is no field of the request beside a search.
    const over = { model: "claude-opus-4-8", toolChoice: undefined };
    const invoke = (choices: InvokeOptions) => provider.invoke(["go"], choices);
    const left = engine === "live" ? ["model", "toolChoice"] : ["model"];
    expect(await unseen(`claude ${engine}`, api.requests, invoke, over)).toEqual(left);
    expect(api.requests[0]?.body.model).toBe("claude-opus-4-8");
    // In every run, tool-choice.test.ts looks for it in one conversation with other choices.
    if (engine === "print" || !ALL) return;
    await provider.bindTools([{ name: "step", schema: { type: "object" } }]).invoke(["go"], CHOICES.toolChoice);
    expect(SEEN.toolChoice({ path: "", body: api.requests[1]?.body })).toBe(true);
  });

  it.skipIf(!HERE).each(["print", "live"] as const)("of codex, %s", async (engine) => {
    const { api, create } = await withCli("codex", { script: () => ({ text: "ok" }) });
    const provider = create({ engine });
    const invoke = (choices: InvokeOptions) => provider.invoke(["go"], choices);
    expect(await unseen(`codex ${engine}`, api.requests, invoke)).toEqual([]);
  });

  it.skipIf(!HERE)("of gemini", async () => {
    const { api, create } = await withCli("gemini", { script: () => ({ text: "ok" }) });
    const provider = create({ engine: "print" });
    const invoke = (choices: InvokeOptions) => provider.invoke(["go"], choices);
    // Its API has the model's name in a path, and that of 2.5 has a budget in place of a level.
    const missing = await unseen("gemini", api.requests, invoke, { model: "gemini-2.5-pro" });
    expect(missing).toEqual(["model", "reasoning.effort"]);
    expect(api.requests[0]?.path).toContain("gemini-2.5-pro");
    expect(api.requests[0]?.body.generationConfig.thinkingConfig).toEqual({
      includeThoughts: true,
      thinkingBudget: 1024,
    });
  });

  const sessions = [
    ["qwen", "print", {}],
    ["opencode", "print", {}],
    ["qwen", "live", { version: NEWEST_QWEN }],
    ["opencode", "live", {}],
  ] as const;
  it.skipIf(!HERE).each(sampleOf(sessions, 0))("of %s, %s", async (name, engine, which) => {
    const { api, create } = await withCli(name, { script: () => ({ text: "ok" }), ...which });
    const provider = create({ engine, ...(name === "opencode" && { config: opencodeConfig(api.url, true) }) });
    const invoke = (choices: InvokeOptions) => provider.invoke(["go"], choices);
    expect(await unseen(`${name} ${engine}`, api.requests, invoke)).toEqual([]);
  });

  it("of an OpenAI-compatible API", async () => {
    const { api, provider } = await withApi({ script: [{ calls: [{ id: "c", name: "add", args: {} }] }] });
    const model = provider.bindTools([{ name: "add", schema: { type: "object" } }]);
    const invoke = (choices: InvokeOptions) => model.invoke(["go"], choices);
    expect(await unseen("an OpenAI-compatible API", api.requests, invoke)).toEqual([]);
  });
});
