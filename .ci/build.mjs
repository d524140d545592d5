// @ts-check
// Builds the addon for this machine (release unless `--profile` or `--debug` says otherwise) and what belongs beside it.
// Further arguments go to `napi build`: `npm run build -- --target aarch64-apple-darwin`.
import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, utimesSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { findAddons, ROOT as root } from "./prepare.mjs";

const startedAt = new Date();
const manifest = createRequire(import.meta.url).resolve("@napi-rs/cli/package.json");
const napi = join(dirname(manifest), JSON.parse(readFileSync(manifest, "utf8")).bin.napi);

const given = process.argv.slice(2).filter((arg) => arg !== "--debug");
const debug = process.argv.includes("--debug") || given.includes("--profile");
// cargo's own name for the profile without optimisation is `dev`.
const isOptimised = !process.argv.includes("--debug") && !given.includes("dev");
const outcome = spawnSync(
  process.execPath,
  [
    ...(isOptimised ? ["--import", pathToFileURL(join(root, ".ci/cdylib.mjs")).href] : []),
    napi,
    "build",
    "--platform",
    // With the tests' features: cargo has compiled nearly all of it for `cargo test` already.
    ...(debug ? (given.includes("--profile") ? [] : ["--features", "fake-cli"]) : ["--release"]),
    ...["--output-dir", "src/js", "--js", "native.cjs", "--dts", "../../target/native.d.ts"],
    ...given,
  ],
  { cwd: root, stdio: "inherit" },
);
if (outcome.status !== 0) process.exit(outcome.status ?? 1);

// The copy has the time of cargo's own file, which is old where nothing had to be compiled: the next `npm run demo` would build again,
// and leave those that run beside it without an addon.
if (!given.includes("--target")) for (const addon of findAddons(root)) utimesSync(addon, startedAt, startedAt);

// The same declarations for `require`: TypeScript takes the module kind from the file's name.
copyFileSync(join(root, "index.d.ts"), join(root, "index.d.cts"));
copyFileSync(join(root, "src/js/langchain/index.d.mts"), join(root, "src/js/langchain/index.d.cts"));
