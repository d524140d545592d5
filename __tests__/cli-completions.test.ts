/** The completions, asked of the shells themselves; of one that is not installed, only that there is a script. */
import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFakes } from "./support/fake.mjs";
import { shellOf } from "./support/shells.mjs";
import { lacks } from "./support/systems.mjs";

const CLI = fileURLToPath(new URL("../src/js/cli.mjs", import.meta.url));
const script = (shell: string) => execFileSync(process.execPath, [CLI, "completions", shell], { encoding: "utf8" });

describe.skipIf(!shellOf("bash"))("bash", () => {
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
    const commands = ["doctor", "providers", "run", "chat", "serve", "suite", "status", "log", "completions"];
    expect(offered("")).toEqual([...commands, "--help", "--version"]);
    expect(offered("ru")).toEqual(["run"]);
    expect(offered("run", "--e")).toEqual(["--effort", "--engine"]);
    expect(offered("run", "--provider", "co")).toEqual(["codex", "copilot"]);
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

it.each(["bash", "zsh", "fish"])("%s takes its script", (name) => {
  const text = script(name);
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
])("refuses %j", (args, message) => {
  const { status, stderr } = spawnSync(process.execPath, [CLI, "completions", ...args], { encoding: "utf8" });
  expect([status, stderr]).toEqual([
    2,
    `deep-factor-providers: ${message} (deep-factor-providers completions --help)\n`,
  ]);
});
