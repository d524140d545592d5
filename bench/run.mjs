// @ts-check
/**
 * `npm run bench [-- name… --quick --json file --markdown file]`: what this package costs, beside what people use otherwise.
 *
 * In flow names of benches (all, if none is named); out flows Markdown, and JSON with every sample. Offline: a compiled fake
 * CLI, or the real claude CLI with a scripted API. `--quick` makes every bench as small as it can be: it shows that they run;
 * `--rounds n` is fewer or more rounds than the bench's own; `--case name` measures one case of a bench whose others the outcome has.
 *
 * Needs the addon (`npm run build`), cargo for the fake CLI, and at the first run npm for the packages to compare with.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { Look, loadBench, NAMES } from "./harness/bench.mjs";
import { machine, versions } from "./harness/machine.mjs";
import { installPeers } from "./harness/peers.mjs";
import { markdown, section } from "./harness/report.mjs";
import { runBench } from "./harness/rounds.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    case: { type: "string" },
    json: { type: "string" },
    markdown: { type: "string" },
  },
});
const unknown = positionals.filter((name) => !NAMES.includes(name));
if (unknown.length > 0) {
  console.error(`there is no bench ${unknown.join(", ")}; there are ${NAMES.join(", ")}`);
  process.exit(2);
}

const { quick } = values;
const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0)) {
  console.error("--rounds must be a whole number from 1");
  process.exit(2);
}
const wanted = positionals.length === 0 ? NAMES : NAMES.filter((name) => positionals.includes(name));
/** @type {import("./harness/report.mjs").Outcome} */
const outcome = { quick, machine: machine(), versions: versions(), benches: [], ...earlier() };
const different = Object.entries(versions()).filter(([name, version]) => outcome.versions[name] !== version);
const differing = different.length > 0 ? { versions: Object.fromEntries(different) } : {};
for (const name of wanted) {
  const bench = await loadBench(name);
  if (bench.peers) installPeers();
  const date = new Date().toISOString();
  const load = loadavg()[0] ?? 0;
  const log = (/** @type {string} */ line) => console.error(line);
  const result = values.case
    ? await runCaseOf(name, bench, { date, load })
    : { ...(await runBench(name, bench, { quick, rounds, log })), date, load, ...differing };
  outcome.benches = NAMES.flatMap((each) =>
    each === name ? [result] : outcome.benches.filter((known) => known.name === each),
  );
  console.log(`\n## ${name}: ${result.title}\n\n${section(result)}`);
  // After each, so that a run that is broken off leaves what it has.
  if (values.json) writeFileSync(values.json, `${JSON.stringify(outcome)}\n`);
  if (values.markdown) writeFileSync(values.markdown, markdown(outcome));
}

/**
 * The outcome that is there of a bench, with the case that was asked for measured anew, as often as the others were.
 * @param {string} name
 * @param {import("./harness/bench.mjs").Bench} bench
 * @param {{ date: string, load: number }} when
 */
async function runCaseOf(name, bench, when) {
  const known = outcome.benches.find((each) => each.name === name);
  const cases = bench.cases({ quick });
  if (!known || !cases.some((of) => of.name === values.case)) throw new Error(`no outcome of ${name}, or no such case`);
  const alone = { ...bench, cases: () => cases.filter((of) => of.name === values.case) };
  const result = await runBench(name, alone, { quick, rounds: known.rounds, log: console.error });
  const measured = [...known.cases.filter((of) => of.name !== values.case), { ...result.cases[0], ...when }];
  const ordered = cases.flatMap((of) => measured.find((each) => each.name === of.name) ?? []);
  return { ...known, ...result, cases: ordered, goals: bench.goals(new Look(ordered)) };
}

/** Where only some benches run, the others of an outcome that is there stay, with the versions they were run with. */
function earlier() {
  if (!values.json || positionals.length === 0 || !existsSync(values.json)) return {};
  /** @type {import("./harness/report.mjs").Outcome} */
  const known = JSON.parse(readFileSync(values.json, "utf8"));
  return known.quick === quick ? { versions: known.versions, benches: known.benches } : {};
}
