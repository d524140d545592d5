/** What an import costs: the files of ours that each entry loads, and the packages of others. A file more is seen here. */
import { readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OURS = "deep-factor-providers";

/** The CommonJS files that a fresh thread has loaded, which are all of ours but the entries for `import`. It resolves from this folder. */
async function loaded(program: string) {
  const tell = 'require("node:worker_threads").parentPort.postMessage(Object.keys(require.cache))';
  const thread = new Worker(program.replace("PRINT", tell), { eval: true, execArgv: [] });
  const keys = await new Promise<string[]>((resolve, reject) => {
    thread.once("message", resolve).once("error", reject).once("exit", reject);
  });
  const files = keys.map((file) => file.split(sep).join("/"));
  const packages = files.flatMap((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? []);
  return {
    ours: files.flatMap((file) => /\/src\/js\/(.+)\.cjs$/.exec(file)?.[1] ?? []).sort(),
    packages: [...new Set(packages)],
  };
}

const CORE = [
  ...[
    "addon",
    "builtin",
    "choices",
    "claude-code",
    "claude-code-model",
    "copies",
    "core",
    "errors",
    "face",
    "known",
    "life",
    "load",
    "logger",
    "messages",
    "native",
  ],
  ...[
    "options",
    "output-schema",
    "prewarm",
    "provider",
    "quota",
    "reading",
    "reasoning",
    "registry",
    "run",
    "signals",
    "tools",
    "updates",
  ],
];
/** What of it only the addon's own functions need. */
const NATIVE = new Set(["claude-code", "claude-code-model", "core", "native", "registry"]);
const FACES = {
  langchain: [
    ...[
      "bound-tools",
      "chat-models",
      "chunks",
      "fields",
      "generations",
      "identity",
      "parts",
      "profiles",
      "sizes",
      "strict",
    ],
    "structured",
  ].map((file) => `langchain/${file}`),
  gateway: [
    "blocks",
    ...[
      "advice",
      "call",
      "calls",
      "chat",
      "connections",
      "create",
      "exchange",
      "faces",
      "fields",
      "guard",
      "keys",
      "messages",
      "models",
      "options",
    ].map((file) => `gateway/${file}`),
    ...[
      "plans",
      "queue",
      "record",
      "refusal",
      "responses",
      "responses-answer",
      "sealed",
      "server",
      "sse",
      "state",
      "store",
      "thread",
      "token",
    ].map((file) => `gateway/${file}`),
  ],
  testing: [
    ...["assets", "cassette", "clock", "codes", "compare", "engine", "fold", "player", "recorder", "reply"],
    ...["run", "script", "scripted", "scripted-cli", "tape", "testing", "double/wire"],
  ].map((file) => `testing/${file}`),
  "ai-sdk": [
    "blocks",
    ...["errors", "model", "parts", "prompt", "providers", "settings", "words"].map((file) => `ai-sdk/${file}`),
  ],
};

describe.each([
  ["import", (entry: string) => `import("${entry}").then(() => PRINT)`, (_: string): string[] => []],
  ["require", (entry: string) => `require("${entry}"); PRINT`, (file: string) => [file]],
] as const)("%s", (_, program, own) => {
  it("the root: nothing of a framework but LangChain's messages, and no face", async () => {
    const { ours, packages } = await loaded(program(OURS));
    expect(ours).toEqual([...CORE, "langchain", ...own("index")].sort());
    expect(packages.filter((name) => /langchain|^ai$|ai-sdk/.test(name) && name !== "@langchain/core")).toEqual([]);
  });

  it("the entry without LangChain: no package at all", async () => {
    expect(await loaded(program(`${OURS}/native`))).toEqual({
      ours: [...CORE, "plain", ...own("native-entry")].sort(),
      packages: [],
    });
  });

  it("the AI SDK's face: itself, and no package", async () => {
    expect(await loaded(program(`${OURS}/ai-sdk`))).toEqual({
      ours: [...CORE, "plain", ...FACES["ai-sdk"], ...own("ai-sdk/index")].sort(),
      packages: [],
    });
  });

  it("the gateway: itself, and no package", async () => {
    expect(await loaded(program(`${OURS}/gateway`))).toEqual({
      ours: [...CORE, "plain", ...FACES.gateway, ...own("gateway/index")].sort(),
      packages: [],
    });
  });

  it("what tests are written with: no addon, no core of it, and no framework but LangChain's messages", async () => {
    const { ours, packages } = await loaded(program(`${OURS}/testing`));
    const needed = CORE.filter((file) => !NATIVE.has(file));
    expect(ours).toEqual([...needed, "answers", ...FACES.testing, ...own("testing/index")].sort());
    expect(packages.filter((name) => /langchain|^ai$|ai-sdk/.test(name) && name !== "@langchain/core")).toEqual([]);
  });

  it("LangChain's face: itself, and no framework but LangChain's core", async () => {
    const { ours, packages } = await loaded(program(`${OURS}/langchain`));
    expect(ours).toEqual([...CORE, "langchain", ...FACES.langchain, ...own("index"), ...own("langchain/index")].sort());
    expect(packages.filter((name) => /langchain|^ai$|ai-sdk/.test(name) && name !== "@langchain/core")).toEqual([]);
  });
});

/** The files that a module of ours brings with it, at once and not when they are asked for. */
function broughtBy(file: string, all = new Set<string>()) {
  if (all.has(file)) return all;
  all.add(file);
  for (const [, path = ""] of readFileSync(file, "utf8").matchAll(/^(?:import|export) [^;]*?from "(\.[^"]+)";/gm))
    if (path.endsWith(".mjs")) broughtBy(join(dirname(file), path), all);
  return all;
}

describe("the command line", () => {
  const JS = join(ROOT, "src/js");
  const brought = (name: string) =>
    [...broughtBy(join(JS, name))].map((file) => relative(JS, file).split(sep).join("/"));

  it("brings nothing but texts until a command is named", () => {
    const texts = ["cli-text.mjs", "cli.mjs", "cli/colour.mjs", "cli/screen.mjs", "cli/usage.mjs"];
    expect(brought("cli.mjs").sort()).toEqual(texts);
  });

  it.each(["cli-run.mjs", "cli/chat.mjs"])("%s brings nothing of another command but the providers' list", (name) => {
    const others = /^(suite\/|cli-(suite|log)|cli\/(chat|completions)|telemetry|ai-sdk|langchain|index)/;
    const strays = brought(name).filter((file) => file !== name && others.test(file));
    expect(strays).toEqual([]);
    expect(brought(name)).toContain("cli-doctor.mjs");
  });
});
