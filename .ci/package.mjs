// @ts-check
/**
 * `npm run test:package`: what would be published is right.
 *
 * In flows the built tree. The main package is packed, linted (publint, are-the-types-wrong) and, with this machine's platform
 * package beside it, used from an empty project by `import` and by `require`. Nothing is fetched: the project borrows the peer
 * dependency from here.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeBin, npm, ROOT, runMain } from "./prepare.mjs";

const PACKAGE = "deep-factor-providers";

/** What belongs into the published package; the addon itself is in the platform packages. */
const EXPECTED = [
  /^CHANGELOG\.md$/,
  /^LICENSE$/,
  /^README\.md$/,
  /^docs\/.*\.(md|json)$/,
  /^index\.d\.c?ts$/,
  /^package\.json$/,
  /^src\/js\/[\w-]+(\.d\.[cm]ts|\.[cm]js)$/,
];

await runMain(import.meta.url, async () => {
  const temp = mkdtempSync(join(tmpdir(), "dfp-package-"));
  try {
    const tarball = pack(temp);
    lint(tarball);
    use(temp, tarball);
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
});

/**
 * @param {string[]} command
 * @param {string} cwd
 */
function run([file = "", ...args], cwd) {
  return execFileSync(file, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

/** @param {string} temp */
function pack(temp) {
  const [packed] = JSON.parse(
    run(npm(["pack", "--json", "--ignore-scripts", "--pack-destination", temp], process.env), ROOT),
  );
  /** @type {string[]} */
  const files = packed.files.map((/** @type {{ path: string }} */ { path }) => path);
  const strays = files.filter((path) => !EXPECTED.some((pattern) => pattern.test(path)));
  const missing = ["index.d.ts", "index.d.cts", "src/js/native.cjs", "README.md", "LICENSE"].filter(
    (path) => !files.includes(path),
  );
  if (strays.length > 0) throw new Error(`the package holds what does not belong there: ${strays.join(", ")}`);
  if (missing.length > 0) throw new Error(`the package lacks ${missing.join(", ")}`);
  console.log(`packed ${files.length} files, ${Math.round(packed.unpackedSize / 1024)} KiB unpacked`);
  return join(temp, packed.filename);
}

/** @param {string} tarball */
function lint(tarball) {
  run([...nodeBin(ROOT, "publint", "publint"), "run", tarball, "--strict"], ROOT);
  run([...nodeBin(ROOT, "@arethetypeswrong/cli", "attw"), tarball, "--format", "ascii", "--profile", "node16"], ROOT);
  console.log("publint and are-the-types-wrong have nothing to say");
}

/**
 * @param {string} temp
 * @param {string} tarball
 */
function use(temp, tarball) {
  const project = join(temp, "project");
  const modules = join(project, "node_modules");
  mkdirSync(modules, { recursive: true });
  run(["tar", "-xzf", tarball, "-C", temp], temp);
  cpSync(join(temp, "package"), join(modules, PACKAGE), { recursive: true });
  for (const name of ["@langchain/core", "zod"]) {
    mkdirSync(join(modules, name, ".."), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name), "junction");
  }
  const addon = readdirSync(join(ROOT, "src/js")).find((name) => name.endsWith(".node"));
  if (!addon) throw new Error("there is no addon: run `npm run build`");
  const platform = addon.slice(PACKAGE.length + 1, -".node".length);
  const installed = join(modules, `${PACKAGE}-${platform}`);
  cpSync(join(ROOT, "npm", platform), installed, { recursive: true });
  cpSync(join(ROOT, "src/js", addon), join(installed, addon));

  const check = `
    if (messagesToXml([{ role: "user", content: "<hi>" }]) !== expected) throw new Error("messagesToXml");
    const provider = createClaudeCliProvider({ cliPath: "/nonexistent/claude" });
    provider.invoke(["hi"]).then(() => { throw new Error("it answered"); }, (error) => {
      if (!(error instanceof ProviderError) || error.code !== "CLI_NOT_FOUND") throw error;
      console.log(kind + ": " + error.message);
    });`;
  const expected = `const expected = '<thread>\\n  <event type="human" id="0" iteration="0">&lt;hi&gt;</event>\\n</thread>';`;
  const names = "{ createClaudeCliProvider, messagesToXml, ProviderError }";
  for (const entry of [PACKAGE, `${PACKAGE}/native`]) {
    writeFileSync(
      join(project, "esm.mjs"),
      `import ${names} from "${entry}"; const kind = "import ${entry}"; ${expected}${check}`,
    );
    writeFileSync(
      join(project, "cjs.cjs"),
      `const ${names} = require("${entry}"); const kind = "require ${entry}"; ${expected}${check}`,
    );
    for (const file of ["esm.mjs", "cjs.cjs"]) process.stdout.write(run([process.execPath, file], project));
  }
}
