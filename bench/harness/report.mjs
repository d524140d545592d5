// @ts-check
/** In: the outcome of a run. Out: Markdown. */

/** @typedef {import("./bench.mjs").BenchResult} BenchResult */
/** @typedef {import("./bench.mjs").Unit} Unit */
/**
 * @typedef {object} Outcome
 * @property {boolean} quick
 * @property {import("./machine.mjs").Machine} machine
 * @property {Record<string, string>} versions
 * @property {BenchResult[]} benches
 */

/** @param {Outcome} outcome */
export function markdown(outcome) {
  const sections = outcome.benches.map((bench) => `## ${bench.name}: ${bench.title}\n\n${section(bench)}`);
  return `${["# Benches", setting(outcome), ...sections].join("\n\n")}\n`;
}

/** The machine and the versions. @param {Outcome} outcome */
export function setting({ quick, machine, versions }) {
  const { cpu, cores, memoryGB, kernel, node } = machine;
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    ...(quick ? ["- a quick run: the figures mean nothing"] : []),
    `- ${cpu}, ${cores} cores, ${memoryGB} GB, ${kernel}`,
    `- Node ${node.replace(/^v/, "")}, ${named.join(", ")}`,
  ].join("\n");
}

/** One bench: how, its tables, its goals. @param {BenchResult} bench */
export function section(bench) {
  const rounds = bench.rounds === 1 ? "One round" : `Medians of ${bench.rounds} interleaved rounds`;
  const when = [bench, ...bench.cases].map((part, index) => {
    const of = index === 0 ? "" : `${part.name}: `;
    return part.date && part.load !== undefined ? `; ${of}${part.date.slice(0, 10)}, load ${part.load.toFixed(1)}` : "";
  });
  const versions = Object.entries(bench.versions ?? {}).map(([name, version]) => `; ${name} ${version}`);
  const note = `${bench.about} ${rounds}, × is the median of the rounds' ratios to ours${[...when, ...versions].join("")}.`;
  const goals = bench.goals.map(
    ({ text, met, measured }) =>
      `- ${met === null ? "not measured" : met ? "met" : "**missed**"}: ${text} (${measured})`,
  );
  return [note, table(bench), ...(goals.length ? [`Goals:\n\n${goals.join("\n")}`] : [])].join("\n\n");
}

/** @param {BenchResult} bench */
function table({ cases, figures, main }) {
  const several = cases.length > 1;
  const keys = Object.keys(figures).filter((key) =>
    cases.some(({ contenders }) => contenders.some((contender) => key in contender.figures)),
  );
  const heads = keys.map((key) => heading(figures[key]));
  const at = keys.indexOf(main) + 1;
  const head = [...(several ? ["case"] : []), "", ...heads.toSpliced(at, 0, "×")];
  const rows = cases.flatMap(({ name, contenders }) =>
    contenders.map((contender, index) => {
      const cells = keys.map((key) => shown(contender.figures[key]?.median, figures[key]?.unit ?? "count"));
      const ratio = contender.ratios[main];
      const times = ratio === undefined ? "" : factor(ratio);
      const title = contender.kind === "ours" ? `**${contender.title}**` : contender.title;
      return [...(several ? [index === 0 ? name : ""] : []), title, ...cells.toSpliced(at, 0, times)];
    }),
  );
  return aligned(head, rows, several ? 2 : 1);
}

/** @param {import("./bench.mjs").Figure | undefined} figure */
function heading(figure) {
  if (!figure) return "";
  return figure.unit === "count" ? figure.title : `${figure.title}, ${figure.unit}`;
}

/**
 * @param {string[]} head
 * @param {string[][]} rows
 * @param {number} texts how many columns are text
 */
export function aligned(head, rows, texts) {
  const widths = head.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (/** @type {string[]} */ cells) =>
    `| ${cells.map((cell, column) => (column < texts ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const rule = widths.map((width, column) => (column < texts ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [line(head), line(rule), ...rows.map(line)].join("\n");
}

/** @param {number} ratio */
export function factor(ratio) {
  return ratio < 0.095 ? ratio.toPrecision(1) : digits(ratio);
}

/**
 * Three digits that count, none after the point where there are that many before it.
 * @param {number | undefined} value
 * @param {Unit} unit
 */
export function shown(value, unit) {
  if (value === undefined) return "";
  return unit === "count" || unit === "bytes" ? Math.round(value).toLocaleString("en") : digits(value);
}

/** @param {number} value */
function digits(value) {
  const size = Math.abs(value);
  const places = size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}
