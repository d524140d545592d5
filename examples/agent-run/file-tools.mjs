// @ts-check
/**
 * The agent's tools: what is in a folder, the lines of a file, and where a text stands. In flows a folder; out flow tools that
 * read in it and nowhere else, and give so much at a time as a model can use.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { tool } from "@langchain/core/tools";
import { z } from "zod";
import { openFolder } from "./folder.mjs";

const MOST_NAMES = 200;
const MOST_LINES = 200;
const MOST_HITS = 20;
const MOST_FILES = 5000;
/** Of one line, in characters. */
const LONGEST = 200;
/** What a question about a repository is not about: what git and tools keep, and what is installed or built. */
const SKIPPED = /^(\..*|node_modules|target|dist|build)$/;

/** @typedef {import("./folder.mjs").Folder} Folder */

/** @param {string} path of the folder */
export function createFileTools(path) {
  const folder = openFolder(path);
  const list = tool(({ folder: inside = "." }) => listFiles(folder, inside), {
    name: "list_files",
    description: "Lists the files and folders of a folder; folders end with a slash.",
    schema: z.object({ folder: z.string().optional().describe('relative path; "." by default') }),
  });
  const read = tool(({ file, from = 1, lines = MOST_LINES }) => readLines(folder, file, from, lines), {
    name: "read_file",
    description: `Reads lines of a text file, ${MOST_LINES} at most, each with its number.`,
    schema: z.object({
      file: z.string().describe("relative path"),
      from: z.number().int().min(1).optional().describe("the first line, 1 by default"),
      lines: z.number().int().min(1).max(MOST_LINES).optional().describe("how many"),
    }),
  });
  const search = tool(({ text, folder: inside = "." }) => searchFiles(folder, inside, text), {
    name: "search_files",
    description: `Finds a text (not a pattern) in files, ${MOST_HITS} lines at most, as "file:line: text".`,
    schema: z.object({
      text: z.string().min(1).describe("upper and lower case are the same"),
      folder: z.string().optional().describe("where to look, with all folders below; everywhere by default"),
    }),
  });
  return [list, read, search];
}

/**
 * @param {Folder} folder
 * @param {string} inside
 */
function listFiles(folder, inside) {
  const names = entries(folder.locate(inside), inside).map((entry) => `${entry.name}${entry.isDirectory() ? "/" : ""}`);
  if (names.length === 0) return "(nothing to see)";
  const more = names.length > MOST_NAMES ? [`(and ${names.length - MOST_NAMES} more)`] : [];
  return [...names.slice(0, MOST_NAMES), ...more].join("\n");
}

/**
 * @param {Folder} folder
 * @param {string} file
 * @param {number} from
 * @param {number} count
 */
function readLines(folder, file, from, count) {
  const lines = folder.read(file).split("\n");
  if (lines.at(-1) === "") lines.pop();
  if (from > lines.length) throw new Error(`${file} has only ${lines.length} lines`);
  const shown = lines.slice(from - 1, from - 1 + count).map((line, index) => `${from + index}: ${short(line)}`);
  const left = lines.length - (from - 1 + shown.length);
  return [...shown, ...(left > 0 ? [`(${left} more lines)`] : [])].join("\n");
}

/**
 * @param {Folder} folder
 * @param {string} inside
 * @param {string} text
 */
function searchFiles(folder, inside, text) {
  const wanted = text.toLowerCase();
  /** @type {string[]} */
  const hits = [];
  let looked = 0;
  for (const real of walk(folder.locate(inside), inside)) {
    if (++looked > MOST_FILES) return [...hits, `(looked into ${MOST_FILES} files only: name a folder)`].join("\n");
    const name = folder.nameOf(real);
    for (const [index, line] of linesOf(folder, name).entries()) {
      if (!line.toLowerCase().includes(wanted)) continue;
      if (hits.length === MOST_HITS) return [...hits, "(and more)"].join("\n");
      hits.push(`${name}:${index + 1}: ${short(line.trim())}`);
    }
  }
  return hits.length > 0 ? hits.join("\n") : `no file says "${text}"`;
}

/**
 * None of a file that is no text, too large, or gone meanwhile.
 * @param {Folder} folder
 * @param {string} name
 */
function linesOf(folder, name) {
  try {
    return folder.read(name).split("\n");
  } catch {
    return [];
  }
}

/**
 * Every file below a folder, in the order of the names.
 * @param {string} real
 * @param {string} path as it was asked for
 * @returns {Generator<string>}
 */
function* walk(real, path) {
  for (const entry of entries(real, path)) {
    const below = join(real, entry.name);
    if (entry.isDirectory()) yield* walk(below, path);
    else yield below;
  }
}

/**
 * Without links: nothing is met twice, and no way leads out.
 * @param {string} real
 * @param {string} path as it was asked for
 */
function entries(real, path) {
  try {
    return readdirSync(real, { withFileTypes: true })
      .filter((entry) => (entry.isFile() || entry.isDirectory()) && !SKIPPED.test(entry.name))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    throw new Error(`${path} cannot be read as a folder`);
  }
}

/** @param {string} line */
function short(line) {
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}
