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
  const lines = results.map((result) => {
    const [name = "", verdict = "", ...rest] = cells(result);
    const href = `${encodeURIComponent(name)}/timeline.html`;
    const title = existsSync(join(folder, name, "timeline.html"))
      ? `<a href="${href}">${escaped(name)}</a>`
      : escaped(name);
    const others = rest.map((cell) => `<td>${escaped(cell)}</td>`).join("");
    return `<tr><th scope="row">${title}</th><td class="${escaped(verdict)}">${escaped(verdict)}</td>${others}</tr>`;
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
</style>
</head>
<body>
<main>
<h1>${escaped(suite.title)}</h1>
<div tabindex="0" role="region" aria-label="Results">
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

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
