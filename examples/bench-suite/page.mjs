// @ts-check
/**
 * The suite for a browser. In: the table's cells, and the logs in the tasks' folders. Out: `index.html`, and beside each log a
 * page with its timeline. Nothing in them runs, and nothing comes from elsewhere.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { renderRunLog } from "deep-factor-providers";

/**
 * @param {string} folder one folder in it per task, by its name
 * @param {readonly string[]} head
 * @param {readonly string[][]} rows the task's name first, then its status
 * @returns {Promise<string>} the path of the page
 */
export async function writePage(folder, head, rows) {
  for (const [name = ""] of rows) {
    const log = join(folder, name, "artifacts", "youbencha-log.json");
    await writeFile(join(folder, name, "timeline.html"), await renderRunLog(log, { format: "html" }));
  }
  const page = join(folder, "index.html");
  await writeFile(page, document(head, rows));
  return page;
}

/** @param {readonly string[]} head @param {readonly string[][]} rows */
function document(head, rows) {
  const columns = head.map((name) => `<th scope="col">${escaped(name)}</th>`).join("");
  const lines = rows.map(([name = "", status = "", ...rest]) => {
    const link = `<th scope="row"><a href="${encodeURIComponent(name)}/timeline.html">${escaped(name)}</a></th>`;
    const cells = rest.map((cell) => `<td>${escaped(cell)}</td>`).join("");
    return `<tr>${link}<td class="${escaped(status)}">${escaped(status)}</td>${cells}</tr>`;
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Bench suite</title>
<style>
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: start; margin-bottom: 0.75rem; }
th, td { text-align: start; padding: 0.4rem 0.75rem 0.4rem 0; border-bottom: 1px solid #8886; }
td { font-variant-numeric: tabular-nums; }
.success { color: light-dark(#0b6b2e, #6fd08c); }
.failed, .timeout { color: light-dark(#a3141b, #ff9a94); }
</style>
</head>
<body>
<main>
<h1>Bench suite</h1>
<table>
<caption>${rows.length} tasks; each name leads to what happened in it.</caption>
<thead><tr>${columns}</tr></thead>
<tbody>
${lines.join("\n")}
</tbody>
</table>
</main>
</body>
</html>
`;
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
