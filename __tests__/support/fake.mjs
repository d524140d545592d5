// @ts-check
/**
 * Fake CLIs for what a real one cannot be asked to do: hang, ignore signals, crash, leave a child behind, write torn bytes.
 *
 * In flows a behaviour, or one per run; out flow the path of an executable in a private temp folder and the record of how it
 * was called (arguments, environment, folder, stdin). The process itself is `fake-cli.mjs`.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/**
 * What a fake does, in this order. Whatever hangs ends by itself after a minute, so that a failing test leaves nothing behind.
 * @typedef {object} Behaviour
 * @property {boolean} [readStdin] default true: read stdin to its end before anything else; false: leave it alone
 * @property {boolean} [ignoreTerm] survive SIGTERM and SIGINT; its grandchild does, too
 * @property {boolean} [grandchild] start a process that keeps stdout and stderr open
 * @property {string | Uint8Array | (string | Uint8Array)[]} [stdout] written in these pieces, each by a write of its own
 * @property {string} [stderr]
 * @property {boolean} [echo] write the Call as one line of JSON to stdout
 * @property {boolean} [hang] do not exit
 * @property {NodeJS.Signals} [signal] die of this signal
 * @property {number} [code] exit code, 0 by default
 */
/**
 * How a fake was called.
 * @typedef {object} Call
 * @property {string[]} argv
 * @property {Record<string, string>} env
 * @property {string} cwd
 * @property {string} stdin "" if it is not read
 * @property {number} pid
 * @property {number} [grandchild] its pid
 */
/**
 * @typedef {object} FakeCli
 * @property {string} path
 * @property {() => Call[]} calls in the order in which the runs began
 * @property {(n: number) => Promise<Call>} waitForCall the n-th call (from 1), once its stdin is read
 */
/**
 * @typedef {object} Fakes
 * @property {string} dir fit to stand on PATH
 * @property {(name: string, behaviour?: Behaviour | Behaviour[]) => FakeCli} cli of several behaviours each run takes the next;
 *   the last one stays
 * @property {(name: string, body: string) => string} shell writes a POSIX shell script, returns its path
 * @property {() => void} cleanup removes the folder
 */

const RUNNER = fileURLToPath(new URL("fake-cli.mjs", import.meta.url));
const POLL_MS = 5;

/**
 * A folder to write fakes into.
 * @returns {Fakes}
 */
export function createFakes() {
  const dir = mkdtempSync(join(tmpdir(), "dfp-fake-"));
  let open = true;
  return {
    dir,
    cli(name, behaviour = {}) {
      const state = join(dir, `${name}.state`);
      mkdirSync(state);
      const behaviours = [behaviour].flat().map((one) => ({
        ...one,
        stdout: [one.stdout ?? []].flat().map((piece) => Buffer.from(piece).toString("base64")),
      }));
      writeFileSync(join(state, "behaviours.json"), JSON.stringify(behaviours));
      const calls = () => readCalls(state);
      return {
        path: writeLauncher(dir, name, state),
        calls,
        waitForCall: async (n) => {
          while (open) {
            const call = calls()[n - 1];
            if (call) return call;
            await delay(POLL_MS);
          }
          throw new Error(`the fakes were cleaned up before call ${n} of ${name}`);
        },
      };
    },
    shell(name, body) {
      const path = join(dir, name);
      writeFileSync(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
      return path;
    },
    cleanup() {
      open = false;
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/**
 * A launcher that becomes the fake, with the same pid where there is `exec`.
 * @param {string} dir
 * @param {string} name
 * @param {string} state
 */
function writeLauncher(dir, name, state) {
  const command = [process.execPath, RUNNER, state];
  const windows = process.platform === "win32";
  const path = join(dir, windows ? `${name}.cmd` : name);
  const text = windows
    ? `@${command.map((word) => `"${word}"`).join(" ")} %*\r\n`
    : `#!/bin/sh\nexec ${command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ")} "$@"\n`;
  writeFileSync(path, text, { mode: 0o755 });
  return path;
}

/**
 * @param {string} state
 * @returns {Call[]}
 */
function readCalls(state) {
  if (!existsSync(state)) return [];
  const runs = readdirSync(state).filter((name) => name.startsWith("call-"));
  const numbers = runs.map((name) => Number(name.slice("call-".length))).sort((a, b) => a - b);
  return numbers.map((number) => JSON.parse(readFileSync(join(state, `call-${number}`), "utf8")));
}
