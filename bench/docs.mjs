// @ts-check
/**
 * `node bench/docs.mjs [--check]`: the tables of bench/RESULTS.md, out of what is kept.
 *
 * In flow `bench/results/full.json` and `fleet-simulation.json`; out flow the documents, where whatever stands between `<!-- bench:name -->` and
 * `<!-- /bench -->` is written anew. `--check` writes nothing and fails if that would change anything.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { runMain } from "../.ci/prepare.mjs";
import { simulationTable } from "./fleet-simulation.mjs";
import { section, setting } from "./harness/report.mjs";
import { whichEngine } from "./harness/which-engine.mjs";

const RESULTS = new URL("results/full.json", import.meta.url);
const DOCUMENTS = ["bench/RESULTS.md"];

/** What is no bench's own. @type {Record<string, (outcome: import("./harness/report.mjs").Outcome) => string>} */
const OTHERS = { setting, whichEngine, simulation: simulationTable };

/**
 * @param {string} document
 * @param {import("./harness/report.mjs").Outcome} outcome
 */
export function rewrite(document, outcome) {
  return document.replace(/<!-- bench:(\w+) -->[\s\S]*?<!-- \/bench -->/g, (_, name) => {
    const bench = outcome.benches.find((each) => each.name === name);
    const text = bench ? section(bench) : OTHERS[name]?.(outcome);
    if (text === undefined) throw new Error(`bench/results/full.json has no bench ${name}`);
    return `<!-- bench:${name} -->\n\n${text}\n\n<!-- /bench -->`;
  });
}

await runMain(import.meta.url, async () => {
  const outcome = JSON.parse(readFileSync(RESULTS, "utf8"));
  for (const path of DOCUMENTS) {
    const file = new URL(`../${path}`, import.meta.url);
    const document = readFileSync(file, "utf8");
    const written = rewrite(document, outcome);
    if (!process.argv.includes("--check")) writeFileSync(file, written);
    else if (written !== document) {
      console.error(`${path} does not say what bench/results/full.json says: run \`node bench/docs.mjs\``);
      process.exitCode = 1;
    }
  }
});
