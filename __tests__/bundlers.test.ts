// @release
/** Programs that bundlers made of this package: they find the addon, ask the real claude CLI, or say what to do. */
import { execFile, spawn } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
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
import { installed, newerNode } from "./support/installed.mjs";
import { lacks } from "./support/systems.mjs";

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

/** Puts the package into a project's `node_modules`; gives the addon's file. */
function installInto(modules: string): string {
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
  const file = join(modules, platform, built);
  copyFileSync(join(ROOT, "src/js", built), file);
  return file;
}

beforeAll(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "dfp-bundle-")));
  const modules = join(project, "node_modules");
  addon = installInto(modules);
  symlinkSync(join(ROOT, "node_modules/@langchain"), join(modules, "@langchain"), "junction");
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(project, "main.mjs"), IMPORTS);
  writeFileSync(join(project, "main.cjs"), REQUIRES);
  for (const [face, program] of Object.entries(FACES)) writeFileSync(join(project, `${face}.mjs`), program);
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

type Ended = { code: unknown; stdout: string; stderr: string };

type Env = Record<string, string | undefined>;

function ended(file: string, args: string[], env: Env, cwd = project): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(file, args, { cwd, env: { ...process.env, ...env } }, (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, stdout, stderr }),
    );
  });
}

const node = (script: string, args: string[] = [], env: Env = {}) => ended(process.execPath, [script, ...args], env);

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

/** Rspack, which takes webpack's configuration. */
async function rspack(config: object): Promise<string> {
  const folder = await installed("@rspack/core");
  const { rspack: make } = await import(pathToFileURL(join(folder, "dist/index.js")).href);
  return new Promise((resolve) =>
    make({ context: project, target: "node", ...config }, (error: unknown, stats: { toString(what: object): string }) =>
      resolve(error ? String(error) : stats.toString({ all: false, errors: true, warnings: true })),
    ),
  );
}

/** Rollup with its plugins for packages of Node; gives its warnings. */
async function rollup(input: string, file: string, external: readonly string[]): Promise<string[]> {
  const require = createRequire(join(await installed("rollup"), "package.json"));
  const load = (name: string) => import(pathToFileURL(require.resolve(name)).href);
  const [{ rollup: make }, resolve, commonjs, json] = await Promise.all([
    load("rollup"),
    load("@rollup/plugin-node-resolve"),
    load("@rollup/plugin-commonjs"),
    load("@rollup/plugin-json"),
  ]);
  const warnings: string[] = [];
  const isOutside = (id: string) => external.some((name) => `${id}/`.startsWith(`${name}/`));
  const bundle = await make({
    input: join(project, input),
    external: (id: string) => id.startsWith("node:") || isOutside(id),
    plugins: [resolve.default({ preferBuiltins: true }), commonjs.default(), json.default()],
    onwarn: ({ message }: { message: string }) => warnings.push(message),
  });
  await bundle.write({ file: join(project, file), format: "es", inlineDynamicImports: true });
  await bundle.close();
  return warnings;
}

/** What the program prints when it asks the real CLI. */
async function answer(script: string, env: Record<string, string> = {}): Promise<Ended> {
  const { options } = await withClaude({ script: [{ text: "hello" }] });
  return node(script, [], { ...options.env, TEST_CLI: options.cliPath, ...env });
}

/** The program has answered with a message of the `AIMessage` it has itself. */
const ANSWERED = { code: 0, stdout: '["hello",true,"function"]\n', stderr: "" };
/** What to do, in the words of a bundle without an addon. */
const LEAVE_OUT =
  '(external: ["deep-factor-providers"]; serverExternalPackages: ["deep-factor-providers", "@langchain/core"] in next.config.js) ' +
  "and install it where the bundle runs, or set DEEP_FACTOR_PROVIDERS_ADDON to the path of the addon's file (docs/guide/deploy.md).";
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
          `package out of the bundle ${LEAVE_OUT}`,
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

// The package of Bun for this machine is the one that is installed.
describe.runIf(process.platform === "linux" && process.arch === "x64")("bun build --compile", () => {
  async function compiled(out: string): Promise<string> {
    const bun = join(await installed("@oven/bun-linux-x64"), "bin/bun");
    const args = ["build", "--compile", "main.mjs", "--outfile", out];
    const { code, stderr } = await ended(bun, args, {});
    expect([code, stderr.includes("error")]).toEqual([0, false]);
    const elsewhere = realpathSync(mkdtempSync(join(tmpdir(), "dfp-bun-")));
    onTestFinished(() => rmSync(elsewhere, { recursive: true, force: true }));
    cpSync(join(project, out), join(elsewhere, "program"));
    rmSync(join(project, out));
    return join(elsewhere, "program");
  }
  async function asked(program: string, env: Record<string, string> = {}): Promise<Ended> {
    const { options } = await withClaude({ script: [{ text: "hello" }] });
    return ended(program, [], { ...options.env, TEST_CLI: options.cliPath, ...env });
  }

  it("makes an executable that holds the addon, and takes another by its variable", async () => {
    const program = await compiled("with-addon");
    expect(await asked(program)).toEqual(ANSWERED);
    const elsewhere = join(program, "../other.node");
    const { code, stderr } = await asked(program, { DEEP_FACTOR_PROVIDERS_ADDON: elsewhere });
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(
        "DEEP_FACTOR_PROVIDERS_ADDON must be the absolute path of an addon's file, and what it names does not load: ",
      ),
    ]);
    copyFileSync(addon, elsewhere);
    expect(await asked(program, { DEEP_FACTOR_PROVIDERS_ADDON: elsewhere })).toEqual(ANSWERED);
  });
});

// A file that holds Node and one script, which can require what Node has and nothing else.
describe.runIf(ALL && process.platform === "linux")("a single executable application of Node", () => {
  it("finds the package beside it, or takes the addon by its variable", async () => {
    const elsewhere = realpathSync(mkdtempSync(join(tmpdir(), "dfp-sea-")));
    onTestFinished(() => rmSync(elsewhere, { recursive: true, force: true }));
    expect(await esbuild("main.cjs", "sea.cjs", "--format=cjs")).toEqual(QUIET);
    const config = {
      main: join(project, "sea.cjs"),
      output: join(elsewhere, "blob"),
      disableExperimentalSEAWarning: true,
    };
    writeFileSync(join(elsewhere, "sea.json"), JSON.stringify(config));
    const made = await node("--experimental-sea-config", [join(elsewhere, "sea.json")]);
    expect(made.code).toBe(0);
    const program = join(elsewhere, "program");
    copyFileSync(process.execPath, program);
    const fuse = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
    const inject = [program, "NODE_SEA_BLOB", join(elsewhere, "blob"), "--sentinel-fuse", fuse];
    const injected = await node(join(await installed("postject"), "dist/cli.js"), inject);
    expect(injected.code).toBe(0);
    const { options } = await withClaude({ script: [{ text: "hello" }, { text: "hello" }] });
    const env = { ...options.env, TEST_CLI: options.cliPath };
    const alone = await ended(program, [], env, elsewhere);
    expect([alone.code, alone.stderr]).toEqual([1, expect.stringContaining(LEAVE_OUT)]);
    expect(await ended(program, [], { ...env, DEEP_FACTOR_PROVIDERS_ADDON: addon }, elsewhere)).toEqual(ANSWERED);
    symlinkSync(join(project, "node_modules"), join(elsewhere, "node_modules"), "junction");
    expect(await ended(program, [], env, elsewhere)).toEqual(ANSWERED);
  });
});

it.runIf(ALL)("Node's permission model binds JavaScript alone: a call needs the addon, and files to read", async () => {
  const { options } = await withClaude({ script: [{ text: "hello" }] });
  const env = { ...options.env, TEST_CLI: options.cliPath };
  const newer = await newerNode();
  // The test's LangChain is a link out of the project.
  const reads = [
    "--permission",
    `--allow-fs-read=${project}`,
    `--allow-fs-read=${realpathSync(join(ROOT, "node_modules"))}`,
  ];
  const refused = await ended(newer, [...reads, "main.cjs"], env);
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining("add --allow-addons, or leave out --permission"),
  ]);
  const { code, stdout } = await ended(newer, [...reads, "--allow-addons", "main.cjs"], env);
  expect([code, stdout]).toEqual([0, ANSWERED.stdout]);
});

it("napi's own variable names the addon of a package that is in no bundle", async () => {
  const other = join(project, "napi.node");
  copyFileSync(addon, other);
  const { code, stdout } = await ended(
    process.execPath,
    [
      "-e",
      'require("deep-factor-providers/native"); console.log(Object.keys(require.cache).filter((file) => file.endsWith(".node")).join())',
    ],
    { NAPI_RS_NATIVE_LIBRARY_PATH: other },
  );
  expect([code, stdout]).toEqual([0, `${other}\n`]);
});

/** Everything in a folder once more, without its bytes where the file system can. */
function linked(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linked(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else {
      try {
        linkSync(source, target);
      } catch {
        // Another file system.
        copyFileSync(source, target);
      }
    }
  }
}

/** A route that asks the real CLI. */
const ROUTE = `import ${NAMES} from "${OURS}";
import { AIMessage } from "@langchain/core/messages";
export const dynamic = "force-dynamic";
export async function GET() {
  const provider = createClaudeCliProvider({ cliPath: process.env.TEST_CLI, model: "sonnet" });
  const reply = await provider.invoke(["hi"]);
  await provider.close();
  return Response.json([reply.content, reply instanceof AIMessage, typeof runAgent]);
}\n`;

// Its builds take minutes: a release's tests are enough.
describe.runIf(ALL && !lacks("links"))("Next.js", () => {
  const LIMIT = 600_000;
  let site: string;
  let next: string;

  beforeAll(async () => {
    site = realpathSync(mkdtempSync(join(tmpdir(), "dfp-next-")));
    const modules = join(site, "node_modules");
    linked(join(await installed("next"), ".."), modules);
    installInto(modules);
    next = join(modules, "next/dist/bin/next");
    const dependencies = { next: "*", react: "*", "react-dom": "*", [OURS]: "*", "@langchain/core": "*" };
    writeFileSync(join(site, "package.json"), JSON.stringify({ private: true, dependencies }));
    // By which Next.js takes this folder for the whole project's.
    writeFileSync(join(site, "package-lock.json"), "{}");
    mkdirSync(join(site, "app/ask"), { recursive: true });
    const layout = "export default function Layout({ children }) { return <html><body>{children}</body></html>; }\n";
    writeFileSync(join(site, "app/layout.js"), layout);
    writeFileSync(join(site, "app/ask/route.js"), ROUTE);
  }, LIMIT);
  afterAll(() => rmSync(site, { recursive: true, force: true }));

  async function build(bundler: string, config: string | undefined): Promise<Ended> {
    for (const left of [".next", "next.config.mjs"]) rmSync(join(site, left), { recursive: true, force: true });
    if (config !== undefined) writeFileSync(join(site, "next.config.mjs"), config);
    return ended(process.execPath, [next, "build", `--${bundler}`], NEXT_ENV, site);
  }

  /** What the route says of a server that is started so. */
  async function routeOf(args: string[], cwd: string): Promise<unknown> {
    const { options } = await withClaude({ script: [{ text: "hello" }] });
    const env = { ...process.env, ...NEXT_ENV, HOSTNAME: "127.0.0.1", PORT: "0", ...options.env };
    // A group of its own: its servers are processes of their own.
    const server = spawn(process.execPath, args, {
      ...{ cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] },
      env: { ...env, TEST_CLI: options.cliPath },
    });
    try {
      const url = await new Promise<string>((resolve, reject) => {
        let said = "";
        const read = (piece: Buffer) => {
          said += piece;
          const found = /http:\/\/(?:127\.0\.0\.1|localhost):(\d+)/.exec(said);
          if (found) resolve(`http://127.0.0.1:${found[1]}/ask`);
        };
        server.stdout?.on("data", read);
        server.stderr?.on("data", read);
        server.on("exit", () => reject(new Error(said)));
      });
      const response = await fetch(url, { signal: AbortSignal.timeout(LIMIT / 2) });
      const text = await response.text();
      return response.status === 200 ? JSON.parse(text) : text;
    } finally {
      process.kill(-(server.pid ?? 0), "SIGKILL");
    }
  }

  const NEXT_ENV = { NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: undefined };
  const WORKS = ["hello", true, "function"];
  describe.each(["turbopack", "webpack"])("%s", (bundler) => {
    it(
      "builds a standalone program that has the addon, and asks the CLI where nothing else is",
      async () => {
        const config = `export default { output: "standalone", serverExternalPackages: ["${OURS}", "@langchain/core"] };\n`;
        const { code, stdout, stderr } = await build(bundler, config);
        expect(code, stdout + stderr).toBe(0);
        const elsewhere = realpathSync(mkdtempSync(join(tmpdir(), "dfp-standalone-")));
        onTestFinished(() => rmSync(elsewhere, { recursive: true, force: true }));
        cpSync(join(site, ".next/standalone"), elsewhere, { recursive: true, verbatimSymlinks: true });
        rmSync(join(site, ".next"), { recursive: true });
        expect(await routeOf(["server.js"], elsewhere)).toEqual(WORKS);
      },
      LIMIT,
    );

    it(
      "builds, starts and develops a program without a configuration",
      async () => {
        const { code, stdout, stderr } = await build(bundler, undefined);
        expect(code, stdout + stderr).toBe(0);
        expect(await routeOf([next, "start", "--hostname", "127.0.0.1", "--port", "0"], site)).toEqual(WORKS);
        rmSync(join(site, ".next"), { recursive: true });
        const develop = [next, "dev", `--${bundler}`, "--hostname", "127.0.0.1", "--port", "0"];
        expect(await routeOf(develop, site)).toEqual(WORKS);
      },
      LIMIT,
    );
  });
});

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

it.runIf(ALL)(
  "Rspack makes a program with the package in it that runs, and one with the package beside it",
  async () => {
    for (const [folder, outside] of [
      ["r-inside", ["@langchain/core"]],
      ["r-outside", [OURS, "@langchain/core"]],
    ] as const) {
      expect(await rspack(moduleOf(folder, "main.mjs", outside))).toBe("");
      const bundle = readdirSync(join(project, folder)).map((name) => join(folder, name));
      expect(bundle.some(holdsOurs)).toBe(folder === "r-inside");
      expect(await answer(`${folder}/main.mjs`)).toEqual(ANSWERED);
    }
  },
);

it.runIf(ALL)(
  "Rollup makes a program with the package in it that runs, and one with the package beside it",
  async () => {
    for (const [file, outside] of [
      ["rollup-inside.mjs", ["@langchain/core"]],
      ["rollup-outside.mjs", [OURS, "@langchain/core"]],
    ] as const) {
      expect(await rollup("main.mjs", file, outside)).toEqual([]);
      expect(holdsOurs(file)).toBe(file === "rollup-inside.mjs");
      expect(await answer(file)).toEqual(ANSWERED);
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

it("a copy of the package without its native.cjs is told as a bundler's doing", async () => {
  const copy = realpathSync(mkdtempSync(join(tmpdir(), "dfp-copied-")));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  const modules = join(copy, "node_modules");
  installInto(modules);
  rmSync(join(modules, OURS, "src/js/native.cjs"));
  for (const [name, program] of [
    ["main.mjs", `await import("${OURS}/native");`],
    ["main.cjs", `require("${OURS}/native");`],
  ] as const) {
    writeFileSync(join(copy, name), program);
    const { code, stderr } = await node(join(copy, name));
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(
        "deep-factor-providers was copied without its src/js/native.cjs and the native addon, which is a bundler's doing: " +
          `leave the package out of the bundle ${LEAVE_OUT}`,
      ),
    ]);
  }
});

it("the variable is looked at first, in a bundle or not", async () => {
  const elsewhere = join(project, "other.node");
  const program = join(project, "variable.mjs");
  writeFileSync(program, `await import("${OURS}/native"); console.log("loaded");`);
  const { code, stderr } = await node(program, [], { DEEP_FACTOR_PROVIDERS_ADDON: elsewhere });
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining(
      "DEEP_FACTOR_PROVIDERS_ADDON must be the absolute path of an addon's file, and what it names does not load: Cannot find module",
    ),
  ]);
  copyFileSync(addon, elsewhere);
  const loaded = await node(program, [], { DEEP_FACTOR_PROVIDERS_ADDON: elsewhere });
  expect(loaded).toEqual({ code: 0, stdout: "loaded\n", stderr: "" });
});
