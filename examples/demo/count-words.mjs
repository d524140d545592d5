// @ts-check
/**
 * The demo's tool: counts the words of a file of this repository. In flow a path and how many favourites are wanted; out flows
 * JSON.
 */
import { tool } from "@langchain/core/tools";
import { z } from "zod";
import { ROOT } from "../../.ci/prepare.mjs";
import { openFolder } from "../agent-run/folder.mjs";

/** Shorter words are grammar more than content. */
const SHORTEST = 5;

/** @typedef {{ file: string, words: number, favourites: { word: string, count: number }[] }} WordCount */

/** A real model may ask for anything; it gets files of this repository and nothing else. */
const repository = openFolder(ROOT);

export const countWords = tool(
  ({ file, favourites = 3 }) => JSON.stringify(count(file, repository.read(file), favourites)),
  {
    name: "count_words",
    description: `Counts the words of a text file of this repository and lists its favourites of ${SHORTEST} letters and more.`,
    schema: z.object({
      file: z.string().describe("path, relative to the repository"),
      favourites: z.number().int().min(1).max(20).optional().describe("how many favourites to list, 3 by default"),
    }),
  },
);

/**
 * @param {string} file
 * @param {string} text
 * @param {number} top
 * @returns {WordCount}
 */
export function count(file, text, top) {
  const words = text.match(/[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*/gu) ?? [];
  /** @type {Map<string, { word: string, count: number }>} by the word in lower case; shown as it was first written */
  const counts = new Map();
  for (const word of words) {
    if (word.length < SHORTEST || !/\p{L}/u.test(word)) continue;
    const entry = counts.get(word.toLowerCase()) ?? { word, count: 0 };
    counts.set(word.toLowerCase(), { ...entry, count: entry.count + 1 });
  }
  // Sorting is stable: of equally frequent words the first one in the text wins.
  const ranked = Array.from(counts.values()).sort((a, b) => b.count - a.count);
  return { file, words: words.length, favourites: ranked.slice(0, top) };
}
