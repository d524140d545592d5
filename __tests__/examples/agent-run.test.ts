// @change
/**
 * The example `examples/agent-run`: what its tools give away and what not, how a person decides, and the whole of it as a
 * person runs it.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createConsent } from "../../examples/agent-run/consent.mjs";
import { createFileTools } from "../../examples/agent-run/file-tools.mjs";
import { openFolder } from "../../examples/agent-run/folder.mjs";
import { runCommands } from "../support/command-line.mjs";
import { lacks } from "../support/systems.mjs";

const posix = !lacks("devices", "links");
let base: string;
let folder: string;
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "dfp-agent-run-"));
  folder = join(base, "repo");
  mkdirSync(join(folder, "src"), { recursive: true });
  mkdirSync(join(folder, ".git"));
  mkdirSync(join(base, "repo-2"));
  writeFileSync(join(base, "secret.txt"), "the secret\n");
  writeFileSync(join(base, "repo-2", "secret.txt"), "the secret\n");
  writeFileSync(join(folder, "README.md"), "# Readme\nnothing\n");
  writeFileSync(join(folder, "src", "a.ts"), "const other = 1;\nfunction Main() {\n  return other;\n}\n");
  writeFileSync(join(folder, ".git", "config"), "main\n");
  writeFileSync(join(folder, "..odd.txt"), "odd\n");
  writeFileSync(join(folder, "binary"), Buffer.from([109, 97, 105, 110, 0]));
  writeFileSync(join(folder, "large.txt"), "main ".repeat(300_000));
  symlinkSync(base, join(folder, "out"), "junction");
  symlinkSync(join(folder, "src"), join(folder, "in"), "junction");
  if (posix) {
    symlinkSync("../secret.txt", join(folder, "link.txt"));
    symlinkSync("out/secret.txt", join(folder, "chain.txt"));
    symlinkSync("loop", join(folder, "loop"));
    spawnSync("mkfifo", [join(folder, "pipe")]);
  }
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

function use(name: string, args: Record<string, unknown>): Promise<string> {
  const tool = createFileTools(folder).find((one) => one.name === name);
  return (tool as unknown as { invoke(args: object): Promise<string> }).invoke(args);
}

describe("the folder's tools", () => {
  it("list, read and search what is in it", async () => {
    expect(await use("list_files", {})).toBe(
      "..odd.txt\nREADME.md\nbinary\nlarge.txt\nsrc/".replace("..odd.txt\n", ""),
    );
    expect(await use("list_files", { folder: "src" })).toBe("a.ts");
    expect(await use("read_file", { file: "src/a.ts" })).toBe(
      "1: const other = 1;\n2: function Main() {\n3:   return other;\n4: }",
    );
    expect(await use("read_file", { file: "src/a.ts", from: 2, lines: 1 })).toBe(
      "2: function Main() {\n(2 more lines)",
    );
    expect(await use("read_file", { file: "in/a.ts", lines: 1 })).toMatch(/^1: const other/);
    expect(await use("read_file", { file: "src/../..odd.txt" })).toBe("1: odd");
    expect(await use("read_file", { file: join(folder, "README.md"), lines: 1 })).toBe("1: # Readme\n(1 more lines)");
    // Not in what git keeps, what is no text, what is too large, and not twice by way of a link.
    expect(await use("search_files", { text: "main" })).toBe("src/a.ts:2: function Main() {");
    expect(await use("search_files", { text: "main", folder: "in" })).toBe("src/a.ts:2: function Main() {");
    expect(await use("search_files", { text: "the secret" })).toBe('no file says "the secret"');
  });

  const attacks = [
    ...["..", "../secret.txt", "src/../../secret.txt", "../repo-2/secret.txt", "./../repo/../secret.txt"],
    ...["out", "out/secret.txt", "out/repo/../secret.txt", "out/not-there", "in/../out/secret.txt", "README.md\0"],
    ...(posix ? ["/etc/passwd", "/", "//etc/passwd", "link.txt", "chain.txt", "/proc/self/environ"] : ["C:\\Windows"]),
  ];
  it.each(attacks)("do not get out by %j", async (path) => {
    // "out/repo/../secret.txt" is, as text, "out/secret.txt".
    await expect(use("read_file", { file: path })).rejects.toThrow(`${path} is outside of this folder`);
    await expect(use("list_files", { folder: path })).rejects.toThrow(`${path} is outside of this folder`);
    await expect(use("search_files", { text: "secret", folder: path })).rejects.toThrow("is outside of this folder");
  });

  it("say what can't be read, and do not wait for it", async () => {
    for (const [file, reason] of [
      ["no-such.md", "there is no file no-such.md here"],
      ["src", "src cannot be read as a file"],
      ["binary", "binary is not a text file"],
      ["large.txt", "large.txt has 1500000 bytes, which is too much to read"],
      ...(posix
        ? [["pipe", "pipe cannot be read as a file"] as const, ["loop", "there is no file loop here"] as const]
        : []),
    ] as const) {
      await expect(use("read_file", { file })).rejects.toThrow(reason);
    }
    await expect(use("list_files", { folder: "README.md" })).rejects.toThrow("README.md cannot be read as a folder");
    await expect(use("read_file", { file: "README.md", from: 9 })).rejects.toThrow("README.md has only 2 lines");
    expect(() => openFolder(join(folder, "README.md"))).toThrow("is not a folder");
  });
});

describe("the person", () => {
  const context = { signal: new AbortController().signal, runId: "run" };
  const call = (name: string, args = {}) => ({ id: name, name, args });

  function person(options: { yes?: boolean; tty?: boolean; onInterrupt?: () => void } = {}) {
    const { tty = true, ...rest } = options;
    const input = Object.assign(new PassThrough(), { isTTY: tty });
    const output = new PassThrough({ encoding: "utf8" });
    let text = "";
    const waiting: [number, () => void][] = [];
    const questions = () => text.split("[n]o and why: ").length - 1;
    output.on("data", (part) => {
      text += part;
      for (const [count, resolve] of waiting) if (questions() >= count) resolve();
    });
    /** Once that many questions were put. */
    const asked = (count: number) =>
      new Promise<void>((resolve) => (questions() >= count ? resolve() : waiting.push([count, resolve])));
    return { input, asked, text: () => text, ask: createConsent({ input, output, ...rest }) };
  }

  it("is asked about one call after the other, and says yes, no and why, or always", async () => {
    const { input, asked, ask, text } = person();
    const decisions = [
      ask(call("read_file", { file: "a\u001b[2K\u202eb" }), context),
      ask(call("search_files", { text: "x" }), { ...context, agent: "reviewer" }),
      ask(call("read_file"), context),
      ask(call("read_file"), context),
      ask(call("search_files"), context),
    ];
    for (const [index, answer] of ["y", "no, not that one", "always", ""].entries()) {
      await asked(index + 1);
      input.write(`${answer}\n`);
    }
    expect(await Promise.all(decisions)).toEqual([
      { allow: true },
      { allow: false, reason: "not that one" },
      { allow: true },
      { allow: true, reason: "allowed for all of the run" },
      { allow: false, reason: "the person said no" },
    ]);
    expect(text()).toContain('allow    read_file { "file": "a\\u001b[2K�b" }? ');
    expect(text()).toContain('allow    reviewer: search_files { "text": "x" }? ');
  });

  it("is nobody without a terminal, unless --yes was said", async () => {
    const reason = "nobody is there to ask: run it on a terminal, or with --yes";
    expect(await person({ tty: false }).ask(call("read_file"), context)).toEqual({ allow: false, reason });
    const yes = { allow: true, reason: "--yes" };
    expect(await person({ tty: false, yes: true }).ask(call("read_file"), context)).toEqual(yes);
  });

  it("has said no by going away; a question that does not matter any more is taken back", async () => {
    const gone = person();
    const decision = gone.ask(call("read_file"), context);
    await gone.asked(1);
    gone.input.end();
    expect(await decision).toEqual({ allow: false, reason: "the person said no" });
    const { ask, asked, input } = person();
    const controller = new AbortController();
    const first = ask(call("read_file"), { ...context, signal: controller.signal });
    const second = ask(call("search_files"), context);
    await asked(1);
    controller.abort();
    await expect(Promise.resolve(first)).rejects.toMatchObject({ name: "AbortError" });
    await asked(2);
    input.write("y\n");
    expect(await second).toEqual({ allow: true });
  });
});

describe("examples/agent-run", () => {
  const TIMEOUT = { timeout: 120_000 };
  const MAIN = fileURLToPath(new URL("../../examples/agent-run/main.mjs", import.meta.url));

  const QUESTION = ["--folder", "FOLDER", "Where is 'main'?"];
  const RUNS = {
    permitted: ["--yes", ...QUESTION],
    denied: QUESTION,
    wrong: ["--reviewer", "nobody"],
    gone: ["--folder", "FOLDER-not-there"],
  };
  let results: ReturnType<typeof runCommands> | undefined;

  /** All of them are run by one process: what the example imports takes longer than what it does. */
  async function run(name: keyof typeof RUNS) {
    results ??= runCommands(
      Object.values(RUNS).map((words) => {
        const args = words.map((word) => word.replace("FOLDER", folder));
        return { program: MAIN, args, env: { NO_COLOR: "1" } };
      }),
    );
    const { code, stdout, stderr } = (await results)[Object.keys(RUNS).indexOf(name)] ?? expect.unreachable();
    const tidy = stdout
      .replace(/\d+\.\d+ s$/gm, "TIME")
      .replace(/[\d,]+ tokens in, [\d,]+ out(, \$\d+\.\d+)?/g, "USAGE")
      .replace(/claude 2\.1\.\d+/, "claude VERSION");
    return { code, stderr, lines: tidy.split("\n") };
  }

  const HEAD = `an agent for questions about a repository, and its reviewer
claude VERSION from node_modules and an OpenAI-compatible API; both APIs are
scripted

you      Where is 'main'?
         claude may call list_files, read_file, search_files, handoff
message  I'll look around, and for main.
tool     list_files {}
allowed  list_files, by allow
tool     search_files { "text": "main" }
allowed  search_files, by ask: --yes
result   README.md
         binary
         large.txt
         src/
result   src/a.ts:2: function Main() {`;
  const TAIL = `tool     read_file { "file": "src/a.ts", "from": 1, "lines": 5 }
allowed  read_file, by ask: --yes
result   1: const other = 1;
         2: function Main() {
         3:   return other;
         4: }
tool     handoff { "agent": "reviewer", "task": "Check this claim:\\nsrc/a.ts,
         line 2: function Main() {" }
allowed  handoff, by builtin
handoff  to reviewer
         reviewer: openai may call read_file
tool     reviewer: read_file { "file": "src/a.ts", "from": 2, "lines": 1 }
allowed  reviewer: read_file, by ask: --yes
result   reviewer: 2: function Main() {
         (2 more lines)
reviewer Confirmed: it is line 2 of src/a.ts.
result   Confirmed: it is line 2 of src/a.ts.
message  main is in src/a.ts, line 2: function Main() {
         The reviewer: Confirmed: it is line 2 of src/a.ts.
${"─".repeat(80)}
         completed: 4 steps, 4 tool calls, TIME
`;

  it("finds, asks, hands the finding over, and answers", TIMEOUT, async () => {
    const { code, stderr, lines } = await run("permitted");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    const shown = lines.map((line) => line.trimEnd()).filter((line) => !/^\s*(reviewer: )?USAGE$/.test(line));
    const parallel = shown.findIndex((line) => line.startsWith("tool     read_file"));
    // Calls made at once get their answers in any order.
    expect(shown.slice(0, parallel).sort()).toEqual(HEAD.split("\n").sort());
    expect(shown.slice(parallel).join("\n")).toBe(TAIL);
  });

  it("answers without what nobody permitted", TIMEOUT, async () => {
    const { code, stderr, lines } = await run("denied");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const text = lines.join("\n");
    expect(text).toContain("denied   search_files, by ask: nobody is there to ask");
    expect(text).toContain('message  I could not search: "search_files" was not permitted: nobody');
    expect(text).toContain("completed: 2 steps, 2 tool calls, TIME\n         USAGE\n");
  });

  it("says what is wrong with its options", TIMEOUT, async () => {
    const wrong = await run("wrong");
    expect(wrong.code).toBe(1);
    expect(wrong.lines.join(" ")).toContain("--reviewer must be one of claude, codex, gemini, qwen, not nobody");
    const gone = await run("gone");
    expect([gone.code, gone.lines.join(" ")]).toEqual([1, expect.stringContaining("failed   ENOENT")]);
  });
});
