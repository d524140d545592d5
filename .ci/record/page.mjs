// @ts-check
/**
 * One page about several CLIs: (what became of each) -> text. Those that changed come first, each with its own page.
 */

/**
 * A CLI that was held against its recordings, or why it could not be.
 * @typedef {{ set: string, page: string, changed: boolean } | { set: string, problem: string }} Compared
 */

/**
 * @param {Compared[]} all
 * @returns {{ page: string, changed: boolean }}
 */
export function pageOfAll(all) {
  const same = all.filter((one) => "page" in one && !one.changed);
  const pages = all
    .filter((one) => !same.includes(one))
    .map((one) => ("page" in one ? one.page : `${one.set}: could not be asked\n\n  ${one.problem}\n`));
  const heads = same.map((one) => ("page" in one ? `  ${one.page.split("\n", 1)[0]}\n` : ""));
  const head = `${pages.length} of ${all.length} CLIs differ from their recordings\n`;
  const unchanged = heads.length === 0 ? [] : [`nothing changed in\n${heads.join("")}`];
  return { page: [head, ...pages, ...unchanged].join("\n"), changed: pages.length > 0 };
}
