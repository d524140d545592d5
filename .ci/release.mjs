// @ts-check
/**
 * What a release is made of, and how it is published.
 *
 * In flows the working tree and the addons of all platforms. Out flow the folders that npm publishes: one per platform, and the
 * package itself, which names them as optional dependencies of its own version. Nothing is published unless all is there and
 * agrees; the package itself, the one that people install, goes last, so that before it nothing of a release can be seen.
 *
 * npm lets a workflow publish without a secret (OIDC, "trusted publishing", npm 11.5.1), but only a package that exists and names that
 * workflow. So a person with a login makes the packages once, by hand, with a version that holds nothing.
 *
 *     node .ci/release.mjs check [v1.2.3]            what disagrees, if anything
 *     node .ci/release.mjs bootstrap                 makes the packages that the registry has not; `--dry-run` publishes nothing
 *     node .ci/release.mjs publish <addons> [v1.2.3] from a folder of `.node` files; `--dry-run` publishes nothing, `--no-provenance` is for a
 *                                                    rehearsal
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAtLeast, npm, PrepareError, ROOT, runMain } from "./prepare.mjs";

/** The first npm that takes a workflow's own identity for a login. */
const TRUSTING_NPM = "11.5.1";
/** The version that makes a package, and holds nothing. */
const PLACEHOLDER = "0.0.0";

/** @typedef {Record<string, any> & { name: string, version: string }} Manifest */

/** @param {string} folder @returns {Manifest} */
export function manifestOf(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

const SYSTEMS = /** @type {const} */ ({
  "unknown-linux-gnu": ["linux", "-gnu"],
  "unknown-linux-musl": ["linux", "-musl"],
  "apple-darwin": ["darwin", ""],
  "pc-windows-msvc": ["win32", "-msvc"],
});
const ARCHS = /** @type {const} */ ({ x86_64: "x64", aarch64: "arm64" });

/**
 * The folder in npm/ of a Rust target: `aarch64-unknown-linux-musl` is `linux-arm64-musl`.
 * @param {string} target
 */
export function platformOf(target) {
  const [arch = "", ...rest] = target.split("-");
  const [system, abi] = SYSTEMS[/** @type {keyof typeof SYSTEMS} */ (rest.join("-"))];
  return `${system}-${ARCHS[/** @type {keyof typeof ARCHS} */ (arch)]}${abi}`;
}

/**
 * What stands in the way of releasing this tree; with `tag`, of releasing it as that.
 * @param {{ root?: string, tag?: string | undefined }} [options]
 * @returns {string[]}
 */
export function disagreements({ root = ROOT, tag } = {}) {
  const { version, napi, name, scripts = {} } = manifestOf(root);
  const read = (/** @type {string} */ file) => readFileSync(join(root, file), "utf8");
  const found = [];
  /** @type {(what: string, is: string | undefined) => void} */
  const compare = (what, is) => {
    if (is !== version) found.push(`${what} says ${is ?? "nothing"}, package.json says ${version}`);
  };
  compare("Cargo.toml", /^version = "(.+)"/m.exec(read("Cargo.toml"))?.[1]);
  compare("Cargo.lock", new RegExp(`name = "${name}"\\nversion = "(.+)"`).exec(read("Cargo.lock"))?.[1]);
  compare("package-lock.json", JSON.parse(read("package-lock.json")).version);
  const folders = readdirSync(join(root, "npm")).sort();
  for (const folder of folders) compare(`npm/${folder}`, manifestOf(join(root, "npm", folder)).version);
  const targets = napi.targets.map(platformOf).sort();
  if (targets.join() !== folders.join()) found.push(`package.json builds ${targets}, npm/ has ${folders}`);
  for (const hook of ["preinstall", "install", "postinstall", "prepare"]) {
    if (scripts[hook])
      found.push(`package.json has a script "${hook}", which would run where the package is installed`);
  }
  if (tag) {
    compare("the tag", tag.replace(/^v/, ""));
    if (!read("CHANGELOG.md").includes(`\n## [${version}]`)) found.push(`CHANGELOG.md has no section [${version}]`);
  }
  return found;
}

/**
 * Lays out what is published.
 * @param {object} options
 * @param {string} options.addons a folder of `.node` files
 * @param {string} options.out
 * @param {string} [options.root]
 * @param {boolean} [options.partial] platforms without an addon are left empty, for trying this machine's
 * @param {string | undefined} [options.repository] `owner/name` on GitHub: the manifests then name it, their homepage and where bugs go; without it, no provenance is given
 * @returns {{ main: string, platforms: string[] }} folders; publish the platforms first
 */
export function layOut({ addons, out, root = ROOT, partial = false, repository }) {
  const manifest = manifestOf(root);
  const github = repository && {
    homepage: `https://github.com/${repository}#readme`,
    bugs: { url: `https://github.com/${repository}/issues` },
    repository: { type: "git", url: `git+https://github.com/${repository}.git` },
  };
  /** @type {(folder: string, edited: Record<string, unknown>) => void} */
  const write = (folder, edited) => {
    writeFileSync(join(folder, "package.json"), `${JSON.stringify({ ...edited, ...github }, null, 2)}\n`);
  };
  /** @type {Record<string, string>} */
  const optionalDependencies = {};
  const missing = [];
  const platforms = [];
  for (const target of manifest.napi.targets) {
    const platform = platformOf(target);
    const folder = join(out, platform);
    cpSync(join(root, "npm", platform), folder, { recursive: true });
    copyFileSync(join(root, "LICENSE"), join(folder, "LICENSE"));
    const own = manifestOf(folder);
    const addon = join(addons, own.main);
    if (existsSync(addon)) copyFileSync(addon, join(folder, own.main));
    else missing.push(own.main);
    write(folder, own);
    optionalDependencies[own.name] = own.version;
    platforms.push(folder);
  }
  if (missing.length > 0 && !partial) throw new Error(`there is no ${missing.join(", no ")} in ${addons}`);

  const [packed] = JSON.parse(
    run(npm(["pack", "--json", "--ignore-scripts", "--pack-destination", out], process.env), root),
  );
  run(["tar", "-xzf", join(out, packed.filename), "-C", out], out);
  const main = join(out, "package");
  const { devDependencies, scripts, napi, ...published } = manifest;
  write(main, { ...published, napi, optionalDependencies });
  return { main, platforms };
}

/**
 * @param {string[]} command
 * @param {string} cwd
 */
function run([file = "", ...args], cwd) {
  const shell = process.platform === "win32" && file === "npm";
  return execFileSync(file, args, { cwd, shell, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

/** @param {string} folder whether its version is on the registry already: a release that broke off is taken up again */
function isPublished(folder) {
  const { name, version } = manifestOf(folder);
  try {
    return run(npm(["view", `${name}@${version}`, "version"], process.env), folder).trim() === version;
  } catch {
    // npm says E404 of what was never published.
    return false;
  }
}

/**
 * @param {{ main: string, platforms: string[] }} release
 * @param {{ dryRun: boolean, provenance: boolean }} options
 */
function publish({ main, platforms }, { dryRun, provenance }) {
  const all = [...platforms, main];
  // A release that broke off is taken up again: npm refuses a version that is there, even in a dry run (11.19).
  const wanted = all.filter((folder) => !isPublished(folder));
  /** @type {(folder: string, ...more: string[]) => void} */
  const send = (folder, ...more) => {
    run(npm(["publish", "--access", "public", "--ignore-scripts", ...more], process.env), folder);
  };
  // All of them first without publishing: what npm would refuse of one, it refuses before there is another.
  for (const folder of wanted) send(folder, "--dry-run");
  if (dryRun) return;
  for (const folder of all) {
    const { name, version } = manifestOf(folder);
    if (!wanted.includes(folder)) console.log(`${name}@${version} is there already`);
    else send(folder, ...(provenance ? ["--provenance"] : []));
  }
}

/**
 * Whether the registry has a package of this name, in any version.
 * @param {string} name
 * @throws {PrepareError} if the registry can't be asked: what is not known to be missing is not made
 */
function exists(name) {
  const [file = "", ...args] = npm(["view", name, "name", "--json"], process.env);
  const shell = process.platform === "win32" && file === "npm";
  const { status, stdout, stderr, error } = spawnSync(file, args, { shell, encoding: "utf8" });
  if (status === 0) return true;
  if (/\bE404\b/.test(`${stdout}${stderr}`)) return false;
  throw new PrepareError(
    `the registry can't be asked for ${name}: ${error?.message ?? (stderr.trim() || stdout.trim())}`,
  );
}

/**
 * Makes the packages that the registry has not, the platforms' first, and says what is left to do by hand.
 * @param {boolean} dryRun
 */
function bootstrap(dryRun) {
  const main = manifestOf(ROOT);
  const manifests = [...readdirSync(join(ROOT, "npm")).map((folder) => manifestOf(join(ROOT, "npm", folder))), main];
  const missing = manifests.filter(({ name }) => !exists(name));
  const folder = mkdtempSync(join(tmpdir(), "dfp-bootstrap-"));
  try {
    for (const { name, license } of missing) {
      const placeholder = {
        name,
        version: PLACEHOLDER,
        license,
        description: `Holds the name of a package to come, ${main.name}.`,
      };
      writeFileSync(join(folder, "package.json"), `${JSON.stringify(placeholder, null, 2)}\n`);
      run(
        npm(["publish", "--access", "public", "--tag", "placeholder", ...(dryRun ? ["--dry-run"] : [])], process.env),
        folder,
      );
      console.log(`${name}: ${dryRun ? "would be made" : "made"}, version ${PLACEHOLDER}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const there = manifests.length - missing.length;
  if (there > 0) console.log(`${there} of ${manifests.length} packages are there already`);
  console.log(
    "For each package, name the workflow release.yml and its environment npm as the trusted publisher, in the package's settings " +
      "on the registry. Then a tag publishes all of them without a secret.",
  );
}

/** A workflow has no login but its own identity. */
function checkNpm() {
  const version = run(npm(["--version"], process.env), ROOT).trim();
  if (process.env.GITHUB_ACTIONS && !isAtLeast(version, TRUSTING_NPM)) {
    throw new PrepareError(`npm ${version} can't publish without a secret: take ${TRUSTING_NPM} or newer`);
  }
}

await runMain(import.meta.url, async () => {
  const dryRun = process.argv.includes("--dry-run");
  const provenance = !process.argv.includes("--no-provenance");
  const words = process.argv.slice(2).filter((word) => !["--dry-run", "--no-provenance"].includes(word));
  const [command, ...rest] = words;
  const tag = rest.find((word) => /^v\d/.test(word));
  if (command === "bootstrap") return bootstrap(dryRun);
  if (command !== "check" && command !== "publish") throw new PrepareError("say check, bootstrap or publish");
  const found = disagreements({ tag });
  if (found.length > 0) throw new PrepareError(found.join("\n"));
  if (command === "check") return;
  const [addons] = rest.filter((word) => word !== tag);
  if (!addons) throw new PrepareError("say where the addons are");
  checkNpm();
  const out = mkdtempSync(join(tmpdir(), "dfp-release-"));
  try {
    publish(layOut({ addons, out, repository: process.env.GITHUB_REPOSITORY }), { dryRun, provenance });
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
});
