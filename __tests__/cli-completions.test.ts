/** The completions, asked of the shells themselves; of one that is not installed, only that there is a script. */
import { execFileSync } from "node:child_process";
import { describe, expect, it, onTestFinished } from "vitest";
import { runCommand, runCommands } from "./support/command-line.mjs";
import { createFakes } from "./support/fake.mjs";
import { shellOf } from "./support/shells.mjs";
import { lacks } from "./support/systems.mjs";

const SHELLS = ["bash", "zsh", "fish"];
/** Each shell's script, which is asked for once. */
let scripts: ReturnType<typeof runCommands> | undefined;
async function script(shell: string) {
  scripts ??= runCommands(SHELLS.map((name) => ({ args: ["completions", name] })));
  return (await scripts)[SHELLS.indexOf(shell)]?.stdout ?? "";
}

describe.skipIf(!shellOf("bash"))("bash", () => {
  /** What bash offers for the last of these words. */
  const offered = (text: string, ...words: string[]) => {
    const ask = `${text}
COMP_WORDS=(deep-factor-providers ${words.map((word) => `"${word}"`).join(" ")})
COMP_CWORD=${words.length}
_deep_factor_providers
printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["--norc", "-c", ask], { encoding: "utf8" }).trim().split("\n");
  };

  it("completes commands, options, providers, actions and shells", async () => {
    const text = await script("bash");
    const commands = ["doctor", "providers", "run", "chat", "serve", "suite", "status", "log", "completions"];
    expect(offered(text, "")).toEqual([...commands, "--help", "--version"]);
    expect(offered(text, "ru")).toEqual(["run"]);
    expect(offered(text, "run", "--e")).toEqual(["--effort", "--engine"]);
    expect(offered(text, "run", "--provider", "co")).toEqual(["codex", "copilot"]);
    expect(offered(text, "chat", "--provider", "o")).toEqual(["opencode", "openai"]);
    expect(offered(text, "chat", "--hi")).toEqual(["--history"]);
    expect(offered(text, "run", "--i")).toEqual(["--image"]);
    expect(offered(text, "run", "--engine", "")).toEqual(["auto", "live", "print", "warm"]);
    expect(offered(text, "doctor", "--color", "a")).toEqual(["auto", "always"]);
    // The shell offers files where nothing is offered here.
    expect(offered(text, "run", "--image", "")).toEqual([""]);
    expect(offered(text, "doctor", "cl")).toEqual(["claude"]);
    expect(offered(text, "log", "h")).toEqual(["html"]);
    expect(offered(text, "completions", "")).toEqual(["--color", "--help", "bash", "zsh", "fish"]);
  });
});

it.each(SHELLS)("%s takes its script", async (name) => {
  const text = await script(name);
  expect(text).toContain("--effort".slice(name === "fish" ? 2 : 0));
  expect(shellOf(name)?.check(text) ?? "there is none here").toEqual(
    shellOf(name) ? { status: 0, stderr: "" } : "there is none here",
  );
});

describe.skipIf(lacks("scripts"))("a shell of the machine", () => {
  const folder = (fish?: string) => {
    const fakes = createFakes();
    onTestFinished(fakes.cleanup);
    if (fish !== undefined) fakes.shell("fish", fish);
    return fakes.dir;
  };

  it.each([
    ["missing", undefined],
    ["broken", "exit 127"],
    ["another program", "echo I am a fish; exit 0"],
  ])("is none where it is %s", (_, body) => {
    expect(shellOf("fish", folder(body))).toBeUndefined();
  });

  it("is asked for what it says of a script", () => {
    // It reads a file, and nothing over standard input.
    const PATH = folder(
      '[ "$1" = -c ] && { echo works; exit 0; }; [ -f "$2" ] || exit 127; echo "line 1: $1" >&2; exit 1',
    );
    expect(shellOf("fish", PATH)?.check("if")).toEqual({ status: 1, stderr: "line 1: --no-execute\n" });
  });
});

it.each([
  [[], "say for which shell: bash, zsh, fish"],
  [["csh"], 'unknown shell "csh": there are bash, zsh, fish'],
])("refuses %j", async (args, message) => {
  const { code, stderr } = await runCommand(["completions", ...args]);
  expect([code, stderr]).toEqual([2, `deep-factor-providers: ${message} (deep-factor-providers completions --help)\n`]);
});
