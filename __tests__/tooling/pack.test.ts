// @release
/** `npm run pack` leaves what a stranger installs: the package, and that of one platform with its addon. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { pack } from "../../.ci/pack.mjs";
import { manifestOf } from "../../.ci/release.mjs";

const { version } = manifestOf(".");
const inside = (tarball: string, ...paths: string[]) =>
  execFileSync("tar", ["-xzOf", tarball, ...paths.map((path) => `package/${path}`)], { encoding: "utf8" });

it("packs the package and the platform whose addon is there, and names no package that can't be had", () => {
  const addons = mkdtempSync(join(tmpdir(), "dfp-addons-"));
  onTestFinished(() => rmSync(addons, { recursive: true, force: true }));
  const out = join(addons, "out");
  expect(() => pack({ addons, out })).toThrow(`there is no addon in ${addons}: run \`npm run build\``);

  writeFileSync(join(addons, "deep-factor-providers.linux-x64-gnu.node"), "the addon");
  const [main = "", platform = ""] = pack({ addons, out });
  expect([main, platform].map((path) => basename(path))).toEqual([
    `deep-factor-providers-${version}.tgz`,
    `deep-factor-providers-linux-x64-gnu-${version}.tgz`,
  ]);
  expect(readdirSync(out).sort()).toEqual([basename(platform), basename(main)].sort());
  expect(JSON.parse(inside(main, "package.json"))).toEqual(
    expect.not.objectContaining({ optionalDependencies: expect.anything(), scripts: expect.anything() }),
  );
  expect(inside(platform, "deep-factor-providers.linux-x64-gnu.node")).toBe("the addon");
});
