// @change
/** Kept processes that are stopped, starved or killed: each case with one form. `distress-table.test.ts` has every state and everything that is done about it. */
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { type Case, runCases } from "../support/distress.mjs";
import { ALL } from "../support/harness.mjs";
import { EVERY_FORM } from "../support/live-forms.mjs";

/** One without a long wait for each of the forms; together, they have every state, harm and act. */
const CASES: Case[] = [
  { harm: "killed", state: "streams", act: "next call" },
  { harm: "stopped", state: "streams", act: "timeout" },
  { harm: "stopped", state: "rests", act: "close" },
  { harm: "stopped", state: "waits for a result", act: "abort" },
  { harm: "stopped", state: "waits for the API", act: "abort" },
  { harm: "starved", state: "streams", act: "next call" },
  { harm: "killed", state: "rests", act: "next call" },
  { harm: "killed", state: "waits for the API", act: "close" },
];
/**
 * Which of them each form has: all forms one each, or those that start in less time the others', too. What meets qwen, copilot, gemini and
 * opencode is the code that meets codex and grok; that a claude which is killed in its answer is told and replaced, its own tests have.
 */
const SAMPLE = { codex: [0, 1, 2, 3, 5, 6], grok: [4, 7] };
const FORMS = EVERY_FORM.flatMap((form, at) => {
  const own = ALL ? [at] : (Object.entries(SAMPLE).find(([name]) => form.name.startsWith(name))?.[1] ?? []);
  return own.length > 0 ? [{ form, name: form.name, cases: CASES.filter((_, index) => own.includes(index)) }] : [];
});

describe.skipIf(!HERE)("calls whose process is stopped, starved or killed", { timeout: 300_000 }, () => {
  it.each(FORMS)("$name", async ({ form, cases }) => {
    const { wrong } = await runCases(form, cases);
    expect(wrong).toEqual([]);
  });
});
