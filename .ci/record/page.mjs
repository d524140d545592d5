// @ts-check
/**
 * One page about several CLIs: (what became of each) -> text. Its first line says what breaks; those that changed come next, each with
 * its own page.
 */

/**
 * A CLI that was held against its recordings, or why it could not be.
 * @typedef {{ set: string, page: string, changed: boolean, breaks: string[] } | { set: string, problem: string }} Compared
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
  const broken = all.flatMap((one) => {
    const breaks = "page" in one ? one.breaks : ["could not be asked"];
    return breaks.length === 0 ? [] : [`${one.set} (${breaks.join(", ")})`];
  });
  const first = broken.length === 0 ? "nothing breaks\n" : `breaks: ${broken.join("; ")}\n`;
  return { page: [first + head, ...pages, ...unchanged].join("\n"), changed: pages.length > 0 };
}
