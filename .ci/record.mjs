// @ts-check
/**
 * `npm run record -- <cli>`: takes in a version of a CLI (docs/contributing.md).
 *
 * In flow a CLI's name and the binary, which is asked by its provider through every case (`record/cases.mjs`) against a
 * scripted API; out flow the recordings as files, or with `--diff` one page of what differs from them.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { runMain } from "./prepare.mjs";
import { cases } from "./record/cases.mjs";
import { SURFACES } from "./record/decisions.mjs";
import { diffPage, diffSent } from "./record/diff.mjs";
import { installNewest } from "./record/newest.mjs";
import { compare, published } from "./record/options.mjs";
import { pageOfAll } from "./record/page.mjs";
import { record, recordable } from "./record/run.mjs";
import { recordSent } from "./record/sent.mjs";

/** @typedef {import("./record/run.mjs").Recording} Recording */
/** @typedef {import("./record/run.mjs").SetName} SetName */

const FIXTURES = fileURLToPath(new URL("../__tests__/fixtures/drift", import.meta.url));
/** What each set's CLI sends, whole: docs/reference/sent.md is made of it. */
export const SENT = fileURLToPath(new URL("../docs/reference/sent", import.meta.url));
/** What `--only` calls it. */
const SENT_CASE = "sent";
/** @type {Record<string, SetName[]>} */
export const SETS = {
  claude: ["claude-newest", "claude-oldest"],
  codex: ["codex"],
  gemini: ["gemini"],
  qwen: ["qwen-newest", "qwen-oldest"],
  opencode: ["opencode"],
  grok: ["grok"],
  copilot: ["copilot"],
};
const USAGE = `usage: npm run record -- <${Object.keys(SETS).join(" | ")} | --all> [--cli-path FILE | --newest] [--only CASE,CASE] [--out DIR] [--diff]

  --all       every CLI; with --diff what changed is on one page
  --cli-path  the binary; default: the version that is measured
  --newest    the newest version, from npm, in a temporary folder
  --only      these cases alone, or "sent" (the whole requests); default: all
  --out       where the recordings are, a folder for each CLI; default: __tests__/fixtures/drift, and docs/reference/sent
  --diff      write nothing, print what differs from the recordings, and exit with 1 where something does
`;
/** Cases at a time: most of the time is waiting. */
const AT_ONCE = 3;

/** @typedef {(set: SetName, dir: string) => Promise<string>} Install */

/**
 * @param {string[]} argv
 * @param {(text: string) => void} [write]
 * @param {Install} [install] where `--newest` gets a CLI from
 * @returns {Promise<number>} the exit code
 */
export async function main(argv, write = (text) => process.stdout.write(text), install = installNewest) {
  const options = /** @type {const} */ ({
    all: { type: "boolean", default: false },
    "cli-path": { type: "string" },
    newest: { type: "boolean", default: false },
    only: { type: "string" },
    out: { type: "string", default: FIXTURES },
    diff: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  });
  const { values, positionals } = parse(argv, options);
  const names = values.all ? Object.keys(SETS) : positionals;
  const cliPath = values["cli-path"] && resolve(values["cli-path"]);
  const isOne = names.length === 1 && names.every((name) => SETS[name]);
  const isClear = values.all ? positionals.length === 0 && !cliPath : isOne && !(cliPath && values.newest);
  if (values.help || !isClear) {
    write(USAGE);
    return values.help ? 0 : 2;
  }
  // A binary of the caller's own is one version.
  const sets = names.flatMap((name) => SETS[name]?.slice(0, cliPath || values.newest ? 1 : undefined) ?? []);
  /** @type {import("./record/page.mjs").Compared[]} */
  const compared = [];
  for (const set of sets) {
    try {
      const page = await withBinary(set, (path) => takeIn(set, path, { ...values, write }));
      if (page) compared.push({ set, ...page });
    } catch (error) {
      if (!(values.all && values.diff)) throw error;
      compared.push({ set, problem: /** @type {Error} */ (error).message });
    }
  }
  if (!values.diff) return 0;
  const pages = compared.map((one) => ("page" in one ? one : { page: "", changed: true }));
  const { page, changed } = values.all
    ? pageOfAll(compared)
    : { page: pages.map(({ page }) => page).join(""), changed: pages.some(({ changed }) => changed) };
  write(page);
  return changed ? 1 : 0;

  /**
   * @template T
   * @param {SetName} set
   * @param {(path: string | undefined) => Promise<T>} use
   */
  async function withBinary(set, use) {
    if (!values.newest) return use(cliPath);
    const dir = mkdtempSync(join(tmpdir(), "dfp-newest-"));
    try {
      return await use(await install(set, dir));
    } finally {
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    }
  }
}

/**
 * Records a set, or holds it against its recordings.
 * @param {SetName} set
 * @param {string | undefined} cliPath
 * @param {{ only?: string | undefined, out: string, diff: boolean, write: (text: string) => void }} options
 */
async function takeIn(set, cliPath, { only: cases, out, diff, write }) {
  const asked = cases?.split(",");
  const only = asked?.filter((name) => name !== SENT_CASE);
  const found = await recordAll(set, cliPath, only, (name) => diff || write(`${set}/${name}\n`));
  const sent = !asked || asked.includes(SENT_CASE) ? await sentBy(set, cliPath) : undefined;
  const dir = join(out, set);
  const sentFile = out === FIXTURES ? join(SENT, `${set}.json`) : join(dir, "sent.json");
  if (!diff) {
    writeSet(dir, found, only === undefined);
    if (sent) {
      mkdirSync(dirname(sentFile), { recursive: true });
      writeFileSync(sentFile, `${JSON.stringify(sent, null, 1)}\n`);
      write(`${set}/${SENT_CASE}\n`);
    }
    return undefined;
  }
  const recorded = readSet(dir).filter(({ name }) => !only || only.includes(name));
  // One that was ended for its silence may only have been slow beside the others: it is asked again, with less beside it.
  const silent = found.filter(({ name, meta }) => meta.exit_code === null && endedByItself(recorded, name));
  const names = silent.map(({ name }) => name);
  const again = names.length === 0 ? [] : await recordAll(set, cliPath, names, () => {});
  return diffPage(
    set,
    recorded,
    found.map((one) => again.find(({ name }) => name === one.name) ?? one),
    only ? undefined : await optionsOf(set, cliPath),
    sent && existsSync(sentFile) ? diffSent(JSON.parse(readFileSync(sentFile, "utf8")), sent) : undefined,
  );
}

/**
 * @param {SetName} set
 * @param {string | undefined} cliPath
 */
async function sentBy(set, cliPath) {
  const cli = await recordable(set, cliPath);
  return recordSent(cli, await versionOf(cli.cliPath));
}

/**
 * What the options of a CLI are beside those that were decided about.
 * @param {SetName} set
 * @param {string | undefined} cliPath
 */
async function optionsOf(set, cliPath) {
  const cli = await recordable(set, cliPath);
  const found = { undecided: /** @type {string[][]} */ ([]), gone: /** @type {string[][]} */ ([]) };
  for (const surface of SURFACES.filter((one) => one.set === set)) {
    const { undecided, gone } = compare(surface, await published(surface, cli.cliPath));
    found.undecided.push(...undecided.map((name) => [name, surface.name]));
    found.gone.push(...gone.map((name) => [name, surface.name]));
  }
  return found;
}

/**
 * @param {Recording[]} recordings
 * @param {string} name
 */
const endedByItself = (recordings, name) => recordings.some((one) => one.name === name && one.meta.exit_code !== null);

/**
 * @template {import("node:util").ParseArgsConfig["options"]} T
 * @param {string[]} args
 * @param {T} options
 */
function parse(args, options) {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new Error(`${/** @type {Error} */ (error).message}\n${USAGE}`);
  }
}

/**
 * @param {SetName} set
 * @param {string | undefined} cliPath
 * @param {string[] | undefined} only
 * @param {(name: string) => void} tell
 * @returns {Promise<Recording[]>} in the order of their names
 */
export async function recordAll(set, cliPath, only, tell) {
  const cli = await recordable(set, cliPath);
  const version = await versionOf(cli.cliPath);
  const all = cases(cli.formats);
  const unknown = only?.filter((name) => !all.some((one) => one.name === name)) ?? [];
  if (unknown.length > 0) {
    throw new Error(`no such case: ${unknown.join(", ")}; there are ${all.map(({ name }) => name).join(", ")}`);
  }
  const asked = all.filter(({ name }) => !only || only.includes(name));
  /** @type {Recording[]} */
  const found = [];
  const work = async () => {
    for (let one = asked.shift(); one; one = asked.shift()) {
      found.push(await record(cli, version, one));
      tell(one.name);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** @param {string} cliPath */
async function versionOf(cliPath) {
  const { stdout } = await promisify(execFile)(cliPath, ["--version"], { timeout: 120_000 });
  const version = /\d+\.\d+(?:[\w.+-]*\w)?/.exec(stdout)?.[0];
  if (!version) throw new Error(`${cliPath} --version says no version: ${stdout}`);
  return version;
}

/**
 * @param {string} dir
 * @returns {Recording[]}
 */
export function readSet(dir) {
  if (!existsSync(dir)) return [];
  const names = readdirSync(dir).flatMap((file) => /^(.*)\.meta\.json$/.exec(file)?.[1] ?? []);
  return names.sort().map((name) => {
    /** @type {(kind: string) => string} */
    const read = (kind) => {
      const file = join(dir, `${name}.${kind}`);
      return existsSync(file) ? readFileSync(file, "utf8") : "";
    };
    return { name, meta: JSON.parse(read("meta.json")), stdout: read("stdout"), stderr: read("stderr") };
  });
}

/**
 * @param {string} dir
 * @param {Recording[]} recordings
 * @param {boolean} whole whether they are all there is to be: other files go
 */
function writeSet(dir, recordings, whole) {
  if (whole) rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  for (const { name, meta, stdout, stderr } of recordings) {
    const put = (/** @type {string} */ kind, /** @type {string} */ text) => {
      const file = join(dir, `${name}.${kind}`);
      if (text === "") rmSync(file, { force: true });
      else writeFileSync(file, text);
    };
    put("meta.json", `${JSON.stringify(meta, null, 1)}\n`);
    put("stdout", stdout);
    put("stderr", stderr);
  }
}

await runMain(import.meta.url, async () => {
  process.exitCode = await main(process.argv.slice(2));
});
