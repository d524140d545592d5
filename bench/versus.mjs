// @ts-check
/**
 * `node bench/versus.mjs OLD_TREE [NAME…] [--rounds N]`: another build of this package, and this one, in alternation.
 *
 * In flow the folder of the other tree and names of {@link ROWS} (all, if none is named); out flows a Markdown table: the medians of both, and
 * the median of the rounds' ratios, new to old. Each tree runs its own benches with its own addon, in processes of its own; what a tree
 * doesn't have is said to be not there. Needs both addons (`npm run build`), and the packages that the benches compare with.
 */
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { machine, versions } from "./harness/machine.mjs";
import { aligned, factor, shown } from "./harness/report.mjs";
import { median, ratio } from "./harness/stats.mjs";

/** @typedef {import("./harness/bench.mjs").Unit} Unit */
/** @typedef {import("./harness/bench.mjs").Figures} Figures */
/**
 * What is measured once per round and tree: contenders of a case, whose figures become values of the table.
 * @typedef {object} Row
 * @property {string} bench
 * @property {string} of the case
 * @property {string[]} contenders
 * @property {{ title: string, unit: Unit, value: (figures: Record<string, Figures>) => number | undefined }[]} values
 * @property {number} [rounds] at most so many, where one takes long
 */

/**
 * A value that is one figure of one contender.
 * @param {string} title @param {Unit} unit @param {string} contender @param {string} name
 * @returns {Row["values"][number]}
 */
const figure = (title, unit, contender, name) => ({ title, unit, value: (of) => of[contender]?.[name] });

/** @param {string} of @returns {Row} */
const steps = (of) => ({
  bench: "steps",
  of,
  contenders: ["growing", "growingPrint"],
  values: [
    figure("kept: Node's thread, last step", "ms", "growing", "last"),
    figure("print: Node's thread, last step", "ms", "growingPrint", "last"),
  ],
});
/** @param {string} of @returns {Row} */
const decode = (of) => ({
  bench: "decode",
  of,
  contenders: ["ours", "stream"],
  values: [
    figure("speed", "MB/s", "ours", "speed"),
    figure("per core", "MB/s", "ours", "perCore"),
    figure("every event, per core", "MB/s", "stream", "perCore"),
  ],
});

/** @type {Record<string, Row[]>} */
const ROWS = {
  loop: [
    {
      bench: "loop",
      of: "loop",
      contenders: ["live", "print"],
      values: [
        figure("kept: a later step until the API", "ms", "live", "later"),
        figure("kept: ten steps", "ms", "live", "total"),
        figure("print: a later step until the API", "ms", "print", "later"),
        figure("print: ten steps", "ms", "print", "total"),
      ],
    },
  ],
  steps: [steps("200 × 5 KB"), steps("50 × 100 KB")],
  decode: [decode("tool results"), decode("one long answer in pieces")],
  gateway: [
    {
      bench: "gateway",
      of: "ten steps",
      contenders: ["gateway", "direct"],
      values: [
        figure("a step until the API", "ms", "gateway", "step"),
        {
          title: "behind the provider itself",
          unit: "ms",
          value: ({ gateway, direct }) => (gateway?.step ?? Number.NaN) - (direct?.step ?? Number.NaN),
        },
      ],
    },
  ],
  import: [
    {
      bench: "load",
      of: "import",
      contenders: ["ours", "floor"],
      values: [
        figure("native entry", "ms", "ours", "load"),
        figure("native entry, memory", "MB", "ours", "rss"),
        figure("the addon alone", "ms", "floor", "load"),
        figure("the addon on the disk", "MB", "floor", "disk"),
      ],
    },
  ],
  memory: [
    {
      bench: "runs",
      of: "runs",
      contenders: ["ours"],
      rounds: 2,
      values: [
        figure("behind 1,000 calls", "MB", "ours", "early"),
        figure("behind 10,000 calls", "MB", "ours", "late"),
        figure("per call, eight at a time", "ms", "ours", "each"),
      ],
    },
  ],
};

const SIDES = /** @type {const} */ (["old", "new"]);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "5" } },
});
const [old, ...asked] = positionals;
const unknown = asked.filter((name) => !(name in ROWS));
const rounds = Number(values.rounds);
if (old === undefined || unknown.length > 0 || !(Number.isInteger(rounds) && rounds > 0)) {
  console.error(`node bench/versus.mjs OLD_TREE [${Object.keys(ROWS).join("|")}…] [--rounds N]`);
  process.exit(2);
}

const trees = { old: await open(resolve(old)), new: await open(fileURLToPath(new URL("..", import.meta.url))) };
/** @typedef {{ old: number[], new: number[] }} Samples by the tree, a value per round */
/** @type {{ name: string, title: string, unit: Unit, samples: Samples }[]} */
const outcome = [];
const loads = [];
for (const name of Object.keys(ROWS).filter((name) => asked.length === 0 || asked.includes(name))) {
  for (const row of ROWS[name] ?? []) {
    const title = (ROWS[name] ?? []).length > 1 ? `${row.of}: ` : "";
    /** @type {{ old: Record<string, Figures>[], new: Record<string, Figures>[] }} */
    const measured = { old: [], new: [] };
    for (let round = 0; round < Math.min(rounds, row.rounds ?? rounds); round++) {
      console.error(`${name}: ${row.of}: round ${round + 1}`);
      for (const side of round % 2 === 0 ? SIDES : SIDES.toReversed()) {
        const figures = await trees[side](row);
        if (figures) measured[side].push(figures);
      }
      loads.push(loadavg()[0] ?? 0);
    }
    for (const { title: what, unit, value } of row.values) {
      const column = (/** @type {Record<string, Figures>[]} */ of) =>
        of.map(value).filter((one) => one !== undefined && Number.isFinite(one));
      const samples = /** @type {Samples} */ ({ old: column(measured.old), new: column(measured.new) });
      outcome.push({ name, title: `${title}${what}`, unit, samples });
    }
  }
}

const cell = (/** @type {number[]} */ samples, /** @type {Unit} */ unit) =>
  samples.length > 0 ? shown(median(samples), unit) : "not there";
const lines = outcome.map(({ name, title, unit, samples }) => {
  const paired =
    samples.old.length > 0 && samples.old.length === samples.new.length && samples.old.every((one) => one > 0);
  const times = paired ? factor(ratio(samples.new, samples.old)) : "";
  return [name, `${title}, ${unit}`, cell(samples.old, unit), cell(samples.new, unit), times];
});
const { cpu, cores, kernel, node } = machine();
const { claude, rustc } = versions();
console.log(
  `${new Date().toISOString().slice(0, 10)}, load ${median(loads).toFixed(1)} (${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)}); ${cpu}, ${cores} cores, ${kernel}; Node ${node.replace(/^v/, "")}, claude ${claude}, rustc ${rustc}; medians of ${rounds} rounds.\n`,
);
console.log(aligned(["bench", "", "old", "new", "new / old"], lines, 2));

/**
 * Who measures a row once by the benches of the tree in `folder`: the figures of the contenders, or `undefined` where that bench isn't there.
 * @param {string} folder
 */
async function open(folder) {
  const at = (/** @type {string} */ path) => import(pathToFileURL(join(folder, "bench/harness", path)).href);
  const [{ NAMES, loadBench }, { runBench }, { installPeers }] = [
    await at("bench.mjs"),
    await at("rounds.mjs"),
    await at("peers.mjs"),
  ];
  return async (/** @type {Row} */ { bench: name, of, contenders }) => {
    if (!NAMES.includes(name)) return undefined;
    /** @type {import("./harness/bench.mjs").Bench} */
    const bench = await loadBench(name);
    const cases = bench.cases({ quick: false }).filter((one) => one.name === of);
    const wanted = contenders.flatMap((one) => (bench.contenders[one] ? [[one, bench.contenders[one]]] : []));
    if (cases.length === 0 || wanted.length === 0) return undefined;
    if (name === "gateway") installPeers();
    const alone = { ...bench, cases: () => cases, contenders: Object.fromEntries(wanted), goals: () => [] };
    const result = await runBench(name, alone, { quick: false, rounds: 1, log: () => {} });
    return Object.fromEntries(
      result.cases[0].contenders.map((/** @type {import("./harness/bench.mjs").ContenderResult} */ contender) => [
        contender.name,
        Object.fromEntries(Object.entries(contender.figures).map(([key, { median }]) => [key, median])),
      ]),
    );
  };
}
