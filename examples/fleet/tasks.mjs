/**
 * The table of tasks that claude does for itself, by name. A job names a row, and brings nothing of it: what is asked, with which files,
 * and who judges it is the worker's own.
 *
 * @typedef {object} Task
 * @property {string} prompt
 * @property {Record<string, string>} files of the workspace, by their names
 * @property {(workspace: string, answer: string) => Promise<boolean>} passes
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const files = { "sum.mjs": "export const sum = (a, b) => a - b;\n" };
const adds = async (/** @type {string} */ workspace) =>
  (await readFile(join(workspace, "sum.mjs"), "utf8")).includes("a + b");

/** @type {[string, Task][]} */
const ROWS = [
  ["fix-the-sum", { prompt: "TASK fix-the-sum: correct sum.mjs.", files, passes: adds }],
  // It says that it is done, and is not.
  ["leave-the-sum", { prompt: "TASK leave-the-sum: correct sum.mjs.", files, passes: adds }],
  [
    "name-a-colour",
    { prompt: "TASK name-a-colour: name one.", files: {}, passes: async (_, answer) => /blue/i.test(answer) },
  ],
];

export const TASKS = new Map(ROWS);
