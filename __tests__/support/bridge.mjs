// @ts-check
/**
 * A host of the bridge (`src/bin/bridge-host.rs`) for one test: who answers the calls that a real CLI makes in mid-run.
 *
 * In flows what to run or serve, and a function that answers calls; out flow the calls, the run's events and how it ended.
 * The process is ended with the test.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { cargoOutput, isBuilt } from "./processes.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** @typedef {{ id: string, name: string, args: any }} Call */
/** @typedef {{ content: string | object[], isError?: boolean }} Result */
/** @typedef {(call: Call) => Result | Promise<Result>} Answer */
/**
 * @typedef {object} Host
 * @property {Call[]} calls in the order of arrival
 * @property {any[]} events of the run
 * @property {Promise<{ url: string, token: string }>} serving
 * @property {Promise<{ reply?: any, error?: any }>} ended
 * @property {(order: object) => void} say
 */

const HOST = cargoOutput(process.platform === "win32" ? "bridge-host.exe" : "bridge-host");

/** @type {Promise<unknown> | undefined} */
let built;

/** Builds the host where that is needed. */
function build() {
  const args = ["test", "--no-run", "--quiet", "--test", "integration"];
  built ??= isBuilt(HOST)
    ? Promise.resolve()
    : promisify(execFile)("cargo", args, { cwd: ROOT, maxBuffer: 64 * 1024 * 1024 });
  return built;
}

/**
 * @param {object} order `{ run }` or `{ serve }`
 * @param {Answer} answer
 * @returns {Promise<Host>}
 */
export async function startHost(order, answer) {
  await build();
  const child = spawn(HOST, {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.stdin.end();
    await exited;
  });
  /** @type {(order: object) => void} */
  const say = (order) => void child.stdin.write(`${JSON.stringify(order)}\n`);
  const [serving, ended] = [defer(), defer()];
  exited.then(([code]) => [serving, ended].map(({ reject }) => reject(new Error(`the host ended with code ${code}`))));
  const host = { calls: [], events: [], serving: serving.promise, ended: ended.promise, say };
  createInterface({ input: child.stdout }).on("line", (line) =>
    hear(JSON.parse(line), host, { answer, serving, ended }),
  );
  say(order);
  return host;
}

/**
 * @param {any} said
 * @param {any} host
 * @param {{ answer: Answer, serving: Deferred, ended: Deferred }} about
 */
async function hear(said, host, { answer, serving, ended }) {
  if (said.serving) serving.resolve(said.serving);
  else if (said.ended) ended.resolve(said.ended);
  else if (said.events) host.events.push(...said.events);
  else if (said.called) {
    const call = { ...said.called, args: JSON.parse(said.called.args) };
    host.calls.push(call);
    host.say({ reply: { id: call.id, ...(await answer(call)) } });
  }
}

/** @typedef {{ promise: Promise<any>, resolve: (value: any) => void, reject: (error: Error) => void }} Deferred */

/** @returns {Deferred} */
function defer() {
  /** @type {any} */
  const deferred = {};
  deferred.promise = new Promise((resolve, reject) => Object.assign(deferred, { resolve, reject }));
  // Who does not wait for it must not be told of it.
  deferred.promise.catch(() => {});
  return deferred;
}

/**
 * An answer to several calls that is given only when so many are open: who makes one call after the other waits for ever.
 * @param {number} count
 * @param {(call: Call) => Result} answer
 * @returns {Answer}
 */
export function together(count, answer) {
  let open = 0;
  const all = defer();
  return async (call) => {
    if (++open === count) all.resolve(undefined);
    await all.promise;
    return answer(call);
  };
}
