// @ts-check
/**
 * A measuring process. In, over IPC: whom to measure in which case. Out: the figures, or why there are none.
 *
 * A contender is prepared when its first turn comes and stays so for the later ones.
 */
import { once } from "node:events";
import { loadBench } from "./bench.mjs";
import { peer } from "./peers.mjs";

/** @typedef {{ bench: string, contender: string, of: import("./bench.mjs").Case, quick: boolean }} Task */
/** @typedef {{ figures: import("./bench.mjs").Figures } | { error: string }} Answer */

/** @type {Map<string, import("./bench.mjs").Prepared>} */
const prepared = new Map();

/**
 * @param {Task} task
 * @returns {Promise<Answer>}
 */
async function measure({ bench, contender, of, quick }) {
  try {
    let ready = prepared.get(contender);
    if (!ready) {
      const found = (await loadBench(bench)).contenders[contender];
      if (!found) throw new Error(`there is no contender ${contender}`);
      ready = await found.prepare(of, { quick, peer });
      prepared.set(contender, ready);
    }
    return { figures: await ready.measure() };
  } catch (error) {
    return { error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

process.on("message", async (/** @type {Task} */ task) => {
  process.send?.(await measure(task));
});

await once(process, "disconnect");
for (const { close } of prepared.values()) await close?.();
process.exit();
