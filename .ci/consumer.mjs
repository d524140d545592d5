// @ts-check
/**
 * What a project that has installed the package does with it: import, require, compile, run the command line.
 *
 * In flows an installed project; out flows a line per thing that works, or an error that shows what does not.
 *
 * @typedef {import("./package.mjs").Project} Project
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PrepareError } from "./prepare.mjs";

const PACKAGE = "deep-factor-providers";

export const RESOLUTIONS = /** @type {const} */ ([
  { name: "nodenext", module: "nodenext", moduleResolution: "nodenext" },
  { name: "node16", module: "node16", moduleResolution: "node16" },
  { name: "bundler", module: "esnext", moduleResolution: "bundler" },
]);

/** A CLI that answers with the number of tools it was told of. */
const ECHO = `
let prompt = "";
process.stdin.on("data", (text) => { prompt += text; }).on("end", () => {
  const line = { type: "content", content: "told of add: " + prompt.includes('"add"') };
  console.log(JSON.stringify(line));
});`;

/** Runs with the names in scope, LangChain's being absent for the entry without it. */
const CHECK = `
  const assert = (truth, what) => { if (!truth) throw new Error(kind + ": " + what); };
  assert(messagesToXml([{ role: "user", content: "<hi>" }]) === '<thread>\\n  <event type="human" id="0" iteration="0">&lt;hi&gt;</event>\\n</thread>', "messagesToXml");
  const config = { providerId: "echo", command: process.execPath, defaultArgs: ["echo.cjs"], outputFormat: "stream-json",
    promptStyle: "stdin", models: [], defaultModel: "one", maxTokens: 100, timeout: 60000 };
  const schema = z ? z.object({ a: z.number() }) : { type: "object", properties: { a: { type: "number" } } };
  const add = { name: "add", description: "adds", schema };
  const main = async () => {
    const provider = createCliProvider(config, { cwd: process.cwd() });
    const reply = await provider.bindTools([add]).invoke([HumanMessage ? new HumanMessage("hi") : "hi"]);
    assert(reply.content === "told of add: true", JSON.stringify(reply.content));
    assert(!AIMessage || reply instanceof AIMessage, "no AIMessage of the project's own");
    await provider.close();
    const missing = await createClaudeCliProvider({ cliPath: "/nonexistent/claude" }).invoke(["hi"]).catch((error) => error);
    assert(missing instanceof ProviderError && missing.code === "CLI_NOT_FOUND", String(missing));
    console.log("ok " + kind);
  };
  main().catch((error) => { console.error(error); process.exitCode = 1; });`;

const NAMES = "{ createClaudeCliProvider, createCliProvider, messagesToXml, ProviderError }";

/**
 * @param {"import" | "require"} how
 * @param {string} entry
 * @param {boolean} langchain
 */
function source(how, entry, langchain) {
  /** @type {(names: string, from: string) => string} */
  const get = (names, from) =>
    how === "import" ? `import ${names} from "${from}";` : `const ${names} = require("${from}");`;
  return [
    `const kind = "${how} ${entry}";`,
    get(NAMES, entry),
    langchain
      ? get("{ AIMessage, HumanMessage }", "@langchain/core/messages")
      : "const AIMessage = null, HumanMessage = null;",
    langchain ? get("{ z }", "zod") : "const z = null;",
    CHECK,
  ].join("\n");
}

/**
 * @param {Project} made
 * @param {string} file
 * @param {string} text
 * @param {string[]} node
 */
async function execute({ project, run }, file, text, node) {
  writeFileSync(join(project, file), text);
  return await run([...node, file]);
}

/** Of the chat models: they are LangChain's, of the project's own copy. */
const CHAT = `
  const main = async () => {
    const model = new ChatClaudeCli({ cliPath: "/nonexistent/claude" });
    if (!(model instanceof BaseChatModel)) throw new Error(kind + ": no BaseChatModel of the project's own");
    const missing = await model.invoke("hi").catch((error) => error);
    if (missing.code !== "CLI_NOT_FOUND") throw missing;
    console.log("ok " + kind);
  };
  main().catch((error) => { console.error(error); process.exitCode = 1; });`;

/** @param {"import" | "require"} how */
function chatSource(how) {
  /** @type {(names: string, from: string) => string} */
  const get = (names, from) =>
    how === "import" ? `import ${names} from "${from}";` : `const ${names} = require("${from}");`;
  return [
    `const kind = "${how} ${PACKAGE}/langchain";`,
    get("{ ChatClaudeCli }", `${PACKAGE}/langchain`),
    get("{ BaseChatModel }", "@langchain/core/language_models/chat_models"),
    CHAT,
  ].join("\n");
}

/** Of the AI SDK's models, which need no package but this one. */
const MODEL = `
  const model = claudeCli("sonnet", { cliPath: "/nonexistent/claude" });
  const prompt = [{ role: "user", content: [{ type: "text", text: "hi" }] }];
  model.doGenerate({ prompt }).catch((error) => console.log(kind, error.name, error.data.code));`;

/** @param {"import" | "require"} how */
function modelSource(how) {
  const entry = `${PACKAGE}/ai-sdk`;
  const get = how === "import" ? `import { claudeCli } from "${entry}";` : `const { claudeCli } = require("${entry}");`;
  return `const kind = "${how}";\n${get}\n${MODEL}`;
}

/**
 * All entries, by `import` and by `require`.
 * @param {Project} made
 * @param {{ label: string, node?: string[], langchain?: boolean }} options `node`: how to run a file
 */
export async function use(made, { label, node = [process.execPath], langchain = true }) {
  writeFileSync(join(made.project, "echo.cjs"), ECHO);
  for (const entry of langchain ? [PACKAGE, `${PACKAGE}/native`] : [`${PACKAGE}/native`]) {
    const full = langchain && entry === PACKAGE;
    for (const [how, file] of /** @type {const} */ ([
      ["import", "use.mjs"],
      ["require", "use.cjs"],
    ])) {
      const said = await execute(made, file, source(how, entry, full), node);
      expectEqual(said, `ok ${how} ${entry}\n`, label);
      if (!full) continue;
      const chat = await execute(made, file.replace("use", "chat"), chatSource(how), node);
      expectEqual(chat, `ok ${how} ${PACKAGE}/langchain\n`, label);
    }
  }
  for (const [how, file] of /** @type {const} */ ([
    ["import", "model.mjs"],
    ["require", "model.cjs"],
  ])) {
    expectEqual(await execute(made, file, modelSource(how), node), `${how} AI_APICallError CLI_NOT_FOUND\n`, label);
  }
  console.log(`${label}: import and require work`);
}

/** What a strict TypeScript project writes. */
const TYPED = `
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { type CliProvider, createClaudeCliProvider, ProviderError } from "deep-factor-providers";
import { ChatClaudeCli } from "deep-factor-providers/langchain";
import { createClaudeCliProvider as createPlain } from "deep-factor-providers/native";

export const chat: BaseChatModel = new ChatClaudeCli({ model: "sonnet", engine: "live" });

export async function ask(text: string): Promise<string> {
  const provider: CliProvider = createClaudeCliProvider({ model: "sonnet", engine: "live" });
  try {
    const reply: AIMessage = await provider.invoke([new HumanMessage(text)]);
    const plain = await createPlain().invoke([text]);
    return String(reply.content) + plain.content;
  } catch (error) {
    if (error instanceof ProviderError) return error.code;
    throw error;
  }
}
// @ts-expect-error: there is no such option
createClaudeCliProvider({ modle: "sonnet" });
`;

/**
 * @param {Project} made
 * @param {{ label: string, tsc: string[], resolutions: readonly (typeof RESOLUTIONS)[number][] }} options
 */
export async function compile({ project, run }, { label, tsc, resolutions }) {
  for (const { name, ...how } of resolutions) {
    const folder = join(project, name);
    mkdirSync(folder);
    writeFileSync(join(folder, "esm.mts"), TYPED);
    // A bundler's project has no CommonJS files.
    const files = name === "bundler" ? ["esm.mts"] : ["esm.mts", "cjs.cts"];
    writeFileSync(join(folder, "cjs.cts"), TYPED);
    // LangChain's own declarations don't pass a strict compiler; ours are checked in __tests__/types.
    const compilerOptions = {
      ...how,
      target: "es2022",
      lib: ["es2022", "dom"],
      strict: true,
      skipLibCheck: true,
      noEmit: true,
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    await run([...tsc, "-p", folder]);
  }
  console.log(`${label}: TypeScript compiles (${resolutions.map(({ name }) => name).join(", ")})`);
}

/**
 * @param {Project} made
 * @param {string} label
 */
export async function commandLine({ project, run }, label) {
  const bin = join(project, "node_modules/.bin", PACKAGE);
  const said = await run(process.platform === "win32" ? ["cmd", "/c", `${bin}.cmd`, "providers"] : [bin, "providers"]);
  if (!said.includes("claude")) throw new PrepareError(`${label}: the command line says ${said}`);
  console.log(`${label}: the command line works`);
}

/** Prints what an import fails with. */
const LOAD = `
import { createRequire } from "node:module";
const show = ({ code, message }) => console.log(code + ": " + message);
for (const entry of ["deep-factor-providers", "deep-factor-providers/langchain"]) {
  await import(entry).then(() => console.log("loaded"), show);
  try { createRequire(import.meta.url)(entry); console.log("loaded"); } catch (error) { show(error); }
}
`;

/** @param {Project} made */
export async function withoutLangChain(made) {
  const label = "without @langchain/core";
  const line =
    "ERR_MODULE_NOT_FOUND: deep-factor-providers makes its answers of @langchain/core (>=0.3 <2), which is not installed: run " +
    '"npm install @langchain/core", or import "deep-factor-providers/native", which gives plain JSON instead.\n';
  expectEqual(await execute(made, "load.mjs", LOAD, [process.execPath]), line.repeat(4), label);
  await use(made, { label, langchain: false });
  await commandLine(made, label);
}

/** @param {Project} made */
export async function withoutAddon(made) {
  const said = await execute(made, "load.mjs", LOAD, [process.execPath]);
  const [first, ...others] = said.trimEnd().split("\n");
  const pattern =
    /^MODULE_NOT_FOUND: the native addon for this machine \(.+\), deep-factor-providers-[\w-]+, is not installed: /;
  if (!pattern.test(first ?? "") || others.length !== 3 || others.some((other) => other !== first))
    throw new PrepareError(`without the addon it says: ${said}`);
  console.log("without the platform package: said so, and what to do");
}

/**
 * @param {string} is
 * @param {string} wanted
 * @param {string} label
 */
function expectEqual(is, wanted, label) {
  if (is !== wanted) throw new PrepareError(`${label}: ${JSON.stringify(is)} instead of ${JSON.stringify(wanted)}`);
}
