// @ts-check
/**
 * Fake CLIs for what a real one cannot be asked to do: hang, ignore signals, crash, leave a child behind, write torn bytes.
 *
 * In flows a behaviour, or one per run; out flow the path of an executable in a private temp folder and the record of how it
 * was called (arguments, environment, folder, stdin). The process itself is the compiled fake, `src/bin/fake-cli.rs`.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { removeFolder } from "./folders.mjs";
import { fakeCli } from "./processes.mjs";

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

const POLL_MS = 5;
const LIFETIME_MS = 60_000;

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
      const runs = [behaviour].flat().map((one, index) => stepsOf(one, state, index));
      writeFileSync(join(state, "scenario.json"), JSON.stringify({ counter: join(state, "runs"), runs }));
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
      removeFolder(dir);
    },
  };
}

/**
 * What the compiled fake is to do.
 * @param {Behaviour} behaviour
 * @param {string} state
 * @param {number} index of the behaviour
 */
function stepsOf(behaviour, state, index) {
  const { readStdin = true, ignoreTerm, grandchild, stdout = [], stderr, echo, hang, signal, code = 0 } = behaviour;
  const ignore = ignoreTerm ? [{ onSignal: { TERM: [], INT: [] } }] : [];
  const up = join(state, `up-${index}`);
  const below = [...ignore, { writeFile: { path: up, text: "" } }, { sleep: LIFETIME_MS }];
  return [
    ...ignore,
    ...(readStdin ? ["readAll"] : []),
    ...(grandchild ? [{ spawn: { steps: below } }, { waitFile: up }] : []),
    { record: join(state, "call-{{n}}") },
    ...[stdout].flat().map((piece) => ({ outHex: Buffer.from(piece).toString("hex") })),
    ...(echo ? ["echo"] : []),
    ...(stderr === undefined ? [] : [{ err: stderr }]),
    ...(hang ? [{ sleep: LIFETIME_MS }, { exit: 0 }] : []),
    signal ? { kill: signal.slice("SIG".length) } : { exit: code },
  ];
}

/**
 * A launcher that becomes the fake, with the same pid where there is `exec`.
 * @param {string} dir
 * @param {string} name
 * @param {string} state
 */
function writeLauncher(dir, name, state) {
  const windows = process.platform === "win32";
  const path = join(dir, windows ? `${name}.cmd` : name);
  const scenario = `@${join(state, "scenario.json")}`;
  /** @param {string} word */
  const quoted = (word) => `'${word.replaceAll("'", "'\\''")}'`;
  const text = windows
    ? `@set "FAKE_CLI=${scenario}"\r\n@"${fakeCli()}" %*\r\n`
    : `#!/bin/sh\nFAKE_CLI=${quoted(scenario)} exec ${quoted(fakeCli())} "$@"\n`;
  writeFileSync(path, text, { mode: 0o755 });
  return path;
}

/**
 * @param {string} state
 * @returns {Call[]}
 */
function readCalls(state) {
  if (!existsSync(state)) return [];
  const runs = readdirSync(state).filter((name) => /^call-\d+$/.test(name));
  const numbers = runs.map((name) => Number(name.slice("call-".length))).sort((a, b) => a - b);
  return numbers.map((number) => {
    const { child, ...call } = JSON.parse(readFileSync(join(state, `call-${number}`), "utf8"));
    return child === undefined ? call : { ...call, grandchild: child };
  });
}
