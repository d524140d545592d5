// @ts-check
/** The share of a conversation's input that an API finds in its prompt cache: undisturbed, and with changes and restarts in between. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { goal } from "../harness/bench.mjs";
import { SYSTEM, TOOL, taken } from "../harness/setting.mjs";

const TURNS = { full: 100, quick: 8 };
const WORDS = "The way goes on past the mill and over the bridge. ".repeat(8);

/** @typedef {"undisturbed" | "disturbed" | "print"} Way */

/**
 * The parts of a request in the order in which an API's prompt cache compares them: tools, system, and each block of each message.
 * @param {any} body
 */
function parts({ tools = [], system = [], messages }) {
  const plain = (/** @type {any} */ { cache_control: _, ...block }) => block;
  const blocks = (/** @type {any} */ content) =>
    typeof content === "string" ? [{ type: "text", text: content }] : content.map(plain);
  const told = messages.flatMap((/** @type {any} */ { role, content, ...rest }) => [
    // A message without blocks carries the effort from here on.
    ...(content.length === 0 ? [{ role, ...rest }] : []),
    ...blocks(content).map((/** @type {any} */ block) => ({ role, block })),
  ]);
  return [...tools.map(plain), ...blocks(system), ...told].map((part) => JSON.stringify(part, keysInOrder));
}

/** @param {string} _ @param {any} value */
function keysInOrder(_, value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/**
 * The share, in per cent of all bytes, that stood at the beginning of an earlier request.
 * @param {any[]} bodies
 */
function cachedShare(bodies) {
  const known = new Set();
  let cached = 0;
  let whole = 0;
  for (const body of bodies) {
    let beginning = "";
    for (const part of parts(body)) {
      beginning += `${part}\n`;
      whole += part.length;
      if (known.has(beginning)) cached += part.length;
      else known.add(beginning);
    }
  }
  return (100 * cached) / whole;
}

/** A provider's option or a call's for a turn, of which each is another one than that before. @param {number} turn */
function changes(turn) {
  const efforts = /** @type {const} */ (["low", "medium", "high"]);
  return {
    ...(turn % 10 < 5 ? {} : { reasoning: { effort: efforts[Math.floor(turn / 10) % 3] } }),
    ...(turn % 7 === 3 ? { maxOutputTokens: 4000 } : {}),
    ...(turn % 9 === 4 ? { stop: ["END"] } : {}),
  };
}

/** @param {Way} way @param {number} turns */
async function measure(way, turns) {
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  let turn = 0;
  // Every third turn the model calls the tool; it thinks in each.
  const api = await startAnthropic(() => ({
    content: [
      { type: "thinking", thinking: `Thought ${turn}: ${WORDS}`, signature: `SIG${turn}=` },
      ...(turn % 3 === 1 && way !== "print"
        ? [{ type: "tool_use", id: `toolu_${turn}`, name: `mcp__df__${TOOL.name}`, input: { n: turn } }]
        : [{ type: "text", text: `${turn}: ${WORDS}` }]),
    ],
  }));
  const claude = isolateClaude({ baseUrl: api.url });
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const engine = way === "print" ? "print" : "live";
  const sessions = way === "disturbed" ? { sessions: { store: join(folder, "sessions") } } : {};
  const { cliPath, env } = claude;
  const options = /** @type {const} */ ({
    cliPath,
    env,
    model: "claude-sonnet-5-5",
    engine,
    retry: false,
    ...sessions,
  });
  let provider = createClaudeCliProvider(options);
  const thread = /** @type {any[]} */ ([{ role: "system", content: SYSTEM }]);
  let restored = 0;
  try {
    for (; turn < turns; turn++) {
      if (way === "disturbed" && turn > 0 && turn % Math.ceil(turns / 4) === 0) {
        await provider.close();
        provider = createClaudeCliProvider(options);
      }
      const [call] = thread.at(-1)?.tool_calls ?? [];
      thread.push(
        call === undefined
          ? { role: "user", content: `${turn}: ${WORDS}` }
          : { role: "tool", tool_call_id: call.id, content: taken(turn) },
      );
      const answer = await provider.bindTools([TOOL]).invoke(thread, way === "disturbed" ? changes(turn) : {});
      const { content, tool_calls } = answer;
      if (answer.response_metadata.run?.session === "restored") restored++;
      thread.push({ role: "assistant", content, tool_calls });
    }
  } finally {
    await provider.close();
    await api.close();
    claude.cleanup();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  if (api.requests.length !== turns || restored !== (way === "disturbed" ? 3 : 0)) {
    throw new Error(`${api.requests.length} requests, ${restored} restored sessions`);
  }
  return { share: cachedShare(api.requests.map(({ body }) => body)) };
}

const name = (/** @type {number} */ turns) => `${turns} turns`;
/** @type {(way: Way, title: string, kind: import("../harness/bench.mjs").Kind) => import("../harness/bench.mjs").Contender} */
const contender = (way, title, kind) => ({
  title,
  kind,
  prepare: ({ turns }) => ({ measure: () => measure(way, turns) }),
});

/** @type {import("../harness/bench.mjs").Bench} */
export default {
  title: "what the prompt cache keeps",
  about:
    "The real claude, a scripted API that thinks, and calls a tool in every third turn; the thread comes back without its thinking. A request's cached share is what stood at the beginning of an earlier one, block by block; how long a cache lives is left out. Disturbed: effort, output limit and stop texts change in most turns, and the provider is a new one with a stored session three times.",
  figures: { share: { title: "cached share of the input", unit: "%" } },
  main: "share",
  cases: ({ quick }) => [TURNS[quick ? "quick" : "full"]].map((turns) => ({ name: name(turns), turns })),
  contenders: {
    disturbed: contender("disturbed", "changes and three restarts", "ours"),
    undisturbed: contender("undisturbed", "an undisturbed conversation", "floor"),
    print: contender("print", "print, a process for each call", "ours"),
  },
  rounds: { full: 1, quick: 1 },
  goals: (look) => {
    const of = (/** @type {Way} */ way) => look.median(name(TURNS.full), way, "share");
    return [
      goal(
        "changes and three restarts: at least 97 % of what an undisturbed conversation has",
        of("disturbed") / of("undisturbed"),
        (value) => value >= 0.97,
        (value) => `${(100 * value).toFixed(1)} %`,
      ),
    ];
  },
};
