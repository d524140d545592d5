// @ts-check
/**
 * What a bench is: a module of `bench/benches/` that says what is measured, in which cases, and of whom.
 *
 * Every contender does the same job in the same run; the `floor` is the least that job can cost: the bare program, driven by
 * hand. `measure` is called once per round; in between the others have their turn.
 */

/** @typedef {"ours" | "plain" | "peer" | "floor"} Kind plain: Node and a spawn library; peer: another package for the same job */
/** @typedef {"ms" | "µs" | "MB" | "MB/s" | "kB" | "bytes" | "%" | "count"} Unit MB is 2^20 bytes, kB 2^10 */
/** @typedef {Record<string, number>} Figures by the keys of `figures`; one that does not apply is left out */
/** @typedef {{ title: string, unit: Unit }} Figure */
/** @typedef {{ name: string, [parameter: string]: any }} Case */
/**
 * @typedef {object} Context what a measuring process is told
 * @property {boolean} quick
 * @property {(name: string) => Promise<any>} peer a package of bench/peers/package.json, imported
 */
/** @typedef {{ measure: () => Figures | Promise<Figures>, close?: () => unknown }} Prepared */
/**
 * @typedef {object} Contender
 * @property {string} title
 * @property {Kind} kind
 * @property {(of: Case, context: Context) => Prepared | Promise<Prepared>} prepare once per process
 * @property {(of: Case) => boolean} [skip] a case that is not for it
 */
/** @typedef {{ median: number, min: number, max: number, samples: number[] }} Spread */
/**
 * @typedef {object} ContenderResult
 * @property {string} name
 * @property {string} title
 * @property {Kind} kind
 * @property {Record<string, Spread>} figures
 * @property {Record<string, number>} ratios to the first of our own contenders: the median of the rounds' ratios
 */
/**
 * `date` and `load`: of a case that was measured by itself, later than the others.
 * @typedef {{ name: string, contenders: ContenderResult[], date?: string, load?: number }} CaseResult
 */
/** @typedef {{ text: string, met: boolean | null, measured: string }} Verdict `null`: not to be told from this run */
/**
 * @typedef {object} BenchResult
 * @property {string} name
 * @property {string} title
 * @property {string} about
 * @property {string} main
 * @property {Record<string, Figure>} figures
 * @property {number} rounds
 * @property {CaseResult[]} cases
 * @property {Verdict[]} goals
 * @property {string} [date] when it ran, ISO 8601
 * @property {number} [load] what else the machine did then: 0 is an idle one
 * @property {Record<string, string>} [versions] those that differ from the outcome's, of a bench that was run later than the others
 */
/**
 * @typedef {object} Bench
 * @property {string} title
 * @property {string} about how it is measured, for the report
 * @property {Record<string, Figure>} figures
 * @property {string} main the figure whose ratios are shown
 * @property {(context: { quick: boolean }) => Case[]} cases
 * @property {Record<string, Contender>} contenders ours first
 * @property {boolean} [fresh] each measurement in a process of its own
 * @property {{ full: number, quick: number }} rounds
 * @property {string[]} [peers] packages of bench/peers/package.json it needs
 * @property {(result: Look) => Verdict[]} goals
 */

/** The benches in the order they run in; each is the module of that name. */
export const NAMES = Object.freeze([
  "start",
  "concurrent",
  "overhead",
  "prompts",
  "decode",
  "request",
  "restore",
  "cache",
  "loop",
  "steps",
  "engines",
  "conversations",
  "frameworks",
  "load",
  "gateway",
  "runs",
]);

/**
 * @param {string} name
 * @returns {Promise<Bench>}
 */
export async function loadBench(name) {
  return (await import(`../benches/${name}.mjs`)).default;
}

/** Looks figures up in a result, for the goals. */
export class Look {
  /** @param {CaseResult[]} cases */
  constructor(cases) {
    this.cases = cases;
  }

  /**
   * The median of a figure; `NaN` where it was not measured, of which nothing is true.
   * @param {string} of the case
   * @param {string} contender
   * @param {string} figure
   */
  median(of, contender, figure) {
    return this.#find(of, contender)?.figures[figure]?.median ?? Number.NaN;
  }

  /** @param {string} of @param {string} contender @param {string} figure */
  max(of, contender, figure) {
    return this.#find(of, contender)?.figures[figure]?.max ?? Number.NaN;
  }

  /**
   * How many times a contender's figure is ours, by rounds.
   * @param {string} of
   * @param {string} contender
   * @param {string} figure
   */
  ratio(of, contender, figure) {
    return this.#find(of, contender)?.ratios[figure] ?? Number.NaN;
  }

  /** @param {string} of @param {string} contender */
  #find(of, contender) {
    return this.cases.find(({ name }) => name === of)?.contenders.find(({ name }) => name === contender);
  }
}

/**
 * A goal and whether it is met; one whose figures were not measured is neither.
 * @param {string} text
 * @param {number} value
 * @param {(value: number) => boolean} holds
 * @param {(value: number) => string} said
 * @returns {Verdict}
 */
export function goal(text, value, holds, said) {
  return Number.isNaN(value)
    ? { text, met: null, measured: "not measured" }
    : { text, met: holds(value), measured: said(value) };
}
