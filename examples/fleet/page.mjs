/** The results of a fleet as one page. Everything on it that a model or a tool wrote is text. */

const escapeHtml = (/** @type {unknown} */ text) =>
  String(text).replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/**
 * @param {{ id: string, kind: string, state: string, output: string, resumed: number | "", attempts: number | "", tokens: number }[]} rows
 * @param {Record<string, unknown>} summary
 */
export function page(rows, summary) {
  const cells = (/** @type {typeof rows[number]} */ { id, kind, state, output, resumed, attempts, tokens }) =>
    [id, kind, state, output, resumed, attempts, tokens].map((cell) => `<td>${escapeHtml(cell)}</td>`).join("");
  const facts = Object.entries(summary).map(([name, value]) => `<li>${escapeHtml(name)}: ${escapeHtml(value)}</li>`);
  return `<!doctype html><meta charset="utf-8"><title>Fleet</title>
<h1>Fleet</h1><ul>${facts.join("")}</ul>
<table><tr><th>run<th>kind<th>state<th>output<th>turns of earlier attempts<th>attempts<th>tokens</tr>
${rows.map((row) => `<tr>${cells(row)}</tr>`).join("\n")}</table>`;
}
