// @ts-check
/**
 * A terminal of its own, for what is only shown on one: tmux without anybody's configuration, a server for each test.
 *
 * In flows a command and its size; out flow the screen as a person sees it, and the keys that are pressed. All of it is ended with
 * the test. Where tmux is missing, install it with `apt-get install tmux` or `brew install tmux`.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { onTestFinished } from "vitest";

/** Whether the tests that need a terminal can be run. */
export const HAS_TMUX = process.platform !== "win32" && spawnSync("tmux", ["-V"]).status === 0;

if (!HAS_TMUX) console.warn("no screen is looked at, as there is no tmux: apt-get install tmux, or brew install tmux");

const POLL_MS = 20;
/** For a screen that never comes: it is shown then. */
const LIMIT_MS = 60_000;
/** What is printed behind the command's last line. */
const ENDED = /^\[exit (\d+)\]$/m;
/** What would decide about colours and frames otherwise. */
const NEUTRAL = {
  NO_COLOR: undefined,
  FORCE_COLOR: undefined,
  COLORFGBG: undefined,
  LC_ALL: "C.UTF-8",
  LC_CTYPE: undefined,
  LANG: undefined,
  TMUX: undefined,
};

/**
 * @param {string[]} command
 * @param {{ columns?: number, rows?: number, env?: Record<string, string | undefined>, bytes?: string }} [options] default: 80 by 24;
 *   `env` over the process's own; `bytes`: a file that gets what the command writes, as it is
 */
export function openTerminal(command, { columns = 80, rows = 24, env = {}, bytes } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-tmux-"));
  const socket = join(dir, "socket");
  /** @param {string[]} args */
  const tmux = (...args) =>
    execFileSync("tmux", ["-u", "-S", socket, "-f", "/dev/null", ...args], {
      encoding: "utf8",
      env: { ...process.env, ...NEUTRAL, ...env },
    });
  onTestFinished(() => {
    spawnSync("tmux", ["-S", socket, "kill-server"]);
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  });
  const size = ["-x", String(columns), "-y", String(rows)];
  const shown = 'trap : INT; "$@"; printf "\\n[exit %s]\\n" $?; exec cat';
  tmux(
    ...["set-option", "-g", "status", "off", ";", "set-option", "-g", "escape-time", "0", ";"],
    ...["new-session", "-d", ...size, "/bin/sh", "-c", shown, "sh", ...command],
    // Before the server reads anything of it.
    ...(bytes === undefined ? [] : [";", "pipe-pane", `cat > '${bytes}'`]),
  );
  /** @param {string[]} flags */
  const capture = (...flags) =>
    tmux("capture-pane", "-p", ...flags)
      .split("\n")
      .map((line) => line.trimEnd())
      .join("\n")
      .trimEnd();
  const terminal = {
    /** What is on the screen now, without blank lines at its end. */
    screen: () => capture(),
    /** The same with its colours, as `⟦red⟧text⟦⟧`. */
    colours: () => named(capture("-e")),
    /** What has been on it, too. */
    all: () => capture("-S", "-"),
    /**
     * The screen, as soon as it is so.
     * @param {RegExp | ((screen: string) => boolean)} condition
     */
    async until(condition) {
      const limit = performance.now() + LIMIT_MS;
      const is = condition instanceof RegExp ? (/** @type {string} */ text) => condition.test(text) : condition;
      for (;;) {
        const screen = capture();
        if (is(screen)) return screen;
        if (ENDED.test(screen)) throw new Error(`it ended before ${condition}:\n${screen}`);
        if (performance.now() > limit) throw new Error(`it is not ${condition}:\n${screen}`);
        await delay(POLL_MS);
      }
    },
    /** The last screen, and the exit code. */
    async ended() {
      for (;;) {
        const screen = capture();
        const code = ENDED.exec(screen)?.[1];
        if (code !== undefined) return { screen: screen.replace(ENDED, "").trimEnd(), code: Number(code) };
        await delay(POLL_MS);
      }
    },
    /** @param {string} text */
    type: (text) => tmux("send-keys", "-l", text),
    /** As a person pastes, which a program that asks for it is told. @param {string} text */
    paste(text) {
      tmux("set-buffer", "--", text);
      tmux("paste-buffer", "-p");
    },
    /** @param {string[]} names in tmux's words: `Enter`, `C-c`, `Up` */
    press: (...names) => tmux("send-keys", ...names),
  };
  return terminal;
}

/** @type {Record<string, string>} */
const NAMES = { 1: "bold", 2: "dim", 31: "red", 32: "green", 33: "yellow", 35: "magenta", 90: "gray" };

/**
 * Escape sequences by what they come to: how they are written is another with each version of tmux.
 * @param {string} screen
 */
function named(screen) {
  let shown = "";
  /** What holds for the text behind. @type {Set<string>} */
  const now = new Set();
  let open = "";
  const [first = "", ...others] = screen.split("\u001b[");
  shown += first;
  for (const part of others) {
    const [, codes = "", text = ""] = /^([\d;]*)m([\s\S]*)$/.exec(part) ?? [];
    for (const code of codes.split(";")) {
      if (code === "" || code === "0") now.clear();
      else if (code === "22") for (const weight of ["1", "2"]) now.delete(weight);
      else if (code === "39") for (const colour of [...now].filter((one) => one.length === 2)) now.delete(colour);
      else if (code !== "49") now.add(code);
    }
    const wanted = [...now].map((code) => NAMES[code] ?? code).join(" ");
    if (wanted !== open && text !== "") {
      shown += `${open && "⟦⟧"}${wanted && `⟦${wanted}⟧`}`;
      open = wanted;
    }
    shown += text;
  }
  return `${shown}${open && "⟦⟧"}`;
}

/**
 * A screen without what is another each time: times, frames of the spinner.
 * @param {string} screen
 */
export function settled(screen) {
  return screen.replaceAll(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/g, "*").replaceAll(/\b\d+ s\b/g, "N s");
}
