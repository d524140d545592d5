// @ts-check
/**
 * A real CLI, a scripted API and provider options over both, for one test.
 *
 * In flows a script of answers; out flow the options, the recorded requests and the isolated home. All of it is ended with the
 * test, which fails if the CLI asked for more than the script had.
 */
import { createClaudeCliProvider } from "deep-factor-providers";
import { afterAll, onTestFailed, onTestFinished } from "vitest";
import { startAnthropic } from "./anthropic.mjs";
import { isolateClaude, versionOf } from "./claude.mjs";
import { CLIS, findCli, isolateCli } from "./clis.mjs";
import { installed, OLDEST_CLAUDE } from "./installed.mjs";
import { createTag } from "./processes.mjs";

/** Whether everything is run (`npm test -- --all`, TEST_ALL); otherwise what a change is likely to break, in a few minutes. */
export const ALL = Boolean(process.env.TEST_ALL);

/** Whether every change's is run, or more (`.ci/run`, TEST_CHANGE); otherwise what an engineer waits for while working. */
export const WIDE = ALL || Boolean(process.env.TEST_CHANGE);

/**
 * What a test is run with: `all`, or the first `count` of it where not everything is run.
 * @template T
 * @param {readonly T[]} all
 * @param {number} [count]
 * @returns {readonly T[]}
 */
export function sampleOf(all, count = 1) {
  return ALL ? all : all.slice(0, count);
}

/**
 * The rows of a table that one of several engines runs where both read them by the same code: each row is run by one of them, and by
 * all with `--all`.
 * @template T
 * @param {readonly T[]} all
 * @param {number} which of the engines, from 0
 * @param {number} engines their number
 * @returns {readonly T[]}
 */
export function shareOf(all, which, engines) {
  return ALL ? all : all.filter((_, row) => row % engines === which);
}

/** The versions of claude that tests run with: the oldest otherwise only where {@link RUNS} are run. */
export const VERSIONS = sampleOf(/** @type {("newest" | "oldest")[]} */ (["newest", "oldest"]));

/** The same, and one between them: for what is measured with each version that was looked at. */
export const MEASURED_VERSIONS = sampleOf(
  /** @type {import("./claude.mjs").Which[]} */ (["newest", "2.1.330", "oldest"]),
);

/** Every version with every engine. */
const EVERY_RUN = /** @type {const} */ ([
  ["newest", "print"],
  ["oldest", "live"],
  ["newest", "live"],
  ["oldest", "print"],
]);

/** What a test runs with that holds for both engines: every pair, each version and each engine once, or one of them. */
export const RUNS = sampleOf(EVERY_RUN, WIDE ? 2 : 1);

/** What a test runs with that has a test of its own for each engine elsewhere: every pair, or what most people have. */
export const MAIN_RUN = ALL
  ? EVERY_RUN
  : EVERY_RUN.filter(([which, engine]) => which === "newest" && engine === "live");

/**
 * Takes what ends something.
 * @typedef {(end: () => void | Promise<void>) => void} Until
 */

/**
 * How the tests of a `describe` share a CLI's process, because each start of some CLIs takes seconds of the processor: `open` is called
 * for the first of them, and anew behind one that has failed; what it opens is ended behind the last. Each test has a script of its own,
 * and none of the others' requests.
 * @template {{ api: import("./scripted.mjs").ScriptedServer }} T
 * @template S
 * @param {(answer: (index: number, ...asked: any[]) => any, until: Until) => Promise<T>} open with an API that answers the request `index`
 *   by `answer`; a script's functions get what is `asked`
 * @returns {(script: S) => Promise<T>}
 */
export function sharing(open) {
  /** @type {Parameters<Until>[0][]} */
  let ends = [];
  /** @type {T | undefined} */
  let shared;
  /** @type {any} */
  let script;
  const end = async () => {
    const all = ends.reverse();
    [ends, shared] = [[], undefined];
    for (const one of all) await one();
  };
  afterAll(end);
  /** @type {(index: number, ...asked: any[]) => any} */
  const answer = (index, ...asked) => {
    const entry = Array.isArray(script) ? script[index] : script;
    if (entry === undefined) throw new Error(`no answer left (the script has ${script.length})`);
    return typeof entry === "function" ? entry(...asked) : entry;
  };
  return async (own) => {
    script = own;
    shared ??= await open(answer, (one) => void ends.push(one));
    const { api } = shared;
    api.requests.length = 0;
    onTestFailed(end);
    onTestFinished(() => {
      const violations = api.violations.splice(0);
      if (violations.length > 0) throw new Error(violations.join("\n"));
    });
    return shared;
  };
}

/**
 * What several tests of a `describe` look at, because each start of some CLIs takes a second of the processor: it is run for the first
 * of them that asks, and ended behind the last.
 * @template T
 * @param {(until: Until) => Promise<T>} run
 * @returns {() => Promise<T>}
 */
export function sharedRun(run) {
  /** @type {Parameters<Until>[0][]} */
  const ends = [];
  /** @type {Promise<T> | undefined} */
  let running;
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
  });
  return () => {
    running ??= run((end) => void ends.push(end));
    return running;
  };
}

/**
 * A provider that is closed with the test: a live one keeps its process otherwise.
 * @param {import("deep-factor-providers").ClaudeCliProviderOptions} options
 */
export function createProvider(options) {
  const provider = createClaudeCliProvider(options);
  onTestFinished(() => provider.close());
  return provider;
}

/**
 * @typedef {object} Setup
 * @property {import("./claude.mjs").Which} [which] default "newest"
 * @property {"print" | "live"} [engine] default: not said
 * @property {import("./anthropic.mjs").Script} script
 * @property {Record<string, string | undefined>} [env] for the CLI, over the isolated one
 * @property {boolean} [mayRunOut] the script may be asked for more than it has
 * @property {Until} [until] default: all of it is ended with the test
 */

/** @param {Setup} setup */
export async function withClaude({
  which = "newest",
  engine,
  script,
  env = {},
  mayRunOut = false,
  until = onTestFinished,
}) {
  if (which !== "newest") await installed(OLDEST_CLAUDE, versionOf(which));
  const api = await startAnthropic(script);
  const claude = isolateClaude({ which, baseUrl: api.url, env });
  until(async () => {
    await api.close();
    claude.cleanup();
    if (!mayRunOut && api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  return {
    api,
    home: claude.home,
    version: claude.version,
    options: { cliPath: claude.cliPath, env: claude.env, model: "sonnet", ...(engine && { engine }) },
  };
}

/**
 * @typedef {object} CliSetup
 * @property {import("./clis.mjs").Script} script
 * @property {boolean} [mayRunOut] the script may be asked for more than it has
 * @property {string} [version] of the CLI; default: the one that was measured
 * @property {Until} [until] default: all of it is ended with the test
 */

/**
 * The same for the other CLIs, with the processes of its runs marked.
 * @param {import("./clis.mjs").CliName} name
 * @param {CliSetup} setup
 */
export async function withCli(name, { script, mayRunOut = false, version, until = onTestFinished }) {
  const api = await CLIS[name].startApi(script);
  const tag = createTag();
  const cliPath = version === undefined ? undefined : await findCli(name, version);
  const cli = await isolateCli(name, api.url, { cliPath, env: tag.env });
  until(async () => {
    await api.close();
    cli.cleanup();
    if (!mayRunOut && api.violations.length > 0) throw new Error(api.violations.join("\n"));
  });
  /** @param {object} [more] further options */
  const create = (more) => {
    const provider = CLIS[name].create({ ...cli.options, ...more });
    until(() => provider.close());
    return provider;
  };
  return { api, tag, home: cli.home, options: cli.options, create };
}
