// @change
/**
 * README and docs keep their word: TypeScript compiles in a strict project and runs against the real claude CLI and a scripted
 * API, commands exist, JSON is JSON. `support/docs.mjs` says which blocks are taken and how one is left out.
 */
import { execFile } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startAnthropic } from "./support/anthropic.mjs";
import { isolateClaude } from "./support/claude.mjs";
import { allBlocks, type Block, blocksOf, documents, isTypeScript, place, problems } from "./support/docs.mjs";
import { startOpenAi } from "./support/openai.mjs";
import { lacks } from "./support/systems.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");

/** What a reader has and a block does not show. A block that uses one of them is not run. */
const READERS_OWN = `
declare module "deep-factor-agent" {
  export function createDeepFactorAgent(settings: {
    model: import("deep-factor-providers").ModelAdapter;
    tools?: readonly unknown[];
    [setting: string]: unknown;
  }): { loop(prompt: string): Promise<unknown> };
}
declare const createDeepFactorAgent: typeof import("deep-factor-agent").createDeepFactorAgent;
declare const tools: import("deep-factor-providers").ToolInput[];
`;

/** Where documents say that a server is. */
const THEIR_SERVER = "http://127.0.0.1:8080/v1";

const blocks = allBlocks();
const code = blocks.filter(isTypeScript);
const nameOf = ({ file, line }: Block) => `${file.replaceAll(/\W/g, "-")}-${line}`;
const isRun = ({ mark, text }: Block) =>
  !mark && text.includes('from "deep-factor-providers') && !/createDeepFactorAgent|\btools\b(?!["/:])/.test(text);

let home: string;
/** What the compiler says, by the place in the document. */
let complaints: string[];
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "dfp-docs-"));
  mkdirSync(join(home, "node_modules"));
  for (const name of ["@langchain", "@types", "ai", "langchain", "undici-types", "zod"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(home, "node_modules", name), "junction");
  }
  symlinkSync(ROOT, join(home, "node_modules/deep-factor-providers"), "junction");
  writeFileSync(join(home, "package.json"), JSON.stringify({ type: "module", name: "reader" }));
  writeFileSync(join(home, "readers-own.d.ts"), READERS_OWN);
  // Padded, so that the compiler's line numbers are the document's.
  for (const block of code) {
    writeFileSync(join(home, `${nameOf(block)}.ts`), `${"\n".repeat(block.line - 1)}${block.text}\nexport {};\n`);
  }
  const compilerOptions = {
    ...{
      target: "es2022",
      lib: ["es2022", "esnext.disposable"],
      types: ["node"],
      module: "nodenext",
      moduleResolution: "nodenext",
    },
    ...{ strict: true, skipLibCheck: true, outDir: "out", rootDir: ".", noEmitOnError: false },
  };
  writeFileSync(join(home, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const said = await new Promise<string>((resolve) =>
    execFile(process.execPath, [TSC, "-p", "."], { cwd: home }, (_, stdout, stderr) => resolve(stdout + stderr)),
  );
  complaints = said
    .split(/\n(?=\S)/)
    .filter(Boolean)
    .map((line) => {
      const [, name = "", at = ""] = /^([\w-]+)\.ts\((\d+),/.exec(line) ?? [];
      const block = code.find((one) => nameOf(one) === name);
      return block ? `${block.file}:${at}: ${line.replace(/^.*?: /, "").trim()}` : line;
    });
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("documents", () => {
  it("are found, with their code", () => {
    expect(documents()).toEqual(
      expect.arrayContaining(["README.md", "docs/reference/errors.md", "docs/guide/tools.md"]),
    );
    expect(code.length).toBeGreaterThan(8);
    expect(code.filter(isRun).length).toBeGreaterThan(8);
  });

  it("TypeScript compiles in a strict project", () => {
    expect(complaints).toEqual([]);
  });

  it("offer no second login behind a used-up plan", () => {
    const offers =
      /fallback[^.\n]{0,40}\b(two|several|second|other)\b[^.\n]{0,20}\b(logins?|subscriptions?|accounts?|plans?)\b/i;
    const examples = readdirSync(join(ROOT, "examples"), { recursive: true, encoding: "utf8" });
    const scripts = examples.filter((name) => /\.[cm]?[jt]s$|\.md$/.test(name) && !name.includes("node_modules"));
    const texts = [...documents(), "index.d.ts", ...scripts.map((name) => join("examples", name))];
    const found = texts.flatMap((file) => {
      const text = readFileSync(join(ROOT, file), "utf8");
      const members = text.split("createFallbackProvider(").slice(1);
      const logins = members.map((rest) => rest.split("]", 1)[0]?.match(/\blogin\b/g)?.length ?? 0);
      return [
        ...(offers.test(text) ? [`${file}: ${offers.exec(text)?.[0]}`] : []),
        ...(logins.some((count) => count > 1) ? [`${file}: a fallback of logins`] : []),
      ];
    });
    expect(found).toEqual([]);
    expect("Yes: a fallback over two logins").toMatch(offers);
  });

  it("commands exist, JSON is JSON, every block names its language", () => {
    expect(blocks.flatMap((block) => problems(block))).toEqual([]);
  });
});

/** Runs the programs that its arguments name, one after the other, and says which it has begun and which have come to their end. */
const READER = `
for (const program of process.argv.slice(2)) {
  process.stderr.write("begun: " + program + "\\n");
  await import("./" + program);
  process.stderr.write("ended: " + program + "\\n");
}
`;

describe.skipIf(lacks("modes"))("a reader's programs run to their end, and so does Node behind them", () => {
  const scripts = blocks.filter(({ text }) => text.startsWith("#!"));
  /** The documents of a folder go together; one that shows a script, which is there for its programs alone, goes by itself. */
  const groupOf = ({ file }: Block) => (scripts.some((block) => block.file === file) ? file : dirname(file));
  const run = code.filter(isRun);
  // Some in one process, for a start of Node and of LangChain takes longer than most programs; not all, for a limit of time holds for each.
  const AT_MOST = 8;
  const shares = [...new Set(run.map(groupOf))].flatMap((group) => {
    const all = run.filter((block) => groupOf(block) === group);
    const starts = all.flatMap((_, index) => (index % AT_MOST === 0 ? [index] : []));
    return starts.map((start) => all.slice(start, start + AT_MOST));
  });
  const rows = shares.map((own) => [own.map(place).join(" "), own] as const);

  it.skipIf(lacks("links")).each(rows)("%s", async (places, own) => {
    const api = await startAnthropic(() => ({ text: "hello" }));
    const server = await startOpenAi(() => ({ text: "hello" }));
    const claude = isolateClaude({ baseUrl: api.url });
    try {
      const bin = join(claude.home, "bin");
      mkdirSync(bin);
      symlinkSync(claude.cliPath, join(bin, "claude"));
      for (const { text } of scripts.filter(({ file }) => file === own[0]?.file)) {
        writeFileSync(join(bin, "my-cli"), text);
        chmodSync(join(bin, "my-cli"), 0o755);
      }
      const given = { ...process.env, ...claude.env, SECOND_GATEWAY: api.url };
      const kept = Object.entries(given).filter(([, value]) => value !== undefined);
      const env = { ...Object.fromEntries(kept), PATH: [bin, "/usr/bin", "/bin"].join(delimiter) };
      const programs = own.map((block) => join("out", `${nameOf(block)}.js`));
      for (const program of programs) {
        const written = readFileSync(join(home, program), "utf8");
        writeFileSync(join(home, program), written.replaceAll(THEIR_SERVER, server.url));
      }
      const reader = join(home, "reader.mjs");
      writeFileSync(reader, READER);
      const ended = await new Promise<{ code: unknown; stderr: string }>((resolve) => {
        const child = execFile(
          process.execPath,
          [reader, ...programs],
          { cwd: home, env, timeout: 110_000 },
          (error, _, stderr) => resolve({ code: error ? (error.signal ?? error.code) : 0, stderr }),
        );
        child.stdin?.end();
      });
      // What a logger writes is no failure.
      expect(ended, `${places}: ${ended.stderr}`).toEqual({ code: 0, stderr: expect.any(String) });
      const marks = [...ended.stderr.matchAll(/^(?:begun|ended): .*$/gm)].map(([mark]) => mark);
      expect(marks, ended.stderr).toEqual(programs.flatMap((program) => [`begun: ${program}`, `ended: ${program}`]));
    } finally {
      await api.close();
      await server.close();
      claude.cleanup();
    }
  });
});

describe("the checks themselves", () => {
  const fence = (language: string, text: string) => blocksOf("x.md", `# x\n\n\`\`\`${language}\n${text}\n\`\`\`\n`);
  const found = (language: string, text: string) => fence(language, text).flatMap((block) => problems(block));

  it.each([
    ["sh", "npm run no-such-script", 'x.md:4: package.json has no script "no-such-script"'],
    ["sh", "npm test # yes\nnpx deep-factor-providers dokter", 'x.md:5: deep-factor-providers has no command "dokter"'],
    [
      "sh",
      'git diff | npx deep-factor-providers run "x" --strean',
      "x.md:4: deep-factor-providers run has no option --strean",
    ],
    ["sh", "node bench/none.mjs", "x.md:4: there is no bench/none.mjs"],
    ["sh", "frobnicate --all", 'x.md:4: "frobnicate" is no command the tests know'],
    [
      "rust",
      "fn main() {}",
      "x.md:4: nothing compiles this Rust: mark it ```rust,ignore, or show it in a doc comment of src",
    ],
    ["", "x", "x.md:4: the block names no language: use ```text for what is to be read only"],
    ["cobol", "x", 'x.md:4: "cobol" is no language the tests know: use ```text for what is to be read only'],
  ])("%s: %s", (language, text, problem) => {
    expect(found(language, text)).toEqual([problem]);
  });

  it("say where JSON is none", () => {
    expect(found("json", '{"a":}')).toEqual([expect.stringMatching(/^x\.md:4: is no JSON: /)]);
    expect(found("jsonl", '{"a":1}\n{')).toEqual([expect.stringMatching(/^x\.md:5: is no JSON: /)]);
  });

  it("let what is right pass", () => {
    expect(
      found("sh", "FUZZ_SECONDS=600 cargo test --test integration fuzz\n.ci/run\nnpm run demo -- --live 'x'"),
    ).toEqual([]);
    expect(found("json", "[1]")).toEqual([]);
    expect(found("rust,ignore", "fn main() {")).toEqual([]);
    expect(fence("ts", "x")[0]).toEqual({
      file: "x.md",
      line: 4,
      language: "ts",
      flags: [],
      text: "x",
      mark: undefined,
    });
  });

  it("take marks, and find a block without an end", () => {
    const [first, second] = blocksOf("x.md", "<!-- not run: takes an hour -->\n```ts\n1\n```\n```ts\n2\n```\n");
    expect([first?.mark, second?.mark]).toEqual(["not run", undefined]);
    expect(() => blocksOf("x.md", "```ts\n1\n")).toThrow("x.md:1: the code block has no end");
    expect(readFileSync(join(ROOT, "README.md"), "utf8")).toContain("```ts");
  });
});

it("what a link names behind its # is a heading", () => {
  const dead = documents().flatMap((file) =>
    [...readFileSync(join(ROOT, file), "utf8").matchAll(/\]\(([^)\s#]*)#([^)\s]+)\)/g)]
      .filter(([, to = ""]) => !to.startsWith("http"))
      .filter(([, to = "", anchor = ""]) => !anchorsOf(to === "" ? file : join(dirname(file), to)).has(anchor))
      .map(([link]) => `${file}: ${link}`),
  );
  expect(dead).toEqual([]);
});

/** The anchors that GitHub gives the headings of a file. */
function anchorsOf(file: string) {
  const text = readFileSync(join(ROOT, file), "utf8").replaceAll(/^```[\s\S]*?^```/gm, "");
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\- _]/gu, "")
      .replaceAll(" ", "-"),
  );
  return new Set([...headings, ...[...text.matchAll(/\b(?:id|name)="([^"]+)"/g)].map(([, id]) => id)]);
}
