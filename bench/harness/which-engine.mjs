// @ts-check
/** In: the outcome of a run. Out: a row for each CLI and engine: what it takes, what it keeps, and how calls and history are sent. */
import { aligned, shown } from "./report.mjs";

/** @typedef {import("./bench.mjs").ContenderResult} ContenderResult */

/** Nothing is kept, and the whole thread is the prompt. */
const PROMPT = ["in the text", "the prompt's text"];
const NATIVE = ["native", "native"];

/**
 * The contenders of the loops, and of calls one after the other, that are an engine.
 * @type {readonly { bench: string, of: string, contender: string, title: string, facts: string[] }[]}
 */
const ROWS = [
  // A session gets what is new natively; what no session knows is text.
  {
    bench: "loop",
    of: "loop",
    contender: "live",
    title: "claude live",
    facts: ["native", "native in its session, else text"],
  },
  { bench: "loop", of: "loop", contender: "print", title: "claude print", facts: PROMPT },
  { bench: "loop", of: "codex", contender: "codexLive", title: "codex live", facts: NATIVE },
  { bench: "loop", of: "codex", contender: "codexPrint", title: "codex print", facts: PROMPT },
  { bench: "engines", of: "opencode", contender: "opencodeLive", title: "opencode live", facts: NATIVE },
  { bench: "engines", of: "opencode", contender: "opencodePrint", title: "opencode print", facts: PROMPT },
  { bench: "engines", of: "qwen", contender: "qwenLive", title: "qwen live", facts: NATIVE },
  { bench: "engines", of: "qwen", contender: "qwenPrint", title: "qwen print", facts: PROMPT },
  { bench: "engines", of: "qwen 0.15.10", contender: "qwenWarm", title: "qwen 0.15.10 warm", facts: PROMPT },
  { bench: "engines", of: "qwen 0.15.10", contender: "qwenCalls", title: "qwen 0.15.10 print", facts: PROMPT },
  { bench: "engines", of: "gemini", contender: "geminiWarm", title: "gemini warm", facts: PROMPT },
  { bench: "engines", of: "gemini", contender: "geminiPrint", title: "gemini print", facts: PROMPT },
  { bench: "engines", of: "grok", contender: "grokWarm", title: "grok warm", facts: PROMPT },
  { bench: "engines", of: "grok", contender: "grokPrint", title: "grok print", facts: PROMPT },
];

const FIGURES = /** @type {const} */ ([
  ["first", "ms", "start to first request, ms"],
  ["start", "ms", "first call, ms"],
  ["later", "ms", "later request, ms"],
  ["answer", "ms", "later call, ms"],
  ["memory", "MB", "at rest, MB"],
]);

/** @param {import("./report.mjs").Outcome} outcome */
export function whichEngine({ benches }) {
  const head = ["", "tool calls", "history", ...FIGURES.map(([, , title]) => title)];
  const rows = ROWS.map(({ bench, of, contender, title, facts }) => {
    const one = benches.find(({ name }) => name === bench)?.cases.find(({ name }) => name === of);
    const found = one?.contenders.find(({ name }) => name === contender);
    if (!found) throw new Error(`bench/results/full.json has no ${contender} in the case ${of} of the bench ${bench}`);
    return [title, ...facts, ...FIGURES.map(([figure, unit]) => shown(found.figures[figure]?.median, unit))];
  });
  // Benches are run on their own: what else the machine did then is not the same for all rows.
  const runs = ["loop", "engines"].map((name) => {
    const { date = "", load = Number.NaN, rounds, cases } = benches.find((bench) => bench.name === name) ?? {};
    const alone = (cases ?? []).map((of) => (of.load === undefined ? "" : ` (${of.name}: ${of.load.toFixed(1)})`));
    return `\`${name}\` ${date.slice(0, 10)}, rounds: ${rounds}, load ${load.toFixed(1)}${alone.join("")}`;
  });
  return `${aligned(head, rows, 3)}\n\nclaude and codex are from the bench ${runs[0]}; the others from ${runs[1]}.`;
}
