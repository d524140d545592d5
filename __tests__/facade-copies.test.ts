/** Two copies of `@langchain/core`, as npm's workspaces have them side by side: real ones. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { removeFolder } from "./support/folders.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MODULES = join(ROOT, "node_modules");

/** A workspace that has a copy of its own, beside this package's. */
const WORKSPACE = workspace();

function workspace() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "df-workspace-")));
  afterAll(() => removeFolder(folder));
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@langchain"), { recursive: true });
  cpSync(join(MODULES, "@langchain/core"), join(modules, "@langchain/core"), { recursive: true });
  symlinkSync(ROOT, join(modules, "deep-factor-providers"), "junction");
  // What the copy itself needs.
  for (const name of readdirSync(MODULES)) {
    if (!name.startsWith(".") && !["@langchain", "deep-factor-providers"].includes(name)) {
      symlinkSync(join(MODULES, name), join(modules, name), "junction");
    }
  }
  /** What a program in it writes on standard error. */
  const run = (file: string, program: string) => {
    writeFileSync(join(folder, file), program);
    const { status, stderr } = spawnSync(process.execPath, [join(folder, file)], { encoding: "utf8" });
    return { status, stderr };
  };
  return { other: join(modules, "@langchain/core"), own: realpathSync(join(MODULES, "@langchain/core")), run };
}

const ESM = `
  import { AIMessage, HumanMessage } from "@langchain/core/messages";
  import { tool } from "@langchain/core/tools";
  import { createClaudeCliProvider } from "deep-factor-providers";
  const provider = createClaudeCliProvider({ cliPath: "/nowhere/claude" });
  const thread = [new HumanMessage("hi"), new AIMessage("yes"), new HumanMessage("go")];
  const tools = [tool(async () => "", { name: "look", description: "", schema: { type: "object", properties: {} } })];
`;
const CJS = ESM.replaceAll(/import (.*) from (.*);/g, "const $1 = require($2);");
const THREAD = "await provider.invoke(thread).catch(() => {}); await provider.invoke(thread).catch(() => {});";

describe.each([
  ["an ES module", "a.mjs", ESM],
  ["CommonJS", "a.cjs", `(async () => {${CJS}`],
])("%s", (_, file, begin) => {
  const end = file.endsWith(".cjs") ? "})();" : "";

  it.each([
    ["messages in invoke", THREAD, "messages"],
    ["tools in bindTools", "provider.bindTools(tools).bindTools(tools);", "tools"],
  ])("is warned once of %s that are of another copy", (_, use, what) => {
    const { own, other, run } = WORKSPACE;
    const { status, stderr } = run(file, `${begin}${use}${end}`);
    expect([status, stderr.match(/LANGCHAIN_TWICE/g)?.length]).toEqual([0, 1]);
    expect(stderr).toContain(
      `there are two copies of @langchain/core: ${what} passed in come from ${other}, and answers are made of ${own}`,
    );
    expect(stderr).toContain("name one version in `overrides`");
  });
});

it("says nothing of the same copy, of plain messages and tools, nor of classes of the caller's", () => {
  const program = `
    import { HumanMessage } from "@langchain/core/messages";
    import { tool } from "@langchain/core/tools";
    import { createClaudeCliProvider } from "deep-factor-providers";
    class Own extends HumanMessage { constructor(text) { if (typeof text !== "string") process.exitCode = 3; super(text); } }
    const provider = createClaudeCliProvider({ cliPath: "/nowhere/claude" });
    const made = tool(async () => "", { name: "look", description: "", schema: { type: "object", properties: {} } });
    const plain = { name: "b", description: "", schema: { type: "object", properties: {} } };
    for (const message of ["hi", { role: "user", content: "hi" }, new HumanMessage("hi"), new Own("hi")]) {
      await provider.bindTools([made, plain]).invoke([message]).catch(() => {});
    }
  `;
  const file = join(dirname(fileURLToPath(import.meta.url)), `copies-${process.pid}.mjs`);
  writeFileSync(file, program);
  onTestFinished(() => removeFolder(file));
  const { status, stderr } = spawnSync(process.execPath, [file], { encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
});
