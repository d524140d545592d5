/** The completions, asked of the shells themselves; of one that is not installed, only that there is a script. */
import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const CLI = fileURLToPath(new URL("../src/js/cli.mjs", import.meta.url));
const script = (shell: string) => execFileSync(process.execPath, [CLI, "completions", shell], { encoding: "utf8" });
const has = (shell: string) => spawnSync(shell, ["-c", "true"]).status === 0;

describe.skipIf(!has("bash"))("bash", () => {
  /** What bash offers for the last of these words. */
  const offered = (...words: string[]) => {
    const ask = `${script("bash")}
COMP_WORDS=(deep-factor-providers ${words.map((word) => `"${word}"`).join(" ")})
COMP_CWORD=${words.length}
_deep_factor_providers
printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["--norc", "-c", ask], { encoding: "utf8" }).trim().split("\n");
  };

  it("completes commands, options, providers, actions and shells", () => {
    const commands = ["doctor", "providers", "run", "chat", "suite", "status", "log", "completions"];
    expect(offered("")).toEqual([...commands, "--help", "--version"]);
    expect(offered("ru")).toEqual(["run"]);
    expect(offered("run", "--e")).toEqual(["--effort", "--engine"]);
    expect(offered("run", "--provider", "co")).toEqual(["codex"]);
    expect(offered("chat", "--provider", "o")).toEqual(["opencode", "openai"]);
    expect(offered("chat", "--hi")).toEqual(["--history"]);
    expect(offered("run", "--i")).toEqual(["--image"]);
    expect(offered("run", "--engine", "")).toEqual(["auto", "live", "print", "warm"]);
    expect(offered("doctor", "--color", "a")).toEqual(["auto", "always"]);
    // The shell offers files where nothing is offered here.
    expect(offered("run", "--image", "")).toEqual([""]);
    expect(offered("doctor", "cl")).toEqual(["claude"]);
    expect(offered("log", "h")).toEqual(["html"]);
    expect(offered("completions", "")).toEqual(["--color", "--help", "bash", "zsh", "fish"]);
  });
});

it.each([
  ["zsh", ["-n"]],
  ["fish", ["--no-execute"]],
])("%s takes its script", (shell, check) => {
  const text = script(shell);
  expect(text).toContain("--effort".slice(shell === "fish" ? 2 : 0));
  if (has(shell))
    expect(spawnSync(shell, check, { input: text, encoding: "utf8" })).toMatchObject({ status: 0, stderr: "" });
});

it.each([
  [[], "say for which shell: bash, zsh, fish"],
  [["csh"], 'unknown shell "csh": there are bash, zsh, fish'],
])("refuses %j", (args, message) => {
  const { status, stderr } = spawnSync(process.execPath, [CLI, "completions", ...args], { encoding: "utf8" });
  expect([status, stderr]).toEqual([
    2,
    `deep-factor-providers: ${message} (deep-factor-providers completions --help)\n`,
  ]);
});
