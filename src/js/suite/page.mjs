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
        return `<td>${escaped(cell)}${bar(drawn[column]?.(result), most[column] ?? 0)}</td>`;
      })
      .join("");
    return `<tr class="is-${escaped(verdict)}"><th scope="row">${title}</th><td class="${escaped(verdict)}">${escaped(verdict)}</td>${others}</tr>`;
  });
  const undone = suite.tasks.length - results.length;
  const left = undone > 0 ? ` ${undone} of ${suite.tasks.length} tasks are not done yet.` : "";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="deep-factor-providers">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escaped(suite.title)}</title>
<style>
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
div { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: start; margin-bottom: 0.75rem; }
th, td { text-align: start; vertical-align: top; padding: 0.4rem 0.75rem 0.4rem 0; border-bottom: 1px solid #8886; }
td { font-variant-numeric: tabular-nums; }
.pass { color: light-dark(#0b6b2e, #6fd08c); }
.fail, .timeout, .error { color: light-dark(#a3141b, #ff9a94); }
:focus-visible { outline: 3px solid light-dark(#0b57b0, #86b9ff); outline-offset: 2px; }
fieldset { margin: 0 0 1rem; padding: 0.25rem 1rem 0.5rem; border: 1px solid #8886; border-radius: 0.5rem; }
label { margin-inline-end: 1.25rem; white-space: nowrap; }
svg { display: block; width: 100%; min-width: 4rem; height: 0.4rem; margin-top: 0.2rem; }
rect { fill: light-dark(#0b57b0, #86b9ff); }
${VERDICTS.map((one) => `body:has(#show-${one}:not(:checked)) .is-${one} { display: none; }`).join("\n")}
</style>
</head>
<body>
<main>
<h1>${escaped(suite.title)}</h1>
${filter(verdicts)}<div tabindex="0" role="region" aria-label="Results">
<table>
<caption>${escaped(summary(results))}.${left} Each name leads to what happened in it.</caption>
<thead><tr>${columns}</tr></thead>
<tbody>
${lines.join("\n")}
</tbody>
</table>
</div>
</main>
</body>
</html>
`;
}

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
  return `<fieldset>\n<legend>Show</legend>\n${boxes.join("\n")}\n</fieldset>\n`;
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
  return `<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect width="${width}" height="4"/></svg>`;
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
