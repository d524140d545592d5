// @ts-check
/**
 * An agent's loop as Node's thread sees it: of a thread that grows by a text at each step, how long `invoke` holds the thread until it
 * returns its promise, at first and at last.
 *
 * The CLI is a fake one that answers at once, live or in print form: what it does is on other threads and in other processes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createFakes } from "../../__tests__/support/fake.mjs";
import { fakeCli } from "../../__tests__/support/processes.mjs";
import { median } from "./stats.mjs";

const FAKE_LIVE = fileURLToPath(new URL("../../__tests__/support/fake-live.mjs", import.meta.url));

/** @typedef {import("./plain.mjs").Message} Message */
/** @typedef {{ steps: number, bytes: number }} Size */
/** The thread of a step, of that of the step before, which it is behind. @typedef {(before: readonly any[], texts: readonly string[]) => any[]} Grow */

/** What is measured of so many steps at each end: one alone is the machine's mood. */
const ENDS = 5;

export const SIZES = {
  full: { "200 × 5 KB": [200, 5_000], "50 × 100 KB": [50, 100_000] },
  quick: { "10 × 5 KB": [10, 5_000] },
};

/** A step's text. @param {number} n @param {number} bytes */
const textOf = (n, bytes) => `Step ${n}: `.padEnd(bytes, "some of the file's lines, and more of them\n");

/** @param {string} text @returns {Message[]} */
const plain = (text) => [
  { type: "ai", content: "ok" },
  { type: "human", content: text },
];

/** @type {Grow} */
const kept = (before, texts) => [...before, ...plain(texts.at(-1) ?? "")];
/** @type {Grow} */
const rebuilt = (_, texts) => texts.flatMap(plain);
/** @type {Grow} */
const reread = (_, texts) => JSON.parse(JSON.stringify(texts.flatMap(plain)));

/** @returns {Promise<Grow>} */
async function langchain() {
  const { AIMessage, HumanMessage } = await import("@langchain/core/messages");
  return (before, texts) => [...before, new AIMessage("ok"), new HumanMessage(texts.at(-1) ?? "")];
}

/** @type {Record<string, { title: string, live: boolean, grow: () => Grow | Promise<Grow> }>} */
export const GROWING = {
  growing: { title: "live, the same objects", live: true, grow: () => kept },
  growingLangchain: { title: "live, LangChain's messages", live: true, grow: langchain },
  growingRebuilt: { title: "live, objects made anew", live: true, grow: () => rebuilt },
  growingReread: { title: "live, objects and texts made anew", live: true, grow: () => reread },
  growingPrint: { title: "print, the same objects", live: false, grow: () => kept },
};

/**
 * @param {(typeof GROWING)[string]} way
 * @param {Size} size
 */
export async function measureGrowing({ live, grow }, { steps, bytes }) {
  const { createClaudeCliProvider } = await import("deep-factor-providers/native");
  const next = await grow();
  const fakes = createFakes();
  const folder = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const provider = live
    ? createClaudeCliProvider({
        cliPath: fakes.shell("claude", `claude='${process.execPath}'\nexec "$claude" '${FAKE_LIVE}' '${folder}' "$@"`),
        engine: "live",
      })
    : createClaudeCliProvider({
        cliPath: fakeCli(),
        env: { FAKE_CLI: JSON.stringify(["readAll", { claude: { text: "ok" } }]) },
        engine: "print",
      });
  try {
    /** @type {string[]} */
    const texts = [];
    const held = [];
    /** @type {any[]} */
    let thread = [];
    for (let n = 0; n < steps; n++) {
      texts.push(textOf(n, bytes));
      thread = next(thread, texts);
      const began = performance.now();
      const asked = provider.invoke(thread);
      held.push(performance.now() - began);
      await asked;
    }
    const whole = Array.from({ length: ENDS }, () => {
      const began = performance.now();
      JSON.stringify(thread);
      return performance.now() - began;
    });
    return { second: median(held.slice(1, 1 + ENDS)), last: median(held.slice(-ENDS)), stringify: median(whole) };
  } finally {
    await provider.close();
    fakes.cleanup();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
