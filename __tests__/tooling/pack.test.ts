// @release
/** `npm run pack` leaves what a stranger installs: the package, and that of one platform with its addon. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { pack } from "../../.ci/pack.mjs";
import { npm } from "../../.ci/prepare.mjs";
import { manifestOf } from "../../.ci/release.mjs";
import { HERE } from "../clis/real.js";
import { installed, withCertificates } from "../support/installed.mjs";

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

/** Yarn 4 in a folder of its own, without a registry. */
const yarnrc = (linker: string) => ({
  "yarn.lock": "",
  ".yarnrc.yml": `nodeLinker: ${linker}\nenableTelemetry: false\nenableGlobalCache: false\n`,
});
const get = async (name: string, version: string, file: string) => join(await installed(name, version), file);
const node = (file: string, ...args: string[]) => [process.execPath, file, ...args];
const berry = () => get("@yarnpkg/cli-dist", "4.18.1", "bin/yarn.js");

describe.skipIf(!HERE)("the tarballs", { timeout: 300_000 }, () => {
  let packed: string[] | undefined;
  /** Packed once, with the addon that is built. */
  function tarballs() {
    if (packed) return packed;
    const out = mkdtempSync(join(tmpdir(), "dfp-packed-"));
    process.once("exit", () => rmSync(out, { recursive: true, force: true }));
    packed = pack({ addons: "src/js", out });
    return packed;
  }

  it.each<[string, Record<string, string>, (specs: string[]) => Promise<string[]>, (() => Promise<string[]>)?]>([
    [
      "npm",
      {},
      async (specs) => npm(["install", "--no-audit", "--no-fund", "--prefer-offline", ...specs], process.env),
    ],
    [
      "pnpm, nothing hoisted",
      { "pnpm-workspace.yaml": "hoist: false\n" },
      async (specs) => node(await get("pnpm", "12.21.0", "bin/pnpm.mjs"), "add", "--prefer-offline", ...specs),
    ],
    ["yarn 1", {}, async (specs) => node(await get("yarn", "1.22.22", "bin/yarn.js"), "add", ...specs)],
    ["yarn 4, node_modules", yarnrc("node-modules"), async (specs) => node(await berry(), "add", ...specs)],
    [
      "yarn 4, PnP",
      yarnrc("pnp"),
      async (specs) => node(await berry(), "add", ...specs),
      async () => node(await berry(), "node"),
    ],
    ["Bun", {}, async (specs) => [await get("@oven/bun-linux-x64", "1.4.5", "bin/bun"), "add", ...specs]],
  ])("are installed by their paths: %s", async (_, files, install, host) => {
    const [main = "", platform = ""] = tarballs();
    const project = mkdtempSync(join(tmpdir(), "dfp-project-"));
    onTestFinished(() => rmSync(project, { recursive: true, force: true }));
    const named = (path: string) => `${basename(path).replace(/-\d.*/, "")}@file:${path}`;
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "stranger", version: "1.0.0", private: true }));
    for (const [file, text] of Object.entries(files)) writeFileSync(join(project, file), text);
    const check = 'console.log(require("deep-factor-providers/native").escapeXml("<"))';
    writeFileSync(join(project, "check.cjs"), check);
    const run = ([file = "", ...args]: string[]) =>
      execFileSync(file, args, {
        cwd: project,
        env: withCertificates(),
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
    run(await install([named(main), named(platform)]));
    const [file = "", ...args] = host ? await host() : [process.execPath];
    expect(run([file, ...args, "check.cjs"]).trim()).toBe("&lt;");
  });
});
