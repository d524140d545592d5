// @ts-check
/** Folders of a test that go with it. */
import { rmSync } from "node:fs";

/** How often, and after how long, ms: a CLI that is just ending has been seen to write for two seconds on a loaded machine. */
const TRIES = 100;
const PAUSE_MS = 50;
const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Remove `folder` and all in it, though a process that is ending still writes into it. `maxRetries` of `rmSync` is not enough for that:
 * it tries again to remove the folder, and not what was written since (Node 20.20).
 * @param {string} folder
 */
export function removeFolder(folder) {
  for (let tried = 1; ; tried++) {
    try {
      rmSync(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      const { code } = /** @type {NodeJS.ErrnoException} */ (error);
      if (tried === TRIES || !["EBUSY", "ENOTEMPTY", "EPERM"].includes(code ?? "")) throw error;
      Atomics.wait(pause, 0, 0, PAUSE_MS);
    }
  }
}
