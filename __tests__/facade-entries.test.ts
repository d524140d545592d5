/** What the entries export is what index.d.ts declares. Needs the built addon. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { AIMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";

const require = createRequire(import.meta.url);
const contract = readFileSync(new URL("../index.d.ts", import.meta.url), "utf8");
const declared = [
  ...contract.matchAll(/^export (?:declare )?(?:abstract )?(?:class|function|const|let|var|enum) (\w+)/gm),
]
  .map(([, name]) => name)
  .sort();

const entries: [string, () => Promise<Record<string, unknown>>][] = [
  ["import", () => import("deep-factor-providers")],
  ["require", async () => require("deep-factor-providers")],
  ["import native", () => import("deep-factor-providers/native")],
  ["require native", async () => require("deep-factor-providers/native")],
];

const chatModels: [string, () => Promise<Record<string, unknown>>][] = [
  ["import", () => import("deep-factor-providers/langchain")],
  ["require", async () => require("deep-factor-providers/langchain")],
];

describe("entries", () => {
  it.each(chatModels)("%s of the chat models exports what is declared, and nothing else", async (_, load) => {
    const declaration = readFileSync(new URL("../src/js/langchain/index.d.mts", import.meta.url), "utf8");
    const names = [...declaration.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
    expect(Object.keys(await load()).sort()).toEqual(names.sort());
  });

  it.each(entries)("%s exports what is declared, and nothing else", async (_, load) => {
    expect(declared).toContain("createClaudeCliProvider");
    expect(Object.keys(await load()).sort()).toEqual(declared);
  });

  it.each(["deep-factor-providers", "deep-factor-providers/native"])("%s reads no face of a framework", (entry) => {
    const program = `
      import { createRequire } from "node:module";
      await import(${JSON.stringify(entry)});
      const read = Object.keys(createRequire(import.meta.url).cache).filter((file) => /src.js.langchain[\\\\/]/.test(file));
      console.log(JSON.stringify(read));`;
    const root = new URL("..", import.meta.url);
    const said = execFileSync(process.execPath, ["--input-type=module", "-e", program], {
      cwd: root,
      encoding: "utf8",
    });
    expect(JSON.parse(said)).toEqual([]);
  });

  it("there is one ProviderError, and one exit hook", async () => {
    const before = process.listenerCount("exit");
    const loaded = await Promise.all(entries.map(([, load]) => load()));
    expect(new Set(loaded.map((entry) => entry.ProviderError)).size).toBe(1);
    expect(process.listenerCount("exit") - before).toBeLessThanOrEqual(1);
  });

  it("an entry's own errors are ProviderErrors, and its providers are model adapters", async () => {
    for (const [, load] of entries) {
      const entry = (await load()) as unknown as typeof import("../index.js");
      expect(() => entry.escapeXml(1 as never)).toThrow(entry.ProviderError);
      expect(() => entry.createClaudeCliProvider({ timeout: Number.NaN })).toThrow(
        expect.objectContaining({
          name: "ProviderError",
          code: "INVALID_OPTION",
          message: expect.stringContaining("NaN"),
        }),
      );
      expect(entry.isModelAdapter(entry.createClaudeCliProvider())).toBe(true);
      expect(entry.messagesToPrompt([new AIMessage("hi")])).toBe("[Assistant]\nhi");
    }
  });
});
