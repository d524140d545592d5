// @ts-check
/**
 * `node bench/fleet-simulation.mjs [--json FILE]`: a fleet of 50 workers and 10,000 runs, simulated: how long it takes and how many turns
 * are paid for nothing, with checkpoints and without.
 *
 * In flow assumptions (bench/RESULTS.md names them) and a seed; out flow figures, the same for the same seed. No process is started and no
 * time passes: a queue of events has the next crash, the next end of a turn and the next window of the plan.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { runMain } from "../.ci/prepare.mjs";

/**
 * Times in seconds of the simulated world.
 * @typedef {object} Fleet
 * @property {number} runs
 * @property {number} workers each with one run at a time
 * @property {number} turns a run has on the average: from half of it to one and a half
 * @property {number} crashes seconds between two crashes of a worker, on the average; 0: none
 * @property {number} plan turns that the plan allows in a window; 0: any number
 * @property {number} seed
 *
 * @typedef {object} Figures
 * @property {number} makespan seconds until the last run was over
 * @property {number} paid turns that the model was asked for
 * @property {number} wasted of these, those that no result has come of
 * @property {number} finished runs
 */

/** A turn with its tools: from half of it to one and a half, seconds. */
export const TURN = 15;
/** A worker that has crashed is back after this, seconds. */
export const RESTART = 30;
/** A run whose worker has crashed is another's when its lease has run out, seconds. */
export const LEASE = 30;
/** How long a window of the plan is, seconds. */
export const WINDOW = 5 * 3600;

const SETTING = { runs: 10_000, workers: 50, seed: 1 };
/** 12 turns take 3 minutes, 60 take 15. */
const CASES = [
  { turns: 12, crashes: 0, plan: 0 },
  { turns: 12, crashes: 3600, plan: 0 },
  { turns: 12, crashes: 600, plan: 0 },
  { turns: 60, crashes: 3600, plan: 0 },
  { turns: 60, crashes: 900, plan: 0 },
  { turns: 60, crashes: 0, plan: 50_000 },
  { turns: 60, crashes: 3600, plan: 50_000 },
];

/**
 * A number from 0 to 1 that depends on what it is of, and on nothing that was drawn before.
 * @param {...number} of
 */
function draw(...of) {
  let hash = 0x9e3779b9;
  for (const part of of) {
    hash = Math.imul(hash ^ (part | 0), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return (hash >>> 0) / 2 ** 32;
}

/** The smallest first. */
class Queue {
  /** @type {{ at: number, order: number, go: () => void }[]} */
  #heap = [];
  #order = 0;

  /** @param {number} at @param {() => void} go */
  push(at, go) {
    const heap = this.#heap;
    const entry = { at, order: this.#order++, go };
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = /** @type {typeof entry} */ (heap[parent]);
      if (above.at < at || (above.at === at && above.order < entry.order)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = entry;
  }

  pop() {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      const [left, right] = [heap[child], heap[child + 1]];
      if (left === undefined) break;
      if (right && (right.at < left.at || (right.at === left.at && right.order < left.order))) child++;
      const next = /** @type {typeof first} */ (heap[child]);
      if (last.at < next.at || (last.at === next.at && last.order < next.order)) break;
      heap[index] = next;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

/**
 * @param {Fleet} fleet
 * @param {boolean} kept whether the runs have checkpoints
 * @returns {Figures}
 */
export function simulate({ runs, workers, turns, crashes, plan, seed }, kept) {
  const events = new Queue();
  let now = 0;
  let paid = 0;
  let useful = 0;
  let finished = 0;
  let window = { begins: 0, asked: 0 };

  const waiting = Array.from({ length: runs }, (_, id) => ({
    id,
    length: Math.max(1, Math.round(turns * (0.5 + draw(seed, 1, id)))),
    done: 0,
    attempt: 0,
  }));
  let next = 0;
  /** Workers without a run: each takes the next, unless it has crashed since. @type {(() => boolean)[]} */
  const idle = [];

  /** @param {typeof waiting[number]} run */
  const back = (run) => {
    run.attempt += 1;
    if (!kept) run.done = 0;
    waiting.push(run);
    while (idle.shift()?.() === false);
  };

  /** @param {number} worker */
  const work = (worker) => {
    let life = 0;
    /** @type {typeof waiting[number] | undefined} */
    let run;
    const crash = () => {
      const lost = run;
      run = undefined;
      life += 1;
      if (lost !== undefined) events.push(now + LEASE, () => back(lost));
      events.push(now + RESTART, begin);
    };
    const begin = () => {
      const own = life;
      if (crashes > 0) {
        const after = -Math.log(1 - draw(seed, 2, worker, life)) * crashes;
        events.push(now + after, () => {
          if (own === life && finished < runs) crash();
        });
      }
      take();
    };
    const take = () => {
      const own = life;
      run = waiting[next];
      if (run === undefined) {
        idle.push(() => {
          if (own !== life) return false;
          take();
          return true;
        });
        return;
      }
      next += 1;
      turn();
    };
    const turn = () => {
      const [own, current] = [life, run];
      if (current === undefined) return;
      if (now >= window.begins + WINDOW) window = { begins: now - ((now - window.begins) % WINDOW), asked: 0 };
      if (plan > 0 && window.asked >= plan) {
        // The attempt ends, and the queue delays the run; nobody has anything to do before the plan is there again.
        run = undefined;
        const until = window.begins + WINDOW;
        events.push(until, () => back(current));
        events.push(until, () => own === life && take());
        return;
      }
      window.asked += 1;
      paid += 1;
      const takes = TURN * (0.5 + draw(seed, 3, current.id, current.done, current.attempt));
      events.push(now + takes, () => {
        if (own !== life || run !== current) return;
        current.done += 1;
        if (current.done < current.length) return turn();
        finished += 1;
        useful += current.length;
        take();
      });
    };
    begin();
  };
  for (let worker = 0; worker < workers; worker++) work(worker);
  while (finished < runs) {
    const event = events.pop();
    if (event === undefined) throw new Error(`${runs - finished} runs are lost`);
    now = event.at;
    event.go();
  }
  return { makespan: Math.round(now), paid, wasted: paid - useful, finished };
}

/** @typedef {Omit<Fleet, "runs" | "workers" | "seed"> & { kept: Figures, anew: Figures }} Row */

/** @returns {{ setting: typeof SETTING, rows: Row[] }} */
export function simulateAll() {
  const rows = CASES.map((row) => {
    const fleet = { ...SETTING, ...row };
    return { ...row, kept: simulate(fleet, true), anew: simulate(fleet, false) };
  });
  return { setting: SETTING, rows };
}

const RESULTS = new URL("results/fleet-simulation.json", import.meta.url);

/** The table of bench/RESULTS.md, out of what is kept. */
export function simulationTable() {
  /** @type {ReturnType<typeof simulateAll>} */
  const { setting, rows } = JSON.parse(readFileSync(RESULTS, "utf8"));
  const hours = (/** @type {number} */ seconds) => (seconds / 3600).toFixed(1);
  const count = (/** @type {number} */ number) => number.toLocaleString("en-US");
  const share = (/** @type {Figures} */ { paid, wasted }) => `${((wasted / paid) * 100).toFixed(1)} %`;
  const every = (/** @type {number} */ seconds) => (seconds === 0 ? "never" : `every ${seconds / 60} min`);
  const lines = rows.map(({ turns, crashes, plan, kept, anew }) =>
    [
      turns,
      every(crashes),
      plan === 0 ? "none" : `${count(plan)} in 5 h`,
      ...[hours(kept.makespan), count(kept.wasted), share(kept)],
      ...[hours(anew.makespan), count(anew.wasted), share(anew)],
    ].join(" | "),
  );
  return [
    "| turns of a run | a worker crashes | limit of the plan | hours, kept | wasted turns | of those paid | hours, begun anew | wasted turns | of those paid |",
    "| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ...lines.map((line) => `| ${line} |`),
    "",
    `${count(setting.runs)} runs, ${setting.workers} workers, seed ${setting.seed}.`,
  ].join("\n");
}

await runMain(import.meta.url, async () => {
  const outcome = simulateAll();
  const at = process.argv.indexOf("--json");
  const file = at === -1 ? undefined : process.argv[at + 1];
  if (file !== undefined) writeFileSync(file, `${JSON.stringify(outcome, null, 2)}\n`);
  for (const { turns, crashes, plan, kept, anew } of outcome.rows) console.log({ turns, crashes, plan, kept, anew });
});
