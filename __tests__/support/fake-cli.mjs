// @ts-check
/**
 * The process behind a fake CLI: reads its behaviour from the state folder given as first argument, leaves the record of the
 * call there, and behaves. `fake.mjs` describes both.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

const LIFETIME_MS = 60_000;

const [state = "", ...argv] = process.argv.slice(2);
/** @type {(import("./fake.mjs").Behaviour & { stdout: string[] })[]} */
const behaviours = JSON.parse(readFileSync(join(state, "behaviours.json"), "utf8"));
const run = claimRun();
const behaviour = behaviours[Math.min(run, behaviours.length - 1)] ?? { stdout: [] };

if (behaviour.ignoreTerm) for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => {});
const stdin = behaviour.readStdin === false ? "" : await readStdin();
const grandchild = behaviour.grandchild ? await startGrandchild() : undefined;
const call = { argv, env: process.env, cwd: process.cwd(), stdin, pid: process.pid, grandchild };
// Renamed into place: who sees the record sees all of it.
writeFileSync(join(state, `writing-${run}`), JSON.stringify(call));
renameSync(join(state, `writing-${run}`), join(state, `call-${run}`));

for (const piece of behaviour.stdout) write(1, Buffer.from(piece, "base64"));
if (behaviour.echo) write(1, Buffer.from(`${JSON.stringify(call)}\n`));
if (behaviour.stderr) write(2, Buffer.from(behaviour.stderr));
if (behaviour.hang) setTimeout(() => process.exit(0), LIFETIME_MS);
else if (behaviour.signal) process.kill(process.pid, behaviour.signal);
else process.exit(behaviour.code ?? 0);

/** The number of this run; the folder's creation decides between runs that start at once. */
function claimRun() {
  for (let number = 0; ; number++) {
    try {
      mkdirSync(join(state, `run-${number}`));
      return number;
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
    }
  }
}

async function readStdin() {
  /** @type {Buffer[]} */
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/** @returns {Promise<number | undefined>} */
async function startGrandchild() {
  const ignore = behaviour.ignoreTerm ? `process.on("SIGTERM", () => {}); process.on("SIGINT", () => {});` : "";
  const source = `${ignore} setTimeout(() => {}, ${LIFETIME_MS}); process.send("ready"); process.disconnect();`;
  const child = spawn(process.execPath, ["-e", source], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await once(child, "message");
  child.unref();
  return child.pid;
}

/**
 * Synchronous and whole, also into a pipe that is full (EAGAIN) or closed (EPIPE, the end of a CLI as well).
 * @param {number} fd
 * @param {Buffer} bytes
 */
function write(fd, bytes) {
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      const { code } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code === "EPIPE") process.exit(141);
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
