// @release
/** The face as its consumers see it: the package laid out as published, in strict projects of each kind of module resolution. */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as native from "deep-factor-providers/native";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installed } from "../support/installed.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const require = createRequire(import.meta.url);
const TSC = join(dirname(require.resolve("typescript/package.json")), "bin/tsc");
const OURS = join(ROOT, "node_modules");
const FACE = "deep-factor-providers/ai-sdk";

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "dfp-ai-sdk-types-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** What the compiler says of the consumer's file and of ours: the AI SDK's own types don't pass every strict option. */
async function compile(name: string, kind: object, file: string, packages: [string, string][]): Promise<string> {
  const folder = join(home, name.replaceAll(/\W+/g, "-"));
  const ours = join(folder, "node_modules/deep-factor-providers");
  for (const part of ["src/js", "src/js/ai-sdk"]) {
    mkdirSync(join(ours, part), { recursive: true });
    for (const types of readdirSync(join(ROOT, part)).filter((it) => /\.d\.[cm]ts$/.test(it))) {
      cpSync(join(ROOT, part, types), join(ours, part, types));
    }
  }
  cpSync(join(ROOT, "package.json"), join(ours, "package.json"));
  // The build's index.d.cts is a byte copy.
  for (const types of ["index.d.ts", "index.d.cts"]) cpSync(join(ROOT, "index.d.ts"), join(ours, types));
  for (const [dependency, from] of [["@types/node", OURS] as const, ...packages]) {
    const link = join(folder, "node_modules", dependency);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(from, dependency), link, "junction");
  }
  const { type, ...resolution } = { type: "module", ...kind };
  cpSync(join(ROOT, "__tests__/types", file), join(folder, file));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "consumer", type }));
  const compilerOptions = {
    ...{ target: "es2022", lib: ["es2022"], types: ["node"], ...resolution, strict: true, noEmit: true },
    noUncheckedIndexedAccess: true,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [file] }));
  const output = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, [TSC, "-p", "."], { cwd: folder }, (error, stdout, stderr) => {
      if (error && typeof error.code !== "number") reject(error);
      else resolve(stdout + stderr);
    });
  });
  const said = output.split(/\n(?=\S)/);
  return said
    .filter((one) => !/^\S*node_modules\/(?!deep-factor-providers)/.test(one))
    .join("\n")
    .trim();
}

const KINDS: [string, object][] = [
  ["node16, ESM", { module: "node16", moduleResolution: "node16" }],
  ["node16, CommonJS", { type: "commonjs", module: "node16", moduleResolution: "node16" }],
  ["bundler", { module: "esnext", moduleResolution: "bundler" }],
];

describe("a strict consumer compiles", () => {
  it.each(KINDS)("with ai 6: %s", async (name, kind) => {
    const packages: [string, string][] = ["ai", "@ai-sdk/provider"].map((dependency) => [dependency, OURS]);
    expect(await compile(`6 ${name}`, kind, "ai-sdk.ts", packages)).toBe("");
  });

  // It has no types for a CommonJS file.
  it.each(KINDS.filter(([name]) => name !== "node16, CommonJS"))("with ai 7: %s", async (name, kind) => {
    const modules = dirname(await installed("ai"));
    const packages: [string, string][] = ["ai", "@ai-sdk/provider"].map((dependency) => [dependency, modules]);
    expect(await compile(`7 ${name}`, kind, "ai-sdk.ts", packages)).toBe("");
  });

  it.each(KINDS)("without the AI SDK: %s", async (name, kind) => {
    expect(await compile(`alone ${name}`, kind, "ai-sdk-alone.ts", [])).toBe("");
  });
});

describe("entries", () => {
  it("there is one face for `import` and `require`", async () => {
    const said = await run(`import("${FACE}").then((face) => console.log(JSON.stringify(
      Object.keys(face).sort().map((name) => [name, face[name] === require("${FACE}")[name]]))))`);
    const names = ["claudeCli", "cli", "codexCli", "copilotCli", "createCliRegistry", "grokCli"];
    expect(said).toEqual(names.map((name) => [name, true]));
  });

  it("each CLI has its options", () => {
    const declared = readFileSync(join(ROOT, "src/js/ai-sdk/index.d.cts"), "utf8");
    const ids = [...declared.matchAll(/^ {2}(\w+): CliModelOptions</gm)].map(([, id]) => id).sort();
    const factories = Object.keys(native).flatMap((name) => /^create(\w+)CliProvider$/.exec(name)?.[1] ?? []);
    expect(ids).toEqual(factories.map((name) => name.toLowerCase()).sort());
  });

  it.each([
    ["the root", "deep-factor-providers"],
    ["the entry without LangChain", "deep-factor-providers/native"],
  ])("%s loads nothing of the face", async (_, entry) => {
    expect((await loaded(entry)).filter((file) => file.includes("ai-sdk"))).toEqual([]);
  });

  it("the face loads no package but this one: no AI SDK, no LangChain", async () => {
    const files = await loaded(FACE);
    expect(files.some((file) => file.endsWith("ai-sdk/model.cjs"))).toBe(true);
    expect(files.filter((file) => file.includes("node_modules"))).toEqual([]);
  });
});

/** What a program of its own prints as JSON. */
async function run(program: string): Promise<unknown> {
  const said = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, ["-e", program], { cwd: ROOT }, (error, stdout) =>
      error ? reject(error) : resolve(stdout),
    );
  });
  return JSON.parse(said);
}

/** The CommonJS files that a program has loaded after it has required an entry. */
async function loaded(entry: string): Promise<string[]> {
  return (await run(`require("${entry}"); console.log(JSON.stringify(Object.keys(require.cache)))`)) as string[];
}
