// @ts-check
/**
 * `npm run pack`: tarballs to install from, for as long as the package is not on the registry.
 *
 * In flows the working tree, whose addon is built first (`--no-build` takes the one in src/js). Out flow into `dist-pack` the package and the
 * package of this machine's platform: `pnpm add ./dist-pack/*.tgz` takes both.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { npm, PrepareError, prepare, ROOT, runMain } from "./prepare.mjs";
import { layOut, manifestOf } from "./release.mjs";

await runMain(import.meta.url, async () => {
  if (!process.argv.includes("--no-build")) {
    await prepare({ build: false });
    execFileSync(process.execPath, [join(ROOT, ".ci/build.mjs")], { cwd: ROOT, stdio: "inherit" });
  }
  const tarballs = pack({ addons: join(ROOT, "src/js"), out: join(ROOT, "dist-pack") });
  for (const tarball of tarballs) console.log(relative(process.cwd(), tarball));
});

/**
 * @param {{ addons: string, out: string }} folders `out` is made anew
 * @returns {string[]} the tarballs, the package's first
 * @throws {PrepareError} where no platform has an addon
 */
export function pack({ addons, out }) {
  const temp = mkdtempSync(join(tmpdir(), "dfp-pack-"));
  try {
    const { main, platforms } = layOut({ addons, out: temp, partial: true });
    const built = platforms.filter((folder) => existsSync(join(folder, manifestOf(folder).main)));
    if (built.length === 0) throw new PrepareError(`there is no addon in ${addons}: run \`npm run build\``);
    // No platform package can be had from the registry: one that is named there would be looked for in vain.
    const { optionalDependencies, ...manifest } = manifestOf(main);
    writeFileSync(join(main, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    rmSync(out, { recursive: true, force: true });
    mkdirSync(out, { recursive: true });
    return [main, ...built].map((folder) => {
      const [file = "", ...args] = npm(["pack", "--json", "--ignore-scripts", "--pack-destination", out], process.env);
      const shell = process.platform === "win32" && file === "npm";
      const said = execFileSync(file, args, {
        cwd: folder,
        shell,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "inherit"],
      });
      return join(out, JSON.parse(said)[0].filename);
    });
  } finally {
    rmSync(temp, { recursive: true, force: true, maxRetries: 5 });
  }
}
