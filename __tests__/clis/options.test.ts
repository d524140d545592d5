// @change
/**
 * Each option that a CLI publishes is decided about (.ci/record/decisions.mjs), and docs/reference/cli-options.md says how;
 * `UPDATE_DOCS=1 npx vitest run __tests__/clis/options.test.ts` writes the page.
 */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { SURFACES } from "../../.ci/record/decisions.mjs";
import { diffPage } from "../../.ci/record/diff.mjs";
import { compare, decided, optionsOfHelp, optionsPage, published } from "../../.ci/record/options.mjs";
import { recordable } from "../../.ci/record/run.mjs";
import { removeFolder } from "../support/folders.mjs";
import { lacks } from "../support/systems.mjs";

const page = new URL("../../docs/reference/cli-options.md", import.meta.url);

const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends) end();
});

/** A program that is gemini in one process: it starts itself anew otherwise, which takes as long again. */
function once(gemini: string) {
  const folder = mkdtempSync(join(tmpdir(), "dfp-options-"));
  ends.push(() => removeFolder(folder));
  const path = join(folder, "gemini");
  writeFileSync(path, `#!/bin/sh\nGEMINI_CLI_NO_RELAUNCH=true exec '${process.execPath}' '${gemini}' "$@"\n`, {
    mode: 0o700,
  });
  return path;
}

it("the page is made of the decisions", () => {
  if (process.env.UPDATE_DOCS) writeFileSync(page, optionsPage());
  expect(readFileSync(page, "utf8")).toBe(optionsPage());
});

it.concurrent.each(SURFACES)(
  "$name: no option is without a decision, and no decision without an option",
  async (surface) => {
    const { cliPath } = await recordable(surface.set);
    const found = await published(surface, surface.set === "gemini" && !lacks("scripts") ? once(cliPath) : cliPath);
    expect(compare(surface, found)).toEqual({ undecided: [], gone: [] });
    const all = decided(surface);
    expect(all.filter((name, at) => all.indexOf(name) !== at)).toEqual([]);
  },
);

it("reads help texts of commander, clap and yargs", () => {
  const help = [
    "  --allowedTools, --allowed-tools <tools...>",
    "      Comma or space-separated list, see --other",
    "  -d, --debug [filter]                  Enable debug mode (e.g., --debug=hooks)",
    "                                        --not-an-option[-file], in a description",
    "  -i, --image <FILE>...",
    "          --neither-this as a description",
    "      --include-directories, --add-dir  Additional directories",
    "  -C <directory>",
    "  codex [OPTIONS]",
  ].join("\n");
  expect(optionsOfHelp(help)).toEqual([
    ["--allowedTools", "--allowed-tools"],
    ["-d", "--debug"],
    ["-i", "--image"],
    ["--include-directories", "--add-dir"],
    ["-C"],
  ]);
});

it("an option that is new, or gone, is named", () => {
  const [surface] = SURFACES;
  const found = decided(surface as (typeof SURFACES)[number]).map((name) => [name]);
  expect(compare(surface as (typeof SURFACES)[number], [...found.slice(1), ["-n", "--new"]])).toEqual({
    undecided: ["-n, --new"],
    gone: [found[0]?.[0]],
  });
});

it("the daily comparison fails with an option that is new", () => {
  const options = { undecided: [["--new", "codex exec"]], gone: [["--old", "codex app-server"]] };
  const lists = [
    "options that nobody has decided about (1)\n  --new  codex exec\n",
    "options that are gone (1)\n  --old  codex app-server\n",
  ];
  expect(diffPage("codex", [], [], options)).toEqual({
    page: `codex: recorded nothing, installed nothing; 0 cases\n\n${lists.join("\n")}`,
    changed: true,
    breaks: [],
  });
});
