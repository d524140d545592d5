/**
 * One suite at a time in a folder of results. In: the folder. Out: a lock of the operating system's, which ends with its process, however
 * that ends; or a refusal that says whose it is.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../cli-text.mjs";
import errors from "../errors.cjs";
import loader from "../load.cjs";

/** The file that is locked. It stays, empty: taking it away would let a third in beside a second. */
export const LOCK = "suite.lock";

/**
 * @param {string} folder exists
 * @param {string} mark the file in it that says which process is at work
 * @returns {Promise<() => void>} gives it back
 */
export async function lockFolder(folder, mark) {
  const { NativeLock } = loader.loadNative();
  const lock = new NativeLock(join(folder, LOCK));
  if (errors.unwrap(await errors.guard(lock.take()))) return () => lock.release();
  const whose = await readFile(join(folder, mark), "utf8")
    .then((text) => Number(JSON.parse(text).pid))
    .catch(() => Number.NaN);
  const holder = Number.isSafeInteger(whose) ? `process ${whose}` : "another process";
  throw new UsageError(
    `a suite is at work in this folder, ${holder}: ${folder}. Wait for its end, or name a new folder`,
  );
}
