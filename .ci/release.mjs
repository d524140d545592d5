// @ts-check
/**
 * What a release is made of, and how it is published.
 *
 * In flows the working tree and the addons of all platforms. Out flow the folders that npm publishes: one per platform, and the
 * package itself, which names them as optional dependencies of its own version. Nothing is published unless all is there and
 * agrees; the package itself, the one that people install, goes last, so that before it nothing of a release can be seen.
 *
 *     node .ci/release.mjs check [v1.2.3]           what disagrees, if anything
 *     node .ci/release.mjs publish <addons> [v1.2.3] from a folder of `.node` files; `--dry-run` publishes nothing
 */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { npm, PrepareError, ROOT, runMain } from "./prepare.mjs";

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
 * @param {boolean} dryRun
 */
function publish({ main, platforms }, dryRun) {
  const all = [...platforms, main];
  /** @type {(folder: string, ...more: string[]) => void} */
  const send = (folder, ...more) => {
    run(npm(["publish", "--access", "public", "--ignore-scripts", ...more], process.env), folder);
  };
  // All of them first without publishing: what npm would refuse of one, it refuses before there is another.
  for (const folder of all) send(folder, "--dry-run");
  if (dryRun) return;
  for (const folder of all) {
    const { name, version } = manifestOf(folder);
    if (isPublished(folder)) console.log(`${name}@${version} is there already`);
    else send(folder, "--provenance");
  }
}

await runMain(import.meta.url, async () => {
  const words = process.argv.slice(2).filter((word) => word !== "--dry-run");
  const [command, ...rest] = words;
  const tag = rest.find((word) => /^v\d/.test(word));
  if (command !== "check" && command !== "publish") throw new PrepareError("say check or publish");
  const found = disagreements({ tag });
  if (found.length > 0) throw new PrepareError(found.join("\n"));
  if (command === "check") return;
  const [addons] = rest.filter((word) => word !== tag);
  if (!addons) throw new PrepareError("say where the addons are");
  const out = mkdtempSync(join(tmpdir(), "dfp-release-"));
  mkdirSync(out, { recursive: true });
  const release = layOut({ addons, out, repository: process.env.GITHUB_REPOSITORY });
  publish(release, process.argv.includes("--dry-run"));
});
