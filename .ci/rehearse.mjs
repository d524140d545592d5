// @ts-check
/**
 * `npm run test:rehearsal`: a release is published to a registry of its own, verdaccio on 127.0.0.1, and strangers install it.
 *
 * In flows the built tree. It is published by `release.mjs`, first its names and then all of it, as the workflow does; the addons of other platforms
 * are files without content. Out flows a line per thing that works: each package manager installs, imports and makes a call; so do two workspaces with
 * different versions of `@langchain/core`; a lock file made on another system ends in an error that names the line to type, and that line mends
 * it; and the next version goes on from the checkpoint, the budget and the run log that this one has left.
 *
 * Packages that are not ours come from the registry that npm is set up with. What else differs from the registry of npm: no provenance is asked
 * for, which a workflow alone can give.
 */
import { execFileSync, spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { installed, newerNode } from "../__tests__/support/installed.mjs";
import * as consumer from "./consumer.mjs";
import { environment, MANAGERS, runBeside, yarnrc } from "./package.mjs";
import { npm, PrepareError, ROOT, runMain } from "./prepare.mjs";
import { layOut, manifestOf, platformOf } from "./release.mjs";

/** For the eighteen commands that publish all packages, of which one has 100 MB. */
const PUBLISHING_MS = 600_000;
/** How long the registry may take to listen. */
const LISTENING_MS = 60_000;
const VERDACCIO = "6.10.4";
/** Of Node 20 and 22. */
const OLD_NPM = "10.9.4";
const OURS = manifestOf(ROOT);
/** What a stranger has beside this package. */
const CORE = { "@langchain/core": "1.1.49", zod: "4.1.13" };
const OTHER_CORE = { "@langchain/core": "0.3.80", zod: "3.25.76" };
const INSTALL = npm(["install", "--no-audit", "--no-fund"], process.env);

/** @typedef {{ temp: string, env: NodeJS.ProcessEnv, url: string }} Room */

/**
 * @param {string} temp
 * @returns {Promise<{ url: string, login: Record<string, string>, stop: () => void }>}
 */
async function startVerdaccio(temp) {
  const [folder, node] = await Promise.all([installed("verdaccio", VERDACCIO), newerNode()]);
  const uplink = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8", cwd: tmpdir() }).trim();
  const config = {
    storage: join(temp, "storage"),
    auth: { htpasswd: { file: join(temp, "htpasswd") } },
    uplinks: { npm: { url: uplink, maxage: "1h" } },
    packages: {
      // Ours are on no other registry.
      [`${OURS.name}*`]: { access: "$all", publish: "$all" },
      "**": { access: "$all", publish: "$all", proxy: "npm" },
    },
    max_body_size: "500mb",
    web: { enable: false },
    log: { type: "stdout", format: "json", level: "warn" },
  };
  // YAML takes JSON.
  writeFileSync(join(temp, "verdaccio.yaml"), JSON.stringify(config));
  const port = await freePort();
  const words = [join(folder, "bin/verdaccio"), "--config", join(temp, "verdaccio.yaml")];
  const server = spawn(node, [...words, "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  await new Promise((resolve, reject) => {
    const failed = (/** @type {string} */ how) => () => reject(new PrepareError(`verdaccio ${how}:\n${said}`));
    server.once("error", reject).once("exit", failed("ended"));
    setTimeout(failed("does not listen"), LISTENING_MS).unref();
    for (const stream of [server.stdout, server.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        said += text;
        if (said.includes("http address")) resolve(undefined);
      });
    }
  }).catch((error) => {
    server.kill();
    throw error;
  });
  console.log(`verdaccio ${VERDACCIO} listens`);
  // Everybody may publish; npm wants a login all the same.
  const login = { [`npm_config_//127.0.0.1:${port}/:_authToken`]: "anybody" };
  return { url: `http://127.0.0.1:${port}`, login, stop: () => server.kill() };
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (probe.address());
      probe.close(() => resolve(port));
    });
  });
}

/** Makes the names and publishes this version, by the commands of the workflow. @param {Room} room */
async function publishAll({ temp, env }) {
  const release = (/** @type {string[]} */ ...words) =>
    runBeside([process.execPath, join(ROOT, ".ci/release.mjs"), ...words], ROOT, env, PUBLISHING_MS);
  expectText(await release("bootstrap"), /^(.+: made, version 0\.0\.0\n){9}/);
  const addons = addonsIn(join(temp, "addons"));
  await release("publish", addons, "--no-provenance");
  // What has broken off is taken up again.
  expectText(await release("publish", addons, "--no-provenance"), /^(.+ is there already\n){9}$/);
  const view = npm(["view", `${OURS.name}@latest`, "version", "optionalDependencies", "--json"], process.env);
  const { version, optionalDependencies } = JSON.parse(await runBeside(view, temp, env));
  const all = Object.values(optionalDependencies);
  if (version !== OURS.version || all.length !== 8 || all.some((other) => other !== version))
    throw new PrepareError(`published was ${version} with ${JSON.stringify(optionalDependencies)}`);
  console.log(`${OURS.name} ${version} and its 8 platforms are published, the platforms first`);
}

/** A folder with the addons of all platforms: this machine's, and files without content. @param {string} folder */
function addonsIn(folder) {
  mkdirSync(folder);
  for (const platform of readdirSync(join(ROOT, "npm"))) {
    const { main } = manifestOf(join(ROOT, "npm", platform));
    const built = join(ROOT, "src/js", main);
    if (existsSync(built)) copyFileSync(built, join(folder, main));
    else writeFileSync(join(folder, main), "");
  }
  return folder;
}

/**
 * A project of a stranger's.
 * @param {Room} room
 * @param {string} name
 * @param {{ dependencies?: object, manifest?: object, files?: Record<string, string> }} [options]
 * @returns {consumer.Project}
 */
function project({ temp, env, url }, name, { dependencies = CORE, manifest = {}, files = {} } = {}) {
  const folder = join(temp, name.replaceAll(/\W+/g, "-"));
  mkdirSync(folder);
  const all = {
    "package.json": JSON.stringify({
      name: "stranger",
      version: "1.0.0",
      private: true,
      dependencies: { [OURS.name]: OURS.version, ...dependencies },
      ...manifest,
    }),
    ".npmrc": `registry=${url}\n`,
    ...files,
  };
  for (const [file, text] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  return { project: folder, run: (words) => runBeside(words, folder, env) };
}

/** Each package manager. @param {Room} room */
async function strangers(room) {
  const managers = await Promise.all(
    Object.values(MANAGERS).map(async ([name, version, bin]) => join(await installed(name, version), bin)),
  );
  const [pnpm = "", yarn = "", berry = ""] = managers.map((file) => file);
  const bun = join(await installed("@oven/bun-linux-x64"), "bin/bun");
  const node = process.execPath;
  // They would not take a version of today before it is some days old.
  const ofToday = "npmMinimalAgeGate: 0\n";
  /** @type {[string, string[], Record<string, string>, string[]?][]} */
  const all = [
    ["npm", INSTALL, {}],
    ["npm --ignore-scripts", [...INSTALL, "--ignore-scripts"], {}],
    ["pnpm", [node, pnpm, "install", "--ignore-workspace", "--config.minimum-release-age=0"], {}],
    ["yarn 1", [node, yarn, "install", "--non-interactive", "--no-progress"], {}],
    [
      "yarn 4",
      [node, berry, "install"],
      { ".yarnrc.yml": yarnrc(room.url, "node-modules") + ofToday, "yarn.lock": "" },
    ],
    [
      "yarn 4, PnP",
      [node, berry, "install"],
      { ".yarnrc.yml": yarnrc(room.url, "pnp") + ofToday, "yarn.lock": "" },
      [node, berry, "node"],
    ],
    ["Bun", [bun, "install"], { "bunfig.toml": `[install]\nregistry = "${room.url}"\n` }],
  ];
  for (const [label, words, files, runs] of all) {
    const made = project(room, label, { files });
    await made.run(words);
    await consumer.use(made, { label, ...(runs && { node: runs }) });
  }
  const without = project(room, "npm --omit=optional");
  await without.run([...INSTALL, "--omit=optional"]);
  await consumer.withoutAddon(without);
}

/** Prints what an import ends in. */
const LOADS = `import("${OURS.name}/native").then(() => console.log("loaded"), ({ code, message }) => console.log(code + ": " + message));`;

/**
 * A lock file in which npm has noted the package of another system alone, as npm 10 does where one is made beside an existing node_modules
 * (https://github.com/npm/cli/issues/4828). npm 11.19 notes all of them.
 * @param {Room} room
 */
async function otherSystem(room) {
  const label = `a lock file made on macOS, npm ${OLD_NPM}`;
  const old = join(await installed("npm", OLD_NPM), "bin/npm-cli.js");
  const made = project(room, label, { dependencies: {}, files: { "load.mjs": LOADS } });
  /** @type {(...words: string[]) => Promise<string>} */
  const npm10 = (...words) => made.run([process.execPath, old, ...words, "--no-audit", "--no-fund"]);
  const remove = (/** @type {string} */ name) => rmSync(join(made.project, name), { recursive: true, force: true });
  const theirs = ["install", "--os=darwin", "--cpu=arm64"];
  await npm10(...theirs);
  for (const name of ["package-lock.json", "node_modules/.package-lock.json"]) remove(name);
  await npm10(...theirs);
  const locked = () => {
    const { packages } = JSON.parse(readFileSync(join(made.project, "package-lock.json"), "utf8"));
    return Object.keys(packages).filter((path) => path.includes(`${OURS.name}-`));
  };
  expectText(locked().join(), new RegExp(`^node_modules/${OURS.name}-darwin-arm64$`));
  remove("node_modules");
  await npm10("ci");
  const load = () => made.run([process.execPath, "load.mjs"]);
  const said = await load();
  const [, line = ""] = /leaves it out, run "npm ([^"]+)"/.exec(said) ?? [];
  const needed = `${OURS.name}-${platformOf(hostTarget())}, is not installed`;
  if (!said.startsWith("MODULE_NOT_FOUND: ") || !said.includes(needed) || !line)
    throw new PrepareError(`${label}: it says ${said}`);
  await npm10(...line.split(" "));
  expectText(await load(), /^loaded\n$/);
  // The line has mended the lock file as well.
  remove("node_modules");
  await npm10("ci");
  expectText(await load(), /^loaded\n$/);
  console.log(`${label}: said so, and \`npm ${line}\` mends it (${locked().length} platforms are locked)`);
}

/** Rust's name of this machine. */
function hostTarget() {
  const { report } = process;
  const { header } = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (report.getReport());
  const system = header.glibcVersionRuntime ? "unknown-linux-gnu" : "unknown-linux-musl";
  return `x86_64-${system}`;
}

/** Asks with the workspace's own LangChain, and says what it can tell of the answer, of an error, and of a warning. */
const WORKSPACE = `
import { createRequire } from "node:module";
import { AIMessage, HumanMessage, isAIMessage, mapStoredMessagesToChatMessages } from "@langchain/core/messages";
import { createClaudeCliProvider, createCliProvider, ProviderError } from "${OURS.name}";
let warnings = 0;
process.on("warning", ({ code }) => { if (code === "LANGCHAIN_TWICE") warnings++; });
const config = { providerId: "echo", command: process.execPath, defaultArgs: ["echo.cjs"], outputFormat: "stream-json",
  promptStyle: "stdin", models: [], defaultModel: "one", maxTokens: 100, timeout: 60000 };
const provider = createCliProvider(config, { cwd: process.cwd() });
const thread = [new HumanMessage("hi"), new AIMessage("yes"), new HumanMessage("go")];
const reply = await provider.invoke(thread);
// An answer goes back as it came.
const again = await provider.invoke([...thread, reply, new HumanMessage("on")]);
await provider.close();
const error = await createClaudeCliProvider({ cliPath: "/nonexistent/claude" }).invoke(thread).catch((error) => error);
await new Promise(setImmediate);
const core = createRequire(import.meta.url)("@langchain/core/package.json").version;
console.log(JSON.stringify({ core, events: [reply.content, again.content], instance: reply instanceof AIMessage,
  message: isAIMessage(reply), error: [error instanceof ProviderError, error.code], warnings }));
`;
/** A CLI that answers with the kinds of events that it was told of. */
const KINDS = `
let prompt = "";
process.stdin.on("data", (text) => { prompt += text; }).on("end", () => {
  const kinds = [...prompt.matchAll(/<event type="(\\w+)"/g)].map(([, kind]) => kind);
  console.log(JSON.stringify({ type: "content", content: kinds.join(" ") }));
});`;

/** Two workspaces, each with a version of LangChain of its own. @param {Room} room */
async function workspaces(room) {
  for (const [strategy, words] of /** @type {const} */ ([
    ["as npm does by itself", []],
    ["with --install-strategy=nested", ["--install-strategy=nested"]],
  ])) {
    const label = `two workspaces, ${strategy}`;
    /** @type {(name: string, core: object) => Record<string, string>} */
    const workspace = (name, core) => ({
      [`packages/${name}/package.json`]: JSON.stringify({
        name,
        version: "1.0.0",
        dependencies: { [OURS.name]: OURS.version, ...core },
      }),
      [`packages/${name}/use.mjs`]: WORKSPACE,
      [`packages/${name}/echo.cjs`]: KINDS,
    });
    const files = { ...workspace("one", CORE), ...workspace("two", OTHER_CORE) };
    const made = project(room, label, { manifest: { workspaces: ["packages/*"], dependencies: {} }, files });
    await made.run([...INSTALL, ...words]);
    /** @type {Record<string, unknown>[]} */
    const said = [];
    for (const name of ["one", "two"]) {
      const at = join(made.project, "packages", name);
      said.push(JSON.parse(await runBeside([process.execPath, "use.mjs"], at, room.env)));
    }
    // Every message of either version is read, and every answer is taken for one; `instanceof` knows those of one copy alone.
    const nested = words.length > 0;
    const hoisted = said.filter(({ instance }) => instance).length;
    const expected = [CORE, OTHER_CORE].map((own, index) => ({
      core: own["@langchain/core"],
      events: ["human ai human", "human ai human ai human"],
      instance: nested || Boolean(said[index]?.instance),
      message: true,
      error: [true, "CLI_NOT_FOUND"],
      warnings: nested || said[index]?.instance ? 0 : 1,
    }));
    if (JSON.stringify(said) !== JSON.stringify(expected) || hoisted !== (nested ? 2 : 1))
      throw new PrepareError(`${label}: ${JSON.stringify(said)}`);
    console.log(`${label}: messages and errors are known in both, classes in ${hoisted}`);
  }
}

/** What both versions of the next program begin with. */
const STORES = `
import { createFileCheckpoint, renderRunLog, replayRun, runAgent } from "${OURS.name}/native";
import { createScriptedProvider } from "${OURS.name}/testing";
const budget = { requests: 3, per: "day", store: "budget" };
const add = { name: "add", description: "Adds", schema: { type: "object", properties: {} }, execute: async () => "3" };
const task = (provider) => ({ provider, prompt: "1 + 2?", tools: [add], runId: "job-1", checkpoint: createFileCheckpoint({ dir: "runs" }) });
`;
/** The older version's: a run that ends in its middle, with all that it leaves. */
const BEFORE = `${STORES}
const provider = createScriptedProvider([{ toolCalls: [{ name: "add", args: {} }] }], { budget });
const { status } = await runAgent({ ...task(provider), record: "run.jsonl" }).result;
console.log(status);
`;
/** The newer version's: the run goes on behind the tool's result, the budget is counted on, the log is shown. */
const AFTER = `${STORES}
const provider = createScriptedProvider(["It is 3.", "More."], { budget });
const { status, output } = await runAgent(task(provider)).result;
const { code } = await provider.invoke(["hi"]).catch((error) => error);
const replayed = replayRun("run.jsonl");
for await (const event of replayed);
const { header, complete } = await replayed.info;
console.log(JSON.stringify({ status, output, code, by: header.packageVersion, complete, shown: (await renderRunLog("run.jsonl")).includes("add") }));
`;

/** An update under a project that has a checkpoint, a budget and a run log of the version before. @param {Room} room */
async function nextVersion(room) {
  const [major, minor, patch] = OURS.version.split(".");
  const next = `${major}.${minor}.${Number(patch) + 1}`;
  const made = project(room, "an update", { files: { "before.mjs": BEFORE, "after.mjs": AFTER } });
  await made.run(INSTALL);
  expectText(await made.run([process.execPath, "before.mjs"]), /^failed\n$/);
  const out = join(room.temp, "next");
  mkdirSync(out);
  const { main, platforms } = layOut({ addons: join(room.temp, "addons"), out });
  for (const folder of [...platforms, main]) {
    const { optionalDependencies, ...manifest } = manifestOf(folder);
    const names = Object.keys(optionalDependencies ?? {}).map((name) => [name, next]);
    const changed = {
      ...manifest,
      version: next,
      ...(names.length > 0 && { optionalDependencies: Object.fromEntries(names) }),
    };
    writeFileSync(join(folder, "package.json"), JSON.stringify(changed));
    await runBeside(npm(["publish", "--ignore-scripts"], process.env), folder, room.env);
  }
  await made.run([...INSTALL, `${OURS.name}@${next}`]);
  const said = await made.run([process.execPath, "after.mjs"]);
  const expected = {
    status: "completed",
    output: "It is 3.",
    code: "BUDGET_EXCEEDED",
    by: OURS.version,
    complete: true,
    shown: true,
  };
  if (said !== `${JSON.stringify(expected)}\n`) throw new PrepareError(`after the update: ${said}`);
  console.log(`from ${OURS.version} to ${next}: the checkpoint, the budget and the run log are gone on from`);
}

/** @param {string} is @param {RegExp} wanted */
function expectText(is, wanted) {
  if (!wanted.test(is)) throw new PrepareError(`${JSON.stringify(is)} is not ${wanted}`);
}

await runMain(import.meta.url, async () => {
  if (process.platform !== "linux" || process.arch !== "x64") {
    console.log("skipped: a release is only rehearsed on Linux x64.");
    return;
  }
  const temp = mkdtempSync(join(tmpdir(), "dfp-rehearsal-"));
  /** @type {Awaited<ReturnType<typeof startVerdaccio>> | undefined} */
  let registry;
  try {
    registry = await startVerdaccio(temp);
    const home = join(temp, "home");
    mkdirSync(home);
    const room = {
      temp,
      env: { ...environment(registry.url, home), ...registry.login, npm_config_loglevel: "error" },
      url: registry.url,
    };
    await publishAll(room);
    await strangers(room);
    await otherSystem(room);
    await workspaces(room);
    await nextVersion(room);
  } finally {
    registry?.stop();
    rmSync(temp, { recursive: true, force: true, maxRetries: 5 });
  }
});
