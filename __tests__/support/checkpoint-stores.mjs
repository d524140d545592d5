// @ts-check
/** Stores of checkpoints by name, for tests and for the workers that they start: each with a look at what it holds. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createFileCheckpoint } from "deep-factor-providers/native";

/** @typedef {{ kind: "file", dir: string }} StoreSpec */
/** @typedef {{ type: string, at?: string, seq: number }} Entry */

/**
 * @param {StoreSpec} spec
 * @returns {Promise<{ store: import("deep-factor-providers").CheckpointStore, peek(runId: string): Promise<Entry[]>,
 *   close(): Promise<void> }>} `peek` gives the entries of a run, whoever holds it
 */
export async function openStore(spec) {
  const store = createFileCheckpoint({ dir: spec.dir });
  const peek = async (/** @type {string} */ runId) => {
    const lines = readFileSync(join(spec.dir, `${runId}.jsonl`), "utf8")
      .split("\n")
      .slice(0, -1);
    return lines.flatMap((line) => JSON.parse(line).entry ?? []);
  };
  return { store, peek, close: async () => {} };
}
