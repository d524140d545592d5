/** What goes to a terminal goes through one door: nothing steers it, and nothing is wider than it. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { pageOf } from "../../src/js/cli/pager.mjs";
import { widthOf } from "../../src/js/cli/screen.mjs";
import { HELP, table } from "../../src/js/cli-text.mjs";
import { CLI, runCommands } from "../support/command-line.mjs";
import { createFakes } from "../support/fake.mjs";
import { shareOf } from "../support/harness.mjs";
import { HAS_TMUX, openTerminal } from "../support/terminal.mjs";

const SOURCES = fileURLToPath(new URL("../../src/js/", import.meta.url));
const plain = (_: string, text: string) => text;
const widest = (text: string) => Math.max(...text.split("\n").map((line) => Array.from(line).length));

it("nothing but the door, the spinner and the line that is edited writes", () => {
  const names = readdirSync(SOURCES, { recursive: true, encoding: "utf8" });
  const ofCommandLine = names.filter((name) => /^(cli|suite)\b.*\.mjs$/.test(name.replaceAll("\\", "/")));
  const writing = ofCommandLine.filter((name) =>
    /\b(stdout|stderr|stream|screen|out)\b\??\.write\(|console\./.test(readFileSync(join(SOURCES, name), "utf8")),
  );
  expect(writing.map((name) => name.replaceAll("\\", "/")).sort()).toEqual([
    "cli/lines.mjs",
    "cli/screen.mjs",
    "cli/spinner.mjs",
  ]);
});

describe.skipIf(!HAS_TMUX).each([
  [80, 0],
  [40, 1],
])("an error of %i columns", (columns, which) => {
  const ESC = "\u001b";
  const NAME = `no${ESC}]0;title\u0007\u009b2J\u202e-such-folder/${"long-".repeat(30)}log.jsonl`;
  const SHOWN = `no␛]0;title␇‹U+009B›2J‹U+202E›-such-folder/${"long-".repeat(30)}log.jsonl`;

  // Each by one width: what is told and how it is wrapped is one place's.
  it.each(shareOf([[["log", "show", NAME]], [["log", "html", NAME]], [["status", "--logs", NAME]]], which, 2))(
    "of %j shows a file's name, and is as wide as the terminal",
    async (args) => {
      const { screen, code } = await openTerminal([process.execPath, CLI, ...args], { columns }).ended();
      expect([code, widest(screen) <= columns]).toEqual([10, true]);
      expect(screen.replaceAll(/\n */g, "").replaceAll(" ", "")).toContain(SHOWN);
    },
  );
});

describe("a table", () => {
  const HEAD = ["TASK", "RESULT", "REASON"];
  const rows = [
    { cells: ["build\u001b[2J", "fail", `the file /${"deep/".repeat(20)}x is missing`] },
    { cells: ["a\nb\tc", "pass", ""], under: [{ text: "→ \u009bhint", colour: undefined }] },
  ];

  it("shows what can't be seen, and takes no more lines for it", () => {
    expect(table(HEAD, rows, plain, 0).split("\n")).toEqual(
      [
        "TASK      RESULT  REASON",
        `build␛[2J  fail    the file /${"deep/".repeat(20)}x is missing`,
        "a␊b␉c     pass",
        "           → ‹U+009B›hint",
      ].map((line, index) =>
        index === 0 || index === 2 ? line.replace(/^(\S+) {5,6}/, (_, word) => word.padEnd(11)) : line,
      ),
    );
  });

  it.each([80, 40, 20])("is never wider than %i columns", (columns) => {
    const text = table(HEAD, rows, plain, columns);
    expect(widest(text)).toBeLessThanOrEqual(columns);
    expect(text.replaceAll(/\n */g, "")).toContain(`/${"deep/".repeat(20)}x`);
  });
});

it.each([
  [{ isTTY: true, columns: 0 }, 80],
  [{ isTTY: true }, 80],
  [{ isTTY: true, columns: 132 }, 132],
  [{ isTTY: false, columns: 132 }, 0],
])("%j is %i columns wide", (stream, columns) => {
  expect(widthOf(stream)).toBe(columns);
});

it("the help of each command has at most 100 columns in a pipe", async () => {
  const names = Object.keys(HELP);
  const helps = await runCommands(names.map((name) => ({ args: ["help", ...(name === "" ? [] : [name])] })));
  expect(helps.map(({ code, stdout }) => [code, widest(stdout) <= 100])).toEqual(names.map(() => [0, true]));
});

describe("a report that is watched", () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index + 1}`);
  const screen = { top: 0, rows: 10, columns: 80, canScroll: true, note: "every 2 s" };

  it.each([
    [{}, 0, "line 1", "lines 1 to 9 of 30: arrow and page keys scroll; every 2 s"],
    [{ top: 5 }, 5, "line 6", "lines 6 to 14 of 30: arrow and page keys scroll; every 2 s"],
    [{ top: 99 }, 21, "line 22", "lines 22 to 30 of 30: arrow and page keys scroll; every 2 s"],
    [{ top: -3, canScroll: false }, 0, "line 1", "lines 1 to 9 of 30: make the window higher; every 2 s"],
    [{ rows: 40 }, 0, "line 1", "every 2 s"],
    [{ columns: 12 }, 0, "line 1", "lines 1 to 9"],
    [{ rows: 1 }, 0, "line 1", "lines 1 to 1 of 30: arrow and page keys scroll; every 2 s"],
  ])("says with %j what is left out", (more, top, first, last) => {
    const page = pageOf(lines, { ...screen, ...more });
    expect([page.top, page.shown[0], page.shown.at(-1)]).toEqual([top, first, last]);
  });

  it.skipIf(!HAS_TMUX)("scrolls by keys, and ends by Ctrl-C", async () => {
    const { dir, cleanup } = createFakes();
    onTestFinished(cleanup);
    writeFileSync(join(dir, "empty.jsonl"), "");
    const command = [process.execPath, CLI, "status", "--watch", "--interval", "9999", "--logs", dir];
    const terminal = openTerminal(command, { rows: 4 });
    const first = await terminal.until(/^lines 1 to 3 of \d+: arrow/m);
    terminal.press("Down");
    await terminal.until(/^lines 2 to 4 of/m);
    terminal.press("End");
    // What stands there depends on the processes that run beside it; the last line is reached either way.
    const last = await terminal.until(/^lines \d+ to (\d+) of \1: arrow/m);
    terminal.press("Home");
    expect(await terminal.until(/^lines 1 to 3/m)).toBe(first);
    expect(last).not.toBe(first);
    terminal.press("C-c");
    expect((await terminal.ended()).code).toBe(130);
  });
});
