// @ts-check
/**
 * The options that the CLIs publish, held against `decisions.mjs`.
 *
 * In flow a CLI's own words (`--help`, codex's schema, opencode's API); out flow the options that nobody has decided about, those that are
 * gone, and the page docs/reference/cli-options.md.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ENDS, REASONS, SURFACES } from "./decisions.mjs";

/** @typedef {import("./decisions.mjs").Surface} Surface */

/** The time that a CLI may take for its help, ms; gemini takes 2 s on an idle machine. */
const LIMIT_MS = 120_000;
/** Options begin a line of a help text within so many columns; descriptions stand further in. */
const MOST_INDENT = 8;

/**
 * The options of a help text, each with all of its names. Those of yargs, clap and commander are read.
 * @param {string} text
 * @returns {string[][]}
 */
export function optionsOfHelp(text) {
  const indented = new RegExp(`^ {1,${MOST_INDENT}}(-[^\\s-]|--\\w)`);
  return text
    .split("\n")
    .filter((line) => indented.test(line))
    .map((line) => {
      const names = /^ *((?:--?[A-Za-z][\w-]*(?:[ =]?[<[][^>\]]*[>\]])?(?:\.\.\.)?(?:, )?)+)/.exec(line)?.[1] ?? "";
      return names.match(/(?<![\w-])--?[A-Za-z][\w-]*/g) ?? [];
    })
    .filter((names) => names.length > 0);
}

/**
 * The options of `surface` as the CLI in `cli` publishes them.
 * @param {Surface} surface
 * @param {string} cli the program: a script is run by this Node
 * @returns {Promise<string[][]>}
 */
export async function published(surface, cli) {
  const dir = mkdtempSync(join(tmpdir(), "dfp-options-"));
  /** @param {readonly string[]} args */
  const run = async (args) => {
    const [command, all] = /\.[cm]?js$/.test(cli) ? [process.execPath, [cli, ...args]] : [cli, [...args]];
    const env = { PATH: process.env.PATH, HOME: dir, TMPDIR: dir, COLUMNS: "400", NO_COLOR: "1", ...QUIET };
    const done = await promisify(execFile)(command, all, { env, cwd: dir, timeout: LIMIT_MS, maxBuffer: 1 << 24 });
    // opencode writes the help of a subcommand to standard error.
    return done.stdout || done.stderr;
  };
  try {
    if (surface.from === "help") return optionsOfHelp(await run([...surface.args, "--help"]));
    const [place = ""] = surface.args;
    if (surface.from === "codex-schema") {
      await run(["app-server", "generate-json-schema", "--experimental", "--out", dir]);
      return names(JSON.parse(readFileSync(join(dir, place), "utf8")));
    }
    const { paths } = JSON.parse(await run(["generate"]));
    return names(paths[place].post.requestBody.content["application/json"].schema);
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Switches that keep a CLI that only prints its options from asking anybody anything. */
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_ERROR_REPORTING: "1",
  COPILOT_OFFLINE: "true",
};

/**
 * @param {{ properties: object }} schema
 * @returns {string[][]}
 */
const names = ({ properties }) => Object.keys(properties).map((name) => [name]);

/**
 * The options that were decided about.
 * @param {Surface} surface
 * @returns {string[]}
 */
export const decided = ({ offered, sent, refused }) => [
  ...Object.keys(offered),
  ...Object.keys(sent),
  ...refused.flatMap(([, options]) => options.split(" ")),
];

/**
 * The options of `found` without a decision, and decisions about options that `found` has not.
 * @param {Surface} surface
 * @param {string[][]} found
 * @returns {{ undecided: string[], gone: string[] }}
 */
export function compare(surface, found) {
  const known = decided(surface);
  return {
    undecided: found.filter((names) => !names.some((name) => known.includes(name))).map((names) => names.join(", ")),
    gone: known.filter((name) => !found.some((names) => names.includes(name))),
  };
}

/** The page of all decisions: options that share an outcome share a line, and reasons that many CLIs share stand once, under a name. */
export function optionsPage() {
  const known = new Map(Object.entries(REASONS).map(([name, why]) => [why, name]));
  const lists = SURFACES.map(({ name, offered, sent, refused }) => {
    /** @type {Map<string, string[]>} */
    const rows = new Map();
    /** @param {string} what @param {string[]} options */
    const add = (what, options) => rows.set(what, [...(rows.get(what) ?? []), ...options]);
    for (const [option, what] of Object.entries(offered)) add(what, [option]);
    for (const [option, when] of Object.entries(sent)) add(`sent (${when})`, [option]);
    for (const [why, options] of refused) {
      if (why !== ENDS) add(known.has(why) ? `*${known.get(why)}*` : `no. ${why}`, options.split(" "));
    }
    const lines = Array.from(rows, ([what, options]) => `- ${options.map(code).join(" ")}: ${what}`);
    return `## ${name}\n\n${lines.join("\n")}\n`;
  });
  const reasons = Object.entries(REASONS).map(([name, why]) => `- *${name}*: ${why}`);
  return `${HEAD}\n${reasons.join("\n")}\n\n${lists.join("\n")}`;
}

const HEAD = `# Options of the CLIs

What becomes of each option of the newest measured CLIs: what of ours it is, when it is *sent* by itself, or why it is not offered ("no", or a word of
this list). "Own tools" are the CLI's; what only prints something is left out. \`extraArgs\` passes any argument on, in print form where it changes what a CLI
reads or keeps ([which engine](../concepts/engines.md#which-engine)).

This page is made from \`.ci/record/decisions.mjs\`.
`;

/** @param {string} text */
const code = (text) => `\`${text}\``;
