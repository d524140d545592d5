// @ts-check
/**
 * The check that the Rust documentation has no mistake, with what cargo has compiled for its tests.
 *
 * `cargo doc` checks every dependency and every room once more before rustdoc begins, which takes longer than rustdoc itself. Here cargo tells
 * what it has built (`cargo test --no-run`), and rustdoc gets that. The pages lie in `target/rustdoc`.
 */
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { runBeside, sideBySide } from "./package.mjs";
import { LINTED, ROOT, runMain } from "./prepare.mjs";

/** @typedef {{ package_id: string, target: { name: string, kind: string[], src_path: string, edition: string }, profile: { test: boolean }, features: string[], filenames: string[] }} Artifact */
/** @typedef {{ id: string, name: string, version: string, manifest_path: string }} Package */
/** @typedef {{ id: string, deps: { name: string, pkg: string, dep_kinds: { kind: string | null }[] }[] }} Node */

/** @param {string[]} args */
function cargo(...args) {
  const env = { ...process.env, ...LINTED };
  return execFileSync("cargo", args, {
    cwd: ROOT,
    env,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/**
 * The command line with which rustdoc documents `room`, by what cargo has built.
 * @param {Artifact} room
 * @param {readonly Artifact[]} artifacts
 * @param {Node} node
 */
function rustdoc(room, artifacts, node) {
  const uses = node.deps.filter(({ dep_kinds }) => dep_kinds.some(({ kind }) => kind === null));
  const externs = uses.flatMap(({ name, pkg }) => {
    const files = artifacts.filter(({ package_id }) => package_id === pkg).flatMap(({ filenames }) => filenames);
    const file = files.findLast((file) => /\.(?:rlib|so|dylib|dll)$/.test(file));
    return file ? ["--extern", `${name}=${file}`] : [];
  });
  const folders = new Set(artifacts.flatMap(({ filenames }) => filenames.map((file) => dirname(file))));
  return [
    ...["--edition", room.target.edition, "--crate-type", "lib", "--crate-name", room.target.name.replaceAll("-", "_")],
    ...[...folders].filter((folder) => folder.endsWith("deps")).flatMap((folder) => ["-L", `dependency=${folder}`]),
    ...room.features.flatMap((feature) => ["--cfg", `feature="${feature}"`]),
    ...externs,
    ...["-D", "warnings", "-o", join(ROOT, "target/rustdoc"), room.target.src_path],
  ];
}

await runMain(import.meta.url, async () => {
  /** @type {Artifact[]} */
  const built = cargo("test", "--all-targets", "--no-run", "--message-format=json-render-diagnostics")
    .split("\n")
    .filter((line) => line.includes('"reason":"compiler-artifact"'))
    .map((line) => JSON.parse(line));
  const artifacts = built.filter(({ profile, filenames }) => !profile.test && filenames.length > 0);
  /** @type {{ packages: Package[], workspace_members: string[], resolve: { nodes: Node[] } }} */
  const { packages, workspace_members, resolve } = JSON.parse(cargo("metadata", "--format-version=1", "--offline"));
  const rooms = artifacts.filter(
    ({ package_id, target }) => workspace_members.includes(package_id) && target.kind.some((kind) => /lib$/.test(kind)),
  );
  if (rooms.length !== workspace_members.length)
    throw new Error(`cargo has built ${rooms.length} of ${workspace_members.length} rooms`);
  await sideBySide(
    rooms.map((room) => async () => {
      const node = resolve.nodes.find(({ id }) => id === room.package_id);
      const { name = "", version = "", manifest_path = "" } = packages.find(({ id }) => id === room.package_id) ?? {};
      // What macros read of cargo.
      const own = { CARGO_PKG_NAME: name, CARGO_PKG_VERSION: version, CARGO_MANIFEST_DIR: dirname(manifest_path) };
      const env = { ...process.env, ...own };
      if (node) await runBeside(["rustdoc", ...rustdoc(room, artifacts, node)], ROOT, env);
    }),
  );
  console.log(`documented ${rooms.map(({ target }) => target.name).join(", ")}`);
});
