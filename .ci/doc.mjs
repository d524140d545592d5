// @ts-check
/**
 * The documentation of the rooms and of the addon, with every warning of rustdoc an error: as `cargo doc --no-deps`, but sooner.
 *
 * `cargo doc` uses nothing that `cargo test` has compiled: it checks each of the 200 crates below the rooms once more. Here rustdoc reads
 * what the addon of the tests consists of. In flow cargo's messages about that; out flows `target/<machine>/doc`.
 */
import { execFile, execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { sideBySide } from "./package.mjs";
import { PrepareError, ROOT, runMain } from "./prepare.mjs";

/**
 * @typedef {{ name: string, kind: string[], src_path: string, edition: string }} Target
 * @typedef {{ reason: string, package_id: string, target: Target, features: string[], filenames: string[] }} Artifact
 * @typedef {{ name: string, pkg: string, dep_kinds: { kind: string | null }[] }} Dependency
 * @typedef {object} Metadata
 * @property {{ id: string, name: string, version: string, manifest_path: string }[]} packages
 * @property {string[]} workspace_members
 * @property {{ nodes: { id: string, deps: Dependency[] }[] }} resolve
 */

/** @param {Artifact} artifact */
const isMacro = ({ target }) => target.kind.includes("proc-macro");

/**
 * What rustdoc is started with, per room.
 * @param {Metadata} metadata
 * @param {Artifact[]} artifacts of the libraries that were compiled
 * @returns {{ name: string, env: Record<string, string>, args: string[] }[]}
 */
export function commands({ packages, workspace_members, resolve }, artifacts) {
  const isRoom = (/** @type {Artifact} */ { package_id }) => workspace_members.includes(package_id);
  // What was compiled of a room lies in two places; this is never the copy.
  const fileOf = (/** @type {Artifact} */ { filenames }) =>
    filenames.find((file) => /\.(rmeta|so|dylib|dll)$/.test(file)) ?? "";
  const rooms = artifacts.filter((artifact) => isRoom(artifact));
  // Of a crate that macros and build scripts use, too, there are two: theirs lies elsewhere.
  const folder = dirname(rooms.map(fileOf).find((file) => dirname(file).endsWith("deps")) ?? "");
  const macros = new Set(artifacts.filter(isMacro).map((artifact) => dirname(fileOf(artifact))));
  /** @param {string} id */
  const compiled = (id) =>
    artifacts.find((each) => each.package_id === id && (isMacro(each) || dirname(fileOf(each)) === folder));
  return rooms.map(({ package_id, target, features }) => {
    const found = packages.find(({ id }) => id === package_id);
    if (!found) throw new PrepareError(`cargo does not know ${package_id}`);
    const { name, version, manifest_path } = found;
    const used = resolve.nodes.find(({ id }) => id === package_id)?.deps ?? [];
    const externs = used
      .filter(({ dep_kinds }) => dep_kinds.some(({ kind }) => kind === null))
      .flatMap(({ name: as, pkg }) => {
        const artifact = compiled(pkg);
        return artifact ? ["--extern", `${as}=${fileOf(artifact)}`] : [];
      });
    const args = [
      ["--crate-name", target.name.replaceAll("-", "_"), "--crate-type", "lib", "--edition", target.edition],
      ["-D", "warnings", "--out-dir", join(dirname(folder), "..", "doc")],
      features.flatMap((feature) => ["--cfg", `feature="${feature}"`]),
      [folder, ...macros].flatMap((path) => ["-L", `dependency=${path}`]),
      [...externs, target.src_path],
    ].flat();
    const env = { CARGO_MANIFEST_DIR: dirname(manifest_path), CARGO_PKG_NAME: name, CARGO_PKG_VERSION: version };
    return { name, env, args };
  });
}

/** @param {string[]} args */
function cargo(...args) {
  return execFileSync("cargo", args, {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** @param {ReturnType<typeof commands>[number]} command */
function document({ name, env, args }) {
  return /** @type {Promise<void>} */ (
    new Promise((resolve, reject) => {
      execFile("rustdoc", args, { cwd: ROOT, env: { ...process.env, ...env } }, (error, stdout, stderr) => {
        process.stderr.write(stdout + stderr);
        if (error) reject(new PrepareError(`rustdoc has something to say of ${name}; it is above.`));
        else resolve();
      });
    })
  );
}

await runMain(import.meta.url, async () => {
  const host = /^host: (.+)$/m.exec(execFileSync("rustc", ["-vV"], { encoding: "utf8" }))?.[1] ?? "";
  const metadata = JSON.parse(cargo("metadata", "--format-version", "1", "--filter-platform", host));
  // As `npm run build:debug` has it.
  const said = cargo("build", "--lib", "--features", "fake-cli", "--message-format", "json-render-diagnostics");
  const artifacts = said
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line))
    .filter(({ reason, target }) => reason === "compiler-artifact" && !target.kind.includes("custom-build"));
  const rooms = commands(metadata, artifacts);
  await sideBySide(rooms.map((room) => () => document(room)));
  console.log(`documented ${rooms.map(({ name }) => name).join(", ")}`);
});
