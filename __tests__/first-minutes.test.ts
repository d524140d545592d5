/** What a newcomer gets wrong in the first minutes, and what is said of it: whole sentences, because they are the manual. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClaudeCliProvider, createCodexCliProvider, ProviderError } from "deep-factor-providers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { HERE } from "./clis/real.js";
import { withClaude } from "./support/harness.mjs";
import { installed, OLDEST_CLAUDE } from "./support/installed.mjs";
import { lacks } from "./support/systems.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A caller without types. */
const create = createClaudeCliProvider as (options?: unknown) => ReturnType<typeof createClaudeCliProvider>;

/** `CODE: message` of what it fails with. */
async function failure(attempt: () => unknown): Promise<string> {
  try {
    await attempt();
  } catch (error) {
    if (error instanceof ProviderError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "it did not fail";
}

describe("the CLI", () => {
  const nowhere = { env: { PATH: "/nonexistent" } };

  it("is not installed", async () => {
    expect(await failure(() => create(nowhere).invoke(["hi"]))).toBe(
      "CLI_NOT_FOUND: the CLI can't be started: claude is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers. " +
        "Install it with `npm install -g @anthropic-ai/claude-code`, or set `cliPath`",
    );
    expect(await failure(() => createCodexCliProvider(nowhere).invoke(["hi"]))).toBe(
      "CLI_NOT_FOUND: the CLI can't be started: codex is not in any folder of the PATH, nor in ~/.local/bin and the other places of installers. " +
        "Install it with `npm install -g @openai/codex`, or set `cliPath`",
    );
  });

  it("is not where it was said to be", async () => {
    expect(await failure(() => create({ cliPath: "/nonexistent/claude" }).invoke(["hi"]))).toBe(
      "CLI_NOT_FOUND: the CLI can't be started: /nonexistent/claude does not exist. Install it with " +
        "`npm install -g @anthropic-ai/claude-code`, or set `cliPath`",
    );
  });

  it.skipIf(!HERE || lacks("modes", "scripts", "links"))(
    "is another machine's, or was not installed completely",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "dfp-first-"));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const write = (name: string, text: string | Uint8Array, mode = 0o755) => {
        const file = join(folder, name);
        mkdirSync(join(file, ".."), { recursive: true });
        writeFileSync(file, text, { mode });
        return file;
      };
      const says = async (cliPath: string, provider = create as typeof createCodexCliProvider) =>
        (await failure(() => provider({ cliPath, engine: "print" }).invoke(["hi"]))).replaceAll(folder, "<bin>");
      const install = "npm install -g @anthropic-ai/claude-code";
      const again = `Install it with \`${install}\`, or set \`cliPath\`; npm needs \`--include=optional --ignore-scripts=false\` for it`;
      const cannot = "CLI_NOT_EXECUTABLE: the CLI can't be started: <bin>";

      const native = readFileSync("/bin/true");
      const arm = Buffer.from(native);
      arm.writeUInt16LE(183, 18);
      expect(await says(write("claude-arm64", arm))).toBe(
        `${cannot}/claude-arm64 is a program for Linux on arm64, and this machine is Linux on x64. ${again}`,
      );
      const musl = Buffer.from(native);
      musl.fill(
        0,
        musl.indexOf("/lib64/ld-linux"),
        musl.indexOf("/lib64/ld-linux") + "/lib64/ld-linux-x86-64.so.2".length,
      );
      musl.write("/lib/ld-musl-none.so.1", native.indexOf("/lib64/ld-linux"));
      expect(await says(write("claude-musl", musl))).toBe(
        "INTERPRETER_NOT_FOUND: the CLI can't be started: <bin>/claude-musl needs /lib/ld-musl-none.so.1, which is missing: it was built for " +
          `musl, and this system has another C library. ${again}`,
      );
      const stub = readFileSync(join(await installed(OLDEST_CLAUDE), "bin/claude.exe"));
      expect(await says(write("claude.exe", stub))).toBe(
        `${cannot}/claude.exe is a text without a \`#!\` line, as a package leaves it whose install script did not run. ${again}`,
      );
      const codex = await installed("@openai/codex");
      write("codex/package.json", readFileSync(join(codex, "package.json")));
      const launcher = write("codex/bin/codex.js", readFileSync(join(codex, "bin/codex.js")));
      expect(await says(launcher, createCodexCliProvider)).toBe(
        "CLI_NOT_EXECUTABLE: Missing optional dependency @openai/codex-linux-x64. Reinstall Codex: npm install -g @openai/codex@latest. Run " +
          "`npm install -g --include=optional @openai/codex@latest`",
      );
      expect(await says(write("claude-plain", native, 0o644))).toBe(
        `${cannot}/claude-plain is not executable. Run \`chmod +x <bin>/claude-plain\`, or set \`cliPath\``,
      );
      write("app.asar", "");
      expect(await says(join(folder, "app.asar/node_modules/.bin/claude"))).toBe(
        `${cannot}/app.asar/node_modules/.bin/claude lies inside of the archive <bin>/app.asar, from which nothing can be started. Name it in ` +
          "`asarUnpack`, and set `cliPath` to its path below `app.asar.unpacked`",
      );
    },
  );

  it("is not logged in", async () => {
    const { options } = await withClaude({ script: [], env: { ANTHROPIC_API_KEY: undefined } });
    expect(await failure(() => create(options).invoke(["hi"]))).toBe(
      "NOT_LOGGED_IN: Not logged in · Please run /login. Run `claude` once and log in, or set ANTHROPIC_API_KEY",
    );
  });

  it("does not know the model", async () => {
    const unknown = { error: { status: 404, message: "model: sonet" } };
    const { options } = await withClaude({ script: () => unknown });
    expect(await failure(() => create({ ...options, model: "sonet" }).invoke(["hi"]))).toBe(
      "MODEL_NOT_FOUND: There's an issue with the selected model (sonet). It may not exist or you may not have access to it. " +
        "Run --model to pick a different model. Set `model` to one that exists and that the account may use, such as `sonnet`",
    );
  });
});

describe("an option", () => {
  it.each([
    ["misspelt", { modle: "sonnet" }, 'INVALID_OPTION: unknown option "modle": did you mean "model"?'],
    [
      "of the wrong type",
      { timeout: "60s" },
      'INVALID_OPTION: option "timeout" must be a whole number of ms from 0 to 2147483647; given: "60s"',
    ],
    [
      "with a value there is not",
      { engine: "fast" },
      'INVALID_OPTION: option "engine" must be one of "print", "live", "auto"; given: "fast"',
    ],
    [
      "that would be a flag",
      { model: "--help" },
      'INVALID_OPTION: option "model" must be a string that does not begin with "-"; given: "--help"',
    ],
  ])("%s", async (_, options, says) => {
    expect(await failure(() => create(options))).toBe(says);
  });

  it("of another library is answered with those there are", async () => {
    expect(await failure(() => create({ frequencyPenalty: 0 }))).toMatch(
      /^INVALID_OPTION: unknown option "frequencyPenalty"; allowed: model, cliPath, cliSearch, launch, timeout, [\w, ]+…$/,
    );
  });
});

describe("a tool", () => {
  const about = { name: "add", description: "adds" };

  it.each([
    ["in no array", about, "tools must be an array, got an object"],
    [
      "without a name",
      [{ description: "adds" }],
      "tools[0] has no name: it must be a string that is not empty, got undefined",
    ],
    [
      "with a word for a schema",
      [{ ...about, schema: "number" }],
      'tools[0] ("add") has a schema that is neither zod nor JSON Schema: the string "number"',
    ],
    [
      "with words for fields",
      [{ ...about, schema: { a: "number", b: "number" } }],
      'tools[0] ("add") has a schema that is not a JSON Schema, for "a" is not one of its keywords: write ' +
        '{ type: "object", properties: { a, b: … } }',
    ],
    [
      "with schemas for fields",
      [{ ...about, schema: { a: { type: "number" } } }],
      'tools[0] ("add") has a schema that is not a JSON Schema, for "a" is not one of its keywords: write ' +
        '{ type: "object", properties: { a: … } }',
    ],
    [
      "with zod's fields, not its object",
      [{ ...about, schema: { a: z.number(), b: z.number() } }],
      'tools[0] ("add") has fields of zod (a, b) where a schema belongs: wrap them in z.object({ … })',
    ],
    [
      "with zod 3's fields",
      [{ ...about, schema: { a: z3.number() } }],
      'tools[0] ("add") has fields of zod (a) where a schema belongs: wrap them in z.object({ … })',
    ],
  ])("%s", async (_, tools, says) => {
    expect(await failure(() => create().bindTools(tools as never))).toBe(`INVALID_TOOL: ${says}`);
  });

  it("of any JSON Schema is taken", () => {
    const schemas = [{}, { type: "object" }, { $ref: "#/x" }, { anyOf: [] }, { "x-order": 1 }, { required: ["a"] }];
    for (const schema of schemas) expect(() => create().bindTools([{ ...about, schema }])).not.toThrow();
  });
});

describe("a message", () => {
  it.each([
    ["by itself", "hi", 'INVALID_MESSAGES: messages must be an array, such as ["Say hello"], got the string "hi"'],
    ["none", [], "EMPTY_PROMPT: there is nothing to send: no message has any text. Send a message with text in it"],
    [
      "of a shape of one's own",
      [{ text: "hi" }],
      "INVALID_MESSAGES: messages[0] has neither a type nor a role that is a string",
    ],
  ])("%s", async (_, messages, says) => {
    expect(await failure(() => create().invoke(messages as never))).toBe(says);
  });
});

describe("the surroundings", () => {
  /** A project that has this package, and nothing else. */
  let project = "";
  beforeAll(() => {
    project = mkdtempSync(join(tmpdir(), "dfp-first-"));
    const ours = join(project, "node_modules/deep-factor-providers");
    mkdirSync(join(ours, "src/js"), { recursive: true });
    cpSync(join(ROOT, "package.json"), join(ours, "package.json"));
    cpSync(join(ROOT, "src/js"), join(ours, "src/js"), { recursive: true });
  });
  afterAll(() => rmSync(project, { recursive: true, force: true }));

  /** What a program prints there. */
  const run = (source: string) => {
    writeFileSync(join(project, "main.mjs"), source);
    return execFileSync(process.execPath, ["main.mjs"], {
      cwd: project,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  };
  const load = (entry: string) =>
    `await import("${entry}").then(() => console.log("loaded"), ({ code, message }) => console.log(code + ": " + message));`;

  it("lack @langchain/core", () => {
    expect(run(load("deep-factor-providers"))).toBe(
      "ERR_MODULE_NOT_FOUND: deep-factor-providers makes its answers of @langchain/core (>=0.3 <2), which is not installed: run " +
        '"npm install @langchain/core", or import "deep-factor-providers/native", which gives plain JSON instead.\n',
    );
    expect(run(load("deep-factor-providers/native"))).toBe("loaded\n");
  });

  it("have a Node that is too old", () => {
    const old = 'Object.defineProperty(process.versions, "node", { value: "18.20.8" });';
    expect(run(`${old} ${load("deep-factor-providers/native")}`)).toBe(
      "ERR_UNSUPPORTED_NODE: deep-factor-providers needs Node 20 or newer, and this is Node 18.20.8: install a newer one from " +
        "https://nodejs.org.\n",
    );
  });
});
