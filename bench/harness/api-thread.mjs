// @ts-check
/**
 * A scripted API on a thread of its own, so that what it costs is nobody's: the JavaScript thread that is measured is the caller's.
 *
 * In flows nothing. Out flows the address, once it listens; it ends with the thread.
 */
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";

/** Says the same in some pieces, whatever it is asked. */
const ANSWER = { chunks: ["Fine", ", and", " you?"] };

if (!isMainThread && parentPort?.postMessage) {
  const { url } = await startAnthropic(() => ANSWER);
  parentPort.postMessage(url);
}

/** @returns {Promise<{ url: string, close: () => Promise<unknown> }>} */
export async function startApiThread() {
  const worker = new Worker(new URL(import.meta.url));
  /** @type {string} */
  const url = await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  return { url, close: () => worker.terminate() };
}
