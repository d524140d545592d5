/**
 * A suite for a browser. In: its results. Out: `index.html`, from which each task leads to its timeline. Nothing in it runs, and
 * nothing comes from elsewhere.
 *
 * @import { Suite } from "./tasks.mjs"
 * @import { TaskResult } from "./work.mjs"
 */

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import loader from "../load.cjs";
import { cells, HEAD, summary } from "./summary.mjs";

/**
 * @param {string} folder
 * @param {Suite} suite
 * @param {readonly TaskResult[]} results
 * @returns {Promise<string>} the path of the page
 */
export async function writeIndex(folder, suite, results) {
  const page = join(folder, "index.html");
  // Not written through a link.
  await rm(page, { force: true });
  await writeFile(page, document(folder, suite, results), { mode: 0o600, flag: "wx" });
  return page;
}

/**
 * @param {string} folder
 * @param {Suite} suite
 * @param {readonly TaskResult[]} results
 */
function document(folder, suite, results) {
  const columns = HEAD.map((name) => `<th scope="col">${escaped(name.toLowerCase())}</th>`).join("");
  /** What is drawn beside a figure, in the column of that name. @type {Record<string, (result: TaskResult) => number | undefined>} */
  const drawn = {
    SECONDS: ({ durationMs }) => durationMs,
    TOKENS: ({ tokens }) => tokens,
    COST: ({ costUsd }) => costUsd,
  };
  const most = Object.fromEntries(
    Object.entries(drawn).map(([column, of]) => [column, Math.max(0, ...results.map((result) => of(result) ?? 0))]),
  );
  const verdicts = [...new Set(results.map(({ verdict }) => verdict))];
  const lines = results.map((result) => {
    const [name = "", verdict = "", ...rest] = cells(result);
    const href = `${encodeURIComponent(name)}/timeline.html`;
    const title = existsSync(join(folder, name, "timeline.html"))
      ? `<a href="${href}">${escaped(name)}</a>`
      : escaped(name);
    const others = rest
      .map((cell, at) => {
        const column = HEAD[at + 2] ?? "";
        const of = column === "REASON" ? ' class="reason"' : "";
        // A name of its own for each figure, where there is room for one column only; nothing for what is not known.
        const named = cell === "" ? "" : ` data-name="${escaped(column.toLowerCase())}"`;
        return `<td${of}${named}>${escaped(cell)}${bar(drawn[column]?.(result), most[column] ?? 0)}</td>`;
      })
      .join("");
    return `<tr class="is-${escaped(verdict)}"><th scope="row">${title}</th><td><span class="badge ${BADGES[result.verdict]}">${escaped(verdict)}</span></td>${others}</tr>`;
  });
  const undone = suite.tasks.length - results.length;
  const left = undone > 0 ? ` ${undone} of ${suite.tasks.length} tasks are not done yet.` : "";
  return `${loader.loadNative().pageHead(suite.title)}<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<h1>${escaped(suite.title)}</h1>
<p class="source">${escaped(summary(results))}.${left}</p>
</header>
<main id="main" tabindex="-1">
${filter(verdicts)}<section class="run" aria-labelledby="results">
<h2 id="results">Results</h2>
<div class="scroll" tabindex="0" role="region" aria-label="Table of the results">
<table class="usage stacked">
<caption>Each name leads to what happened in it.</caption>
<thead><tr>${columns}</tr></thead>
<tbody>
${lines.join("\n")}
</tbody>
</table>
</div>
</section>
</main>
</body>
</html>
`;
}

/** What a verdict is, at a look. */
const BADGES = /** @satisfies {Record<TaskResult["verdict"], string>} */ ({
  pass: "good",
  fail: "bad",
  timeout: "bad",
  error: "odd",
});

const VERDICTS = /** @type {const} */ (["pass", "fail", "timeout", "error"]);

/**
 * Boxes that hide results, by the page's style alone; none where all came to the same.
 *
 * @param {TaskResult["verdict"][]} verdicts those there are
 */
function filter(verdicts) {
  if (verdicts.length < 2) return "";
  const boxes = VERDICTS.filter((one) => verdicts.includes(one)).map(
    (one) => `<label><input type="checkbox" id="show-${one}" autocomplete="off" checked> ${one}</label>`,
  );
  return `<fieldset class="filter">\n<legend>Show</legend>\n${boxes.join("\n")}\n</fieldset>\n`;
}

/**
 * A figure drawn, which stands beside it in words.
 *
 * @param {number | undefined} figure
 * @param {number} most
 */
function bar(figure, most) {
  if (figure === undefined || most <= 0) return "";
  const width = Math.min(Math.max((figure / most) * 100, 0), 100).toFixed(1);
  return `<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="whole" width="100" height="8"/><rect class="part" width="${width}" height="8"/></svg>`;
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
