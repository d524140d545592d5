// @ts-check
/**
 * The packages this one is compared with. In: bench/peers/package.json. Out: the packages, importable.
 *
 * They are installed at the first use, outside of the repository's own packages, and stay: later runs need no network. The
 * agent SDK's optional binary (390 MB) is left out: all of them drive the claude CLI of the development dependencies.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const MANIFEST = fileURLToPath(new URL("../peers/package.json", import.meta.url));
const CACHE = fileURLToPath(new URL("../../.cache/bench", import.meta.url));

/** Name and exact version of each. @type {Readonly<Record<string, string>>} */
export const PEERS = Object.freeze(JSON.parse(readFileSync(MANIFEST, "utf8")).dependencies);

/** Where they are, installed or not: another list of them is another folder. */
const home = join(CACHE, createHash("sha256").update(JSON.stringify(PEERS)).digest("hex").slice(0, 12));

/** Installs them where they are not. Blocks; says so. */
export function installPeers() {
  if (existsSync(home)) return;
  console.error("installing the packages to compare with (once) …");
  mkdirSync(CACHE, { recursive: true });
  // Made elsewhere and moved at the end, so that a folder of this name is always whole.
  const making = mkdtempSync(join(CACHE, ".making-"));
  try {
    copyFileSync(MANIFEST, join(making, "package.json"));
    // A module of that folder, for imports start at the folder of the module that asks.
    writeFileSync(join(making, "load.mjs"), "export const load = (name) => import(name);\n");
    const flags = ["--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];
    const windows = process.platform === "win32";
    const npm = spawnSync("npm", ["install", ...flags], { cwd: making, encoding: "utf8", shell: windows });
    if (npm.status !== 0) throw new Error(`npm install ended with ${npm.status ?? npm.error}:\n${npm.stderr}`);
    if (!existsSync(home)) renameSync(making, home);
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
}

/**
 * @param {string} name
 * @returns {Promise<any>} the package, imported as its own users import it
 */
export async function peer(name) {
  const { load } = await import(pathToFileURL(join(home, "load.mjs")).href);
  return load(name);
}

/** A package's own folder. @param {string} name */
export function peerFolder(name) {
  return join(home, "node_modules", name);
}
