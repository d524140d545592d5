// @release
/**
 * Every screen of the command line, whole, as a terminal shows it: 80 columns and narrow, dark and light. The screens are files in
 * `__tests__/fixtures/screens`; `UPDATE_GOLDENS=1 TEST_ALL=1 npx vitest run __tests__/cli/screens.test.ts` writes them, and the diff is read.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { visible } from "../../src/js/cli/screen.mjs";
import { HELP } from "../../src/js/cli-text.mjs";
import { CLI } from "../support/command-line.mjs";
import { createFakes } from "../support/fake.mjs";
import { withClaude } from "../support/harness.mjs";
import { type Script, startOpenAi } from "../support/openai.mjs";
import { lacks } from "../support/systems.mjs";
import { HAS_TMUX, openTerminal, settled } from "../support/terminal.mjs";

const SCREENS = fileURLToPath(new URL("../fixtures/screens/", import.meta.url));
const WIDTHS = [80, 40];
const BACKGROUNDS = [
  ["dark", "15;0"],
  ["light", "0;15"],
] as const;
const ESC = "\u001b";

const compared = new Set<string>();

function expectScreen(name: string, screen: string) {
  const file = join(SCREENS, `${name}.txt`);
  const text = `${settled(screen)}\n`;
  compared.add(`${name}.txt`);
  if (process.env.UPDATE_GOLDENS) {
    mkdirSync(SCREENS, { recursive: true });
    writeFileSync(file, text);
  }
  expect(text).toBe(existsSync(file) ? readFileSync(file, "utf8") : "no such file: UPDATE_GOLDENS=1 writes it");
}

async function withApi(script: Script) {
  const api = await startOpenAi(script);
  onTestFinished(() => api.close());
  return ["--base-url", api.url, "--model", "m1"];
}

const ours = (...args: string[]) => [process.execPath, CLI, ...args];
const ANSWER = "A longer answer, which the terminal breaks where its last column is.\n\n- one\n- two";

describe.skipIf(!HAS_TMUX).each(WIDTHS)("%i columns", (columns) => {
  it.each(Object.keys(HELP))("help %s", async (name) => {
    const { screen, code } = await openTerminal(ours("help", ...(name === "" ? [] : [name])), {
      columns,
      rows: 160,
    }).ended();
    expect(code).toBe(0);
    expectScreen(`help-${name || "all"}-${columns}`, screen);
    expect(Math.max(...screen.split("\n").map((line) => line.length))).toBeLessThanOrEqual(columns);
  });

  it("run", async () => {
    const args = await withApi([{ text: ANSWER }]);
    const { screen, code } = await openTerminal(ours("run", "Hi", ...args), { columns }).ended();
    expect(code).toBe(0);
    expectScreen(`run-${columns}`, screen);
  });

  it("run without a prompt: asks for it", async () => {
    const args = await withApi([{ text: "Hello." }]);
    const terminal = openTerminal(ours("run", ...args), { columns });
    await terminal.until(/Ctrl-D/);
    terminal.type("Say hello");
    terminal.press("Enter", "C-d");
    const { screen, code } = await terminal.ended();
    expect([screen, code]).toEqual(["type the prompt, then press Ctrl-D\nSay hello\nHello.", 0]);
  });

  it.skipIf(lacks("scripts"))("chat into a file: what is asked stays on the screen", async () => {
    const args = await withApi([{ text: "one", usage: { input: 20, output: 7 } }]);
    const { dir, cleanup } = createFakes();
    onTestFinished(cleanup);
    const script = `"$@" >${dir}/answers; cat ${dir}/answers`;
    const terminal = openTerminal(["/bin/sh", "-c", script, "sh", ...ours("chat", ...args)], { columns });
    await terminal.until(/^>$/m);
    terminal.type("1");
    terminal.press("Enter");
    await terminal.until(/tokens\n>$/);
    terminal.press("C-d");
    const { screen } = await terminal.ended();
    expect(settled(screen).split("\n").slice(-4)).toEqual(["> 1", "openai · N s · 27 tokens", ">", "one"]);
  });

  it("run, waiting: the spinner, which is gone with the first text", async () => {
    let answer = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const args = await withApi([
      async () => {
        await asked;
        return { text: "Hello." };
      },
    ]);
    const terminal = openTerminal(ours("run", "Hi", ...args), { columns });
    const waiting = await terminal.until(/openai \d+ s/);
    expectScreen(`spinner-${columns}`, waiting);
    answer();
    const { screen } = await terminal.ended();
    expect(screen).toBe("Hello.");
  });

  it("run, thinking: the spinner with tokens, which are estimated", async () => {
    const args = await withApi([{ reasoning: "I think. ".repeat(100), chunks: ["A"], hangAfter: 2 }]);
    const terminal = openTerminal(ours("run", "Hi", ...args), { columns });
    expectScreen(`spinner-tokens-${columns}`, await terminal.until(/tokens/));
  });

  it("run, interrupted", async () => {
    const args = await withApi([{ hang: true }]);
    const terminal = openTerminal(ours("run", "Hi", ...args), { columns });
    await terminal.until(/openai/);
    terminal.press("C-c");
    const { screen, code } = await terminal.ended();
    expect([screen, code]).toEqual(["", 130]);
  });

  it("what a model prints does not steer the terminal", async () => {
    const evil = `before${ESC}[2J${ESC}]0;title${"\u0007"}${ESC}[10Aup\rover\u009b31mred\u202etxet\u200b\b\bend\u{e0041}`;
    const args = await withApi([{ chunks: [...evil] }, { text: evil }, { text: evil }]);
    const streamed = await openTerminal(ours("run", "Hi", ...args), { columns }).ended();
    const whole = await openTerminal(ours("run", "Hi", ...args, "--no-stream"), { columns }).ended();
    expect([streamed.code, whole.screen]).toEqual([0, streamed.screen]);
    expectScreen(`hostile-${columns}`, streamed.screen);
    const json = await openTerminal(ours("run", "Hi", ...args, "--json"), { columns: 4_000 }).ended();
    const { content } = JSON.parse(json.screen);
    expect(visible(content)).toBe(streamed.screen.replaceAll("\n", ""));
  });

  it.each([
    ["unknown-option", ["run", "Hi", "--modle", "x"]],
    ["unknown-command", ["rnu"]],
    ["missing-value", ["run", "Hi", "--model"]],
    ["missing-file", ["run", "Hi", "--image", "none.png"]],
    ["no-command", []],
  ])("error %s", async (name, args) => {
    const { screen, code } = await openTerminal(ours(...args), { columns }).ended();
    expect(code).toBe(2);
    expectScreen(`error-${name}-${columns}`, screen);
  });

  it("error of a provider", async () => {
    const args = await withApi([{ error: { status: 404, message: "the model m1 does not exist" } }]);
    const { screen, code } = await openTerminal(ours("run", "Hi", ...args), { columns }).ended();
    expect(code).toBe(10);
    expectScreen(`error-provider-${columns}`, screen);
  });

  it("doctor", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const { screen, code } = await openTerminal(ours("doctor", "qwen", "glm"), {
      columns,
      env: { PATH: `${fakes.dir}:/usr/bin:/bin` },
    }).ended();
    expect(code).toBe(1);
    expectScreen(`doctor-${columns}`, screen);
  });

  it.skipIf(lacks("scripts"))("doctor, with kinds of login", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const says = (version: string, rest: string) => `case "$1" in --version) echo "${version}";; *) ${rest};; esac`;
    const plan = JSON.stringify({ loggedIn: true, authMethod: "claude.ai", subscriptionType: "max" });
    fakes.shell("claude", says("2.1.332 (Claude Code)", `echo '${plan}'`));
    fakes.shell("codex", says("codex-cli 0.169.0", 'echo "API key configured - sk-fake-***bcdef" >&2'));
    fakes.shell("gemini", says("0.61.0", "exit 1"));
    const { screen, code } = await openTerminal(ours("doctor", "claude", "codex", "gemini"), {
      columns,
      env: { PATH: `${fakes.dir}:/usr/bin:/bin` },
    }).ended();
    expect(code).toBe(0);
    expectScreen(`doctor-logins-${columns}`, screen.replaceAll(fakes.dir, "<bin>"));
  });

  it("chat, with the real claude", async () => {
    const usage = { input_tokens: 20, output_tokens: 7 };
    const { options } = await withClaude({
      script: [
        { text: ANSWER, usage },
        { text: "Yes.", usage },
      ],
    });
    const env = { ...options.env, PATH: `${dirname(options.cliPath)}:${process.env.PATH}` };
    const terminal = openTerminal(ours("chat", "--model", "sonnet"), { columns, rows: 40, env });
    await terminal.until(/^>$/m);
    for (const text of ["Tell me something", "Is that all?"]) {
      terminal.type(text);
      terminal.press("Enter");
      await terminal.until((screen) => screen.includes(text) && /tokens\n>$/.test(screen));
    }
    for (const [text, end] of [
      ["/help", /Ctrl-D does\n>$/],
      ["/cots", /begins\s+with\s+\/\/\n>$/],
      ["/cost", /estimates\s+it\n>$/],
    ] as const) {
      terminal.type(text);
      terminal.press("Enter");
      await terminal.until(end);
    }
    terminal.press("C-d");
    const { screen, code } = await terminal.ended();
    expect(code).toBe(0);
    expectScreen(`chat-${columns}`, screen.replaceAll(/\$\d+\.\d+/g, "$N"));
  });
});

describe.skipIf(!HAS_TMUX).each(BACKGROUNDS)("%s", (name, COLORFGBG) => {
  it.skipIf(lacks("scripts"))("has colours that can be read on it", async () => {
    const args = await withApi([{ error: { status: 404, message: "the model m1 does not exist" } }]);
    const failed = openTerminal(ours("run", "Hi", ...args), { env: { COLORFGBG } });
    await failed.ended();
    expectScreen(`colours-error-${name}`, failed.colours());
    const listed = openTerminal(ours("providers"), { env: { COLORFGBG } });
    await listed.ended();
    expectScreen(`colours-providers-${name}`, listed.colours());
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    fakes.shell("gemini", "echo 0.60.0");
    const warned = openTerminal(ours("doctor", "gemini", "--level", "version"), {
      columns: 160,
      env: { COLORFGBG, PATH: `${fakes.dir}:/usr/bin:/bin` },
    });
    await warned.ended();
    expectScreen(`colours-doctor-${name}`, warned.colours().replaceAll(fakes.dir, "<bin>"));
    const plain = openTerminal(ours("providers", "--color=never"), { env: { COLORFGBG } });
    await plain.ended();
    expect(plain.colours()).not.toContain("⟦");
  });

  it("has a spinner and a prompt that can be read on it", async () => {
    const args = await withApi([{ hang: true }]);
    const terminal = openTerminal(ours("chat", ...args), { env: { COLORFGBG } });
    await terminal.until(/^>$/m);
    terminal.type("Hi");
    terminal.press("Enter");
    await terminal.until(/openai \d+ s/);
    expectScreen(`colours-chat-${name}`, terminal.colours());
  });
});

it.skipIf(!HAS_TMUX)("compares every screen that is kept", () => {
  expect(readdirSync(SCREENS).sort()).toEqual([...compared].sort());
});
