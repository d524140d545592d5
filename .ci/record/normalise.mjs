// @ts-check
/**
 * What differs between two runs of the same CLI, replaced by what does not: (text of a run, its folders) -> text.
 *
 * The replacements keep the text as decodable as it was: a number stays a number, an id is still told from another.
 */

/**
 * @typedef {object} Places
 * @property {string} home of the run
 * @property {string} cli the binary's folder
 * @property {string} tee the stand-in's folder
 * @property {string} [cache] where the CLI unpacks itself
 */

const UUID = /\b[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}\b/g;
/** opencode's: a prefix, 12 hexadecimal digits of time, 14 letters. */
const PREFIXED = /\b(ses|msg|prt)_[\da-f]{12}[A-Za-z\d]{14}\b/g;
const ISO = /\b\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?(?:Z|[+-]\d\d:\d\d)\b/g;
const HTTP_DATE = /\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\b/g;
/** Where a package is installed, however deep: stacks of a CLI name its real path, which is another than that of its link. */
const INSTALLED = /(file:\/\/|(?<![:\w/]))\/[^\s"'()<>:]+?\/node_modules\//g;
const EPOCH_MS = /\b1[6-9]\d{11}\b/g;
/** JSON's `"duration_ms": 12`, `"totalLatencyMs":3`; not `"retry_after_ms"`, which an API says. */
const CLOCKS = /("(?!retry)\w*(?:_ms|Ms|duration|latency|ttft\w*)"\s*:\s*)\d+(?:\.\d+)?/g;

/** @returns {(text: string, places: Places) => string} one for all texts of a run, so that an id stays the same in all */
export function normaliser() {
  /** @type {Map<string, string>} */
  const ids = new Map();
  /** @type {(id: string, name: (number: number) => string) => string} */
  const named = (id, name) => {
    const known = ids.get(id) ?? name(ids.size + 1);
    ids.set(id, known);
    return known;
  };
  return (text, { home, cli, tee, cache = tee }) =>
    text
      .replaceAll(tee, "/opt/tee")
      .replaceAll(cache, "/home/user/.cache")
      .replaceAll(home, "/home/user")
      .replaceAll(cli, "/opt/cli")
      .replace(INSTALLED, "$1/opt/cli/node_modules/")
      .replace(/[^\s"'=,:(]*deep-factor-\w{6}/g, (path) =>
        path.replace(/^.*deep-factor-\w{6}$/, "/tmp/deep-factor-RUN"),
      )
      .replace(/(127\.0\.0\.1|localhost):\d+/g, "$1:PORT")
      .replace(UUID, (id) => named(id, (number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`))
      .replace(PREFIXED, (id, prefix) => named(id, (number) => `${prefix}_${String(number).padStart(26, "0")}`))
      .replace(ISO, "2026-01-01T00:00:00.000Z")
      .replace(HTTP_DATE, "Thu, 01 Jan 2026 00:00:00 GMT")
      .replace(EPOCH_MS, "1767225600000")
      .replace(CLOCKS, "$10")
      .replace(/\(node:\d+\)/g, "(node:PID)")
      .replace(/(\/cc-socks\/)\d+(?=\.sock)/g, "$1PID")
      .replace(/((?:local|remote)Port: )\d+/g, "$1PORT")
      // gemini's clock of its own start: told or not, as it comes.
      .replace(/^\[STARTUP\] .*\n/gm, "");
}
