// @ts-check
/**
 * What a test assumes of the system it runs on: `describe.skipIf(lacks("signals"))("…", …)` says so in one word.
 *
 * In flows the word; out flows whether this system lacks the thing. `sign` is what a test that uses it looks like, by which
 * `__tests__/tooling/systems.test.ts` finds those that don't say so.
 */

/** @typedef {{ what: string, on: "unix" | "linux", sign?: RegExp }} Thing */

const THINGS = /** @type {const} @satisfies {Record<string, Thing>} */ ({
  signals: {
    what: "a process can be asked to end, stopped and told something; one that was killed says by what",
    on: "unix",
    sign: /kill\([^;\n]*"SIG(?!KILL)|\bonSignal\b|\bignoreTerm\b|"setsid"/,
  },
  modes: {
    what: "who may read and run a file is a number",
    on: "unix",
    sign: /\bchmod(Sync)?\(|\bmode & 0o|\bumask\b/,
  },
  scripts: {
    what: "a text that begins with #! is a program, a shell's too",
    on: "unix",
    sign: /#!\/|\.shell\(|"\/bin\//,
  },
  devices: { what: "/dev, and pipes with a name", on: "unix", sign: /"\/dev\/(?!null)|mkfifo/ },
  links: {
    what: "everybody may make symbolic links",
    on: "unix",
    sign: /\bsymlink(Sync)?\((?![^;]*"junction")/,
  },
  sockets: { what: "a socket can be a file", on: "unix" },
  processes: { what: "processes are found by their environment", on: "unix", sign: /\bcreateTag\(/ },
  procfs: { what: "everything about a process is a file", on: "linux", sign: /["'`]\/proc\// },
  trial: { what: "somebody has tried it there: it may work elsewhere, too", on: "unix" },
});

/**
 * Whether this system lacks one of the things that a test needs.
 * @param {...keyof typeof THINGS} words
 * @returns {boolean}
 */
export function lacks(...words) {
  return words.some((word) =>
    THINGS[word].on === "linux" ? process.platform !== "linux" : process.platform === "win32",
  );
}

/**
 * The things that a test file uses without a word about it.
 * @param {string} text the file's
 * @returns {string[]}
 */
export function unsaid(text) {
  const said = [...text.matchAll(/lacks\(([^)]*)\)/g)].map(([, words]) => words).join();
  // What needs Linux alone, or the CLIs that are only there, says enough.
  if (/HERE\b|describeReal\(/.test(text) || said.includes("procfs")) return [];
  return Object.entries(THINGS).flatMap(([word, thing]) =>
    "sign" in thing && thing.sign.test(text) && !said.includes(`"${word}"`) ? [word] : [],
  );
}
