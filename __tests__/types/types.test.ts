// @long
/**
 * The public types as their consumers see them: the package laid out as published, in projects of each kind of module
 * resolution, compiled strictly with library files checked.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALL, WIDE } from "../support/harness.mjs";
import { installed } from "../support/installed.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TYPESCRIPT = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
/** The compiler itself: its script is a Node that does nothing but start it. */
const { default: pathOfTsc } = await import(pathToFileURL(join(TYPESCRIPT, "lib/getExePath.js")).href);
const CONTRACT = readFileSync(join(ROOT, "index.d.ts"), "utf8");

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "deep-factor-types-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

interface Project {
  /** The consumer's own module kind. */
  type: "module" | "commonjs";
  module: string;
  moduleResolution: string;
  lib?: string[];
  /** Packages it has besides ours. */
  installed: string[];
  files: Record<string, string>;
  /** What stands in place of index.d.ts. */
  contract?: string;
  /** The folder of another TypeScript than the development dependency. */
  typescript?: string;
  /** What it sets otherwise. */
  compilerOptions?: Record<string, unknown>;
}

/** Lays the project out, compiles it and gives what the compiler says: nothing, if all is well. */
async function compile(name: string, project: Project): Promise<string> {
  const folder = join(home, name);
  const ours = join(folder, "node_modules/deep-factor-providers");
  mkdirSync(join(ours, "src/js"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(ours, "package.json"));
  // The build's index.d.cts is a byte copy.
  for (const file of ["index.d.ts", "index.d.cts"]) writeFileSync(join(ours, file), project.contract ?? CONTRACT);
  for (const folder of ["src/js", "src/js/langchain", "src/js/testing"]) {
    mkdirSync(join(ours, folder), { recursive: true });
    for (const file of readdirSync(join(ROOT, folder)).filter((it) => /\.d\.[cm]?ts$/.test(it))) {
      cpSync(join(ROOT, folder, file), join(ours, folder, file));
    }
  }
  cpSync(join(ROOT, "src/js/langchain/index.d.mts"), join(ours, "src/js/langchain/index.d.cts"));
  for (const dependency of project.installed) {
    const link = join(folder, "node_modules", dependency);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", dependency), link, "junction");
  }
  for (const [file, text] of Object.entries(project.files)) writeFileSync(join(folder, file), text);
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "consumer", type: project.type }));
  const compilerOptions = {
    target: "es2022",
    lib: project.lib ?? ["es2022"],
    types: ["node"],
    module: project.module,
    moduleResolution: project.moduleResolution,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    ...project.compilerOptions,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: Object.keys(project.files) }));
  const [tsc, ...script] =
    project.typescript === undefined ? [pathOfTsc()] : [process.execPath, join(project.typescript, "bin/tsc")];
  return new Promise((resolve, reject) => {
    execFile(tsc, [...script, "-p", "."], { cwd: folder }, (error, stdout, stderr) => {
      if (error && typeof error.code !== "number") reject(error);
      else resolve(complaints(stdout) + stderr);
    });
  });
}

/** What is said of the consumer's files and of ours: LangChain's own types don't pass `exactOptionalPropertyTypes`. */
function complaints(output: string): string {
  return output
    .split(/\n(?=\S)/)
    .filter((complaint) => !/^\S*node_modules\/(?!deep-factor-providers)/.test(complaint))
    .join("\n")
    .trim();
}

const source = (file: string) => readFileSync(new URL(file, import.meta.url), "utf8");
const WITH_LANGCHAIN = ["@langchain/core", "@types/node"];
const ESM = { type: "module", module: "node16", moduleResolution: "node16" } as const;
const CJS = { type: "commonjs", module: "node16", moduleResolution: "node16" } as const;
/** What checks the consumer's own files alone: LangChain's declarations are most of a compiler's time, and are checked by the others. */
const MINE = { compilerOptions: { skipLibCheck: true } };
const BUNDLER = { type: "module", module: "esnext", moduleResolution: "bundler" } as const;

/** The kinds of module; in a plain `npm test` one of them, for the projects with LangChain have all three. */
const MODULES = (
  [
    ["node16, ESM", ESM],
    ["node16, CommonJS", CJS],
    ["bundler", BUNDLER],
  ] as const
).slice(0, WIDE ? 3 : 1);
describe("a strict consumer compiles", () => {
  it.each(MODULES)(
    "without LangChain: %s",
    async (name, kind) => {
      const files = { "plain.ts": source("plain.ts") };
      expect(await compile(`plain ${name}`, { ...kind, installed: ["@types/node"], files })).toBe("");
    },
    120_000,
  );
});

/** An agent, the chat models, what tests are written with, deep-factor-agent with our providers, and we with its adapters. */
describe("a strict consumer with LangChain compiles, and deep-factor-agent takes our providers as we take its adapters", () => {
  // One compilation for all five: most of its time goes to LangChain's own declarations.
  const names = ["agent.ts", "langchain.ts", "testing.ts", "deep-factor-agent.ts", "drop-in.ts"];
  const files = Object.fromEntries(names.map((name) => [name, source(name)]));
  const project = { installed: WITH_LANGCHAIN, files, lib: ["es2022", "esnext.disposable"] };
  const nodenext = { module: "nodenext", moduleResolution: "nodenext" };
  const loose = { compilerOptions: { exactOptionalPropertyTypes: false, noUncheckedIndexedAccess: false } };
  const older = "with TypeScript 5.9";

  const kinds: [string, string, Omit<Project, "installed" | "files">][] = [
    ["node16, ESM", "", ESM],
    ["node16, CommonJS", older, { ...CJS, ...MINE }],
    ["bundler", "", { ...BUNDLER, compilerOptions: { noPropertyAccessFromIndexSignature: true } }],
    ["node16, CommonJS", "", CJS],
    ["nodenext, ESM", "", { ...ESM, ...nodenext }],
    ["bundler, no more than strict", "", { ...BUNDLER, ...loose }],
    ["nodenext, CommonJS", "", { ...CJS, ...nodenext, ...MINE }],
    ["node16, ESM", older, { ...ESM, ...MINE }],
    ["nodenext, ESM", older, { ...ESM, ...nodenext, ...MINE }],
    ["nodenext, CommonJS", older, { ...CJS, ...nodenext, ...MINE }],
    ["bundler", older, BUNDLER],
  ];
  // One of each module kind, and one of the older compiler, for each run; for a change every kind, but the older compiler,
  // which takes three times as long, with that one alone.
  it.each(kinds.slice(0, ALL ? undefined : WIDE ? 7 : 3))(
    "%s %s",
    async (name, compiler, kind) => {
      const typescript = compiler === older ? { typescript: await installed("typescript") } : {};
      expect(await compile(`drop-in ${name} ${compiler}`, { ...project, ...kind, ...typescript })).toBe("");
    },
    240_000,
  );

  it.each(
    [
      [
        "of our providers",
        "export type InvokeUpdate =",
        'export type InvokeUpdate =\n  | { type: "waiting"; until: number }',
      ],
      [
        "of any adapter",
        "ModelInvocationUpdate = InvokeUpdate |",
        'ModelInvocationUpdate = InvokeUpdate | { type: "x" } |',
      ],
      [
        "that is a known one with less in it",
        '{ type: "assistant_message"; content: string }',
        '{ type: "assistant_message" }',
      ],
    ].slice(0, WIDE ? 3 : 1),
  )(
    "and a kind of update %s would be seen",
    async (name, from, to) => {
      const contract = CONTRACT.replace(from, to);
      expect(contract).not.toBe(CONTRACT);
      expect(await compile(`drop-in with ${name}`, { ...project, ...BUNDLER, ...MINE, contract })).toMatch(
        /^drop-in\.ts\(/m,
      );
    },
    120_000,
  );
});

/** One check per exported name, so that a name added later is checked, too. */
function noAnyCheck(contract: string): string {
  const names = [...contract.matchAll(/^export (?:declare )?(?:interface|type|class|function|const) (\w+)/gm)].map(
    ([, name]) => name,
  );
  const values = [...contract.matchAll(/^export (?:declare )?(?:class|function|const) (\w+)/gm)].map(
    ([, name]) => name,
  );
  const types = names.filter((name) => !/^[a-z]/.test(name ?? ""));
  return `
import type { AIMessage, BaseMessage } from "@langchain/core/messages";
import type { StructuredToolInterface } from "@langchain/core/tools";
import type * as api from "deep-factor-providers";
type IsAny<T> = 0 extends 1 & T ? true : false;
/** Foreign types, which are what they are. */
type Opaque = BaseMessage | AIMessage | StructuredToolInterface | AbortSignal | Date | RegExp;
type HasAny<T, Depth extends 1[] = []> =
  IsAny<T> extends true ? true
  : Depth["length"] extends 7 ? false
  : T extends Opaque ? false
  : T extends abstract new (...args: infer A) => infer R ? HasAny<A, [...Depth, 1]> | HasAny<R, [...Depth, 1]>
  : T extends (...args: infer A) => infer R ? HasAny<A, [...Depth, 1]> | HasAny<R, [...Depth, 1]>
  : T extends readonly (infer E)[] ? HasAny<E, [...Depth, 1]>
  : T extends Promise<infer P> ? HasAny<P, [...Depth, 1]>
  : T extends AsyncGenerator<infer Y, infer R, infer N> ? HasAny<Y, [...Depth, 1]> | HasAny<R, [...Depth, 1]> | HasAny<N, [...Depth, 1]>
  : T extends object ? { [K in keyof T]-?: HasAny<T[K], [...Depth, 1]> }[keyof T]
  : false;
declare function noAny<_T extends false>(): void;
${types.map((name) => `noAny<HasAny<api.${name}>>();`).join("\n")}
${values.map((name) => `noAny<HasAny<typeof api.${name}>>();`).join("\n")}
`;
}

describe("no exported type is any, or has one inside", () => {
  const project = { ...ESM, ...MINE, installed: WITH_LANGCHAIN, files: { "no-any.ts": noAnyCheck(CONTRACT) } };

  it("index.d.ts", async () => {
    expect(noAnyCheck(CONTRACT)).toContain("noAny<HasAny<api.CliProvider>>();");
    expect(await compile("no any", project)).toBe("");
  }, 120_000);

  it.each(
    [
      // One compilation for both: neither type has the other in it.
      {
        where: "in an event, in a parameter",
        faults: [
          ["raw: unknown", "raw: any", "ProviderEvent"],
          ["parseToolCalls(text: string)", "parseToolCalls(text: any)", "parseToolCalls"],
        ],
      },
      {
        where: "in a promise",
        faults: [
          [
            "options?: InvokeOptions<TSchema>,\n  ): Promise<WithStructured<TMessage, TSchema>>",
            "options?: InvokeOptions<TSchema>,\n  ): Promise<any>",
            "CliProvider",
          ],
        ],
      },
    ].slice(0, WIDE ? 2 : 1) as { where: string; faults: [from: string, to: string, named: string][] }[],
  )(
    "and it would be seen: $where",
    async ({ where, faults }) => {
      const contract = faults.reduce((text, [from, to]) => {
        expect(text).toContain(from);
        return text.replace(from, to);
      }, CONTRACT);
      const said = await compile(`any ${where}`, { ...project, contract });
      const lines = noAnyCheck(CONTRACT).split("\n");
      const failed = [...said.matchAll(/^no-any\.ts\((\d+),/gm)].map(([, line]) => lines[Number(line) - 1]);
      for (const [, , named] of faults) expect(failed.join("\n")).toContain(`api.${named}>`);
    },
    120_000,
  );
});
