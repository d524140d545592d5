// @release
/** The sizes of a profile are what the real CLIs themselves say of their models. */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { ChatClaudeCli, ChatCodexCli } from "deep-factor-providers/langchain";
import { describe, expect, it } from "vitest";
import { withClaude, withCli } from "../support/harness.mjs";

const run = promisify(execFile);

/** What a CLI prints. Its standard input is at its end, or it would wait for more. */
async function printed(options: { cliPath: string; env: Record<string, string | undefined> }, args: string[]) {
  const env = Object.fromEntries(Object.entries({ ...process.env, ...options.env }).filter(([, value]) => value));
  const child = run(options.cliPath, args, { env: env as NodeJS.ProcessEnv });
  child.child.stdin?.end();
  return (await child).stdout;
}

describe("claude", () => {
  it.each([
    "claude-haiku-4-5",
    "claude-opus-4-5",
    "claude-sonnet-4-5",
    "claude-sonnet-4-5[1m]",
    "claude-sonnet-4-6",
    "claude-opus-4-8",
    "claude-fable-5",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5-5",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
  ])("%s", async (model) => {
    const { options } = await withClaude({ engine: "print", script: [{ text: "Fine." }] });
    const args = ["-p", "--output-format", "json", "--model", model, "--tools", "", "--system-prompt", "Hi", "Hi"];
    const { modelUsage } = JSON.parse(await printed(options as never, args));
    const { contextWindow, maxOutputTokens } = modelUsage[model];
    expect(new ChatClaudeCli({ model: model as never }).profile).toMatchObject({
      maxInputTokens: contextWindow,
      maxOutputTokens,
    });
  });
});

describe("codex", () => {
  it.each(["gpt-5.5", "gpt-6-luna", "gpt-6.1-sol"])("%s", async (model) => {
    const { options, home } = await withCli("codex", { script: [{ text: "Fine." }] });
    await printed(options as never, ["exec", "--skip-git-repo-check", "--sandbox", "read-only", "-m", model, "Hi"]);
    const [session] = readdirSync(join(home, ".codex/sessions"), { recursive: true, withFileTypes: true }).filter(
      (it) => it.isFile(),
    );
    const log = readFileSync(join(session?.parentPath ?? "", session?.name ?? ""), "utf8");
    const [, window] = /"model_context_window":(\d+)/.exec(log) ?? [];
    expect(new ChatCodexCli({ model }).profile.maxInputTokens).toBe(Number(window));
  });
});
