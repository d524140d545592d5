// @change
/** `chat`: over a pipe with the real claude, and on a terminal as a person has it. */
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { EXIT_CODES, USAGE_CODE } from "../../src/js/cli-text.mjs";
import { CLI, runCommand } from "../support/command-line.mjs";
import { createFakes } from "../support/fake.mjs";
import { ALL, withClaude } from "../support/harness.mjs";
import { told } from "../support/live.mjs";
import { type Script, startOpenAi } from "../support/openai.mjs";
import { createTag, until } from "../support/processes.mjs";
import { lacks } from "../support/systems.mjs";
import { HAS_TMUX, openTerminal, settled } from "../support/terminal.mjs";

async function withApi(script: Script) {
  const api = await startOpenAi(script);
  onTestFinished(async () => {
    await api.close();
    if (api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  return { api, args: ["chat", "--base-url", api.url, "--model", "m1"] };
}

/** The messages of a request as `role: content`. */
const said = (api: Awaited<ReturnType<typeof startOpenAi>>, index: number) =>
  api.requests[index]?.body.messages.map(({ role, content }: Record<string, string>) => `${role}: ${content}`);

/** A path for a file that is not there yet. */
function newFile(name: string) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-chat-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return join(dir, name);
}

describe("over a pipe", () => {
  it.skipIf(lacks("processes"))(
    "is one conversation in one process of the real claude, which ends with it",
    async () => {
      const { api, options } = await withClaude({ script: [{ text: "Hello Ada." }, { text: "Ada." }] });
      const tag = createTag();
      const record = newFile("log.jsonl");
      const env = { ...options.env, ...tag.env, PATH: `${dirname(options.cliPath)}:${process.env.PATH}` };
      const input = "I am Ada.\n\nWho am I?\n";
      const { code, stdout, stderr } = await runCommand(["chat", "--model", "sonnet", "--record", record], {
        input,
        env,
      });
      expect([code, stdout, stderr]).toEqual([0, "Hello Ada.\nAda.\n", ""]);
      expect(told(api.requests[1]?.body)).toEqual([
        ["user", { type: "text", text: "I am Ada." }],
        ["assistant", { type: "text", text: "Hello Ada." }],
        ["user", { type: "text", text: "Who am I?" }],
      ]);
      const pids = [...readFileSync(record, "utf8").matchAll(/"type":"start"[^\n]*?"pid":(\d+)/g)].map(
        ([, pid]) => pid,
      );
      expect([pids.length, new Set(pids).size]).toEqual([2, 1]);
      await until(() => tag.left().length === 0);
    },
  );

  it("takes commands, a text that begins as one, and ends with the first failure", async () => {
    const usage = { input: 1_000, output: 5 };
    const { api, args } = await withApi([
      ...[
        { text: "one", usage },
        { text: "two", usage },
        { text: "three", usage },
      ],
      { error: { status: 401, message: "no such key" } },
    ]);
    const lines = ["1", "/cost", "/model m2", "//cost", "/clear", "/usr/bin is a folder", "4", "5"];
    const { code, stdout, stderr } = await runCommand([...args, "--system-prompt", "Be brief."], {
      input: `${lines.join("\n")}\n`,
    });
    expect([code, stdout]).toEqual([EXIT_CODES.authentication, "one\ntwo\nthree\n"]);
    expect(stderr.split("\n").slice(0, 3)).toEqual([
      "1 answer: 1,000 tokens in, 5 out, openai reports no cost",
      "the model is m2 from now on",
      "the conversation is forgotten",
    ]);
    expect(stderr.split("\n").slice(3)).toEqual([expect.stringMatching(/^INVALID_API_KEY: /), ""]);
    expect([said(api, 1), said(api, 2)]).toEqual([
      ["system: Be brief.", "user: 1", "assistant: one", "user: /cost"],
      ["system: Be brief.", "user: /usr/bin is a folder"],
    ]);
    expect(api.requests.map(({ body }) => body.model)).toEqual(["m1", "m2", "m2", "m2"]);
  });

  it("refuses a command that there is not", async () => {
    const { args } = await withApi([]);
    expect(await runCommand(args, { input: "/cots\n" })).toEqual({
      code: USAGE_CODE,
      stdout: "",
      stderr:
        "unknown command /cots: did you mean /cost? there are /help, /cost, /model, /edit, /clear, /exit; a text begins with //\n",
    });
  });
});

describe.skipIf(!HAS_TMUX)("on a terminal (tmux)", () => {
  it("writes no escape at all on one that is dumb", async () => {
    const { args } = await withApi([{ text: "Hello Ada." }, { text: "Bye." }]);
    const bytes = newFile("bytes");
    const terminal = openTerminal(["env", "TERM=dumb", process.execPath, CLI, ...args], { bytes });
    await terminal.until(/^>$/m);
    terminal.type("I am Ada.");
    terminal.press("Enter");
    await terminal.until(/^Hello Ada\.$[\s\S]*^>$/m);
    terminal.type("Bye");
    terminal.press("Enter");
    await terminal.until(/^Bye\.$[\s\S]*^>$/m);
    terminal.press("C-d");
    expect((await terminal.ended()).code).toBe(0);
    const written = readFileSync(bytes, "utf8");
    expect(written).toMatch(/Hello Ada\.[\s\S]*Bye\./);
    expect(written).not.toContain("\u001b");
  });

  it("what is pasted is one prompt, however many lines it has, and can be added to", async () => {
    const { api, args } = await withApi([{ text: "Read." }, { text: "Read again." }]);
    const terminal = openTerminal([process.execPath, CLI, ...args]);
    await terminal.until(/^>$/m);
    terminal.paste("one\ntwo\nthree\nfour");
    await terminal.until(/^> one\n… two\n… three\n… four$/m);
    terminal.type(" and five");
    terminal.press("Enter");
    await terminal.until(/^Read\.\n.*\n>$/m);
    terminal.paste("six\nseven\n");
    await terminal.until(/^> six\n… seven\n…$/m);
    terminal.press("C-c");
    await terminal.until(/go on\n>$/);
    terminal.type("eight\\");
    terminal.press("Enter");
    terminal.type("nine");
    terminal.press("Enter");
    await terminal.until(/^Read again\.$/m);
    expect([api.requests.length, said(api, 0), said(api, 1)?.at(-1)]).toEqual([
      2,
      ["user: one\ntwo\nthree\nfour and five"],
      "user: eight\nnine",
    ]);
    terminal.press("C-d");
    expect((await terminal.ended()).code).toBe(0);
  });

  it.skipIf(lacks("scripts"))("/edit sends what was written in the editor, and nothing where nothing was", async () => {
    const { api, args } = await withApi([{ text: "Read." }]);
    const fakes = createFakes();
    onTestFinished(fakes.cleanup);
    const editor = fakes.shell("editor", 'stat -c %a "$2"; printf "\\n%s\\n\\nend\\n" "$1" >>"$2"');
    const env = { VISUAL: undefined, EDITOR: `${editor} "second line"` };
    const terminal = openTerminal([process.execPath, CLI, ...args], { env });
    await terminal.until(/^>$/m);
    terminal.type("/edit first line");
    terminal.press("Enter");
    await terminal.until(/^600\nRead\.\n.*\n>$/m);
    expect(said(api, 0)).toEqual(["user: first line\nsecond line\n\nend"]);
    terminal.press("C-d");
    expect((await terminal.ended()).code).toBe(0);
    const nothing = openTerminal([process.execPath, CLI, ...args], { env: { VISUAL: "true", EDITOR: "false" } });
    await nothing.until(/^>$/m);
    nothing.type("/edit");
    nothing.press("Enter");
    await nothing.until(/^nothing is written, and nothing is sent\n>$/m);
    nothing.press("C-d");
    await nothing.ended();
    const failed = openTerminal([process.execPath, CLI, ...args], { env: { VISUAL: "", EDITOR: "false" } });
    await failed.until(/^>$/m);
    failed.type("/edit text");
    failed.press("Enter");
    await failed.until(/^the editor false ended with 1: set EDITOR to one that is there\n>$/m);
    failed.press("C-d");
    await failed.ended();
    expect(api.requests).toHaveLength(1);
  });

  it("answers, is interrupted without ending, remembers lines, and ends by Ctrl-C pressed twice", async () => {
    const usage = { input: 20, output: 7 };
    const { api, args } = await withApi([
      { chunks: ["First ", "answer."], usage },
      { chunks: ["Half", " of it"], hangAfter: 2 },
      { text: "Third\u0007.", usage },
    ]);
    const history = newFile("history");
    const terminal = openTerminal([process.execPath, CLI, ...args, "--history", history]);
    await terminal.until(/^>$/m);
    terminal.type("one");
    terminal.press("Enter");
    await terminal.until(/tokens\n>$/);
    terminal.type("two");
    terminal.press("Enter");
    await terminal.until(/^Half/m);
    // What is typed meanwhile waits for its turn.
    terminal.type("thr");
    terminal.press("C-c");
    await terminal.until(/^> thr$/m);
    terminal.press("C-u", "Up");
    await terminal.until(/^> two$/m);
    terminal.type(" again");
    terminal.press("Enter");
    await terminal.until(/Third.*\n.*tokens\n>$/);
    terminal.type("/cost");
    terminal.press("Enter");
    await terminal.until(/not\ncounted\n>$/);
    terminal.press("C-c");
    await terminal.until(/go on\n>$/);
    terminal.press("C-c");
    const { screen, code } = await terminal.ended();
    expect(settled(screen)).toBe(`openai: /help lists the commands, Ctrl-D ends
> one
First answer.
openai · N s · 27 tokens
> two
Half
interrupted: what there is of the answer is kept
> two again
Third␇.
openai · N s · 27 tokens
> /cost
2 answers: 40 tokens in, 14 out, openai reports no cost; 1 interrupted, not
counted
>
press Ctrl-C again to end, or go on
>`);
    expect(code).toBe(0);
    expect(said(api, 2)).toEqual([
      ...["user: one", "assistant: First answer.", "user: two", "assistant: Half"],
      "user: two again",
    ]);
    expect(readFileSync(history, "utf8")).toBe("one\ntwo\ntwo again\n/cost\n");
    if (!lacks("modes")) expect(statSync(history).mode & 0o777).toBe(0o600);
  });

  it.skipIf(!ALL)("takes what is typed meanwhile as the next prompt, and a line that goes on in another", async () => {
    let answer = () => {};
    const typed = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { api, args } = await withApi([
      async () => {
        await typed;
        return { text: "First." };
      },
      { text: "Second." },
      { hang: true },
      { text: "Fourth." },
    ]);
    const terminal = openTerminal([process.execPath, CLI, ...args]);
    await terminal.until(/^>$/m);
    terminal.type("one");
    terminal.press("Enter");
    await terminal.until(/openai \d+ s/);
    terminal.type("two");
    terminal.press("Enter");
    await api.waitForRequest(1);
    answer();
    await terminal.until(/Second\.\n.*tokens\n>$/);
    terminal.type("three");
    terminal.press("Enter");
    await api.waitForRequest(3);
    terminal.press("C-c");
    await terminal.until(/forgotten\n>$/);
    terminal.type("four \\");
    terminal.press("Enter");
    await terminal.until(/^…$/m);
    terminal.type("and more");
    terminal.press("Enter");
    await terminal.until(/Fourth\.\n.*tokens\n>$/);
    terminal.press("C-d");
    const { screen, code } = await terminal.ended();
    expect([settled(screen).replaceAll(/\d+ tokens/g, "N tokens"), code]).toEqual([
      `openai: /help lists the commands, Ctrl-D ends
> one
First.
openai · N s · N tokens
> two
Second.
openai · N s · N tokens
> three
interrupted: the prompt is forgotten
> four \\
… and more
Fourth.
openai · N s · N tokens
>`,
      0,
    ]);
    expect(said(api, 3)).toEqual([
      ...["user: one", "assistant: First.", "user: two", "assistant: Second."],
      "user: four \nand more",
    ]);
  });

  it.skipIf(!ALL)("interrupts the real claude, goes on with what there is, and leaves nothing behind", async () => {
    const { api, options } = await withClaude({
      script: [{ text: "One." }, { chunks: ["Half", " of it"], hangAfter: 4 }, { text: "Three." }],
    });
    const tag = createTag();
    const env = { ...options.env, ...tag.env, PATH: `${dirname(options.cliPath)}:${process.env.PATH}` };
    const terminal = openTerminal([process.execPath, CLI, "chat", "--model", "sonnet"], { env });
    await terminal.until(/^>$/m);
    terminal.type("1");
    terminal.press("Enter");
    await terminal.until(/tokens\n>$/);
    terminal.type("2");
    terminal.press("Enter");
    await terminal.until(/^Half/m);
    terminal.press("C-c");
    await terminal.until(/is kept\n>$/);
    terminal.type("3");
    terminal.press("Enter");
    await terminal.until(/Three\.\n.*tokens\n>$/);
    const left = () => tag.left().filter((line) => /claude/.test(line));
    expect(left()).not.toEqual([]);
    terminal.type("/exit");
    terminal.press("Enter");
    expect((await terminal.ended()).code).toBe(0);
    expect(left()).toEqual([]);
    expect(JSON.stringify(api.requests[2]?.body)).toContain("Half");
  });
});
