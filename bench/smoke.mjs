// @ts-check
/**
 * `npm run bench:smoke`: every bench, as small as it can be, and whether its outcome is one. Never how fast.
 *
 * In flows nothing; out flows one line per bench. Exits with 1 if a contender did not come through, a figure is missing, or
 * something is off that no noise can explain.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runMain } from "../.ci/prepare.mjs";
import { Look, loadBench, NAMES } from "./harness/bench.mjs";
import { markdown } from "./harness/report.mjs";

/** @typedef {import("./harness/report.mjs").Outcome} Outcome */

/**
 * What is wrong with an outcome.
 * @param {Outcome} outcome
 * @returns {Promise<string[]>}
 */
export async function faults(outcome) {
  const found = [];
  for (const name of NAMES) {
    const result = outcome.benches.find((each) => each.name === name);
    if (!result) {
      found.push(`${name} is missing`);
      continue;
    }
    const bench = await loadBench(name);
    const names = bench.cases({ quick: outcome.quick }).map((of) => of.name);
    if (result.cases.map((of) => of.name).join() !== names.join()) found.push(`${name} has other cases`);
    for (const { name: of, contenders } of result.cases) {
      for (const contender of contenders) {
        const at = `${name}, ${of}, ${contender.name}`;
        const figures = Object.entries(contender.figures);
        if (!(bench.main in contender.figures)) found.push(`${at} has no ${bench.main}`);
        for (const [figure, { samples, median }] of figures) {
          if (samples.length !== result.rounds) found.push(`${at}: ${samples.length} samples of ${figure}`);
          if (!Number.isFinite(median)) found.push(`${at}: ${figure} is ${median}`);
        }
        if ((contender.figures[bench.main]?.min ?? 0) <= 0) found.push(`${at}: ${bench.main} takes nothing`);
      }
    }
  }
  return [...found, ...insane(outcome)];
}

/** What no noise can explain. @param {Outcome} outcome */
function insane({ benches, quick }) {
  const look = (/** @type {string} */ name) => new Look(benches.find((bench) => bench.name === name)?.cases ?? []);
  const [loop, load, runs] = [look("loop"), look("load"), look("runs")];
  /** @type {[string, boolean][]} */
  const sane = [
    ["a live loop takes one process", loop.median("loop", "live", "processes") === 1],
    ["a step is a request", loop.median("loop", "live", "requests") === (quick ? 2 : 10)],
    ["the bare CLI is asked as often", loop.median("loop", "floor", "requests") === (quick ? 2 : 10)],
    ["print takes a process per step", loop.median("loop", "print", "processes") === (quick ? 2 : 10)],
    ["live sends less than a default claude", loop.ratio("loop", "spec", "bytes") > 2],
    ["the addon is below 40 MB", load.median("import", "floor", "disk") < 40],
    ["no file is left of a run", runs.median("runs", "ours", "files") < 20],
  ];
  return sane.filter(([, holds]) => !holds).map(([what]) => `not so: ${what}`);
}

await runMain(import.meta.url, async () => {
  const folder = mkdtempSync(join(tmpdir(), "dfp-smoke-"));
  try {
    const json = join(folder, "outcome.json");
    const run = fileURLToPath(new URL("run.mjs", import.meta.url));
    const { status, stdout, stderr } = spawnSync(process.execPath, [run, "--quick", "--json", json], {
      encoding: "utf8",
    });
    if (status !== 0) {
      console.error(`${stdout}\n${stderr}\nthe run ended with ${status}`);
      process.exitCode = 1;
      return;
    }
    /** @type {Outcome} */
    const outcome = JSON.parse(readFileSync(json, "utf8"));
    const found = await faults(outcome);
    for (const { name, cases } of outcome.benches) {
      console.log(`${name}: ${cases.reduce((sum, { contenders }) => sum + contenders.length, 0)} contenders measured`);
    }
    if (found.length > 0) {
      console.error(`${markdown(outcome)}\n${found.join("\n")}`);
      process.exitCode = 1;
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
