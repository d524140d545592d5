// @ts-check
/**
 * `node bench/docs.mjs [--check]`: the tables of docs/performance.md, out of the full run that is kept.
 *
 * In flows `bench/results/full.json`; out flows the document, where whatever stands between `<!-- bench:name -->` and
 * `<!-- /bench -->` is written anew. `--check` writes nothing and fails if that would change anything.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { runMain } from "../.ci/prepare.mjs";
import { section, setting } from "./harness/report.mjs";

const RESULTS = new URL("results/full.json", import.meta.url);
const DOCUMENT = new URL("../docs/performance.md", import.meta.url);

/**
 * @param {string} document
 * @param {import("./harness/report.mjs").Outcome} outcome
 */
export function rewrite(document, outcome) {
  return document.replace(/<!-- bench:(\w+) -->[\s\S]*?<!-- \/bench -->/g, (_, name) => {
    const bench = outcome.benches.find((each) => each.name === name);
    if (!bench && name !== "setting") throw new Error(`bench/results/full.json has no bench ${name}`);
    const text = bench ? section(bench) : setting(outcome);
    return `<!-- bench:${name} -->\n\n${text}\n\n<!-- /bench -->`;
  });
}

await runMain(import.meta.url, async () => {
  const document = readFileSync(DOCUMENT, "utf8");
  const written = rewrite(document, JSON.parse(readFileSync(RESULTS, "utf8")));
  if (!process.argv.includes("--check")) writeFileSync(DOCUMENT, written);
  else if (written !== document) {
    console.error("docs/performance.md does not say what bench/results/full.json says: run `node bench/docs.mjs`");
    process.exitCode = 1;
  }
});
