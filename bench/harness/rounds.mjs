// @ts-check
/**
 * In: a bench. Out: its result: every contender measured once per round, in turns, in processes that do nothing else.
 *
 * The order turns by one from round to round, so that nobody always follows the same neighbour.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Look } from "./bench.mjs";
import { ratio, spread } from "./stats.mjs";

/** @typedef {import("./bench.mjs").Bench} Bench */
/** @typedef {import("./bench.mjs").Figures} Figures */

const WORKER = fileURLToPath(new URL("./worker.mjs", import.meta.url));

/**
 * @param {string} name
 * @param {Bench} bench
 * @param {{ quick: boolean, rounds?: number | undefined, log: (line: string) => void }} options `rounds`: instead of the bench's own
 * @returns {Promise<import("./bench.mjs").BenchResult>}
 */
export async function runBench(name, bench, { quick, rounds = bench.rounds[quick ? "quick" : "full"], log }) {
  const cases = [];
  for (const of of bench.cases({ quick })) {
    const contenders = Object.entries(bench.contenders).filter(([, { skip }]) => !skip?.(of));
    const names = contenders.map(([contender]) => contender);
    log(`${name}: ${of.name}: ${names.join(", ")}`);
    const samples = await runCase({ bench: name, of, quick }, names, rounds, bench.fresh ?? false);
    const ours = samples.get(names[0] ?? "") ?? [];
    const results = contenders.map(([contender, { title, kind }]) => {
      const own = samples.get(contender) ?? [];
      const keys = Object.keys(bench.figures).filter((key) => own.every((figures) => key in figures));
      const column = (/** @type {Figures[]} */ of, /** @type {string} */ key) => of.map((figures) => figures[key] ?? 0);
      const figures = Object.fromEntries(keys.map((key) => [key, spread(column(own, key))]));
      const shared = keys.filter((key) => ours.every((figures) => key in figures));
      const all = shared.map((key) => /** @type {const} */ ([key, ratio(column(own, key), column(ours, key))]));
      // Ours may have taken nothing: then there is no ratio.
      const ratios = Object.fromEntries(all.filter(([, times]) => Number.isFinite(times)));
      return { name: contender, title, kind, figures, ratios };
    });
    cases.push({ name: of.name, contenders: results });
  }
  const { title, about, main, figures } = bench;
  return { name, title, about, main, figures, rounds, cases, goals: bench.goals(new Look(cases)) };
}

/**
 * @param {Omit<import("./worker.mjs").Task, "contender">} task
 * @param {string[]} names
 * @param {number} rounds
 * @param {boolean} fresh
 * @returns {Promise<Map<string, Figures[]>>}
 */
async function runCase(task, names, rounds, fresh) {
  /** @type {Map<string, Figures[]>} */
  const samples = new Map(names.map((name) => [name, []]));
  let worker = fresh ? undefined : startWorker();
  try {
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < names.length; turn++) {
        const contender = names[(turn + round) % names.length] ?? "";
        worker ??= startWorker();
        samples.get(contender)?.push(await worker.measure({ ...task, contender }));
        if (fresh) {
          await worker.end();
          worker = undefined;
        }
      }
    }
  } finally {
    await worker?.end();
  }
  return samples;
}

function startWorker() {
  const child = fork(WORKER, [], { execArgv: ["--expose-gc"] });
  const exited = once(child, "exit");
  return {
    /**
     * @param {import("./worker.mjs").Task} task
     * @returns {Promise<Figures>}
     */
    async measure(task) {
      child.send(task);
      const gone = exited.then(([code, signal]) => [{ error: `the process ended with ${signal ?? code}` }]);
      /** @type {import("./worker.mjs").Answer[]} */
      const [answer] = await Promise.race([once(child, "message"), gone]);
      if (!answer || "error" in answer) {
        throw new Error(`${task.bench}, ${task.of.name}, ${task.contender}: ${answer?.error}`);
      }
      return answer.figures;
    },
    async end() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}
