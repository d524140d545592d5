// @ts-check
/**
 * What each engine does about each error, as examples/fleet/README.md shows it.
 *
 * In: the codes of docs/reference/errors.md, and `whatToDo` of examples/fleet. Out: the table's lines.
 */
import { ProviderError } from "deep-factor-providers/native";

/** @typedef {{ code: string, category: string, shouldRetry: boolean }} Listed */
/** @typedef {(error: ProviderError, leaseMs: number) => { do: "delay", until: number } | { do: "retry" } | { do: "bury" }} Decide */

const LEASE_MS = 30_000;

/**
 * Every code that docs/reference/errors.md lists.
 * @param {string} text of docs/reference/errors.md
 * @returns {Listed[]}
 */
export function listedCodes(text) {
  const [, listed = ""] = /<!-- codes -->([\s\S]*)<!-- \/codes -->/.exec(text) ?? [];
  return listed.split(/^### /m).flatMap((section) => {
    const [category = ""] = /^\w+/.exec(section) ?? [];
    const [, again] = new RegExp(`^\\| \`${category}\` \\| (yes|no) \\|`, "m").exec(text) ?? [];
    return Array.from(section.matchAll(/^- `(\w+)`: /gm), ([, code = ""]) => ({
      ...{ code, category, shouldRetry: again === "yes" },
    }));
  });
}

/**
 * An error as a provider makes it.
 * @param {Listed} listed
 * @param {Date | undefined} resetsAt
 */
export const errorOf = (listed, resetsAt) =>
  new ProviderError(
    /** @type {any} */ ({
      ...{ ...listed, message: "for the table", provider: "claude", shouldFallback: false },
      ...(resetsAt && { resetsAt }),
    }),
  );

/** What each action is called in the table; what an engine makes of it stands above the table. */
const NAMES = { delay: "delay", retry: "retry", bury: "give up" };

/**
 * @param {Listed[]} codes
 * @param {Decide} decide
 */
export function retryTable(codes, decide) {
  /** @type {Map<string, { category: string, when: string, codes: string[], action: keyof typeof NAMES }>} */
  const rows = new Map();
  /** @param {Listed} listed @param {string} when @param {keyof typeof NAMES} action */
  const add = (listed, when, action) => {
    const key = `${listed.category} ${when} ${action}`;
    const row = rows.get(key) ?? { category: listed.category, when, codes: [], action };
    row.codes.push(`\`${listed.code}\``);
    rows.set(key, row);
  };
  for (const listed of codes) {
    const moment = new Date(Date.now() + 3_600_000);
    const known = decide(errorOf(listed, moment), LEASE_MS);
    const unknown = decide(errorOf(listed, undefined), LEASE_MS);
    const isUntilMoment = known.do === "delay" && known.until === moment.getTime();
    if (isUntilMoment) add(listed, "known", known.do);
    if (unknown.do === "delay") add(listed, "when the lease has run out", unknown.do);
    else add(listed, isUntilMoment ? "not known" : "–", unknown.do);
  }
  return [
    "| category | code | when it may go on | what |",
    "|---|---|---|---|",
    ...Array.from(
      rows.values(),
      ({ category, when, codes, action }) => `| \`${category}\` | ${codes.join(", ")} | ${when} | ${NAMES[action]} |`,
    ),
  ].join("\n");
}
