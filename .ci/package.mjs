// @ts-check
/**
 * `npm run test:package`: what would be published is right.
 *
 * In flows the built tree, and as an argument the folder of the addon, `src/js` by default. It is laid out as for a release (of the platforms, only this machine's has its addon), linted (publint,
 * are-the-types-wrong), and installed from a registry on 127.0.0.1 into empty projects: by npm, pnpm and yarn, with the oldest
 * and the newest `@langchain/core` there is and without it, as many projects at a time as there are cores. `consumer.mjs` says what
 * each project then does.
 */
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { installed } from "../__tests__/support/installed.mjs";
import { startRegistry } from "../__tests__/support/registry.mjs";
import * as consumer from "./consumer.mjs";
import { nodeBin, npm, PrepareError, ROOT, runMain } from "./prepare.mjs";
import { disagreements, layOut, manifestOf } from "./release.mjs";

/** What belongs into the published package; the addon itself is in the platform packages. */
const EXPECTED = [
  /^CHANGELOG\.md$/,
  /^LICENSE$/,
  /^README\.md$/,
  /^SECURITY\.md$/,
  /^docs\/.*\.(md|json)$/,
  /^index\.d\.c?ts$/,
  /^package\.json$/,
  /^src\/js\/((ai-sdk|cli|gateway|langchain|suite|telemetry|testing(\/double)?)\/)?[\w-]+(\.d\.[cm]ts|\.[cm]js)$/,
];

/** For one command of a package manager or of a project: what takes longer hangs. */
const LIMIT_MS = 120_000;
const NEWEST = manifestOf(join(ROOT, "node_modules/@langchain/core")).version;
/** The peer dependency is `>=0.3 <2`: its ends, and the oldest 1.x that is in wide use. */
const CORES = ["0.3.80", "1.1.49", NEWEST];
export const MANAGERS = /** @type {const} */ ({
  pnpm: ["pnpm", "12.21.0", "bin/pnpm.mjs"],
  yarn: ["yarn", "1.22.22", "bin/yarn.js"],
  berry: ["@yarnpkg/cli-dist", "4.18.1", "bin/yarn.js"],
});

await runMain(import.meta.url, async () => {
  const temp = mkdtempSync(join(tmpdir(), "dfp-package-"));
  try {
    const found = disagreements();
    if (found.length > 0) throw new PrepareError(found.join("\n"));
    const release = join(temp, "release");
    mkdirSync(release);
    const { main, platforms } = layOut({
      addons: join(ROOT, process.argv[2] ?? "src/js"),
      out: release,
      partial: true,
    });
    lint(pack(main, temp));
    await install(temp, [main, ...platforms]);
  } finally {
    rmSync(temp, { recursive: true, force: true, maxRetries: 5 });
  }
});

/**
 * @param {string[]} command
 * @param {string} cwd
 */
function run([file = "", ...args], cwd) {
  return execFileSync(file, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

/**
 * @param {string} folder
 * @param {string} temp
 */
function pack(folder, temp) {
  const [packed] = JSON.parse(
    run(npm(["pack", "--json", "--ignore-scripts", "--pack-destination", temp], process.env), folder),
  );
  /** @type {string[]} */
  const files = packed.files.map((/** @type {{ path: string }} */ { path }) => path);
  const strays = files.filter((path) => !EXPECTED.some((pattern) => pattern.test(path)));
  const missing = ["index.d.ts", "index.d.cts", "src/js/native.cjs", "README.md", "SECURITY.md", "LICENSE"].filter(
    (path) => !files.includes(path),
  );
  if (strays.length > 0) throw new PrepareError(`the package holds what does not belong there: ${strays.join(", ")}`);
  if (missing.length > 0) throw new PrepareError(`the package lacks ${missing.join(", ")}`);
  console.log(`packed ${files.length} files, ${Math.round(packed.unpackedSize / 1024)} KiB unpacked`);
  return join(temp, packed.filename);
}

/** @param {string} tarball */
function lint(tarball) {
  run([...nodeBin(ROOT, "publint", "publint"), "run", tarball, "--strict"], ROOT);
  run([...nodeBin(ROOT, "@arethetypeswrong/cli", "attw"), tarball, "--format", "ascii", "--profile", "node16"], ROOT);
  console.log("publint and are-the-types-wrong have nothing to say");
}

/** @typedef {{ project: string, run: (command: string[]) => Promise<string> }} Project */
/** @typedef {(name: string, command: string[], options?: { core?: string, files?: Record<string, string> }) => Promise<Project>} Make */

/**
 * As {@link run}, while the registry answers.
 * @param {string[]} command
 * @param {string} cwd
 * @param {NodeJS.ProcessEnv} env
 * @param {number} [timeout] ms
 * @returns {Promise<string>}
 */
export function runBeside([file = "", ...args], cwd, env, timeout = LIMIT_MS) {
  const shell = process.platform === "win32" && file === "npm";
  return new Promise((resolve, reject) => {
    const child = execFile(file, args, { cwd, env, shell, timeout, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      if (error) reject(new PrepareError(`${basename(cwd)}: ${error.message}\n${stdout}${stderr}`));
      else resolve(stdout);
    });
    child.stdin?.end();
  });
}

/**
 * @param {string} temp
 * @param {string[]} packages
 */
async function install(temp, packages) {
  const cores = await Promise.all(
    CORES.filter((version) => version !== NEWEST).map((version) => installed("@langchain/core", version)),
  );
  // `.../node_modules/@langchain/core` lies in a folder with all it depends on.
  const modules = [join(ROOT, "node_modules"), ...cores.map((folder) => dirname(dirname(folder)))];
  const registry = await startRegistry({ packages, modules });
  try {
    const home = join(temp, "home");
    mkdirSync(home);
    /** @type {Make} */
    const project = async (name, command, { core, files = {} } = {}) => {
      const folder = join(temp, name.replaceAll(/\W+/g, "-"));
      mkdirSync(folder);
      const { version, name: ours } = manifestOf(packages[0] ?? "");
      const dependencies = { [ours]: version, ...(core && { "@langchain/core": core, zod: ">=3.25" }) };
      const types = { "@types/node": "*", "undici-types": "*" };
      const manifest = {
        name: "consumer",
        private: true,
        version: "1.0.0",
        dependencies: { ...dependencies, ...types },
      };
      writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
      // For pnpm, which does not look into npm's variables.
      writeFileSync(join(folder, ".npmrc"), `registry=${registry.url}\n`);
      for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
      const env = environment(registry.url, home);
      await runBeside(command, folder, env);
      return { project: folder, run: (words) => runBeside(words, folder, env) };
    };
    await installAll(project, registry.url);
  } finally {
    await registry.close();
  }
}

/**
 * @param {Make} project
 * @param {string} url
 */
async function installAll(project, url) {
  const npmInstall = npm(["install", "--no-audit", "--no-fund"], process.env);
  const tsc = nodeBin(ROOT, "typescript", "tsc");
  const managers = await Promise.all(
    Object.values(MANAGERS).map(async ([name, version, bin]) => join(await installed(name, version), bin)),
  );
  const [pnpm = "", yarn = "", berry = ""] = managers;
  const byNpm = CORES.map((core) => async () => {
    const label = `npm, @langchain/core ${core}`;
    const made = await project(label, npmInstall, { core });
    await consumer.use(made, { label });
    await consumer.compile(made, { label, tsc, resolutions: consumer.RESOLUTIONS });
    await consumer.commandLine(made, label);
  });
  const core = NEWEST;
  /** @type {[string, string[], Record<string, string>, string[]?][]} */
  const others = [
    ["pnpm", [pnpm, "install", "--ignore-workspace"], {}],
    ["yarn 1", [yarn, "install", "--non-interactive", "--no-progress"], {}],
    ["yarn 4, node_modules", [berry, "install"], { ".yarnrc.yml": yarnrc(url, "node-modules"), "yarn.lock": "" }],
    [
      "yarn 4, PnP",
      [berry, "install"],
      { ".yarnrc.yml": yarnrc(url, "pnp"), "yarn.lock": "" },
      [process.execPath, berry, "node"],
    ],
  ];
  const byOthers = others.map(([name, words, files, node]) => async () => {
    const label = `${name}, @langchain/core ${core}`;
    const made = await project(name, [process.execPath, ...words], { core, files });
    await consumer.use(made, { label, ...(node && { node }) });
    // Under PnP there are no folders to find types in, without an SDK of yarn's.
    if (!node) await consumer.compile(made, { label, tsc, resolutions: consumer.RESOLUTIONS.slice(0, 1) });
  });
  await sideBySide([
    ...byNpm,
    ...byOthers,
    // Nothing of ours needs a script to be run where it is installed.
    async () =>
      consumer.withoutLangChain(await project("npm --ignore-scripts, no core", [...npmInstall, "--ignore-scripts"])),
    async () => consumer.withoutAddon(await project("npm --omit=optional", [...npmInstall, "--omit=optional"])),
  ]);
}

/**
 * Do things at the same time, as many as this machine has cores. Settles when all have ended, and rejects if one has failed.
 * @param {(() => Promise<unknown>)[]} tasks
 */
export async function sideBySide(tasks, width = availableParallelism()) {
  /** @type {Error[]} */
  const failures = [];
  const rest = tasks.values();
  const lane = async () => {
    for (const task of rest) await task().catch((error) => failures.push(error));
  };
  await Promise.all(Array.from({ length: width }, lane));
  const bug = failures.find((error) => !(error instanceof PrepareError));
  if (bug) throw bug;
  if (failures.length > 0) throw new PrepareError(failures.map(({ message }) => message).join("\n"));
}

/**
 * The environment of a package manager that knows one registry and nothing of this machine.
 * @param {string} registry
 * @param {string} home
 * @returns {NodeJS.ProcessEnv}
 */
export function environment(registry, home) {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|yarn_|pnpm_|corepack_|.*_proxy$|CI$)/i.test(name),
  );
  return {
    ...Object.fromEntries(inherited),
    HOME: home,
    USERPROFILE: home,
    XDG_CACHE_HOME: join(home, "cache"),
    XDG_DATA_HOME: join(home, "data"),
    NPM_CONFIG_USERCONFIG: join(home, ".npmrc"),
    NPM_CONFIG_GLOBALCONFIG: join(home, "npmrc"),
    NPM_CONFIG_CACHE: join(home, "npm"),
    NPM_CONFIG_REGISTRY: registry,
    YARN_REGISTRY: registry,
    YARN_CACHE_FOLDER: join(home, "yarn"),
    YARN_ENABLE_TELEMETRY: "0",
    NO_UPDATE_NOTIFIER: "1",
  };
}

/**
 * @param {string} url
 * @param {"pnp" | "node-modules"} nodeLinker
 */
export function yarnrc(url, nodeLinker) {
  return `npmRegistryServer: "${url}"
unsafeHttpWhitelist: ["127.0.0.1"]
nodeLinker: ${nodeLinker}
enableGlobalCache: false
enableImmutableInstalls: false
`;
}
