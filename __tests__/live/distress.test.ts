// @change
/** Kept processes that are stopped, starved or killed: each form once. `distress-table.test.ts` has every state and everything that is done about it. */
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { type Case, runCases } from "../support/distress.mjs";
import { EVERY_FORM } from "../support/live-forms.mjs";

/** One without a long wait for each form; together, they have every state, harm and act. */
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
const FORMS = EVERY_FORM.map((form, at) => ({ form, name: form.name, cases: CASES.slice(at, at + 1) }));

describe.skipIf(!HERE)("calls whose process is stopped, starved or killed", { timeout: 300_000 }, () => {
  it.each(FORMS)("$name", async ({ form, cases }) => {
    const { wrong } = await runCases(form, cases);
    expect(wrong).toEqual([]);
  });
});
