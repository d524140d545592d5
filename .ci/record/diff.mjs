// @ts-check
/**
 * What a version of a CLI changed, on one page: (recordings of two versions) -> text. Touches no file and no process.
 */

/** @typedef {import("./run.mjs").Recording} Recording */
/** @typedef {import("./run.mjs").Verdict} Verdict */
/** @typedef {import("./sent.mjs").Sent} Sent */

import { partsOf } from "./sent-parts.mjs";

/** A flag nobody knows: that it is refused is the case. */
const BAD_FLAG = "err-bad-flag";
/** So much a request may differ between two machines: the system's name and the date are in some. */
const SAME_BYTES = 64;

/**
 * @param {string} set
 * @param {Recording[]} before
 * @param {Recording[]} after
 * @param {{ undecided: string[][], gone: string[][] }} [options] of its options, those without a decision and those that are no more, each with
 *   the list that it is in (`decisions.mjs`)
 * @param {{ added: string[][], gone: string[][] }} [sent] what its whole requests have that they had not, and the reverse
 * @returns {{ page: string, changed: boolean, breaks: string[] }} `breaks`: what of it users' calls will notice, in a few words each
 */
export function diffPage(set, before, after, options = { undecided: [], gone: [] }, sent = { added: [], gone: [] }) {
  const versions = [before, after].map((recordings) => recordings[0]?.meta.version ?? "nothing");
  const pairs = after.flatMap((now) => {
    const was = before.find(({ name }) => name === now.name);
    return was ? [{ name: now.name, was, now }] : [];
  });
  const refusals = refused(before, after);
  const misread = errors(pairs);
  const replies = pairs.flatMap(({ name, was, now }) => replyChange(name, was.meta.verdict, now.meta.verdict));
  const sections = [
    section(
      "cases whose exit code changed",
      pairs
        .filter(({ was, now }) => was.meta.exit_code !== now.meta.exit_code)
        .map(({ name, was, now }) => [name, `${exit(was)} -> ${exit(now)}`]),
    ),
    section("flags of ours that are refused", refusals),
    section("tools of the CLI's own that are new in its requests", toolsThat(after, before)),
    section("tools of the CLI's own that are gone from its requests", toolsThat(before, after)),
    section("first requests whose size changed", sizes(pairs)),
    section("parts of whole requests that are new", sent.added),
    section("parts of whole requests that are gone", sent.gone),
    section("event kinds that are new", missing(kinds(after), kinds(before))),
    section("event kinds that are gone", missing(kinds(before), kinds(after))),
    section(
      "errors that no rule knows any more",
      misread.filter(([, , code]) => code === "UNKNOWN"),
    ),
    section(
      "errors that are said to be something else",
      misread.filter(([, , code]) => code !== "UNKNOWN"),
    ),
    section(
      "errors that are worded anew",
      pairs.flatMap(({ name, was, now }) => wording(name, was.meta.verdict, now.meta.verdict)),
    ),
    section("replies that changed", replies),
    section("options that nobody has decided about", options.undecided),
    section("options that are gone", options.gone),
    section("cases that were not recorded before", unmatched(after, before)),
    section("cases that are not run any more", unmatched(before, after)),
  ];
  const found = sections.filter((text) => text !== "");
  const head = `${set}: recorded ${versions[0]}, installed ${versions[1]}; ${after.length} cases\n`;
  return {
    page: found.length === 0 ? `${head}\nnothing changed\n` : `${head}\n${found.join("\n")}`,
    changed: found.length > 0,
    breaks: [
      ...refusals.flatMap(([flag, what]) => (what?.startsWith("needed") ? [`refuses ${flag}`] : [])),
      ...counted(misread, "error is told as another", "errors are told as others"),
      ...counted(replies, "reply is another", "replies are others"),
    ],
  };
}

/**
 * What whole requests have that they had not, and the reverse, each with the forms that show it.
 * @param {Sent} before
 * @param {Sent} after
 */
export function diffSent(before, after) {
  const [was, now] = [partsOf(before), partsOf(after)];
  const gone = missing(was, now);
  // Whether a CLI gets to try a host before it ends depends on the moment.
  return { added: missing(now, was), gone: gone.filter(([part = ""]) => !part.startsWith("tries ")) };
}

/**
 * @param {unknown[]} found
 * @param {string} one
 * @param {string} several
 */
const counted = ({ length }, one, several) => (length === 0 ? [] : [`${length} ${length === 1 ? one : several}`]);

/**
 * @param {string} title
 * @param {string[][]} rows the first word of each is aligned; of more than two, the third is not shown
 */
function section(title, rows) {
  if (rows.length === 0) return "";
  const width = Math.max(...rows.map(([first = ""]) => first.length));
  const lines = rows.map(([first = "", second]) =>
    second === undefined ? first : `${first.padEnd(width)}  ${second}`,
  );
  return `${title} (${rows.length})\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

/** @param {Recording} recording */
const exit = ({ meta: { exit_code } }) => (exit_code === null ? "ended by the provider" : String(exit_code));

/**
 * Flags that were taken before and are refused now: left out, or an error where they are needed.
 * @param {Recording[]} before
 * @param {Recording[]} after
 */
function refused(before, after) {
  /** @type {(recordings: Recording[]) => Map<string, string>} */
  const flags = (recordings) => {
    const found = new Map();
    for (const { name, meta } of recordings) {
      for (const flag of meta.dropped) found.set(flag, "left out, and asked again");
      if (name !== BAD_FLAG && "error" in meta.verdict && meta.verdict.error.code === "UNSUPPORTED_FLAG") {
        const flag = /^unknown option (\S+?)\.? /.exec(meta.verdict.error.message)?.[1] ?? meta.verdict.error.message;
        found.set(flag, "needed: every call fails");
      }
    }
    return found;
  };
  const old = flags(before);
  return [...flags(after)].filter(([flag, what]) => old.get(flag) !== what);
}

/**
 * Kinds of events of all cases, and the first case that shows each.
 * @param {Recording[]} recordings
 * @returns {Map<string, string>}
 */
function kinds(recordings) {
  const found = new Map();
  for (const { name, stdout } of recordings) {
    for (const event of events(stdout)) {
      const kind = kindOf(event);
      if (kind !== undefined && !found.has(kind)) found.set(kind, name);
    }
  }
  return found;
}

/**
 * @param {string} stdout JSON lines, or one JSON value
 * @returns {any[]}
 */
function events(stdout) {
  try {
    return [JSON.parse(stdout)].flat();
  } catch {
    return stdout.split("\n").flatMap((line) => {
      try {
        return [JSON.parse(line)].flat();
      } catch {
        // Text, or noise between events.
        return [];
      }
    });
  }
}

/**
 * `system/init`, `item.completed/agent_message`, `stream_event/message_start`; of an object without a type, its members' names.
 * @param {any} event
 */
function kindOf(event) {
  if (event === null || typeof event !== "object") return undefined;
  if (typeof event.type !== "string") return `{${Object.keys(event).sort().join(",")}}`;
  const detail = event.subtype ?? event.item?.type ?? event.event?.type ?? event.part?.type ?? event.role;
  return typeof detail === "string" ? `${event.type}/${detail}` : event.type;
}

/**
 * @param {Map<string, string>} of
 * @param {Map<string, string>} than
 */
const missing = (of, than) => [...of].filter(([kind]) => !than.has(kind)).map(([kind, name]) => [kind, `in ${name}`]);

/** @param {{ name: string, was: Recording, now: Recording }[]} pairs */
function errors(pairs) {
  return pairs.flatMap(({ name, was, now }) => {
    if (!("error" in now.meta.verdict)) return [];
    const { code, message } = now.meta.verdict.error;
    const old = "error" in was.meta.verdict ? was.meta.verdict.error.code : "a reply";
    return old === code ? [] : [[name, `${old} -> ${code}: ${message}`, code]];
  });
}

/**
 * @param {string} name
 * @param {Verdict} was
 * @param {Verdict} now
 */
function wording(name, was, now) {
  if (!("error" in was && "error" in now) || was.error.code !== now.error.code) return [];
  if (was.error.message === now.error.message) return [];
  return [[name, `${JSON.stringify(was.error.message)} -> ${JSON.stringify(now.error.message)}`]];
}

/**
 * Names of tools in requests of `of`, and the first case that shows each, where no request of `than` has them.
 * @param {Recording[]} of
 * @param {Recording[]} than
 */
function toolsThat(of, than) {
  const known = new Set(than.flatMap(({ meta }) => meta.request?.tools ?? []));
  const found = new Map();
  for (const { name, meta } of of) {
    for (const tool of meta.request?.tools ?? [])
      if (!known.has(tool) && !found.has(tool)) found.set(tool, `in ${name}`);
  }
  return [...found];
}

/**
 * Most cases ask the same, so those with the same change are one row.
 * @param {{ name: string, was: Recording, now: Recording }[]} pairs
 */
function sizes(pairs) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const { name, was, now } of pairs) {
    const [old, young] = [was.meta.request?.bytes, now.meta.request?.bytes];
    if (old === undefined || young === undefined || Math.abs(young - old) <= Math.max(SAME_BYTES, old / 100)) continue;
    const change = `${old} -> ${young} bytes`;
    found.set(change, [...(found.get(change) ?? []), name]);
  }
  return [...found].map(([change, [first = "", ...more]]) => [
    more.length === 0 ? first : `${first} and ${more.length} more`,
    change,
  ]);
}

/**
 * @param {string} name
 * @param {Verdict} was
 * @param {Verdict} now
 */
function replyChange(name, was, now) {
  if (!("reply" in now)) return [];
  if (!("reply" in was)) return [[name, `${was.error.code} -> a reply`]];
  // That the version is another one is on the page's first line.
  const members = Object.keys({ ...was.reply, ...now.reply }).filter((member) => member !== "cli_version");
  /** @type {(reply: object) => Record<string, string>} */
  const texts = (reply) =>
    Object.fromEntries(members.map((member) => [member, JSON.stringify(/** @type {any} */ (reply)[member])]));
  const [old, young] = [texts(was.reply), texts(now.reply)];
  return members
    .filter((member) => old[member] !== young[member])
    .map((member) => [name, `${member}: ${old[member]} -> ${young[member]}`]);
}

/**
 * @param {Recording[]} of
 * @param {Recording[]} than
 */
const unmatched = (of, than) =>
  of.filter(({ name }) => !than.some((other) => other.name === name)).map(({ name }) => [name]);
