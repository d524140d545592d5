/** What is wrong with a command line, and what was probably meant. */

/** Something on the command line is wrong; its message is one line: the reason, then what to do. */
export class UsageError extends Error {}

/**
 * What was probably meant, as the end of a message: `": did you mean run?"`, or `""` where nothing is near.
 *
 * @param {string} word
 * @param {Iterable<string>} known
 */
export function suggestion(word, known) {
  const near = nearest(word, known);
  return near === undefined ? "" : `: did you mean ${near}?`;
}

/**
 * The one of `known` that is nearest to `word`, if any is near: a third of its letters may be wrong, or its end be missing.
 *
 * @param {string} word
 * @param {Iterable<string>} known
 */
function nearest(word, known) {
  const scored = [...known].map((name) => ({ name, distance: distanceOf(word.toLowerCase(), name) }));
  const [best] = scored.sort((a, b) => a.distance - b.distance);
  const letters = word.replace(/^-+/, "").length;
  if (best !== undefined && best.distance <= Math.max(1, Math.floor(letters / 3))) return best.name;
  const begun = scored.filter(({ name }) => letters >= 2 && name.startsWith(word));
  return begun.length === 1 ? begun[0]?.name : undefined;
}

/**
 * How many letters are wrong, missing, too many, or swapped with the next.
 *
 * @param {string} a
 * @param {string} b
 */
function distanceOf(a, b) {
  /** @type {number[][]} */
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (/** @type {number} */ row, /** @type {number} */ column) => rows[row]?.[column] ?? 0;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const changed = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let least = Math.min(at(i - 1, j) + 1, (row[j - 1] ?? 0) + 1, changed);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, at(i - 2, j - 2) + 1);
      row.push(least);
    }
  }
  return at(a.length, b.length);
}
