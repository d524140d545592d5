// @release
/** Programs that bundlers made of this package: they find the addon, ask the real claude CLI, or say what to do. */
import { execFile } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ALL, sampleOf, withClaude } from "./support/harness.mjs";
import { installed } from "./support/installed.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OURS = "deep-factor-providers";

const USE = `const provider = createClaudeCliProvider({ cliPath: process.env.TEST_CLI, model: "sonnet" });
provider.invoke(["hi"]).then(async (reply) => {
  console.log(JSON.stringify([reply.content, reply instanceof AIMessage, typeof runAgent]));
  await provider.close();
});\n`;
const NAMES = "{ createClaudeCliProvider, runAgent }";
const IMPORTS = `import ${NAMES} from "${OURS}";\nimport { AIMessage } from "@langchain/core/messages";\n${USE}`;
const REQUIRES = `const ${NAMES} = require("${OURS}");\nconst { AIMessage } = require("@langchain/core/messages");\n${USE}`;

/** A program over each framework's face, and what it is that the program must not get twice. */
const FACES = {
  langchain: `import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { ChatClaudeCli } from "${OURS}/langchain";
const model = new ChatClaudeCli({ cliPath: process.env.TEST_CLI, model: "sonnet" });
const { text } = await model.invoke("hi");
await model.close();
console.log(JSON.stringify([text, model instanceof BaseChatModel]));\n`,
  "ai-sdk": `import { claudeCli } from "${OURS}/ai-sdk";
const model = claudeCli("sonnet", { cliPath: process.env.TEST_CLI });
const { content } = await model.doGenerate({ prompt: [{ role: "user", content: [{ type: "text", text: "hi" }] }] });
await claudeCli.close();
console.log(JSON.stringify([content[0].text, model.specificationVersion === "v3"]));\n`,
};

/** A project in which the package is installed as npm does it: the addon in a package beside it. */
let project: string;
/** The addon's file. */
let addon: string;

beforeAll(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "dfp-bundle-")));
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, OURS, "src/js"), { recursive: true });
  copyFileSync(join(ROOT, "package.json"), join(modules, OURS, "package.json"));
  const files = readdirSync(join(ROOT, "src/js"));
  for (const file of files.filter((name) => /\.[cm]js$/.test(name))) {
    copyFileSync(join(ROOT, "src/js", file), join(modules, OURS, "src/js", file));
  }
  for (const face of Object.keys(FACES)) {
    cpSync(join(ROOT, "src/js", face), join(modules, OURS, "src/js", face), { recursive: true });
  }
  // What the entries read when it is asked for.
  cpSync(join(ROOT, "src/js/telemetry"), join(modules, OURS, "src/js/telemetry"), { recursive: true });
  const built = files.find((name) => name.endsWith(".node")) ?? "";
  const platform = built.replace(/\.node$/, "").replace(".", "-");
  mkdirSync(join(modules, platform));
  copyFileSync(
    join(ROOT, "npm", platform.slice(OURS.length + 1), "package.json"),
    join(modules, platform, "package.json"),
  );
  addon = join(modules, platform, built);
  copyFileSync(join(ROOT, "src/js", built), addon);
  symlinkSync(join(ROOT, "node_modules/@langchain"), join(modules, "@langchain"), "junction");
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(project, "main.mjs"), IMPORTS);
  writeFileSync(join(project, "main.cjs"), REQUIRES);
  for (const [face, program] of Object.entries(FACES)) writeFileSync(join(project, `${face}.mjs`), program);
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

type Ended = { code: unknown; stdout: string; stderr: string };

function node(script: string, args: string[] = [], env: Record<string, string | undefined> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd: project, env: { ...process.env, ...env } };
    execFile(process.execPath, [script, ...args], options, (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, stdout, stderr }),
    );
  });
}

async function esbuild(entry: string, out: string, ...args: string[]): Promise<Ended> {
  const bin = join(await installed("esbuild"), "bin/esbuild");
  return node(bin, [entry, "--bundle", "--platform=node", `--outfile=${out}`, "--log-level=warning", ...args]);
}

async function vite(config: object): Promise<void> {
  const { build } = await import("vite");
  await build({ root: project, configFile: false, logLevel: "silent", ...config });
}

async function webpack(config: object): Promise<string> {
  const folder = await installed("webpack");
  const make = createRequire(import.meta.url)(folder);
  return new Promise((resolve) =>
    make({ context: project, target: "node", ...config }, (error: unknown, stats: { toString(what: object): string }) =>
      resolve(error ? String(error) : stats.toString({ all: false, errors: true, warnings: true })),
    ),
  );
}

/** What the program prints when it asks the real CLI. */
async function answer(script: string, env: Record<string, string> = {}): Promise<Ended> {
  const { options } = await withClaude({ script: [{ text: "hello" }] });
  return node(script, [], { ...options.env, TEST_CLI: options.cliPath, ...env });
}

/** The program has answered with a message of the `AIMessage` it has itself. */
const ANSWERED = { code: 0, stdout: '["hello",true,"function"]\n', stderr: "" };
const QUIET = { code: 0, stdout: "", stderr: "" };
/** Proof that the package's code is in the bundle, and is not just found beside it. */
const holdsOurs = (file: string) => readFileSync(join(project, file), "utf8").includes("DEEP_FACTOR_PROVIDERS_ADDON");

describe("esbuild", () => {
  it("makes an ES module of a program that imports the package, and it runs", async () => {
    expect(await esbuild("main.mjs", "esm.mjs", "--format=esm")).toEqual(QUIET);
    expect(holdsOurs("esm.mjs")).toBe(true);
    expect(await answer("esm.mjs")).toEqual(ANSWERED);
  });

  it("makes a CommonJS module of a program that requires the package, and it runs", async () => {
    expect(await esbuild("main.cjs", "cjs.cjs", "--format=cjs")).toEqual(QUIET);
    expect(holdsOurs("cjs.cjs")).toBe(true);
    expect(await answer("cjs.cjs")).toEqual(ANSWERED);
  });

  it("says that it can't make a CommonJS module of imports, unless the package is left out", async () => {
    const { code, stderr } = await esbuild("main.mjs", "no.cjs", "--format=cjs");
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/Top-level await is currently not supported with the "cjs"/),
    ]);
    const external = [`--external:${OURS}`, "--external:@langchain/core"];
    expect(await esbuild("main.mjs", "external.cjs", "--format=cjs", ...external)).toEqual(QUIET);
    expect(holdsOurs("external.cjs")).toBe(false);
    expect(await answer("external.cjs")).toEqual(ANSWERED);
  });

  it.each(["esm", "cjs"])(
    "makes a program (%s) that says what to do where the package is not installed",
    async (format) => {
      const elsewhere = realpathSync(mkdtempSync(join(tmpdir(), "dfp-alone-")));
      onTestFinished(() => rmSync(elsewhere, { recursive: true, force: true }));
      const name = format === "esm" ? "main.mjs" : "main.cjs";
      await esbuild(name, `alone-${name}`, `--format=${format}`);
      cpSync(join(project, `alone-${name}`), join(elsewhere, name));
      const alone = await node(join(elsewhere, name));
      expect(alone.code).toBe(1);
      expect(alone.stderr).toContain(
        "deep-factor-providers is part of a bundle, which can't hold its native addon, and is not installed beside it: leave the " +
          'package out of the bundle (external: ["deep-factor-providers"]) and install it where the bundle runs, or set ' +
          "DEEP_FACTOR_PROVIDERS_ADDON to the path of the addon's file (docs/deployment.md).",
      );
      expect(await answer(join(elsewhere, name), { DEEP_FACTOR_PROVIDERS_ADDON: addon })).toEqual(ANSWERED);
    },
  );
});

/** What Vite is asked to build, the file it makes, and whether the package is inside. */
const VITE_BUILDS: [string, object, string, boolean][] = [
  ["an SSR build", { build: { ssr: "main.mjs", outDir: "ssr" } }, "ssr/main.js", false],
  [
    "an SSR build with everything in it",
    { build: { ssr: "main.mjs", outDir: "all" }, ssr: { noExternal: true } },
    "all/main.js",
    true,
  ],
  [
    "an SSR build with everything but the package in it",
    {
      build: { ssr: "main.mjs", outDir: "but" },
      ssr: { noExternal: true, external: [OURS, "@langchain/core"] },
    },
    "but/main.js",
    false,
  ],
  [
    "a library build",
    { build: { lib: { entry: "main.mjs", formats: ["es"], fileName: "main" }, outDir: "lib" } },
    "lib/main.js",
    true,
  ],
];

describe("Vite", () => {
  it.each(sampleOf(VITE_BUILDS))("makes a program of %s that runs", async (_, config, file, inside) => {
    await vite(config);
    expect(holdsOurs(file)).toBe(inside);
    expect(await answer(file)).toEqual(ANSWERED);
  });
});

/** webpack's configuration of an ES module in `folder`, with what is left outside. */
function moduleOf(folder: string, entry: string, outside: readonly string[]): object {
  return {
    ...{ mode: "production", entry: `./${entry}`, experiments: { outputModule: true } },
    output: { path: join(project, folder), filename: "main.mjs", module: true, chunkFormat: "module" },
    externals: ({ request = "" }, done: (error: null, as?: string) => void) =>
      done(null, outside.some((name) => `${request}/`.startsWith(`${name}/`)) ? `module ${request}` : undefined),
  };
}

it.runIf(ALL)(
  "webpack makes a program with the package in it that runs, and one with the package beside it",
  async () => {
    // LangChain stays outside: webpack makes of its import of a newer Node's function one that Node 20 refuses.
    for (const [folder, outside] of [
      ["w-inside", ["@langchain/core"]],
      ["w-outside", [OURS, "@langchain/core"]],
    ] as const) {
      expect(await webpack(moduleOf(folder, "main.mjs", outside))).toBe("");
      const bundle = readdirSync(join(project, folder)).map((name) => join(folder, name));
      expect(bundle.some(holdsOurs)).toBe(folder === "w-inside");
      expect(await answer(`${folder}/main.mjs`)).toEqual(ANSWERED);
    }
  },
);

describe.each(Object.keys(FACES))("the face %s", (face) => {
  const works = { code: 0, stdout: '["hello",true]\n', stderr: "" };

  it("is in a program that esbuild makes, and runs", async () => {
    expect(await esbuild(`${face}.mjs`, `e-${face}.mjs`, "--format=esm")).toEqual(QUIET);
    expect(holdsOurs(`e-${face}.mjs`)).toBe(true);
    expect(await answer(`e-${face}.mjs`)).toEqual(works);
  });

  // webpack takes its time: a release's tests are enough.
  it.runIf(ALL)("is in a program that webpack makes, and runs", async () => {
    expect(await webpack(moduleOf(`w-${face}`, `${face}.mjs`, ["@langchain/core"]))).toBe("");
    expect(readdirSync(join(project, `w-${face}`)).some((name) => holdsOurs(join(`w-${face}`, name)))).toBe(true);
    expect(await answer(`w-${face}/main.mjs`)).toEqual(works);
  });
});

it("tools that collect a program's files take the addon along (Next.js, serverless packagers)", async () => {
  const folder = await installed("@vercel/nft");
  const { nodeFileTrace } = await import(pathToFileURL(join(folder, "out/index.js")).href);
  for (const entry of ["main.mjs", "main.cjs"]) {
    const { fileList } = await nodeFileTrace([join(project, entry)], { base: project });
    expect([...fileList]).toEqual(
      expect.arrayContaining([addon.slice(project.length + 1), `node_modules/${OURS}/src/js/native.cjs`]),
    );
  }
});
