// @ts-check
/**
 * The real claude with a scripted API that answers at once: where agents are compared.
 *
 * In flows what the model is to say. Out flow the CLI's environment, and a protocol of when a call was made and when its
 * request arrived.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startAnthropic } from "../../__tests__/support/anthropic.mjs";
import { isolateClaude } from "../../__tests__/support/claude.mjs";
import { markIn, writeToolCalls } from "../../__tests__/support/model.mjs";

export const SYSTEM = "Take ten steps.";
export const QUESTION = "Go.";
const SCHEMA = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
export const TOOL = { name: "step", description: "Takes one step", schema: SCHEMA };
/** What the tool answers. @param {number} n */
export const taken = (n) => `Step ${n} is taken.`;

/** @typedef {import("../../__tests__/support/anthropic.mjs").Answer} Answer */
/** How the model calls tools: in the API's way, or written into its text. @typedef {"native" | "written"} Speech */

/**
 * A model that calls the tool in all but its last answer.
 * @param {Speech} speech
 * @param {number} steps
 * @returns {(request: { body: any }, n: number) => Answer}
 */
function stepping(speech, steps) {
  return ({ body }, n) => {
    if (n >= steps - 1) return { text: "Arrived." };
    if (speech === "written") {
      return { text: writeToolCalls([{ name: TOOL.name, args: { n }, id: `call_${n}` }], markIn(body)) };
    }
    return { content: [{ type: "tool_use", id: `toolu_${n}`, name: `mcp__df__${TOOL.name}`, input: { n } }] };
  };
}

/** @typedef {Awaited<ReturnType<typeof createSetting>>} Setting */

/** @typedef {{ speech: Speech, steps: number }} Script one step: the model only talks */

/** @param {Script} script */
export async function createSetting({ speech, steps }) {
  /** @type {number[]} */
  const arrivals = [];
  /** @type {number[]} */
  const calls = [];
  const answer = stepping(speech, steps);
  const api = await startAnthropic((request, n) => {
    arrivals.push(performance.now());
    return steps === 1 ? { text: "Fine." } : answer(request, n);
  });
  const claude = isolateClaude({ baseUrl: api.url });
  const cwd = mkdtempSync(join(tmpdir(), "dfp-bench-"));
  const whole = Object.entries({ ...process.env, ...claude.env }).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return {
    api,
    cliPath: claude.cliPath,
    /** The CLI's own binary, behind any wrapper. */
    nativePath: claude.cliPath,
    model: "sonnet",
    /** To be merged over the process's own. */
    env: claude.env,
    /** All of it, for who replaces the process's own. @type {Record<string, string>} */
    wholeEnv: Object.fromEntries(whole),
    cwd,
    steps,
    /** A call is made now. */
    call: () => calls.push(performance.now()),
    /** From each call to its request's arrival, ms. Calls nobody made are those of who goes on by itself: not counted. */
    waits: () => calls.map((at, n) => (arrivals[n] ?? Number.NaN) - at),
    async close() {
      await api.close();
      claude.cleanup();
      rmSync(cwd, { recursive: true, force: true, maxRetries: 5 });
      if (api.violations.length > 0) throw new Error(`the scripted API: ${api.violations.join("; ")}`);
    },
  };
}
