// @ts-check
/**
 * An npm registry on 127.0.0.1 that has what lies in some folders: package managers install from it as from the real one, and
 * nothing else can be reached.
 *
 * In flow folders of packages, and folders whose `node_modules` hold some; out flows an address. A tarball is made when somebody
 * asks for it.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, join } from "node:path";
import { gzipSync } from "node:zlib";

/** Long ago: package managers may refuse what is too young. */
const PUBLISHED = "2020-01-01T00:00:00.000Z";

/**
 * Every package below a `node_modules`, the nested ones included.
 * @param {string} modules
 * @returns {string[]}
 */
function packagesIn(modules) {
  if (!existsSync(modules)) return [];
  return readdirSync(modules).flatMap((name) => {
    const path = join(modules, name);
    if (name.startsWith(".")) return [];
    if (name.startsWith("@")) return readdirSync(path).flatMap((own) => withNested(join(path, own)));
    return withNested(path);
  });
}

/** @param {string} folder @returns {string[]} */
function withNested(folder) {
  if (!existsSync(join(folder, "package.json"))) return [];
  return [folder, ...packagesIn(join(folder, "node_modules"))];
}

/**
 * The least compression there is: an unoptimised addon has 100 MB, and nobody downloads it.
 * @param {string} folder
 */
function makeTarball(folder) {
  const args = ["-cf", "-", "--exclude", "node_modules", "-C", dirname(folder), basename(folder)];
  return gzipSync(execFileSync("tar", args, { maxBuffer: 1 << 30 }), { level: 1 });
}

/**
 * @param {{ packages: string[], modules: string[] }} has folders of packages, and `node_modules` folders
 * @returns {Promise<{ url: string, missing: Set<string>, close: () => Promise<void> }>} `missing`: what was asked for in vain
 */
export async function startRegistry({ packages, modules }) {
  /** @type {Map<string, Map<string, string>>} name → version → folder */
  const known = new Map();
  for (const folder of [...packages, ...modules.flatMap(packagesIn)]) {
    const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    if (!name || !version) continue;
    const versions = known.get(name) ?? known.set(name, new Map()).get(name);
    if (!versions?.has(version)) versions?.set(version, folder);
  }
  /** @type {Map<string, { bytes: Buffer, integrity: string, shasum: string }>} */
  const tarballs = new Map();
  const missing = new Set();
  /** @param {string} name @param {string} version @param {string} folder */
  const tarball = (name, version, folder) => {
    const key = `${name}@${version}`;
    const known = tarballs.get(key);
    if (known) return known;
    const bytes = makeTarball(folder);
    const integrity = `sha512-${createHash("sha512").update(bytes).digest("base64")}`;
    const made = { bytes, integrity, shasum: createHash("sha1").update(bytes).digest("hex") };
    tarballs.set(key, made);
    return made;
  };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://x").pathname).slice(1);
    const [, name = path, version] = /^(.+)\/-\/.+?-(\d.*)\.tgz$/.exec(path) ?? [];
    const versions = known.get(name);
    const folder = versions?.get(version ?? "");
    if (!versions || (version && !folder)) {
      missing.add(path);
      response.writeHead(404, { "content-type": "application/json" }).end('{"error":"not_found"}');
      return;
    }
    if (version && folder) {
      response.writeHead(200, { "content-type": "application/octet-stream" }).end(tarball(name, version, folder).bytes);
      return;
    }
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(document(name, versions)));
  });
  /** @type {(name: string, versions: Map<string, string>) => object} */
  const document = (name, versions) => {
    const entries = [...versions].map(([version, folder]) => {
      const { devDependencies, ...manifest } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const { integrity, shasum } = tarball(name, version, folder);
      const url = `${address()}/${name}/-/${basename(name)}-${version}.tgz`;
      return [version, { ...manifest, _id: `${name}@${version}`, dist: { tarball: url, integrity, shasum } }];
    });
    const latest = [...versions.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
    const times = [...versions.keys()].map((version) => [version, PUBLISHED]);
    return {
      name,
      "dist-tags": { latest },
      versions: Object.fromEntries(entries),
      time: { created: PUBLISHED, modified: PUBLISHED, ...Object.fromEntries(times) },
    };
  };
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = () => {
    const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
    return `http://127.0.0.1:${port}`;
  };
  return {
    url: address(),
    missing,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
