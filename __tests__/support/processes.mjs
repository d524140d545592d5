// @ts-check
/**
 * The compiled fake CLI (`src/bin/fake-cli.rs`), and the table of processes.
 *
 * In flow steps for the fake; out flow the options of a provider that runs it, and the processes of it that are still there,
 * found by a variable in their environment: those a test has started, and no others.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { removeFolder } from "./folders.mjs";

/** @typedef {string | Record<string, unknown>} Step as described in src/bin/fake-cli.rs */

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const VARIABLE = "DFP_TEST_RUN";

/** @type {string | undefined} */
let host;
/** @type {string | undefined} */
let fake;

/** What cargo built without optimisation, in the folder of this machine's target (`.cargo/config.toml`). @param {string[]} path */
export function cargoOutput(...path) {
  host ??= /^host: (.+)$/m.exec(execFileSync("rustc", ["-vV"], { cwd: ROOT, encoding: "utf8" }))?.[1] ?? "";
  return join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), host, "debug", ...path);
}

/**
 * Whether what cargo has put at `path` is as new as the crate's sources. cargo by itself would build it again after each build of the
 * addon, which sets other variables: half a minute on all cores, in the middle of the tests.
 * @param {string} path
 */
export function isBuilt(path) {
  if (!existsSync(path)) return false;
  const built = statSync(path).mtimeMs;
  const sources = ["src", "tests"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".rs") || file.endsWith("Cargo.toml"))
      .map((file) => join(folder, file)),
  );
  return ["Cargo.toml", "Cargo.lock", ...sources].every((file) => statSync(join(ROOT, file)).mtimeMs < built);
}

/** The path of the fake CLI, which is built where it is missing or older than its source. */
export function fakeCli() {
  if (fake) return fake;
  const name = process.platform === "win32" ? "fake-cli.exe" : "fake-cli";
  const path = cargoOutput(name);
  const source = statSync(join(ROOT, "src/bin/fake-cli.rs")).mtimeMs;
  if (!existsSync(path) || statSync(path).mtimeMs < source) {
    const args = ["build", "--features", "fake-cli", "--bin", "fake-cli"];
    const built = spawnSync("cargo", args, { cwd: ROOT, encoding: "utf8" });
    if (built.status !== 0) throw new Error(`the fake CLI can't be built:\n${built.stderr}`);
  }
  fake = path;
  return path;
}

/**
 * Provider options with which the fake does `steps`, marked as this tag's.
 * @param {Tag} tag
 * @param {Step[] | Record<string, unknown>} steps
 */
export function fakeOptions(tag, steps) {
  return { cliPath: fakeCli(), env: { ...tag.env, FAKE_CLI: JSON.stringify(steps) } };
}

/**
 * @typedef {object} Tag
 * @property {Record<string, string>} env for the processes that are to be found
 * @property {() => string[]} left the living processes with that environment, as `pid command`
 */

/** @returns {Tag} */
export function createTag() {
  const id = randomUUID();
  return { env: { [VARIABLE]: id }, left: () => findByEnv(`${VARIABLE}=${id}`) };
}

/**
 * Zombies have no environment any more: {@link exists} and {@link children} tell of those.
 * @param {string} entry
 */
function findByEnv(entry) {
  if (process.platform === "linux") {
    return pids().flatMap((pid) => {
      try {
        if (!readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(entry)) return [];
        return [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[0]}`];
      } catch {
        // Gone since it was listed, or somebody else's.
        return [];
      }
    });
  }
  const table = execFileSync("ps", ["-axEww", "-o", "pid=,command="], { encoding: "utf8", maxBuffer: 2 ** 26 });
  return table.split("\n").filter((line) => line.includes(entry));
}

/** Whether a process of this id is there: as a zombie, too. @param {number | undefined} pid */
export function exists(pid) {
  if (pid === undefined) throw new TypeError("there is no process id");
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ESRCH") return false;
    throw error;
  }
}

/** Children of this process, the dead that are not waited for included (Linux; elsewhere none are seen). */
export function children() {
  if (process.platform !== "linux") return [];
  return pids().flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const parent = Number(stat.replace(/^.*\) /s, "").split(" ")[1]);
      return parent === process.pid ? [stat.replace(/\).*$/s, ")")] : [];
    } catch {
      return [];
    }
  });
}

/** What this process holds (Linux): open files and threads. */
export function holds() {
  return { files: readdirSync("/proc/self/fd").length, threads: readdirSync("/proc/self/task").length };
}

function pids() {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** A folder for temporary files of a test, with a look at what is in it. */
export function createTemp() {
  const path = mkdtempSync(join(tmpdir(), "dfp-temp-"));
  return {
    path,
    entries: () => readdirSync(path),
    cleanup: () => removeFolder(path),
  };
}

/**
 * Resolves once `done` says so. For what happens in other processes, which tell nobody; a test's own time limit ends it.
 * @param {() => boolean} done
 */
export async function until(done) {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Stop a process by SIGSTOP, and wait until each of its threads has stopped: on a busy machine, one that the signal has not reached yet
 * goes on for a moment. Elsewhere than on Linux nothing lists the threads.
 * @param {number} pid
 */
export async function stop(pid) {
  process.kill(pid, "SIGSTOP");
  if (process.platform !== "linux") return;
  const tasks = `/proc/${pid}/task`;
  const isStopped = (/** @type {string} */ task) => {
    try {
      return /\) T /.test(readFileSync(`${tasks}/${task}/stat`, "utf8"));
    } catch {
      // It has ended meanwhile.
      return false;
    }
  };
  await until(() => readdirSync(tasks).every(isStopped));
}

/** Steps that begin an answer: the CLI's first line, which is the event `session`. */
export const READY = Object.freeze({
  out: `${JSON.stringify({ type: "system", subtype: "init", session_id: "s", model: "claude-fake" })}\n`,
});

/**
 * A message in claude's stream. It is known to be whole when the next one comes.
 * @param {string} text
 * @param {string} [id]
 */
export function says(text, id = "msg_1") {
  const message = { id, role: "assistant", model: "claude-fake", content: [{ type: "text", text }] };
  return { out: `${JSON.stringify({ type: "assistant", parent_tool_use_id: null, session_id: "s", message })}\n` };
}
