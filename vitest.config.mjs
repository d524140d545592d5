// @ts-check
/**
 * Which test files run, and in which order. A file's first line may be a mark, which doesn't count where a file is named on the command line:
 *
 * - `// @change`: the widths of what a file without a mark has a sample of, most of them one table over many real CLIs, and single options
 *   that a change elsewhere seldom breaks. It runs with `.ci/run` (TEST_CHANGE) and with `--all`.
 * - `// @release`: slow, and guards a release: whole suites of CLIs that change seldom here, other majors of the frameworks, bundlers,
 *   conformance. It runs with `npm test -- --all` (TEST_ALL).
 * - `// @long`: takes long, and is begun before those without a mark: begun last, it would keep a worker busy while the others have
 *   nothing left. (Vitest would go by its last run, and in a clean clone, which has none, by the size of a file.)
 */
import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";

// A Node that is told of a machine's own certificates reads them at each start, which then takes three times as long, and so do the CLIs.
// The tests' servers need none; what installs a package gets them back (`__tests__/support/installed.mjs`).
const { NODE_EXTRA_CA_CERTS } = process.env;
if (NODE_EXTRA_CA_CERTS) {
  process.env.TEST_CA_CERTS = NODE_EXTRA_CA_CERTS;
  delete process.env.NODE_EXTRA_CA_CERTS;
}

const TESTS = readdirSync(new URL("__tests__", import.meta.url), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".test.ts"))
  .map((file) => `__tests__/${file.replaceAll("\\", "/")}`);

/** The test files that begin with `mark`. @param {string} mark */
function filesMarked(mark) {
  const line = Buffer.from(`// ${mark}\n`);
  const head = Buffer.alloc(line.length);
  return TESTS.filter((file) => {
    const open = openSync(new URL(file, import.meta.url), "r");
    try {
      return readSync(open, head, 0, line.length, 0) === line.length && head.equals(line);
    } finally {
      closeSync(open);
    }
  });
}

const LONG = [...filesMarked("@long"), ...filesMarked("@change")];

/** What this run leaves out: nothing where files are named. */
function leftOut() {
  if (process.env.TEST_ALL || process.argv.some((arg) => arg.endsWith(".test.ts"))) return [];
  return [...filesMarked("@release"), ...(process.env.TEST_CHANGE ? [] : filesMarked("@change"))];
}

/** The tables over every live CLI first, which take longest and are small files, then the long ones, otherwise Vitest's order. */
class LongFirst extends BaseSequencer {
  /** @override @type {import("vitest/node").TestSequencer["sort"]} */
  async sort(files) {
    /** @param {{ moduleId: string }} file */
    const rank = ({ moduleId }) => {
      if (moduleId.includes("/__tests__/live/")) return 0;
      return LONG.some((name) => moduleId.endsWith(`/${name}`)) ? 1 : 2;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    include: ["__tests__/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...leftOut()],
    // Much of a test's time is waiting, for processes and for limits of time: with a worker per core, cores are idle; with two per core,
    // the CLIs take the caches from each other, and all takes 5 % longer. A number: of a percentage, Vitest takes the cores at most.
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    sequence: { sequencer: LongFirst },
    // Real CLIs on a loaded machine: a limit for what hangs, not a measure of speed.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
