/** `run` as people use it: any provider, files, standard input; and what it refuses, by name. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { makeDocument } from "../../examples/vision/files.mjs";
import { visible, visibleJson } from "../../src/js/cli/screen.mjs";
import { EXIT_CODES, NOBODY_READS_CODE, SIGNAL_CODES, USAGE_CODE } from "../../src/js/cli-text.mjs";
import { runCommand, runCommands, startCommand } from "../support/command-line.mjs";
import { createFakes } from "../support/fake.mjs";
import { withClaude } from "../support/harness.mjs";
import { told } from "../support/live.mjs";
import { type Script, startOpenAi } from "../support/openai.mjs";
import { lacks } from "../support/systems.mjs";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const NAME = "deep-factor-providers";

/** A folder with these files. */
function folder(files: Record<string, string | Uint8Array> = {}) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-cli-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(dir, name), content);
  return (name: string) => join(dir, name);
}

/** An API with this script, and the arguments that ask it. */
async function withApi(script: Script) {
  const api = await startOpenAi(script);
  onTestFinished(async () => {
    await api.close();
    if (api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  return { api, args: ["--base-url", api.url, "--model", "m1"] };
}

/** What the API was sent. */
const sent = (api: Awaited<ReturnType<typeof startOpenAi>>, index = 0) => api.requests[index]?.body;

describe("an OpenAI-compatible API", () => {
  it("is asked with the key of the variable that is named, and its answer is printed whole or as it comes", async () => {
    const { api, args } = await withApi([{ chunks: ["Hel", "lo."] }, { text: '{"n":3}' }, { chunks: ["Hel", "lo."] }]);
    const schema = folder({ s: '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}' })("s");
    const words = ["--api-key-env", "MY_KEY", "--system-prompt", "Be brief.", "--effort", "low"];
    const [whole, value] = await runCommands([
      { args: ["run", "Hi", ...args, ...words], env: { MY_KEY: "secret-of-mine" } },
      { args: ["run", "Hi", ...args, "--provider", "openai", "--schema", schema] },
    ]);
    expect([value?.code, value?.stdout]).toEqual([0, '{\n  "n": 3\n}\n']);
    expect(whole).toEqual({ code: 0, stdout: "Hello.\n", stderr: "" });
    expect(api.requests[0]?.headers.authorization).toBe("Bearer secret-of-mine");
    expect(sent(api)).toMatchObject({
      model: "m1",
      reasoning_effort: "low",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
      ],
    });
    expect(await runCommand(["run", "-", ...args, "--stream"], { input: "Hi\n" })).toEqual(whole);
  });

  it("fails with the exit code of the error, and prints nothing of an answer that broke off", async () => {
    const cut = { chunks: ["Half of", " it"], cutAfter: 2 };
    const { args } = await withApi([cut, cut, cut, { error: { status: 401, message: "no such key" } }]);
    const [broken, refused] = await runCommands([
      { args: ["run", "Hi", ...args] },
      { args: ["run", "Hi", ...args, "--json"] },
    ]);
    expect([broken?.code, broken?.stdout]).toEqual([EXIT_CODES.network, ""]);
    expect([refused?.code, JSON.parse(refused?.stdout ?? "").error.code]).toEqual([
      EXIT_CODES.authentication,
      "INVALID_API_KEY",
    ]);
    expect(refused?.stderr).toMatch(/^INVALID_API_KEY: .+\n$/);
  });
});

describe("files", () => {
  it("go before the prompt, in their order, whatever they are called", async () => {
    const { api, args } = await withApi([{ text: "ok" }]);
    const png = Buffer.from(PIXEL, "base64");
    const pdf = makeDocument();
    const at = folder({ "photo.txt": png, "a.md": "one\ntwo\n", "b.pdf": pdf });
    const flags = ["--file", at("a.md"), "--image", at("photo.txt"), "--file", at("b.pdf")];
    expect(await runCommand(["run", "Compare", ...flags, ...args])).toMatchObject({ code: 0, stdout: "ok\n" });
    const file_data = `data:application/pdf;base64,${pdf.toString("base64")}`;
    expect(sent(api).messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "File a.md:\n\none\ntwo\n\n" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } },
          { type: "file", file: { filename: "b.pdf", file_data } },
          { type: "text", text: "Compare" },
        ],
      },
    ]);
  });

  it.skipIf(lacks("trial"))("go to the real claude natively", async () => {
    const { api, options } = await withClaude({ script: [{ text: "A dot." }] });
    const at = folder({ "dot.png": Buffer.from(PIXEL, "base64") });
    const env = { ...options.env, PATH: `${dirname(options.cliPath)}:${process.env.PATH}` };
    const args = ["run", "What is it?", "--image", at("dot.png"), "--engine", "live", "--model", "sonnet"];
    expect(await runCommand(args, { env })).toMatchObject({ code: 0, stdout: "A dot.\n" });
    expect(told(api.requests[0]?.body)).toEqual([
      [
        "user",
        { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
        { type: "text", text: "What is it?" },
      ],
    ]);
  });

  it.skipIf(lacks("scripts"))("of the wrong kind are refused by name, and nothing is started", async () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    fakes.shell("claude", "echo started >&2; exit 1");
    const big = Buffer.alloc(10_485_761, 0x41);
    const at = folder({
      "a.bmp": "BM0000",
      "a.pdf": makeDocument(),
      "a.bin": Buffer.from([1, 0, 2]),
      "latin.txt": Buffer.from([0x67, 0xfc, 0x6e]),
      empty: "",
      "big.log": big,
    });
    const refusals: [string, string, string][] = [
      ["image", "a.bmp", "is no PNG, JPEG, GIF or WebP: convert it into one of them"],
      ["image", "a.pdf", "is a PDF: give it with --file"],
      ["image", "none.png", "can't be read: there is no such file: check the path"],
      ["file", "", "can't be read: it is a folder: name a file"],
      [
        "file",
        "a.bin",
        "is neither a text in UTF-8 nor a PDF, a PNG, a JPEG, a GIF or a WebP: convert it into one of them",
      ],
      [
        "file",
        "latin.txt",
        "is neither a text in UTF-8 nor a PDF, a PNG, a JPEG, a GIF or a WebP: convert it into one of them",
      ],
      ["file", "empty", "is empty: leave it out, or name another file"],
      ["file", "big.log", "has 10485761 bytes, and a text may have 10485760: give a part of it"],
    ];
    const env = { PATH: fakes.dir };
    // What the provider takes, it says itself: also before it is started.
    const photo = Buffer.alloc(8_000_000, 0x41);
    photo.set([0xff, 0xd8, 0xff, 0xe0]);
    const large = folder({ "large.jpg": photo })("large.jpg");
    const image = folder({ "dot.png": Buffer.from(PIXEL, "base64") })("dot.png");
    const [tooLarge, textOnly, ...refused] = await runCommands(
      [
        ["--image", large],
        ["--provider", "glm", "--image", image],
        ...refusals.map(([flag, name]) => [`--${flag}`, at(name)]),
      ].map((words) => ({ args: ["run", "Hi", ...words], env })),
    );
    expect(refused).toEqual(
      refusals.map(([flag, name, reason]) => ({
        code: USAGE_CODE,
        stdout: "",
        stderr: `${NAME}: --${flag} ${at(name)} ${reason} (${NAME} run --help)\n`,
      })),
    );
    expect([tooLarge?.code, tooLarge?.stderr]).toEqual([
      EXIT_CODES.validation,
      expect.stringMatching(
        `^UNSUPPORTED_CONTENT: --image ${large} is an image \\(image/jpeg\\) of 10666668 bytes as base64, and claude takes 10485760 of one`,
      ),
    ]);
    expect([textOnly?.code, textOnly?.stderr]).toEqual([
      EXIT_CODES.validation,
      expect.stringMatching(
        `^UNSUPPORTED_CONTENT: --image ${image} is an image \\(image/png\\), which glm can't take: it takes text only\\. .+\n$`,
      ),
    ]);
  });
});

it("gives a pipe what the reply has, byte for byte", async () => {
  const evil = "a\u0007b\rc\u202ed\u0085e";
  const { args } = await withApi([{ text: evil }, { text: evil }]);
  const [json, painted] = await runCommands([
    { args: ["run", "Hi", ...args, "--json"] },
    { args: ["run", "Hi", ...args, "--stream", "--color=always"] },
  ]);
  expect(painted?.stdout).toBe(`${evil}\n`);
  expect(JSON.parse(json?.stdout ?? "").content).toBe(evil);
});

it("shows a terminal every character that would steer it, and takes none away", () => {
  const all = Array.from({ length: 0x2100 }, (_, code) => String.fromCharCode(code)).join("");
  const shown = visible(`${all}\ufeff\u{e0041}`);
  expect(shown.match(/[\p{Cc}\p{Cf}\u2028\u2029]/gu)).toEqual(["\t", "\n", "\u200c", "\u200d"]);
  expect(visible("a\u001b]52;c;aGk=\u0007b\r\nc\rd\u009be\u007f")).toBe("a␛]52;c;aGk=␇b\nc␍d‹U+009B›e␡");
  const json = visibleJson({ a: "\u009b\u202e\u{e0041}" });
  expect([json, JSON.parse(json)]).toEqual(['{"a":"\\u009b\\u202e\\udb40\\udc41"}', { a: "\u009b\u202e\u{e0041}" }]);
});

it("paints by --color, NO_COLOR, FORCE_COLOR, in this order", async () => {
  const rows: [string[], Record<string, string>, boolean][] = [
    [[], {}, false],
    [[], { FORCE_COLOR: "1" }, true],
    [[], { FORCE_COLOR: "0" }, false],
    [["--color=auto"], { FORCE_COLOR: "1", NO_COLOR: "1" }, false],
    // It stays what it was said to be: from here on, it is said.
    [["--color=always"], { NO_COLOR: "1" }, true],
    [["--color", "never"], { FORCE_COLOR: "1" }, false],
  ];
  const results = await runCommands(rows.map(([args, env]) => ({ args: ["providers", ...args], env })));
  expect(results.map(({ stdout }) => stdout.includes("\u001b["))).toEqual(rows.map(([, , painted]) => painted));
});

it("has the exit codes that its document lists, all of them and no others", () => {
  const page = readFileSync(new URL("../../docs/reference/command-line.md", import.meta.url), "utf8");
  const listed = [...page.matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code));
  const codes = [0, USAGE_CODE, ...Object.values(EXIT_CODES), ...Object.values(SIGNAL_CODES), NOBODY_READS_CODE];
  expect(listed).toEqual([...codes].sort((a, b) => a - b));
});

it.skipIf(lacks("signals"))("ends with 141 when nobody reads, and by SIGHUP with 129", async () => {
  const { api, args } = await withApi([{ chunks: ["a", "b"], hangAfter: 2 }, { hang: true }]);
  const unread = startCommand(["run", "Hi", ...args, "--stream"]);
  unread.child.stdout?.destroy();
  expect((await unread.ended).code).toBe(NOBODY_READS_CODE);
  const hung = startCommand(["run", "Hi", ...args]);
  await api.waitForRequest(2);
  hung.child.kill("SIGHUP");
  expect((await hung.ended).code).toBe(SIGNAL_CODES.SIGHUP);
});

const REFUSALS: [string[], string][] = [
  [["run", "--modle", "x"], "unknown option '--modle': did you mean --model? (deep-factor-providers run --help)"],
  [["run", "--sys", "x"], "unknown option '--sys': did you mean --system-prompt? (deep-factor-providers run --help)"],
  [
    ["rnu"],
    'unknown command "rnu": did you mean run? there are doctor, providers, run, chat, serve, suite, status, log, completions',
  ],
  [
    ["run", "Hi", "--provider", "calude"],
    'unknown provider "calude": did you mean claude? there are claude, codex, gemini, qwen, glm, grok, opencode, copilot, openai (deep-factor-providers run --help)',
  ],
  [["run", "Hi", "--model"], "--model has no value: write --model VALUE (deep-factor-providers run --help)"],
  [
    ["run", "Hi", "--model", "--json"],
    '--model has no value, as "--json" looks like an option: write --model=--json if it is none (deep-factor-providers run --help)',
  ],
  [
    ["run", "Hi", "--json=yes"],
    '--json takes no value, and got "yes": leave out "=yes" (deep-factor-providers run --help)',
  ],
  [
    ["doctor", "--color=blue"],
    '--color must be auto, always or never, not "blue" (deep-factor-providers doctor --help)',
  ],
  [
    ["run", "Hi", "--stream", "--no-stream"],
    "--stream and --no-stream contradict each other: say one (deep-factor-providers run --help)",
  ],
  [
    ["run", "Hi", "--schema", "/nowhere/s.json"],
    "--schema /nowhere/s.json can't be read: there is no such file: check the path (deep-factor-providers run --help)",
  ],
  [
    ["run", "Hi", "--api-key", "sk-1"],
    "there is no option --api-key: a key on the command line is seen by every user of the machine. Put it into an environment variable, and name that with --api-key-env (deep-factor-providers run --help)",
  ],
  [
    ["run", "Hi", "--provider", "openai", "--model", "m", "--api-key-env", "sk-1"],
    "--api-key-env is no name of an environment variable: name the variable that holds the key (deep-factor-providers run --help)",
  ],
  [
    ["run", "Hi", "--provider", "openai"],
    "openai has no model of its own: name one with --model (deep-factor-providers run --help)",
  ],
  [
    ["run", "Hi", "--provider", "openai", "--model", "m", "--engine", "live"],
    "openai takes no --engine, which is for CLIs (claude, codex, gemini, qwen, glm, grok, opencode, copilot): leave it out (deep-factor-providers run --help)",
  ],
  [
    ["run", "Hi", "--provider", "codex", "--base-url", "http://x"],
    "codex takes no --base-url, which is for an API: leave it out, or say --provider openai (deep-factor-providers run --help)",
  ],
  [
    ["chat", "Hi"],
    'unexpected argument "Hi": chat asks for prompts; run takes one (deep-factor-providers chat --help)',
  ],
  [
    ["chat", "--history", "/nowhere/h"],
    "--history /nowhere/h can't be read: there is no such file: check the path (deep-factor-providers chat --help)",
  ],
  [
    ["help", "chta"],
    'unknown command "chta": did you mean chat? there are doctor, providers, run, chat, serve, suite, status, log, completions',
  ],
  [
    ["doctor", "codx"],
    'unknown provider "codx": did you mean codex? there are claude, codex, gemini, qwen, glm, grok, opencode, copilot (deep-factor-providers doctor --help)',
  ],
  [
    ["log", "shwo"],
    'unknown action "shwo": did you mean show? there are show, html (deep-factor-providers log --help)',
  ],
];

/** What is refused, by one process for all of it. */
let refusals: ReturnType<typeof runCommands> | undefined;

it.each(REFUSALS)("refuses %j: the reason, then what to do", async (args, expected) => {
  refusals ??= runCommands(REFUSALS.map(([args]) => ({ args })));
  const refused = (await refusals)[REFUSALS.findIndex((row) => row[0] === args)];
  expect(refused).toEqual({ code: USAGE_CODE, stdout: "", stderr: `${NAME}: ${expected}\n` });
});
