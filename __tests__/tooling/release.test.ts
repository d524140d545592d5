/** The targets of package.json, npm/, the loader and the workflows are the same, and a release is all or nothing. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { disagreements, layOut, manifestOf, platformOf } from "../../.ci/release.mjs";
import { createFakes } from "../support/fake.mjs";
import { lacks } from "../support/systems.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const manifest = manifestOf(ROOT);
const targets: string[] = manifest.napi.targets;

interface Step {
  run?: string;
  uses?: string;
  with?: Record<string, unknown>;
}
interface Job {
  needs?: string | string[];
  uses?: string;
  permissions?: Record<string, string>;
  strategy?: { matrix: { include: { target: string; os: string }[]; target?: string[] } };
  steps?: Step[];
}
interface Workflow {
  on: Record<string, { tags?: string[] } | null>;
  permissions: Record<string, string>;
  jobs: Record<string, Job>;
}

/** js-yaml comes with @napi-rs/cli. */
const yaml: { load(text: string): unknown } = createRequire(
  createRequire(import.meta.url).resolve("@napi-rs/cli/package.json"),
)("js-yaml");
const workflow = (name: string) =>
  yaml.load(readFileSync(join(ROOT, ".github/workflows", `${name}.yml`), "utf8")) as Workflow;
const sorted = (list: Iterable<string>) => [...list].sort();

describe("the workflows", () => {
  const build = workflow("build");

  it("build every target with the profile that is shipped, and load each", () => {
    expect(sorted(targets.map(platformOf))).toEqual(sorted(readdirSync(join(ROOT, "npm"))));
    const built = build.jobs.build?.strategy?.matrix.include ?? [];
    expect(sorted(built.map(({ target }) => target))).toEqual(sorted(targets));
    expect(build.jobs.build?.steps?.flatMap(({ run }) => run ?? [])).toContain(
      // biome-ignore lint/suspicious/noTemplateCurlyInString: of the workflow, not of JavaScript
      "npm run build -- --profile ship --target ${{ matrix.target }} ${{ matrix.flags }}",
    );
    const loaded = build.jobs.smoke?.strategy?.matrix;
    expect(sorted(loaded?.target ?? [])).toEqual(sorted(targets));
    expect(sorted((loaded?.include ?? []).map(({ target }) => target))).toEqual(sorted(targets));
  });

  it("are shared by CI and release, which publishes last, on a tag, with provenance", () => {
    expect(workflow("ci").jobs.build?.uses).toBe("./.github/workflows/build.yml");
    const release = workflow("release");
    expect(release.on).toEqual({ push: { tags: ["v*"] } });
    expect(release.permissions).toEqual({ contents: "read" });
    expect(Object.fromEntries(Object.entries(release.jobs).map(([name, { needs }]) => [name, needs]))).toEqual({
      agree: undefined,
      check: "agree",
      build: "agree",
      publish: ["check", "build"],
    });
    expect(release.jobs.build?.uses).toBe("./.github/workflows/build.yml");
    expect(release.jobs.publish?.permissions).toEqual({ contents: "read", "id-token": "write" });
    expect(release.jobs.publish?.steps?.at(-1)?.run).toBe('node .ci/release.mjs publish addons "$GITHUB_REF_NAME"');
    expect(readFileSync(join(ROOT, ".ci/release.mjs"), "utf8")).toContain('"--provenance"');
    // The job's identity is its login.
    expect(readFileSync(join(ROOT, ".github/workflows/release.yml"), "utf8")).not.toMatch(/secrets\.|TOKEN/);
  });
});

/** A tree that can be changed. */
function copyTree(): string {
  const root = mkdtempSync(join(tmpdir(), "dfp-release-test-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const name of [
    "package.json",
    "package-lock.json",
    "Cargo.toml",
    "Cargo.lock",
    "CHANGELOG.md",
    "LICENSE",
    "npm",
  ]) {
    cpSync(join(ROOT, name), join(root, name), { recursive: true });
  }
  return root;
}

describe("a release", () => {
  it("finds nothing wrong with this tree", () => {
    expect(disagreements()).toEqual([]);
  });

  it("finds what disagrees", () => {
    const root = copyTree();
    const edit = (file: string, change: (it: Record<string, unknown>) => object) => {
      const path = join(root, file);
      writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, "utf8")))));
    };
    edit("npm/darwin-x64/package.json", (it) => ({ ...it, version: "0.0.9" }));
    edit("package.json", (it) => ({ ...it, scripts: { postinstall: "node x.js" } }));
    rmSync(join(root, "npm/win32-x64-msvc"), { recursive: true });
    const all = sorted(targets.map(platformOf));
    expect(disagreements({ root, tag: "v9.9.9" })).toEqual([
      `npm/darwin-x64 says 0.0.9, package.json says ${manifest.version}`,
      `package.json builds ${all}, npm/ has ${all.filter((name) => name !== "win32-x64-msvc")}`,
      'package.json has a script "postinstall", which would run where the package is installed',
      `the tag says 9.9.9, package.json says ${manifest.version}`,
      `CHANGELOG.md has no section [${manifest.version}]`,
    ]);
  });

  it.skipIf(lacks("scripts"))("is preceded by packages that hold nothing, of those that the registry has not", () => {
    const fakes = createFakes();
    onTestFinished(() => fakes.cleanup());
    const log = join(fakes.dir, "calls");
    fakes.shell(
      "npm",
      `echo "$@" >> ${log}
case "$1 $2" in
  "view deep-factor-providers") echo '"deep-factor-providers"' ;;
  "view deep-factor-providers-darwin-x64") echo "$ANSWER" >&2; exit 1 ;;
  view*) echo '"there"' ;;
  publish*) /bin/cat package.json >> ${log} ;;
esac`,
    );
    const bootstrap = (answer: string, ...more: string[]) => {
      writeFileSync(log, "");
      const env = { PATH: `${fakes.dir}:/usr/bin:/bin`, ANSWER: answer };
      const args = [join(ROOT, ".ci/release.mjs"), "bootstrap", ...more];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: "utf8" });
      const published = readFileSync(log, "utf8").split(/^(?=publish)/m)[1];
      return { status, stdout, stderr, published };
    };
    const tried = bootstrap("npm error code E404", "--dry-run");
    expect([tried.status, tried.stderr]).toEqual([0, ""]);
    expect(tried.published?.split("\n")[0]).toBe("publish --access public --tag placeholder --dry-run");
    expect(tried.stdout).toMatch(
      /^deep-factor-providers-darwin-x64: would be made, version 0\.0\.0\n8 of 9 packages are there already\n/,
    );
    const made = bootstrap("npm error code E404");
    expect(made.published).toMatch(
      /^publish --access public --tag placeholder\n\{\n {2}"name": "deep-factor-providers-darwin-x64",/,
    );
    expect(made.stdout).toMatch(/^deep-factor-providers-darwin-x64: made, version 0\.0\.0\n/);
    // What can't be asked for is not made.
    const unknown = bootstrap("npm error network timeout");
    expect([unknown.status, unknown.published]).toEqual([1, undefined]);
    expect(unknown.stderr).toBe(
      "the registry can't be asked for deep-factor-providers-darwin-x64: npm error network timeout\n",
    );
  });

  it("is refused where an addon is missing, and names all of its platforms otherwise", () => {
    const root = copyTree();
    const addons = join(root, "addons");
    mkdirSync(addons);
    const files = targets.map((target) => `deep-factor-providers.${platformOf(target)}.node`);
    for (const file of files.slice(1)) writeFileSync(join(addons, file), "addon");
    const out = join(root, "out");
    mkdirSync(out);
    expect(() => layOut({ addons, out, root })).toThrow(`there is no ${files[0]} in ${addons}`);
    writeFileSync(join(addons, files[0] ?? ""), "addon");
    rmSync(out, { recursive: true });
    mkdirSync(out);
    const { main, platforms } = layOut({ addons, out, root, repository: "someone/something" });
    const home = {
      homepage: "https://github.com/someone/something#readme",
      bugs: { url: "https://github.com/someone/something/issues" },
      repository: { type: "git", url: "git+https://github.com/someone/something.git" },
    };
    const { devDependencies, scripts, ...kept } = manifest;
    const names = targets.map((target) => [`deep-factor-providers-${platformOf(target)}`, manifest.version]);
    expect(manifestOf(main)).toEqual({ ...kept, optionalDependencies: Object.fromEntries(names), ...home });
    for (const folder of platforms) expect(manifestOf(folder)).toMatchObject(home);
    for (const folder of platforms) {
      const { main: addon, files: published } = manifestOf(folder);
      expect([addon, published]).toEqual([expect.stringMatching(/\.node$/), [addon]]);
      expect(readdirSync(folder)).toContain(addon);
    }
  });
});
