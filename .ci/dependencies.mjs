// @ts-check
/**
 * `npm run test:dependencies`: what the addon is made of may be shipped, and is in it once.
 *
 * In flow `cargo metadata` and dependencies.json. Out flows what disagrees: a crate whose license is not on the list, a crate that
 * is linked in two versions, and an entry of the list that nothing needs any more. Only what is linked counts, for every platform:
 * no development dependencies. The lock of the fuzzing program (`tests/fuzz`) has to name the same crates. Needs no network.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PrepareError, ROOT, runMain } from "./prepare.mjs";

/**
 * @typedef {{ id: string, name: string, version: string, license: string | null }} Crate
 * @typedef {{ id: string, deps: { pkg: string, dep_kinds: { kind: string | null }[] }[] }} Node
 * @typedef {{ packages: Crate[], resolve: { root: string, nodes: Node[] } }} Metadata
 */

/**
 * Whether an SPDX expression can be met by licenses of the list: one of those joined by OR, all of those joined by AND.
 * @param {string} expression
 * @param {readonly string[]} allowed
 * @returns {boolean}
 */
export function isAllowed(expression, allowed) {
  // `MIT/Apache-2.0` is how crates wrote OR once.
  const words = expression
    .replaceAll("/", " OR ")
    .replaceAll(/([()])/g, " $1 ")
    .trim()
    .split(/\s+/);
  let at = 0;
  /** @returns {boolean} */
  const single = () => {
    if (words[at] === "(") {
      at++;
      const inner = either();
      at++;
      return inner;
    }
    const name = words[at++] ?? "";
    if (words[at] !== "WITH") return allowed.includes(name);
    at += 2;
    // An exception only permits more.
    return allowed.includes(`${name} WITH ${words[at - 1]}`) || allowed.includes(name);
  };
  const both = () => {
    let met = single();
    while (words[at] === "AND") {
      at++;
      met = single() && met;
    }
    return met;
  };
  const either = () => {
    let met = both();
    while (words[at] === "OR") {
      at++;
      met = both() || met;
    }
    return met;
  };
  return either() && at >= words.length;
}

/**
 * The crates that are linked into the addon.
 * @param {Metadata} metadata
 * @returns {Crate[]}
 */
export function linked({ packages, resolve }) {
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const seen = new Set([resolve.root]);
  for (const id of seen) {
    for (const { pkg, dep_kinds } of nodes.get(id)?.deps ?? []) {
      if (dep_kinds.some(({ kind }) => kind === null)) seen.add(pkg);
    }
  }
  seen.delete(resolve.root);
  return packages.filter(({ id }) => seen.has(id));
}

/**
 * @param {readonly Crate[]} crates
 * @param {{ licenses: Record<string, string>, duplicates: Record<string, string> }} rules each with a word on why
 * @returns {string[]}
 */
export function disagreements(crates, { licenses, duplicates }) {
  const found = crates.flatMap(({ name, version, license }) =>
    license && isAllowed(license, Object.keys(licenses))
      ? []
      : [`${name} ${version} has the license ${license ?? "(none)"}`],
  );
  const versions = grouped(crates);
  for (const [name, of] of versions) {
    if (of.length > 1 && !Object.hasOwn(duplicates, name)) {
      found.push(`${name} is linked in ${of.length} versions: ${of.map(({ version }) => version).join(", ")}`);
    }
  }
  for (const name of Object.keys(duplicates)) {
    if ((versions.get(name)?.length ?? 0) < 2) found.push(`${name} is no duplicate any more: take it off the list`);
  }
  return found;
}

/**
 * What the lock of another program that is made of ours says otherwise.
 * @param {string} lock its text
 * @param {readonly Crate[]} crates what is linked into ours
 * @param {{ own: string, extra: readonly string[], tests?: readonly string[] }} of `own`: our lock's text; `extra`: what only the other
 *   program needs; `tests`: what a linked crate needs only beside our tests, for cargo's metadata joins the features of both
 * @returns {string[]}
 */
export function strays(lock, crates, { own, extra, tests = [] }) {
  const entry = /^name = "(.+)"\nversion = "(.+)"$/gm;
  const named = (/** @type {string} */ text) =>
    new Set([...text.matchAll(entry)].map((match) => `${match[1]} ${match[2]}`));
  const [theirs, ours] = [named(lock), named(own)];
  const needed = crates.filter(({ name }) => !tests.includes(name));
  const lacks = needed.map(({ name, version }) => `${name} ${version}`).filter((crate) => !theirs.has(crate));
  const has = [...theirs].filter((crate) => !ours.has(crate) && !extra.includes(crate.replace(/ .*/, "")));
  return [...lacks.map((crate) => `lacks ${crate}`), ...has.map((crate) => `names ${crate}, which is not ours`)];
}

/** @param {readonly Crate[]} crates */
function grouped(crates) {
  /** @type {Map<string, Crate[]>} */
  const groups = new Map();
  for (const crate of crates) groups.set(crate.name, [...(groups.get(crate.name) ?? []), crate]);
  return groups;
}

await runMain(import.meta.url, async () => {
  const args = ["metadata", "--format-version", "1", "--locked"];
  const text = execFileSync("cargo", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 28 });
  const crates = linked(JSON.parse(text));
  const read = (/** @type {string} */ file) => readFileSync(join(ROOT, file), "utf8");
  const rules = JSON.parse(read(".ci/dependencies.json"));
  const of = { own: read("Cargo.lock"), extra: Object.keys(rules.fuzz), tests: Object.keys(rules.tests) };
  const stale = strays(read("tests/fuzz/Cargo.lock"), crates, of).map((line) => `tests/fuzz/Cargo.lock ${line}`);
  if (stale.length > 0) stale.push("`cargo update --workspace` in tests/fuzz brings its lock up to date");
  const found = [...disagreements(crates, rules), ...stale];
  if (found.length > 0) throw new PrepareError(found.join("\n"));
  console.log(`${crates.length} crates, all of them under licenses of the list, none twice without being on it`);
});
